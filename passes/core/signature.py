"""Edits of what a function says about its arguments."""

from jaxlib.mlir import ir

from paropt.passes.analysis.signature import entries


def note(function: ir.Operation, argument: int, name: str, value: ir.Attribute) -> None:
    """Gives the argument an attribute, in place of one of this name."""
    _rewrite(function, argument, {name: value}, "")


def unnote(function: ir.Operation, argument: int, name: str) -> None:
    """Takes the attribute away, if the argument has it."""
    _rewrite(function, argument, {}, name)


def _rewrite(function: ir.Operation, argument: int, more: dict[str, ir.Attribute], less: str) -> None:
    count = len(function.regions[0].blocks[0].arguments)
    nothing = ir.DictAttr.get({}, function.context)
    has_notes = "arg_attrs" in function.attributes
    notes = list(ir.ArrayAttr(function.attributes["arg_attrs"])) if has_notes else [nothing] * count
    kept = {key: attribute for key, attribute in entries(notes[argument]).items() if key != less}
    notes[argument] = ir.DictAttr.get({**kept, **more}, function.context)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(notes, function.context)
