"""Branches and calls in random programs."""

from dataclasses import replace

from property.blocks import Block, Value, fill


def branch(b: Block) -> None:
    """A case or an if with a uniform predicate; all branches return a value of one type. A case may have one only."""
    like = b.pick()
    if like is None or b.depth >= 2:
        return
    blocks = []
    head = b.one_of('"stablehlo.case"(%b)', '"stablehlo.if"(%p)')
    for _ in range(b.one_of(1, 2) if "case" in head else 2):
        inner = b.inner(b.values)
        fill(inner, b.one_of(0, 1, 2))
        result = inner.pick(lambda v: v.type == like.type)
        assert result is not None
        blocks.append((inner, result))
    name = f"%v{b.names.fresh()}"
    regions = [
        "\n".join((*(f"  {line}" for line in inner.lines), f"  stablehlo.return {result.name} : {like.type}"))
        for inner, result in blocks
    ]
    selector = "tensor<i32>" if "case" in head else "tensor<i1>"
    b.lines += [f"{name} = {head} ({{", "\n}, {\n".join(regions), f"}}) : ({selector}) -> {like.type}"]
    results = [result for _, result in blocks]
    b.values.append(
        replace(
            like,
            name=name,
            bound=max(v.bound for v in results),
            bits=max(v.bits for v in results),
        )
    )


def call(b: Block) -> None:
    """A private function of one or two values, and two calls of it."""
    arguments = [v for v in (b.pick() for _ in range(b.one_of(1, 2))) if v]
    if not arguments or b.depth >= 2:
        return
    n = b.names.fresh()
    parameters = [replace(v, name=f"%f{n}_{i}") for i, v in enumerate(arguments)]
    scalars = [("%n", "tensor<i32>"), ("%b", "tensor<i32>"), ("%p", "tensor<i1>")]
    inner = b.inner([Value("%p", (), "i1"), *parameters])
    fill(inner, b.one_of(1, 2, 3))
    result = inner.values[-1]
    declared = ", ".join([*(f"{v.name}: {v.type}" for v in parameters), *(f"{s}: {t}" for s, t in scalars)])
    b.names.functions.append(
        "\n".join(
            [
                f"func.func private @f{n}({declared}) -> {result.type} {{",
                *(f"  {line}" for line in inner.lines),
                f"  return {result.name} : {result.type}",
                "}",
            ]
        )
    )
    operands = ", ".join([*(v.name for v in arguments), *(s for s, _ in scalars)])
    types = ", ".join([*(v.type for v in arguments), *(t for _, t in scalars)])
    for _ in range(2):
        b.emit(f"func.call @f{n}({operands}) : ({types}) -> {result.type}", result)
