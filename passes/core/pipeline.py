"""Pipelines: `fuse-all-reduces{convert=any},func.func(canonicalize)`, read from text and written back.

Our passes and MLIR's run in one `PassManager`, so verification between passes, IR printing and timing are MLIR's.
"""

import difflib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from paropt.passes.core.registry import PASSES, PIPELINES, Pass
from paropt.passes.core.remarks import Remark

ANCHOR = "builtin.module"


class PipelineError(ValueError):
    """The pipeline text is wrong; the message says where, and what would be right."""


@dataclass(frozen=True)
class Stage:
    """One of our passes with its options, or (`declared` is None) pipeline text of MLIR's."""

    declared: Pass | None
    options: tuple[tuple[str, Any], ...]  # as given: (kebab-case name, value)
    native: str

    def __str__(self) -> str:
        if self.declared is None:
            return self.native
        spell = {o.name: o.spell for o in self.declared.options}
        given = " ".join(f"{name}={spell[name](value)}" for name, value in self.options)
        return f"{self.declared.name}{{{given}}}" if given else self.declared.name

    @property
    def name(self) -> str:
        return self.declared.name if self.declared else self.native.partition("{")[0]

    def callback(self, remarks: list[Remark]) -> Callable[[ir.Operation, object], None]:
        """The pass as MLIR's `PassManager` calls it; what it decides goes to `remarks`."""
        assert self.declared is not None
        arguments = {name.replace("-", "_"): value for name, value in self.options}
        run = functools.partial(self.declared.run, **arguments)
        return lambda module, _pass: remarks.extend(run(module.operation))


@dataclass(frozen=True)
class Pipeline:
    """An ordered list of stages. `str` of it is pipeline text that parses to an equal pipeline."""

    stages: tuple[Stage, ...]

    @classmethod
    def parse(cls, text: str) -> "Pipeline":
        """Reads `a{option=value},b` or `builtin.module(a,b)`; named pipelines are expanded.

        Raises PipelineError for an unknown pass or option, a bad value, or unbalanced braces.
        """
        return cls(tuple(_stages(_without_anchor(text.strip()))))

    def __str__(self) -> str:
        return ",".join(map(str, self.stages))

    def manager(self, context: ir.Context, remarks: list[Remark]) -> PassManager:
        """A `PassManager` with these stages; remarks are appended to `remarks` as it runs."""
        with context:
            manager = PassManager(ANCHOR)
            for stage in self.stages:
                if stage.declared is None:
                    _add_native(manager, stage.native)
                else:
                    manager.add(stage.callback(remarks), name=stage.name, argument=str(stage))
        return manager

    def run(self, module: ir.Operation) -> list[Remark]:
        """Rewrites `module` (a `builtin.module`) in place, verified after each stage; returns the remarks.

        Raises PipelineError when MLIR does not know a stage, `ir.MLIRError` when a pass fails.
        """
        remarks: list[Remark] = []
        self.manager(module.context, remarks).run(module)
        return list(dict.fromkeys(remarks))


def _stages(text: str) -> Iterator[Stage]:
    for element in _split(text):
        name, brace, options = element.partition("{")
        name = name.strip()
        if name in PIPELINES and not brace:
            yield from _stages(PIPELINES[name].stages)
        elif name in PASSES:
            yield Stage(PASSES[name], tuple(_options(PASSES[name], options.removesuffix("}"))), "")
        else:
            yield _native_stage(element)


def _native_stage(element: str) -> Stage:
    nested = [name for name in re.findall(r"[\w.-]+", element.partition("(")[2]) if name in PASSES]
    if nested:
        raise PipelineError(f"`{nested[0]}` runs on the module: write it outside `{element.partition('(')[0]}(...)`")
    return Stage(None, (), element)


def _add_native(manager: PassManager, text: str) -> None:
    try:
        manager.add(text)
    except ValueError as error:
        name = text.partition("{")[0]
        near = difflib.get_close_matches(name, [*PASSES, *PIPELINES], n=1)
        if near:
            raise PipelineError(f"no pass called `{name}`; did you mean `{near[0]}`?") from error
        if f"'{name}' does not refer to" in str(error):
            raise PipelineError(f"no pass called `{name}`; `par-opt --list-passes` lists them") from error
        raise PipelineError(f"in `{text}`: {_first_reason(str(error))}") from error


def _first_reason(message: str) -> str:
    """MLIR's reason without its position in a text that the user did not write."""
    found = re.search(r"error: (.*)", message)
    return found[1] if found else message.strip().partition("\n")[0]


def _without_anchor(text: str) -> str:
    if not text.startswith(f"{ANCHOR}("):
        return text
    if not text.endswith(")"):
        raise PipelineError(f"`{text}` has no closing parenthesis")
    return text[len(ANCHOR) + 1 : -1]


def _options(declared: Pass, text: str) -> Iterator[tuple[str, Any]]:
    known = {o.name: o for o in declared.options}
    for pair in text.split():
        name, equals, value = pair.partition("=")
        if name not in known:
            raise PipelineError(f"{declared.name} has no option `{name}`{_hint(name, list(known))}")
        try:
            if not equals:
                raise ValueError(pair)
            yield name, known[name].parse(value)
        except ValueError as error:
            raise PipelineError(f"{declared.name}{{{pair}}}: expected {known[name].expects}") from error


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; it has: {', '.join(known)}" if known else "; it has none"


def _split(text: str) -> Iterator[str]:
    """The elements of `text`: it is cut at the commas outside braces and parentheses."""
    closing = {"(": ")", "{": "}"}
    expected: list[str] = []
    start = 0
    for m in re.finditer(r"[(){},]", text):
        if m[0] in closing:
            expected.append(closing[m[0]])
        elif m[0] != ",":
            if not expected or expected.pop() != m[0]:
                raise PipelineError(f"`{text}` has a stray `{m[0]}` at character {m.start() + 1}")
        elif not expected:
            yield _element(text, start, m.start())
            start = m.end()
    if expected:
        raise PipelineError(f"`{text}` ends without a closing `{expected[-1]}`")
    if text.strip():
        yield _element(text, start, len(text))


def _element(text: str, start: int, end: int) -> str:
    element = text[start:end].strip()
    if not element:
        raise PipelineError(f"`{text}` has an empty element at character {start + 1}")
    return element
