"""The figure at the head of README.md is par-opt's: test/pipelines/readme.mlir before and after `grad-sync`.

The figure leaves out types, attributes, the loop's condition and the reducer; constants stand as numbers.
"""

import re
from collections.abc import Iterator
from typing import Any

from frontend.doc_snippets import ROOT
from jaxlib.mlir import ir

import paropt
from paropt.passes.support.context import make_context

MODULE = ROOT / "test" / "pipelines" / "readme.mlir"


def figure() -> tuple[list[str], list[str]]:
    """The two columns of the figure, line by line."""
    text = re.search(r"^```mlir\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert text
    lines = text[1].replace("→", " ").splitlines()
    middle = re.search(r"\{ +", lines[0])
    assert middle
    columns = [line[: middle.end()].rstrip() for line in lines], [line[middle.end() :].rstrip() for line in lines]
    left, right = ([line for line in column if line] for column in columns)
    return left, right


def drawn(block: ir.Block, indent: str = "") -> Iterator[str]:
    for op in block.operations:
        name = op.name.rpartition(".")[2]
        if name == "constant":
            continue
        if name == "while":
            body = op.regions[1].blocks[0]
            starts = ", ".join(
                f"{a.get_name()} = {operand(o)}" for a, o in zip(body.arguments, op.operands, strict=True)
            )
            (result,) = (r for r in op.results if list(r.uses))
            yield f"{indent}{operand(result)} = while ({starts}) {{"
            yield from drawn(body, indent + "  ")
            yield f"{indent}}}"
            continue
        made = f"{operand(op.results[0])} = " if op.results else ""
        yield f"{indent}{made}{name} {', '.join(map(operand, op.operands))}"


def operand(value: ir.Value) -> str:
    """The name of `value`, or its number where it is a constant of equal elements."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "stablehlo.constant":
        return value.get_name()
    splat: Any = ir.DenseElementsAttr(value.owner.attributes["value"]).get_splat_value()
    return f"{splat.value:g}"


def numbered(lines: list[str]) -> list[str]:
    """`lines` with their values numbered in the order in which they are named."""
    names: dict[str, str] = {}
    return [re.sub(r"%[\w#]+", lambda found: names.setdefault(found[0], f"%{len(names)}"), line) for line in lines]


def function_of(text: str) -> list[str]:
    with make_context():
        module = ir.Module.parse(text)
        return numbered(list(drawn(module.body.operations[0].regions[0].blocks[0])))


def test_the_figure_is_what_par_opt_does() -> None:
    before, after = figure()
    assert numbered(before) == function_of(MODULE.read_text())
    assert numbered(after) == function_of(paropt.optimize(MODULE.read_text(), passes="grad-sync").module)
