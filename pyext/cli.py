"""par-opt: run passes over StableHLO modules, with the conventions of mlir-opt.

This process only reads the command line and the input. All that needs MLIR runs in a forked child (`paropt.driver`),
so that an abort in native code ends in one line and exit status 1 instead of a lost process.
"""

import argparse
import difflib
import os
import re
import sys
from pathlib import Path
from typing import NoReturn

from paropt.crashes import Progress, run_apart, signal_name

SPLIT_MARKER = "// -----"

# LLVM's options with an optional value: it must follow `=`, and a bare option means this.
_BARE = {"--split-input-file": SPLIT_MARKER, "--verify-each": "true", "--audit": "text"}

_AUDIT_FORMS = ("text", "json", "html", "png")

_EPILOG = """\
Pass options stand in braces, separated by spaces: --passes='fuse-all-reduces{convert=any},cse'. MLIR's own passes may
stand in a pipeline too; those that run on functions are written func.func(...). Options may be written with one dash
or two, and values after `=` or as the next argument. Exit status: 0, or 1 for any failure; then nothing is written to
the output, and a file that -o names keeps its contents. A condition of --fail-if that holds, and a broken
contract, give 1 too, with all outputs written."""


class UsageError(Exception):
    """The command line is wrong; the message says how."""


def main(argv: list[str] | None = None) -> int:
    """Runs par-opt with the arguments `argv` (default: the process's own); returns the exit status, 0 or 1."""
    try:
        options = parse_arguments(sys.argv[1:] if argv is None else argv)
        data = b"" if options.lists else _read(options.input)
        _require_writable(options)
    except UsageError as error:
        print(f"par-opt: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    progress = Progress()

    def work() -> int:
        from paropt import driver  # here, in the child: loading MLIR takes 0.15 s and is what may crash

        return driver.run(options, data, progress)

    status = run_apart(work)
    for partial in filter(None, (options.partial_output, options.partial_audit, options.partial_certificate)):
        partial.unlink(missing_ok=True)
    return status if status >= 0 else _died(-status, options, data, progress)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """The options; raises UsageError. `--help` prints and exits."""
    parser = _parser()
    options, unknown = parser.parse_known_args(_normalized(argv))
    if unknown:
        raise UsageError(_unknown(unknown[0], parser))
    if options.passes is not None and options.run_reproducer:
        raise UsageError("--run-reproducer takes the pipeline from its file: leave --passes out")
    if options.mlir_generate_reproducer and options.split_input_file:
        raise UsageError("--mlir-generate-reproducer holds one module: leave --split-input-file out")
    if options.certificate and options.split_input_file:
        raise UsageError("--certificate is for one module: leave --split-input-file out")
    if options.check and options.split_input_file:
        raise UsageError("--check is for one module: leave --split-input-file out")
    _check_audit(options)
    options.lists = options.list_passes or options.show_dialects or options.version
    options.name = "-" if options.input == "-" else options.input
    options.output = None if options.output == "-" else Path(options.output)
    options.partial_output = _partial(options.output, "partial")
    options.partial_audit = _partial(options.audit_output, "audit.partial")
    options.partial_certificate = _partial(options.certificate, "certificate.partial")
    return options


def _partial(path: Path | None, suffix: str) -> Path | None:
    """Where to write what will be moved to `path` when it is complete; named here, to be removed after a crash."""
    if not path or _is_special(path):
        return None
    return path.resolve().with_name(f".par-opt-{os.getpid()}.{suffix}")


def _check_audit(options: argparse.Namespace) -> None:
    given = {
        "--target": options.target,
        "--fail-if": options.fail_if,
        "--audit-baseline": options.audit_baseline,
        "--audit-output": options.audit_output,
    }
    alone = [name for name, value in given.items() if value]
    if alone and not options.audit:
        raise UsageError(f"{alone[0]} says how to audit: give --audit, too")
    if options.audit and options.split_input_file:
        raise UsageError("--audit is for one module: leave --split-input-file out")
    if options.audit == "png" and not options.audit_output and sys.stdout.isatty():
        raise UsageError("--audit=png would write binary data to the terminal: name a file with --audit-output")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See 'par-opt --help'")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="par-opt",
        usage="par-opt [options] [FILE]",
        description="Runs passes over a StableHLO module, with the conventions of mlir-opt.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_input_and_output(parser.add_argument_group("input and output"))
    _add_pipeline(parser.add_argument_group("passes"))
    _add_audit(parser.add_argument_group("audit of what XLA makes of the module"))
    _add_diagnostics(parser.add_argument_group("remarks and diagnostics"))
    _add_printing(parser.add_argument_group("form of the output, and of the IR dumps"))
    _add_dumps(parser.add_argument_group("IR dumps and timing, to stderr"))
    _add_reproducers(parser.add_argument_group("when something fails"))
    return parser


def _add_input_and_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument("input", nargs="?", default="-", metavar="FILE", help="MLIR text or bytecode (default: stdin)")
    group.add_argument("-o", default="-", dest="output", metavar="FILE", help="write here, on success only")
    group.add_argument(
        "--split-input-file",
        metavar="[=MARKER]",
        help=f"each part between lines MARKER (default: `{SPLIT_MARKER}`) is a module of its own",
    )
    group.add_argument("--emit-bytecode", action="store_true", help="write MLIR bytecode")
    group.add_argument(
        "--allow-unregistered-dialect", action="store_true", help="read operations of dialects that are not known"
    )


def _add_pipeline(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-p",
        "--passes",
        "--pass-pipeline",
        dest="passes",
        metavar="PIPELINE",
        action=_Once,
        help="passes and named pipelines to run, `a{o=v o2=w},b` or `builtin.module(a,b)` (default: none)",
    )
    group.add_argument(
        "--load-pass-plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="import a Python module that registers passes, found on PYTHONPATH or in the current directory",
    )
    group.add_argument("--list-passes", action="store_true", help="list passes, their options and named pipelines")
    group.add_argument("--dump-pass-pipeline", action="store_true", help="print the pipeline to stderr before it runs")
    group.add_argument(
        "--verify-each",
        type=_flag,
        default=True,
        metavar="[=0|1]",
        help="verify the module after each pass (default: 1)",
    )
    group.add_argument(
        "--verify-contract",
        action="store_true",
        help="after the passes, check that state, gradients and what replaces them are sharded alike, as Shardy would "
        "shard them; each break is one line, and the exit status 1",
    )
    group.add_argument("--show-dialects", action="store_true", help="list the dialects that can be read")
    group.add_argument("--version", action="store_true", help="print the versions of paropt and jaxlib")


def _add_audit(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--audit",
        choices=_AUDIT_FORMS,
        metavar="[=FORM]",
        help="compile the module as it is and after the passes, and report what both communicate, as text, json, html "
        "or png (default: text); the module itself is written only where -o says",
    )
    group.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="TARGET",
        help="what to compile for, as in cpu:8, tpu:v5e:2x4 or gpu:h100:1x1x8; may be repeated (default: as many CPU "
        "devices as the module has partitions)",
    )
    group.add_argument("--audit-output", type=Path, metavar="FILE", help="write the report here (default: stdout)")
    group.add_argument(
        "--fail-if",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with status 1 if it holds after the passes, as in 'sync_in_loop > 0', 'peak_memory > 2GiB' or "
        "'added.collectives > 0'; docs/audit.md lists the names; may be repeated",
    )
    group.add_argument(
        "--audit-baseline", type=Path, metavar="FILE", help="compare with an earlier report of --audit=json"
    )


def _add_diagnostics(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--remarks", action="store_true", help="print what each pass did, and why not, to stderr in program order"
    )
    group.add_argument(
        "--remarks-filter", type=_regex, metavar="REGEX", help="only of passes whose name matches; implies --remarks"
    )
    group.add_argument(
        "--check",
        action="store_true",
        help="run the module as it is and after the passes on simulated devices, with made-up data, and say "
        "on stderr what was compared; exit with status 1 if results differ; docs/check.md",
    )
    group.add_argument(
        "--certificate",
        type=Path,
        metavar="FILE",
        help="write as JSON, for each reduction that moved, from where to where, and the laws and facts that allow it; "
        "docs/certificate.md",
    )
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="check errors, warnings and remarks against comments `// expected-error @+1 {{text}}` in the input; "
        "remarks take part with --remarks, and in modules with an `expected-remark`",
    )


def _add_printing(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--mlir-print-debuginfo", action="store_true", help="print locations")
    group.add_argument("--mlir-print-op-generic", action="store_true", help="print the generic form of operations")
    group.add_argument(
        "--mlir-print-local-scope", action="store_true", help="print locations and attributes in place, not as aliases"
    )
    group.add_argument(
        "--mlir-elide-elementsattrs-if-larger", type=int, metavar="N", help="leave out constants above N elements"
    )


def _add_dumps(group: argparse._ArgumentGroup) -> None:
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}", type=_names, default=frozenset(), metavar="PASS,...", help=f"{when} these passes"
        )
        group.add_argument(f"--mlir-print-ir-{when}-all", action="store_true", help=f"{when} each pass")
    group.add_argument(
        "--mlir-print-ir-after-change", action="store_true", help="after each pass that changed something"
    )
    group.add_argument("--mlir-print-ir-after-failure", action="store_true", help="after a pass that failed")
    group.add_argument(
        "--mlir-print-ir-module-scope", action="store_true", help="the whole module, also for a pass on functions"
    )
    group.add_argument("--mlir-timing", action="store_true", help="print the time that each pass took")
    group.add_argument(
        "--mlir-disable-threading", action="store_true", help="accepted for scripts of mlir-opt: there are no threads"
    )


def _add_reproducers(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--mlir-pass-pipeline-crash-reproducer",
        dest="crash_reproducer",
        metavar="FILE",
        help="write the module and the pipeline here when a pass fails (default: a temporary file after a crash)",
    )
    group.add_argument("--mlir-generate-reproducer", metavar="FILE", help="write them here in any case")
    group.add_argument("--run-reproducer", action="store_true", help="run the pipeline that the input file holds")
    group.add_argument("--debug", action="store_true", help="show all of MLIR's diagnostics with notes, and tracebacks")


class _Once(argparse.Action):
    """Stores a value that several spellings share: two pipelines would have no order."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, spelling: object = None
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            raise UsageError(f"{spelling}: the pipeline is given twice; write one, with commas between its passes")
        setattr(namespace, self.dest, values)


def _normalized(argv: list[str]) -> list[str]:
    """`argv` as argparse wants it: long options with two dashes, values of optional values joined by `=`."""
    long = [re.sub(r"^-(?=[A-Za-z][\w-])", "--", argument) for argument in argv]
    return [f"{argument}={_BARE[argument]}" if argument in _BARE else argument for argument in long]


def _unknown(argument: str, parser: argparse.ArgumentParser) -> str:
    if not argument.startswith("-"):
        return f"more than one input file: '{argument}'. See 'par-opt --help'"
    known = [spelling for action in parser._actions for spelling in action.option_strings]
    option = argument.partition("=")[0]
    near = difflib.get_close_matches(option, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return f"unknown option '{option}'{hint} See 'par-opt --help'"


def _flag(text: str) -> bool:
    values = {"0": False, "false": False, "1": True, "true": True}
    if text not in values:
        raise argparse.ArgumentTypeError(f"'{text}' is neither 0 nor 1")
    return values[text]


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(","))


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise UsageError(f"cannot read '{name}': {_reason(error)}") from error


def _require_writable(options: argparse.Namespace) -> None:
    """Raises UsageError for an output that could not be written, before any work is done."""
    reproducers = (options.crash_reproducer, options.mlir_generate_reproducer)
    written = (options.output, options.audit_output, options.certificate, *reproducers)
    for path in written:
        if path and Path(path).is_dir():
            raise UsageError(f"cannot write '{path}': it is a directory")
        if path and not Path(path).parent.is_dir():
            raise UsageError(f"cannot write '{path}': no directory '{Path(path).parent}'")
    if options.emit_bytecode and not options.output and not options.lists and sys.stdout.isatty():
        raise UsageError("--emit-bytecode would write binary data to the terminal: name a file with -o")


def _is_special(path: Path) -> bool:
    """True for a device or a pipe, such as /dev/null, which must be written to and not replaced."""
    return path.exists() and not path.is_file()


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _died(number: int, options: argparse.Namespace, data: bytes, progress: Progress) -> int:
    """Says what a signal ended, and writes a reproducer if that was a pass; returns the exit status."""
    name = signal_name(number)
    if name in ("SIGINT", "SIGPIPE", "SIGTERM", "SIGHUP"):
        return 128 + number  # somebody wanted it to end: as a shell would report it
    cause = "was killed" if name == "SIGKILL" else "crashed"
    activity, chunk = progress.activity, progress.chunk
    print(f"par-opt: error: {options.name}: MLIR {cause} ({name}) while {activity}", file=sys.stderr)
    if not activity.startswith("running"):
        return 1

    def reproduce() -> int:
        from paropt import driver

        return driver.write_crash_reproducer(options, data, chunk)

    run_apart(reproduce)
    return 1


if __name__ == "__main__":
    sys.exit(main())
