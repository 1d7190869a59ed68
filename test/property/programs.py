"""Random programs for 8 replicas: DAGs of linear and other ops around collectives, with loops, branches and calls.

Every value carries a bound of its magnitude and the number of bits behind its binary point; an op whose result its
type could not hold exactly is left out. So all sums are exact, in any order, and results can be compared bit for bit.
Trip counts are 0, 1 or 3 (numeric/oracle.py gives those to scalar arguments); predicates of branches are uniform.
"""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from property.blocks import Block, Names, Value, fill
from property.reductions import (
    GROUPS,
    all_reduce,
    all_reduced,
    reduce_all,
    reduce_in_steps,
    reduce_scatter,
    reducer_of,
    scatter,
    sum_of_all_reduces,
)
from property.regions import branch, call

MOST_TRIPS = 3
SHAPES = ((), (2,), (4,), (8,), (2, 2))


def negate(b: Block) -> None:
    if x := b.pick():
        b.emit(f"stablehlo.negate {x.name} : {x.type}", x)


def combine(b: Block) -> None:
    x = b.pick()
    y = b.pick(lambda v: x is not None and v.type == x.type)
    if x is None or y is None:
        return
    op = b.one_of("add", "add", "add", "subtract", "maximum", "minimum")
    bound = x.bound + y.bound if op in ("add", "subtract") else max(x.bound, y.bound)
    like = replace(x, bound=bound, bits=max(x.bits, y.bits))
    if like.is_exact:
        b.emit(f"stablehlo.{op} {x.name}, {y.name} : {x.type}", like)


def scale(b: Block) -> None:
    """By a constant, by 1/8 (a mean), or by a scalar: a uniform one, or one of each device's own."""
    x = b.pick()
    if x is None:
        return
    scalar = b.pick(lambda v: v.shape == () and v.kind == x.kind) if b.one_of(True, False) else None
    factor = b.one_of("-1", "2", "3", *(() if x.kind == "i32" else ("0.125",)))
    bound, bits = (scalar.bound, scalar.bits) if scalar else (1, 3) if factor == "0.125" else (abs(int(factor)), 0)
    like = replace(x, bound=x.bound * bound, bits=x.bits + bits)
    if not like.is_exact:
        return
    if scalar is None:
        literal = factor if "." in factor or x.kind == "i32" else f"{factor}.0"
        wide = b.emit(f"stablehlo.constant dense<{literal}> : {x.type}", replace(x, bound=bound, bits=bits))
    else:
        wide = b.emit(
            f"stablehlo.broadcast_in_dim {scalar.name}, dims = [] : ({scalar.type}) -> {x.type}",
            replace(x, bound=bound, bits=bits),
        )
    b.emit(f"stablehlo.multiply {x.name}, {wide.name} : {x.type}", like)


def convert(b: Block) -> None:
    x = b.pick(lambda v: v.kind != "i32")
    if x is None:
        return
    like = replace(x, kind={"f32": "bf16", "bf16": "f32"}[x.kind])
    if like.is_exact:
        b.emit(f"stablehlo.convert {x.name} : ({x.type}) -> {like.type}", like)


def reshape(b: Block) -> None:
    if x := b.pick(lambda v: v.shape in ((4,), (2, 2))):
        like = replace(x, shape=(2, 2) if x.shape == (4,) else (4,))
        b.emit(f"stablehlo.reshape {x.name} : ({x.type}) -> {like.type}", like)


def transpose(b: Block) -> None:
    if x := b.pick(lambda v: v.shape == (2, 2)):
        b.emit(f"stablehlo.transpose {x.name}, dims = [1, 0] : ({x.type}) -> {x.type}", x)


def broadcast(b: Block) -> None:
    if x := b.pick(lambda v: v.shape in ((), (2,))):
        like = replace(x, shape=(4,) if x.shape == () else (2, 2))
        dims = "" if x.shape == () else str(b.one_of(0, 1))
        b.emit(f"stablehlo.broadcast_in_dim {x.name}, dims = [{dims}] : ({x.type}) -> {like.type}", like)


def cut(b: Block) -> None:
    if x := b.pick(lambda v: v.shape in ((4,), (8,))):
        size = x.shape[0] // 2
        start = b.one_of(0, 1, size)
        like = replace(x, shape=(size,))
        b.emit(f"stablehlo.slice {x.name} [{start}:{start + size}] : ({x.type}) -> {like.type}", like)


def pad(b: Block) -> None:
    if x := b.pick(lambda v: v.shape in ((2,), (4,))):
        size = x.shape[0]
        low = b.one_of(0, 1, size)
        like = replace(x, shape=(2 * size,))
        zero = b.emit(
            f"stablehlo.constant dense<{'0' if x.kind == 'i32' else '0.0'}> : tensor<{x.kind}>",
            replace(x, shape=(), bound=0, bits=0),
        )
        text = f"stablehlo.pad {x.name}, {zero.name}, low = [{low}], high = [{size - low}], interior = [0]"
        b.emit(f"{text} : ({x.type}, {zero.type}) -> {like.type}", like)


def concatenate(b: Block) -> None:
    x = b.pick(lambda v: v.shape in ((2,), (4,)))
    y = b.pick(lambda v: x is not None and v.type == x.type)
    if x is None or y is None:
        return
    like = replace(x, shape=(2 * x.shape[0],), bound=max(x.bound, y.bound), bits=max(x.bits, y.bits))
    text = f"stablehlo.concatenate {x.name}, {y.name}, dim = 0 : ({x.type}, {y.type}) -> {like.type}"
    b.emit(text, like)


def product(b: Block) -> None:
    """By a matrix of constants; now and then by a matrix of each device's own."""
    x = b.pick(lambda v: v.shape == (2, 2))
    if x is None:
        return
    other = b.pick(lambda v: v.type == x.type) if b.one_of(True, False, False) else None
    bound, bits = (other.bound, other.bits) if other else (2, 0)
    like = replace(x, bound=2 * x.bound * bound, bits=x.bits + bits)
    if not like.is_exact:
        return
    numbers = "[[1, -1], [2, 0]]" if x.kind == "i32" else "[[1.0, -1.0], [2.0, 0.0]]"
    other = other or b.emit(f"stablehlo.constant dense<{numbers}> : {x.type}", replace(x, bound=2, bits=0))
    lhs, rhs = (x, other) if b.one_of(True, False) else (other, x)
    text = f"stablehlo.dot_general {lhs.name}, {rhs.name}, contracting_dims = [1] x [0]"
    b.emit(f"{text} : ({x.type}, {x.type}) -> {x.type}", like)


def running_sum(b: Block) -> None:
    x = b.pick(lambda v: v.shape == (4,))
    if x is None:
        return
    like = replace(x, bound=4 * x.bound)
    if not like.is_exact:
        return
    number = "0" if x.kind == "i32" else "0.0"
    zero = b.emit(f"stablehlo.constant dense<{number}> : tensor<{x.kind}>", replace(x, shape=(), bound=0, bits=0))
    window = "<{padding = dense<[[3, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 4>}>"
    text = f'"stablehlo.reduce_window"({x.name}, {zero.name}) {window} {reducer_of("add", x.kind)}'
    b.emit(f"{text} : ({x.type}, {zero.type}) -> {x.type}", like)


def scattered(b: Block) -> None:
    """Two elements added to others, at places that are the same on all devices."""
    x, y = b.pick(lambda v: v.shape == (4,)), b.pick(lambda v: v.shape == (2,))
    if x is None or y is None or x.kind != y.kind:
        return
    like = replace(x, bound=x.bound + 2 * y.bound, bits=max(x.bits, y.bits))
    if not like.is_exact:
        return
    places = f"%v{b.names.fresh()}"
    b.lines.append(f"{places} = stablehlo.constant dense<{b.one_of('[[3], [1]]', '[[2], [2]]')}> : tensor<2x1xi32>")
    numbers = "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    attributes = f"<{{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = {numbers}}}>"
    text = f'"stablehlo.scatter"({x.name}, {places}, {y.name}) {attributes} {reducer_of("add", x.kind)}'
    b.emit(f"{text} : ({x.type}, tensor<2x1xi32>, {y.type}) -> {x.type}", like)


def select(b: Block) -> None:
    x = b.pick()
    y = b.pick(lambda v: x is not None and v.type == x.type)
    predicates = [v for v in b.values if v.kind == "i1"]
    if x is None or y is None or not predicates:
        return
    p = b.one_of(*predicates)
    like = replace(x, bound=max(x.bound, y.bound), bits=max(x.bits, y.bits))
    b.emit(f"stablehlo.select {p.name}, {x.name}, {y.name} : {p.type}, {x.type}", like)


def loop(b: Block) -> None:
    """A while that accumulates one or two values; what it adds is computed, and often reduced, inside."""
    starts = [_or_zero(b, v) for v in (_summand(b) for _ in range(b.one_of(1, 1, 2))) if v]
    if not starts or b.depth >= 2:
        return
    index, trips = f"%i{b.names.fresh()}", _trip_count(b)
    carried = [replace(v, name=f"%a{b.names.fresh()}") for v in starts]
    # What a float accumulator holds has no bound until its increment is known: only the accumulation reads it.
    inner = b.inner([*b.values, *(v for v in carried if v.kind == "i32")])
    fill(inner, b.one_of(1, 2, 3, 4))
    following = [_accumulate(inner, start, acc) for start, acc in zip(starts, carried, strict=True)]
    if not all(v.is_exact for v in following):
        return
    if b.summed is all_reduced and b.one_of(True, *[False] * 7):  # of others, the executable does not tell how often
        for values, value in zip(
            (starts, carried, following), _read_in_odd_trips(b, inner, index, following[0]), strict=True
        ):
            values.append(value)
    n = b.names.fresh()
    types = ", ".join(["tensor<i32>", *(v.type for v in carried)])
    pairs = [f"{acc.name} = {start.name}" for acc, start in zip(carried, starts, strict=True)]
    heads = ", ".join([f"{index} = %zero{n}", *pairs])
    b.lines += [
        f"%zero{n} = stablehlo.constant dense<0> : tensor<i32>",
        f"%one{n} = stablehlo.constant dense<1> : tensor<i32>",
        f"%loop{n}:{len(carried) + 1} = stablehlo.while({heads}) : {types} cond {{",
        f"  %c{n} = stablehlo.compare LT, {index}, {trips} : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        f"  stablehlo.return %c{n} : tensor<i1>",
        "} do {",
        *(f"  {line}" for line in inner.lines),
        f"  %next{n} = stablehlo.add {index}, %one{n} : tensor<i32>",
        f"  stablehlo.return {', '.join([f'%next{n}', *(v.name for v in following)])} : {types}",
        "}",
    ]
    b.values += [replace(v, name=f"%loop{n}#{i}") for i, v in enumerate(following, 1)]
    # What is accumulated on each device is often summed after the loop.
    if b.summed is all_reduced and b.one_of(True, False):
        reduce_all(b, b.values[-1:], str(b.one_of(*GROUPS)), "add")


def _read_in_odd_trips(b: Block, inner: Block, index: str, total: Value) -> tuple[Value, Value, Value]:
    """What a loop starts with, carries and carries on: zero, and from each odd trip on the size of `total`."""
    start = b.emit(f"stablehlo.constant dense<{'0' if total.kind == 'i32' else '0.0'}> : {total.type}", total)
    n = b.names.fresh()
    carried, following = replace(total, name=f"%a{n}"), replace(total, name=f"%read{n}")
    inner.lines += [
        f"%uneven{n} = stablehlo.constant dense<1> : tensor<i32>",
        f"%bit{n} = stablehlo.and {index}, %uneven{n} : tensor<i32>",
        f"%odd{n} = stablehlo.compare EQ, %bit{n}, %uneven{n} : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        f'{following.name} = "stablehlo.if"(%odd{n}) ({{',
        f"  %size{n} = stablehlo.abs {total.name} : {total.type}",
        f"  stablehlo.return %size{n} : {total.type}",
        "}, {",
        f"  stablehlo.return {carried.name} : {total.type}",
        f"}}) : (tensor<i1>) -> {total.type}",
    ]
    return start, carried, following


def _summand(b: Block) -> Value | None:
    """Mostly an array: scalars stay in a loop where other reductions do."""
    return (b.pick(lambda v: v.shape != ()) if b.one_of(True, True, False) else None) or b.pick()


def _or_zero(b: Block, value: Value) -> Value:
    """Now and then zero: sums often start there."""
    if b.one_of(True, False, False):
        return value
    number = "0" if value.kind == "i32" else "0.0"
    return b.emit(f"stablehlo.constant dense<{number}> : {value.type}", replace(value, bound=0, bits=0))


def _trip_count(b: Block) -> str:
    trips = b.one_of("dynamic", "dynamic", MOST_TRIPS, MOST_TRIPS, 1, 0)
    if trips == "dynamic":
        return "%n"
    name = f"%trips{b.names.fresh()}"
    b.lines.append(f"{name} = stablehlo.constant dense<{trips}> : tensor<i32>")
    return name


def _accumulate(b: Block, start: Value, acc: Value) -> Value:
    """What the loop carries on: mostly `acc + g`; its bounds are those after all iterations."""

    def fits(v: Value) -> bool:
        return v.type == acc.type and v.name != acc.name

    assert b.summed is not None
    reduced = b.summed(b, acc) if b.one_of(True, True, True, False) else None
    increment = reduced or b.pick(fits) or start
    whole = b.pick(lambda v: v.kind == acc.kind and v.shape in ((4,), (8,)) and acc.shape in ((v.shape[0] // 2,),))
    if whole and b.summed is all_reduced and b.one_of(True, True, False):
        increment = scatter(b, whole, 2) or increment
    if b.one_of(True, False, False):
        increment = _with_another_term(b, increment)
    op = b.one_of("add", "add", "add", "add", "subtract", "maximum")
    bound = start.bound + MOST_TRIPS * increment.bound if op != "maximum" else max(start.bound, increment.bound)
    sides = (increment.name, acc.name) if op == "add" and b.one_of(True, False) else (acc.name, increment.name)
    like = replace(acc, bound=bound, bits=max(acc.bits, increment.bits))
    text = f"stablehlo.{op} {sides[0]}, {sides[1]} : {acc.type}"
    return _now_and_then(b, text, acc, like) if b.one_of(True, False, False) else b.emit(text, like)


def _with_another_term(b: Block, increment: Value) -> Value:
    other = b.pick(lambda v: v.type == increment.type)
    if other is None:
        return increment
    like = replace(increment, bound=increment.bound + other.bound, bits=max(increment.bits, other.bits))
    text = f"stablehlo.add {increment.name}, {other.name} : {increment.type}"
    return b.emit(text, like) if like.is_exact else increment


def _now_and_then(b: Block, text: str, acc: Value, like: Value) -> Value:
    """`text` in a branch; the other branch leaves the accumulator as it is. Devices may each go their own way."""
    value = replace(like, name=f"%v{b.names.fresh()}")
    predicate = b.one_of(*(v.name for v in b.values if v.kind == "i1"))
    b.lines += [
        f'{value.name} = "stablehlo.if"({predicate}) ({{',
        f"  %in{value.name[1:]} = {text}",
        f"  stablehlo.return %in{value.name[1:]} : {acc.type}",
        "}, {",
        f"  stablehlo.return {acc.name} : {acc.type}",
        f"}}) : (tensor<i1>) -> {acc.type}",
    ]
    b.values.append(value)
    return value


def unrolled(b: Block) -> None:
    """Four copies of some ops, each on its part of a value, and their sum: the shape that rolls."""
    x = b.pick(lambda v: v.shape == (8,))
    part = replace(x, shape=(2,)) if x else None
    shared = b.pick(lambda v: part is not None and v.type == part.type)
    if x is None or part is None:
        return
    steps = [b.one_of(*STEPS) for _ in range(b.one_of(2, 6, 6, 7))]
    groups, odd_one = b.one_of(*GROUPS), b.one_of(*[None] * 4, 0, 1, 3)
    total = shared if b.one_of(True, False) else None
    for k in range(4):
        text = f"stablehlo.slice {x.name} [{2 * k}:{2 * k + 2}] : ({x.type}) -> {part.type}"
        value = b.emit(text, part)
        for step in steps if k != odd_one else steps[:-1]:
            value = _step(b, str(step), value, k, shared, str(groups))
        bound = value.bound + (total.bound if total else 0)
        like = replace(value, bound=bound, bits=max(value.bits, total.bits if total else 0))
        if not like.is_exact:
            return
        total = b.emit(f"stablehlo.add {total.name}, {value.name} : {value.type}", like) if total else value


STEPS = ("negate", "abs", "negate", "shared", "number", "reduce")


def _step(b: Block, step: str, value: Value, k: int, shared: Value | None, groups: str) -> Value:
    """One op of copy `k`, or two; the value itself where the result would not be exact."""
    if step == "reduce":
        return (reduce_all(b, [value], groups, "add") or [value])[0]
    if step == "number":
        literal = f"{3 - k}" if value.kind == "i32" else f"{3 - k}.0"
        like = replace(value, bound=3 * value.bound)
        if not like.is_exact:
            return value
        number = b.emit(f"stablehlo.constant dense<{literal}> : {value.type}", replace(value, bound=3, bits=0))
        return b.emit(f"stablehlo.multiply {value.name}, {number.name} : {value.type}", like)
    if step == "shared":
        bound = value.bound + (shared.bound if shared else 0)
        like = replace(value, bound=bound, bits=max(value.bits, shared.bits if shared else 0))
        if shared is None or not like.is_exact:
            return value
        return b.emit(f"stablehlo.subtract {value.name}, {shared.name} : {value.type}", like)
    return b.emit(f"stablehlo.{step} {value.name} : {value.type}", value)


OPS = (
    *(combine, combine, combine, all_reduce, all_reduce, scale),
    *(sum_of_all_reduces, sum_of_all_reduces, sum_of_all_reduces, loop, loop, loop, loop),
    *(negate, scale, convert, reshape, transpose, broadcast, cut, pad, concatenate, select, reduce_scatter),
    reduce_in_steps,
    *(product, running_sum, scattered, branch, call, unrolled, unrolled),
)


@st.composite
def programs(draw: Callable) -> str:
    """The text of a module whose `@main` returns up to four values."""
    arguments = [
        Value("%x", (4,), "f32"),
        Value("%y", (4,), "f32"),
        Value("%i", (8,), "i32"),
        Value("%j", (4,), "i32"),
        Value("%w", (2, 2), "f32"),
        Value("%s", (), "f32"),
        Value("%n", (), "i32"),
        Value("%b", (), "i32"),
        Value("%p", (), "i1"),
    ]
    b = Block(draw, Names(), list(arguments), ops=OPS, summed=all_reduced)
    b.values = [v for v in arguments if v.name != "%b"]
    b.lines += [  # a predicate of each device's own: good for select only
        "%half = stablehlo.constant dense<0.5> : tensor<f32>",
        "%q = stablehlo.compare LT, %s, %half : (tensor<f32>, tensor<f32>) -> tensor<i1>",
    ]
    b.values.insert(0, Value("%q", (), "i1"))
    fill(b, draw(st.integers(3, 9)))
    results = list(dict.fromkeys(v for v in (b.pick() for _ in range(4)) if v))
    types = ", ".join(v.type for v in results)
    main = [
        f"func.func public @main({', '.join(f'{v.name}: {v.type}' for v in arguments)}) -> ({types}) {{",
        *(f"  {line}" for line in b.lines),
        f"  return {', '.join(v.name for v in results)} : {types}",
        "}",
    ]
    return "\n".join([*main, *b.names.functions, ""])
