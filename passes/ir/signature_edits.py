"""Edits of the attributes of arguments and results.

Tests: test/passes/annotate-aliases.mlir, test/passes/annotate-contract.mlir.
"""

from collections.abc import Mapping

from jaxlib.mlir import ir

from paropt.passes.ir.signature import entries

Notes = Mapping[str, ir.Attribute | None]  # by name; None takes the attribute away


def note_arguments(function: ir.Operation, notes: Mapping[int, Notes]) -> None:
    """Gives arguments, by number, attributes in place of those of the same names. All at once: they are one array."""
    _rewrite(function, "arg_attrs", notes)


def note_results(function: ir.Operation, notes: Mapping[int, Notes]) -> None:
    """The same for results."""
    _rewrite(function, "res_attrs", notes)


def _rewrite(function: ir.Operation, key: str, notes: Mapping[int, Notes]) -> None:
    if not notes:
        return
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    count = len(kind.inputs if key == "arg_attrs" else kind.results)
    nothing = ir.DictAttr.get({}, function.context)
    given = list(ir.ArrayAttr(function.attributes[key])) if key in function.attributes else [nothing] * count
    for number, new in notes.items():
        merged = {**entries(given[number]), **new}
        kept = {name: attribute for name, attribute in merged.items() if attribute is not None}
        given[number] = ir.DictAttr.get(kept, function.context)
    function.attributes[key] = ir.ArrayAttr.get(given, function.context)
