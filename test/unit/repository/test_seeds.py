"""Data of tests are functions of explicit seeds: no two tests share a generator, so no order of tests changes any data."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest
from numeric.user_steps import integers
from unit.repository.test_layout import sources
from unit.scripts import ROOT

GENERATORS = ("default_rng", "Generator", "RandomState", "Random")
STEPS = ROOT / "test" / "numeric" / "test_hybrid_sharding.py"  # steps that a module holds, with their data


def shared_generators(path: Path) -> list[int]:
    """The lines of a file that bind a generator outside of functions, or draw from numpy's or Python's global one."""
    tree = ast.parse(path.read_text())
    bound = [node.value for node in outside_of_functions(tree) if isinstance(node, ast.Assign | ast.AnnAssign)]
    named = [call for call in bound if isinstance(call, ast.Call) and called(call).split(".")[-1] in GENERATORS]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    drawn = [call for call in calls if is_global(called(call))]
    return sorted(call.lineno for call in [*named, *drawn])


def outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from outside_of_functions(child)


def called(call: ast.Call) -> str:
    return ast.unparse(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""


def is_global(function: str) -> bool:
    module, _, name = function.rpartition(".")
    return module in ("np.random", "numpy.random", "random") and name not in GENERATORS


def test_no_generator_is_shared() -> None:
    found = {str(path.relative_to(ROOT)): shared_generators(path) for path in sources("test")}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import numpy as np\nRNG = np.random.default_rng(0)", [2]),
        ("class Data:\n    rng: Generator = default_rng(0)", [2]),
        ("def f():\n    return np.random.normal(size=3)", [2]),
        ("def f():\n    rng = np.random.default_rng(0)\n    return rng.normal(size=3)", []),
        ("DATA = np.random.default_rng(0).normal(size=3)", []),
        ("random = 3\ndata = jax.random.normal(key)", []),
    ],
)
def test_a_shared_generator_is_found(text: str, lines: list[int], tmp_path: Path) -> None:
    file = tmp_path / "data.py"
    file.write_text(text)
    assert shared_generators(file) == lines


def loaded(path: Path) -> ModuleType:
    """The file as a module of its own, run again."""
    spec = importlib.util.spec_from_file_location("loaded_again", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_steps_have_the_same_data_whatever_was_drawn_before() -> None:
    first = loaded(STEPS).CASES
    integers(5, seed=0)
    second = loaded(STEPS).CASES
    for name, (_, *data) in first.items():
        for once, again in zip(jax.tree.leaves(data), jax.tree.leaves(second[name][1:]), strict=True):
            np.testing.assert_array_equal(once, again)


def test_seeds_and_shapes_tell_data_apart() -> None:
    arrays = [integers(4, 6, seed=seed) for seed in (0, 1, "w", "x")] + [integers(6, 4, seed=0)]
    assert len({array.tobytes() for array in arrays}) == len(arrays)
    np.testing.assert_array_equal(arrays[0], integers(4, 6, seed=0))
