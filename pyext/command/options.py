"""The options of par-opt: how they are spelled, what they take, and their help."""

import argparse
import difflib
import re
import sys
from pathlib import Path
from typing import NoReturn

SPLIT_MARKER = "// -----"
SHELLS = ("bash", "zsh")

# LLVM's options with an optional value: it must follow `=`, and a bare option means this.
_BARE = {
    "--split-input-file": SPLIT_MARKER,
    "--verify-each": "true",
    "--audit": "text",
}

_AUDIT_FORMS = ("text", "json", "html", "png")

_EPILOG = """\
Example: par-opt step.mlir --passes='grad-sync{policy=defer}' --remarks -o out.mlir

Pass options stand in braces, separated by spaces: --passes='fuse-all-reduces{convert=any},cse'. MLIR's own passes may
stand in a pipeline too; those that run on functions are written func.func(...). Options may be written with one dash
or two, and values after `=` or as the next argument. Exit status: 0, or 1 for any failure; then nothing is written to
the output, and a file that -o names keeps its contents. A condition of --fail-if that holds, and a broken
contract, give 1 too, with all outputs written."""


class UsageError(Exception):
    """The command line is wrong; the message says how."""


class UnknownOptionError(UsageError):
    """There is no such option; it may be a pass, which is found out in a child: that loads MLIR."""

    def __init__(self, option: str, hint: str) -> None:
        super().__init__(f"unknown option '{option}'{hint} See 'par-opt --help'")
        self._option = option

    def explained(self) -> int:
        """Says so; returns the exit status."""
        from paropt.base.suggestions import is_pass

        name = self._option.lstrip("-")
        is_one = is_pass(name)
        said = f"unknown option '{self._option}': passes are named in the pipeline, --passes={name}" if is_one else self
        print(f"par-opt: error: {said}", file=sys.stderr)
        return 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See 'par-opt --help'")


def option_parser() -> argparse.ArgumentParser:
    """Reads arguments that went through `normalized`."""
    parser = _Parser(
        prog="par-opt",
        usage="par-opt [options] [FILE]",
        description="Runs passes over a StableHLO module, with the conventions of mlir-opt.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    parser.register("action", None, _Once)  # the groups take it over: of all options with a value, unless they say
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="show this help, and exit")
    _add_input_and_output(parser.add_argument_group("input and output"))
    _add_pipeline(parser.add_argument_group("passes"))
    _add_audit(parser.add_argument_group("audit of what XLA makes of the module"))
    _add_diagnostics(parser.add_argument_group("remarks and diagnostics"))
    _add_printing(parser.add_argument_group("form of the output, and of the IR dumps"))
    _add_dumps(parser.add_argument_group("IR dumps and timing, to stderr"))
    _add_reproducers(parser.add_argument_group("when something fails"))
    return parser


def declared() -> list[argparse.Action]:
    """The declared options."""
    return [action for action in option_parser()._actions if action.option_strings]


def _add_input_and_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "input", nargs="?", action="store", default="-", metavar="FILE", help="MLIR text or bytecode (default: stdin)"
    )
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
    group.add_argument(
        "--no-implicit-module", action="store_true", help="put no module around what is none: FILE holds one operation"
    )


def _add_pipeline(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-p",
        "--passes",
        "--pass-pipeline",
        dest="passes",
        metavar="PIPELINE",
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
    group.add_argument(
        "--completion",
        choices=SHELLS,
        metavar="SHELL",
        help="print a script that completes options and passes: source <(par-opt --completion=bash)",
    )


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
    group.add_argument(
        "--mlir-print-ir-tree-dir", metavar="DIR", help="write these dumps to files here, numbered, one for each"
    )
    group.add_argument("--mlir-timing", action="store_true", help="print the time that each pass took")
    group.add_argument(
        "--mlir-pass-statistics",
        action="store_true",
        help="print how many rewrites each of our passes did, and declined (jaxlib's MLIR is built without statistics)",
    )
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
    """Stores the value of an option that may be given once, under one of its spellings, as LLVM's options."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, spelling: object = None
    ) -> None:
        given = vars(namespace).setdefault("given", set())
        if self.dest in given:
            what = "the pipeline is given twice; write one, with commas between its passes"
            raise UsageError(f"{spelling}: {what if self.dest == 'passes' else 'it is given twice'}")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Help(argparse.Action):
    """Prints the help, with the named pipelines, which are known to paropt.passes alone."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, spelling: object = None
    ) -> NoReturn:
        from paropt.command.listing import pipelines

        parser.epilog = f"{pipelines()}\n\n{_EPILOG}"
        parser.print_help()
        parser.exit()


def normalized(argv: list[str]) -> list[str]:
    """`argv` as argparse wants it: long options with two dashes, values of optional values joined by `=`."""
    long = [re.sub(r"^-(?=[A-Za-z][\w-])", "--", argument) for argument in argv]
    return [f"{argument}={_BARE[argument]}" if argument in _BARE else argument for argument in long]


def unknown_argument(argument: str, parser: argparse.ArgumentParser) -> UsageError:
    """The complaint about an argument that the parser left over."""
    if not argument.startswith("-"):
        return UsageError(f"more than one input file: '{argument}'. See 'par-opt --help'")
    known = [spelling for action in parser._actions for spelling in action.option_strings]
    option = argument.partition("=")[0]
    near = difflib.get_close_matches(option, known, n=1)
    return UnknownOptionError(option, f"; did you mean '{near[0]}'?" if near else ".")


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
