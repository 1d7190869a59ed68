"""Tests marked `targets_in_turns` compile each of their programs for one of their targets, by day: the first for the first.

So each program and each target are tested. `make test ROWS=all` compiles each for each, as CI does, and so does a run that
names single tests.
"""

import os
from typing import Any

import pytest

MARK = "targets_in_turns"
TARGET = "target"  # the parameter


def pytest_configure(config: pytest.Config) -> None:
    if (rows := os.environ.get("PAROPT_ROWS", "")) not in ("", "all"):
        raise pytest.UsageError(f"PAROPT_ROWS is {rows!r}: only 'all' is known")
    config.addinivalue_line("markers", f"{MARK}: by day, compiles each program for one target: test/target_turns.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = set(out_of_turn(items)) if takes_turns(config) else set()
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def takes_turns(config: pytest.Config) -> bool:
    names_tests = config.option.keyword or any("::" in argument for argument in config.args)
    return not (os.environ.get("PAROPT_ROWS") or names_tests)


def out_of_turn(items: list[pytest.Item]) -> list[pytest.Item]:
    """The rows of marked tests whose target is another's turn."""
    tests: dict[str, list[tuple[pytest.Item, Any, str]]] = {}
    for item in items:
        if item.get_closest_marker(MARK) is not None and isinstance(item, pytest.Function):
            row = dict(item.callspec.params)
            target = row.pop(TARGET)
            tests.setdefault(item.nodeid.partition("[")[0], []).append((item, target, repr(sorted(row.items()))))
    return [item for rows in tests.values() for item in _out_of_turn(rows)]


def _out_of_turn(rows: list[tuple[pytest.Item, Any, str]]) -> list[pytest.Item]:
    targets = list(dict.fromkeys(target for _, target, _ in rows))
    programs = list(dict.fromkeys(program for _, _, program in rows))
    if len(programs) < len(targets):
        raise pytest.UsageError(f"{rows[0][0].nodeid}: {MARK} needs a program for each target")
    # One further after each round: programs often come in kinds of three themselves.
    turns = {program: targets[(n + n // len(targets)) % len(targets)] for n, program in enumerate(programs)}
    return [item for item, target, program in rows if turns[program] != target]
