"""The uniformity analysis: its table, executed, and what it concludes about loops, branches and shardings."""

import re

import numpy as np
import pytest
from jaxlib.mlir import ir
from modules import parsed
from numeric.oracle import results

from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.ir.op_table import ops_with
from paropt.passes.sharding.collectives import reduction_of
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import ops_of

F32, I32, U32, I1, C64 = ("tensor<4xf32>", "tensor<4xi32>", "tensor<4xui32>", "tensor<4xi1>", "tensor<4xcomplex<f32>>")
UNARY = (
    "abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate round_nearest_afz "
    "round_nearest_even rsqrt sign sine sqrt tan tanh"
)
CHLO = "acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh square tan"
CHLO_BINARY = "next_after polygamma zeta"
BINARY = "add atan2 divide maximum minimum multiply power remainder subtract"
INTEGER = "and or xor shift_left shift_right_arithmetic shift_right_logical"
REDUCER = """({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }})"""
SUM = REDUCER.format()

# Ops on %f : f32, %i : i32, %b : i1, %z : f32 scalar, %n : i32 scalar, %s : ui64 state; each defines %out.
OPS = {
    **{name: f"%out = stablehlo.{name} %f : {F32}" for name in UNARY.split()},
    **{name: f"%out = stablehlo.{name} %f, %f : {F32}" for name in BINARY.split()},
    **{name: f"%out = stablehlo.{name} %i, %i : {I32}" for name in INTEGER.split()},
    **{f"chlo.{name}": f"%out = chlo.{name} %f : {F32} -> {F32}" for name in CHLO.split()},
    **{f"chlo.{name}": f"%out = chlo.{name} %f, %f : {F32}, {F32} -> {F32}" for name in CHLO_BINARY.split()},
    "chlo.is_inf": f"%out = chlo.is_inf %f : {F32} -> {I1}",
    "chlo.top_k": f"%k, %out = chlo.top_k(%f, k = 2) : {F32} -> (tensor<2xf32>, tensor<2xi32>)",
    "chlo.conj": (
        f"%c = stablehlo.complex %f, %f : {C64} %d = chlo.conj %c : {C64} -> {C64} "
        f"%out = stablehlo.imag %d : ({C64}) -> {F32}"
    ),
    "not": f"%out = stablehlo.not %i : {I32}",
    "popcnt": f"%out = stablehlo.popcnt %i : {I32}",
    "count_leading_zeros": f"%out = stablehlo.count_leading_zeros %i : {I32}",
    "bitcast_convert": f"%out = stablehlo.bitcast_convert %f : ({F32}) -> {I32}",
    "clamp": f"%out = stablehlo.clamp %f, %f, %f : {F32}",
    "compare": f"%out = stablehlo.compare LT, %f, %f : ({F32}, {F32}) -> {I1}",
    "complex": f"%c = stablehlo.complex %f, %f : {C64} %out = stablehlo.real %c : ({C64}) -> {F32}",
    "real": f"%c = stablehlo.complex %f, %f : {C64} %out = stablehlo.real %c : ({C64}) -> {F32}",
    "imag": f"%c = stablehlo.complex %f, %f : {C64} %out = stablehlo.imag %c : ({C64}) -> {F32}",
    "convert": f"%out = stablehlo.convert %f : ({F32}) -> {I32}",
    "is_finite": f"%out = stablehlo.is_finite %f : ({F32}) -> {I1}",
    "reduce_precision": f"%out = stablehlo.reduce_precision %f, format = e5m10 : {F32}",
    "select": f"%out = stablehlo.select %b, %f, %f : {I1}, {F32}",
    "broadcast_in_dim": f"%out = stablehlo.broadcast_in_dim %f, dims = [1] : ({F32}) -> tensor<2x4xf32>",
    "concatenate": f"%out = stablehlo.concatenate %f, %f, dim = 0 : ({F32}, {F32}) -> tensor<8xf32>",
    "dynamic_slice": f"%out = stablehlo.dynamic_slice %f, %n, sizes = [2] : ({F32}, tensor<i32>) -> tensor<2xf32>",
    "dynamic_update_slice": (
        f"%out = stablehlo.dynamic_update_slice %f, %f, %n : ({F32}, {F32}, tensor<i32>) -> {F32}"
    ),
    "gather": (
        '%out = "stablehlo.gather"(%f, %i) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], '
        "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>, indices_are_sorted = false} : "
        f"({F32}, {I32}) -> {F32}"
    ),
    "pad": f"%out = stablehlo.pad %f, %z, low = [1], high = [0], interior = [0] : ({F32}, tensor<f32>) -> tensor<5xf32>",
    "reshape": f"%out = stablehlo.reshape %f : ({F32}) -> tensor<2x2xf32>",
    "reverse": f"%out = stablehlo.reverse %f, dims = [0] : {F32}",
    "slice": f"%out = stablehlo.slice %f [0:2] : ({F32}) -> tensor<2xf32>",
    "transpose": f"%out = stablehlo.transpose %f, dims = [0] : ({F32}) -> {F32}",
    "dot_general": f"%out = stablehlo.dot_general %f, %f, contracting_dims = [0] x [0] : ({F32}, {F32}) -> tensor<f32>",
    "convolution": (
        f"%m = stablehlo.reshape %f : ({F32}) -> tensor<1x4x1xf32> %k = stablehlo.reshape %f : ({F32}) -> tensor<4x1x1xf32> "
        "%out = stablehlo.convolution(%m, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<1x4x1xf32>, tensor<4x1x1xf32>) -> tensor<1x1x1xf32>"
    ),
    "map": (
        '%out = "stablehlo.map"(%f) ({ ^bb0(%p: tensor<f32>): %r = stablehlo.sine %p : tensor<f32> '
        f"stablehlo.return %r : tensor<f32> }}) {{dimensions = array<i64: 0>}} : ({F32}) -> {F32}"
    ),
    "reduce": (
        f'%out = "stablehlo.reduce"(%f, %z) {SUM} {{dimensions = array<i64: 0>}} : ({F32}, tensor<f32>) -> tensor<f32>'
    ),
    "reduce_window": (
        f'%out = "stablehlo.reduce_window"(%f, %z) {SUM} {{window_dimensions = array<i64: 2>}} : '
        f"({F32}, tensor<f32>) -> tensor<3xf32>"
    ),
    "scatter": (
        f'%out = "stablehlo.scatter"(%f, %i, %f) {SUM} {{scatter_dimension_numbers = #stablehlo.scatter<'
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "
        f"indices_are_sorted = false, unique_indices = false}} : ({F32}, {I32}, {F32}) -> {F32}"
    ),
    "select_and_scatter": (
        '%out = "stablehlo.select_and_scatter"(%f, %f, %z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): '
        "%r = stablehlo.compare GE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %r : tensor<i1> }, "
        f"{SUM[1:-1]}) {{window_dimensions = array<i64: 1>}} : ({F32}, {F32}, tensor<f32>) -> {F32}"
    ),
    "sort": (
        '%out = "stablehlo.sort"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.compare LT, %p, %q : '
        f"(tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %r : tensor<i1> }}) {{dimension = 0 : i64}} : ({F32}) -> {F32}"
    ),
    "constant": "%out = stablehlo.constant dense<1.5> : tensor<3xf32>",
    "iota": "%out = stablehlo.iota dim = 0 : tensor<3xi32>",
    "optimization_barrier": f"%out = stablehlo.optimization_barrier %f : {F32}",
    "rng_bit_generator": (
        "%state = stablehlo.constant dense<[7, 9]> : tensor<2xui64> "
        "%next, %out = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY : "
        "(tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)"
    ),
    "while": (
        f"%out, %k = stablehlo.while(%v = %f, %j = %n) : {F32}, tensor<i32> "
        "cond { %t = stablehlo.compare LT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %t : tensor<i1> } "
        f"do {{ %w = stablehlo.sine %v : {F32} %l = stablehlo.add %j, %one : tensor<i32> stablehlo.return %w, %l : {F32}, tensor<i32> }}"
    ),
    "case": (
        f'%out = "stablehlo.case"(%n) ({{ stablehlo.return %f : {F32} }}, {{ %w = stablehlo.sine %f : {F32} '
        f"stablehlo.return %w : {F32} }}) : (tensor<i32>) -> {F32}"
    ),
    "if": (
        "%t = stablehlo.compare LT, %n, %five : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        f'%out = "stablehlo.if"(%t) ({{ stablehlo.return %f : {F32} }}, {{ %w = stablehlo.sine %f : {F32} '
        f"stablehlo.return %w : {F32} }}) : (tensor<i1>) -> {F32}"
    ),
}
NOT_VALUES = {"return"}

MAXIMUM = """"stablehlo.all_reduce"(%{name}_of_device) ({{
    ^bb0(%p: tensor<{element}>, %q: tensor<{element}>): %r = stablehlo.maximum %p, %q : tensor<{element}> stablehlo.return %r : tensor<{element}>
  }}) {{replica_groups = #all}} : (tensor<{type}>) -> tensor<{type}>"""
INPUTS = {"f": "4xf32", "i": "4xi32", "z": "f32", "n": "i32"}


def module(body: str, result: str, **others: str) -> str:
    """`body` on inputs that a maximum over the devices made uniform; it also returns the values `others`, with types."""
    arguments = ", ".join(f"%{name}_of_device: tensor<{kind}>" for name, kind in INPUTS.items())
    maxima = [
        f"%{name} = {MAXIMUM.format(name=name, type=kind, element=kind.rpartition('x')[2])}"
        for name, kind in INPUTS.items()
    ]
    lines = [
        *maxima,
        "%one = stablehlo.constant dense<1> : tensor<i32>",
        "%five = stablehlo.constant dense<5> : tensor<i32>",
        "%b = stablehlo.constant dense<[true, false, true, true]> : tensor<4xi1>",
        body,
        f"return {', '.join(f'%{name}' for name in ('out', *others))} : {', '.join((result, *others.values()))}",
    ]
    return (
        "#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>\nmodule attributes {mhlo.num_replicas = 8 : i32} {\n"
        f"func.func public @main({arguments}) -> ({', '.join((result, *others.values()))}) {{\n"
        + "\n".join(lines)
        + "\n}\n}"
    )


def test_every_row_has_a_program() -> None:
    values = [name for name in ops_with("deterministic") if name.startswith(("stablehlo.", "chlo."))]
    table = {name.removeprefix("stablehlo.") for name in values}
    assert set(OPS) == table - NOT_VALUES


def result_type(name: str) -> str:
    """The type of %out, read from the text of the op."""
    body = OPS[name]
    if name == "while":
        return F32
    return re.findall(r"tensor<[^<>]*(?:<[^<>]*>)?>", body)[-1]


@pytest.mark.parametrize("name", OPS)
def test_same_on_all_devices(name: str) -> None:
    """From equal operands, every device computes the same bits, and the analysis says so."""
    text = module(OPS[name], result_type(name))
    (devices,) = results(text)
    for other in devices[1:]:
        np.testing.assert_array_equal(other, devices[0])
    assert reason(text) == ""


def reason(text: str, inner: int = 0) -> str:
    """Why what `@main`, or its manual computation number `inner`, returns varies; "" when it is proven uniform."""
    module = parsed(text)
    reduction = ops_of(module.operation, "stablehlo.all_reduce")[0]
    *_, end = ops_of(module.operation, "func.return", "sdy.return")
    returns = ops_of(module.operation, "sdy.return")
    end = returns[inner] if returns else end
    return why_varying(Uniformity(end.block, reduction_of(reduction)), end)


def why_varying(facts: Uniformity, end: ir.Operation) -> str:
    """Why what `end` returns varies; "" when it is proven uniform."""
    try:
        facts.require_uniform(end.operands[0], "the result", end)
    except Declined as declined:
        return declined.reason.partition(": ")[2]
    return ""


LOOP = """%w:2 = stablehlo.while(%v = {start}, %j = {from_}) : tensor<f32>, tensor<i32>
  cond {{ %t = stablehlo.compare LT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %t : tensor<i1> }}
  do {{ %u = stablehlo.add %v, {step} : tensor<f32> %l = stablehlo.add %j, %one : tensor<i32> stablehlo.return %u, %l : tensor<f32>, tensor<i32> }}
  %out = stablehlo.negate %w#0 : tensor<f32>"""
CASE = """%w = "stablehlo.case"({index}) ({{ stablehlo.return %z : tensor<f32> }}, {{ stablehlo.return {value} : tensor<f32> }}) : (tensor<i32>) -> tensor<f32>
  %out = stablehlo.negate %w : tensor<f32>"""
ARGUMENT = "an argument of the function may differ between devices"


@pytest.mark.parametrize(
    "body, why",
    [
        (LOOP.format(start="%z", from_="%n", step="%z"), ""),
        (LOOP.format(start="%z_of_device", from_="%n", step="%z"), ARGUMENT),
        (LOOP.format(start="%z", from_="%n", step="%z_of_device"), ARGUMENT),
        (LOOP.format(start="%z", from_="%n_of_device", step="%z"), ARGUMENT),
        (CASE.format(index="%n", value="%z"), ""),
        (CASE.format(index="%n_of_device", value="%z"), ARGUMENT),
        (CASE.format(index="%n", value="%z_of_device"), ARGUMENT),
        (
            f'%out = "stablehlo.reduce"(%f, %z) ({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, '
            f"%z_of_device : tensor<f32> stablehlo.return %r : tensor<f32> }}) {{dimensions = array<i64: 0>}} : "
            f"({F32}, tensor<f32>) -> tensor<f32>",
            ARGUMENT,
        ),
        (
            "%id = stablehlo.replica_id : tensor<ui32> %out = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>",
            "stablehlo.replica_id may differ between devices",
        ),
        (
            '%out = stablehlo.custom_call @unknown(%z) : (tensor<f32>) -> tensor<f32>',
            "stablehlo.custom_call may differ between devices",
        ),
        (
            "%four = stablehlo.constant dense<4> : tensor<1xi64> %u = stablehlo.rng %z, %z, %four, distribution = UNIFORM : "
            "(tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32> %y = stablehlo.slice %u [0:1] : "
            "(tensor<4xf32>) -> tensor<1xf32> %out = stablehlo.reshape %y : (tensor<1xf32>) -> tensor<f32>",
            "stablehlo.rng may differ between devices",
        ),
    ],
)  # fmt: skip
def test_control_flow_and_sources(body: str, why: str) -> None:
    assert reason(module(body, "tensor<f32>")).startswith(why) and bool(reason(module(body, "tensor<f32>"))) == bool(
        why
    )


SHARDED = """
module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = {replicas} : i32}} {{
  sdy.mesh @mesh = <["replica"=2, "data"=4]{ids}>
  func.func public @main(%x: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> {{
    %g = stablehlo.custom_call @global(%z) : (tensor<8xf32>) -> tensor<8xf32>
    %0 = sdy.manual_computation(%x, %g) in_shardings=[<@mesh, [{{}}]>, <@mesh, [{{{axes}}}]>] out_shardings=[<@mesh, [{{}}]>] manual_axes={{"replica", "data"}} (%a: tensor<8xf32>, %b: tensor<{local}xf32>) {{
      %s = "stablehlo.all_reduce"(%a) ({{
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %r = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %r : tensor<f32>
      }}) {{replica_groups = dense<{groups}> : tensor<{shape}xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>{mode}}} : (tensor<8xf32>) -> tensor<8xf32>
      %y = stablehlo.concatenate %b, %a, dim = 0 : (tensor<{local}xf32>, tensor<8xf32>) -> tensor<{total}xf32>
      %out = stablehlo.slice %y [0:8] : (tensor<{total}xf32>) -> tensor<8xf32>
      sdy.return %out : tensor<8xf32>
    }} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}"""
OVER_DATA, OVER_REPLICA = ("[[0, 1, 2, 3], [4, 5, 6, 7]]", "2x4"), ("[[0, 4], [1, 5], [2, 6], [3, 7]]", "4x2")
GLOBAL = ", use_global_device_ids"
IS_SHARDED = "an argument of the manual computation is sharded over them"


@pytest.mark.parametrize(
    "axes, local, groups, mode, replicas, ids, why",
    [
        ("", 8, OVER_DATA, GLOBAL, 1, "", ""),
        ('"data"', 2, OVER_DATA, GLOBAL, 1, "", IS_SHARDED),
        ('"replica"', 4, OVER_DATA, GLOBAL, 1, "", ""),
        ('"replica"', 4, OVER_REPLICA, GLOBAL, 1, "", IS_SHARDED),
        ('"data"', 2, OVER_REPLICA, GLOBAL, 1, "", ""),
        ('"replica", "data"', 1, OVER_REPLICA, GLOBAL, 1, "", IS_SHARDED),
        # ids that count replicas say nothing about the axes of the mesh
        ('"replica"', 4, ("[[0]]", "1x1"), "", 1, "", IS_SHARDED),
        # several replicas: even a replicated argument may hold other data in each
        ("", 8, OVER_DATA, GLOBAL, 2, "", "stablehlo.custom_call may differ between devices"),
        # devices in another order: a group over data is spread over the mesh
        ('"replica"', 4, OVER_DATA, GLOBAL, 1, ", device_ids=[0, 2, 4, 6, 1, 3, 5, 7]", IS_SHARDED),
    ],
)  # fmt: skip
def test_shardings(
    axes: str, local: int, groups: tuple[str, str], mode: str, replicas: int, ids: str, why: str
) -> None:
    text = SHARDED.format(
        axes=axes,
        local=local,
        total=local + 8,
        groups=groups[0],
        shape=groups[1],
        mode=mode,
        replicas=replicas,
        ids=ids,
    )
    assert reason(text).startswith(why) and bool(reason(text)) == bool(why)


SUMMED = """
module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["replica"=2, "data"=4]>
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{{axes}}}]>] out_shardings=[<@mesh, [{{{axes}}}]>] manual_axes={{"replica", "data"}} (%a: tensor<{local}xf32>) {{
      %s = "stablehlo.all_reduce"(%a) ({{
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %r = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %r : tensor<f32>
      }}) {{replica_groups = dense<{groups}> : tensor<{shape}xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>{mode}}} : (tensor<{local}xf32>) -> tensor<{local}xf32>
      sdy.return %s : tensor<{local}xf32>
    }} : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}"""
MAY_DIFFER = "stablehlo.all_reduce may differ between devices"


@pytest.mark.parametrize(
    "axes, local, groups, mode, why",
    [
        ('"data"', 2, OVER_DATA, GLOBAL, ""),  # the same four terms in both replicas
        ('"data"', 2, ("[[0, 1], [2, 3], [4, 5], [6, 7]]", "4x2"), GLOBAL, ""),
        ('"data"', 2, ("[[0, 1], [2, 3], [4, 6], [5, 7]]", "4x2"), GLOBAL, MAY_DIFFER),  # other pairs
        ('"data"', 2, ("[[0, 1, 2, 3]]", "1x4"), GLOBAL, MAY_DIFFER),  # in one replica only
        ('"data"', 2, OVER_DATA, "", MAY_DIFFER),  # ids that count replicas
        ('"replica"', 4, OVER_DATA, GLOBAL, IS_SHARDED),
    ],
)
def test_a_sum_over_other_devices(axes: str, local: int, groups: tuple[str, str], mode: str, why: str) -> None:
    """Equal in both replicas, if what is added up is, and each adds up the same terms."""
    text = SUMMED.format(axes=axes, local=local, groups=groups[0], shape=groups[1], mode=mode)
    module = parsed(text)
    (end,) = ops_of(module.operation, "sdy.return")
    (summed,) = ops_of(module.operation, "stablehlo.all_reduce")
    reduction = reduction_of(summed)._replace(groups=((0, 4), (1, 5), (2, 6), (3, 7)), global_ids=True)
    found = why_varying(Uniformity(end.block, reduction), end)
    assert found.startswith(why) and bool(found) == bool(why)


PLACED = """
module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  sdy.mesh @other = <["model"=8]>
  func.func public @main(%x: tensor<4xf32>) -> tensor<i32> {{
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{}}]>] out_shardings=[<@mesh, []>] manual_axes={{{axes}}} (%a: tensor<4xf32>) {{
      %s = "stablehlo.all_reduce"(%a) ({{
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %r = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %r : tensor<f32>
      }}) {{replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}} : (tensor<4xf32>) -> tensor<4xf32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      {body}
      sdy.return %out : tensor<i32>
    }} : (tensor<4xf32>) -> tensor<i32>
    return %0 : tensor<i32>
  }}
}}"""
AXES = '"data", "model"'
ID = "%u = stablehlo.partition_id : tensor<ui32> %id = stablehlo.convert %u : (tensor<ui32>) -> tensor<i32>\n"
REMAINDER = "%out = stablehlo.remainder %id, %two : tensor<i32>"
CARRY = """%w:2 = stablehlo.while(%c = {start}, %k = {from_}) : tensor<i32>, tensor<i32>
  cond {{ %t = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %t : tensor<i1> }}
  do {{ %next = stablehlo.add %c, %two : tensor<i32> %l = stablehlo.add %k, %two : tensor<i32> stablehlo.return {next}, %l : tensor<i32>, tensor<i32> }}
  {end}"""
AFTER = "%out = stablehlo.remainder %w#0, %two : tensor<i32>"
NESTED = """%id = sdy.manual_computation() in_shardings=[] out_shardings=[<{mesh}, []>] manual_axes={{{axes}}} () {{
    %u = stablehlo.partition_id : tensor<ui32> %deux = stablehlo.constant dense<2> : tensor<ui32>
    %v = stablehlo.remainder %u, %deux : tensor<ui32> %i = stablehlo.convert %v : (tensor<ui32>) -> tensor<i32>
    sdy.return %i : tensor<i32>
  }} : () -> tensor<i32>
  %out = stablehlo.negate %id : tensor<i32>"""
PARTITION = "stablehlo.partition_id may differ between devices"


@pytest.mark.parametrize(
    "axes, body, why",
    [
        (AXES, ID + REMAINDER, ""),
        (AXES, ID + "%out = stablehlo.divide %id, %two : tensor<i32>", PARTITION),
        (AXES, "%out = stablehlo.constant dense<1> : tensor<i32> %u = stablehlo.partition_id : tensor<ui32>", ""),
        (AXES, "%r = stablehlo.replica_id : tensor<ui32> %out = stablehlo.convert %r : (tensor<ui32>) -> tensor<i32>", ""),
        # what a loop carries unchanged, in it and after it
        (AXES, ID + CARRY.format(start="%id", from_="%zero", next="%c", end=AFTER), ""),
        (AXES, ID + CARRY.format(start="%id", from_="%zero", next="%next", end=AFTER), PARTITION),
        # devices that make other numbers of trips
        (AXES, ID + CARRY.format(start="%zero", from_="%id", next="%next", end=AFTER), PARTITION),
        # an axis that is the partitioner's, a region that is manual over it, and one of another mesh
        ('"data"', ID + REMAINDER, PARTITION),
        ('"data"', NESTED.format(mesh="@mesh", axes='"model"'), ""),
        ('"data"', NESTED.format(mesh="@other", axes='"model"'), PARTITION),
        # ops that change shapes are not followed, not even where they do not
        (AXES, ID + "%b = stablehlo.broadcast_in_dim %id, dims = [] : (tensor<i32>) -> tensor<i32> %out = stablehlo.remainder %b, %two : tensor<i32>", PARTITION),
        # division by zero, and other quotients that are not computed
        (AXES, ID + "%q = stablehlo.divide %two, %id : tensor<i32> %out = stablehlo.multiply %q, %zero : tensor<i32>", PARTITION),
    ],
)  # fmt: skip
def test_numbers_of_devices(axes: str, body: str, why: str) -> None:
    found = reason(PLACED.format(axes=axes, body=body), inner=-1)
    assert found.startswith(why) and bool(found) == bool(why)


def test_why_a_number_is_uniform() -> None:
    module = parsed(PLACED.format(axes=AXES, body=ID + REMAINDER))
    (end,) = ops_of(module.operation, "sdy.return")
    (summed,) = ops_of(module.operation, "stablehlo.all_reduce")
    facts = Uniformity(end.block, reduction_of(summed))
    assert re.fullmatch(
        r"computed on every device from stablehlo.partition_id at .*, of which all devices of a group make the same",
        facts.why(end.operands[0]),
    )
