"""Runs the notebooks of docs/tutorials and stores what they print.

Usage: run_tutorials.py [NAME ...]. Each runs in a process of its own, in an empty folder: the code cells in their
order, of which one that ends in an expression shows its value, as in Jupyter.
"""

import argparse
import ast
import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
SECONDS = 600  # more than a busy machine takes

Notebook = dict[str, Any]


class TutorialError(Exception):
    """A cell fails; the message has its traceback."""


def tutorials() -> list[Path]:
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Notebook:
    notebook: Notebook = json.loads(path.read_text())
    return notebook


def sources(notebook: Notebook) -> list[str]:
    """The code cells."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def digest(notebook: Notebook) -> str:
    """What the stored results are of."""
    return hashlib.sha256("\0".join(sources(notebook)).encode()).hexdigest()[:16]


def run(notebook: Notebook) -> list[str]:
    """What each code cell prints. Raises TutorialError."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment.pop("XLA_FLAGS", None)  # the notebook says how many devices there are
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        child = subprocess.run(
            [sys.executable, __file__, "--cells-to", str(results)],
            input=json.dumps(sources(notebook)),
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=SECONDS,
        )
        if child.returncode:
            raise TutorialError(child.stderr)
        printed: list[str] = json.loads(results.read_text())
        return printed


def cells(texts: list[str]) -> list[str]:
    """Executes the cells in one namespace, in this process; what each prints."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_executed(text, f"cell_{number}.py", names) for number, text in enumerate(texts, 1)]


def _executed(text: str, name: str, names: dict[str, Any]) -> str:
    body = ast.parse(text, name).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, type_ignores=[]), name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


def with_results(notebook: Notebook, printed: list[str]) -> Notebook:
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, text) in enumerate(zip(code, printed, strict=True), 1):
        output = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
        cell |= {"execution_count": number, "outputs": [output] if text else []}
    notebook["metadata"]["paropt"] = {"results of": digest(notebook)}
    return notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(path.stem for path in tutorials())}")
    parser.add_argument("--cells-to", type=Path, help=argparse.SUPPRESS)  # the child: cells on stdin
    options = parser.parse_args()
    if options.cells_to:
        options.cells_to.write_text(json.dumps(cells(json.load(sys.stdin))))
        return 0
    known = {path.stem: path for path in tutorials()}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no tutorial is called {unknown[0]!r}; there are: {', '.join(known)}")
    for path in (known[name] for name in options.names or known):
        print(f"running {path.name}", flush=True)
        notebook = read(path)
        try:
            path.write_text(json.dumps(with_results(notebook, run(notebook)), indent=1, ensure_ascii=False) + "\n")
        except TutorialError as error:
            print(f"run_tutorials: error: {path.name} fails:\n{error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
