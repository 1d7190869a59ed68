"""Writes docs/api.md from the public names of paropt and their docstrings; `--check` fails when the page is stale."""

import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from generated_page import main_of

import paropt

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
HEAD = """<!-- Written by tools/gen_api_docs.py from docstrings: `make docs`. -->

# Public names

What [the deprecation rule](changelog.md#deprecation-rule) is about. `import paropt` is light: jax is imported when a
name is first used. Passes, their options and named pipelines are in [passes.md](passes.md)."""

# What the functions return, and what is raised: by where it is imported from.
RESULTS = {
    "paropt.jit": ("Jitted",),
    "paropt.modules.summary": ("Remarks",),
    "paropt.passes.support.remarks": ("Remark",),
    "paropt.audit": ("Audit", "AuditComparison", "AuditReport"),
    "paropt.policies": ("Policies", "Choice"),
    "paropt.plan": ("Plan",),
    "paropt.planning.candidates": ("Candidate",),
    "paropt.accumulate": ("Accumulated",),
    "paropt.pipeline": ("Pipeline",),
    "paropt.check": ("Check",),
    "paropt.modules.module_io": ("Optimized",),
}
ERRORS = {
    "paropt.passes.support.pipeline": ("PipelineError",),
    "paropt.targets": ("TargetError",),
    "paropt.check": ("CheckError",),
    "paropt.fallback": ("VerificationError",),
    "paropt.accumulate": ("AccumulateError",),
    "paropt.pipeline": ("StageError",),
    "paropt.plan": ("PlanError",),
    "paropt.costs": ("CostError",),
    "paropt.schedules": ("ScheduleError",),
    "paropt.report_json": ("ReportError",),
}


def page() -> str:
    """The text of docs/api.md."""
    functions = [name for name in paropt.__all__ if not isinstance(getattr(paropt, name), ModuleType)]
    modules = [name for name in paropt.__all__ if name not in functions]
    parts = [HEAD, contents(functions, modules)]
    parts += [function(f"paropt.{name}", getattr(paropt, name), "##") for name in functions]
    parts += ["## What they return", *(type_of(place, each) for place, names in RESULTS.items() for each in names)]
    parts += ["## Errors", errors()]
    parts += [part for name in modules for part in module(name)]
    return "\n\n".join(parts) + "\n"


def contents(functions: list[str], modules: list[str]) -> str:
    rows = [f"| [`paropt.{n}`](#paropt{n}) | {summary(getattr(paropt, n))} |" for n in functions]
    rows += [f"| [`paropt.{n}`](#paropt{n}) | module: {summary(getattr(paropt, n))} |" for n in modules]
    return "\n".join(["| name | |", "|---|---|", *rows])


def function(name: str, described: Callable[..., Any], level: str) -> str:
    return "\n\n".join([f"{level} `{name}`", f"    {signature(name, described)}", prose(described)])


def type_of(place: str, name: str) -> str:
    """A class: how it is documented, its fields, and its public methods, a line each."""
    described = getattr(importlib.import_module(place), name)
    parts = [f"### `{name}`", prose(described), f"    {import_line(place, name)}"]
    if rows := [*fields(described), *methods(described)]:
        parts.append("\n".join(["| | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def fields(described: type) -> Iterator[str]:
    names = [f.name for f in dataclasses.fields(described)] if dataclasses.is_dataclass(described) else []
    names = names or list(getattr(described, "_fields", ()))
    if public := [f"`{name}`" for name in names if not name.startswith("_")]:
        yield f"| {', '.join(public)} | fields |"


def methods(described: type) -> Iterator[str]:
    for name, member in inspect.getmembers_static(described):
        found = getattr(member, "__func__", member)
        if name.startswith("_") or not defined_here(found, described):
            continue
        if isinstance(found, property):
            yield f"| `.{name}` | {summary(found)} |"
        elif inspect.isfunction(found):
            yield f"| `.{cell(signature(name, found))}` | {summary(found)} |"


def defined_here(member: Any, described: type) -> bool:
    """Whether a member is of paropt: not one of `tuple`, say."""
    getter = member.fget if isinstance(member, property) else member
    return str(getattr(getter, "__module__", described.__module__)).startswith("paropt")


def errors() -> str:
    rows = []
    for place, names in ERRORS.items():
        module = importlib.import_module(place) if place not in public_modules() else public_modules()[place]
        for name in names:
            found = getattr(module, name)
            base = found.__mro__[1].__name__
            rows.append(f"| `{name}` | `{base}` | `{import_line(place, name)}` | {summary(found)} |")
    return "\n".join(["| | is a | import | raised when |", "|---|---|---|---|", *rows])


def import_line(place: str, name: str) -> str:
    """The line after which `name` is the class: modules that are public elsewhere than in their file have none of
    their own.
    """
    found = public_modules().get(place)
    if found is None or found.__name__ == place:
        return f"from {place} import {name}"
    return f"from paropt import {place.removeprefix('paropt.')}; {name} = {place.removeprefix('paropt.')}.{name}"


def public_modules() -> dict[str, ModuleType]:
    found = {f"paropt.{name}": getattr(paropt, name) for name in paropt.__all__}
    return {name: value for name, value in found.items() if isinstance(value, ModuleType)}


def module(name: str) -> Iterator[str]:
    """A public module, with its functions and classes."""
    found = getattr(paropt, name)
    yield f"## `paropt.{name}`"
    yield summary(found)
    rows = []
    for each in members(found):
        value = getattr(found, each)
        text = signature(each, value) if inspect.isfunction(value) else each
        rows.append(f"| `{cell(text)}` | {summary(value) if is_documented(value) else type(value).__name__} |")
    yield "\n".join(["| name | |", "|---|---|", *rows])


def is_documented(value: Any) -> bool:
    """Whether its docstring is its own: a constant or an alias has that of its type."""
    return inspect.isfunction(value) or (inspect.isclass(value) and value.__module__.startswith("paropt"))


def members(found: ModuleType) -> list[str]:
    """What `__all__` of the module has; without it, the classes and functions that it defines."""
    if hasattr(found, "__all__"):
        return list(found.__all__)
    own = {name: value for name, value in vars(found).items() if getattr(value, "__module__", "") == found.__name__}
    return [name for name, value in own.items() if not name.startswith("_") and callable(value)]


def signature(name: str, described: Callable[..., Any]) -> str:
    """`name(a, *, b=1)`: without types, `self` and `cls`."""
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(described).parameters.values()]
    shown = inspect.Signature([shortened(p) for p in parameters if p.name not in ("self", "cls")])
    return f"{name}{shown}"


def shortened(parameter: inspect.Parameter) -> inspect.Parameter:
    """A function as default is told by its name: the address of its text would be another in each process."""
    if not inspect.isfunction(parameter.default):
        return parameter
    name = parameter.default.__name__
    return parameter.replace(default=Verbatim("..." if name == "<lambda>" else name))


class Verbatim(str):
    """Shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def prose(described: Any) -> str:
    return linked(inspect.getdoc(described) or "")


def summary(described: Any) -> str:
    """The first paragraph, in a line of a table."""
    paragraph = (inspect.getdoc(described) or "").partition("\n\n")[0]
    return cell(linked(" ".join(paragraph.split())))


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def linked(text: str) -> str:
    """Names of pages become links, but for those in code."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text)


def main() -> int:
    return main_of(__doc__, PAGE, page, "the docstrings")


if __name__ == "__main__":
    sys.exit(main())
