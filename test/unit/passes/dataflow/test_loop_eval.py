"""What is computed of the control values of a loop is what XLA computes; what is not sure is not computed."""

from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir
from modules import parsed
from numeric.oracle import results

from paropt.passes.dataflow import loop_eval
from paropt.passes.dataflow.loop_eval import MOST_TRIPS, Known, branch_taken, evaluated, executions, trips_of
from paropt.passes.ir.loops import Loop
from paropt.passes.support.traversal import ops_of

I32, I4 = "tensor<i32>", "tensor<4xi32>"
HEAD = [
    f"%a = stablehlo.constant dense<7> : {I32}",
    f"%b = stablehlo.constant dense<3> : {I32}",
    f"%v = stablehlo.constant dense<[5, 0, 7, 2]> : {I4}",
    "%f = stablehlo.constant dense<2.5> : tensor<f32>",
    "%u = stablehlo.constant dense<200> : tensor<ui8>",
    "%t = stablehlo.constant dense<true> : tensor<i1>",
]

# The result type, and the op.
KNOWN = {
    "constant": (I4, f"stablehlo.constant dense<[1, 2, 3, 4]> : {I4}"),
    "iota": ("tensor<2x3xi32>", "stablehlo.iota dim = 1 : tensor<2x3xi32>"),
    "float iota": ("tensor<3xf32>", "stablehlo.iota dim = 0 : tensor<3xf32>"),
    "broadcast": (
        "tensor<4x2xi32>",
        f"stablehlo.broadcast_in_dim %v, dims = [0] : ({I4}) -> tensor<4x2xi32>",
    ),
    "dynamic_slice": ("tensor<2xi32>", f"stablehlo.dynamic_slice %v, %b, sizes = [2] : ({I4}, {I32}) -> tensor<2xi32>"),
    "reshape": ("tensor<2x2xi32>", f"stablehlo.reshape %v : ({I4}) -> tensor<2x2xi32>"),
    "convert to a float": ("tensor<4xf32>", f"stablehlo.convert %v : ({I4}) -> tensor<4xf32>"),
    "convert to a narrow integer": ("tensor<i8>", "stablehlo.convert %u : (tensor<ui8>) -> tensor<i8>"),
    "add": (I4, f"stablehlo.add %v, %v : {I4}"),
    "add that wraps": ("tensor<ui8>", "stablehlo.add %u, %u : tensor<ui8>"),
    "subtract": (I32, f"stablehlo.subtract %b, %a : {I32}"),
    "multiply": (I32, f"stablehlo.multiply %a, %b : {I32}"),
    "divide": (I32, f"stablehlo.divide %a, %b : {I32}"),
    "remainder": (I32, f"stablehlo.remainder %a, %b : {I32}"),
    "remainder of a negative number": (I32, f"stablehlo.remainder %minus, %b : {I32}"),
    "maximum": (I32, f"stablehlo.maximum %a, %b : {I32}"),
    "minimum": (I32, f"stablehlo.minimum %a, %b : {I32}"),
    "clamp from below": (I32, f"stablehlo.clamp %b, %minus, %a : {I32}"),
    "clamp from above": (I4, f"stablehlo.clamp %minus, %v, %b : ({I32}, {I4}, {I32}) -> {I4}"),
    "and": (I32, f"stablehlo.and %a, %b : {I32}"),
    "or": (I32, f"stablehlo.or %a, %b : {I32}"),
    "not": (I32, f"stablehlo.not %a : {I32}"),
    "xor": (I32, f"stablehlo.xor %a, %b : {I32}"),
    "xor, of truth": ("tensor<i1>", "stablehlo.xor %t, %t : tensor<i1>"),
    "sign": (I4, f"stablehlo.sign %signed : {I4}"),
    "not, of truth": ("tensor<i1>", "stablehlo.not %t : tensor<i1>"),
    **{
        f"compare {way}": ("tensor<4xi1>", f"stablehlo.compare {way}, %v, %w : ({I4}, {I4}) -> tensor<4xi1>")
        for way in ("EQ", "NE", "LT", "LE", "GT", "GE")
    },
    "compare floats": ("tensor<i1>", "stablehlo.compare EQ, %f, %f : (tensor<f32>, tensor<f32>) -> tensor<i1>"),
}

UNKNOWN = {
    "sum of floats": ("tensor<f32>", "stablehlo.add %f, %f : tensor<f32>"),
    "float to integer": (I32, f"stablehlo.convert %f : (tensor<f32>) -> {I32}"),
    "division of a negative number": (I32, f"stablehlo.divide %minus, %b : {I32}"),
    "remainder by a negative number": (I32, f"stablehlo.remainder %a, %minus : {I32}"),
    "sign of a float": ("tensor<f32>", "stablehlo.sign %f : tensor<f32>"),
    "another op": (I32, f"stablehlo.abs %a : {I32}"),
    "an argument": (I32, f"stablehlo.add %x, %a : {I32}"),
    "many elements": ("tensor<5000xi32>", f"stablehlo.broadcast_in_dim %a, dims = [] : ({I32}) -> tensor<5000xi32>"),
    "bf16": ("tensor<bf16>", "stablehlo.constant dense<1.0> : tensor<bf16>"),
}


def program(kind: str, op: str) -> str:
    more = [
        f"%w = stablehlo.constant dense<[5, 1, 6, 2]> : {I4}",
        f"%signed = stablehlo.constant dense<[5, 0, -2147483648, -1]> : {I4}",
        f"%minus = stablehlo.constant dense<-7> : {I32}",
        f"%y = {op}",
    ]
    body = "\n".join([*HEAD, *more, f"return %y : {kind}"])
    return f"func.func public @main(%x: {I32}) -> {kind} {{\n{body}\n}}"


def value_of(text: str) -> np.ndarray | None:
    module = parsed(text)
    (end,) = ops_of(module.operation, "func.return")
    return evaluated(end.operands[0], {})


@pytest.mark.parametrize("name", KNOWN)
def test_as_xla_computes_it(name: str) -> None:
    text = program(*KNOWN[name])
    found, ((want, *_),) = value_of(text), results(text)
    assert found is not None and found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("name", UNKNOWN)
def test_left_alone(name: str) -> None:
    assert value_of(program(*UNKNOWN[name])) is None


@pytest.mark.parametrize("name", KNOWN)
def test_of_devices_scalar_integers_only(name: str) -> None:
    module = parsed(program(*KNOWN[name]))
    (end,) = ops_of(module.operation, "func.return")
    known: Known = {}
    found = evaluated(end.operands[0], known, of_devices=True)
    assert all(not ir.RankedTensorType(value.type).shape for value in known)
    if KNOWN[name][0] in (I32, "tensor<i8>", "tensor<ui8>", "tensor<i1>") and "%f" not in KNOWN[name][1]:
        np.testing.assert_array_equal(found, evaluated(end.operands[0], {}))
    else:
        assert found is None


def loop(branch: str, trips: int = 4, step: int = 2) -> tuple[ir.Module, Loop]:
    text = f"""func.func public @main(%x: {I32}) -> {I32} {{
      %start = stablehlo.constant dense<10> : {I32}
      %end = stablehlo.constant dense<{10 + step * trips}> : {I32}
      %w:2 = stablehlo.while(%i = %start, %j = %x) : {I32}, {I32}
      cond {{
        %more = stablehlo.compare LT, %i, %end : ({I32}, {I32}) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      }} do {{
        %one = stablehlo.constant dense<1> : {I32}
        %two = stablehlo.constant dense<{step}> : {I32}
        %b = stablehlo.constant dense<13> : {I32}
        {branch}
        %n = stablehlo.add %i, %two : {I32}
        stablehlo.return %n, %y : {I32}, {I32}
      }}
      return %w#1 : {I32}
    }}"""
    module = parsed(text)
    return module, Loop(ops_of(module.operation, "stablehlo.while")[0])


BELOW = f"%p = stablehlo.compare LT, %i, %b : ({I32}, {I32}) -> tensor<i1>"
IF = '%y = "stablehlo.if"({}) ({{ %z = stablehlo.negate %x : {t} stablehlo.return %z : {t} }}, {{ stablehlo.return %x : {t} }}) : ({s}) -> {t}'
CASE = IF.replace("stablehlo.if", "stablehlo.case")


@pytest.mark.parametrize(
    "branch, taken, runs",
    [
        (BELOW + "\n" + IF.format("%p", t=I32, s="tensor<i1>"), [0, 0, 1, 1], 2),
        (CASE.format("%i", t=I32, s=I32), [1, 1, 1, 1], 0),
        (f"%k = stablehlo.remainder %i, %b : {I32}\n" + CASE.format("%k", t=I32, s=I32), [1, 1, 1, 1], 0),
        (IF.format("%p", t=I32, s="tensor<i1>").join([f"%p = stablehlo.compare LT, %j, %b : ({I32}, {I32}) -> tensor<i1>\n", ""]), [None] * 4, None),
    ],
)  # fmt: skip
def test_branches_of_each_trip(branch: str, taken: list[int | None], runs: int | None) -> None:
    module, found = loop(branch)
    trips = trips_of(found)
    assert trips is not None
    (op,) = ops_of(module.operation, "stablehlo.if", "stablehlo.case")
    (inner,) = ops_of(module.operation, "stablehlo.negate")
    assert [branch_taken(op, known) for known in trips] == taken
    assert executions(inner, found, trips) == runs


def test_too_many_trips_are_not_followed() -> None:
    _, found = loop(f"%y = stablehlo.negate %j : {I32}", trips=MOST_TRIPS + 1)
    assert trips_of(found) is None


NEST = f"""func.func public @main() -> {I32} {{{{
  %a = stablehlo.constant dense<5> : {I32}
  %zero = stablehlo.constant dense<0> : {I32}
  %three = stablehlo.constant dense<3> : {I32}
  %w:2 = stablehlo.while(%i = %zero, %j = %a) : {I32}, {I32}
  cond {{{{
    %more = stablehlo.compare LT, %i, %three : ({I32}, {I32}) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }}}} do {{{{
    %one = stablehlo.constant dense<1> : {I32}
    %v:2 = stablehlo.while(%k = %zero, %l = %j) : {I32}, {I32}
    cond {{{{
      %more = stablehlo.compare LT, %k, %three : ({I32}, {I32}) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }}}} do {{{{
      %read = stablehlo.negate %l : {I32}
      %m = stablehlo.add %k, %one : {I32}
      stablehlo.return %m, {{inner}} : {I32}, {I32}
    }}}}
    %n = stablehlo.add %i, %one : {I32}
    stablehlo.return %n, {{outer}} : {I32}, {I32}
  }}}}
  return %w#1 : {I32}
}}}}"""


@pytest.mark.parametrize(
    "inner, outer, result, within",
    [
        ("%l", "%j", 5, 5),
        ("%l", "%v#1", 5, 5),
        ("%k", "%j", 5, None),
        ("%l", "%i", None, None),
        ("%k", "%v#1", None, None),
    ],
)
def test_what_loops_carry_as_it_is(inner: str, outer: str, result: int | None, within: int | None) -> None:
    text = NEST.format(inner=inner, outer=outer)
    module = parsed(text)
    (read,), (end,) = ops_of(module.operation, "stablehlo.negate"), ops_of(module.operation, "func.return")
    found = [evaluated(value, {}) for value in (end.operands[0], read.operands[0])]
    assert found == [result, within]
    if result is not None:
        ((want, *_),) = results(text)
        assert want == result


def test_what_is_not_known_is_followed_once_in_a_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the parameters of a step are, that an update leaves or changes by something that nobody knows."""
    depth, width = 20, 30
    names = [f"%x{i}" for i in range(width)]
    lines = [f"%y{i + 1} = stablehlo.maximum %y{i}, %y{i} : {I32}" for i in range(depth)]
    lines += [f"%z{i} = stablehlo.maximum %y{depth}, %y{depth} : {I32}" for i in range(width)]
    new_line = "\n  "
    text = f"""func.func public @main(%y: {I32}, %zero: {I32}) -> {I32} {{
  %c0 = stablehlo.constant dense<0> : {I32}
  %l:{width + 2} = stablehlo.while(%i = %c0, %y0 = %y, {", ".join(f"{name} = %zero" for name in names)}) : {", ".join([I32] * (width + 2))}
  cond {{
    %c2 = stablehlo.constant dense<2> : {I32}
    %p = stablehlo.compare LT, %i, %c2, SIGNED : ({I32}, {I32}) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %c1 = stablehlo.constant dense<1> : {I32}
    %n = stablehlo.add %i, %c1 : {I32}
    {new_line.join(lines)}
    stablehlo.return %n, %y1, {", ".join(f"%z{i}" for i in range(width))} : {", ".join([I32] * (width + 2))}
  }}
  return %l#1 : {I32}
}}"""
    module = parsed(text)
    (loop,) = ops_of(module.operation, "stablehlo.while")
    followed: list[ir.Value] = []
    follow = loop_eval._Trip._computed

    def recorded(trip: Any, value: ir.Value, *rest: Any) -> Any:
        followed.append(value)
        return follow(trip, value, *rest)

    monkeypatch.setattr(loop_eval._Trip, "_computed", recorded)
    trips = trips_of(Loop(loop))
    assert trips is not None and [int(known[Loop(loop).body.arguments[0]]) for known in trips] == [0, 1]
    assert len(followed) < 4 * (depth + width)
