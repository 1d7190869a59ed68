"""The store of verdicts: what is equal is not executed twice, what differs always, and a wrong verdict is found."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import store
from compilers import StoredCompilers
from numeric import oracle

from paropt.clusters import compile_apart
from paropt.clusters.compile_apart import Request
from paropt.clusters.compile_apart import compile_apart as compiled
from paropt.clusters.compiled import Compiled

ADD, TWICE, SUBTRACT = (
    "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
    f"  %c = stablehlo.constant dense<2.0> : tensor<4xf32>\n  %y = {op} : tensor<4xf32>\n  return %y : tensor<4xf32>\n}}"
    for op in ("stablehlo.add %x, %x", "stablehlo.multiply %x, %c", "stablehlo.subtract %x, %x")
)


@pytest.fixture
def executions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is executed from now on; the store is empty, and no hit is doubted."""
    found: list[str] = []

    def results(text: str, seed: int) -> oracle.Results:
        found.append(text)
        return execute(text, seed)

    execute = oracle.results
    monkeypatch.setattr(oracle, "results", results)
    monkeypatch.setattr(store, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(store, "BY_NIGHT", False)
    monkeypatch.setattr(store, "is_doubted", lambda name: False)
    monkeypatch.setattr(oracle, "_results_before", results)
    return found


def test_modules_of_one_text_are_executed_by_night(executions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    oracle.assert_same(ADD, ADD.replace("%y", "%z"))
    assert not executions
    monkeypatch.setattr(store, "BY_NIGHT", True)
    oracle.assert_same(ADD, ADD)
    assert len(executions) == 2


def test_a_verdict_is_found_again(executions: list[str]) -> None:
    for _ in range(2):
        oracle.assert_same(ADD, TWICE)
    assert len(executions) == 2


@pytest.mark.parametrize("change", ["other modules", "other seeds", "other flags", "other versions"])
def test_a_verdict_is_for_what_it_was_found_for(
    executions: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    oracle.assert_same(ADD, TWICE)
    if change == "other flags":
        monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"] + " ")
    if change == "other versions":
        monkeypatch.setattr(store, "versions", lambda: ("jaxlib==0",))
    oracle.assert_same(
        *((TWICE, ADD) if change == "other modules" else (ADD, TWICE)), range(change == "other seeds", 2)
    )
    assert len(executions) > 2


def test_a_difference_is_not_stored(executions: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(AssertionError, match="result 0 differs"):
            oracle.assert_same(ADD, SUBTRACT)
    assert len(executions) == 4


def test_a_wrong_verdict_is_found_by_the_sample(executions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as wrong:
        wrong.setattr(np.testing, "assert_array_equal", lambda *_, **__: None)
        oracle.assert_same(ADD, SUBTRACT)
    oracle.assert_same(ADD, SUBTRACT)
    monkeypatch.setattr(store, "is_doubted", lambda name: True)
    with pytest.raises(AssertionError) as failed:
        oracle.assert_same(ADD, SUBTRACT)
    assert "test/store.py holds" in failed.value.__notes__[0]


def test_one_hit_in_twenty_is_in_the_sample() -> None:
    names = [store.key(i, sources=()) for i in range(2000)]
    assert 50 <= sum(map(store.is_doubted, names)) <= 200


def test_a_file_that_was_cut_off_is_not_read(executions: list[str], tmp_path: Path) -> None:
    store.put("0123", b"all of it")
    assert store.get("0123") == b"all of it"
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes()[:-4])
    assert store.get("0123") is None


# ---- compilers


class Counted(StoredCompilers):
    def __init__(self) -> None:
        super().__init__(compile_apart._COMMAND)
        self.started = 0

    def _take(self, environment: dict[str, str]) -> object:  # type: ignore[override]
        self.started += 1
        return super()._take(environment)


@pytest.fixture
def compilers(executions: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    children = Counted()
    monkeypatch.setattr(compile_apart, "_standing", [children])
    yield children
    children.close()


def compile_twice(environment: dict[str, str]) -> list[Compiled]:
    return [compiled(ADD.encode(), Request("cpu:1"), environment) for _ in range(2)]


def test_a_module_is_compiled_once(compilers: Counted) -> None:
    first, second = compile_twice(dict(os.environ))
    assert first == second and compilers.started == 1


def test_a_doubted_executable_is_compiled_again(compilers: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "is_doubted", lambda name: True)
    first, second = compile_twice(dict(os.environ))
    assert first.hlo == second.hlo and compilers.started == 2


def test_a_stored_executable_that_is_another_is_told(compilers: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_twice(dict(os.environ))
    monkeypatch.setattr(store, "is_doubted", lambda name: True)
    monkeypatch.setattr(store, "get", lambda name: b'[{"seconds": 1.0}, "another"]')
    with pytest.raises(AssertionError, match="another"):
        compile_twice(dict(os.environ))
