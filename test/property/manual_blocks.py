"""Blocks that are manual, as `jax.shard_map` makes them, in random programs for all devices."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

from property.blocks import Block, Value

EXAMPLES = 16
FACTORS = 7  # so that few blocks are the same: XLA makes one of those
SUM = """({{
    ^bb0(%in_p: tensor<{0}>, %in_q: tensor<{0}>):
      %in_s = stablehlo.add %in_p, %in_q : tensor<{0}>
      stablehlo.return %in_s : tensor<{0}>
    }})"""


def sum_in_a_block(axes: dict[str, int], splits: tuple[str, ...]) -> Callable[[Block, Value | None], Value | None]:
    """A manual computation over the mesh of `axes` that adds up examples, which are split in one of these ways."""

    def make(b: Block, x: Value | None) -> Value | None:
        if x is None:
            return None
        split = str(b.one_of(*splits))
        names = [name for name in axes if f'"{name}"' in split]
        over = b.one_of(names, list(axes))
        assert isinstance(over, list)
        copies = prod(axes[name] for name in over if name not in names)
        like = replace(
            x, shape=x.shape[1:], bound=4 * FACTORS * x.bound * EXAMPLES * copies
        )  # a tail adds it to itself
        local = replace(x, shape=(EXAMPLES // prod(axes[name] for name in names), *x.shape[1:]))
        if not like.is_exact:
            return None
        lines = [
            *_constants(b, x, like),
            _added_up("%in_g", local, like),
            f"%in_h = stablehlo.multiply %in_g, %in_f : {like.type}",
            _all_reduce("%in_r", "%in_h", like, _groups(axes, over)),
        ]
        returned = _tail(b, lines, like, _groups(axes, over))
        return _block(b, x, local, like, split, axes, lines, returned)

    return make


def sum_in_a_partly_manual_block(axes: dict[str, int]) -> Callable[[Block, Value | None], Value | None]:
    """A computation that is manual over one of `axes` and adds up examples that the partitioner splits over others."""

    def make(b: Block, x: Value | None) -> Value | None:
        if x is None:
            return None
        like = replace(x, shape=x.shape[1:], bound=4 * FACTORS * x.bound * EXAMPLES)
        if not like.is_exact:
            return None
        lines = _constants(b, x, like)
        is_looped = b.one_of(False, True)
        lines += _looped(x, like) if is_looped else [_added_up("%in_g", x, like)]
        lines.append(f"%in_r = stablehlo.multiply %in_g, %in_f : {like.type}")
        returned = _open_tail(b, lines, like)
        return _block(b, x, x, like, "?", {b.one_of(*axes): 2}, lines, returned, rest="?")

    return make


def _constants(b: Block, x: Value, like: Value) -> list[str]:
    """A zero %in_none, and a factor %in_f of the sum."""
    zero = _zero(x)
    factor = f"{b.names.fresh() % FACTORS + 1}{zero[1:]}"
    return [
        f"%in_none = stablehlo.constant dense<{zero}> : tensor<{x.kind}>",
        f"%in_f = stablehlo.constant dense<{factor}> : {like.type}",
    ]


def _zero(x: Value) -> str:
    return "0" if x.kind == "i32" else "0.0"


def _added_up(name: str, x: Value, like: Value) -> str:
    text = f"{name} = stablehlo.reduce(%in_x init: %in_none) applies stablehlo.add across dimensions = [0]"
    return f"{text} : ({x.type}, tensor<{x.kind}>) -> {like.type}"


def _looped(x: Value, like: Value) -> list[str]:
    """The sum %in_g of two sums of examples, in a loop."""
    return [
        *(f"%in_{name} = stablehlo.constant dense<{i}> : tensor<i32>" for i, name in enumerate(("zero", "one", "two"))),
        f"%in_start = stablehlo.constant dense<{_zero(x)}> : {like.type}",
        f"%in_l, %in_g = stablehlo.while(%in_i = %in_zero, %in_acc = %in_start) : tensor<i32>, {like.type} cond {{",
        "  %in_c = stablehlo.compare LT, %in_i, %in_two : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "  stablehlo.return %in_c : tensor<i1>",
        "} do {",
        f"  {_added_up('%in_e', x, like)}",
        f"  %in_a = stablehlo.add %in_acc, %in_e : {like.type}",
        "  %in_n = stablehlo.add %in_i, %in_one : tensor<i32>",
        f"  stablehlo.return %in_n, %in_a : tensor<i32>, {like.type}",
        "}",
    ]


def _open_tail(b: Block, lines: list[str], like: Value) -> list[str]:
    """Appends what such a block may do with the sum %in_r; what it returns."""
    ops = {
        "negated": "stablehlo.negate %in_r",
        "twice a reader": "stablehlo.add %in_r, %in_r",
        "scaled": "stablehlo.multiply %in_r, %in_f",
        "and another": "stablehlo.add %in_r, %in_f",
        "not linear": "stablehlo.abs %in_r",
    }
    match b.one_of("as it is", "twice", "read", *ops):
        case "as it is":
            return ["%in_r"]
        case "twice":
            return ["%in_r", "%in_r"]
        case "read":
            lines.append(f"%in_u = {ops['not linear']} : {like.type}")
            return ["%in_r", "%in_u"]
        case op:
            lines.append(f"%in_u = {ops[op]} : {like.type}")
            return ["%in_u"]


def _tail(b: Block, lines: list[str], like: Value, groups: list[list[int]]) -> list[str]:
    """Appends what a block may do with the sum %in_r of %in_h; what it returns."""
    match b.one_of("as it is", "linear", "two sums", "and another", "twice", "read", "not linear"):
        case "as it is":
            return ["%in_r"]
        case "linear":
            lines += [
                f"%in_t = stablehlo.negate %in_r : {like.type}",
                f"%in_u = stablehlo.add %in_t, %in_t : {like.type}",
            ]
            return ["%in_u"]
        case "two sums":
            lines += [f"%in_k = stablehlo.negate %in_h : {like.type}", _all_reduce("%in_l", "%in_k", like, groups)]
            lines += [f"%in_u = stablehlo.subtract %in_r, %in_l : {like.type}"]
            return ["%in_u"]
        case "and another":
            one = "1" if like.kind == "i32" else "1.0"
            lines += [
                f"%in_one = stablehlo.constant dense<{one}> : {like.type}",
                f"%in_u = stablehlo.add %in_r, %in_one : {like.type}",
            ]
            return ["%in_u"]
        case "twice":
            return ["%in_r", "%in_r"]
        case "read":
            lines += [f"%in_u = stablehlo.abs %in_r : {like.type}"]
            return ["%in_r", "%in_u"]
    lines += [f"%in_u = stablehlo.abs %in_r : {like.type}"]
    return ["%in_u"]


def _block(
    b: Block,
    x: Value,
    local: Value,
    like: Value,
    split: str,
    axes: dict[str, int],
    lines: list[str],
    returned: list[str],
    rest: str = "",
) -> Value:
    whole = "[" + ", ".join([f"{{{rest}}}"] * len(like.shape)) + "]"
    name = f"%v{b.names.fresh()}"
    types = ", ".join([like.type] * len(returned))
    outs = ", ".join([f"<@mesh, {whole}>"] * len(returned))
    rows = "[" + ", ".join([f"{{{split}}}", *[f"{{{rest}}}"] * (len(x.shape) - 1)]) + "]"
    manual = ", ".join(f'"{axis}"' for axis in axes)
    count = f":{len(returned)}" if len(returned) > 1 else ""
    b.lines += [
        f"{name}{count} = sdy.manual_computation({x.name}) in_shardings=[<@mesh, {rows}>] out_shardings=[{outs}] "
        f"manual_axes={{{manual}}} (%in_x: {local.type}) {{",
        *(f"  {line}" for line in lines),
        f"  sdy.return {', '.join(returned)} : {types}",
        f"}} : ({x.type}) -> {types if len(returned) == 1 else f'({types})'}",
    ]
    results = [name] if len(returned) == 1 else [f"{name}#{i}" for i in range(len(returned))]
    b.values += [replace(like, name=result) for result in results]
    return b.values[-len(results)]


def _all_reduce(result: str, operand: str, like: Value, groups: list[list[int]]) -> str:
    return (
        f'{result} = "stablehlo.all_reduce"({operand}) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, '
        f"replica_groups = dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>, use_global_device_ids}}> "
        f"{SUM.format(like.kind)} : ({like.type}) -> {like.type}"
    )


def _groups(axes: dict[str, int], over: list[str]) -> list[list[int]]:
    """The devices that differ only in the axes `over`."""
    found: dict[tuple[int, ...], list[int]] = {}
    for device, place in enumerate(product(*(range(size) for size in axes.values()))):
        apart = tuple(i for i, name in zip(place, axes, strict=True) if name not in over)
        found.setdefault(apart, []).append(device)
    return list(found.values())
