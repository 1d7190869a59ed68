"""Who takes part in a collective, and which axes of a mesh that is: groups written out by hand, and real programs."""

from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import Devices, mesh_of

import paropt
from paropt.hlo import parser as hlo
from paropt.hlo.census import census
from paropt.hlo.mesh_axes import Part, axes_of_groups, axes_of_pairs, groups_along
from paropt.hlo.participants import Device, Layout, Participants
from paropt.hlo.replica_groups import read_groups, read_pairs, read_slice_groups
from paropt.passes.sharding.meshes import Mesh

SAVED = Path(__file__).parent / "saved"


def mesh(**axes: int) -> Mesh:
    return Mesh(tuple(axes.items()), tuple(range(prod(axes.values()))))


EIGHT = tuple(range(8))
ROWS = ((0, 1, 2, 3), (4, 5, 6, 7))
COLUMNS = ((0, 4), (1, 5), (2, 6), (3, 7))


@pytest.mark.parametrize(
    "text, groups",
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{0,2,4,6},{1,3,5,7}}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("{{0},{1,2}}", ((0,), (1, 2))),
        ("{}", ()),
        ("{{}}", ()),
        ("[2,4]<=[8]", ROWS),
        ("[4,2]<=[2,4]T(1,0)", COLUMNS),
        ("[2,4]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['axis_0'=8,'axis_1'=1] {'axis_0'}", (EIGHT,)),
        ("mesh['data'=4,'model'=2] {'model'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['data'=4,'model'=2] {'data'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['data'=4,'model'=2] {'data','model'}", (EIGHT,)),
        ("mesh['data'=8] {'data':(2)4}", ROWS),
        ("mesh['data'=8] {'data':(1)2}", COLUMNS),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", ((0, 2), (1, 3))),
        ("mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}", ROWS),
        ("mesh['a'=2,'b'=2], device_ids=(3,0,1,2) {'b'}", ((3, 0), (1, 2))),
    ],
)
def test_groups_that_xla_prints(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert read_groups(text) == groups


@pytest.mark.parametrize(
    "text",
    [
        "{{0,1},{a}}",
        "[2,4]",
        "[2,4]<=[4]",
        "mesh['a'=2] {'b'}",
        "mesh['a'=6] {'a':(4)2}",
        "mesh['a'=2] {'a':(0)2}",
        "",
        "{{0,1}",
        "all",
        "mesh['a'=9999999999] {'a'}",
        "[1,9999999999]<=[9999999999]",
    ],
)
def test_other_groups_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="replica groups"):
        read_groups(text)


def test_pairs_and_slices_that_xla_prints() -> None:
    assert read_pairs("{{0,1},{1,0}}") == ((0, 1), (1, 0))
    assert read_pairs("{{100000->200001}}") == ((100000, 200001),)
    assert read_slice_groups('"{1,2}x{0:1}"') == ((100000, 200000), (100001, 200001))
    assert read_slice_groups('"{1,3}x{0,4:5}"') == ((100000, 300000), (100004, 300004), (100005, 300005))
    assert read_slice_groups("{{100000,200001},{100001,200000}}") == ((100000, 200001), (100001, 200000))
    with pytest.raises(ValueError, match="cannot read"):
        read_slice_groups('"{1,2}"')


@pytest.mark.parametrize(
    "groups, axes",
    [
        ((EIGHT,), ("replica", "data")),
        (COLUMNS, ("replica",)),
        (ROWS, ("data",)),
        (tuple(row[::-1] for row in ROWS[::-1]), ("data",)),
        (((0, 1), (2, 3), (4, 5), (6, 7)), ("data:(2)2",)),
        (((0, 2), (1, 3), (4, 6), (5, 7)), ("data:(1)2",)),
        (((0, 2, 4, 6), (1, 3, 5, 7)), ("replica", "data:(1)2")),
        (((0, 3), (1, 2), (4, 7), (5, 6)), ()),  # no part of an axis
        (((0, 1), (2, 3), (4, 6), (5, 7)), ()),  # each group has another
        (((0, 1, 2), (3, 4, 5), (6, 7)), ()),
        (((0, 1, 2, 3),), ()),  # the others are left out
        (((0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)), ()),  # nobody with anybody
        ((tuple(range(16)),), ()),  # of another mesh
        (((8, 9),), ()),
        ((), ()),
    ],
)
def test_axes_that_make_the_groups(groups: tuple[tuple[int, ...], ...], axes: tuple[str, ...]) -> None:
    assert axes_of_groups(groups, [mesh(replica=2, data=4)]) == axes


def test_axes_go_before_parts_of_axes_and_earlier_meshes_before_later_ones() -> None:
    meshes = [mesh(all=8), mesh(replica=2, data=4), mesh(slice=2, host=4)]
    assert axes_of_groups(ROWS, meshes) == ("data",)
    assert axes_of_groups(ROWS, meshes[:1]) == ("all:(2)4",)
    assert axes_of_groups(ROWS, [mesh(all=16), *meshes]) == ("data",)
    assert axes_of_groups(ROWS, []) == ()


def test_the_order_of_devices_of_a_mesh_counts() -> None:
    turned = Mesh((("data", 4), ("slice", 2)), (0, 4, 1, 5, 2, 6, 3, 7))
    assert axes_of_groups(ROWS, [turned]) == ("data",)
    assert axes_of_groups(COLUMNS, [turned]) == ("slice",)


@pytest.mark.parametrize(
    "pairs, axes",
    [
        (((0, 1), (1, 2), (2, 3), (3, 0)), ("data",)),
        (((0, 4),), ("replica",)),
        (((0, 5), (1, 4)), ("replica", "data")),
        (((0, 0),), ()),
        (((0, 8),), ()),
        ((), ()),
    ],
)
def test_axes_that_pairs_move_along(pairs: tuple[tuple[int, int], ...], axes: tuple[str, ...]) -> None:
    assert axes_of_pairs(pairs, [mesh(replica=2, data=4)]) == axes


def test_parts_that_a_mesh_cannot_be_cut_into() -> None:
    data = mesh(data=8)
    assert groups_along(data, [Part("data", 2, 4)]) == ROWS
    assert groups_along(data, [Part("data", 1, 2), Part("data", 4, 2)]) == ((0, 1, 4, 5), (2, 3, 6, 7))
    assert groups_along(data, [Part("data", 1, 3)]) is None
    assert groups_along(data, [Part("data", 1, 4), Part("data", 2, 2)]) is None  # they overlap
    assert groups_along(data, [Part("model", 1, 2)]) is None
    assert groups_along(mesh(data=8, one=1), [Part("one", 1, 1)]) == tuple((i,) for i in range(8))


@st.composite
def meshes_and_axes(draw: st.DrawFn) -> tuple[Mesh, list[str]]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    ids = draw(st.permutations(range(prod(sizes))))
    names = "abcd"[: len(sizes)]
    chosen = [name for name, size in zip(names, sizes, strict=True) if size > 1 and draw(st.booleans())]
    return Mesh(tuple(zip(names, sizes, strict=True)), tuple(ids)), chosen


@given(meshes_and_axes())
def test_axes_are_found_again(given: tuple[Mesh, list[str]]) -> None:
    along, axes = given
    groups = along.groups(axes)
    assert groups is not None
    assert axes_of_groups(groups, [along]) == tuple(axes)


# Slices: an executable is for one of them.


def one_slice(partitions: int = 4) -> hlo.Module:
    text = f"HloModule m, num_partitions={partitions}\n\nENTRY main {{\n  ROOT a = f32[] parameter(0)\n}}\n"
    return hlo.parse(text)


def two_slices(order: tuple[int, ...]) -> tuple[Device, ...]:
    """The devices of two slices of four, in this order."""
    return tuple(Device(100_000 * (1 + i // 4) + i % 4, i // 4) for i in order)


def test_groups_of_one_slice_are_those_of_each() -> None:
    layout = Layout((mesh(slice=2, data=4),), two_slices(EIGHT))
    assert layout.axes(Participants(((0, 1, 2, 3),)), one_slice()) == ("data",)
    assert layout.axes(Participants((), ((0, 1), (1, 0))), one_slice()) == ("data",)
    turned = Layout((mesh(data=4, slice=2),), two_slices((0, 4, 1, 5, 2, 6, 3, 7)))
    assert turned.axes(Participants(((0, 1, 2, 3),)), one_slice()) == ("data",)


def test_groups_of_devices_are_those_of_their_partitions() -> None:
    between = Participants(((100000, 200000), (100001, 200001), (100002, 200002), (100003, 200003)), by_device=True)
    assert Layout((mesh(slice=2, data=4),), two_slices(EIGHT)).axes(between, one_slice()) == ("slice",)
    turned = Layout((mesh(data=4, slice=2),), two_slices((0, 4, 1, 5, 2, 6, 3, 7)))
    assert turned.axes(between, one_slice()) == ("slice",)
    assert turned.axes(Participants(((100000, 300000),), by_device=True), one_slice()) == ()
    assert Layout((mesh(slice=2, data=4),)).axes(between, one_slice()) == ()  # devices that are not known


def test_groups_of_the_whole_program_stay_what_they_are() -> None:
    layout = Layout((mesh(replica=2, data=4),), two_slices(EIGHT))
    assert layout.axes(Participants(ROWS), one_slice(8)) == ("data",)
    assert Layout((mesh(data=8),)).axes(Participants(((0, 1, 2, 3),)), one_slice()) == ()


# Programs


def all_axes(found: Any) -> set[tuple[str, tuple[str, ...]]]:
    return {(c.kind, c.axes) for c in found.collectives}


X = jax.ShapeDtypeStruct((16, 16), jnp.float32)


@pytest.mark.parametrize(
    "sizes, over",
    [
        ({"data": 8}, ("data",)),
        ({"replica": 2, "data": 4}, ("replica",)),
        ({"replica": 2, "data": 4}, ("data",)),
        ({"replica": 2, "data": 4}, ("replica", "data")),
        ({"pipe": 2, "data": 2, "model": 2}, ("pipe", "model")),
    ],
)
def test_a_sum_over_axes_spans_them(sizes: dict[str, int], over: tuple[str, ...]) -> None:
    summed = jax.shard_map(
        lambda x: lax.psum(x, over),
        mesh=mesh_of(None, **sizes),
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    assert all_axes(paropt.audit(summed, X)) == {("all-reduce", over)}


def test_a_sum_over_groups_of_an_axis_spans_a_part_of_it() -> None:
    def summed(x: jax.Array) -> jax.Array:
        return lax.psum(x, "data", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])

    spec = PartitionSpec("data")
    mapped = jax.shard_map(summed, mesh=mesh_of(data=8), in_specs=spec, out_specs=spec, check_vma=False)
    (row,) = paropt.audit(mapped, X).collectives
    assert (row.axes, row.group) == (("data:(2)4",), 4)


def tensor_parallel(devices: Devices = None) -> tuple[jax.stages.Wrapped, tuple[jax.ShapeDtypeStruct, ...]]:
    """A plain `jit`: activations are summed over `model`, gradients over `data`. By hand: one all-reduce each."""
    mesh = mesh_of(devices, data=4, model=2)

    def spec(*axes: str | None) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*axes))

    def gradient(w: jax.Array, x: jax.Array) -> jax.Array:
        y = lax.with_sharding_constraint(jnp.tanh(x @ w), spec("data", None))  # a sum over the rows of w: `model`
        return lax.with_sharding_constraint(x.T @ y, spec("model", None))  # a sum over the rows of x: `data`

    jitted = jax.jit(
        gradient, in_shardings=(spec("model", None), spec("data", "model")), out_shardings=spec("model", None)
    )
    return jitted, (jax.ShapeDtypeStruct((16, 32), jnp.float32), jax.ShapeDtypeStruct((64, 16), jnp.float32))


def test_a_tensor_parallel_program_sums_activations_over_model_and_gradients_over_data() -> None:
    jitted, args = tensor_parallel()
    found = paropt.audit(jitted, *args)
    assert sorted((c.axes, c.group, c.payload) for c in found.collectives) == [
        (("data",), 4, 8 * 32 * 4),  # a half of the gradient
        (("model",), 2, 16 * 32 * 4),  # the activations of a quarter of the examples
    ]


def test_what_is_compiled_names_no_mesh_unless_it_is_given() -> None:
    jitted, args = tensor_parallel()
    compiled = jitted.lower(*args).compile()
    named = mesh_of(batch=4, tensor=2)
    for program in (compiled, compiled.as_text()):
        assert {c.axes for c in paropt.audit(program).collectives} == {()}
        assert {c.axes for c in paropt.audit(program, mesh=named).collectives} == {("batch",), ("tensor",)}
    with pytest.raises(TypeError, match="`mesh` is for programs that are compiled"):
        paropt.audit(jitted, *args, mesh=named)


@pytest.mark.parametrize("stem", ["cpu-jax-0.10.2", "cpu-jax-0.12.0", "tpu-v5e-jax-0.10.2", "gpu-h100-jax-0.10.2"])
def test_axes_of_saved_texts(stem: str) -> None:
    """hlo/generate.py: a psum over `data` in the inner loop; gathers over `model`; pmean over both."""
    rows = census((SAVED / f"{stem}.txt").read_text(), Layout((mesh(data=4, model=2),)))
    assert {row.axes for row in rows if row.depth == 2} == {("data",)}
    assert {row.axes for row in rows if row.kind == "all-gather"} == {("model",)}
    assert {row.axes for row in rows if row.group == 8 and row.kind == "all-reduce"} == {("data", "model")}
    assert {row.axes for row in rows if row.kind not in ("all-reduce", "all-gather")} <= {("data",)}


def test_devices_of_another_order() -> None:
    shuffled = np.array(jax.devices())[[0, 5, 2, 7, 4, 1, 6, 3]].reshape(2, 4)
    jitted = jax.jit(
        lambda x: x.sum(0), in_shardings=NamedSharding(jax.sharding.Mesh(shuffled, ("a", "b")), PartitionSpec("b"))
    )
    assert all_axes(paropt.audit(jitted, X)) == {("all-reduce", ("b",))}
