"""Reductions and gathers of random programs, over replicas."""

from dataclasses import replace

from property.blocks import Block, Value

GROUPS = (
    "[[0, 1, 2, 3, 4, 5, 6, 7]]",
    "[[7, 6, 5, 4, 3, 2, 1, 0]]",
    "[[0, 1, 2, 3], [4, 5, 6, 7]]",
    "[[0, 1], [2, 3], [4, 5], [6, 7]]",
)
REDUCERS = ("add", "add", "add", "maximum", "minimum")
# Of shards, between the groups that scatter them; the last ones add up different shards.
BETWEEN = {
    "[[0, 1, 2, 3], [4, 5, 6, 7]]": ("[[0, 4], [1, 5], [2, 6], [3, 7]]", "[[0, 5], [1, 4], [2, 6], [3, 7]]"),
    "[[0, 1], [2, 3], [4, 5], [6, 7]]": (
        "[[0, 2], [1, 3], [4, 6], [5, 7]]",
        "[[0, 2, 4, 6], [1, 3, 5, 7]]",
        "[[0, 3], [1, 2], [4, 6], [5, 7]]",
    ),
}


def all_reduce(b: Block) -> None:
    """Of one to three values of one element type."""
    first = b.pick()
    if first is None:
        return
    others = [b.pick(lambda v: v.kind == first.kind) for _ in range(b.one_of(0, 0, 0, 1, 2))]
    reduce_all(b, [first, *(v for v in others if v)], b.one_of(*GROUPS), b.one_of(*REDUCERS))


def sum_of_all_reduces(b: Block) -> None:
    """Two or three all_reduces over the same groups, and their sum: the shape that fuses."""
    x = b.pick()
    if x is None:
        return
    groups = b.one_of(*GROUPS)
    total: Value | None = None
    for _ in range(b.one_of(2, 2, 3)):
        y = b.pick(lambda v: v.type == x.type)
        reduced = reduce_all(b, [y], groups, "add") if y else None
        if not reduced:
            return
        like = reduced[0] if total is None else replace(x, bound=total.bound + reduced[0].bound)
        like = replace(like, bits=max(like.bits, reduced[0].bits, total.bits if total else 0))
        if not like.is_exact:
            return
        text = f"stablehlo.add {total.name}, {reduced[0].name} : {x.type}" if total else ""
        total = b.emit(text, like) if total else reduced[0]


def reduce_all(b: Block, operands: list[Value], groups: str, reducer: str) -> list[Value]:
    size = _size(groups) if reducer == "add" else 1
    results = [replace(v, name=f"%v{b.names.fresh()}", bound=v.bound * size) for v in operands]
    if not all(v.is_exact for v in results):
        return []
    base = f"%v{b.names.fresh()}"
    if len(results) > 1:
        results = [replace(v, name=f"{base}#{i}") for i, v in enumerate(results)]
    else:
        results = [replace(results[0], name=base)]
    head = f"{base}:{len(results)}" if len(results) > 1 else base
    types = ", ".join(v.type for v in results)
    b.lines.append(
        f'{head} = "stablehlo.all_reduce"({", ".join(v.name for v in operands)}) '
        f"{attributes_of(groups)} {reducer_of(reducer, operands[0].kind)} : ({types}) -> ({types})"
    )
    b.values += results
    return results


def reduce_scatter(b: Block) -> None:
    x = b.pick(lambda v: v.shape in ((4,), (8,)))
    if x is None:
        return
    scatter(b, x, b.one_of(*(n for n in (2, 4, 8) if x.shape[0] // n in (2, 4))))


def scatter(b: Block, x: Value, size: int) -> Value | None:
    """A reduce_scatter of `x` over groups of `size` devices."""
    groups = next(text for text in GROUPS if _size(text) == size)
    return scatter_over(b, x, groups, 0)


def scatter_over(b: Block, x: Value, groups: str, dimension: int) -> Value | None:
    size = _size(groups)
    shape = tuple(n // size if i == dimension else n for i, n in enumerate(x.shape))
    like = replace(x, shape=shape, bound=x.bound * size)
    if not like.is_exact:
        return None
    attributes = attributes_of(groups, f"scatter_dimension = {dimension} : i64, ")
    text = f'"stablehlo.reduce_scatter"({x.name}) {attributes} {reducer_of("add", x.kind)}'
    return b.emit(f"{text} : ({x.type}) -> {like.type}", like)


def _gather(b: Block, x: Value, groups: str, dimension: int) -> Value:
    size = _size(groups)
    like = replace(x, shape=tuple(n * size if i == dimension else n for i, n in enumerate(x.shape)))
    attributes = attributes_of(groups, f"all_gather_dim = {dimension} : i64, ")
    return b.emit(f'"stablehlo.all_gather"({x.name}) {attributes} : ({x.type}) -> {like.type}', like)


def reduce_in_steps(b: Block) -> None:
    if x := b.pick(lambda v: v.shape in ((2,), (4,), (8,), (2, 2))):
        _in_steps(b, x)


def _in_steps(b: Block, x: Value) -> Value | None:
    """The sum of `x` by hand: scattered, perhaps summed by shards and halved, and gathered; or nearly so."""
    dimension = b.one_of(*range(len(x.shape)))
    groups = b.one_of(*(text for text in BETWEEN if x.shape[dimension] % _size(text) == 0))
    shard = scatter_over(b, x, groups, dimension)
    for step in b.one_of((), ("sum",), ("sum",), ("sum",), ("sum", "halve"), ("halve", "sum"), ("sum", "sum")):
        if shard is None:
            return None
        halved = replace(shard, bits=shard.bits + 1)
        if step == "sum":
            (shard, *_) = reduce_all(b, [shard], b.one_of(*BETWEEN[groups]), "add") or [None]
        elif shard.kind != "i32" and halved.is_exact:
            two = b.emit(f"stablehlo.constant dense<2.0> : {shard.type}", replace(shard, bound=2, bits=0))
            shard = b.emit(f"stablehlo.divide {shard.name}, {two.name} : {shard.type}", halved)
    if shard is None:
        return None
    again = b.one_of(*[groups] * 7, "[[1, 0], [3, 2], [5, 4], [7, 6]]") if _size(groups) == 2 else groups
    return _gather(b, shard, again, dimension)


def _size(groups: str) -> int:
    return groups.partition("]")[0].count(",") + 1


def attributes_of(groups: str, more: str = "") -> str:
    rows, size = groups.count("[") - 1, _size(groups)
    return f"<{{{more}replica_groups = dense<{groups}> : tensor<{rows}x{size}xi64>}}>"


def reducer_of(op: str, kind: str) -> str:
    return (
        f"({{ ^bb0(%lhs: tensor<{kind}>, %rhs: tensor<{kind}>): "
        f"%both = stablehlo.{op} %lhs, %rhs : tensor<{kind}> stablehlo.return %both : tensor<{kind}> }})"
    )


def all_reduced(b: Block, like: Value) -> Value | None:
    """An all_reduce of a value of that type."""
    y = b.pick(lambda v: v.type == like.type and v.name != like.name)
    if y and y.shape in ((2,), (4,), (8,), (2, 2)) and b.one_of(True, *[False] * 3):
        return _in_steps(b, y)
    reduced = reduce_all(b, [y], b.one_of(*GROUPS), "add") if y else []
    return reduced[0] if reduced else None
