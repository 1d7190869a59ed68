"""Propagation of unreduced values: XLA tracks them through the ops that the op table says, and through no others.

Each op stands in a loop, between a gradient and what adds it up. Where this fails after an update of XLA, a row of
passes/ir/op_table.py is wrong, or one that says what XLA does not follow is no longer needed.
"""

from typing import NamedTuple

import jax
import pytest
from numeric.oracle import assert_same, optimized, optimized_hlo
from unit.clusters import available

from paropt.clusters.compiled import TargetError
from paropt.clusters.targets import get
from paropt.hlo.census import Collective, census
from paropt.passes import annotate_unreduced
from paropt.passes.dataflow import linearity
from paropt.passes.dataflow import xla_tracking as followed
from paropt.passes.ir.op_table import is_tracked, ops_with

TRIPS = 6


class Op(NamedTuple):
    """Lines that make %q of the gradient %p (8 x 4, of which %z are complex numbers); `kind` is the type of %q."""

    kind: str
    lines: str


C = "complex<f32>"
DOT = (
    "stablehlo.dot_general {}, {}, contracting_dims = [1] x [0] : (tensor<6x8x{t}>, tensor<8x4x{t}>) -> tensor<6x4x{t}>"
)
CONVOLUTION = (
    "stablehlo.convolution({}, {}) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}} "
    "{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : (tensor<1x8x4x{t}>, tensor<3x{of}x{to}x{t}>) "
    "-> tensor<1x6x{to}x{t}>"
)
SCATTER = (
    '"stablehlo.scatter"({}, %rows, {}) <{{indices_are_sorted = false, unique_indices = {unique}, '
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
    "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{ ^bb0(%a: tensor<{t}>, %b: tensor<{t}>): {body} }}) "
    ": (tensor<10x4x{t}>, tensor<8x1xi32>, tensor<8x4x{t}>) -> tensor<10x4x{t}>"
)
GATHER = (
    '"stablehlo.gather"(%z, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], '
    "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> "
    f": (tensor<8x4x{C}>, tensor<8x1xi32>) -> tensor<8x4x{C}>"
)
WINDOW = (
    '"stablehlo.reduce_window"(%z, %none) <{window_dimensions = array<i64: 2, 1>}> ({ ^bb0(%a: tensor<complex<f32>>, '
    "%b: tensor<complex<f32>>): %c = stablehlo.add %a, %b : tensor<complex<f32>> stablehlo.return %c : tensor<complex<f32>> })"
    f" : (tensor<8x4x{C}>, tensor<{C}>) -> tensor<7x4x{C}>"
)
IMAGE = "%image = stablehlo.reshape {} : (tensor<8x4x{t}>) -> tensor<1x8x4x{t}>\n"


def _adds(t: str) -> str:
    return f"%s = stablehlo.add %a, %b : tensor<{t}> stablehlo.return %s : tensor<{t}>"


def _splat(t: str, shape: str, number: str = "2.0") -> str:
    """%two, of that shape."""
    if t != C:
        return f"%two = stablehlo.constant dense<{number}> : tensor<{shape}{t}>\n"
    half = f"%half = stablehlo.constant dense<{number}> : tensor<{shape}f32>\n"
    return half + f"%two = stablehlo.complex %half, %half : tensor<{shape}{C}>\n"


def _scatter(t: str, operand: str, update: str, *, adds: bool = True) -> Op:
    body = _adds(t) if adds else f"stablehlo.return %b : tensor<{t}>"
    text = SCATTER.format(operand, update, t=t, body=body, unique="false" if adds else "true")
    zero = _splat(t, "10x4x", "0.0") if operand == "%two" else ""
    return Op(f"10x4x{t}", f"{zero}%q = {text}")


def _complex(text: str, shape: str = "8x4x") -> Op:
    return Op(f"{shape}{C}", f"%q = {text}")


def _updated(array: str, shape: str, window: str, kept: str, numbers: str, *, adds: bool = True) -> Op:
    """Changes a window of `array` at one index: the number of the trip less one, which is inside in some of the trips."""
    body = _adds("f32") if adds else "stablehlo.return %b : tensor<f32>"
    update = f"%window = stablehlo.slice %p [{kept}] : (tensor<8x4xf32>) -> tensor<{window}xf32>\n"
    zero = _splat("f32", shape, "0.0") if array == "%two" else ""
    text = (
        f'%q = "stablehlo.scatter"({array}, %row, %window) <{{indices_are_sorted = false, unique_indices = true, '
        f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}> "
        f"({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): {body} }}) "
        f": (tensor<{shape}f32>, tensor<1xi32>, tensor<{window}xf32>) -> tensor<{shape}f32>"
    )
    return Op(f"{shape}f32", BEFORE + zero + update + text)


def _looked_up(indices: str, numbers: str, sizes: str, kind: str) -> Op:
    """A window of %p at one index: the number of the trip, or as late as it fits."""
    text = (
        f'%q = "stablehlo.gather"(%p, %at) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
        f"slice_sizes = array<i64: {sizes}>, indices_are_sorted = false}}> "
        f": (tensor<8x4xf32>, tensor<{indices}xui8>) -> tensor<{kind}>"
    )
    byte = "%byte = stablehlo.convert %i : (tensor<i32>) -> tensor<ui8>\n"
    return Op(kind, f"{byte}%at = stablehlo.reshape %byte : (tensor<ui8>) -> tensor<{indices}xui8>\n{text}")


BEFORE = """%before = stablehlo.subtract %i, %one : tensor<i32>
      %row = stablehlo.reshape %before : (tensor<i32>) -> tensor<1xi32>
      """
# As `jax.vmap` over one element writes them: a dimension of the indices goes along one of the array.
ALONG = """%batch = stablehlo.reshape %p : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
      %at = stablehlo.reshape %i : (tensor<i32>) -> tensor<1x1xi32>
      """
GATHER_ALONG = (
    '%q = "stablehlo.gather"(%batch, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
    "collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], "
    "index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 4>, indices_are_sorted = false}> "
    ": (tensor<1x8x4xf32>, tensor<1x1xi32>) -> tensor<1x4xf32>"
)
SCATTER_ALONG = (
    '%q = "stablehlo.scatter"(%sum, %at, %batch) <{indices_are_sorted = false, unique_indices = false, '
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [1], "
    "input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], "
    f"index_vector_dim = 1>}}> ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): {_adds('f32')} }}) "
    ": (tensor<1x3x8x4xf32>, tensor<1x1xi32>, tensor<1x8x4xf32>) -> tensor<1x3x8x4xf32>"
)
ROWS_OF = "update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0], index_vector_dim = 0"
ONE_OF = f"inserted_window_dims = [0], {ROWS_OF}"
WHOLE = ("2x8x4x", "8x4", "0:8, 0:4", ONE_OF)
MATRIX = _splat("f32", "6x8x") + "%q = " + DOT.format("%two", "%p", t="f32")
KERNEL = "%kernel = stablehlo.slice {} [0:3, 0:4] : (tensor<8x4x{t}>) -> tensor<3x4x{t}>\n"
Z = f"tensor<8x4x{C}>"
HELD = "tensor<16x8xf32>, tensor<8x4xf32>, tensor<i32>, tensor<8x4xf32>"
FOLLOWED = {
    "stablehlo.dot_general": [Op("6x4xf32", MATRIX)],
    "stablehlo.convolution": [
        Op(
            "1x6x2xf32",
            _splat("f32", "3x4x2x")
            + IMAGE.format("%p", t="f32")
            + "%q = "
            + CONVOLUTION.format("%image", "%two", groups=1, of=4, to=2, t="f32"),
        ),
        Op(
            "1x6x1xf32",
            _splat("f32", "1x8x4x")
            + KERNEL.format("%p", t="f32")
            + "%window = stablehlo.reshape %kernel : (tensor<3x4xf32>) -> tensor<3x4x1xf32>\n%q = "
            + CONVOLUTION.format("%two", "%window", groups=1, of=4, to=1, t="f32"),
        ),
    ],
    "stablehlo.scatter": [
        _scatter("f32", "%two", "%p"),
        _scatter("f32", "%sum", "%p"),
        _scatter("f32", "%two", "%p", adds=False),
        *(_updated(array, *WHOLE, adds=adds) for array in ("%two", "%sum") for adds in (True, False)),
        _updated("%sum", "8x4x", "6x4", "2:8, 0:4", ROWS_OF),
        Op("1x3x8x4xf32", ALONG + SCATTER_ALONG),
    ],
    "stablehlo.gather": [
        _looked_up(
            "1",
            "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0",
            "1, 4",
            "4xf32",
        ),
        _looked_up("1x1", "offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1", "6, 4", "1x6x4xf32"),
        Op("1x4xf32", ALONG + GATHER_ALONG),
    ],
    "stablehlo.optimization_barrier": [
        Op("8x4xf32", "%q = stablehlo.optimization_barrier %p : tensor<8x4xf32>"),
        Op(
            "8x4xf32",
            f"%m:4 = stablehlo.optimization_barrier %xs, %p, %i, %p : {HELD}\n"
            "%q = stablehlo.add %m#1, %m#3 : tensor<8x4xf32>",
        ),
    ],
    "stablehlo.pad": [
        Op(
            "7x11xf32",
            "%q = stablehlo.pad %p, %nothing, low = [-1, 2], high = [0, -1], interior = [0, 2] "
            ": (tensor<8x4xf32>, tensor<f32>) -> tensor<7x11xf32>",
        )
    ],
    "stablehlo.real": [Op("8x4xf32", f"%q = stablehlo.real %z : ({Z}) -> tensor<8x4xf32>")],
    "stablehlo.imag": [Op("8x4xf32", f"%q = stablehlo.imag %z : ({Z}) -> tensor<8x4xf32>")],
    "stablehlo.convert": [
        _complex(f"stablehlo.convert %p : (tensor<8x4xf32>) -> {Z}"),
        Op("8x4xcomplex<f64>", f"%q = stablehlo.convert %z : ({Z}) -> tensor<8x4xcomplex<f64>>"),
    ],
    "stablehlo.complex": [
        _complex(f"stablehlo.complex %p, %p : {Z}"),
        Op(f"8x4x{C}", _splat("f32", "8x4x", "0.0") + f"%q = stablehlo.complex %two, %p : {Z}"),
    ],
}
# What XLA follows of complex numbers.
COMPLEX = {
    "stablehlo.add": _complex(f"stablehlo.add %z, %z : {Z}"),
    "stablehlo.subtract": _complex(f"stablehlo.subtract %z, %z : {Z}"),
    "stablehlo.negate": _complex(f"stablehlo.negate %z : {Z}"),
    "stablehlo.reshape": _complex(f"stablehlo.reshape %z : ({Z}) -> tensor<32x{C}>", "32x"),
    "stablehlo.transpose": _complex(f"stablehlo.transpose %z, dims = [1, 0] : ({Z}) -> tensor<4x8x{C}>", "4x8x"),
    "stablehlo.reverse": _complex(f"stablehlo.reverse %z, dims = [0] : {Z}"),
    "stablehlo.broadcast_in_dim": _complex(
        f"stablehlo.broadcast_in_dim %z, dims = [1, 2] : ({Z}) -> tensor<1x8x4x{C}>", "1x8x4x"
    ),
    "stablehlo.slice": _complex(f"stablehlo.slice %z [0:5, 1:4] : ({Z}) -> tensor<5x3x{C}>", "5x3x"),
    "stablehlo.pad": _complex(
        f"stablehlo.pad %z, %none, low = [1, 0], high = [0, 0], interior = [1, 0] : ({Z}, tensor<{C}>) -> tensor<16x4x{C}>",
        "16x4x",
    ),
    "stablehlo.concatenate": _complex(f"stablehlo.concatenate %z, %z, dim = 1 : ({Z}, {Z}) -> tensor<8x8x{C}>", "8x8x"),
    "stablehlo.select": _complex(f"stablehlo.select %early, %z, %z : tensor<i1>, {Z}"),
    "stablehlo.dynamic_slice": _complex(
        f"stablehlo.dynamic_slice %z, %i, %i, sizes = [4, 2] : ({Z}, tensor<i32>, tensor<i32>) -> tensor<4x2x{C}>",
        "4x2x",
    ),
    "stablehlo.dynamic_update_slice": Op(
        f"8x4x{C}",
        f"%row = stablehlo.slice %z [0:1, 0:4] : ({Z}) -> tensor<1x4x{C}>\n"
        f"%q = stablehlo.dynamic_update_slice %z, %row, %i, %i : ({Z}, tensor<1x4x{C}>, tensor<i32>, tensor<i32>) -> {Z}",
    ),
    "stablehlo.gather": _complex(GATHER),
    "stablehlo.optimization_barrier": _complex(f"stablehlo.optimization_barrier %z : {Z}"),
}
# Of complex numbers: followed where they are written as four real products, and not by XLA:TPU where they are not.
PRODUCTS = {
    "stablehlo.multiply": Op(f"8x4x{C}", _splat(C, "8x4x") + f"%q = stablehlo.multiply %z, %two : {Z}"),
    "stablehlo.dot_general": Op(f"6x4x{C}", _splat(C, "6x8x") + "%q = " + DOT.format("%two", "%z", t=C)),
    "stablehlo.convolution": Op(
        f"1x6x2x{C}",
        _splat(C, "3x4x2x")
        + IMAGE.format("%z", t=C)
        + "%q = "
        + CONVOLUTION.format("%image", "%two", groups=1, of=4, to=2, t=C),
    ),
}
QUOTIENT = Op(f"8x4x{C}", _splat(C, "8x4x") + f"%q = stablehlo.divide %z, %two : {Z}")
LEFT_SUMS = {
    "stablehlo.reduce": _complex(
        f"stablehlo.reduce(%z init: %none) applies stablehlo.add across dimensions = [0] : ({Z}, tensor<{C}>) -> tensor<4x{C}>",
        "4x",
    ),
    "stablehlo.reduce_window": _complex(WINDOW, "7x4x"),
    "stablehlo.scatter": _scatter(C, "%two", "%z"),
}
PRODUCER = Op(
    "8x4xf32",
    """%xm = stablehlo.negate %xs : tensor<16x8xf32>
      %xc = stablehlo.complex %xs, %xm : tensor<16x8xcomplex<f32>>
      %yc = stablehlo.complex %y, %y : tensor<16x4xcomplex<f32>>
      %g = stablehlo.dot_general %xc, %yc, contracting_dims = [0] x [0] : (tensor<16x8xcomplex<f32>>, tensor<16x4xcomplex<f32>>) -> tensor<8x4xcomplex<f32>>
      %q = stablehlo.real %g : (tensor<8x4xcomplex<f32>>) -> tensor<8x4xf32>""",
)
GROUPS = Op(
    "1x1x4xf32",
    _splat("f32", "1x8x4x")
    + "%kernel = stablehlo.reshape %p : (tensor<8x4xf32>) -> tensor<8x1x4xf32>\n%q = "
    + CONVOLUTION.format("%two", "%kernel", groups=4, of=1, to=4, t="f32")
    .replace("<3x1x4", "<8x1x4")
    .replace("x6x", "x1x"),
)

OUTER = Op(
    "8x4x3xf32",
    _splat("f32", "3x")
    + "%q = stablehlo.dot_general %p, %two, contracting_dims = [] x [] : (tensor<8x4xf32>, tensor<3xf32>) -> tensor<8x4x3xf32>",
)
RUNNING = Op(
    "32xf32",
    "%v = stablehlo.reshape %p : (tensor<8x4xf32>) -> tensor<32xf32>\n"
    '%q = "stablehlo.reduce_window"(%v, %nothing) <{window_dimensions = array<i64: 32>, '
    f"padding = dense<[[31, 0]]> : tensor<1x2xi64>}}> ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): {_adds('f32')} }}) "
    ": (tensor<32xf32>, tensor<f32>) -> tensor<32xf32>",
)
NUMBERS = """%m = stablehlo.negate %p : tensor<8x4xf32>
      %z = stablehlo.complex %p, %m : tensor<8x4xcomplex<f32>>
      """
LOOP = """
    {zero}
    %{n}:2 = stablehlo.while(%i = %first, %sum = %start{n}) : tensor<i32>, tensor<{kind}>
    cond {{
      %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      %early = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
      %xs = stablehlo.add %x, %fs : tensor<16x8xf32>
      %p = stablehlo.dot_general %xs, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      {lines}
      %next = {add} : tensor<{kind}>
      %after = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %after, %next : tensor<i32>, tensor<{kind}>
    }}"""
MODULE = """module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(%x: tensor<16x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}, %y: tensor<16x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}) -> ({types}) {{
    %first = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %trips = stablehlo.constant dense<{trips}> : tensor<i32>
    %rows = stablehlo.constant dense<[[2], [0], [7], [5], [1], [3], [6], [4]]> : tensor<8x1xi32>
    %nothing = stablehlo.constant dense<0.0> : tensor<f32>
    %none = stablehlo.complex %nothing, %nothing : tensor<complex<f32>>{loops}
    return {results} : {types}
  }}
}}"""


def module(ops: list[Op]) -> str:
    """Each op in a loop of its own."""
    loops = "".join(_loop(f"loop{n}", op) for n, op in enumerate(ops))
    results = ", ".join(f"%loop{n}#1" for n in range(len(ops)))
    types = ", ".join(f"tensor<{op.kind}>" for op in ops)
    return MODULE.format(loops=loops, results=results, types=types, trips=TRIPS)


def _loop(name: str, op: Op) -> str:
    zero = f"%start{name} = stablehlo.constant dense<0.0> : tensor<{op.kind}>"
    if "complex" in op.kind:
        real = op.kind.replace("complex<", "").replace(">", "")
        zero = f"%half{name} = stablehlo.constant dense<0.0> : tensor<{real}>\n    %start{name} = stablehlo.complex %half{name}, %half{name} : tensor<{op.kind}>"
    add = "stablehlo.negate %q" if "%sum" in op.lines else "stablehlo.add %sum, %q"
    lines = NUMBERS + op.lines if "%z" in op.lines else op.lines
    return LOOP.format(n=name, kind=op.kind, zero=zero, lines=lines, add=add)


def deferred(text: str) -> str:
    after, _ = optimized(text, "grad-sync")
    return after


def in_loops(hlo: str) -> list[Collective]:
    return [c for c in census(hlo) if c.loops]


CASES = {f"{name}-{n}": op for name, ops in FOLLOWED.items() for n, op in enumerate(ops)}
CASES |= {f"complex {name}": op for name, op in (COMPLEX | PRODUCTS).items()}
CASES |= {"complex gradient": PRODUCER}


def test_each_op_has_a_program() -> None:
    left = {"stablehlo.divide", *LEFT_SUMS}
    assert set(followed.TRACKED_IF) == set(ops_with("tracked-if")) < set(FOLLOWED)
    assert left == set(followed.LEFT)
    asked = {"stablehlo.real", "stablehlo.imag", "stablehlo.complex", "stablehlo.convert", "sdy.sharding_constraint"}
    assert {*COMPLEX, *PRODUCTS, *left, *asked} == {*ops_with("tracked"), *ops_with("tracked-if")}, (
        "of which no program asks with complex numbers"
    )


@pytest.mark.parametrize("case", CASES)
def test_followed(case: str) -> None:
    before = module([CASES[case]])
    after = deferred(before)
    assert in_loops(optimized_hlo(before))
    assert not in_loops(optimized_hlo(after))
    assert_same(before, after, range(3))


def test_an_op_that_is_not_tracked_stays_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new row of the op table that is linear is not crossed in a program for all devices, until it says `tracked`."""
    op = FOLLOWED["stablehlo.real"][0]
    assert "unreduced" in deferred(module([op]))
    monkeypatch.setattr(linearity, "is_tracked", lambda op: op.name != "stablehlo.real" and is_tracked(op))
    assert "unreduced" not in deferred(module([op]))


def test_left_ops_stay_in_the_loop() -> None:
    for op in (QUOTIENT, *LEFT_SUMS.values()):
        assert "unreduced" not in deferred(module([op])), op.lines


@pytest.fixture(params=["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def target(request: pytest.FixtureRequest) -> str:
    available(request.param)
    return request.param


def test_followed_on_targets(target: str) -> None:
    ops = [op for op in CASES.values() if "f64" not in op.kind]  # XLA:TPU has no complex numbers of these
    after = deferred(module(ops))
    assert not in_loops(get(target).compile(after).hlo)


@pytest.mark.parametrize(("name", "op"), [("convolution", GROUPS), ("dot_general", OUTER)])
def test_what_a_row_declines_is_not_followed(name: str, op: Op, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "unreduced" not in deferred(module([op]))
    row = followed.TRACKED_IF[f"stablehlo.{name}"]
    monkeypatch.setitem(followed.TRACKED_IF, row.op, row._replace(require=lambda _: None))
    _assert_not_followed(op, target)


@pytest.mark.parametrize("target", ["tpu:v5e:2x4"], indirect=True)
def test_windows_along_the_only_dimension_are_not_followed(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "unreduced" not in deferred(module([RUNNING]))
    monkeypatch.setattr(followed, "_require_two_dimensions", lambda _: None)
    _assert_not_followed(RUNNING, target)


def _assert_not_followed(op: Op, target: str) -> None:
    after = deferred(module([op]))
    assert "unreduced" in after
    assert in_loops(get(target).compile(after).hlo), "XLA follows: the condition is not needed"


@pytest.mark.parametrize("target", ["tpu:v5e:2x4"], indirect=True)
def test_products_of_complex_numbers_are_not_followed_as_they_are(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "LEFT", {})
    monkeypatch.setattr(annotate_unreduced, "take_apart", lambda _: None)
    ops = [*PRODUCTS.values(), QUOTIENT, PRODUCER]
    after = deferred(module(ops))
    assert after.count("unreduced") > 4 * len(ops)
    reduced = {c.loops[0].name for c in in_loops(get(target).compile(after).hlo)}
    assert len(reduced) == len(ops), "XLA follows one of them as it is"


@pytest.mark.parametrize("target", ["tpu:v5e:2x4"], indirect=True)
@pytest.mark.parametrize("op", LEFT_SUMS)
def test_sums_of_complex_numbers_are_not_followed(op: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA:TPU of jaxlib before 0.12 aborts at them; a later one compiles them. They stay reduced while both are in use."""
    monkeypatch.setattr(followed, "LEFT", {})
    after = deferred(module([LEFT_SUMS[op]]))
    assert "unreduced" in after
    if jax.__version_info__ >= (0, 12):
        assert get(target).compile(after).hlo
        return
    with pytest.raises(TargetError, match="died of SIGABRT"):
        get(target).compile(after)
