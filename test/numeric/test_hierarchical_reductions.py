"""Hierarchical reductions of gradients: scattered within a host, summed between hosts, and gathered."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from numeric.user_steps import MICRO_BATCHES, WIDTH, Case, compared, integers, placed
from unit.clusters import available

import paropt

HOSTS = Mesh(np.array(jax.devices()).reshape(2, 4), ("host", "chip"))
PODS = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("pod", "host", "chip"))
LAYERS = 3
BYTES = 4 * WIDTH * WIDTH

Reduce = Callable[[jax.Array], jax.Array]


def gathered(g: jax.Array, inner: Reduce, axis: str = "chip", dimension: int = 0) -> jax.Array:
    """`inner` reduces shards."""
    shard = inner(lax.psum_scatter(g, axis, scatter_dimension=dimension, tiled=True))
    return lax.all_gather(shard, axis, axis=dimension, tiled=True)


def in_two(g: jax.Array) -> jax.Array:
    return gathered(g, lambda shard: lax.psum(shard, "host"))


def along_columns(g: jax.Array) -> jax.Array:
    return gathered(g, lambda shard: lax.psum(shard, "host"), dimension=1)


def means(g: jax.Array) -> jax.Array:
    return gathered(g, lambda shard: lax.pmean(shard / 4, "host"))


def in_three(g: jax.Array) -> jax.Array:
    return gathered(g, lambda shard: gathered(shard, lambda part: lax.psum(part, "pod"), "host"))


def one_after_the_other(g: jax.Array) -> jax.Array:
    return gathered(g, lambda shard: lax.psum(lax.psum(shard, "pod"), "host"))


def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
    return jax.grad(lambda w: ((x @ w) ** 2).sum() / 2)(w)


def accumulated(reduce: Reduce, w: jax.Array, batches: jax.Array) -> jax.Array:
    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + reduce(gradient(w, x)), None

    return lax.scan(body, jnp.zeros_like(w), batches)[0]


def unrolled(reduce: Reduce, w: jax.Array, batches: jax.Array) -> jax.Array:
    return sum((reduce(gradient(w, x)) for x in batches), start=jnp.zeros_like(w))


def by_layers(reduce: Reduce, w: jax.Array, batches: jax.Array) -> jax.Array:
    """Each layer is reduced on its own, and the sums are stacked."""

    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + lax.map(reduce, jnp.stack([gradient(w, x * (i + 1)) for i in range(LAYERS)])), None

    return lax.scan(body, jnp.zeros((LAYERS, *w.shape)), batches)[0]


def in_one_buffer(reduce: Reduce, w: jax.Array, batches: jax.Array) -> jax.Array:
    return accumulated(lambda g: reduce(g.ravel()).reshape(g.shape), w, batches)


def read(reduce: Reduce, w: jax.Array, batches: jax.Array) -> Any:
    """Each trip needs the sum."""

    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        g = reduce(gradient(w, x))
        return total + g, (g * g).sum()

    return lax.scan(body, jnp.zeros_like(w), batches)


def block(reduce: Reduce, w: jax.Array, x: jax.Array) -> jax.Array:
    """A gradient under `jax.shard_map`, in a program for all devices."""
    whole, examples = PartitionSpec(), PartitionSpec(HOSTS.axis_names)
    return jax.shard_map(
        lambda w, x: reduce(gradient(w, x)), mesh=HOSTS, in_specs=(whole, examples), out_specs=whole, check_vma=False
    )(w, x)


def blocks_in_a_loop(w: jax.Array, batches: jax.Array) -> jax.Array:
    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + block(means, w, x), None

    return lax.scan(body, jnp.zeros_like(w), batches)[0]


def blocks_in_a_row(w: jax.Array, batches: jax.Array) -> jax.Array:
    return sum((block(in_two, w, x) for x in batches), start=jnp.zeros_like(w))


def case(loop: Callable[..., Any], reduce: Reduce, mesh: Mesh, after: int) -> Case:
    examples = PartitionSpec(None, mesh.axis_names)
    step = jax.shard_map(
        lambda w, batches: loop(reduce, w, batches),
        mesh=mesh,
        in_specs=(PartitionSpec(), examples),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    return Case(step, given_to(mesh), after)


def given_to(mesh: Mesh) -> tuple[jax.Array, jax.Array]:
    examples = PartitionSpec(None, mesh.axis_names)
    w = placed(integers(WIDTH, WIDTH, seed=0), mesh=mesh)
    return w, placed(integers(MICRO_BATCHES, 16, WIDTH, seed=1), *examples, mesh=mesh)


# What is scattered, then a quarter or half of it, then a part of that.
IN_TWO, IN_THREE, ONE_AFTER_THE_OTHER = BYTES + BYTES // 4, BYTES + BYTES // 2 + BYTES // 4, 2 * BYTES
CASES = {
    "in a loop": case(accumulated, in_two, HOSTS, IN_TWO),
    "along columns": case(accumulated, along_columns, HOSTS, IN_TWO),
    "means": case(accumulated, means, HOSTS, IN_TWO),
    "by layers": case(by_layers, in_two, HOSTS, LAYERS * IN_TWO),
    "in one buffer": case(in_one_buffer, in_two, HOSTS, IN_TWO),
    "in three levels": case(accumulated, in_three, PODS, IN_THREE),
    "one after the other": case(accumulated, one_after_the_other, PODS, ONE_AFTER_THE_OTHER),
    "unrolled": case(unrolled, in_two, HOSTS, IN_TWO),
}


@pytest.mark.parametrize("name", CASES)
def test_reduced_once(name: str) -> None:
    """In the program's own steps, so that no more is sent between hosts than by shards."""
    given = CASES[name]
    before, after, _ = compared(given)
    assert before.sync_bytes == MICRO_BATCHES * given.after
    assert (after.sync_in_loop, after.sync_bytes) == (0, given.after)
    gathers = before.total("all-gather").bytes, after.total("all-gather").bytes
    assert gathers[0] == MICRO_BATCHES * gathers[1] > 0


def test_with_an_axis_left_to_the_partitioner() -> None:
    """Its shards of the sum are scattered, summed and gathered, once too."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("host", "chip", "model"))
    examples = PartitionSpec(None, ("host", "chip"))
    step = jax.shard_map(
        lambda w, batches: accumulated(in_two, w, batches),
        mesh=mesh,
        in_specs=(PartitionSpec(), examples),
        out_specs=PartitionSpec(),
        axis_names={"host", "chip"},
        check_vma=False,
    )
    w = placed(integers(WIDTH, WIDTH, seed=0), None, "model", mesh=mesh)
    batches = placed(integers(MICRO_BATCHES, 16, WIDTH, seed=1), *examples, mesh=mesh)
    before, after, _ = compared(Case(step, (w, batches)))
    assert (after.sync_in_loop, MICRO_BATCHES * after.sync_bytes) == (0, before.sync_bytes)


@pytest.mark.parametrize("step", [blocks_in_a_loop, blocks_in_a_row])
def test_blocks_are_reduced_once(step: Callable[..., Any]) -> None:
    """The partitioner reduces what leaves a block, and all at once: nothing is gathered any more."""
    before, after, _ = compared(Case(step, given_to(HOSTS)))
    assert before.sync_bytes == MICRO_BATCHES * IN_TWO
    assert (after.sync_in_loop, after.sync_bytes) == (0, BYTES)
    assert after.total("all-gather").bytes == 0


def test_one_block_keeps_its_steps() -> None:
    before, after, _ = compared(Case(lambda w, batches: w - block(in_two, w, batches[0]), given_to(HOSTS)))
    assert before.sync_bytes == after.sync_bytes == IN_TWO
    assert before.total("all-gather").bytes == after.total("all-gather").bytes > 0


@pytest.mark.parametrize("reduce", [in_two, means])
def test_what_stays_is_what_it_was(reduce: Reduce) -> None:
    given = case(read, reduce, HOSTS, IN_TWO)
    before, after, missed = compared(given)
    assert (before.sync_in_loop, after.sync_in_loop) == (MICRO_BATCHES * IN_TWO,) * 2
    assert before.total("all-gather").bytes == after.total("all-gather").bytes
    assert any("is also read by stablehlo.multiply" in remark for remark in missed)


def test_bytes_are_predicted() -> None:
    """`strict` raises where the executable reduces otherwise than predicted; so does a wrong result with `check`."""
    given = CASES["by layers"]
    paropt.jit(given.step, strict=True, check=True)(*given.args)


@pytest.mark.parametrize("name", ["in a loop", "in three levels"])
@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_reduced_once_on_targets(target: str, name: str) -> None:
    available(target)
    given = CASES[name]
    report = paropt.audit(given.step, *given.args, passes="grad-sync", targets=[target])
    assert not report.mismatches
    before, after = report[target].before, report[target].after
    assert (after.sync_in_loop, after.sync_bytes) == (0, given.after)
    assert before.sync_in_loop == MICRO_BATCHES * given.after
