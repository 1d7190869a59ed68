"""The manifest of an outlined step: arguments and results of its functions, for callers.

Tests: test/passes/outline-accumulation.mlir, test/numeric/test_accumulate.py.
"""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.loops import Counting
from paropt.passes.ir.signature import entries

MANIFEST = "paropt.manifest"


class Stage(NamedTuple):
    """A function: its name, and the names of the values that it takes and returns."""

    symbol: str
    arguments: list[str]
    results: list[str]


class Manifest(NamedTuple):
    """The functions of one step.

    A value is called `argument0` or `result0` for an argument or a result of the step, `trip` for the number that the
    loop counts, `kept0` for a value that `start_grad` hands to the others, `micro_batch0` for a part of a batch,
    `carried0` for one that a trip hands to the next one, and `synced0` for a reduced one.
    """

    stages: dict[str, Stage]  # by their names: `accumulate_grad`
    counting: Counting
    shardings: dict[str, ir.Attribute]  # of the values that say how they are split
    paths: dict[str, str]  # JAX's names of the arguments and results of the step
    rows: dict[str, str]  # of each part of a batch, its array
    states: list[tuple[int, int]]  # an argument of the step, and the result that it comes back as

    def aliases(self, stage: str) -> list[tuple[int, int]]:
        """Which argument of a function each result may overwrite: the new value of the same thing."""
        _, arguments, results = self.stages[stage]
        renamed = {f"argument{old}": f"result{new}" for old, new in self.states}
        news = [renamed.get(name, name) for name in arguments]
        return [(i, results.index(name)) for i, name in enumerate(news) if name in results]


def written(manifest: Manifest) -> ir.Attribute:
    """The manifest as an attribute."""
    stages: dict[str, ir.Attribute] = {
        name: ir.DictAttr.get(
            {
                "symbol": ir.FlatSymbolRefAttr.get(stage.symbol),
                "arguments": _strings(stage.arguments),
                "results": _strings(stage.results),
                "aliases": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in manifest.aliases(name)]),
            }
        )
        for name, stage in manifest.stages.items()
    }
    return ir.DictAttr.get(
        {
            "functions": ir.DictAttr.get(stages),
            "trips": ir.DenseI64ArrayAttr.get(list(manifest.counting)),
            "shardings": ir.DictAttr.get(manifest.shardings),
            "paths": _named(manifest.paths),
            "rows": _named(manifest.rows),
            "states": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(pair) for pair in manifest.states]),
        }
    )


def read(function: ir.Operation) -> Manifest | None:
    """The manifest of an entry; None for one that was not outlined."""
    if MANIFEST not in function.attributes:
        return None
    found = entries(function.attributes[MANIFEST])
    return Manifest(
        {name: _stage(entries(stage)) for name, stage in entries(found["functions"]).items()},
        Counting(*ir.DenseI64ArrayAttr(found["trips"])),
        entries(found["shardings"]),
        _texts(found["paths"]),
        _texts(found["rows"]),
        [(old, new) for old, new in map(ir.DenseI64ArrayAttr, ir.ArrayAttr(found["states"]))],
    )


def _stage(found: dict[str, ir.Attribute]) -> Stage:
    names = ([ir.StringAttr(name).value for name in ir.ArrayAttr(found[key])] for key in ("arguments", "results"))
    return Stage(ir.FlatSymbolRefAttr(found["symbol"]).value, *names)


def _named(texts: dict[str, str]) -> ir.Attribute:
    return ir.DictAttr.get({name: ir.StringAttr.get(text) for name, text in texts.items()})


def _texts(attribute: ir.Attribute) -> dict[str, str]:
    return {name: ir.StringAttr(text).value for name, text in entries(attribute).items()}


def _strings(names: list[str]) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
