"""An if around the reduction behind a loop, which skips it where the last iteration has reset the accumulator.

%r:2 = while (%acc = %zeros, %was_reset = true) { ...  return %next, %resets }
%sum = if %r#1 { return %zeros } else { return all_reduce(%r#0) }

Tests: test/passes/defer-sync-resets.mlir, test/numeric/test_accumulator_resets.py.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from paropt.passes.dataflow.loop_eval import trips_of
from paropt.passes.deferral.deferral_cost import BYTES_PER_COLLECTIVE
from paropt.passes.deferral.resets import Chosen, Reset, is_reset_last, may_reset, resets_of
from paropt.passes.ir.branches import IF
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.types import bytes_of
from paropt.passes.rewrite.loop_edits import carry, rebuilt
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.annotations import notes_of_results, parts_unreduced
from paropt.passes.sharding.collectives import DEFERRED, REDUCTIONS, reduction_of
from paropt.passes.sharding.shardings import open_sharding, read_sharding
from paropt.passes.support.remarks import Remark, applied
from paropt.passes.support.traversal import ops_of


class _Deferred(NamedTuple):
    """A reduction that has left its loop, and the trips that reset its accumulator."""

    op: ir.Operation
    reset: Reset
    is_last: bool | None  # whether the last trip has reset it; None: not known

    @property
    def bytes(self) -> int:
        """Per device."""
        value = self.op.operands[0]
        return -(-bytes_of(ir.RankedTensorType(value.type)) // parts_unreduced(value, reduction_of(self.op)))

    @property
    def is_array(self) -> bool:
        return ir.RankedTensorType(self.op.operands[0].type).rank > 0

    def identity(self) -> ir.Value:
        """The result for an accumulator that is reset, made at the insertion point."""
        return neutral(self.op.results[0].type, reduction_of(self.op).combiner)


def reset_sums_skipped(root: ir.Operation, pass_name: str) -> list[Remark]:
    """Skips the deferred reductions behind the loops under `root` where the last trip has reset their accumulators.

    Those that it is known to have reset go; others move into an if. Whoever deferred them has proven that all
    predicates of the branches and selects that partial values go through are uniform over the replica groups, and the
    number of trips is: so the devices of a group agree whether to reduce.
    """
    remarks: list[Remark] = []
    for op in ops_of(root, WHILE) if ops_of(root, *REDUCTIONS) else ():
        found = _deferred(Loop(op))
        gone = [each for each in found if each.is_last]
        guarded = _worth_an_if([each for each in found if not each.is_last])
        if gone:
            text = f"{_bytes(gone)} bytes are not reduced after the loop: its last trip has reset them"
            remarks.append(applied(pass_name, op, text))
            _erase(gone)
        if guarded:
            size = _bytes(each for together in guarded for each in together)
            text = f"{size} bytes are reduced after the loop only if its last trip has not reset them"
            remarks.append(applied(pass_name, op, text))
            _guard(Loop(op), guarded)
    return remarks


def _deferred(loop: Loop) -> list[_Deferred]:
    """The reductions that have left `loop`."""
    found: list[_Deferred] = []
    for position, result in enumerate(loop.op.results):
        readers = [use.owner.operation for use in result.uses]
        if len(readers) == 1 and DEFERRED in readers[0].attributes and readers[0].block == loop.op.block:
            reset = resets_of(loop, position, reduction_of(readers[0]).combiner)
            found.append(_Deferred(readers[0], reset, False))
    trips = trips_of(loop) if any(may_reset(each.reset) for each in found) else None
    return [
        each._replace(is_last=is_reset_last(each.reset, trips)) if may_reset(each.reset) else each for each in found
    ]


def _worth_an_if(found: Sequence[_Deferred]) -> list[list[_Deferred]]:
    """Those that may have nothing to reduce, together where the same trips reset them.

    Scalars are left out, and sums of few bytes beside others, with which XLA may reduce them in one collective.
    """
    by_reset: dict[Reset, list[_Deferred]] = {}
    for each in found:
        if each.is_last is None:
            by_reset.setdefault(each.reset, []).append(each)
    arrays = [together for together in by_reset.values() if any(each.is_array for each in together)]
    return [each for each in arrays if len(each) == len(found) or _bytes(each) > BYTES_PER_COLLECTIVE]


def _bytes(found: Iterable[_Deferred]) -> int:
    return sum(each.bytes for each in found)


def _erase(found: Iterable[_Deferred]) -> None:
    for each in found:
        with ir.InsertionPoint(each.op), each.op.location:
            each.op.results[0].replace_all_uses_with(each.identity())
        each.op.erase()


def _guard(loop: Loop, guarded: Sequence[Sequence[_Deferred]]) -> None:
    """Has `loop` carry whether its accumulators are reset, and an if behind it reduce those that are not."""
    starts, nexts = list(loop.op.operands), list(loop.next_values.operands)
    count = len(starts)
    for together in guarded:
        with ir.InsertionPoint(loop.op), loop.op.location:
            starts.append(_truth(True))  # a loop that makes no trip leaves nothing to reduce, either
        argument = carry(loop, starts[-1].type)
        with ir.InsertionPoint(loop.next_values), loop.op.location:
            nexts.append(_as_value(_is_reset(together[0].reset, argument)))
    new = rebuilt(loop, starts, nexts).op
    for name, noted in notes_of_results(loop.op, range(count)).items():
        shardings = list(ir.ArrayAttr(noted))
        with new.context:
            scalar = open_sharding(read_sharding(shardings[0]).mesh, ())
            new.attributes[name] = ir.ArrayAttr.get([*shardings, *[scalar] * len(guarded)])
    for old, result in zip(loop.op.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    loop.op.erase()
    for together, was_reset in zip(guarded, list(new.results)[count:], strict=True):
        _reduce_unless(was_reset, together)


def _is_reset(reset: Reset, before: ir.Value) -> ir.Value | bool:
    """Whether a trip ends with a `reset`, if `before` says that of the trip before; made at the insertion point."""
    if not isinstance(reset, Chosen):
        return before if reset is None else reset
    *others, last = (_is_reset(each, before) for each in reset.resets)
    for number, other in enumerate(others):
        taken = _is_number(reset.by, number) if reset.is_index else reset.by
        last = _either(taken, other, last)
    return last


def _either(predicate: ir.Value, if_true: ir.Value | bool, if_false: ir.Value | bool) -> ir.Value | bool:
    if isinstance(if_true, bool) and isinstance(if_false, bool):
        if if_true == if_false:
            return if_true
        return predicate if if_true else stablehlo.not_(predicate)
    return stablehlo.select(predicate, _as_value(if_true), _as_value(if_false))


def _is_number(index: ir.Value, number: int) -> ir.Value:
    tensor = ir.RankedTensorType(index.type)
    constant = ir.DenseElementsAttr.get_splat(tensor, ir.IntegerAttr.get(tensor.element_type, number))
    return stablehlo.compare(index, stablehlo.constant(constant), stablehlo.ComparisonDirectionAttr.get("EQ"))


def _as_value(truth: ir.Value | bool) -> ir.Value:
    return _truth(truth) if isinstance(truth, bool) else truth


def _truth(value: bool) -> ir.Value:
    tensor = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    return stablehlo.constant(ir.DenseElementsAttr.get_splat(tensor, ir.BoolAttr.get(value)))


def _reduce_unless(was_reset: ir.Value, together: Sequence[_Deferred]) -> None:
    """Moves the reductions into an if that returns identity elements where `was_reset` holds."""
    first = together[0].op
    with ir.InsertionPoint(first), first.location:
        types = [each.op.results[0].type for each in together]
        guard = ir.Operation.create(IF, results=types, operands=[was_reset], regions=2)
    for each, result in zip(together, guard.results, strict=True):
        each.op.results[0].replace_all_uses_with(result)
    reset, other = (region.blocks.append() for region in guard.regions)
    with ir.InsertionPoint(reset), first.location:
        stablehlo.return_([each.identity() for each in together])
    with ir.InsertionPoint(other), first.location:
        end = stablehlo.return_([each.op.results[0] for each in together])
    for each in together:
        each.op.move_before(end.operation)
