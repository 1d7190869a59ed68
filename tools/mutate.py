"""Deletes each `require(...)` under passes/ in turn and reports the ones that no test notices.

Each deletion is made in a copy of the tree, where the text tests, then the numeric corpus, then the unit tests of what
stands under passes/ run until one fails. A condition that survives is untested, or needless.

    tools/mutate.py                     all of them
    tools/mutate.py --only linearity    those whose `file:line: text` matches a regular expression
    tools/mutate.py --sample 300        so many of them, the same ones each time
"""

import argparse
import ast
import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("passes", "pyext", "test", "tools", "docs", "pyproject.toml")
UNIT = ROOT / "test" / "unit"
# Those of one file under passes/, and of several.
UNIT_TESTS = sorted(
    test
    for path in [*(ROOT / "passes").rglob("*.py"), ROOT / "passes" / "ir" / "ir_facts.py"]
    if (test := UNIT / path.relative_to(ROOT).with_name(f"test_{path.name}")).is_file()
)
# Quickest first. `python` is the copy's own, see Copy; the script `lit` would name the installed one.
CHECKS = (
    "python -c 'import lit.main; lit.main.main()' -j1 --max-failures=1 test/passes",
    "python -m pytest -x test/numeric/test_corpus.py",
    "python -m pytest -x " + " ".join(str(test.relative_to(ROOT)) for test in UNIT_TESTS),
)
FAILED = re.compile(r"^(?:FAIL|TIMEOUT|UNRESOLVED): (?:\S+ :: )?(?P<lit>\S+)|^(?:FAILED|ERROR) (?P<pytest>\S+)", re.M)
# A mutant may run for ever, or fill the memory: a check gets this long, and each of its processes this much.
SECONDS = 600
GIBIBYTES = 8  # of address space
LIMITED = f'ulimit -t {SECONDS}; ulimit -v {GIBIBYTES << 20}; exec "$@"'


class Condition(NamedTuple):
    """One call of `require`."""

    path: str  # from the root
    line: int
    start: int  # where the call is in the file, in bytes
    end: int
    text: str  # on one line

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def conditions(root: Path) -> list[Condition]:
    """The conditions under `root`/passes, in order."""
    return [c for path in sorted((root / "passes").rglob("*.py")) for c in _conditions(root, path)]


def _conditions(root: Path, path: Path) -> Iterator[Condition]:
    source = path.read_bytes()
    starts = [0]  # of each line; positions of `ast` are in bytes
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(call.func, ast.Name) and call.func.id == "require":
            assert call.end_lineno is not None and call.end_col_offset is not None
            start = starts[call.lineno - 1] + call.col_offset
            end = starts[call.end_lineno - 1] + call.end_col_offset
            text = " ".join(source[start:end].decode().split())
            yield Condition(str(path.relative_to(root)), call.lineno, start, end, text)


def without(source: bytes, condition: Condition) -> bytes:
    """The file without the condition; it stays valid wherever a call may stand."""
    return source[: condition.start] + b"None" + source[condition.end :]


class Copy:
    """A copy of the tree whose `python` and `par-opt` use the copy's packages, not the installed ones."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            _copy(root / name, folder / name)
        packages, scripts = folder / "site", folder / "venv" / "bin"
        (packages / "paropt").mkdir(parents=True)
        for source in (folder / "pyext").glob("*"):
            (packages / "paropt" / source.name).symlink_to(source)
        (packages / "paropt" / "passes").symlink_to(folder / "passes")
        scripts.mkdir(parents=True)
        installed = Path(sys.executable).parent
        for script in installed.iterdir():
            if script.name != "par-opt":
                (scripts / script.name).symlink_to(script)
        # Beside bin/, these make it a virtual environment with the installed packages.
        for name in ("pyvenv.cfg", "lib", "lib64"):
            if (installed.parent / name).exists():
                (folder / "venv" / name).symlink_to(installed.parent / name)
        command = scripts / "par-opt"
        command.write_text(
            f"#!{scripts / 'python'}\nimport sys\nsys.path.insert(0, {str(packages)!r})\n"
            "from paropt.cli import main\nsys.exit(main())\n"
        )
        command.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(packages),
            # What was executed before is not executed again: a wrong module has another text.
            "PAROPT_TEST_STORE": os.environ.get("PAROPT_TEST_STORE", str(root / ".test-store")),
            "PYTHONDONTWRITEBYTECODE": "1",  # a mutant may have the size and the second of the file it replaces
        }

    def killer(self, checks: Sequence[str]) -> str:
        """The first test that fails in this copy; "" when all pass."""
        for check in checks:
            program, *arguments = shlex.split(check)
            status, output = self._run([str(self.folder / "venv" / "bin" / program), *arguments])
            if status is None:
                return f"no answer in {SECONDS} s: {check}"
            if status:
                failed = FAILED.search(output)
                return (failed["lit"] or failed["pytest"]) if failed else f"exit status {status}: {check}"
        return ""

    def _run(self, command: list[str]) -> tuple[int | None, str]:
        """The exit status (None: it took too long) and the output of `command`; nothing that it started runs on."""
        process = subprocess.Popen(
            ["sh", "-c", LIMITED, "sh", *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=SECONDS)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            # A test that was given up leaves its processes behind, in the session that was made for the check.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def killer_of(self, condition: Condition, checks: Sequence[str]) -> str:
        """The first test that fails without `condition`; "" when none does."""
        source = (self.folder / condition.path).read_bytes()
        return self.killer_with(condition.path, without(source, condition), checks)

    def killer_with(self, path: str, source: bytes, checks: Sequence[str]) -> str:
        """The first test that fails while the file at `path` reads `source`; "" when none does."""
        file = self.folder / path
        original = file.read_bytes()
        file.write_bytes(source)
        try:
            return self.killer(checks)
        finally:
            file.write_bytes(original)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "Output", ".*"))
    elif source.exists():
        shutil.copy(source, target)


def survey(root: Path, wanted: Sequence[Condition], checks: Sequence[str], jobs: int) -> list[Condition]:
    """Prints what becomes of each condition, and returns the survivors.

    Raises ValueError when the checks fail without any deletion, or do not test the copy: then nothing can be learnt.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Copy] = Queue()
        for job in range(jobs):
            copies.put(Copy(root, Path(folder) / str(job)))
        _require_usable(copies.queue[0], wanted[0].path, checks)

        def killer_of(condition: Condition) -> str:
            copy = copies.get()
            try:
                return copy.killer_of(condition, checks)
            finally:
                copies.put(copy)

        survivors = []
        for number, (condition, killer) in enumerate(zip(wanted, pool.map(killer_of, wanted), strict=True), 1):
            verdict = f"killed by {killer}" if killer else "SURVIVED"
            print(f"[{number}/{len(wanted)}] {verdict}: {condition}", flush=True)
            if not killer:
                survivors.append(condition)
        return survivors


def _require_usable(copy: Copy, path: str, checks: Sequence[str]) -> None:
    broken = copy.killer(checks)
    if broken:
        raise ValueError(f"the tests fail before anything is deleted: {broken}")
    for check in checks:
        if not copy.killer_with(path, b"raise SystemExit(1)", [check]):
            raise ValueError(f"this does not notice that {path} is broken: {check}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PATTERN", help="a regular expression on `file:line: text`")
    parser.add_argument("--sample", type=int, metavar="N", help="at most so many conditions, spread over all of them")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many copies of the tree to test at once")
    options = parser.parse_args(arguments)
    try:
        pattern = re.compile(options.only)
    except re.error as error:
        parser.error(f"--only {options.only}: {error}")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    wanted = [condition for condition in conditions(ROOT) if pattern.search(str(condition))]
    if options.sample is not None and options.sample < 1:
        parser.error("--sample must be at least 1")
    if options.sample is not None and options.sample < len(wanted):
        wanted = sorted(random.Random(0).sample(wanted, options.sample))
    if not wanted:
        parser.error(f"no condition matches {options.only}")
    try:
        survivors = survey(ROOT, wanted, CHECKS, options.jobs)
    except ValueError as error:
        print(f"mutate.py: error: {error}", file=sys.stderr)
        return 2
    for survivor in survivors:
        print(f"SURVIVED {survivor}")
    print(f"{len(wanted)} conditions, {len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
