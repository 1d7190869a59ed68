"""The split of a value, `reduce(partial) + residual`: the edit behind every pass that moves a reduction.

If `v = f(a, b)` is linear in `a = reduce(p) + r` and `b`, then `v = reduce(f(p, 0)) + f(r, b)`. So each op that a
reduction crosses is written twice at most, once on partial sums and once on residuals.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.duplication_cost import adds_nothing
from paropt.passes.dataflow.partial_values import PartialValues
from paropt.passes.dataflow.rounding import is_excess
from paropt.passes.ir.barriers import BARRIER, before_barrier, made_of
from paropt.passes.ir.branches import BRANCHES, ends_of
from paropt.passes.ir.constants import scalar_of
from paropt.passes.ir.loops import WHILE, Loop, is_carried_on
from paropt.passes.ir.op_table import is_widenable
from paropt.passes.ir.types import is_float, widens
from paropt.passes.rewrite.loop_edits import carry, rebuilt
from paropt.passes.sharding.annotations import notes_of_results
from paropt.passes.sharding.collectives import (
    ADD,
    GLOBAL_ALL_REDUCE,
    REDUCE_SCATTER,
    Reduction,
    neutral_number,
    reduction_of,
)
from paropt.passes.sharding.explicit_ops import all_reduced
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.traversal import is_used, op_of

SUBTRACT, NEGATE, CONVERT = "stablehlo.subtract", "stablehlo.negate", "stablehlo.convert"


class Split(NamedTuple):
    """`value = reduce(partial) + rest`, or without `rest`, `value = reduce(partial)`."""

    partial: ir.Value
    rest: ir.Value | None


# The splits of the results of an op that was made anew, and the replacements of its other results.
Remade = tuple[dict[ir.Value, Split], dict[ir.Value, ir.Value]]


def split_values(
    values: PartialValues, sources: dict[ir.Value, Split], wanted: Sequence[ir.Value]
) -> dict[ir.Value, Split]:
    """Splits `wanted`: in program order, and with each value the addends that it is made of.

    `sources` are the splits of the reductions and loop-carried values among them. New ops stand where the old ones do.
    """
    combiner = values.reduction.combiner
    members = frozenset(wanted)
    splits = dict(sources)
    for value in wanted:
        if value in splits:
            continue
        op = op_of(value)
        if (remade := _remaking(op)) is not None:
            joined = [result for result in op.results if result in members]
            found, moved = remade(op, joined, splits, values)
            splits = {each: _with_moved(split, moved) for each, split in splits.items()} | found
            continue
        parts = {i: splits.get(op.operands[i]) for i in values.values[value].addends}
        partials = {i: part.partial if part else None for i, part in parts.items()}
        rests = {i: part.rest if part else _rest(op.operands[i], combiner) for i, part in parts.items()}
        partial = _on(op, partials, values, before_reduction=True)
        splits[value] = Split(partial, _rest_on(op, rests, values))
    return splits


def _remaking(op: ir.Operation) -> Callable[..., Remade] | None:
    """How `op` is made anew, with all parts of its results; None where it is written once for each part."""
    if op.name in BRANCHES:
        return _split_branches
    return {WHILE: _split_loop, BARRIER: _split_barrier}.get(op.name)


def _with_moved(split: Split, moved: Mapping[ir.Value, ir.Value]) -> Split:
    """`split` with the replacements of other results of an op that was made anew."""
    rest = split.rest
    return Split(moved.get(split.partial, split.partial), rest if rest is None else moved.get(rest, rest))


def _rest_on(op: ir.Operation, rests: dict[int, ir.Value | None], values: PartialValues) -> ir.Value | None:
    given = [rest for rest in rests.values() if rest is not None]
    if not given:
        return None
    return given[0] if is_carried_on(op, given[0]) else _on(op, rests, values)


def _rest(value: ir.Value, combiner: str) -> ir.Value | None:
    return None if adds_nothing(value, combiner) else value


def closed(
    split: Split,
    reduction: ir.Operation,
    combiner: str,
    at: ir.InsertionPoint,
    *,
    mark: str = "",
    moves: Sequence[ir.Operation] = (),
) -> ir.Value:
    """`reduce(split.partial) + split.rest`, reduced the way `reduction` does and located where it is.

    The new reduction has the attribute `mark`, if that is given. The reduced value is then moved as by `moves`.
    """
    with at, reduction.location:
        reduced = _reduce(split.partial, reduction, combiner)
        if mark:
            op_of(reduced).attributes[mark] = ir.UnitAttr.get(reduction.context)
        for op in moves:
            reduced = moved_like(reduced, op)
        if split.rest is None:
            return reduced
        return _create(combiner, reduced.type, [in_type_of(split.rest, reduced), reduced])


def moved_like(value: ir.Value, like: ir.Operation) -> ir.Value:
    """The elements of `value` moved at the insertion point as `like` moves those of its first operand."""
    new = like.clone()
    new.operands[0] = value
    shape = ir.RankedTensorType(like.results[0].type).shape
    new.results[0].set_type(ir.RankedTensorType.get(shape, _element(value), loc=like.location))
    return new.results[0]


def sent_as(reduction: ir.Operation, element: ir.Type) -> ir.Value:
    """The same reduction in another element type, at the insertion point."""
    return _reduce(in_type(reduction.operands[0], element), reduction, reduction_of(reduction).combiner)


def in_type_of(value: ir.Value, like: ir.Value) -> ir.Value:
    """`value`, converted at the insertion point if its elements are of another type than those of `like`."""
    return in_type(value, ir.RankedTensorType(like.type).element_type)


def in_type(value: ir.Value, element: ir.Type) -> ir.Value:
    tensor = ir.RankedTensorType(value.type)
    if tensor.element_type == element:
        return value
    return _create(CONVERT, ir.RankedTensorType.get(tensor.shape, element), [value])


def erase_unused(ops: Sequence[ir.Operation]) -> None:
    """Erases those of `ops` (in program order) that nothing reads; a variadic reduction loses its unread results."""
    for op in reversed(ops):
        if not is_used(op):
            op.erase()
        elif len(op.results) > 1:
            _drop_unused_results(op)


def neutral(type_: ir.Type, combiner: str = ADD) -> ir.Value:
    """A tensor that `combiner` leaves every other as it is, made at the insertion point: of zeros, for a sum.

    `type_` is a tensor of static shape, of elements for which there is a `neutral_number`.
    """
    tensor = ir.RankedTensorType(type_)
    element = tensor.element_type
    if isinstance(element, ir.ComplexType):  # jaxlib cannot make complex attributes
        part = neutral(ir.RankedTensorType.get(tensor.shape, element.element_type))
        return _create("stablehlo.complex", tensor, [part, part])
    number = neutral_number(combiner, element)
    assert number is not None, "the pass asks first"
    attribute = ir.FloatAttr.get(element, number) if is_float(element) else ir.IntegerAttr.get(element, int(number))
    return _constant(tensor, attribute)


def neutral_before(op: ir.Operation, type_: ir.Type, combiner: str) -> ir.Value:
    """The same, made before `op`."""
    with ir.InsertionPoint(op), op.location:
        return neutral(type_, combiner)


def _split_branches(
    op: ir.Operation, joined: Sequence[ir.Value], splits: dict[ir.Value, Split], values: PartialValues
) -> Remade:
    """Makes an if or case that returns the parts of the results `joined` of `op`, whose blocks it takes over.

    `op` is left without blocks: it must be erased once nothing reads it.
    """
    ends, combiner = ends_of(op), values.reduction.combiner
    numbers = [ir.OpResult(result).result_number for result in joined]
    kept = [i for i in range(len(op.results)) if i not in numbers]
    returned = [[end.operands[i] for i in kept] for end in ends]  # of each branch
    made: list[tuple[ir.Value, int | ir.Value, int | ir.Value | None]] = []  # a number stands for a result
    parts_of = list(kept)  # for each result of the new op, the number of the old one that it is, or is a part of
    for number, result in zip(numbers, joined, strict=True):
        partials, rests = _choices(ends, result, splits, combiner)
        made.append((result, _returned(partials, returned), _returned(rests, returned) if rests else None))
        parts_of += [number] * (len(returned[0]) - len(parts_of))
    with ir.InsertionPoint(op), op.location:
        types = [value.type for value in returned[0]]
        attributes = dict(op.attributes) | notes_of_results(op, parts_of)
        new = ir.Operation.create(
            op.name, results=types, operands=list(op.operands), attributes=attributes, regions=len(ends)
        )
    for end, region, operands in zip(ends, new.regions, returned, strict=True):
        block = end.block
        with ir.InsertionPoint(end), end.location:
            ir.Operation.create(end.name, operands=operands)
        end.erase()
        block.append_to(region)
    moved = {op.results[old]: new.results[i] for i, old in enumerate(kept)}
    for old, result in moved.items():
        old.replace_all_uses_with(result)
    found: dict[ir.Value, Split] = {}
    for result, partial, rest in made:
        found[result] = Split(
            new.results[partial] if isinstance(partial, int) else partial,
            new.results[rest] if isinstance(rest, int) else rest,
        )
    return found, moved


def _split_loop(
    op: ir.Operation, joined: Sequence[ir.Value], splits: dict[ir.Value, Split], values: PartialValues
) -> Remade:
    """Makes a loop that carries the parts of the results `joined` of `op`, whose blocks it takes over.

    `op` is left without blocks: it must be erased once nothing reads it.
    """
    loop, combiner = Loop(op), values.reduction.combiner
    end, starts = loop.next_values, list(op.operands)
    carried = [each for result in joined if (each := values.values[result].carried) is not None]
    facts, within = carried[0].facts, carried[0].values
    positions = [ir.OpResult(result).result_number for result in joined]
    sources: dict[ir.Value, Split] = {}
    for position, each in zip(positions, carried, strict=True):
        adds = any(not adds_nothing(term, combiner) for term in each.other_terms)
        has_rest = adds or splits[op.operands[position]].rest is not None
        argument = loop.body.arguments[position]
        sources[argument] = Split(argument, carry(loop, argument.type) if has_rest else None)
    members = {value for each in carried for value in each.order}
    order = [value for value in within.values if value in members]
    old = facts.in_order(order)
    ends = split_values(within, sources, order)
    nexts = list(end.operands)  # now, that ops of the body have been made anew
    rests: dict[int, int] = {}  # the number of the loop-carried value that is the rest
    for position in positions:
        start, ended = splits[op.operands[position]], ends[end.operands[position]]
        starts[position], nexts[position] = start.partial, ended.partial
        if sources[loop.body.arguments[position]].rest is not None:
            type_ = op.results[position].type
            rests[position] = len(starts)
            starts.append(start.rest if start.rest is not None else neutral_before(op, type_, combiner))
            nexts.append(ended.rest if ended.rest is not None else neutral_before(end, type_, combiner))
    new = rebuilt(loop, starts, nexts, list(rests)).op
    erase_unused(old)
    moved: dict[ir.Value, ir.Value] = {
        result: new.results[i] for i, result in enumerate(op.results) if i not in positions
    }
    for result, now in moved.items():
        result.replace_all_uses_with(now)
    found = {i: Split(new.results[i], new.results[rests[i]] if i in rests else None) for i in positions}
    return {op.results[i]: split for i, split in found.items()}, moved


def _split_barrier(
    op: ir.Operation, joined: Sequence[ir.Value], splits: dict[ir.Value, Split], values: PartialValues
) -> Remade:
    """Makes a barrier that holds the parts of the results `joined` of `op`, and the other operands of `op`.

    `op` must be erased once nothing reads it.
    """
    held, parts_of = list(op.operands), list(range(len(op.operands)))
    rests: dict[ir.Value, int] = {}  # the number of the new result that is the rest
    for result in joined:
        position = before_barrier(result)
        held[position], rest = splits[op.operands[position]]
        if rest is not None:
            rests[result] = len(held)
            held.append(rest)
            parts_of.append(position)
    with ir.InsertionPoint(op), op.location:
        attributes = dict(op.attributes) | notes_of_results(op, parts_of)
        new = ir.Operation.create(op.name, results=[v.type for v in held], operands=held, attributes=attributes)
    moved: dict[ir.Value, ir.Value] = {
        old: result for old, result in zip(op.results, new.results, strict=False) if old not in joined
    }
    for old, result in moved.items():
        old.replace_all_uses_with(result)
    partials = {result: made_of(new, before_barrier(result)) for result in joined}
    return {
        result: Split(partial, new.results[rests[result]] if result in rests else None)
        for result, partial in partials.items()
    }, moved


def _choices(
    ends: Sequence[ir.Operation], result: ir.Value, splits: dict[ir.Value, Split], combiner: str
) -> tuple[list[ir.Value], list[ir.Value]]:
    """The operands for `result` that the branches return: partial values, and residuals, if there are any."""
    number = ir.OpResult(result).result_number
    parts = [splits.get(end.operands[number]) for end in ends]
    partial = [part.partial for part in parts if part is not None]
    like = next((p for p in partial if _element(p) != _element(result)), partial[0])  # the widest
    kept = [part.rest if part else _rest(end.operands[number], combiner) for end, part in zip(ends, parts, strict=True)]
    partials, rests = [], []
    for end, part, rest in zip(ends, parts, kept, strict=True):
        with ir.InsertionPoint(end), end.location:
            partials.append(in_type_of(part.partial, like) if part is not None else neutral(like.type, combiner))
            if any(other is not None for other in kept):
                rests.append(rest if rest is not None else neutral(result.type, combiner))
    return partials, rests


def _returned(values: Sequence[ir.Value], returned: list[list[ir.Value]]) -> int | ir.Value:
    """Has each branch return its value: the number of that result; or the value itself, if it is the same in all."""
    if len(values) > 1 and all(value == values[0] for value in values):  # of a single branch it may be made in there
        return values[0]
    for each, value in zip(returned, values, strict=True):
        each.append(value)
    return len(returned[0]) - 1


def _on(
    op: ir.Operation, parts: dict[int, ir.Value | None], values: PartialValues, *, before_reduction: bool = False
) -> ir.Value:
    """`op` with `parts` for addends, as they are after the reduction, or before it; a part of None is zero."""
    combiner = values.reduction.combiner
    with ir.InsertionPoint(op), op.location:
        parts = _of_one_type(op, parts)
        given = [part for part in parts.values() if part is not None]
        if len(given) < len(parts) and op.name in (combiner, SUBTRACT):
            return given[0] if op.name == combiner or parts[1] is None else _create(NEGATE, given[0].type, given)
        if op.name == CONVERT and _is_left_out(op, given[0], values):
            return given[0]
        element = _element(given[0])
        over = values.reduction if before_reduction else None
        filled = {
            i: part if part is not None else in_type(_neutral_beside(op, i, parts, combiner, over), element)
            for i, part in parts.items()
        }
        new = op.clone()
        for i, part in filled.items():
            new.operands[i] = part
        if before_reduction:
            _widen(new, op, filled, values.reduction)
        if is_widenable(op) and element != _element(op.results[0]):
            _retype(new, filled, element)
        return new.results[0]


def _neutral_beside(
    op: ir.Operation, position: int, parts: Mapping[int, ir.Value | None], combiner: str, over: Reduction | None
) -> ir.Value:
    """Operand `position` of `op`, neutral: as large as the others are before `over` has scattered them, if given."""
    tensor = ir.RankedTensorType(op.operands[position].type)
    dimension = over.scatter_dimension if over is not None else None
    if dimension is None:
        return neutral(tensor, combiner)
    other, part = next((i, part) for i, part in parts.items() if part is not None)
    shape = list(tensor.shape)
    shape[dimension] = shape[dimension] * _shape(part)[dimension] // _shape(op.operands[other])[dimension]
    return neutral(ir.RankedTensorType.get(shape, tensor.element_type), combiner)


def _of_one_type(op: ir.Operation, parts: dict[int, ir.Value | None]) -> dict[int, ir.Value | None]:
    """`parts` in the widest of their types, or where `op` can't work in that, in the type of its operands."""
    first = next(iter(parts))
    own = _element(op.operands[first])
    wide = [_element(part) for part in parts.values() if part is not None and _element(part) != own]
    if not wide:
        return parts
    element = wide[0] if is_widenable(op) or op.name == CONVERT else own
    return {i: None if part is None else in_type(part, element) for i, part in parts.items()}


def _is_left_out(op: ir.Operation, part: ir.Value, values: PartialValues) -> bool:
    """Whether the convert `op` would only narrow a value that is to be accumulated in a wider type."""
    if _element(part) == _element(op.results[0]):
        return True
    held = values.accumulate is not None and widens(_element(part), values.accumulate)
    excess = values.convert != "widening" and (_keeps_type(op) or is_excess(op))
    return (held or excess) and widens(_element(op.results[0]), _element(part))


def _keeps_type(op: ir.Operation) -> bool:
    return _element(op.operands[0]) == _element(op.results[0])


def _retype(op: ir.Operation, parts: dict[int, ir.Value], element: ir.Type) -> None:
    """Makes `op` work in the float type `element`, in which its addends are."""
    own = _element(op.results[0])
    with ir.InsertionPoint(op), op.location:
        for i, operand in enumerate(op.operands):
            if i not in parts and _element(operand) == own:
                op.operands[i] = in_type(operand, element)
    shape = ir.RankedTensorType(op.results[0].type).shape
    op.results[0].set_type(ir.RankedTensorType.get(shape, element, loc=op.location))


def _widen(op: ir.Operation, old: ir.Operation, parts: dict[int, ir.Value], over: Reduction) -> None:
    """Makes `op`, which is `old` before `over`, work on values that `over` has not scattered or moved yet."""
    shape, dimension = _shape(old.results[0]), over.scatter_dimension
    first = next(iter(parts))
    if over.moved:
        shape = _shape(parts[first])  # `old` works on elements
    elif dimension is not None:
        shape[dimension] = shape[dimension] * _shape(parts[first])[dimension] // _shape(old.operands[first])[dimension]
    else:
        return
    with ir.InsertionPoint(op), op.location:
        for i, operand in enumerate(op.operands):
            if i not in parts and _shape(operand) == _shape(old.results[0]):  # a factor, no index
                op.operands[i] = scalar_spread(operand, shape)
    op.results[0].set_type(ir.RankedTensorType.get(shape, _element(old.results[0]), loc=op.location))


def scalar_spread(factor: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The one scalar that `factor` is made of, in another shape."""
    scalar = scalar_of(factor)
    assert scalar is not None, "the linearity table asks for one scalar"
    wide = ir.RankedTensorType.get(shape, ir.RankedTensorType(factor.type).element_type)
    if ir.RankedTensorType(scalar.type).shape:
        return _constant(wide, ir.DenseElementsAttr(op_of(scalar).attributes["value"]).get_splat_value())
    dimensions: dict[str, ir.Attribute] = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
    return ir.Operation.create(
        "stablehlo.broadcast_in_dim", results=[wide], operands=[scalar], attributes=dimensions
    ).results[0]


def _reduce(value: ir.Value, like: ir.Operation, combiner: str) -> ir.Value:
    """Reduces `value` with the groups, mode and attributes of `like`, in the element type of `value`."""
    if like.name == GLOBAL_ALL_REDUCE:
        return all_reduced(value, like)
    result = _scattered(ir.RankedTensorType(value.type), like)
    return reduction(like.name, value, result, _attributes(like, [result]), combiner)


def reduction(
    name: str, value: ir.Value, result: ir.Type, attributes: dict[str, ir.Attribute], combiner: str
) -> ir.Value:
    """A new reduction of `value` at the insertion point."""
    scalar = ir.RankedTensorType.get([], ir.RankedTensorType(value.type).element_type)
    reduced = ir.Operation.create(name, results=[result], operands=[value], attributes=attributes, regions=1)
    block = reduced.regions[0].blocks.append(scalar, scalar)
    with ir.InsertionPoint(block):
        combined = _create(combiner, scalar, list(block.arguments))
        ir.Operation.create("stablehlo.return", operands=[combined])
    return reduced.results[0]


def _attributes(like: ir.Operation, results: Sequence[ir.Type]) -> dict[str, ir.Attribute]:
    """The attributes of `like`, for an op with these results: a sharding fits the same types only."""
    same = [result.type for result in like.results] == list(results)
    return {name: like.attributes[name] for name in like.attributes if same or name != SHARDING}


def _scattered(tensor: ir.RankedTensorType, like: ir.Operation) -> ir.RankedTensorType:
    """The type that the reduction `like` makes of `tensor`."""
    if like.name != REDUCE_SCATTER:
        return tensor
    dimension = ir.IntegerAttr(like.attributes["scatter_dimension"]).value
    before, after = (ir.RankedTensorType(v.type).shape[dimension] for v in (like.operands[0], like.results[0]))
    shape = list(tensor.shape)
    shape[dimension] = shape[dimension] * after // before
    return ir.RankedTensorType.get(shape, tensor.element_type)


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def _shape(value: ir.Value) -> list[int]:
    return ir.RankedTensorType(value.type).shape


def _drop_unused_results(op: ir.Operation) -> None:
    kept = [i for i, result in enumerate(op.results) if next(result.uses, None) is not None]
    if len(kept) == len(op.results):
        return
    results, operands = [op.results[i].type for i in kept], [op.operands[i] for i in kept]
    with ir.InsertionPoint(op), op.location:
        smaller = ir.Operation.create(
            op.name, results=results, operands=operands, attributes=_attributes(op, results), regions=1
        )
    op.regions[0].blocks[0].append_to(smaller.regions[0])
    for new, i in zip(smaller.results, kept, strict=True):
        op.results[i].replace_all_uses_with(new)
    op.erase()


def _create(name: str, type_: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    return ir.Operation.create(name, results=[type_], operands=list(operands)).results[0]


def _constant(tensor: ir.RankedTensorType, number: ir.Attribute) -> ir.Value:
    value = ir.DenseElementsAttr.get_splat(tensor, number)
    return ir.Operation.create("stablehlo.constant", results=[tensor], attributes={"value": value}).results[0]
