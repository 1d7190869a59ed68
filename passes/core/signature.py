"""Edits of what a function says about its arguments and results."""

from jaxlib.mlir import ir

from paropt.passes.analysis.signature import entries


def note(function: ir.Operation, argument: int, name: str, value: ir.Attribute) -> None:
    """Gives the argument an attribute, in place of one of this name."""
    _rewrite(function, "arg_attrs", argument, {name: value}, "")


def unnote(function: ir.Operation, argument: int, name: str) -> None:
    """Takes the attribute away, if the argument has it."""
    _rewrite(function, "arg_attrs", argument, {}, name)


def note_result(function: ir.Operation, result: int, name: str, value: ir.Attribute) -> None:
    """Gives the result an attribute, in place of one of this name."""
    _rewrite(function, "res_attrs", result, {name: value}, "")


def _rewrite(function: ir.Operation, key: str, number: int, more: dict[str, ir.Attribute], less: str) -> None:
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    count = len(kind.inputs if key == "arg_attrs" else kind.results)
    nothing = ir.DictAttr.get({}, function.context)
    notes = list(ir.ArrayAttr(function.attributes[key])) if key in function.attributes else [nothing] * count
    kept = {name: attribute for name, attribute in entries(notes[number]).items() if name != less}
    notes[number] = ir.DictAttr.get({**kept, **more}, function.context)
    function.attributes[key] = ir.ArrayAttr.get(notes, function.context)
