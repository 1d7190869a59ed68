"""Explicit programs of loops that sum arrays over devices and have loops in them, as line searches do."""

from collections.abc import Callable, Iterator
from itertools import count as numbered

Made = tuple[list[str], list[str]]  # lines, and the names of what they make
Body = Callable[[list[str], int], Made]
KIND = "tensor<4xf32>"
REDUCE = """<{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %z : tensor<f32>
    })"""


def nested_sums(arrays: int, depth: int, loops: int = 1) -> str:
    """`loops` loops, one after the other, that reduce `arrays` arrays, have `depth` loops in each other change these,
    and add them up.
    """
    numbers = numbered()
    sums = [f"%zero{i}" for i in range(arrays)]
    lines = [f"{each} = stablehlo.constant dense<0.0> : {KIND}" for each in sums]
    for _ in range(loops):
        made, sums = _loop(sums, next(numbers), lambda sums, n: _adding(sums, n, depth, numbers))
        lines += made
    body = "\n".join(lines)
    return f"""module attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
      func.func public @main(%b: tensor<4x4xf32>) -> ({", ".join([KIND] * arrays)}) {{
        %first = stablehlo.constant dense<0> : tensor<i32>
        {body}
        return {", ".join(sums)} : {", ".join([KIND] * arrays)}
      }}
    }}"""


def _adding(sums: list[str], n: int, depth: int, numbers: Iterator[int]) -> Made:
    reduced = [f"%g{n}_{i}" for i in range(len(sums))]
    lines = [
        f"%row{n} = stablehlo.dynamic_slice %b, %i{n}, %first, sizes = [1, 4]"
        " : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>",
        f"%x{n} = stablehlo.reshape %row{n} : (tensor<1x4xf32>) -> {KIND}",
    ]
    for i, each in enumerate(reduced):
        lines += [
            f"%f{n}_{i} = stablehlo.constant dense<{i}.0> : {KIND}",
            f"%h{n}_{i} = stablehlo.multiply %x{n}, %f{n}_{i} : {KIND}",
            f'{each} = "stablehlo.all_reduce"(%h{n}_{i}) {REDUCE} : ({KIND}) -> {KIND}',
        ]
    made, changed = _doubling(reduced, depth, numbers)
    added = [f"%s{n}_{i}" for i in range(len(sums))]
    lines += made
    lines += [
        f"{s} = stablehlo.add {sum_}, {value} : {KIND}" for s, sum_, value in zip(added, sums, changed, strict=True)
    ]
    return lines, added


def _doubling(values: list[str], depth: int, numbers: Iterator[int]) -> Made:
    if depth:
        return _loop(values, next(numbers), lambda carried, _: _doubling(carried, depth - 1, numbers))
    n = next(numbers)
    doubled = [f"%d{n}_{i}" for i in range(len(values))]
    return [f"{d} = stablehlo.add {v}, {v} : {KIND}" for d, v in zip(doubled, values, strict=True)], doubled


def _loop(starts: list[str], n: int, body_of: Body) -> Made:
    """The lines of a loop that starts with these, and its results."""
    carried = [f"%q{n}_{i}" for i in range(len(starts))]
    kinds = ", ".join([KIND] * len(starts))
    pairs = ", ".join(f"{q} = {start}" for q, start in zip(carried, starts, strict=True))
    body, ends = body_of(carried, n)
    lines = [
        f"%w{n}:{len(starts) + 1} = stablehlo.while(%i{n} = %first, {pairs}) : tensor<i32>, {kinds}",
        "cond {",
        f"%n{n} = stablehlo.constant dense<4> : tensor<i32>",
        f"%t{n} = stablehlo.compare LT, %i{n}, %n{n} : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        f"stablehlo.return %t{n} : tensor<i1>",
        "} do {",
        f"%o{n} = stablehlo.constant dense<1> : tensor<i32>",
        f"%j{n} = stablehlo.add %i{n}, %o{n} : tensor<i32>",
        *body,
        f"stablehlo.return %j{n}, {', '.join(ends)} : tensor<i32>, {kinds}",
        "}",
    ]
    return lines, [f"%w{n}#{i + 1}" for i in range(len(starts))]
