"""`--verify-diagnostics`: comments in the input say which diagnostics and remarks it must give, and no others.

    // expected-error @+1 {{use of undeclared SSA value name}}

As in mlir-opt, the text in braces must occur in the message, and the line is that of the comment (no `@`), relative to
it (`@+1`, `@-1`), the nearest line without an expectation (`@above`, `@below`), or `@unknown` for a diagnostic
that has no position. `expected-error-re` holds regular expressions in inner braces: `{{found {{[0-9]+}} ops}}`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from paropt.modules.module_io import Diagnostic

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|note|remark|warning)(?P<re>-re)?"
    r" *(@(?P<where>[+-][0-9]+|above|below|unknown))? *\{\{(?P<text>.*)\}\}[ \t\r]*$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Expectation:
    """One `expected-...` comment."""

    severity: str
    written: int  # the line of the comment
    line: int  # the line it speaks of; 0 for an unknown position
    text: str
    pattern: re.Pattern[str]

    def matches(self, diagnostic: Diagnostic, name: str) -> bool:
        """Does this expect `diagnostic`, of the input `name`?"""
        source = diagnostic.source
        here = source.file == name and source.line == self.line
        return here and self.severity == diagnostic.severity and bool(self.pattern.search(diagnostic.message))


def expectations(text: str) -> list[Expectation]:
    """The expectations in `text`, in order. Raises ValueError, with the line first, for a wrong regular expression."""
    by_line = {n: m for n, line in enumerate(text.split("\n"), 1) if (m := _EXPECTED.search(line))}
    found = []
    for n, m in by_line.items():
        try:
            pattern = re.compile(_pattern(m["text"]) if m["re"] else re.escape(m["text"]))
        except re.error as error:
            raise ValueError(f"{n}: wrong regular expression in `{m['text']}`: {error}") from error
        found.append(Expectation(m["severity"], n, _line(m["where"], n, by_line.keys()), m["text"], pattern))
    return found


def mismatches(expected: list[Expectation], given: Iterable[Diagnostic], name: str) -> Iterator[str]:
    """One line for each diagnostic that was not expected and for each expectation that none met.

    Each expectation is met by one diagnostic; notes are matched like the diagnostics they belong to.
    """
    open_ones = list(expected)
    for diagnostic in (d for g in given for d in (g, *g.notes)):
        met = next((e for e in open_ones if e.matches(diagnostic, name)), None)
        if met:
            open_ones.remove(met)
        else:
            yield f"{diagnostic.position}: unexpected {diagnostic.severity}: {diagnostic.message}"
    for e in open_ones:
        yield f'{name}:{e.written}: expected {e.severity} "{e.text}" was not produced'


def _pattern(text: str) -> str:
    """`text`, whose parts in double braces are regular expressions, as one regular expression."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))


def _line(where: str | None, written: int, commented: Iterable[int]) -> int:
    match where:
        case None:
            return written
        case "unknown":
            return 0
        case "above" | "below":
            step = -1 if where == "above" else 1
            line = written + step
            while line in commented:
                line += step
            return line
    return written + int(where)
