"""The manifest of a step that is outlined as stages: arguments and results of its functions, for callers.

Tests: test/passes/outline-stages.mlir, test/numeric/test_outlined_stages.py.
"""

from typing import Literal, NamedTuple, get_args

from jaxlib.mlir import ir

from paropt.passes.ir.loops import Counting
from paropt.passes.ir.signature import entries

STAGES = "paropt.stages"

ProgramKind = Literal["init", "rows", "forward", "backward", "weights", "update"]
PROGRAM_KINDS: tuple[ProgramKind, ...] = get_args(ProgramKind)


class StageProgram(NamedTuple):
    """A function of one stage, and the names of the values that it takes and returns."""

    symbol: str
    kind: ProgramKind
    stage: int
    arguments: list[str]
    results: list[str]


class Piece(NamedTuple):
    """Rows `start` to `end` of an argument of the step."""

    argument: int
    start: int
    end: int


class StageManifest(NamedTuple):
    """The functions of one step, in the order in which one program calls them.

    A value is called `argument0` for an argument of the step, `piece0` for some of the rows of one, `trip` for the
    number that the loop counts, `kept0` for a value that `init` computes once, `row0` for a part of the batch, `value0`
    for a value that parts of a trip hand to each other, `carried0` for one that a trip hands to the next one, and
    `update0` for a result of updates. A name belongs to one value of one stage; `value` and `update` ones may be read
    by other stages, which is when they are sent.
    """

    programs: list[StageProgram]
    counting: Counting
    results: list[str]  # of the step: which value each is
    pieces: dict[str, Piece]  # pieces of arguments, by name
    joined: dict[str, list[str]]  # results that are in pieces: the value of each, in the order of their rows
    states: list[tuple[int, int]]  # an argument of the step, and the result that replaces it
    sums: list[str]  # the carried values that are sums: their terms may be added in any order
    shares: dict[str, str]  # the carried values that are only added to another one behind the loop, and to which
    gradients: dict[str, str]  # of the sums of gradients, the arguments that they are of, or pieces of these
    paths: dict[str, str]  # JAX's names of the arguments and results of the step

    @property
    def stages(self) -> int:
        return 1 + max(program.stage for program in self.programs)

    def pieces_of(self, argument: int) -> list[str]:
        """The pieces of an argument, in the order of their rows."""
        return sorted((name for name, each in self.pieces.items() if each.argument == argument), key=self._start)

    def _start(self, name: str) -> int:
        return self.pieces[name].start

    def stages_of(self, name: str) -> list[int]:
        """The stages whose functions read the value, or carry it."""
        return sorted({program.stage for program in self.programs if name in program.arguments})

    def maker_of(self, name: str) -> StageProgram | None:
        """The first function that returns the value; None for arguments of the step."""
        return next((program for program in self.programs if name in program.results), None)


def written(manifest: StageManifest) -> ir.Attribute:
    """The manifest as an attribute."""
    return ir.DictAttr.get(
        {
            "programs": ir.ArrayAttr.get([_written(program) for program in manifest.programs]),
            "trips": ir.DenseI64ArrayAttr.get(list(manifest.counting)),
            "results": _strings(manifest.results),
            "pieces": ir.DictAttr.get(
                {name: ir.DenseI64ArrayAttr.get(list(piece)) for name, piece in manifest.pieces.items()}
            ),
            "joined": ir.DictAttr.get({name: _strings(names) for name, names in manifest.joined.items()}),
            "states": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in manifest.states]),
            "sums": _strings(manifest.sums),
            "shares": _named(manifest.shares),
            "gradients": _named(manifest.gradients),
            "paths": _named(manifest.paths),
        }
    )


def read_stages(function: ir.Operation) -> StageManifest | None:
    """The manifest of an entry; None for one that was not outlined as stages."""
    if STAGES not in function.attributes:
        return None
    found = entries(function.attributes[STAGES])
    return StageManifest(
        [_program(entries(each)) for each in ir.ArrayAttr(found["programs"])],
        Counting(*ir.DenseI64ArrayAttr(found["trips"])),
        _texts(found["results"]),
        {name: Piece(*ir.DenseI64ArrayAttr(numbers)) for name, numbers in entries(found["pieces"]).items()},
        {name: _texts(names) for name, names in entries(found["joined"]).items()},
        [(old, new) for old, new in map(ir.DenseI64ArrayAttr, ir.ArrayAttr(found["states"]))],
        _texts(found["sums"]),
        _by_name(found["shares"]),
        _by_name(found["gradients"]),
        _by_name(found["paths"]),
    )


def _written(program: StageProgram) -> ir.Attribute:
    return ir.DictAttr.get(
        {
            "symbol": ir.FlatSymbolRefAttr.get(program.symbol),
            "kind": ir.StringAttr.get(program.kind),
            "stage": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), program.stage),
            "arguments": _strings(program.arguments),
            "results": _strings(program.results),
        }
    )


def _program(found: dict[str, ir.Attribute]) -> StageProgram:
    name = ir.StringAttr(found["kind"]).value
    return StageProgram(
        ir.FlatSymbolRefAttr(found["symbol"]).value,
        next(kind for kind in PROGRAM_KINDS if kind == name),
        ir.IntegerAttr(found["stage"]).value,
        _texts(found["arguments"]),
        _texts(found["results"]),
    )


def _named(texts: dict[str, str]) -> ir.Attribute:
    return ir.DictAttr.get({name: ir.StringAttr.get(text) for name, text in texts.items()})


def _by_name(attribute: ir.Attribute) -> dict[str, str]:
    return {name: ir.StringAttr(text).value for name, text in entries(attribute).items()}


def _strings(names: list[str]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])


def _texts(attribute: ir.Attribute) -> list[str]:
    return [ir.StringAttr(name).value for name in ir.ArrayAttr(attribute)]
