"""Each row of the op table that is linear, executed: `op(all_reduce(x))` equals `all_reduce(op(x))`, bit for bit."""

import re
from itertools import product
from math import prod

import numpy as np
import pytest
from numeric.oracle import assert_same, optimized

from paropt.passes.dataflow.linearity import LAWS
from paropt.passes.ir.op_table import LINEAR, OP_TABLE, ops_with

# Per op: the type of what is reduced, the type of the result, and the op on %a, which is reduced. %b is not reduced,
# %u is a scalar that is reduced by a maximum, or a minimum, and so uniform.
PROGRAMS = {
    "stablehlo.subtract": ("4xi32", "4xi32", "stablehlo.subtract %b, %a : tensor<4xi32>"),
    "stablehlo.negate": ("4xi32", "4xi32", "stablehlo.negate %a : tensor<4xi32>"),
    "stablehlo.multiply": ("i32", "i32", "stablehlo.multiply %a, %u : tensor<i32>"),
    "stablehlo.divide": ("4xf32", "4xf32", "stablehlo.divide %a, %two : tensor<4xf32>"),
    "stablehlo.convert": ("4xbf16", "4xf32", "stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xf32>"),
    "stablehlo.reshape": ("4xi32", "2x2xi32", "stablehlo.reshape %a : (tensor<4xi32>) -> tensor<2x2xi32>"),
    "stablehlo.transpose": (
        "4x2xi32",
        "2x4xi32",
        "stablehlo.transpose %a, dims = [1, 0] : (tensor<4x2xi32>) -> tensor<2x4xi32>",
    ),
    "stablehlo.reverse": ("4xi32", "4xi32", "stablehlo.reverse %a, dims = [0] : tensor<4xi32>"),
    "stablehlo.broadcast_in_dim": (
        "4xi32",
        "2x4xi32",
        "stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<4xi32>) -> tensor<2x4xi32>",
    ),
    "stablehlo.slice": ("4xi32", "2xi32", "stablehlo.slice %a [1:4:2] : (tensor<4xi32>) -> tensor<2xi32>"),
    "stablehlo.pad": (
        "2xi32",
        "6xi32",
        "stablehlo.pad %a, %zero, low = [2], high = [1], interior = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<6xi32>",
    ),
    "stablehlo.concatenate": (
        "4xi32",
        "8xi32",
        "stablehlo.concatenate %b, %a, dim = 0 : (tensor<4xi32>, tensor<4xi32>) -> tensor<8xi32>",
    ),
    "stablehlo.select": ("4xi32", "4xi32", "stablehlo.select %yes, %a, %b : tensor<i1>, tensor<4xi32>"),
    "stablehlo.dynamic_slice": (
        "4xi32",
        "2xi32",
        "stablehlo.dynamic_slice %a, %u, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<2xi32>",
    ),
    "stablehlo.dynamic_update_slice": (
        "4xi32",
        "4xi32",
        "stablehlo.dynamic_update_slice %b, %c, %u : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>",
    ),
    "stablehlo.reduce": (
        "2x4xi32",
        "4xi32",
        "stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] "
        ": (tensor<2x4xi32>, tensor<i32>) -> tensor<4xi32>",
    ),
    "stablehlo.reduce_window": (
        "4xi32",
        "4xi32",
        '"stablehlo.reduce_window"(%a, %zero) <{padding = dense<[[3, 0]]> : tensor<1x2xi64>, '
        "window_dimensions = array<i64: 4>}> ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q "
        ": tensor<i32> stablehlo.return %r : tensor<i32> }) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>",
    ),
    "stablehlo.gather": (
        "4x2xi32",
        "3x2xi32",
        '"stablehlo.gather"(%a, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
        "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, "
        "indices_are_sorted = false}> : (tensor<4x2xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>",
    ),
    "stablehlo.scatter": (
        "4x2xi32",
        "4x2xi32",
        '"stablehlo.scatter"(%b, %rows, %d) <{indices_are_sorted = false, unique_indices = false, '
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): "
        "%r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) "
        ": (tensor<4x2xi32>, tensor<3x1xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>",
    ),
    "stablehlo.dot_general": (
        "4x2xi32",
        "3x2xi32",
        "stablehlo.dot_general %matrix, %a, contracting_dims = [1] x [0] "
        ": (tensor<3x4xi32>, tensor<4x2xi32>) -> tensor<3x2xi32>",
    ),
    "stablehlo.convolution": (
        "1x4x1xf32",
        "1x3x1xf32",
        "stablehlo.convolution(%a, %kernel) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} "
        ": (tensor<1x4x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>",
    ),
    "stablehlo.real": ("4xcomplex<f32>", "4xf32", "stablehlo.real %a : (tensor<4xcomplex<f32>>) -> tensor<4xf32>"),
    "stablehlo.imag": ("4xcomplex<f32>", "4xf32", "stablehlo.imag %a : (tensor<4xcomplex<f32>>) -> tensor<4xf32>"),
    "stablehlo.complex": ("4xf32", "4xcomplex<f32>", "stablehlo.complex %b, %a : tensor<4xcomplex<f32>>"),
    "stablehlo.optimization_barrier": ("4xi32", "4xi32", "stablehlo.optimization_barrier %a : tensor<4xi32>"),
    "sdy.sharding_constraint": ("8xi32", "8xi32", "sdy.sharding_constraint %a <@mesh, [{}]> : tensor<8xi32>"),
}

REDUCED = """"stablehlo.all_reduce"({value}) ({{
      ^bb0(%p: tensor<{element}>, %q: tensor<{element}>):
        %r = stablehlo.{combiner} %p, %q : tensor<{element}>
        stablehlo.return %r : tensor<{element}>
    }}) {{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>{mode}}} : (tensor<{type}>) -> tensor<{type}>"""

REPLICAS = """module attributes {{mhlo.num_replicas = 8 : i32}} {{
  func.func public @main(%x: tensor<{type}>, %y: tensor<{result}>, %b: tensor<{type}>, %v: tensor<i32>) -> tensor<{result}> {{
    {body}
    return %sum : tensor<{result}>
  }}
}}"""

# Sharding constraints stand in the global program and in manual computations that leave an axis to Shardy.
MANUAL = """module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(%global: tensor<64xi32>, %v: tensor<i32>) -> tensor<8xi32> {{
    %0 = sdy.manual_computation(%global, %v) in_shardings=[<@mesh, [{{"data"}}]>, <@mesh, []>] out_shardings=[<@mesh, [{{}}]>] manual_axes={{"data"}} (%x: tensor<8xi32>, %v0: tensor<i32>) {{
    %y = stablehlo.multiply %x, %x : tensor<8xi32>
    {body}
    sdy.return %sum : tensor<8xi32>
    }} : (tensor<64xi32>, tensor<i32>) -> tensor<8xi32>
    return %0 : tensor<8xi32>
  }}
}}"""


def program(name: str, reducer: str = "add") -> str:
    """The op `name` on a reduced value, combined with another reduced value."""
    kind, result, op = PROGRAMS[name]
    manual = name.startswith("sdy.")
    mode = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids" if manual else ""

    def reduced(value: str, type_: str, combiner: str = reducer) -> str:
        element = re.sub(r"^(\d+x)*", "", type_)
        return REDUCED.format(value=value, type=type_, element=element, combiner=combiner, mode=mode)

    lines = [
        "%zero = stablehlo.constant dense<0> : tensor<i32>",
        "%two = stablehlo.constant dense<2.0> : tensor<4xf32>",
        "%yes = stablehlo.constant dense<true> : tensor<i1>",
        "%rows = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi32>",
        "%kernel = stablehlo.constant dense<[[[3.0]], [[-1.0]]]> : tensor<2x1x1xf32>",
        f"%u = {reduced('%v', 'i32', 'minimum' if reducer == 'maximum' else 'maximum')}"
        if "%u" in op or "%matrix" in op
        else "",
        f"%a = {reduced('%x', kind)}",
        "%c = stablehlo.slice %a [0:2] : (tensor<4xi32>) -> tensor<2xi32>" if "%c" in op else "",
        "%d = stablehlo.slice %a [0:3, 0:2] : (tensor<4x2xi32>) -> tensor<3x2xi32>" if "%d" in op else "",
        "%matrix = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<i32>) -> tensor<3x4xi32>"
        if "%matrix" in op
        else "",
        f"%f = {op}",
        f"%other = {reduced('%y', result)}",
        f"%sum = stablehlo.{reducer} %f, %other : tensor<{result}>",
    ]
    return (MANUAL if manual else REPLICAS).format(type=kind, result=result, body="\n    ".join(filter(None, lines)))


def test_every_row_has_a_program() -> None:
    assert set(PROGRAMS) == set(LINEAR)


def test_rows_name_the_laws() -> None:
    assert {OP_TABLE[name].law for name in LINEAR} == set(LAWS)
    assert all(OP_TABLE[name].reason for name in LINEAR)


@pytest.mark.parametrize("name", LINEAR)
def test_row_holds(name: str) -> None:
    before = program(name)
    after, _ = optimized(before, "fuse-all-reduces")
    sums = after.count("stablehlo.all_reduce") - after.count("stablehlo.maximum")
    assert sums == 1, f"the reduction did not cross {name}:\n{after}"
    assert_same(before, after, range(3))


@pytest.mark.parametrize("name", ops_with("copies"))
def test_row_holds_whatever_the_reducer(name: str) -> None:
    before = program(name, "maximum")
    after, _ = optimized(before, "fuse-all-reduces")
    assert after.count("stablehlo.all_reduce") == before.count("stablehlo.all_reduce") - 1, after
    assert_same(before, after, range(3))


def test_no_other_row_holds_whatever_the_reducer() -> None:
    """`copies` is left out of no row by accident: a maximum does not cross the others."""
    for name in set(PROGRAMS) - {*ops_with("copies"), "stablehlo.real", "stablehlo.imag", "stablehlo.complex"}:
        before = program(name, "maximum")
        after, _ = optimized(before, "fuse-all-reduces")
        assert after.count("stablehlo.all_reduce") == before.count("stablehlo.all_reduce"), name


SHARDS = """module attributes {{mhlo.num_replicas = 8 : i32}} {{
  func.func public @main(%x: tensor<{whole}>, %y: tensor<{whole_result}>, %b: tensor<{kind}>) -> tensor<{result}> {{
    %two = stablehlo.constant dense<2.0> : tensor<4xf32>
    %three = stablehlo.constant dense<3> : tensor<4xi32>
    %a = {reduced_x}
    %f = {op}
    %other = {reduced_y}
    %sum = stablehlo.add %f, %other : tensor<{result}>
    return %sum : tensor<{result}>
  }}
}}"""
SCATTERED = """"stablehlo.reduce_scatter"({value}) ({{ ^bb0(%p: tensor<{element}>, %q: tensor<{element}>):
  %r = stablehlo.add %p, %q : tensor<{element}> stablehlo.return %r : tensor<{element}> }})
  {{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, scatter_dimension = 0 : i64}}
  : (tensor<32x{element}>) -> tensor<4x{element}>"""


@pytest.mark.parametrize("name", ops_with("shardwise"))
def test_row_holds_of_shards(name: str) -> None:
    """`op(reduce_scatter(x))` equals `reduce_scatter(op(x))`."""
    kind, result, op = PROGRAMS[name]
    if name == "stablehlo.multiply":
        kind, result, op = "4xi32", "4xi32", "stablehlo.multiply %a, %three : tensor<4xi32>"
    element, of_result = kind.removeprefix("4x"), result.removeprefix("4x")
    before = SHARDS.format(
        whole=f"32x{element}",
        whole_result=f"32x{of_result}",
        kind=kind,
        element=element,
        result=result,
        op=op,
        reduced_x=SCATTERED.format(value="%x", element=element),
        reduced_y=SCATTERED.format(value="%y", element=of_result),
    )
    after, _ = optimized(before, "fuse-all-reduces")
    assert after.count("stablehlo.reduce_scatter") == 1, f"the reduction did not cross {name}:\n{after}"
    assert_same(before, after, range(3))


Shape = tuple[int, ...]
SHAPES = [shape for rank in (1, 2, 3) for shape in product((1, 2, 3, 6), repeat=rank) if prod(shape) == 6]

RESHAPED_SHARD = """module attributes {{mhlo.num_replicas = 8 : i32}} {{
  func.func public @main(%x: tensor<{x}>, %y: tensor<{y}>) -> tensor<{b}> {{
    %a = {scatter}(%x) {add}, scatter_dimension = {dimension} : i64}} : (tensor<{x}>) -> tensor<{a}>
    %b = {scatter}(%y) {add}, scatter_dimension = {dimension} : i64}} : (tensor<{y}>) -> tensor<{b}>
    %r = stablehlo.reshape %a : (tensor<{a}>) -> tensor<{b}>
    %s = stablehlo.add %r, %b : tensor<{b}>
    return %s : tensor<{b}>
  }}
}}"""
ADD = (
    "({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : "
    "tensor<i32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>"
)


def whole(shard: Shape, dimension: int) -> Shape:
    return tuple(8 * size if i == dimension else size for i, size in enumerate(shard))


def reshaped_shard(before: Shape, after: Shape, dimension: int) -> str:
    """A reshape of what is scattered, plus something that is."""
    shapes = {"a": before, "b": after, "x": whole(before, dimension), "y": whole(after, dimension)}
    types = {name: "x".join(map(str, (*shape, "i32"))) for name, shape in shapes.items()}
    scatter = '"stablehlo.reduce_scatter"'
    return RESHAPED_SHARD.format(**types, scatter=scatter, add=ADD, dimension=dimension)


def test_a_reduce_scatter_crosses_exactly_the_reshapes_of_shards() -> None:
    """What crosses, by NumPy: shard after shard, the whole reshaped has the reshaped shards."""
    crossed = []
    for before, after, dimension in product(SHAPES, SHAPES, range(3)):
        if dimension >= min(len(before), len(after)):
            continue
        shards = np.split(np.arange(48).reshape(whole(before, dimension)), 8, dimension)
        each = np.concatenate([shard.reshape(after) for shard in shards], dimension)
        same = np.array_equal(each, np.arange(48).reshape(whole(after, dimension)))
        text, _ = optimized(reshaped_shard(before, after, dimension), "fuse-all-reduces")
        crosses = text.count("stablehlo.reduce_scatter") == 1
        assert crosses == same, f"{before} to {after}, scattered over {dimension}"
        crossed += [(before, after, dimension)] * crosses
    assert ((1, 6), (6,), 0) in crossed and ((2, 1, 3), (2, 3), 1) in crossed
    assert ((2, 3), (3, 2), 1) not in crossed
