"""Arguments and results of a function, with the attributes that JAX and XLA keep of each."""

from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.support.locations import is_name
from paropt.passes.support.traversal import terminator_of

ALIAS = "tf.aliasing_output"  # on an argument: the number of the result that is written over it
DONOR = "jax.buffer_donor"  # on an argument: XLA may write some result over it
DONATED = "paropt.donated"  # on an argument: its caller gives it away; set around the passes only


class Slot(NamedTuple):
    """An argument or a result of a function."""

    kind: str  # `argument` or `result`
    number: int
    value: ir.Value  # the block argument, or the returned value
    path: str  # JAX's name of it, as in `state['w']` or `result[0]['w']`; "" when it has none
    notes: dict[str, ir.Attribute]

    @property
    def type(self) -> ir.Type:
        return self.value.type

    def __str__(self) -> str:
        return f"{self.kind} {self.number}" + (f" ({self.path})" if self.path else "")


class Signature(NamedTuple):
    """The arguments and results of a function with a body of one block."""

    function: ir.Operation
    end: ir.Operation  # the `func.return`
    arguments: list[Slot]
    results: list[Slot]


def signatures(module: ir.Operation) -> list[Signature]:
    """Of the public functions with a body: XLA compiles `main`, the others are for tests."""
    return [_signature(op.operation) for op in module.regions[0].blocks[0].operations if _is_entry(op.operation)]


def main_of(module: ir.Operation) -> Signature | None:
    """Of the function that XLA compiles."""
    found = (each for each in signatures(module) if ir.StringAttr(each.function.attributes["sym_name"]).value == "main")
    return next(found, None)


def _is_entry(op: ir.Operation) -> bool:
    if op.name != "func.func" or len(op.regions[0].blocks) != 1:
        return False
    return "sym_visibility" not in op.attributes or ir.StringAttr(op.attributes["sym_visibility"]).value == "public"


def _signature(function: ir.Operation) -> Signature:
    block = function.regions[0].blocks[0]
    end = terminator_of(block)
    taken, returned = list(block.arguments), list(end.operands)
    arguments = [
        Slot("argument", i, value, _name(value.location), notes)
        for i, (value, notes) in enumerate(zip(taken, _notes(function, "arg_attrs", len(taken)), strict=True))
    ]
    results = [
        Slot("result", i, value, _result_info(notes), notes)
        for i, (value, notes) in enumerate(zip(returned, _notes(function, "res_attrs", len(returned)), strict=True))
    ]
    return Signature(function, end.operation, arguments, results)


def _notes(function: ir.Operation, key: str, count: int) -> list[dict[str, ir.Attribute]]:
    if key not in function.attributes:
        return [{} for _ in range(count)]
    return [entries(notes) for notes in ir.ArrayAttr(function.attributes[key])]


def entries(attribute: ir.Attribute) -> dict[str, ir.Attribute]:
    """The entries of a dictionary attribute."""
    pairs = ir.DictAttr(attribute)
    return {pairs[i].name: pairs[i].attr for i in range(len(pairs))}


def _name(location: Any) -> str:  # jaxlib 0.10.0 types it less
    return location.name_str if is_name(location) else ""


def _result_info(notes: dict[str, ir.Attribute]) -> str:
    return ir.StringAttr(notes["jax.result_info"]).value if "jax.result_info" in notes else ""
