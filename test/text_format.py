"""lit tests of passes without a process for each command: `%par-opt %s ... | FileCheck %s ...`, run in forks.

A fork of a process that has loaded par-opt starts in milliseconds instead of half a second. The commands of a file that
differ in `--remarks` alone are one run, whose output and remarks are checked apart. A file with any other command is
run by lit's own shell.
"""

import contextlib
import functools
import io
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import lit.formats
import lit.Test
from lit.LitConfig import LitConfig

_RUN = re.compile(r"RUN:(.*)")
_COMMAND = re.compile(
    r"(?P<fails>not )?%par-opt %s(?P<options>[^|<>&]*?)(?P<streams> 2>&1(?: >/dev/null)?)? \| FileCheck %s(?P<checks>[^|<>&]*)"
)
_OTHER_DIRECTIVES = re.compile(r"^\W*(?:XFAIL|REQUIRES|UNSUPPORTED|DEFINE|REDEFINE|ALLOW_RETRIES):", re.M)
_REMARKS = "--remarks"
_PLUGIN = "--load-pass-plugin"  # its folder is on the PYTHONPATH that lit sets
_SECONDS = 300  # of a processor: the slowest takes 5


@dataclass(frozen=True)
class Command:
    """One RUN line."""

    line: str
    fails: bool
    options: tuple[str, ...]
    reads: str  # what FileCheck sees: "output", "errors", or "both"
    checks: tuple[str, ...]  # FileCheck's options

    @property
    def without_remarks(self) -> tuple[str, ...]:
        return tuple(option for option in self.options if option != _REMARKS)


@dataclass(frozen=True)
class Ran:
    """What a run of par-opt left."""

    status: int
    output: bytes  # with what it wrote to its error stream, where both were one
    errors: bytes


def commands_of(path: Path) -> list[Command] | None:
    """The file's RUN lines; None where one needs a shell."""
    text = path.read_text()
    lines = [found[1].strip() for found in _RUN.finditer(text)]
    matched = [_COMMAND.fullmatch(line) for line in lines]
    if not lines or not all(matched) or _PLUGIN in text or _OTHER_DIRECTIVES.search(text):
        return None
    return [_command(found, path) for found in matched if found]


def _command(found: re.Match[str], path: Path) -> Command:
    reads = {None: "output", " 2>&1": "both", " 2>&1 >/dev/null": "errors"}[found["streams"]]
    options = found["options"].replace("%S", str(path.parent))
    return Command(
        found[0], bool(found["fails"]), tuple(shlex.split(options)), reads, tuple(shlex.split(found["checks"]))
    )


class TextTest(lit.formats.ShTest):
    """Runs what it can in forks of lit's worker, and all else as lit's ShTest."""

    def __init__(self, llvm_filecheck: str | None) -> None:
        super().__init__()
        self._llvm = llvm_filecheck

    def execute(self, test: lit.Test.Test, config: LitConfig) -> lit.Test.Result | tuple[lit.Test.ResultCode, str]:
        path = Path(test.getSourcePath())
        commands = commands_of(path)
        if commands is None or config.noExecute:
            return super().execute(test, config)
        failures = failures_of(path, commands, self._llvm)
        return (lit.Test.FAIL, "\n".join(failures)) if failures else (lit.Test.PASS, "")


def failures_of(path: Path, commands: list[Command], llvm: str | None) -> list[str]:
    """What each command that fails says."""
    ran = functools.cache(run_par_opt)
    with_remarks = {c.without_remarks for c in commands if _REMARKS in c.options}
    failures = []
    for command in commands:
        # Remarks leave the output as it is: one run serves both, where there is one with remarks.
        needs_remarks = command.reads == "output" and command.without_remarks in with_remarks
        remarks = (_REMARKS,) if needs_remarks or _REMARKS in command.options else ()
        found = ran((str(path), *command.without_remarks, *remarks), command.reads == "both")
        said = _failure(path, command, found, llvm)
        if said:
            failures.append(f"RUN: {command.line}\n{said}")
    return failures


def _failure(path: Path, command: Command, ran: Ran, llvm: str | None) -> str:
    if command.fails != (ran.status == 1) or ran.status not in (0, 1):
        return f"par-opt ended with status {ran.status}\n{ran.errors.decode(errors='replace')}"
    with tempfile.NamedTemporaryFile(prefix="paropt-text-") as file:
        file.write(ran.errors if command.reads == "errors" else ran.output)
        file.flush()
        options = [str(path), f"--input-file={file.name}", "--enable-var-scope", *command.checks]
        said = _pypi_filecheck([*options, "--reject-empty-vars"])
        if said or not llvm:
            return said
        checked = subprocess.run([llvm, *options], capture_output=True, text=True, check=False)
        return checked.stderr if checked.returncode else ""


def _pypi_filecheck(arguments: list[str]) -> str:
    """What PyPI's filecheck says; nothing when all is found."""
    from filecheck.main import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(["filecheck", *arguments])
        except SystemExit as ended:
            return (said.getvalue() or "filecheck fails") if ended.code else ""
    return ""


def run_par_opt(arguments: tuple[str, ...], one_stream: bool) -> Ran:
    """par-opt with these arguments, in a fork of this process, which loads it first.

    With `one_stream`, output and errors are one stream, as `2>&1` makes them.
    """
    import paropt.command.driver
    import paropt.passes  # noqa: F401  every pass

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            _be_par_opt(arguments, output.fileno(), (output if one_stream else errors).fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        errors.seek(0)
        return Ran(status, output.read(), errors.read())


def _be_par_opt(arguments: tuple[str, ...], output: int, errors: int) -> NoReturn:
    status = 1
    try:
        os.dup2(output, 1)
        os.dup2(errors, 2)
        sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
        sys.argv = ["par-opt", *arguments]  # tools/mutate.py reads there which test this is
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
        from paropt.cli import main

        status = main(list(arguments))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
