"""TPU programs over several slices: what one executable sends to the others, counted by hand."""

import jax
import pytest
from programs.catalog import EXPLICIT
from unit.pyext.clusters.test_targets import available, shapes
from unit.pyext.hlo.test_census import GROUPS, SAVED, facts, rows_of

import paropt
from paropt.hlo.census import census
from paropt.hlo.parser import HloError
from paropt.hlo.participants import Device, Layout
from paropt.passes.sharding.meshes import Mesh
from paropt.reports.target_audits import audit_on
from paropt.reports.totals import Audit


def test_rows_of_real_text_of_two_tpu_slices() -> None:
    """`between_slices` in hlo/generate.py: XLA:TPU compiles for one slice and sends to the other through the host.

    A sum over both axes is one within the slice, one between slices of each device's quarter, and an all-gather. The
    losses have left the loop as one array, padded to 128 elements.
    """
    text = (SAVED / "tpu-v5e-2-slices-jax-0.10.2.txt").read_text()
    devices = tuple(Device(100_000 * (1 + i // 4) + i % 4, i // 4) for i in range(8))
    layout = Layout((Mesh((("slice", 2), ("data", 4)), tuple(range(8))),), devices)
    w = 64 * 64 * 4
    assert [(*facts(row), row.axes) for row in census(text, layout)] == [
        ("all-reduce", 5, 1, w, 4, False, False, ("data",)),
        ("all-reduce", 5, 1, w // 4, 2, False, True, ("slice",)),
        ("all-gather", 5, 1, w, 4, False, False, ("data",)),
        ("all-reduce", 1, 0, 5 * 4, 2, False, True, ("slice",)),
        ("all-gather", 1, 0, 2 * w, 2, False, True, ("slice",)),
        ("reduce-scatter", 1, 0, w, 2, False, True, ("slice",)),
        ("collective-permute", 1, 0, w, 8, False, True, ("slice",)),
        ("all-to-all", 1, 0, w, 2, False, True, ("slice",)),
    ]
    assert census(text)[1].axes == ()
    assert census(text)[1].wire_bytes == w / 4


BETWEEN = """is_host_transfer=true, frontend_attributes={{_xla_host_transfer_handler_name="xla_megascale_runtime",\
_xla_host_transfer_rendezvous="{name}",_xla_megascale_target={target},_xla_megascale_transfer_type="{transfer}"}}"""
PRODUCT, LIST, PAIRS = '"{1,2}x{0:1}"', "{{100000,200000,300000}}", "{{100000->200000},{200000->100000}}"


@pytest.mark.parametrize(
    "transfer, target, kind, payload, group",
    [
        ("ALL_REDUCE", PRODUCT, "all-reduce", 128, 2),
        ("REDUCE_SCATTER", PRODUCT, "reduce-scatter", 128, 2),
        ("ALL_GATHER", PRODUCT, "all-gather", 256, 2),  # what is received
        ("ALL_TO_ALL", LIST, "all-to-all", 128, 3),
        ("ONE_TO_ONE", PAIRS, "collective-permute", 128, 2),
        ("ANOTHER", PRODUCT, "send", 128, 2),
    ],
)
def test_exchanges_between_slices(transfer: str, target: str, kind: str, payload: int, group: int) -> None:
    attributes = BETWEEN.format(name="a_0", target=target, transfer=transfer)
    others = BETWEEN.format(name="b_0", target=target, transfer="ALL_REDUCE")
    rows = rows_of(
        "%t = token[] after-all()",
        f"%s = (f32[8,4]{{1,0}}, u32[], token[]) send(%x, %t), channel_id=2, {attributes}",
        f"%o = (f32[2]{{0}}, u32[], token[]) recv(%t), channel_id=3, {others}",
        f"%r = (f32[16,4]{{1,0}}, u32[], token[]) recv(%t), channel_id=1, {attributes}",
    )
    assert [facts(row) for row in rows] == [(kind, 1, 0, payload, group, False, True)]


def test_padding_of_what_slices_exchange_is_not_counted() -> None:
    """A scalar stays a scalar; an array that was padded, summed within the slice and sent counts as it was before."""
    attributes = BETWEEN.format(name="a_0", target=PRODUCT, transfer="ALL_REDUCE")
    rows = rows_of(
        "%t = token[] after-all()",
        "%p = f32[1,1,128]{2,1,0} bitcast(%z)",
        f"%r = f32[1,1,128]{{2,1,0}} all-reduce(%p), {GROUPS}, to_apply=%sum",
        f"%s = (f32[1,1,128]{{2,1,0}}, u32[], token[]) send(%r, %t), channel_id=2, {attributes}",
        "%c = bf16[6]{0} copy(%y)",
        '%q = bf16[128]{0} custom-call(%c), custom_call_target="ZeroCrop"',
        f"%u = (bf16[128]{{0}}, u32[], token[]) send(%q, %t), channel_id=4, {attributes}",
        '%e = f32[64,4]{1,0} custom-call(%x), custom_call_target="Other"',
        f"%v = (f32[64,4]{{1,0}}, u32[], token[]) send(%e, %t), channel_id=6, {attributes}",
    )
    assert [row.payload for row in rows] == [4, 4, 12, 1024]
    assert Audit(rows, None).scalars.ops == 2


def test_an_exchange_with_devices_that_cannot_be_read_is_refused() -> None:
    line = "%r = token[] send(%x), " + BETWEEN.format(name="", target='"all"', transfer="ALL_REDUCE")
    with pytest.raises(HloError, match="line 13: cannot read replica groups"):
        rows_of(line)


def test_gradients_cross_slices_once() -> None:
    """P10 over two slices of four: XLA:TPU sends a quarter of each device's sum, once per micro-batch or once."""
    target = available("tpu:v5e:2x2:2")
    program = EXPLICIT["mlp_p10"](devices=target.devices)
    runs = {}
    for compile_, times in ((jax.jit, 4), (paropt.jit, 1)):
        found = audit_on(target, compile_(program.step).lower(*shapes(program)))
        across = [row for row in found.collectives if row.axes == ("data:(1)2",)]
        assert {(row.kind, row.group, row.executions) for row in across} == {("all-reduce", 2, times)}
        assert sum(row.payload for row in across) == program.gradient_bytes // 4
        within = [row for row in found.collectives if row.axes == ("data:(2)4",)]
        assert sum(row.payload for row in within if row.kind == "all-reduce") == program.gradient_bytes
        runs[times] = len(found.collectives)
    assert runs[1] == runs[4]
