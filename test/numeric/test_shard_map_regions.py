"""`jax.shard_map` regions of plain `jax.jit` programs: gradients that they reduce leave the region, and the loop."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numeric.test_nested_functions import (
    BATCHES,
    BYTES,
    MESH,
    MICRO_BATCHES,
    OF_ITS_OWN,
    Case,
    Loss,
    P,
    W,
    accumulated,
    compared,
    parameter,
)
from unit.clusters import available

import paropt

CHECKS = (True, False)
ACTIVATIONS = MICRO_BATCHES * 4 * 4 * 8  # bytes, of one layer
ALL = ("data", "model")
WHOLE = P()


class Block(NamedTuple):
    """`jax.shard_map` on all axes of the mesh, or on some."""

    check_vma: bool
    axes: frozenset[str] = frozenset(ALL)

    def __call__(self, f: Callable[..., Any], *in_specs: Any, out_specs: Any = WHOLE) -> Callable[..., Any]:
        specs = {"in_specs": in_specs, "out_specs": out_specs, "axis_names": self.axes}
        return jax.shard_map(f, mesh=MESH, check_vma=self.check_vma, **specs)


def squares(w: jax.Array, x: jax.Array) -> jax.Array:
    return (jax.nn.relu(x @ w) ** 2).sum()


def whole_loss(block: Block) -> Loss:
    return block(lambda w, x: lax.psum(squares(w, x), "data"), P(), P("data"))


def mean_loss(block: Block) -> Loss:
    return block(lambda w, x: lax.pmean(squares(w, x), "data"), P(), P("data"))


def mean_of_tokens(block: Block) -> Loss:
    """What is divided by is a sum, too."""

    def mean(w: jax.Array, x: jax.Array) -> jax.Array:
        return lax.psum(squares(w, x), "data") / lax.psum((x == x).sum().astype(x.dtype), "data")

    return block(mean, P(), P("data"))


def narrow(block: Block) -> Loss:
    """Reduced in bf16, and accumulated in f32."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        h = x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)
        return lax.psum(h.astype(jnp.float32).sum(), "data")

    return block(loss, P(), P("data"))


def with_penalty(block: Block) -> Loss:
    """With check_vma, JAX adds the penalty's gradient to that of the rest when this is summed already."""
    return block(lambda w, x: lax.psum(squares(w, x), "data") + (3 * w**2).sum(), P(), P("data"))


def tied(block: Block) -> Loss:
    return block(lambda w, x: lax.psum(((x @ w @ w.T) ** 2).sum(), "data"), P(), P("data"))


def layer(block: Block) -> Loss:
    """Manual between two that are not."""
    inner = block(lambda w, x: jax.nn.relu(x @ w), P(), P("data"), out_specs=P("data"))
    return lambda w, x: ((inner(w[1], x @ w[0]) @ w[2]) ** 2).sum()


def tied_layers(block: Block) -> Loss:
    inner = block(lambda w, x: jax.nn.relu(x @ w), P(), P("data"), out_specs=P("data"))
    return lambda w, x: ((inner(w, x) @ w) ** 2).sum()


def scanned_blocks(block: Block) -> Loss:
    inner = block(lambda w, x: jax.nn.relu(x @ w), P(), P("data"), out_specs=P("data"))
    return lambda w, x: (lax.scan(lambda h, w: (inner(w, h), None), x, w)[0] ** 2).sum()


def scan_in_a_block(block: Block) -> Loss:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return lax.psum((lax.scan(lambda h, w: (jax.nn.relu(h @ w), None), x, w)[0] ** 2).sum(), "data")

    return block(loss, P(), P("data"))


def columns_and_rows(block: Block) -> Loss:
    """As in Megatron; what is not split over `model` is added up over `data`, too."""

    def loss(w: Any, x: jax.Array) -> jax.Array:
        h = lax.psum(jax.nn.relu(x @ w[0]) @ w[1], "model")
        return lax.psum((h**2).sum(), "data")

    return block(loss, (P(None, "model"), P("model")), P("data"))


def branches_in_a_block(block: Block) -> Loss:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        return lax.cond(w[0, 0] > 0, lambda: lax.psum(squares(w, x), "data"), lambda: lax.psum(0.0 * x.sum(), "data"))

    return block(loss, P(), P("data"))


def with_loss(loss: Loss) -> Callable[[Any, jax.Array], Any]:
    def step(w: jax.Array, batches: jax.Array) -> Any:
        def body(total: Any, x: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(w, x)), None

        return lax.scan(body, (jnp.float32(0), jnp.zeros_like(w)), batches)[0]

    return step


def by_turns(trip: Callable[..., jax.Array]) -> Callable[[Loss], Callable[[Any, jax.Array], Any]]:
    """`trip` gets whether the micro-batch has an even number, the accumulator, and a function for the gradient."""

    def step_of(loss: Loss) -> Callable[[Any, jax.Array], Any]:
        def step(w: jax.Array, batches: jax.Array) -> Any:
            def body(total: jax.Array, item: Any) -> tuple[jax.Array, None]:
                i, x = item
                return trip(i % 2 == 0, total, lambda: jax.grad(loss)(w, x)), None

            return lax.scan(body, jnp.zeros_like(w), (jnp.arange(MICRO_BATCHES), batches))[0]

        return step

    return step_of


def every_second(even: jax.Array, total: jax.Array, gradient: Callable[[], jax.Array]) -> jax.Array:
    return lax.cond(even, lambda: total + gradient(), lambda: total)


def zeros_otherwise(even: jax.Array, total: jax.Array, gradient: Callable[[], jax.Array]) -> jax.Array:
    """The branch returns what the block does."""
    return total + lax.cond(even, gradient, lambda: jnp.zeros_like(total))


def unrolled(loss: Loss) -> Callable[[Any, jax.Array], Any]:
    return lambda w, batches: sum((jax.grad(loss)(w, x) for x in batches[1:]), start=jax.grad(loss)(w, batches[0]))


THREE = (W, parameter(1), parameter(2))
LAYERS = jax.device_put(np.stack([np.asarray(w) for w in THREE]), W.sharding)
SPLIT = (parameter(0, None, "model"), parameter(1, "model"))


class Served(NamedTuple):
    """A loss, with what is reduced: after the loop, and in it, which is over another axis."""

    loss: Callable[[Block], Loss]
    step: Callable[[Loss], Callable[[Any, jax.Array], Any]] = accumulated
    parameters: Any = W
    after: float = 1  # gradients
    within: tuple[int, int] = (0, 0)  # bytes; with check_vma and without


# Without check_vma JAX adds up over all axes, of which XLA knows no better; so it does for what a block passes back.
SERVED = {
    "the loss": Served(whole_loss),
    "the loss is added up, too": Served(whole_loss, with_loss),
    "mean": Served(mean_loss),
    "mean of tokens": Served(mean_of_tokens),
    "narrow": Served(narrow),
    "a penalty": Served(with_penalty),
    "a penalty, and the loss is added up": Served(with_penalty, with_loss),
    "tied in a block": Served(tied),
    "a layer": Served(layer, parameters=THREE, after=3, within=(0, ACTIVATIONS)),
    "checkpoint": Served(lambda b: jax.checkpoint(layer(b)), parameters=THREE, after=3, within=(0, ACTIVATIONS)),
    "a scan of blocks": Served(scanned_blocks, parameters=LAYERS, after=3, within=(0, 3 * ACTIVATIONS)),
    "a scan in a block": Served(scan_in_a_block, parameters=LAYERS, after=3),
    "columns and rows": Served(columns_and_rows, parameters=SPLIT, within=(ACTIVATIONS, 2 * ACTIVATIONS)),
    "a block in a branch": Served(whole_loss, by_turns(every_second)),
    "a branch returns a block's": Served(whole_loss, by_turns(zeros_otherwise)),
    "branches in a block": Served(branches_in_a_block),
}


@pytest.mark.parametrize("check_vma", CHECKS)
@pytest.mark.parametrize("name", SERVED)
def test_a_sum_leaves_its_block(name: str, check_vma: bool) -> None:
    served = SERVED[name]
    case = Case(served.step(served.loss(Block(check_vma))), args=(served.parameters, BATCHES))
    before, (after, _) = paropt.audit(jax.jit(case.step).lower(*case.args)), compared(case)
    within = served.within[not check_vma]
    assert before.sync_in_loop >= MICRO_BATCHES * served.after * BYTES + within
    assert (after.sync_in_loop, after.sync_bytes) == (within, served.after * BYTES + within)


# What these targets move themselves is left out.
@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("check_vma", CHECKS)
def test_on_targets(target: str, check_vma: bool) -> None:
    available(target)
    step = accumulated(scanned_blocks(Block(check_vma)))
    report = paropt.audit(step, LAYERS, BATCHES, passes="grad-sync", targets=[target])
    assert not report.mismatches
    within = 0 if check_vma else 3 * ACTIVATIONS
    # XLA of jax 0.12 takes these out of the loop itself on both, that of jax 0.10 on none.
    assert report[target].before.sync_in_loop - within in (3 * MICRO_BATCHES * BYTES, 0)
    after = report[target].after
    assert (after.sync_in_loop, after.sync_bytes) == (within, 3 * BYTES + within)


@pytest.mark.parametrize("check_vma", CHECKS)
def test_the_loss_over_one_of_two_axes(check_vma: bool) -> None:
    """What the other axis splits stays so: nothing is gathered."""
    loss = whole_loss(Block(check_vma, frozenset({"data"})))
    after, _ = compared(Case(accumulated(loss), args=(parameter(0, None, "model"), BATCHES)))
    assert (after.sync_in_loop, after.sync_bytes) == (0, BYTES / 2)
    assert {c.kind for c in after.collectives} == {"all-reduce"}


@pytest.mark.parametrize("check_vma", CHECKS)
def test_blocks_without_a_loop_are_added_up_first(check_vma: bool) -> None:
    case = Case(unrolled(whole_loss(Block(check_vma))))
    before, (after, _) = paropt.audit(jax.jit(case.step).lower(*case.args)), compared(case)
    assert (before.sync_bytes, after.sync_bytes) == (MICRO_BATCHES * BYTES, BYTES)


@pytest.mark.parametrize("check_vma", CHECKS)
def test_a_layer_of_both_kinds_is_carried_for_each(check_vma: bool) -> None:
    """Without check_vma, the block's part of the gradient is added up over another axis, too."""
    case = Case(accumulated(tied_layers(Block(check_vma))))
    after, _ = compared(case)
    assert (after.sync_in_loop, after.sync_bytes) == (0, (1 if check_vma else 2) * BYTES)


def added(f: Callable[..., Any], out_specs: Any = WHOLE) -> Callable[[Block], Callable[[Any, jax.Array], Any]]:
    """A step that adds up what `f` makes in a block."""

    def step(block: Block) -> Callable[[Any, jax.Array], Any]:
        inner = block(f, P(), P("data"), out_specs=out_specs)

        def run(w: jax.Array, batches: jax.Array) -> Any:
            like = jax.eval_shape(inner, w, batches[0])
            zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
            return lax.scan(lambda t, x: (jax.tree.map(jnp.add, t, inner(w, x)), None), zeros, batches)[0]

        return run

    return step


def product(w: jax.Array, x: jax.Array) -> jax.Array:
    return x.T @ (x @ w)


def other_order(w: jax.Array, x: jax.Array) -> jax.Array:
    """Devices of the same place on `data` add other terms, and get the same sum."""
    turned = [(i, (i + 2 * (i % 2)) % 8) for i in range(8)]
    return lax.psum(lax.ppermute(product(w, x), ALL, turned), "data")


def returned_twice(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    total = lax.psum(product(w, x), "data")
    return total, total


def with_norm(block: Block) -> Callable[[Any, jax.Array], Any]:
    """The sum is read outside of the block by what is not linear."""
    grad = jax.grad(whole_loss(block))

    def step(w: jax.Array, batches: jax.Array) -> Any:
        def body(total: Any, x: jax.Array) -> tuple[Any, None]:
            g = grad(w, x)
            return (total[0] + g, total[1] + (g**2).sum()), None

        return lax.scan(body, (jnp.zeros_like(w), jnp.float32(0)), batches)[0]

    return step


def with_other_terms(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Behind the sum, in a branch, and of several arrays that are reduced together."""
    gradient = product(w, x)
    first, second = lax.psum((gradient, 2 * gradient), "data")
    chosen = lax.cond(w[0, 0] > 0, lambda: lax.psum(gradient, "data") + w, lambda: 2 * w)
    return (first + w).T * 4, w - second, chosen


def pairs(w: jax.Array, x: jax.Array) -> jax.Array:
    return lax.psum(product(w, x), "data", axis_index_groups=[[0, 1], [2, 3]])


STAYS: dict[str, tuple[Callable[[Block], Any], str]] = {
    "read by what is not linear": (with_norm, "also read by stablehlo.multiply"),
    "read in the block, too": (
        added(lambda w, x: (lambda s: s + jnp.maximum(s, 1))(lax.psum(product(w, x), "data"))),
        "the sum is also read by stablehlo.maximum",
    ),
    "not linear before the return": (added(lambda w, x: jnp.abs(lax.psum(product(w, x), "data"))), OF_ITS_OWN),
    "returned twice": (added(returned_twice, (P(), P())), "the sum is returned more than once"),
    "a maximum": (added(lambda w, x: lax.pmax(product(w, x), "data")), "the reduction is not an all_reduce that adds"),
    "repeated": (
        added(lambda w, x: jnp.broadcast_to(lax.psum(product(w, x)[0], "data"), (8, 8))),
        "256 bytes are returned, more than twice the 32 that are reduced",
    ),
}
# What check_vma would not let pass.
UNCHECKED: dict[str, tuple[Callable[[Block], Any], str]] = {
    "terms in another order": (added(other_order), "an addend is not proven uniform"),
    "groups that are no axes": (added(pairs, P("data")), "its replica groups are not those of axes of the mesh"),
    "split over what it is reduced over": (
        added(lambda w, x: lax.psum(product(w, x), "data"), P("data")),
        "the result is sharded over data, over which it is reduced",
    ),
}


@pytest.mark.parametrize(
    "name, check_vma", [*itertools.product(STAYS, CHECKS), *itertools.product(UNCHECKED, (False,))]
)
def test_a_sum_stays_in_its_block_with_a_reason(name: str, check_vma: bool) -> None:
    make, reason = (STAYS | UNCHECKED)[name]
    case = Case(make(Block(check_vma)))
    before, (after, missed) = paropt.audit(jax.jit(case.step).lower(*case.args)), compared(case)
    assert before.sync_in_loop == after.sync_in_loop >= 32 * MICRO_BATCHES
    assert any(reason in remark for remark in missed), missed


@pytest.mark.parametrize("check_vma", CHECKS)
def test_two_sums_of_the_branches_in_a_block(check_vma: bool) -> None:
    """To take one out remakes the branches that make the other."""

    def both(w: jax.Array, x: jax.Array) -> Any:
        gradient = product(w, x)
        sums = lambda: lax.psum((gradient, 2 * gradient), "data")  # noqa: E731
        return lax.cond(w[0, 0] > 0, sums, lambda: (jnp.zeros_like(w), jnp.zeros_like(w)))

    after, _ = compared(Case(added(both, (P(), P()))(Block(check_vma))))
    assert (after.sync_in_loop, after.sync_bytes) == (0, 2 * BYTES)


@pytest.mark.parametrize("check_vma", CHECKS)
def test_other_terms_are_added_outside(check_vma: bool) -> None:
    case = Case(added(with_other_terms, (P(), P(), P()))(Block(check_vma)))
    before, (after, _) = paropt.audit(jax.jit(case.step).lower(*case.args)), compared(case)
    assert before.sync_in_loop == 3 * MICRO_BATCHES * BYTES
    assert (after.sync_in_loop, after.sync_bytes) == (0, 3 * BYTES)


def test_other_terms_stay_where_no_loop_adds_them_up() -> None:
    block = Block(True)(lambda w, x: lax.psum(product(w, x), "data") + w, P(), P("data"))
    lowered = paropt.jit(lambda w, x: 2 * block(w, x)).lower(W, BATCHES[0])
    assert "a sum of a reduced value and an unreduced one" in str(paropt.remarks(lowered))
    assert lowered.as_text() == jax.jit(lambda w, x: 2 * block(w, x)).lower(W, BATCHES[0]).as_text()


@pytest.mark.parametrize("first", [True, False])
def test_branches_with_a_block_and_without(first: bool) -> None:
    """XLA rejects branches that return what lies differently."""
    block = Block(False)(lambda w, x: x @ w, P(), P("data"), out_specs=P("data"))

    def step(w: jax.Array, batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            inside = lambda: jax.grad(lambda w: (block(w, x) ** 2).sum())(w)  # noqa: E731
            outside = lambda: jax.grad(lambda w: ((x @ w) ** 2).sum())(w)  # noqa: E731
            ways = [inside, outside]
            return total + lax.cond(x[0, 0] > 0, *(ways if first else ways[::-1])), None

        return lax.scan(body, jnp.zeros_like(w), batches)[0]

    after, _ = compared(Case(step, args=(parameter(0, None, "model"), BATCHES)))
    before = paropt.audit(jax.jit(step).lower(parameter(0, None, "model"), BATCHES))
    assert after.sync_in_loop < before.sync_in_loop
