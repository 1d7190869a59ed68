"""Checks of attributes that passes read and no dialect verifies; the first wrong one is named.

Passes rely on their form. So a module is checked before passes run on it.
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.gradient_marks import ATTRIBUTES, MARK, MARK_OP
from paropt.passes.ir.signature import ALIAS, entries
from paropt.passes.sharding.annotations import (
    ALONE,
    GATHERED,
    HELD,
    MOVES,
    NOTED,
    OPERANDS,
    READ,
    SHARDINGS,
    SHARED,
    WANTED,
)
from paropt.passes.sharding.collectives import DECOMPOSED
from paropt.passes.support.traversal import all_ops_of

MAX_DEVICES = 1 << 20  # some ten times as many as the largest clusters have
_SHOWN = 60  # characters of an attribute that are told


class Complaint(NamedTuple):
    """An attribute of a wrong form."""

    op: ir.Operation
    text: str


Check = Callable[[ir.Attribute], bool]


def _as(kind: Any, attribute: ir.Attribute) -> Any:
    """`attribute` as one of this kind; None when it is none. jaxlib does not always tell the kind of an attribute."""
    try:
        return kind(attribute)
    except (ValueError, TypeError):
        return None


def _is_count(attribute: ir.Attribute) -> bool:
    number = _as(ir.IntegerAttr, attribute)
    return number is not None and 0 <= number.value <= MAX_DEVICES


def _is_index(attribute: ir.Attribute) -> bool:
    number = _as(ir.IntegerAttr, attribute)
    return number is not None and number.value >= 0


def _is_text(attribute: ir.Attribute) -> bool:
    text = _as(ir.StringAttr, attribute)
    try:
        return text is not None and isinstance(text.value, str)
    except (RuntimeError, UnicodeDecodeError):  # bytes that are no UTF-8
        return False


def _is_sharding(attribute: ir.Attribute) -> bool:
    return _as(sdy.TensorShardingAttr, attribute) is not None


def _is_unit(attribute: ir.Attribute) -> bool:
    return _as(ir.UnitAttr, attribute) is not None


def _is_array_of_integers(attribute: ir.Attribute) -> bool:
    return _as(ir.DenseI64ArrayAttr, attribute) is not None


def _is_list(attribute: ir.Attribute, *checks: Check) -> bool:
    listed = _as(ir.ArrayAttr, attribute)
    return listed is not None and all(any(check(each) for check in checks) for each in listed)


def _is_list_of_texts(attribute: ir.Attribute) -> bool:
    return _is_list(attribute, _is_text)


def _is_list_of_trades(attribute: ir.Attribute) -> bool:
    numbers = _as(ir.DenseI64ArrayAttr, attribute)
    return numbers is not None and len(numbers) % 3 == 0


def _is_list_of_shardings(attribute: ir.Attribute) -> bool:
    return _is_list(attribute, _is_sharding, _is_unit)


def _is_list_of_gathers(attribute: ir.Attribute) -> bool:
    return _is_list(attribute, _is_list_of_shardings, _is_unit)


def _is_list_of_steps(attribute: ir.Attribute) -> bool:
    if not _is_list(attribute, lambda each: _as(ir.DictAttr, each) is not None) or not len(ir.ArrayAttr(attribute)):
        return False
    first = entries(ir.ArrayAttr(attribute)[0])
    groups, dimension = first.get("replica_groups"), first.get("scatter_dimension")
    is_scatter = groups is not None and _as(ir.DenseElementsAttr, groups) is not None
    return is_scatter and dimension is not None and _is_index(dimension)


_COUNT = (_is_count, f"an integer from 0 to {MAX_DEVICES}")
_TEXT = (_is_text, "a string of UTF-8 text")
_OF_MODULE = {
    "mhlo.num_partitions": _COUNT,
    "mhlo.num_replicas": _COUNT,
    "sym_name": _TEXT,
    NOTED: (_is_list_of_texts, "a list of strings"),
    HELD: (_is_list_of_trades, "three numbers for each trade: bytes saved, bytes held, collectives fewer"),
}
_OF_VALUE = {
    ALIAS: (_is_index, "the number of a result"),
    "mhlo.sharding": _TEXT,
    "mhlo.memory_kind": _TEXT,
    "mhlo.layout_mode": _TEXT,
    "jax.result_info": _TEXT,
}
_OF_OP: dict[str, tuple[Check, str]] = {
    **dict.fromkeys((SHARDINGS, WANTED, READ, ALONE, OPERANDS), (_is_list_of_shardings, "a list of shardings")),
    GATHERED: (_is_list_of_gathers, "a list of lists of shardings"),
    SHARED: (_is_array_of_integers, "an array of i64"),
    MOVES: _TEXT,
    DECOMPOSED: (_is_list_of_steps, "a list of dictionaries, the first of a reduce_scatter"),
}
_PER_OPERAND = (READ, GATHERED)  # lists of as many as the op has operands


def complaint(module: ir.Operation, *, annotated: bool = True) -> Complaint | None:
    """The first attribute of another form than passes expect; None when there is none.

    `annotated`: the module may hold annotations that passes left. To look for them takes a walk over all ops.
    """
    return next(_complaints(module, annotated), None)


def _complaints(module: ir.Operation, annotated: bool) -> Iterator[Complaint]:
    yield from _wrong(module, module.attributes, _OF_MODULE)
    for op in (view.operation for view in module.regions[0].blocks[0].operations):
        if "sym_name" in op.attributes:
            yield from _wrong(op, op.attributes, {"sym_name": _TEXT})
        if op.name == "sdy.mesh":
            yield from _wrong_mesh(op)
        if op.name == "func.func":
            yield from _wrong_values(op)
    for op in all_ops_of(module) if annotated else ():
        yield from _wrong(op, op.attributes, _OF_OP)
        yield from _wrong_count(op)
        yield from _wrong_mark(op)


def _wrong(
    op: ir.Operation, found: ir.OpAttributeMap | Mapping[str, ir.Attribute], expected: Mapping[str, tuple[Check, str]]
) -> Iterator[Complaint]:
    for name, (is_right, what) in expected.items():
        if name in found and not is_right(found[name]):
            yield Complaint(op, f"attribute {name} has to be {what}, not {_shown(found[name])}")


def _wrong_values(function: ir.Operation) -> Iterator[Complaint]:
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for key, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        if key not in function.attributes:
            continue
        listed = ir.ArrayAttr(function.attributes[key])
        if len(listed) != len(types):  # MLIR takes none for several
            yield Complaint(function, f"attribute {key} is of {len(listed)} values, and there are {len(types)}")
        for notes in listed:
            yield from _wrong(function, entries(notes), _OF_VALUE)


def _wrong_mesh(op: ir.Operation) -> Iterator[Complaint]:
    devices = prod(sdy.MeshAxisAttr(axis).size for axis in sdy.MeshAttr(op.attributes["mesh"]).axes)
    if devices > MAX_DEVICES:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        yield Complaint(op, f"mesh @{name} has {devices} devices: meshes of up to {MAX_DEVICES} are read")


def _wrong_count(op: ir.Operation) -> Iterator[Complaint]:
    for name in _PER_OPERAND:
        count = len(ir.ArrayAttr(op.attributes[name])) if name in op.attributes else len(op.operands)
        if count != len(op.operands):
            yield Complaint(op, f"attribute {name} lists {count} and {op.name} has {len(op.operands)} operands")


def _wrong_mark(op: ir.Operation) -> Iterator[Complaint]:
    if op.name != MARK_OP or ATTRIBUTES not in op.attributes:
        return
    if _as(ir.DictAttr, op.attributes[ATTRIBUTES]) is None:
        yield Complaint(op, f"attribute {ATTRIBUTES} has to be a dictionary, not {_shown(op.attributes[ATTRIBUTES])}")
        return
    yield from _wrong(op, entries(op.attributes[ATTRIBUTES]), {MARK: _TEXT})


def _shown(attribute: ir.Attribute) -> str:
    text = str(attribute)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
