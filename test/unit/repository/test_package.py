"""`import paropt`: light, and its names mean the same whatever was imported first."""

import subprocess
import sys

import pytest

import paropt


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_paropt_is_light() -> None:
    heavy = python("import sys, paropt; print(*[m for m in sys.modules if m.partition('.')[0] in ('jax', 'jaxlib')])")
    assert heavy.split() == []


@pytest.mark.parametrize("name", [name for name in dir(paropt) if name in paropt._MODULE_OF])
def test_every_name_is_a_function(name: str) -> None:
    assert callable(getattr(paropt, name)) and name in dir(paropt)


def test_all_names_the_functions_and_modules() -> None:
    assert sorted(paropt.__all__) == sorted([*paropt._MODULE_OF, *paropt._MODULES])
    assert python("from paropt import *\nprint(jit.__name__, targets.__name__)").split() == [
        "jit",
        "paropt.clusters.targets",
    ]


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute `jits`"):
        paropt.jits  # noqa: B018


@pytest.mark.parametrize("first", ["import paropt.jit", "from paropt.jit import remarks", "import paropt; paropt.jit"])
def test_paropt_jit_is_the_function_whatever_is_imported_first(first: str) -> None:
    assert python(f"{first}\nimport paropt, paropt.jit\nprint(paropt.jit.__name__)").strip() == "jit"
