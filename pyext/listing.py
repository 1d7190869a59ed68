"""The texts of `par-opt --list-passes` and `--show-dialects`."""

import textwrap
from collections.abc import Iterator

from paropt.modules import dialect_names
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.core.registry import PASSES, PIPELINES, Option, Pass

_WIDTH = 110
_COLUMN = 26


def passes_and_pipelines() -> str:
    """The passes with their options, and the named pipelines with their stages, in reading order."""
    lines = ["Passes:"]
    for declared in PASSES.values():
        lines += _entry(declared)
    lines += ["", "Named pipelines:"]
    for pipeline in PIPELINES.values():
        default = " (default of paropt.jit and paropt.optimize)" if pipeline.name == DEFAULT_PIPELINE else ""
        lines += _row(f"  {pipeline.name}", pipeline.doc + default)
        lines += _row("", f"= {pipeline.stages}")
    lines += ["", "MLIR's own passes run too, such as canonicalize, cse, symbol-dce, func.func(...)."]
    return "\n".join(lines)


def dialects() -> str:
    return "\n".join(dialect_names())


def _entry(declared: Pass) -> Iterator[str]:
    yield from _row(f"  {declared.name}", declared.summary)
    for option in declared.options:
        yield from _row(f"    {option.name}", f"{option.help} ({_values(option)})")


def _values(option: Option) -> str:
    return f"{option.expects}; default: {option.spell(option.default)}"


def _row(left: str, right: str) -> list[str]:
    """`right` wrapped in a column of its own, beside `left`, or below it where `left` is too long."""
    indent = " " * _COLUMN
    if len(left) >= _COLUMN:
        return [left, *_row("", right)]
    wrapped = textwrap.wrap(right, _WIDTH - _COLUMN, break_on_hyphens=False)
    return [f"{left:{_COLUMN}}{wrapped[0]}", *(indent + line for line in wrapped[1:])] if wrapped else [left]
