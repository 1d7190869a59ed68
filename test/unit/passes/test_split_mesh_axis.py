"""`split-mesh-axis` on programs that jax lowers: the same results, bit for bit, and the same communication."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from programs.catalog import MATRIX
from programs.program import mesh_of

import paropt
from paropt.passes.support.pipeline import PipelineError

SPLIT = "split-mesh-axis{{axis={} into={}}}"


@pytest.mark.parametrize(
    "name, axis, into",
    [
        ("plain_mlp_p0", "data", "replica:2,data:4"),
        ("plain_mlp_p6", "data", "data:4,fsdp:2"),
        ("plain_mlp_p7", "data", "outer:2,inner:2"),
        ("plain_mlp_p14", "data", "replica:2,data:2"),
        ("plain_mlp_p15", "replica", "a:2,b:2"),
        ("explicit_mlp_p1", "data", "replica:2,data:4"),
        ("explicit_mlp_p6", "data", "a:2,b:2,c:2"),
        ("explicit_mlp_p14", "model", "tensor:2"),
        ("explicit_mlp_p15", "replica", "a:2,b:2"),
    ],
)
def test_training_programs(name: str, axis: str, into: str) -> None:
    program = MATRIX[name]()
    plain = jax.jit(program.step)
    split = paropt.jit(program.step, passes=SPLIT.format(axis, into), strict=True)
    lowered = split.lower(*program.args)
    assert [remark.applied for remark in paropt.remarks(lowered)] == [True]
    assert f'"{axis}"={program.mesh.shape[axis]}' not in lowered.as_text()
    before, after = paropt.audit(plain.lower(*program.args)), paropt.audit(lowered)
    assert [(c.kind, c.arrays, c.group, c.executions) for c in after.collectives] == [
        (c.kind, c.arrays, c.group, c.executions) for c in before.collectives
    ]
    for got, want in zip(leaves(split(*program.args)), leaves(plain(*program.args)), strict=True):
        assert got.sharding.is_equivalent_to(want.sharding, got.ndim)
        np.testing.assert_array_equal(got, want)


def leaves(tree: Any) -> list[jax.Array]:
    return jax.tree.leaves(tree)


def test_defer_sync_runs_after_it() -> None:
    program = MATRIX["explicit_mlp_p0"]()
    passes = SPLIT.format("data", "replica:2,data:4") + ",grad-sync"
    after = paropt.audit(paropt.jit(program.step, passes=passes, strict=True).lower(*program.args))
    losses = 4 * 4
    assert (after.sync_in_loop, after.sync_bytes) == (0, program.gradient_bytes + losses)


def test_devices_in_another_order_and_axes_that_are_explicit() -> None:
    devices = np.array(jax.devices())[::-1].reshape(2, 4)
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = Mesh(devices, ("model", "data"), axis_types=(kind, kind))
        x = jax.device_put(jnp.arange(64.0).reshape(8, 8), NamedSharding(mesh, PartitionSpec("data", "model")))
        step = paropt.jit(lambda x: (x.T + 1, x.sum(0)), passes=SPLIT.format("data", "a:2,b:2"), strict=True)
        for got, want in zip(step(x), jax.jit(lambda x: (x.T + 1, x.sum(0)))(x), strict=True):
            np.testing.assert_array_equal(got, want)
            assert got.sharding.is_equivalent_to(want.sharding, got.ndim)


def test_axis_index_and_permutations_count_devices_as_before() -> None:
    mesh = mesh_of(replica=2, data=4)

    def f(x: Any) -> Any:
        moved = jax.lax.ppermute(x, "data", [(0, 1), (1, 2), (2, 3), (3, 0)])
        gathered = jax.lax.all_gather(moved, "data", tiled=True)
        return moved + jax.lax.axis_index("data"), jax.lax.psum_scatter(gathered, "data", tiled=True)

    spec = PartitionSpec(("replica", "data"))
    mapped = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=(spec, spec))
    x = jnp.arange(32.0)
    for got, want in zip(
        paropt.jit(mapped, passes=SPLIT.format("data", "a:2,b:2"), strict=True)(x), jax.jit(mapped)(x), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "axis, into, message",
    [
        ("dat", "a:2,b:4", "split-mesh-axis: no axis called `dat`; did you mean `data`?"),
        ("data", "a:3,b:4", "split-mesh-axis: axis `data` of @mesh has size 8, and a:3, b:4 multiply to 12"),
    ],
)
def test_a_users_mistake_is_raised_in_one_line_and_not_swallowed(axis: str, into: str, message: str) -> None:
    x = jax.device_put(jnp.ones(8), NamedSharding(mesh_of(data=8), PartitionSpec("data")))
    step = paropt.jit(lambda x: x + 1, passes=SPLIT.format(axis, into))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PipelineError) as raised:
            step(x)
    assert str(raised.value) == message


def test_programs_without_a_mesh_are_left_alone() -> None:
    with paropt.enabled(SPLIT.format("data", "a:2,b:4"), strict=True):
        assert (jnp.ones(8) + 1).sum() == 16
