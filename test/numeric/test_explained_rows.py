"""Rows of audits whose collectives XLA makes itself, or labels by another op, have a reason that names the op."""

import jax
import pytest
from programs.catalog import LAYERS, MATRIX
from programs.program import Sizes
from unit.clusters import available

import paropt
from paropt.clusters import targets
from paropt.reports.comparison import AuditComparison
from paropt.reports.report_text import NOBODY_LOOKED, NOBODY_SAYS, described, why

# Those of tools/unexplained_rows.py.
SIZES = Sizes(width=128, layers=3, micro_batches=4, examples=64, vocabulary=256, sequence=16, heads=4)
TPU, GPU = "tpu:v5e:2x4", "gpu:h100:1x1x8"


def audited(name: str, target: str, passes: str) -> AuditComparison:
    available(target)
    program = {**MATRIX, **LAYERS}[name](SIZES, targets.get(target).devices)
    report = paropt.audit(program.step, *program.args, passes=passes, targets=[target])
    found: AuditComparison = report[target]
    assert not [row for row in found.rows if why(row, found) in ([NOBODY_SAYS], [NOBODY_LOOKED])]
    return found


def reasons(found: AuditComparison, kind: str, start: str) -> set[str]:
    """Those of the rows of a kind whose arrays begin with `start`."""
    rows = [row for row in found.rows if row.place.kind == kind]
    shown = [(described(row.place, row.after or row.before), row) for row in rows]
    return {reason for text, row in shown if text.startswith(f"{kind} {start}") for reason in why(row, found)}


@pytest.mark.parametrize("name", ["blocks_p18", "explicit_transformer_p6"])
def test_small_parameters_that_tpus_gather_by_all_reduces(name: str) -> None:
    """In nested loops, and before the loop, where XLA keeps no label of it."""
    found = audited(name, TPU, "grad-sync{policy=once}")
    arrays = "f32[128] x 4 x 3" if name == "blocks_p18" else "7 arrays f32[128]"
    said = reasons(found, "all-reduce", arrays)
    assert any("parameters are gathered over data before the loop" in reason for reason in said)
    assert not any("131072 bytes" in reason for reason in said)  # of the matrix that the same line multiplies by


@pytest.mark.parametrize(
    ("target", "passes", "said"),
    [
        (GPU, "grad-sync", "its sum is sharded over `data`, and stays so"),
        (GPU, "grad-sync{policy=once}", "131072 bytes per device, now reduced after the loop and not 4 times in it"),
        (TPU, "grad-sync{policy=once}", "131072 bytes per device, now reduced after the loop and not 4 times in it"),
    ],
)
def test_rows_that_xla_gathers_to_partition_a_scatter(target: str, passes: str, said: str) -> None:
    found = reasons(audited("plain_transformer_p11", target, passes), "all-gather", "f32[256,128] x 4")
    op = f"XLA makes it where it partitions scatter-add, of whose sum: {said}"
    no_label = "XLA does not say where it comes from"  # as that of jax 0.12
    assert any(reason.startswith((op, no_label)) for reason in found)
    assert (found == {no_label}) is (jax.__version_info__ >= (0, 12))
