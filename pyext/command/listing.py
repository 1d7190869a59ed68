"""The texts of `par-opt --list-passes`, `--show-dialects` and `--mlir-pass-statistics`."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator

from paropt.modules.module_io import dialect_names
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.support.registry import PASSES, PIPELINES, Option, Pass
from paropt.passes.support.remarks import Remark

_WIDTH = 110
_COLUMN = 26


def passes_and_pipelines() -> str:
    """The passes with their options, and the named pipelines with their stages, in reading order."""
    lines = ["Passes:"]
    for name in sorted(PASSES):
        lines += _entry(PASSES[name])
    lines += ["", pipelines()]
    lines += ["", "MLIR's own passes run too, such as canonicalize, cse, symbol-dce, func.func(...)."]
    return "\n".join(lines)


def pipelines() -> str:
    """The named pipelines with their stages."""
    lines = ["Named pipelines:"]
    for pipeline in PIPELINES.values():
        default = " (default of paropt.jit and paropt.optimize)" if pipeline.name == DEFAULT_PIPELINE else ""
        lines += _row(f"  {pipeline.name}", pipeline.doc + default)
        lines += _row("", f"= {pipeline.stages}")
    return "\n".join(lines)


def statistics(pass_names: Iterable[str], remarks: Iterable[Remark]) -> str:
    """How often each of these passes did its rewrite, and declined it, in the form of MLIR's report."""
    lines = ["===" + "-" * 73 + "===", "... Pass statistics report ...".center(79).rstrip(), "===" + "-" * 73 + "==="]
    counted = Counter((remark.pass_name, remark.applied) for remark in remarks)
    for name in dict.fromkeys(pass_names):
        if name in PASSES:
            counts = ((counted[name, True], "applied"), (counted[name, False], "missed"))
            lines += [f"'{name}'", *(f"  (S) {count} {what}" for count, what in counts)]
    return "\n".join(lines)


def dialects() -> str:
    return "\n".join(dialect_names())


def _entry(declared: Pass) -> Iterator[str]:
    yield from _row(f"  {declared.name}", declared.summary)
    for option in declared.options:
        yield from _row(f"    {option.name}", f"{option.help} ({_values(option)})")


def _values(option: Option) -> str:
    elsewhere = "".join(f", {option.spell(each.default)} on {each.platform}" for each in option.elsewhere)
    return f"{option.expects}; default: {option.spell(option.default)}{elsewhere}"


def _row(left: str, right: str) -> list[str]:
    """`right` wrapped in a column of its own, beside `left`, or below it where `left` is too long."""
    indent = " " * _COLUMN
    if len(left) >= _COLUMN:
        return [left, *_row("", right)]
    wrapped = textwrap.wrap(right, _WIDTH - _COLUMN, break_on_hyphens=False)
    return [f"{left:{_COLUMN}}{wrapped[0]}", *(indent + line for line in wrapped[1:])] if wrapped else [left]
