"""Hoisted all-gathers: parameters of scanned layers are gathered once per step, before the loop, if allowed."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.user_steps import MICRO_BATCHES, integers, placed
from programs.catalog import LAYERS
from programs.compare import CLOSE, CLOSE_IN_BF16, difference_from_definition
from programs.program import Program, Sizes, mesh_of
from unit.clusters import available

import paropt
from paropt.audit import audit
from paropt.clusters.targets import get

SIZES = Sizes(width=32)
# Stacked, of f32: a norm's scale, and two matrices.
PARAMETERS = SIZES.layers * (SIZES.width + 4 * SIZES.width**2) * 4
KINDS = ("all-gather", "reduce-scatter", "all-reduce")


def built(name: str, target: str) -> Program:
    return LAYERS[name](SIZES, devices=get(target).devices or None)


def sent(program: Program, policy: str, target: str) -> dict[str, tuple[int, float]]:
    """By the kind of collective: bytes of arrays in loops, and bytes on the wire, per device and step."""
    passes = f"grad-sync{{policy={policy}}}"
    report = audit(program.step, *program.args, passes=passes, targets=[target])[target]
    totals = {kind: report.after.total(kind) for kind in KINDS}
    return {kind: (total.in_loops, total.wire) for kind, total in totals.items()}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("policy", ["gather", "once"])
def test_values(name: str, policy: str) -> None:
    program = LAYERS[name]()
    found = paropt.jit(program.step, passes=f"grad-sync{{policy={policy}}}", strict=True)(*program.args)
    close = CLOSE_IN_BF16 if "half" in name else CLOSE
    assert difference_from_definition(program, found) <= close


@pytest.mark.parametrize("name", ["blocks_p17", "explicit_blocks_p17", "explicit_blocks_p18"])
def test_gathering_alone_changes_no_bit(name: str) -> None:
    """Sums are taken in the same order; without a bf16 that the compiler may compute in f32 for a while."""
    program = LAYERS[name]()
    shards, gathered = (
        paropt.jit(program.step, passes=f"grad-sync{{policy={policy}}}", strict=True)(*program.args)
        for policy in ("keep-shards", "gather")
    )
    jax.tree.map(np.testing.assert_array_equal, shards, gathered)


@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("form", ["", "explicit_"])
@pytest.mark.parametrize("name, axis", [("half_blocks_p17", 8), ("half_blocks_p18", 4)])
def test_each_parameter_is_gathered_once(name: str, axis: int, form: str, target: str) -> None:
    """And each gradient is reduced once, with `policy=once`; nothing of both is left in the loop."""
    available(target)
    program = built(form + name, target)
    found = sent(program, "once", target)
    narrow = 1 if target == "cpu:8" else 2  # XLA:CPU gathers f32 in place of bf16
    assert {kind: in_loops for kind, (in_loops, _) in found.items()} == dict.fromkeys(KINDS, 0)
    assert found["all-gather"][1] == PARAMETERS / narrow * (1 - 1 / axis)
    kept = sent(program, "keep-shards", target)
    assert found["all-gather"][1] <= kept["all-gather"][1] / (2 * SIZES.micro_batches) * (2 if narrow == 2 else 1)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("name", ["half_blocks_p17", "explicit_half_blocks_p17"])
def test_gradients_are_scattered_as_without(name: str, target: str) -> None:
    """To hold parameters whole is not to hold sums whole: how these are sharded is not read off a gathered parameter."""
    available(target)
    program = built(name, target)
    kept, gathered = (sent(program, policy, target) for policy in ("keep-shards", "gather"))
    for kind in ("reduce-scatter", "all-reduce"):
        assert gathered[kind][0] <= kept[kind][0]
        assert gathered[kind][1] <= kept[kind][1]
    assert gathered["all-gather"][0] == 0


MESH = mesh_of(None, data=4, model=2)
PIPELINE = "inline-calls,hoist-gathers,grad-sync"


def on_mesh(array: np.ndarray, *spec: str | None) -> jax.Array:
    return jax.device_put(array, NamedSharding(MESH, PartitionSpec(*spec)))


def test_tensor_parallel_axes_stay() -> None:
    """Only what `data` shards is gathered."""

    def step(w: jax.Array, v: jax.Array, batches: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(both: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
            hidden = lax.with_sharding_constraint(x @ both[0], NamedSharding(MESH, PartitionSpec("data", "model")))
            return ((hidden @ both[1]) ** 2).sum() / 2

        def body(total, x):
            return jax.tree.map(jnp.add, total, jax.grad(loss)((w, v), x)), None

        return lax.scan(body, (jnp.zeros_like(w), jnp.zeros_like(v)), batches)[0]

    w, v = on_mesh(integers(8, 8, seed=0) % 3, "data", "model"), on_mesh(integers(8, 8, seed=1) % 3, "model", "data")
    batches = on_mesh(integers(4, 8, 8, seed=2) % 3, None, "data")
    want, got = jax.jit(step)(w, v, batches), paropt.jit(step, passes=PIPELINE, strict=True)(w, v, batches)
    jax.tree.map(np.testing.assert_array_equal, want, got)
    text = paropt.jit(step, passes="inline-calls,hoist-gathers").lower(w, v, batches).as_text()
    gathered = re.findall(r"sdy.sharding_constraint %arg\d <@mesh, (.*)> :", text)
    assert sorted(gathered) == ['[{"model"}, {}]', '[{}, {"model"}]']


W = placed(integers(16, 16, seed=0), "data")
BATCHES = placed(integers(MICRO_BATCHES, 16, 16, seed=1), None, "data")


def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.grad(lambda w: ((x @ w) ** 2).sum() / 2)(w)


def read_in_a_branch(w: jax.Array, batches: jax.Array) -> jax.Array:
    def body(acc, each):
        i, x = each
        return acc + lax.cond(i % 2 == 0, lambda: gradient(w, x), lambda: jnp.zeros_like(w)), None

    return lax.scan(body, jnp.zeros_like(w), (jnp.arange(MICRO_BATCHES), batches))[0]


def read_by_a_condition(w: jax.Array, batches: jax.Array) -> jax.Array:
    """The loop's own condition reads it, too."""

    def test(state):
        i, _ = state
        return (i < MICRO_BATCHES) & (jnp.abs(w).max() >= 0)

    def body(state):
        i, acc = state
        return i + 1, acc + gradient(w, batches[i])

    return lax.while_loop(test, body, (0, jnp.zeros_like(w)))[1]


def twice_in_one_product(w: jax.Array, batches: jax.Array) -> jax.Array:
    return lax.scan(lambda acc, x: (acc + gradient(w, x + x @ w), None), jnp.zeros_like(w), batches)[0]


def in_two_loops(w: jax.Array, batches: jax.Array) -> jax.Array:
    first = lax.scan(lambda acc, x: (acc + gradient(w, x), None), jnp.zeros_like(w), batches)[0]
    return first + lax.scan(lambda acc, x: (acc + gradient(w, 2 * x), None), jnp.zeros_like(w), batches)[0]


@pytest.mark.parametrize("step", [read_in_a_branch, read_by_a_condition, twice_in_one_product, in_two_loops])
@pytest.mark.parametrize("dtype", ["program", "f32"])
def test_values_are_the_same_bit_for_bit(step, dtype) -> None:
    passes = f"inline-calls,hoist-gathers{{gather-dtype={dtype}}},grad-sync"
    want = jax.jit(step)(W % 2, BATCHES % 2)
    remarks = paropt.remarks(paropt.jit(step, passes=passes).lower(W % 2, BATCHES % 2))
    assert any(r.pass_name == "hoist-gathers" and r.applied for r in remarks), [str(r) for r in remarks]
    np.testing.assert_array_equal(want, paropt.jit(step, passes=passes, strict=True)(W % 2, BATCHES % 2))


def test_a_narrow_type_rounds_what_is_gathered_only() -> None:
    """`gather-dtype=bf16` is as if the program had converted its parameters, and back."""

    def step(w, batches):
        return lax.scan(lambda acc, x: (acc + gradient(w, x), None), jnp.zeros_like(w), batches)[0]

    w = placed(np.asarray(integers(16, 16, seed=0), np.float32) + 2.0**-12, "data")  # one that bf16 lacks
    rounded = w.astype(jnp.bfloat16).astype(jnp.float32)
    got = paropt.jit(step, passes="inline-calls,hoist-gathers{gather-dtype=bf16}", strict=True)(w, BATCHES)
    np.testing.assert_array_equal(jax.jit(step)(rounded, BATCHES), got)
    assert not np.array_equal(jax.jit(step)(w, BATCHES), got)


def of_steps(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Each step changes the parameter: what is gathered in front of the inner loop, XLA would gather again in it."""

    def update(w, batches):
        total, _ = lax.scan(lambda acc, x: (acc + gradient(w, x), None), jnp.zeros_like(w), batches)
        return w - total, None

    return lax.scan(update, w, batches.reshape(2, MICRO_BATCHES // 2, *batches.shape[1:]))[0]


def of_one_batch(w: jax.Array, batches: jax.Array) -> jax.Array:
    """The examples are the same in each trip, and the parameter is not."""

    def body(w, _):
        return lax.with_sharding_constraint(w - gradient(w, batches[0]), W.sharding) % 2, None

    return lax.scan(body, w, None, length=MICRO_BATCHES)[0]


def of_a_data_set(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Micro-batches are looked up in all examples."""
    examples = lax.with_sharding_constraint(batches.reshape(-1, 16), W.sharding)

    def body(acc, i):
        return acc + gradient(w, lax.with_sharding_constraint(examples[jnp.arange(16) * 3 + i], W.sharding)), None

    return lax.scan(body, jnp.zeros_like(w), jnp.arange(MICRO_BATCHES))[0]


@pytest.mark.parametrize("step", [of_steps, of_one_batch, of_a_data_set])
def test_examples_are_no_parameters(step) -> None:
    """Neither they nor what gathers nothing less are gathered: no policy sends more for it."""
    args = W % 2, BATCHES % 2
    want = jax.jit(step)(*args)
    sizes = {}
    for policy in ("keep-shards", "gather"):
        ours = paropt.jit(step, passes=f"grad-sync{{policy={policy}}}", strict=True)
        np.testing.assert_array_equal(want, ours(*args))
        found = audit(ours.lower(*args).compile())
        sizes[policy] = sum(c.wire_bytes * (c.executions or 1) for c in found.collectives)
    assert sizes["gather"] <= sizes["keep-shards"]


def unrolled(parameters: tuple[jax.Array, jax.Array], batches: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Scanned layers and a head, micro-batch after micro-batch in Python."""

    def loss(parameters: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
        h = lax.scan(jax.checkpoint(lambda h, w: ((h @ w) % 3, None)), x, parameters[0])[0]
        return ((h @ parameters[1]) ** 2).sum() / 2

    total = jax.tree.map(jnp.zeros_like, parameters)
    for i in range(MICRO_BATCHES):
        total = jax.tree.map(jnp.add, total, jax.grad(loss)(parameters, batches[i]))
    return jax.tree.map(jnp.subtract, parameters, total)


@pytest.mark.parametrize("policy, in_loops", [("keep-shards", 3), ("gather", 3), ("once", 0)])
def test_rolled_micro_batches_are_as_a_loop(policy: str, in_loops: int) -> None:
    """Of a loop that was unrolled, the body reads parameters from outside."""
    args = (placed(integers(2, 16, 16, seed=0) % 3, None, "data"), W % 3), BATCHES % 3
    ours = paropt.jit(unrolled, passes=f"roll-accumulation,grad-sync{{policy={policy} scatters=written}}", strict=True)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(unrolled)(*args), ours(*args))
    found = audit(ours.lower(*args))
    size = 4 * 16 * 16
    gathers, scatters = found.total("all-gather"), found.total("reduce-scatter")
    assert (gathers.in_loops == 0) == (policy != "keep-shards")
    assert gathers.outside == 3 * size or policy == "keep-shards"
    assert (scatters.in_loops, scatters.outside) == (in_loops * MICRO_BATCHES * size, (3 - in_loops) * size)
