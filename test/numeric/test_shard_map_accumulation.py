"""Accumulation under `jax.shard_map`, as users sum over devices in a loop: the same results, how often XLA syncs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from programs.catalog import MATRIX
from programs.compare import difference_from_definition, tolerance_of
from programs.program import Sizes, data_mesh, mesh_of

import paropt
from paropt.audit import SYNC_KINDS, Audit

MICRO_BATCHES = 4
SHAPE = (4, 4)
BYTES = 4 * 4 * 4
Step = Callable[[jax.Array, jax.Array], jax.Array]

WEIGHTS = np.arange(16).reshape(4, 4) % 5 - 2
ROWS = np.array([2, 0, 2, 1])

# What becomes of a sum over devices before it is added to the accumulator. `i` is the number of the micro-batch.
LINEAR: dict[str, Step] = {
    "cumulative sum": lambda g, i: jnp.cumsum(g, axis=0),
    "rows of it": lambda g, i: g[ROWS],
    "the row that it is the turn of": lambda g, i: jnp.zeros(SHAPE) + g[i],
    "times a matrix": lambda g, i: g @ WEIGHTS,
    "times a matrix from the left": lambda g, i: jnp.matmul(WEIGHTS, g),
    "added to rows": lambda g, i: jnp.zeros(SHAPE).at[ROWS].add(g),
    "written to a row": lambda g, i: jnp.zeros(SHAPE).at[i].set(g[0]),
    "smoothed": lambda g, i: jnp.apply_along_axis(lambda v: jnp.convolve(v, jnp.array([1.0, 2.0, 1.0]), "same"), 0, g),
    "mean over rows": lambda g, i: g - g.sum(0, keepdims=True) / 4,
    "of a Fourier pair": lambda g, i: jnp.real(lax.complex(g, 2 * g) * 2) + jnp.imag(lax.complex(g, 2 * g)),
}


def accumulated(each: Step) -> Callable[[jax.Array], jax.Array]:
    """`each` of the sum over devices of a micro-batch, added up."""

    def step(batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            x, i = batch
            return total + each(lax.psum(x * x, "data"), i), None

        return lax.scan(body, jnp.zeros(SHAPE), (batches[0], jnp.arange(MICRO_BATCHES)))[0]

    return mapped(step)


def mapped(step: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    specs: dict[str, Any] = {"in_specs": PartitionSpec("data"), "out_specs": PartitionSpec(), "check_vma": False}
    return jax.shard_map(step, mesh=data_mesh(), **specs)


def batches() -> jax.Array:
    """Small integers: sums are exact in any order."""
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.integers(-4, 5, (8, MICRO_BATCHES, *SHAPE)), jnp.float32)


def assert_same(program: Callable[[jax.Array], jax.Array], passes: str) -> Audit:
    """The audit after the passes, when the results are those of the program without them, bit for bit."""
    ours = paropt.jit(program, passes=passes, strict=True)
    np.testing.assert_array_equal(np.asarray(ours(batches())), np.asarray(jax.jit(program)(batches())))
    return paropt.audit(ours.lower(batches()))


@pytest.mark.parametrize("name", LINEAR)
def test_a_sum_leaves_the_loop_through_linear_ops(name: str) -> None:
    program = accumulated(LINEAR[name])
    assert paropt.audit(jax.jit(program).lower(batches())).sync_in_loop == MICRO_BATCHES * BYTES
    after = assert_same(program, "grad-sync")
    assert after.sync_in_loop == 0
    assert after.sync_bytes == BYTES


def synced_at_the_end(total: jax.Array, i: jax.Array) -> jax.Array:
    return lax.cond(i == MICRO_BATCHES - 1, lambda v: lax.psum(v, "data"), lambda v: v, total)


def with_scan(batches: jax.Array) -> jax.Array:
    def body(total: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        x, i = batch
        return synced_at_the_end(total + x * x, i), None

    return lax.scan(body, jnp.zeros(SHAPE), (batches[0], jnp.arange(MICRO_BATCHES)))[0]


def with_a_float_index(batches: jax.Array) -> jax.Array:
    def body(total: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        x, i = batch
        return synced_at_the_end(total + x * i, i), None

    return lax.scan(body, jnp.zeros(SHAPE), (batches[0], jnp.arange(float(MICRO_BATCHES))))[0]


def with_fori_loop(batches: jax.Array) -> jax.Array:
    def body(i: jax.Array, total: jax.Array) -> jax.Array:
        return synced_at_the_end(total + batches[0, i], i)

    return lax.fori_loop(0, MICRO_BATCHES, body, jnp.zeros(SHAPE))


@pytest.mark.parametrize("step", [with_scan, with_a_float_index, with_fori_loop], ids=lambda step: step.__name__)
def test_a_sync_on_the_last_micro_batch_leaves_the_loop(step: Callable[[jax.Array], jax.Array]) -> None:
    assert paropt.audit(jax.jit(mapped(step)).lower(batches())).sync_in_loop > 0
    after = assert_same(mapped(step), "grad-sync")
    assert after.sync_in_loop == 0
    assert after.sync_bytes == BYTES


def test_a_sync_in_some_micro_batches_leaves_the_loop() -> None:
    def step(batches: jax.Array) -> jax.Array:
        def body(total: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            x, i = batch
            return lax.cond(i != 1, lambda v: total + lax.psum(v, "data"), lambda v: total, x), None

        return lax.scan(body, jnp.ones(SHAPE), (batches[0], jnp.arange(MICRO_BATCHES)))[0]

    after = assert_same(mapped(step), "grad-sync")
    assert after.sync_in_loop == 0
    assert after.sync_bytes == BYTES


# Bytes that leave the loop, and of what is left in it, per step: the shards of FSDP, and the replicas of HSDP.
@pytest.mark.parametrize(
    "name, policy, in_loop",
    [
        ("explicit_mlp_p6", "keep-shards", {"reduce-scatter"}),
        ("explicit_mlp_p6", "every", {"reduce-scatter"}),
        ("explicit_mlp_p6", "defer", set()),
        ("explicit_mlp_p6", "auto memory-budget=0", {"reduce-scatter"}),
        ("explicit_mlp_p6", "auto memory-budget=1000000", set()),
        ("explicit_mlp_p7", "hierarchical", {"reduce-scatter"}),
        ("explicit_mlp_p7", "defer", set()),
        ("explicit_mlp_p7", "defer axes=replica", {"reduce-scatter"}),
        ("explicit_mlp_p7", "defer axes=data", {"reduce-scatter", "all-reduce"}),
        ("plain_mlp_p6", "keep-shards", {"reduce-scatter"}),
        ("plain_mlp_p6", "every", {"reduce-scatter"}),
        ("plain_mlp_p6", "defer", set()),
        ("plain_mlp_p6", "auto memory-budget=0", {"reduce-scatter"}),
        ("plain_mlp_p6", "auto memory-budget=1000000", set()),
        ("plain_mlp_p7", "hierarchical", {"reduce-scatter"}),
        ("plain_mlp_p7", "every", {"reduce-scatter", "all-reduce"}),
        ("plain_mlp_p7", "defer", set()),
        ("plain_mlp_p7", "hierarchical axes=replica", {"reduce-scatter"}),
        ("plain_mlp_p11", "keep-shards", {"reduce-scatter"}),
        ("plain_mlp_p11", "keep-shards inferred=whole", set()),
    ],
)
def test_policies_of_sharded_programs(name: str, policy: str, in_loop: set[str]) -> None:
    program = MATRIX[name](Sizes(layers=1))
    ours = paropt.jit(program.step, passes=f"grad-sync{{policy={policy} scatters=written}}", strict=True)
    compiled = ours.lower(*program.args).compile()
    assert difference_from_definition(program, compiled(*program.args)) <= tolerance_of(name)
    found = paropt.audit(compiled).collectives
    large = [c for c in found if c.loops and c.kind in SYNC_KINDS and max(a.elements for a in c.arrays) > 1]
    assert {c.kind for c in large} == in_loop


# Where each device keeps a shard, the sum that follows the loop is scattered, and no whole one is made.
@pytest.mark.parametrize(
    "name, policy", [("plain_mlp_p6", "defer"), ("plain_mlp_p7", "defer"), ("plain_mlp_p11", "defer")]
)
def test_sums_are_scattered_after_the_loop(name: str, policy: str) -> None:
    program = MATRIX[name]()
    alone = jax.jit(program.step).lower(*program.args).compile()
    compiled = paropt.jit(program.step, passes=f"grad-sync{{policy={policy}}}").lower(*program.args).compile()
    large = [c for c in paropt.audit(compiled).collectives if max(a.elements for a in c.arrays) > MICRO_BATCHES]
    scattered = [c for c in large if c.kind == "reduce-scatter"]
    assert sum(c.payload for c in scattered) == program.gradient_bytes
    whole = [c for c in large if c.kind == "all-reduce" and c.payload > program.gradient_bytes / 4]
    assert not whole
    gathered = [
        sum(c.payload for c in paropt.audit(p).collectives if c.kind == "all-gather") for p in (alone, compiled)
    ]
    assert gathered[1] <= gathered[0]


def test_scattering_in_the_loop_takes_less_memory() -> None:
    program = MATRIX["plain_mlp_p6"]()
    steps = jax.jit(program.step), paropt.jit(program.step, passes="grad-sync{scatters=written}")
    alone, ours = (step.lower(*program.args).compile().memory_analysis().temp_size_in_bytes for step in steps)
    assert ours < 0.6 * alone


def summed(dtype: type, micro_batches: int) -> Callable[[jax.Array], jax.Array]:
    """The sum of `micro_batches` times the first element of this device, in an accumulator of type `dtype`."""

    def step(batches: jax.Array) -> jax.Array:
        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            return total + lax.psum(batches[0, 0, 0, 0].astype(dtype), "data")

        return lax.fori_loop(0, micro_batches, body, dtype(0.0))

    return mapped(step)


# One device has 1, the others 0. An accumulator in bf16 stays at 256, where 1 is half of its last bit.
@pytest.mark.parametrize(
    "dtype, options, result",
    [
        (jnp.bfloat16, "", 256),
        (jnp.bfloat16, "{accumulate-dtype=f32}", 300),
        (jnp.bfloat16, "{accumulate-dtype=f32 wire-dtype=f32}", 300),
        (jnp.float32, "", 301),
        (jnp.float32, "{accumulate-dtype=bf16}", 301),
        (jnp.float32, "{wire-dtype=bf16}", 300),
    ],
)
def test_precision(dtype: type, options: str, result: float) -> None:
    one = jnp.zeros((8, 1, 1, 1)).at[3].set(1.0)
    micro_batches = 301 if dtype is jnp.float32 else 300
    ours = paropt.jit(summed(dtype, micro_batches), passes=f"inline-calls,defer-sync{options}", strict=True)
    lowered = ours.lower(one)
    assert paropt.audit(lowered).sync_in_loop == 0
    assert ours(one) == result


OUTSIDE = {"placed in the loop": False, "placed before the loop": True}


def on_mesh(step: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    spec = PartitionSpec(("replica", "data"))
    return jax.shard_map(step, mesh=mesh_of(replica=2, data=4), in_specs=spec, out_specs=spec, check_vma=False)


def own_shard(axes: str | tuple[str, ...], outside: bool = False) -> Callable[[jax.Array], jax.Array]:
    """Each device keeps its quarter of the sum over `axes` of each micro-batch."""

    def step(batches: jax.Array) -> jax.Array:
        before = lax.axis_index("data")

        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            whole = lax.psum(x * x, axes)
            place = before if outside else lax.axis_index("data")
            return total + lax.dynamic_slice_in_dim(whole, place, 1, 0), None

        return lax.scan(body, jnp.ones((1, 4)), batches[0])[0]

    return on_mesh(step)


def own_row_in_a_nest(batches: jax.Array) -> jax.Array:
    """The same in a loop over halves of each micro-batch, in a loop over these, as rows."""
    place = lax.axis_index("data")

    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        def half(inner: jax.Array, y: jax.Array) -> tuple[jax.Array, None]:
            return inner + 2 * lax.dynamic_index_in_dim(lax.psum(x * y, "data"), place, 0, keepdims=False), None

        return lax.scan(half, total, jnp.stack([x, x * x]))[0], None

    return lax.scan(body, jnp.ones(4), batches[0])[0]


@pytest.mark.parametrize("outside", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("axes, summed", [("data", 0), (("replica", "data"), BYTES // 4)])
def test_an_all_reduce_of_own_shards_is_scattered(axes: str | tuple[str, ...], summed: int, outside: bool) -> None:
    after = assert_same(own_shard(axes, outside), "inline-calls,defer-sync{policy=hierarchical}")
    assert {c.kind for c in after.collectives if c.loops} == {"reduce-scatter"}
    assert after.sync_in_loop == MICRO_BATCHES * BYTES
    assert after.sync_bytes - after.sync_in_loop == summed


# An accumulator of the whole holds three quarters more than one of a shard: 48 bytes.
@pytest.mark.parametrize(
    "options, in_loop",
    [("policy=defer", 0), ("policy=auto memory-budget=48", 0), ("policy=auto memory-budget=47", MICRO_BATCHES * BYTES)],
)
@pytest.mark.parametrize("outside", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize("axes, summed", [("data", 0), (("replica", "data"), BYTES // 4)])
def test_own_shards_leave_the_loop(
    axes: str | tuple[str, ...], summed: int, outside: bool, options: str, in_loop: int
) -> None:
    after = assert_same(own_shard(axes, outside), f"grad-sync{{{options}}}")
    assert {c.kind for c in after.collectives if c.loops} == ({"reduce-scatter"} if in_loop else set())
    assert after.sync_in_loop == in_loop
    assert after.sync_bytes == (in_loop or BYTES) + summed


def test_own_shards_leave_a_nest_of_loops() -> None:
    program = on_mesh(own_row_in_a_nest)
    assert paropt.audit(jax.jit(program).lower(batches())).sync_in_loop == 2 * MICRO_BATCHES * BYTES
    after = assert_same(program, "grad-sync{policy=defer}")
    assert (after.sync_in_loop, after.sync_bytes) == (0, BYTES)
    assert [c.kind for c in after.collectives] == ["reduce-scatter"]


def scattered_rows(batches: jax.Array) -> jax.Array:
    """ZeRO-2: of the sum of each micro-batch, each device gets a row, as `psum_scatter` gives it by default."""

    def body(total: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        x, i = batch
        row = lax.psum_scatter((x * x).astype(jnp.bfloat16), "data")
        return total * 2 - row.astype(jnp.float32) * i, None

    return lax.scan(body, jnp.arange(4.0), (batches[0], jnp.arange(float(MICRO_BATCHES))))[0]


def test_a_reduce_scatter_that_drops_its_dimension_leaves_the_loop() -> None:
    program = on_mesh(scattered_rows)
    assert assert_same(program, "grad-sync").sync_in_loop == MICRO_BATCHES * BYTES  # XLA:CPU reduces bf16 as f32
    after = assert_same(program, "grad-sync{policy=defer}")
    assert (after.sync_in_loop, after.sync_bytes) == (0, BYTES)
    assert [c.kind for c in after.collectives] == ["reduce-scatter"]


def scattered_rows_unrolled(batches: jax.Array) -> jax.Array:
    return sum((lax.psum_scatter(x, "data") for x in batches[0]), start=jnp.zeros(4))


def test_reduce_scatters_that_drop_their_dimension_are_fused() -> None:
    after = assert_same(on_mesh(scattered_rows_unrolled), "fuse-all-reduces")
    assert after.sync_bytes == BYTES
