"""Loop fusion: of one backward pass of a loss that is summed in a loop, JAX makes two loops, which become one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from numeric.test_training_programs import assert_close
from programs.program import Tree, mesh_of

import paropt
from paropt.passes.support.remarks import Remark

FUSE = "inline-calls,fuse-loops"
COUNT, ROWS, WIDTH = 8, 64, 16
MESH = mesh_of(None, data=8)
SPLIT = PartitionSpec(None, "data")

Loss = Callable[[Tree, jax.Array], jax.Array]


def integers(seed: int, *shape: int) -> jax.Array:
    """Small, so that sums are exact in whatever order."""
    return jnp.array(np.random.default_rng(seed).integers(-1, 2, shape), jnp.float32)


WEIGHTS = [integers(i, WIDTH, WIDTH) for i in range(2)]
BATCHES = integers(9, COUNT, ROWS, WIDTH)
KEY = jax.random.PRNGKey(3)


def loss(weights: Tree, batch: jax.Array) -> jax.Array:
    for weight in weights:
        batch = jnp.maximum(batch @ weight, 0)
    return jnp.sum(batch)


def stacked_losses(weights: Tree, batches: jax.Array) -> jax.Array:
    return jnp.mean(lax.scan(lambda c, batch: (c, loss(weights, batch)), 0, batches)[1])


def mapped_losses(weights: Tree, batches: jax.Array) -> jax.Array:
    return jnp.sum(lax.map(lambda batch: loss(weights, batch), batches))


def running_loss(weights: Tree, batches: jax.Array) -> jax.Array:
    start: Any = 0.0
    return lax.scan(lambda total, batch: (total + loss(weights, batch), None), start, batches)[0] / COUNT


def counted_loss(weights: Tree, batches: jax.Array) -> jax.Array:
    def body(i: Any, total: jax.Array) -> jax.Array:
        return total + loss(weights, lax.dynamic_index_in_dim(batches, i, keepdims=False))

    return lax.fori_loop(0, COUNT, body, 0.0)


def scanned_layers(weights: Tree, batches: jax.Array) -> jax.Array:
    def deep(batch: jax.Array) -> jax.Array:
        return jnp.sum(lax.scan(lambda x, w: (jnp.maximum(x @ w, 0), None), batch, jnp.stack(weights))[0])

    return jnp.sum(lax.map(deep, batches))


def groups_of_micro_batches(weights: Tree, batches: jax.Array) -> jax.Array:
    """A loop in a loop, for forward and for backward passes: what is kept has two dimensions more."""
    grouped = batches.reshape(2, COUNT // 2, *batches.shape[1:])
    return jnp.sum(lax.map(lambda group: jnp.sum(lax.map(lambda batch: loss(weights, batch), group)), grouped))


def some_activations_computed_again(weights: Tree, batches: jax.Array) -> jax.Array:
    saved = jax.checkpoint(loss, policy=jax.checkpoint_policies.dots_saveable)
    return jnp.sum(lax.map(lambda batch: saved(weights, batch), batches))


def dropout(weights: Tree, batches: jax.Array) -> jax.Array:
    def body(key: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        key, own = jax.random.split(key)
        return key, loss(weights, batch * jax.random.bernoulli(own, 0.5, batch.shape))

    return jnp.sum(lax.scan(body, KEY, batches)[1])


def running_statistic(weights: Tree, batches: jax.Array) -> jax.Array:
    """The forward pass of a micro-batch may depend on those before it; its backward pass may not."""

    def body(seen: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        return seen + jnp.sum(batch, axis=0), loss(weights, batch - seen)

    return jnp.sum(lax.scan(body, jnp.zeros(WIDTH), batches)[1])


def recurrent(weights: Tree, batches: jax.Array) -> jax.Array:
    """The state that is handed on has a gradient: backward passes depend on each other."""

    def body(state: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jnp.tanh(state @ weights[0] + batch @ weights[1])
        return state, jnp.sum(state)

    return jnp.sum(lax.scan(body, jnp.zeros((BATCHES.shape[1], WIDTH)), batches)[1])


def weighted_by_the_total(weights: Tree, batches: jax.Array) -> jax.Array:
    """What every backward pass is scaled by is known after the last forward pass."""

    def body(totals: Tree, batch: jax.Array) -> tuple[Tree, None]:
        return (totals[0] + loss(weights, batch), totals[1] + jnp.sum(batch > 0)), None

    start: Tree = (0.0, 0)
    total, tokens = lax.scan(body, start, batches)[0]
    return total / tokens


FUSED: list[Loss] = [
    stacked_losses,
    mapped_losses,
    running_loss,
    counted_loss,
    scanned_layers,
    groups_of_micro_batches,
    some_activations_computed_again,
    dropout,
    running_statistic,
]


def plain(each: Loss) -> Callable[..., Tree]:
    def step(weights: Tree, batches: jax.Array) -> Tree:
        return jax.value_and_grad(each)(weights, batches)

    return step


def explicit(each: Loss) -> Callable[..., Tree]:
    def step(weights: Tree, batches: jax.Array) -> Tree:
        return lax.psum(jax.value_and_grad(each)(weights, batches), "data")

    return jax.shard_map(step, mesh=MESH, in_specs=(PartitionSpec(), SPLIT), out_specs=PartitionSpec(), check_vma=False)


def explicit_in_the_loop(each: Loss) -> Callable[..., Tree]:
    """JAX itself sums the gradient over devices, in each backward pass."""

    def step(weights: Tree, batches: jax.Array) -> Tree:
        return jax.value_and_grad(lambda w: lax.psum(each(w, batches), "data"))(weights)

    return jax.shard_map(step, mesh=MESH, in_specs=(PartitionSpec(), SPLIT), out_specs=PartitionSpec())


BATCHES_SPLIT = jax.device_put(BATCHES, NamedSharding(MESH, SPLIT))
WEIGHTS_SPLIT = jax.device_put(WEIGHTS, NamedSharding(MESH, PartitionSpec()))


def remarks_of(step: Any) -> list[Remark]:
    return [r for r in paropt.remarks(step.lower(WEIGHTS_SPLIT, BATCHES_SPLIT)) if r.pass_name == "fuse-loops"]


def temporary(step: Any) -> int:
    return int(step.lower(WEIGHTS_SPLIT, BATCHES_SPLIT).compile().memory_analysis().temp_size_in_bytes)


@pytest.mark.parametrize("form", [plain, explicit])
@pytest.mark.parametrize("each", FUSED, ids=lambda value: value.__name__)
def test_loops_become_one(form: Callable[[Loss], Callable[..., Tree]], each: Loss) -> None:
    step = form(each)
    before, after = jax.jit(step), paropt.jit(step, passes=FUSE, strict=True)
    assert sum(r.applied for r in remarks_of(after)) == (2 if each is groups_of_micro_batches else 1)
    assert_close(before(WEIGHTS_SPLIT, BATCHES_SPLIT), after(WEIGHTS_SPLIT, BATCHES_SPLIT), 0.0)


@pytest.mark.parametrize("each", [recurrent, weighted_by_the_total], ids=lambda value: value.__name__)
def test_backward_passes_that_must_wait_stay(each: Loss) -> None:
    lowered = [paropt.jit(plain(each), passes=p, strict=True).lower(WEIGHTS, BATCHES) for p in ("inline-calls", FUSE)]
    assert lowered[0].as_text() == lowered[1].as_text()
    (remark,) = remarks_of(paropt.jit(plain(each), passes=FUSE, strict=True))
    expected: dict[Loss, str] = {
        recurrent: "its trips depend on each other",
        weighted_by_the_total: "computed from results",
    }
    assert expected[each] in remark.text and not remark.applied


@pytest.mark.parametrize("form", [plain, explicit, explicit_in_the_loop])
def test_less_memory_and_one_reduction_per_gradient(form: Callable[[Loss], Callable[..., Tree]]) -> None:
    step = form(stacked_losses)
    as_is = jax.jit(step)
    apart, fused = (paropt.jit(step, passes=p, strict=True) for p in ("grad-sync", f"{FUSE},grad-sync"))
    now = paropt.audit(fused.lower(WEIGHTS_SPLIT, BATCHES_SPLIT))
    gradients = sum(weight.nbytes for weight in WEIGHTS)
    assert now.sync_in_loop == 0
    assert gradients <= now.sync_bytes <= gradients + 4 * COUNT, "more than the gradients and the losses"
    kept = COUNT * ROWS // 8 * WIDTH * 4  # one activation of all micro-batches, on one device
    assert temporary(fused) <= min(temporary(as_is), temporary(apart)) - kept
    assert_close(as_is(WEIGHTS_SPLIT, BATCHES_SPLIT), fused(WEIGHTS_SPLIT, BATCHES_SPLIT), 0.0)
