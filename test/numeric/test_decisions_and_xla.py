"""What `paropt.decisions` counts in loops is what XLA alone gathers and reduces there.

All programs: tools/decisions_and_xla.py, with the reasons of those for which the two differ.
"""

import sys

import pytest
from unit.clusters import available
from unit.scripts import ROOT

sys.path.insert(0, str(ROOT / "tools"))  # its parts import each other

from decisions_and_xla import DIFFER, GATHERED, REDUCED, Count, counts

CPU, TPU, GPU = "cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"
BOTH = (GATHERED, REDUCED)


@pytest.mark.parametrize(
    ("program", "target", "kinds"),
    [
        ("plain_mlp_p1", CPU, BOTH),
        ("plain_mlp_p8", CPU, BOTH),
        ("blocks_p18", CPU, BOTH),
        ("explicit_blocks_p17", CPU, BOTH),
        ("adapters_p21", CPU, BOTH),
        ("plain_mlp_p2", TPU, BOTH),
        ("blocks_p17", TPU, (REDUCED,)),
        ("plain_mlp_p6", GPU, BOTH),
        ("half_blocks_p17", GPU, BOTH),
        ("explicit_mlp_p6", GPU, (GATHERED,)),
        ("llama_p19", GPU, (GATHERED,)),
        ("plain_mlp_p15", GPU, (GATHERED,)),
        ("experts_p20", GPU, BOTH),
    ],
)
def test_counted_is_compiled(program: str, target: str, kinds: tuple[str, ...]) -> None:
    available(target)
    found = {each.what: each for each in counts(program, target)}
    for what in kinds:
        assert found[what].agrees is not bool(found[what].reason), str(found[what])
        assert "blocks" not in program or found[what].compiled, "these gather and reduce in loops"


def test_small_and_close_counts_agree() -> None:
    assert Count("p", CPU, REDUCED, 4096, 0).agrees
    assert not Count("p", CPU, REDUCED, 4097, 0).agrees
    assert Count("p", CPU, REDUCED, 1_000_000, 970_000).agrees
    assert not Count("p", CPU, REDUCED, 1_000_000, 969_000).agrees


def test_a_difference_has_the_reason_of_its_row() -> None:
    assert Count("plain_mlp_p12", GPU, REDUCED, 0, 1 << 20).reason == DIFFER[0].reason
    assert not Count("blocks_p17", GPU, REDUCED, 0, 1 << 20).reason
    assert not Count("half_blocks_p17", GPU, GATHERED, 0, 1 << 20).reason
