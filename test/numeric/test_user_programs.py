"""Training steps as users write them, that need more than sums of products: what leaves the loop, and what stays."""

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import PartitionSpec
from numeric.user_steps import (
    BYTES,
    CLASSES,
    EXAMPLES,
    MESH,
    MICRO_BATCHES,
    WIDTH,
    Case,
    accumulated,
    compared,
    integers,
    placed,
)
from programs.program import mesh_of
from unit.clusters import available

import paropt

TWO_AXES = mesh_of(data=2, model=4)

W = placed(integers(WIDTH, CLASSES, seed=0))
BATCHES = placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=1), None, "data")


def squares(w: jax.Array, x: jax.Array) -> jax.Array:
    return ((x @ w) ** 2).sum() / 2


def manual(step: Callable[..., Any]) -> Callable[..., Any]:
    specs: dict[str, Any] = {"in_specs": (PartitionSpec(), PartitionSpec(None, "data")), "out_specs": PartitionSpec()}
    return jax.shard_map(step, mesh=MESH, check_vma=False, **specs)


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(CLASSES, use_bias=False)(nn.BatchNorm(use_running_average=False, momentum=0.5)(x))


def batch_norm(variables: Any, batches: jax.Array) -> Any:
    """Statistics over all examples of a micro-batch normalise it, and are carried."""

    def loss(parameters: Any, statistics: Any, x: jax.Array) -> Any:
        state = {"params": parameters, "batch_stats": statistics}
        y, new = Normalised().apply(state, x, mutable=["batch_stats"])
        return (y**2).mean(), new["batch_stats"]

    def body(carry: Any, x: jax.Array) -> tuple[Any, None]:
        total, statistics = carry
        gradients, statistics = jax.grad(loss, has_aux=True)(variables["params"], statistics, x)
        return (jax.tree.map(jnp.add, total, gradients), statistics), None

    start = (jax.tree.map(jnp.zeros_like, variables["params"]), variables["batch_stats"])
    return lax.scan(body, start, batches)[0]


def cut_into_micro_batches(w: jax.Array, batch: jax.Array) -> jax.Array:
    """Shardy splits both dimensions by parts of the axis."""
    return accumulated(jax.grad(squares), w, batch.reshape(MICRO_BATCHES, EXAMPLES, WIDTH))


def heads(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Both dimensions that the product adds up are split by parts of one axis."""

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        v = jnp.maximum(w.reshape(2, WIDTH // 2, CLASSES), 0)
        return (jnp.einsum("bhd,hdo->bo", x.reshape(EXAMPLES, 2, WIDTH // 2), v) ** 2).sum() / 2

    return accumulated(jax.grad(loss), w, batches)


def printing(w: jax.Array, batches: jax.Array) -> jax.Array:
    def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
        value, found = jax.value_and_grad(squares)(w, x)
        jax.debug.callback(lambda _: None, value)
        return found

    return accumulated(gradient, w, batches)


def fed(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Each trip asks Python for a factor, on one of the devices."""

    def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
        factor = io_callback(lambda: np.float32(2), jax.ShapeDtypeStruct((), np.float32))
        return factor * jax.grad(squares)(w, x)

    return accumulated(gradient, w, batches)


def multiplied_by_python(w: jax.Array, batches: jax.Array) -> jax.Array:
    """A product reads what Python returns, on one of the devices."""

    def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
        found = jax.grad(squares)(w, x)
        twice = jax.pure_callback(lambda w: np.asarray(w) * 2, jax.ShapeDtypeStruct(w.shape, w.dtype), w)
        return found + x.T @ (x @ twice)

    return accumulated(gradient, w, batches)


def truncated(w: jax.Array, segments: jax.Array) -> jax.Array:
    """Backpropagation through the steps of a segment; the state is carried over segments, in each micro-batch."""

    def loss(w: jax.Array, state: jax.Array, steps: jax.Array) -> Any:
        def cell(state: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            state = jnp.clip(x @ w + state, -3, 3)
            return state, (state**2).sum()

        state, losses = lax.scan(cell, state, steps)
        return losses.sum(), state

    def micro_batch(total: jax.Array, segments: jax.Array) -> tuple[jax.Array, None]:
        def segment(carry: Any, steps: jax.Array) -> tuple[Any, None]:
            total, state = carry
            gradient, state = jax.grad(loss, has_aux=True)(w, state, steps)
            return (total + gradient, state), None

        return lax.scan(segment, (total, jnp.zeros((EXAMPLES, CLASSES))), segments)[0][0], None

    return lax.scan(micro_batch, jnp.zeros_like(w), segments)[0]


def counted(w: jax.Array, batches: jax.Array) -> Any:
    """JAX converts the count, whose type is weak, to its own type."""

    def body(count: Any, x: jax.Array) -> tuple[Any, None]:
        return count + lax.psum((x @ w > 0).sum(0), "data"), None

    return lax.scan(body, lax.full((CLASSES,), 0), batches)[0]


def confusion(w: jax.Array, batches: jax.Array) -> jax.Array:
    """How often each class is taken for each other: added to what the loop carries, not to zeros."""

    def body(counts: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return counts.at[jnp.argmax(x[:, :CLASSES], -1), jnp.argmax(x @ w, -1)].add(1), None

    return lax.scan(body, jnp.zeros((CLASSES, CLASSES), jnp.int32), batches)[0]


def mixture(w: Any, batches: jax.Array) -> Any:
    """A router with two losses of its own. The balance of its choices is a product of means, and stays."""

    def loss(w: Any, x: jax.Array) -> jax.Array:
        logits = x @ w["router"]
        chosen = jax.nn.one_hot(logits.argmax(-1), CLASSES).mean(0)
        balance = (chosen * jax.nn.softmax(logits).mean(0)).sum()
        return ((x @ w["expert"]) ** 2).mean() + balance + (jax.nn.logsumexp(logits, -1) ** 2).mean()

    def body(carry: Any, x: jax.Array) -> tuple[Any, None]:
        value, gradient = jax.value_and_grad(loss)(w, x)
        return (carry[0] + value, jax.tree.map(jnp.add, carry[1], gradient)), None

    return lax.scan(body, (0.0, jax.tree.map(jnp.zeros_like, w)), batches)[0]


def updated_in_the_loop(w: Any, momentum: Any, batches: jax.Array) -> Any:
    """The optimizer runs in the last trip, on what the loop carries."""

    def body(carry: Any, item: Any) -> tuple[Any, None]:
        (total, w, momentum), (x, i) = carry, item
        total = total + jax.grad(squares)(w, x)

        def update(total: jax.Array, w: jax.Array, momentum: jax.Array) -> Any:
            momentum = momentum / 2 + total
            return jnp.zeros_like(total), w - momentum / 8, momentum

        return lax.cond(i == MICRO_BATCHES - 1, update, lambda *same: same, total, w, momentum), None

    return lax.scan(body, (jnp.zeros_like(w), w, momentum), (batches, jnp.arange(MICRO_BATCHES)))[0]


def unread(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Nobody reads the loss after the loop, nor the gradient of a frozen weight: JAX keeps what such a loop carries."""

    def body(carry: Any) -> Any:
        i, value, totals = carry
        found, gradients = jax.value_and_grad(lambda ws: squares(ws[0], batches[i] @ ws[1]))((w, jnp.eye(WIDTH)))
        return i + 1, value + found, jax.tree.map(jnp.add, totals, gradients)

    start = (0, 0.0, (jnp.zeros_like(w), jnp.zeros((WIDTH, WIDTH))))
    return lax.while_loop(lambda carry: carry[0] < MICRO_BATCHES, body, start)[2][0]


VARIABLES = placed(Normalised().init(jax.random.key(0), jnp.zeros((EXAMPLES, WIDTH))))
ONCE = {
    # The means of the examples and of their squares stay.
    "batch norm": Case(batch_norm, (VARIABLES, BATCHES), BYTES + 2 * 4 * WIDTH, 2 * 4 * WIDTH * MICRO_BATCHES, 1e-5),
    "cut into micro-batches": Case(cut_into_micro_batches, (W, placed(integers(MICRO_BATCHES * EXAMPLES, WIDTH, seed=2), "data"))),
    "heads": Case(
        heads,
        (placed(integers(WIDTH, CLASSES, seed=3), "model", mesh=TWO_AXES), placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=4), None, "data", mesh=TWO_AXES)),
        BYTES // 4,
        2 * 4 * (EXAMPLES // 2) * CLASSES * MICRO_BATCHES,
    ),
    "a mixture of experts": Case(
        mixture,
        (placed({"router": integers(WIDTH, CLASSES, seed=5), "expert": integers(WIDTH, WIDTH, seed=6)}), BATCHES),
        BYTES + 4 * WIDTH * WIDTH,
        2 * 4 * CLASSES * MICRO_BATCHES,
        1e-5,
    ),
    "updated in the loop": Case(updated_in_the_loop, (W, placed(integers(WIDTH, CLASSES, seed=7)), BATCHES)),
    "unread": Case(unread, (W, BATCHES)),
    "printing": Case(printing, (W, BATCHES)),
    "fed by Python": Case(fed, (W, BATCHES)),
    "truncated": Case(truncated, (W, placed(integers(MICRO_BATCHES, 2, 3, EXAMPLES, WIDTH, seed=8), None, None, None, "data"))),
    "a confusion matrix": Case(confusion, (W, BATCHES), 4 * CLASSES * CLASSES),
    "a count": Case(manual(counted), (W, BATCHES), 4 * CLASSES),
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
def test_reduced_once(name: str) -> None:
    case = ONCE[name]
    before, after, _ = compared(case)
    assert before.sync_in_loop >= MICRO_BATCHES * case.after + case.within
    assert (after.sync_in_loop, after.sync_bytes) == (case.within, case.within + case.after)


def rewards(w: jax.Array, batch: tuple[jax.Array, jax.Array]) -> Any:
    """Rewards are normalised in each micro-batch; their mean and maximum are stacked."""

    def body(total: jax.Array, batch: Any) -> tuple[jax.Array, Any]:
        x, r = batch
        advantage = (r - r.mean()) / (r.std() + 1)
        gradient = jax.grad(lambda w: (advantage * jax.nn.log_softmax(x @ w)[:, 0]).mean())(w)
        return total + gradient, (r.mean(), r.max())

    return lax.scan(body, jnp.zeros_like(w), batch)


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_what_xla_reduces_as_a_stack_is_no_mismatch(target: str) -> None:
    """XLA:TPU takes the maxima out of the loop; the means, as many, leave it because they are sums."""
    available(target)
    args = (W, (BATCHES, placed(integers(MICRO_BATCHES, EXAMPLES, seed=0), None, "data")))
    report = paropt.audit(rewards, *args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    assert [c.depth for c in report[target].after.collectives if c.payload >= BYTES] == [0]


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_parts_of_an_axis_on_targets(target: str) -> None:
    available(target)
    case = ONCE["cut into micro-batches"]
    report = paropt.audit(case.step, *case.args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    after = report[target].after
    assert (after.sync_in_loop, after.sync_bytes) == (0, BYTES)
    assert after.total("all-gather").bytes <= report[target].before.total("all-gather").bytes


def kahan(w: jax.Array, batches: jax.Array) -> Any:
    """A sum and what rounding has taken from it: together they are exact, which a sum in another order is not."""

    def body(carry: Any, x: jax.Array) -> tuple[Any, None]:
        total, error = carry
        y = jax.grad(lambda w: (x @ w).sum())(w) - error
        new = total + y
        return (new, (new - total) - y), None

    return lax.scan(body, (jnp.full_like(w, 2.0**25), jnp.zeros_like(w)), batches)[0]


def synced_after_two(w: jax.Array, batches: jax.Array) -> Any:
    def body(carry: Any, x: jax.Array) -> tuple[Any, None]:
        total, i = carry
        total = total + jax.grad(squares)(w, x)
        return (lax.cond(i % 2 == 1, lambda t: lax.psum(t, "data"), lambda t: t, total), i + 1), None

    return lax.scan(body, (jnp.zeros_like(w), 0), batches)[0]


def statistics(w: jax.Array, batches: jax.Array) -> Any:
    """As Shampoo adds them up: not linear in the gradient."""

    def body(carry: Any, x: jax.Array) -> tuple[Any, None]:
        total, left = carry
        gradient = jax.grad(squares)(w, x)
        return (total + gradient, left + gradient @ gradient.T), None

    return lax.scan(body, (jnp.zeros_like(w), jnp.zeros((WIDTH, WIDTH))), batches)[0]


STAYS = {
    "compensated": (Case(kahan, (W, BATCHES)), "a sum less one of its terms tells how the sum was rounded"),
    "every second trip": (
        Case(manual(synced_after_two), (W, BATCHES)),
        "is reduced again, in a trip that is not proven to be the last only",
    ),
    "products of gradients": (Case(statistics, (W, BATCHES)), "is also read by stablehlo.dot_general"),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays_with_a_reason(name: str) -> None:
    case, reason = STAYS[name]
    before, after, missed = compared(case)
    assert before.sync_in_loop == after.sync_in_loop == after.sync_bytes == MICRO_BATCHES * BYTES
    told = list(missed)
    assert any(reason in remark and "test_user_programs.py:" in remark for remark in told), told


def squared_twice(w: jax.Array, batches: jax.Array, reduced: Callable[[jax.Array], jax.Array] = lambda g: g) -> Any:
    """The gradient is computed anew for its norm, which takes it reduced in each trip."""

    def body(carry: Any, x: jax.Array) -> tuple[Any, None]:
        total, norm = carry
        gradient, again = (reduced(jax.grad(squares)(w, x)) for _ in range(2))
        return (total + gradient, norm + (again**2).sum()), None

    return lax.scan(body, (jnp.zeros_like(w), 0.0), batches)[0]


@pytest.mark.parametrize("form", ["plain", "explicit"])
def test_what_is_computed_twice_is_reduced_once(form: str) -> None:
    explicit = manual(functools.partial(squared_twice, reduced=lambda g: lax.psum(g, "data")))
    _, after, _ = compared(Case({"plain": squared_twice, "explicit": explicit}[form], (W, BATCHES)))
    assert after.sync_in_loop == after.sync_bytes == MICRO_BATCHES * BYTES


def told_in_order(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Each trip tells Python its loss. The loop carries a token, so that it does so in order."""

    def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
        value, found = jax.value_and_grad(squares)(w, x)
        factor = io_callback(lambda v: np.sign(v), jax.ShapeDtypeStruct((), np.float32), value, ordered=True)
        return factor * found

    return accumulated(gradient, w, batches)


def looked_up(w: jax.Array, batches: jax.Array) -> jax.Array:
    """Python says which micro-batch is next, with a side effect: it is asked once per trip."""

    def asked() -> np.int32:
        ASKED.append(0)
        return np.int32(len(ASKED) - 1)

    def body(carry: Any) -> Any:
        total, i = carry
        row = io_callback(asked, jax.ShapeDtypeStruct((), np.int32))
        return total + jax.grad(squares)(w, batches[row]), i + 1

    return lax.while_loop(lambda carry: carry[1] < MICRO_BATCHES, body, (jnp.zeros_like(w), 0))[0]


ASKED: list[int] = []


@pytest.mark.parametrize("passes", ["grad-sync", "grad-sync,outline-accumulation"])
@pytest.mark.parametrize("step", [told_in_order, looked_up])
def test_callbacks_in_the_loop(step: Callable[..., Any], passes: str) -> None:
    compiled = [
        jit(step).lower(W, BATCHES).compile() for jit in (jax.jit, functools.partial(paropt.jit, passes=passes))
    ]
    before, after = (paropt.audit(each) for each in compiled)
    assert before.sync_in_loop - after.sync_in_loop == MICRO_BATCHES * BYTES
    results = []
    for each in compiled:
        ASKED.clear()
        results.append(np.asarray(each(W, BATCHES)))
    assert np.array_equal(results[0], results[1])
    assert len(ASKED) == MICRO_BATCHES * (step == looked_up)


def test_products_of_what_python_returns() -> None:
    before, after, _ = compared(Case(multiplied_by_python, (W, BATCHES)))
    sent_to_all = BYTES  # XLA adds zeros of the other devices to what one of them got
    assert before.sync_in_loop >= MICRO_BATCHES * BYTES
    assert (after.sync_in_loop, after.sync_bytes) == (0, BYTES + sent_to_all)


def block_of_rows(w: jax.Array, batches: jax.Array) -> jax.Array:
    """The index of the device, a number that no counter makes, says which part of `w` it takes."""

    def body(total: jax.Array, x: jax.Array) -> Any:
        mine = lax.dynamic_slice_in_dim(w, lax.axis_index("data") % 2, 1)
        return total + lax.psum(x.T @ (x @ mine[0])[:, None], "data"), None

    return lax.scan(body, jnp.zeros((WIDTH, 1)), batches)[0]


def test_the_index_of_the_device_stays_in_its_block() -> None:
    w = placed(integers(2, WIDTH, seed=0))
    want = jax.jit(manual(block_of_rows))(w, BATCHES)
    got = paropt.jit(manual(block_of_rows), passes="grad-sync,outline-accumulation", strict=True)(w, BATCHES)
    assert np.array_equal(got, want)


def measured(w: Any, batches: jax.Array) -> Any:
    """The model is called again for a metric; the gradient of the first layer takes activations of all features."""

    def outputs(w: Any, x: jax.Array) -> jax.Array:
        return jnp.maximum(x @ w["up"], 0) @ w["down"]

    def body(carry: Any, x: jax.Array) -> Any:
        gradient = jax.grad(lambda w: (outputs(w, x) ** 2).sum())(w)
        return (jax.tree.map(jnp.add, carry[0], gradient), carry[1] + (outputs(w, x) > 0).sum()), None

    return lax.scan(body, (jax.tree.map(jnp.zeros_like, w), 0), batches)[0]


@pytest.mark.parametrize("target", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_a_forward_pass_that_is_called_twice_is_reduced_once(target: str) -> None:
    available(target)
    w = {
        "up": placed(integers(WIDTH, CLASSES, seed=0), None, "model", mesh=TWO_AXES),
        "down": placed(integers(CLASSES, WIDTH, seed=1), "model", mesh=TWO_AXES),
    }
    args = (w, placed(integers(MICRO_BATCHES, EXAMPLES, WIDTH, seed=2), None, "data", mesh=TWO_AXES))
    report = paropt.audit(measured, *args, passes="grad-sync", targets=[target])
    activations = 4 * (EXAMPLES // 2) * WIDTH
    assert not report.mismatches
    found = [c.payload for c in report[target].after.collectives if c.depth and c.payload >= activations]
    assert found == [activations]
