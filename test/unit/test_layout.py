"""The packages, and which way imports go."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from unit.tools import ROOT

FOLDERS = {"paropt": ROOT / "pyext", "paropt.passes": ROOT / "passes"}
PRIVATE_ROOTS = ("jax._src", "jaxlib.mlir._mlir_libs", "jaxlib._")
LONGEST_FILE = 500


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if ".venv" not in path.parts)


def imported(path: Path) -> Iterator[str]:
    """The modules and names that a file imports, dotted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_declared_packages_are_the_folders_on_disk() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in FOLDERS.items()
        for path in folder.rglob("__init__.py")
    ]
    assert sorted(declared) == sorted(found)


def test_passes_never_import_jax_nor_what_uses_them() -> None:
    for path in sources("passes"):
        wrong = [n for n in imported(path) if is_within(n, "jax")]
        wrong += [n for n in imported(path) if is_within(n, "paropt") and not is_within(n, "paropt.passes")]
        assert wrong == [], f"{path.relative_to(ROOT)} imports {wrong}"


def test_analyses_and_core_do_not_import_passes() -> None:
    registered = {path.stem for path in (ROOT / "passes").glob("*.py")} - {"__init__"}
    for path in sources("passes/analysis", "passes/core"):
        wrong = [n for n in imported(path) if any(is_within(n, f"paropt.passes.{name}") for name in registered)]
        assert wrong == [], f"{path.relative_to(ROOT)} imports {wrong}"


def test_each_private_name_is_imported_in_one_file() -> None:
    users: dict[str, set[str]] = {}
    for path in sources("passes", "pyext"):
        for name in imported(path):
            if name.startswith(PRIVATE_ROOTS):
                users.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert users, "the private names moved: PRIVATE_ROOTS is stale"
    assert {name: files for name, files in users.items() if len(files) > 1} == {}


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources("passes", "pyext", "test", "tools")}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > LONGEST_FILE} == {}
