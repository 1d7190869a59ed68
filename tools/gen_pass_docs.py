"""Writes docs/passes.md from the declarations of the passes; `--check` fails when the page is stale."""

import sys
from pathlib import Path

from generated_page import main_of

import paropt.passes  # noqa: F401  registers every pass
from paropt.passes.support.registry import PASSES, PIPELINES, NamedPipeline, Option, Pass

PAGE = Path(__file__).parents[1] / "docs" / "passes.md"
HEAD = """<!-- Written by tools/gen_pass_docs.py from the passes' docstrings and options: `make docs`. -->

# Passes

Every name below can be given to `par-opt --passes=...` and to `paropt.jit(..., passes=...)`. `par-opt --remarks` says
for each op what was done, or which of the conditions below does not hold."""


def page() -> str:
    """The text of docs/passes.md."""
    passes = [PASSES[name] for name in sorted(PASSES)]
    parts = [HEAD, contents(passes), *map(section, passes), "# Named pipelines", *map(pipeline, PIPELINES.values())]
    return "\n\n".join(parts) + "\n"


def contents(passes: list[Pass]) -> str:
    rows = [f"| [`{p.name}`](#{p.name}) | {p.summary} |" for p in passes]
    return "\n".join(["| pass | |", "|---|---|", *rows])


def section(declared: Pass) -> str:
    parts = [f"## `{declared.name}`", declared.doc]
    if declared.options:
        rows = map(row, declared.options)
        parts.append("\n".join(["| option | value | default | |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def row(option: Option) -> str:
    elsewhere = "".join(f", on {each.platform} `{option.spell(each.default)}`" for each in option.elsewhere)
    return f"| `{option.name}` | {option.expects} | `{option.spell(option.default)}`{elsewhere} | {option.help} |"


def pipeline(named: NamedPipeline) -> str:
    return "\n\n".join([f"## `{named.name}`", stages(named), named.doc])


def stages(named: NamedPipeline) -> str:
    """A numbered list where each stage has a reason, else the text of the pipeline."""
    if not named.explained:
        return f"    {named.stages}"
    return "\n".join(f"{n}. `{stage.text}`: {stage.reason}" for n, stage in enumerate(named.explained, 1))


def main() -> int:
    return main_of(__doc__, PAGE, page, "the passes")


if __name__ == "__main__":
    sys.exit(main())
