"""Reads the command line of par-opt into `Options`, with the spellings of LLVM's tools."""

import argparse
import dataclasses
import difflib
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn, get_args

from paropt.command.options import SPLIT_MARKER, Options, Row

# LLVM's options with an optional value: it must follow `=`, and a bare option means this.
_BARE = {
    "--split-input-file": SPLIT_MARKER,
    "--verify-each": "true",
    "--audit": "text",
    "--plan": "text",
    "--estimate": "",
}

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


def options_of(argv: list[str]) -> Options:
    """The command line `argv`, read; raises UsageError. `--help` prints and exits."""
    parser = option_parser()
    given, unknown = parser.parse_known_args(normalized(argv))
    if unknown:
        raise unknown_argument(unknown[0], parser)
    values: dict[str, Any] = {name: getattr(given, name) for name, _, _ in _rows()}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Options(**(values | lists))


def _rows() -> Iterator[tuple[str, Any, Row]]:
    """Of each option, its field in `Options`, the default, and its row."""
    for field in dataclasses.fields(Options):
        rows = [note for note in get_args(field.type) if isinstance(note, Row)]
        yield from ((field.name, field.default, row) for row in rows)


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
    groups: dict[str, argparse._ArgumentGroup] = {}
    for name, default, row in _rows():
        if row.group not in groups:
            groups[row.group] = parser.add_argument_group(row.group)
        told = row.told | {"default": list(default) if isinstance(default, tuple) else default}
        if row.spellings:
            groups[row.group].add_argument(*row.spellings, dest=name, **told)
        else:
            groups[row.group].add_argument(name, **told)
    return parser


def declared() -> list[argparse.Action]:
    """The declared options."""
    return [action for action in option_parser()._actions if action.option_strings]


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
