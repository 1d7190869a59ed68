"""Remarks as users read them: the summary adds up, inlining is silent, and a program with nothing to do is told so."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from modules import parsed
from numeric.user_steps import BYTES, CLASSES, EXAMPLES, MESH, MICRO_BATCHES, WIDTH, accumulated, integers, placed

import paropt
from paropt.modules.summary import Remarks
from paropt.passes.support.remarks import Remark, merged
from paropt.passes.support.sources import Source

W = placed(integers(WIDTH, CLASSES, seed=0))
BOTH = BYTES + 4 * WIDTH  # a gradient, and a maximum of each feature
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data")


@jax.jit
def loss(w: jax.Array, x: jax.Array) -> jax.Array:
    return (jnp.maximum(x @ w, 0) ** 2).sum() / 2


def scanned(w: jax.Array, batches: jax.Array) -> jax.Array:
    return accumulated(jax.grad(loss), w, batches)


def unrolled(w: jax.Array, batches: jax.Array) -> jax.Array:
    return sum(jax.grad(loss)(w, batches[i]) for i in range(MICRO_BATCHES))


def nested(w: jax.Array, batches: jax.Array) -> jax.Array:
    def outer(total: jax.Array, some: jax.Array) -> tuple[jax.Array, None]:
        return total + accumulated(jax.grad(loss), w, some), None

    return lax.scan(outer, jnp.zeros_like(w), jnp.stack([batches, batches, batches]))[0]


def with_a_maximum(w: jax.Array, batches: jax.Array) -> tuple[jax.Array, jax.Array]:
    def trip(carry: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        return (carry[0] + jax.grad(loss)(w, x), jnp.maximum(carry[1], jnp.max(x, axis=0))), None

    return lax.scan(trip, (jnp.zeros_like(w), jnp.zeros(WIDTH)), batches)[0]


def maximum_in_two_loops(w: jax.Array, batches: jax.Array) -> jax.Array:
    def outer(m: jax.Array, sign: jax.Array) -> tuple[jax.Array, None]:
        return lax.scan(lambda m, x: (jnp.maximum(m, jnp.max(sign * x, axis=0)), None), m, batches)[0], None

    return lax.scan(outer, jnp.zeros(WIDTH), jnp.asarray([-1.0, 0.0, 1.0]))[0]


def read_in_each_trip(w: jax.Array, batches: jax.Array) -> jax.Array:
    def trip(w: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return w - jnp.tanh(jax.grad(loss)(w, x)), None

    return lax.scan(trip, w, batches)[0]


def in_a_block(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Its loop is in a block under shard_map, out of which the sum is taken."""

    def block(w: jax.Array, batches: jax.Array) -> jax.Array:
        def trip(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return total + lax.psum(jax.grad(loss)(w, x), "data"), None

        return lax.scan(trip, jnp.zeros_like(w), batches)[0]

    sharded = jax.shard_map(block, mesh=MESH, in_specs=(P(), P(None, "data")), out_specs=P(), check_vma=False)
    return 2 * sharded(w, batches)


CONVERT = "a convert from f32 to bf16 loses precision (option convert=any allows it)"


def declined(line: int, text: str, op: str = "sdy.all_reduce") -> Remark:
    return Remark("defer-sync", op, Source("/a/loss.py", line, 3, "while/body/add"), applied=False, text=text)


def test_what_is_declined_for_one_reason_is_one_line_and_the_option_comes_first() -> None:
    blamed = [f"{CONVERT} (stablehlo.convert at /a/loss.py:{n}:9 (transpose(jvp())/mul))" for n in range(11)]
    found = Remarks(
        [*(declined(n, text) for n, text in enumerate(blamed, 1)), declined(40, "it is read", "stablehlo.add")]
    )
    first, other = str(found).splitlines()[1:]
    assert first == (
        "/a/loss.py:1:3: remark: [defer-sync] sdy.all_reduce missed: option convert=any allows it: a convert from f32 to "
        "bf16 loses precision (stablehlo.convert at /a/loss.py:0:9 (transpose(jvp())/mul)) (while/body/add) "
        "(11 times; also at loss.py:2, loss.py:3, loss.py:4, ...)"
    )
    assert other == "/a/loss.py:40:3: remark: [defer-sync] stablehlo.add missed: it is read (while/body/add)"
    two = Remarks([declined(1, "it is read"), declined(2, "it is written"), declined(1, "it is read")])
    assert [line.endswith("(2 times; also at loss.py:1)") for line in str(two).splitlines()[1:]] == [True, False]


def told(step: Callable[..., Any], *args: Any, passes: str = "grad-sync") -> Remarks:
    return paropt.remarks(paropt.jit(step, passes=passes).lower(*args))


@pytest.mark.parametrize(
    "step, summary",
    [
        (scanned, f"1 of 1 reduced array leaves the loop: {BYTES} B x {MICRO_BATCHES} -> {BYTES} B x 1"),
        (nested, f"1 of 1 reduced array leaves the loop: {BYTES} B x {3 * MICRO_BATCHES} -> {BYTES} B x 1"),
        (in_a_block, f"1 of 1 reduced array leaves the loop: {BYTES} B x {MICRO_BATCHES} -> {BYTES} B x 1"),
        (with_a_maximum, f"2 of 2 reduced arrays leave the loop: {BOTH} B x {MICRO_BATCHES} -> {BOTH} B x 1"),
        (
            maximum_in_two_loops,
            f"1 of 1 reduced array leaves the loop: {4 * WIDTH} B x {3 * MICRO_BATCHES} -> {4 * WIDTH} B x 1",
        ),
        (unrolled, f"{MICRO_BATCHES} reduced arrays become 1: {MICRO_BATCHES * BYTES} B -> {BYTES} B"),
        (read_in_each_trip, "0 of 1 reduced array leaves the loop"),
    ],
)
def test_the_summary_comes_first_and_adds_up(step: Callable[..., Any], summary: str) -> None:
    remarks = told(step, W, BATCHES)
    assert remarks.summary == summary
    lines = str(remarks).splitlines()
    assert lines[0] == summary
    assert len(lines) == 1 + len(remarks.shown)


def test_an_array_that_leaves_a_partly_manual_block_and_two_loops_is_one() -> None:
    mesh = jax.make_mesh((4, 2), ("data", "stage"), axis_types=(AxisType.Auto,) * 2)
    block = jax.shard_map(scanned, mesh=mesh, in_specs=(P(), P()), out_specs=P(), axis_names={"stage"}, check_vma=False)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        return lax.scan(lambda total, some: (total + block(w, some), None), jnp.zeros_like(w), batches)[0]

    weights = jax.device_put(np.asarray(W), NamedSharding(mesh, P()))
    batches = jax.device_put(np.stack([WHOLE] * 3), NamedSharding(mesh, P(None, None, "data")))
    remarks = told(step, weights, batches)
    assert remarks.summary == f"1 of 1 reduced array leaves the loop: {BYTES} B x {3 * MICRO_BATCHES} -> {BYTES} B x 1"
    assert len({remark.source for remark in remarks if remark.saved is not None}) == 1


def test_each_array_is_told_once_and_inlining_not_at_all() -> None:
    remarks = told(scanned, W, BATCHES)
    assert {"inline-calls", "annotate-unreduced"} <= {remark.pass_name for remark in remarks}
    assert [remark.pass_name for remark in remarks.shown] == ["defer-sync"]
    assert remarks.matching("^inline-").summary == ""
    assert {remark.pass_name for remark in remarks.matching("^inline-|defer")} == {"inline-calls", "defer-sync"}


def test_a_pattern_that_is_no_regular_expression() -> None:
    with pytest.raises(ValueError) as raised:
        Remarks().matching("expose(")
    assert str(raised.value) == (
        "Remarks.matching: 'expose(' is no regular expression: missing ), unterminated subpattern at position 6"
    )


def test_merged_remarks_carry_counts() -> None:
    remark = Remark("a-pass", "stablehlo.add", Source("f.py", 1, 2, ""), applied=True, text="done")
    (one,) = merged([remark, remark, remark])
    assert one.count == 3 and str(one) == "f.py:1:2: remark: [a-pass] stablehlo.add applied: done (3 times)"
    assert [each.count for each in merged([one, remark])] == [4]


WHOLE = np.asarray(BATCHES)
NOTHING = "the program has nothing to synchronise: "


@pytest.mark.parametrize(
    "args, reason",
    [
        ((np.asarray(W), WHOLE), "it is for one device: no argument is sharded over several"),
        (
            (W, placed(WHOLE.repeat(2, 0), "data")),
            "argument 1 (batches) is sharded over data along dimension 0, of which a loop takes one element in each trip: "
            'to give each device examples of every micro-batch, shard it as P(None, "data")',
        ),
        ((W, placed(WHOLE)), "no argument is sharded: each device does all of the work"),
    ],
    ids=["one device", "micro-batches sharded", "replicated"],
)
def test_one_remark_when_there_is_nothing_to_do(args: tuple[Any, ...], reason: str) -> None:
    remarks = told(scanned, *args)
    assert [remark.text for remark in remarks if remark.pass_name == "paropt"] == [NOTHING + reason]
    assert remarks.summary == ""
    assert told(scanned, *args, passes="inline-calls").matching("paropt") == ()


def test_examples_sharded_as_well_are_no_mistake() -> None:
    """Context parallelism, or a mesh axis for each: something is summed over devices."""
    both = jax.make_mesh((4, 2), ("steps", "data"), axis_types=(AxisType.Auto,) * 2)
    batches = jax.device_put(WHOLE, NamedSharding(both, P("steps", "data")))
    weights = jax.device_put(np.asarray(W), NamedSharding(both, P()))
    assert told(scanned, weights, batches).matching("paropt") == ()


def test_other_loops_are_no_loops_over_micro_batches() -> None:
    """A table that is looked up at computed rows is read by a gather; a constant index takes no turns."""
    from paropt.passes.spmd.unsynced import misplaced_arguments

    text = """
      module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
      sdy.mesh @mesh = <["data"=8]>
      func.func public @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<i32>) -> tensor<1x4xf32> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %r = stablehlo.dynamic_slice %x, INDEX, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
        return %r : tensor<1x4xf32>
      } }"""
    found = {}
    for index in ("%zero", "%i"):
        module = parsed(text.replace("INDEX", index))
        found[index] = [each.dimension for each in misplaced_arguments(module.operation)]
    assert found == {"%zero": [], "%i": [0]}
    assert MESH.shape == {"data": 8}


def test_a_sum_over_an_axis_of_size_1_is_no_sum() -> None:
    """As in Levanter's loss, which sums over all axes of its mesh, replicas among them."""
    mesh = jax.make_mesh((1, 8), ("replica", "data"), axis_types=(AxisType.Auto,) * 2)

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def loss(w: jax.Array, x: jax.Array) -> jax.Array:
            return lax.psum(((x @ w) ** 2).sum(), "replica")

        mapped = jax.shard_map(loss, mesh=mesh, in_specs=(P(), P()), out_specs=P(), check_vma=False)
        return lax.scan(lambda total, x: (total + mapped(w, x), None), jnp.float32(0), batches)[0]

    weights = jax.device_put(np.asarray(W), NamedSharding(mesh, P()))
    remarks = told(step, weights, jax.device_put(WHOLE, NamedSharding(mesh, P())))
    assert [remark for remark in remarks.shown if remark.pass_name != "paropt"] == [] and remarks.summary == ""


def test_a_remark_names_the_pass_that_decided() -> None:
    moved = [remark.pass_name for remark in told(in_a_block, W, BATCHES) if remark.saved is not None]
    assert moved == ["separate-reductions"]


def test_the_op_that_keeps_a_reduction_is_told_first() -> None:
    def clipped(w: jax.Array, batches: jax.Array) -> jax.Array:
        def trip(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            first, second = jax.grad(loss)(w, x), jax.grad(loss)(w, -x)
            norm = jnp.sqrt(jnp.sum(first**2) + jnp.sum(second**2))
            return total + (first + second) / jnp.maximum(norm, 1), None

        return lax.scan(trip, jnp.zeros_like(w), batches)[0]

    summary, first, *_ = str(paropt.remarks(paropt.jit(clipped).lower(W, BATCHES))).splitlines()
    assert summary.startswith("0 of ")
    assert "[defer-sync] sdy.all_reduce missed: " in first and " is also read by stablehlo." in first
