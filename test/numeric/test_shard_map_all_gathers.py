"""All-gathers under `jax.shard_map` that a loop repeats are done once, before it: the values are right."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from numeric.user_steps import MICRO_BATCHES, integers
from programs.program import mesh_of

import paropt
from paropt.audit import audit

MESH = mesh_of(None, replica=2, data=4)
LAYERS, WIDTH = 3, 16
W = np.asarray(integers(LAYERS, WIDTH, WIDTH, seed=0), np.float32) % 2
BATCHES = np.asarray(integers(MICRO_BATCHES, 16, WIDTH, seed=1), np.float32) % 2
SHARDED, EXAMPLES = PartitionSpec(None, "data"), PartitionSpec(None, ("replica", "data"))

Step = Callable[[Any, Any], jax.Array]


def gathered(layer: jax.Array, axis: int = 0) -> jax.Array:
    return lax.all_gather(layer, "data", axis=axis, tiled=True)


def scanned(x: jax.Array, layers: jax.Array) -> jax.Array:
    """A remainder keeps numbers so small that f32 holds every sum."""
    return lax.scan(lambda x, layer: ((x @ gathered(layer)) % 3, None), x, layers)[0]


def checkpointed(x: jax.Array, layers: jax.Array) -> jax.Array:
    return lax.scan(jax.checkpoint(lambda x, layer: ((x @ gathered(layer)) % 3, None)), x, layers)[0]


def unrolled(x: jax.Array, layers: jax.Array) -> jax.Array:
    for layer in layers:
        x = (x @ gathered(layer)) % 3
    return x


def turned(x: jax.Array, layers: jax.Array) -> jax.Array:
    return lax.scan(lambda x, layer: ((x @ gathered(layer.T, axis=1)) % 3, None), x, layers)[0]


def stacked_again(x: jax.Array, layers: jax.Array) -> jax.Array:
    """Gathered before the loop over layers, in each micro-batch."""
    return lax.scan(lambda x, layer: ((x @ layer) % 3, None), x, gathered(layers, axis=1))[0]


def backwards(x: jax.Array, layers: jax.Array) -> jax.Array:
    return lax.scan(lambda x, layer: ((x @ gathered(layer)) % 3, None), x, layers, reverse=True)[0]


def in_a_branch(x: jax.Array, layers: jax.Array) -> jax.Array:
    def layer_of(x: jax.Array, both: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, layer = both
        return lax.cond(i == 1, lambda: x, lambda: (x @ gathered(layer)) % 3), None

    return lax.scan(layer_of, x, (jnp.arange(LAYERS), layers))[0]


def rounded(x: jax.Array, layers: jax.Array) -> jax.Array:
    def layer_of(x: jax.Array, layer: jax.Array) -> tuple[jax.Array, None]:
        return jnp.dot(x, gathered(layer.astype(jnp.bfloat16)), preferred_element_type=jnp.float32) % 3, None

    return lax.scan(jax.checkpoint(layer_of), x, layers)[0]


SCATTERED_AT_ONCE = [scanned, checkpointed, turned, stacked_again, backwards]
# What a branch scatters, and what a Python loop over slices of a stack does, stays in the loop.
MODELS = [*SCATTERED_AT_ONCE, unrolled, in_a_branch]
# With bf16 gradients: summed in f32 after the loop they are other, better ones.
CASES = [(model, policy) for model in MODELS for policy in ("gather", "once")] + [(rounded, "gather")]


def gradient(model: Step, w: jax.Array, x: jax.Array) -> jax.Array:
    return lax.psum(jax.grad(lambda w: (model(x, w) ** 2).sum() / 2)(w), "replica")


def accumulated(model: Step) -> Step:
    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        total = lax.scan(lambda acc, x: (acc + gradient(model, w, x), None), jnp.zeros_like(w), batches)[0]
        return w - total / 4

    return mapped(step)


def mapped(step: Step) -> Step:
    return jax.shard_map(step, mesh=MESH, in_specs=(SHARDED, EXAMPLES), out_specs=SHARDED, check_vma=False)


def in_loops(step: Step, policy: str) -> dict[str, int]:
    """How often the program does each kind of collective of parameters in loops."""
    compiled = paropt.jit(step, passes=f"grad-sync{{policy={policy}}}", strict=True).lower(W, BATCHES).compile()
    found = audit(compiled)
    return {kind: found.total(kind).in_loops for kind in ("all-gather", "reduce-scatter")}


@pytest.mark.parametrize(("model", "policy"), CASES, ids=lambda each: getattr(each, "__name__", each))
def test_values_are_the_same_bit_for_bit(model: Step, policy: str) -> None:
    step = accumulated(model)
    passes = f"grad-sync{{policy={policy}}}"
    want = jax.jit(step)(W, BATCHES)
    np.testing.assert_array_equal(want, paropt.jit(step, passes=passes, strict=True)(W, BATCHES))
    remarks = paropt.remarks(paropt.jit(step, passes=passes).lower(W, BATCHES))
    assert any(r.pass_name == "hoist-gathers" and r.applied for r in remarks), [str(r) for r in remarks]
    left = in_loops(step, policy)
    assert left["all-gather"] == 0
    assert policy != "once" or (left["reduce-scatter"] == 0) == (model in SCATTERED_AT_ONCE)


def test_nothing_is_gathered_once_unless_it_is_allowed() -> None:
    step = accumulated(checkpointed)
    text = [paropt.jit(step, passes=f"inline-calls{more}").lower(W, BATCHES).as_text() for more in
            ("", ",hoist-gathers{policy=keep-shards}", ",hoist-gathers{policy=defer}")]  # fmt: skip
    assert text[0] == text[1] == text[2]


def of_steps(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Each step changes the parameter, which is gathered once per step."""

    def update(w: jax.Array, batches: jax.Array) -> tuple[jax.Array, None]:
        add = lambda acc, x: (acc + gradient(checkpointed, w, x), None)  # noqa: E731
        return (w - lax.scan(add, jnp.zeros_like(w), batches)[0]) % 2, None

    return lax.scan(update, w, batches.reshape(2, MICRO_BATCHES // 2, *batches.shape[1:]))[0]


def test_a_step_in_a_loop_gathers_once_per_step() -> None:
    step = mapped(of_steps)
    passes = "grad-sync{policy=once}"
    np.testing.assert_array_equal(jax.jit(step)(W, BATCHES), paropt.jit(step, passes=passes, strict=True)(W, BATCHES))
    shards = W.size * 4  # all layers, gathered over `data`
    assert in_loops(step, "once") == {"all-gather": 2 * shards, "reduce-scatter": 2 * shards}


def in_a_python_loop(w: jax.Array, batches: jax.Array) -> jax.Array:
    """XLA does not see that loops over layers gather the same slices."""
    return sum(gradient(checkpointed, w, x) for x in batches) + w


def one_pass_each_way(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Each step changes the parameter, and gathers each layer again in its backward pass."""
    return lax.scan(lambda w, x: ((w - gradient(checkpointed, w, x)) % 2, None), w, batches)[0]


@pytest.mark.parametrize(("step", "steps"), [(in_a_python_loop, 1), (one_pass_each_way, MICRO_BATCHES)])
def test_loops_that_gather_the_same_slices_share_them(step: Step, steps: int) -> None:
    step = mapped(step)
    passes = "grad-sync{policy=gather}"
    np.testing.assert_array_equal(jax.jit(step)(W, BATCHES), paropt.jit(step, passes=passes, strict=True)(W, BATCHES))
    compiled = [jax.jit(step).lower(W, BATCHES).compile(), paropt.jit(step, passes=passes).lower(W, BATCHES).compile()]
    sent = [audit(each).total("all-gather") for each in compiled]
    assert [total.in_loops + total.outside for total in sent][1] == steps * W.size * 4
    assert sent[0].in_loops == 2 * MICRO_BATCHES * W.size * 4


def changed(w: jax.Array, batches: jax.Array) -> jax.Array:
    return lax.scan(lambda w, x: ((w - gradient(scanned, w, x)) % 2, None), w, batches)[0]


def one_micro_batch(w: jax.Array, batches: jax.Array) -> jax.Array:
    return accumulate_first(w, batches[:1])


def accumulate_first(w: jax.Array, batches: jax.Array) -> jax.Array:
    return lax.scan(lambda acc, x: (acc + gradient(scanned, w, x), None), jnp.zeros_like(w), batches)[0]


def before_the_loop(w: jax.Array, batches: jax.Array) -> jax.Array:
    whole = gathered(w, axis=1)
    return lax.scan(lambda acc, x: (acc + (x @ whole).sum(), None), jnp.float32(0), batches)[0] + w


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (changed, "the loop changes the parameter"),
        (one_micro_batch, "the loop makes no more than one trip"),
        (before_the_loop, "it is done before the loop already"),
    ],
)
def test_a_remark_says_why_a_gather_stays(step: Step, reason: str) -> None:
    step = mapped(step)
    jitted = paropt.jit(step, passes="grad-sync{policy=gather}", strict=True)
    remarks = [r for r in paropt.remarks(jitted.lower(W, BATCHES)) if r.pass_name == "hoist-gathers"]
    assert [r.applied for r in remarks] == [False] * len(remarks)
    assert any(reason in r.text for r in remarks), [str(r) for r in remarks]
    np.testing.assert_array_equal(jax.jit(step)(W, BATCHES), jitted(W, BATCHES))
