"""What the tests take: adds up the lines that `pytest --spending FILE` writes, per folder, file and kind.

make times                                    runs all tests and prints the tables
tools/test_times.py build/spending.jsonl      the tables of the last run
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
COLUMNS = {
    "tests": lambda rows: len(rows),
    "CPU s": lambda rows: _sum(rows, "cpu"),
    "clock s": lambda rows: _sum(rows, "clock"),
    "compiled here": lambda rows: _sum(rows, "compiled"),
    "CPU s of that": lambda rows: _sum(rows, "compile_seconds"),
    "for other targets": lambda rows: _sum(rows, "compiled_elsewhere"),
    "processes": lambda rows: _sum(rows, "processes"),
}


def _sum(rows: list[Row], name: str) -> float:
    return sum(row[name] for row in rows)


def tables(rows: list[Row], count: int) -> Iterator[str]:
    """Of all folders, of the `count` files and the `count` tests that take the most."""
    yield _table("folder", rows, lambda row: "/".join(_file(row).split("/")[:2]), None)
    yield _table("file", rows, _file, count)
    yield _table("test", rows, lambda row: row["test"].removeprefix("test/"), count)


def _file(row: Row) -> str:
    return str(row["test"]).partition("::")[0]


def _table(head: str, rows: list[Row], group_of: Callable[[Row], str], count: int | None) -> str:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -_sum(item[1], "cpu"))
    lines = [_line(name, found) for name, found in ordered[:count]]
    heads = [head, *COLUMNS]
    return "\n".join(_rows([heads, ["---", *["---:"] * len(COLUMNS)], *lines, _line("all", rows)]))


def _line(name: str, rows: list[Row]) -> list[str]:
    return [name, *(f"{round(figure(rows)):,}" for figure in COLUMNS.values())]


def _rows(cells: Iterable[list[str]]) -> Iterator[str]:
    return (f"| {' | '.join(row)} |" for row in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what `pytest --spending` has written")
    parser.add_argument("--count", type=int, default=100, help="files and tests to list (default: 100)")
    arguments = parser.parse_args()
    try:
        rows = [json.loads(line) for line in arguments.file.read_text().splitlines()]
    except (OSError, ValueError) as error:
        parser.error(f"{arguments.file} is not what `pytest --spending` writes: {error}")
    print("\n\n".join(tables(rows, arguments.count)))


if __name__ == "__main__":
    main()
