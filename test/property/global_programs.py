"""Random programs for all devices, as plain `jax.jit` makes them: examples split over a mesh, sums over them in loops.

No reduction is written in them, but in blocks that are manual. Values, bounds and the ops that are not about devices are those of programs.py.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from property.blocks import Block, Names, Value, fill
from property.manual_blocks import EXAMPLES, sum_in_a_block, sum_in_a_partly_manual_block
from property.programs import (
    broadcast,
    combine,
    concatenate,
    convert,
    cut,
    loop,
    negate,
    pad,
    reshape,
    scale,
    select,
    transpose,
)

# The mesh, and how it may split the examples.
MESHES = {
    '["data"=8]': ('"data"',),
    '["replica"=2, "data"=4]': ('"replica", "data"', '"data", "replica"', '"data"', '"replica"'),
}


def _is_batch(v: Value) -> bool:
    return v.shape[:1] == (EXAMPLES,)


def sum_of_examples(b: Block) -> None:
    _sum(b, b.pick(_is_batch))


def _sum(b: Block, x: Value | None) -> Value | None:
    if x is None:
        return None
    like = replace(x, shape=x.shape[1:], bound=x.bound * EXAMPLES)
    if not like.is_exact:
        return None
    zero = "0" if x.kind == "i32" else "0.0"
    start = b.emit(f"stablehlo.constant dense<{zero}> : tensor<{x.kind}>", replace(x, shape=(), bound=0, bits=0))
    text = f"stablehlo.reduce({x.name} init: {start.name}) applies stablehlo.add across dimensions = [0]"
    return b.emit(f"{text} : ({x.type}, {start.type}) -> {like.type}", like)


def largest_example(b: Block) -> None:
    """Not a sum, though it is a reduction over devices too."""
    if x := b.pick(lambda v: _is_batch(v) and v.kind == "f32"):
        least = b.emit("stablehlo.constant dense<-64.0> : tensor<f32>", replace(x, shape=(), bound=64))
        like = replace(x, shape=x.shape[1:], bound=max(64, x.bound))
        text = f"stablehlo.reduce({x.name} init: {least.name}) applies stablehlo.maximum across dimensions = [0]"
        b.emit(f"{text} : ({x.type}, {least.type}) -> {like.type}", like)


def gradient(b: Block) -> None:
    _gradient(b, b.pick(lambda v: v.shape == (EXAMPLES, 2)))


def _gradient(b: Block, x: Value | None) -> Value | None:
    """The product that sums over the examples."""
    y = b.pick(lambda v: x is not None and v.type == x.type)
    if x is None or y is None:
        return None
    like = replace(x, shape=(2, 2), bound=x.bound * y.bound * EXAMPLES, bits=x.bits + y.bits)
    if not like.is_exact:
        return None
    text = f"stablehlo.dot_general {x.name}, {y.name}, contracting_dims = [0] x [0]"
    return b.emit(f"{text} : ({x.type}, {y.type}) -> {like.type}", like)


def project(b: Block) -> None:
    """A product with a matrix, which may be an argument, or itself a sum over devices."""
    x, m = b.pick(_is_matrix), b.pick(_is_matrix)
    if x is None or m is None:
        return
    like = replace(x, bound=x.bound * m.bound * 2, bits=x.bits + m.bits)
    if like.is_exact:
        dimension = b.one_of(0, 1)
        text = f"stablehlo.dot_general {x.name}, {m.name}, contracting_dims = [{dimension}] x [0]"
        b.emit(f"{text} : ({x.type}, {m.type}) -> {like.type}", like)


def _is_matrix(v: Value) -> bool:
    return v.shape == (2, 2) and v.kind == "f32"


def summed(b: Block, like: Value) -> Value | None:
    """A sum over the examples, of the type of `like`."""
    if like.shape == (2, 2):
        return _gradient(b, b.pick(lambda v: v.shape == (EXAMPLES, 2) and v.kind == like.kind))
    return _sum(b, b.pick(lambda v: v.shape == (EXAMPLES, *like.shape) and v.kind == like.kind))


def constrain(b: Block) -> None:
    """What is whole on each device is split over an axis, as in fully sharded training."""
    if x := b.pick(lambda v: v.shape in ((2, 2), (4,), (8,))):
        axis = b.one_of("", '"data"') if x.shape != (2, 2) else ""
        rest = ", {}" * (len(x.shape) - 1)
        b.emit(f"sdy.sharding_constraint {x.name} <@mesh, [{{{axis}}}{rest}]> : {x.type}", x)


OPS = (
    *(combine, combine, combine, scale, scale),
    *(gradient, gradient, gradient, sum_of_examples, sum_of_examples, project, project, loop, loop, loop, loop),
    *(negate, convert, reshape, transpose, broadcast, cut, pad, concatenate, select, largest_example, constrain),
)


@st.composite
def global_programs(draw: Callable, *, is_partly_manual: bool = False) -> str:
    """The text of a module whose `@main` returns up to four values. Blocks are manual over all axes, or over one."""
    mesh = draw(st.sampled_from(sorted(MESHES)[1:] if is_partly_manual else sorted(MESHES)))
    arguments = [
        Value("%x", (EXAMPLES, 2), "f32"),
        Value("%y", (EXAMPLES, 2), "f32"),
        Value("%z", (EXAMPLES, 4), "f32"),
        Value("%j", (EXAMPLES, 4), "i32"),
        Value("%w", (2, 2), "f32"),
        Value("%v", (4,), "f32"),
        Value("%s", (), "f32"),
        Value("%n", (), "i32"),
        Value("%p", (), "i1"),
    ]
    axes = {name: int(size) for name, size in re.findall(r'"(\w+)"=(\d)', mesh)}
    in_block = sum_in_a_partly_manual_block(axes) if is_partly_manual else sum_in_a_block(axes, MESHES[mesh])

    def block(b: Block) -> None:
        in_block(b, b.pick(_is_batch))

    def summed_somewhere(b: Block, like: Value) -> Value | None:
        examples = b.pick(lambda v: v.shape == (EXAMPLES, *like.shape) and v.kind == like.kind)
        return in_block(b, examples) if examples and b.one_of(True, False) else summed(b, like)

    ops = (*OPS, *[block] * (12 if is_partly_manual else 1))
    b = Block(draw, Names(), list(arguments), ops=ops, summed=summed_somewhere)
    # Accumulators start from zeros, as users' do, or from anything else.
    for shape, kind in (((2, 2), "f32"), ((4,), "f32"), ((4,), "i32"), ((2,), "f32")):
        zero = "0" if kind == "i32" else "0.0"
        like = Value("", shape, kind, bound=0)
        b.emit(f"stablehlo.constant dense<{zero}> : {like.type}", like)
    fill(b, draw(st.integers(3, 9)))
    results = list(dict.fromkeys(v for v in (b.pick() for _ in range(4)) if v))
    declared = ", ".join(f"{v.name}: {v.type}{_split(draw, mesh, v)}" for v in arguments)
    types = ", ".join(v.type for v in results)
    return "\n".join(
        [
            f"sdy.mesh @mesh = <{mesh}>",
            f"func.func public @main({declared}) -> ({types}) {{",
            *(f"  {line}" for line in b.lines),
            f"  return {', '.join(v.name for v in results)} : {types}",
            "}",
            "",
        ]
    )


def _split(draw: Callable, mesh: str, v: Value) -> str:
    """The sharding of an argument: examples are split."""
    first = draw(st.sampled_from(MESHES[mesh])) if _is_batch(v) else ""
    dims = ", ".join([f"{{{first}}}", *["{}"] * (len(v.shape) - 1)]) if v.shape else ""
    return f" {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"
