"""Finds FileCheck lines that FileCheck ignores: a check that cannot fail is not a test. And files too long to be read.

`lint_checks.py PATH...` looks at each file, and at the .mlir files under each folder.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RUN = re.compile(r"//\s*RUN:(?P<command>.*)")
PREFIXES = re.compile(r"--?check-prefix(?:es)?[= ](?P<names>[\w,-]+)")
COMMENT = re.compile(r"(?://|#)\s*(?P<text>.*)")
SUFFIX = r"(?:-(?:NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-[1-9]\d*))?(?:\{LITERAL\})?:"
# A comment in capitals and a colon, or one that begins with a prefix: meant as a check. Notes of other tools are not.
SHOUTED = re.compile(r"(?P<name>[A-Z][A-Z0-9_-]{2,})\s*:")
OTHER_NOTES = frozenset({"RUN", "NUMERIC", "XFAIL", "REQUIRES", "UNSUPPORTED", "DEFINE", "REDEFINE"})

LONGEST = 800  # lines of a file: a longer one is cut by topic, into PASS-TOPIC.mlir

# What makes of a command a test, or keeps its output for the next command.
LOOKED_AT = re.compile(r"FileCheck|--verify-diagnostics|\b(?:not|diff|cmp|grep)\b|\s-o\s|>")


class Finding(NamedTuple):
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.line}: error: {self.message}"


def findings(text: str) -> list[Finding]:
    """What is wrong with the checks of a lit file, and its length."""
    return sorted([*_runs(text), *_checks(text), *_length(text)])


def _length(text: str) -> Iterator[Finding]:
    if (lines := len(text.splitlines())) > LONGEST:
        yield Finding(lines, f"{lines} lines, and at most {LONGEST} are read: cut the file by topic")


def _commands(text: str) -> list[tuple[int, str]]:
    """The RUN commands with the line each starts on; a backslash continues one on the next RUN line."""
    commands: list[tuple[int, str]] = []
    continued = False
    for number, line in enumerate(text.splitlines(), 1):
        if not (run := RUN.search(line)):
            continue
        part = run["command"].strip()
        if continued:
            start, before = commands.pop()
            commands.append((start, before.removesuffix("\\") + part))
        else:
            commands.append((number, part))
        continued = part.endswith("\\")
    return commands


def _prefixes(command: str) -> set[str]:
    """The prefixes that a RUN command checks; empty when it does not run FileCheck."""
    if "FileCheck" not in command:
        return set()
    named = {name for found in PREFIXES.finditer(command) for name in found["names"].split(",")}
    return named or {"CHECK"}


def _runs(text: str) -> Iterator[Finding]:
    commands = _commands(text)
    if not commands:
        yield Finding(1, "no RUN line: lit runs nothing")
    for number, command in commands:
        if "%par-opt" in command and not LOOKED_AT.search(command):
            yield Finding(number, f"RUN line without FileCheck: nothing looks at its output: {command}")
        for prefix in sorted(_prefixes(command)):
            if not re.search(rf"(?://|#)\s*{re.escape(prefix)}{SUFFIX}", text):
                yield Finding(number, f"RUN line checks {prefix}, and no line has that prefix")


def _checks(text: str) -> Iterator[Finding]:
    prefixes = set().union(*(_prefixes(command) for _, command in _commands(text)))
    # The longest first: `CHECK-REMARK` is not `CHECK` with a wrong suffix.
    ordered = sorted(prefixes, key=len, reverse=True)
    alive = re.compile(rf"(?:{'|'.join(map(re.escape, ordered))}){SUFFIX}") if ordered else None
    meant = re.compile(rf"(?:{'|'.join(map(re.escape, sorted({*prefixes, 'CHECK'}, key=len, reverse=True)))})\b")
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.search(line)
        if not comment or (alive and alive.match(comment["text"])):
            continue
        shouted = SHOUTED.match(comment["text"])
        if meant.match(comment["text"]):
            yield Finding(number, f"FileCheck ignores this line: {comment[0].strip()}")
        elif shouted and shouted["name"] not in OTHER_NOTES:
            yield Finding(number, f"no RUN line checks {shouted['name']}: {comment[0].strip()}")


NOT_TESTS = {"Inputs", "Output"}  # what tests read, and what lit writes


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: lint_checks.py PATH...", file=sys.stderr)
        return 2
    found = [(file, finding) for file in _files(arguments) for finding in findings(file.read_text())]
    for file, finding in found:
        print(f"{file}:{finding}")
    return 1 if found else 0


def _files(arguments: list[str]) -> Iterator[Path]:
    for path in map(Path, arguments):
        if path.is_dir():
            yield from (p for p in sorted(path.rglob("*.mlir")) if not NOT_TESTS & set(p.parts))
        else:
            yield path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
