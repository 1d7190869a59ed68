"""Deletes each `require(...)` under passes/ in turn and reports the ones that no test notices.

First all text tests, the numeric corpus and the unit tests of what stands under passes/ run once, in a copy of the tree
whose `require` writes down where it declines. Then each deletion is made in a copy, where those tests run in which the
condition was false, until one fails: all others run as before. A condition that survives is untested, or needless.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple, TypeVar

ROOT = Path(__file__).parents[1]
COPIED = ("passes", "pyext", "test", "tools", "docs", "pyproject.toml")
UNIT = ROOT / "test" / "unit"
# Those of one file under passes/, and of several.
UNIT_TESTS = sorted(
    test
    for path in [*(ROOT / "passes").rglob("*.py"), ROOT / "passes" / "ir" / "ir_facts.py"]
    if (test := UNIT / path.relative_to(ROOT).with_name(f"test_{path.name}")).is_file()
)


class Check(NamedTuple):
    """A command, and the files or folders of tests that it runs. `python` is the copy's own, see Copy."""

    command: str
    tests: tuple[str, ...]

    def with_tests(self, tests: Iterable[str]) -> str:
        return shlex.join([*shlex.split(self.command), *tests])

    @property
    def whole(self) -> str:
        return self.with_tests(self.tests)

    def among(self, tests: Iterable[str]) -> list[str]:
        """Those of `tests` that this check runs."""
        return [test for test in tests if test.startswith(self.tests)]


# Quickest first. The script `lit` would name the installed python.
CHECKS = (
    Check("python -c 'import lit.main; lit.main.main()' -j1 --max-failures=1", ("test/passes",)),
    Check("python -m pytest -x", ("test/numeric/test_corpus.py",)),
    Check("python -m pytest -x", tuple(str(test.relative_to(ROOT)) for test in UNIT_TESTS)),
)
# Stands at the end of the file of `require`: where it declines, and in which test.
RECORDER = """
def require(holds, *reasons, _require=require, _written=set(), **op):
    if not holds:
        import os, pathlib, sys
        root = pathlib.Path(__file__).resolve().parent
        while not (root / "passes").is_dir():
            root = root.parent
        caller = sys._getframe(1)
        # Processes that a test starts inherit the name; outside of tests it is all that the process was started for.
        named = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
        tests = [named] if named else [a for a in sys.argv if a.removeprefix(f"{root}/").startswith("test/")]
        file = pathlib.Path(caller.f_code.co_filename).resolve()
        for test in tests:
            line = f"{file.relative_to(root)}:{caller.f_lineno}\\t{test.removeprefix(f'{root}/')}\\n"
            if line not in _written:
                _written.add(line)
                with open(os.environ["PAROPT_DECLINED"], "a", encoding="utf-8") as declined:
                    declined.write(line)
    _require(holds, *reasons, **op)
"""
Declined = dict[str, list[str]]  # of `file:line`, the tests in which that condition was false
T = TypeVar("T")
DEFINITION = re.compile(r"^def require\(", re.M)
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
        return f"{self.place}: {self.text}"

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


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
        self.environment.pop("PYTEST_CURRENT_TEST", None)  # of a test of this script

    def declined(self, check: Check) -> Declined:
        """Where `require` declines in the tests of `check`, all of which have to pass."""
        (file,) = (path for path in self.folder.glob("passes/**/*.py") if DEFINITION.search(path.read_text()))
        places = self.folder / "declined"
        places.touch()
        self.environment["PAROPT_DECLINED"] = str(places)
        path = str(file.relative_to(self.folder))
        if broken := self.killer_with(path, file.read_bytes() + RECORDER.encode(), [check.whole]):
            raise ValueError(f"the tests fail before anything is deleted: {broken}")
        found: Declined = {}
        for line in dict.fromkeys(places.read_text().splitlines()):
            place, _, test = line.partition("\t")
            found.setdefault(place, []).append(test)
        places.unlink()
        return found

    def killer(self, commands: Iterable[str]) -> str:
        """The first test that fails in this copy; "" when all pass."""
        for command in commands:
            program, *arguments = shlex.split(command)
            status, output = self._run([str(self.folder / "venv" / "bin" / program), *arguments])
            if status is None:
                return f"no answer in {SECONDS} s: {command}"
            if status:
                failed = FAILED.search(output)
                return (failed["lit"] or failed["pytest"]) if failed else f"exit status {status}: {command}"
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

    def killer_of(self, condition: Condition, commands: Iterable[str]) -> str:
        """The first test that fails without `condition`; "" when none does."""
        source = (self.folder / condition.path).read_bytes()
        return self.killer_with(condition.path, without(source, condition), commands)

    def killer_with(self, path: str, source: bytes, commands: Iterable[str]) -> str:
        """The first test that fails while the file at `path` reads `source`; "" when none does."""
        file = self.folder / path
        original = file.read_bytes()
        file.write_bytes(source)
        try:
            return self.killer(commands)
        finally:
            file.write_bytes(original)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "Output", ".*"))
    elif source.exists():
        shutil.copy(source, target)


def survey(root: Path, wanted: Sequence[Condition], checks: Sequence[Check], jobs: int) -> list[Condition]:
    """Prints what becomes of each condition, and returns the survivors.

    Raises ValueError when the checks fail without any deletion, or do not test the copy: then nothing can be learnt.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Copy] = Queue()
        for job in range(jobs):
            copies.put(Copy(root, Path(folder) / str(job)))

        def in_a_copy(ask: Callable[[Copy], T]) -> T:
            copy = copies.get()
            try:
                return ask(copy)
            finally:
                copies.put(copy)

        def killer_of(condition: Condition) -> str:
            return in_a_copy(lambda copy: copy.killer_of(condition, _commands(checks, tests.get(condition.place, []))))

        print("Which tests reach which condition ...", file=sys.stderr, flush=True)
        tests: Declined = {}
        for declined in pool.map(lambda check: in_a_copy(lambda copy: _usable(copy, wanted[0].path, check)), checks):
            for place, names in declined.items():
                tests.setdefault(place, []).extend(names)
        survivors = []
        for number, (condition, killer) in enumerate(zip(wanted, pool.map(killer_of, wanted), strict=True), 1):
            count = len(tests.get(condition.place, []))
            verdict = f"killed by {killer}" if killer else f"SURVIVED {count} tests"
            print(f"[{number}/{len(wanted)}] {verdict}: {condition}", flush=True)
            if not killer:
                survivors.append(condition)
        return survivors


def _commands(checks: Sequence[Check], tests: Sequence[str]) -> list[str]:
    """What runs `tests` only."""
    return [check.with_tests(chosen) for check in checks if (chosen := check.among(tests))]


def _usable(copy: Copy, path: str, check: Check) -> Declined:
    """Where conditions decline in the check, which notices when the file at `path` is broken."""
    declined = copy.declined(check)
    if not copy.killer_with(path, b"raise SystemExit(1)", [check.whole]):
        raise ValueError(f"this does not notice that {path} is broken: {check.whole}")
    return declined


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
