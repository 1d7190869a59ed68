"""Sums in manual computations that leave axes to the partitioner: each device keeps its own, reduced once behind loops.

Deferrals are found as in any global-view program: the sums over these axes are exposed in the block, and deferred
there. Those that moved become arrays with a dimension for the devices (`spmd/device_sums.py`); a block in a loop
returns such an array, whose sum outside is then exposed as any other.

Tests: test/passes/separate-reductions-partly-manual.mlir, test/numeric/test_partial_manual_axes.py.
"""

from collections.abc import Mapping
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.linearity import Crossing, addends_of
from paropt.passes.dataflow.unreduced import Unreduced
from paropt.passes.deferral.rewrite import Options, defer_in
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.op_table import adds, is_elementwise, keeps_elements, may_squeeze
from paropt.passes.ir.types import unsqueezes
from paropt.passes.sharding.annotations import is_source, noted_sharding
from paropt.passes.sharding.axes import Axes, are_allowed, names_of
from paropt.passes.sharding.collectives import GLOBAL_ALL_REDUCE, Reduction, global_reduction, reduction_of
from paropt.passes.sharding.propagation import Propagated, propagated_or_none
from paropt.passes.sharding.shardings import MANUAL, leaves_axes, manual_around
from paropt.passes.spmd.device_sums import (
    Devices,
    lift,
    place,
    require_by_device,
    require_liftable,
    returned_by_device,
    summed,
)
from paropt.passes.spmd.exposed import Exposed, apart
from paropt.passes.spmd.global_form import erase_exposed, erase_notes, expose, note_shardings, reduced_axes
from paropt.passes.spmd.producers import PRODUCERS, Producer, producer_of
from paropt.passes.support.remarks import Declined, Remark, applied, missed, refusal, require
from paropt.passes.support.traversal import is_within, module_of, only_user_of, op_of, ops_of, parent_of, terminator_of

_RETURN = "sdy.return"
_IN_PLACE = "no loop of its manual computation adds it up, nor is it returned alone to a loop that does"


def sums_by_device(module: ir.Operation, options: Options, allowed: frozenset[str]) -> list[Remark]:
    """Rewrites the manual computations that leave axes.

    `allowed` names the axes that reductions may move over: none, for all axes.
    """
    if not any(leaves_axes(manual) for manual in ops_of(module, MANUAL)):
        return []
    stays: dict[int, str] = {}
    while True:  # failures are found on a copy
        trial = module.clone()
        found = _rewritten(trial, options, allowed, stays).declined
        if not found.keys() - stays.keys():
            break
        stays |= {number: reason.reason for number, reason in found.items()}
    done = _rewritten(module, options, allowed, stays)
    stay = [*done.declined.values(), *done.stayed]
    name = options.pass_name
    return [*done.remarks, *(missed(name, reason.op, reason) for reason in stay if reason.op is not None)]


class _Done(NamedTuple):
    remarks: list[Remark]
    declined: dict[int, Declined]  # why ops stay, by their numbers
    stayed: list[Declined]  # at ops that might have moved, and had no loop to leave


def _rewritten(module: ir.Operation, options: Options, allowed: frozenset[str], stays: Mapping[int, str]) -> _Done:
    """Rewrites `module`, but for the ops of the numbers in `stays`, which has reasons."""
    done = _Done([], {}, [])
    propagated = propagated_or_none(module)
    if propagated is None:
        return done
    producers: dict[ir.Value, tuple[int, Producer]] = {}
    for number, op in enumerate(op for op in ops_of(module, *PRODUCERS) if _is_partly_manual(op)):
        try:
            producer = producer_of(op, propagated)
            if producer is None:
                continue
            _require(producer, propagated, allowed)
            require(number not in stays, stays.get(number, ""), op)
        except Declined as reason:
            done.declined[number] = reason
            continue
        producers[producer.value] = number, producer
    note_shardings(module, [(value, each.axes) for value, (_, each) in producers.items()], propagated)
    for _, producer in producers.values():
        expose(producer, producer.axes)
    reasons: dict[ir.Value, str] = {}  # by producer
    for manual in ops_of(module, MANUAL) if producers else ():
        done.remarks.extend(remark for remark in defer_in(manual, options) if remark.applied)
        reasons |= _sink_to_end(manual)
    done.stayed.extend(Declined(reasons.get(each, _IN_PLACE), producers[each][1].op) for each in _reverted(module))
    for part in apart(_exposed(module)):
        numbers = [producers[op.operands[0]][0] for op in part.sources]
        try:
            _lift(part, [producers[op.operands[0]][1] for op in part.sources], options.pass_name, done)
        except Declined as reason:
            done.declined.update(dict.fromkeys(numbers, reason))
            erase_exposed(part.ops)
    erase_notes(module)
    return done


def _is_partly_manual(op: ir.Operation) -> bool:
    manual = manual_around(op)
    return manual is not None and leaves_axes(manual)


def _require(producer: Producer, propagated: Propagated, allowed: frozenset[str]) -> None:
    lies = propagated.sharding_of(producer.value)
    apart = lies is None or not names_of(lies.axes) & names_of(producer.axes)
    require(apart, "its sum is sharded over these axes", producer.op)
    names = ", ".join(f"`{name}`" for name in sorted(names_of(producer.axes)))
    require(are_allowed(producer.axes, allowed), f"it is over {names}, which option axes does not allow", producer.op)
    require_by_device(producer)


def _exposed(module: ir.Operation) -> Exposed:
    sources = [op for op in ops_of(module, CONSTRAINT) if is_source(op) and _is_partly_manual(op)]
    return Exposed(sources, [op for op in ops_of(module, GLOBAL_ALL_REDUCE) if _is_partly_manual(op)], [])


def _reverted(module: ir.Operation) -> list[ir.Value]:
    """Reverts exposed sums that have stayed in place, unless their block returns them. Returns these."""
    reverted: list[ir.Value] = []
    for source in _exposed(module).sources:
        users = [use.owner.operation for use in source.results[0].uses]
        if all(user.name == GLOBAL_ALL_REDUCE and not _is_returned(user) for user in users):
            reverted.append(source.operands[0])
            erase_exposed((*users, source))
    return reverted


def _sink_to_end(manual: ir.Operation) -> dict[ir.Value, str]:
    """Sinks the all_reduces of values that a block in a loop returns behind the block's ops on the sum.

    Returns by producer why others stay, where an op on the sum is the reason.
    """
    reasons: dict[ir.Value, str] = {}
    if not is_within(manual, WHILE):
        return reasons
    end = terminator_of(manual.regions[0].blocks[0])
    for op in ops_of(manual, GLOBAL_ALL_REDUCE):
        if op.block != end.block:
            continue
        last, declined = _moved(op)
        user = only_user_of(last)
        if declined is not None:
            reasons[op_of(op.operands[0]).operands[0]] = declined.reason
        if user is None or user != end or not _is_accumulated(manual, last):
            continue
        op.results[0].replace_all_uses_with(op.operands[0])
        if last != op.results[0]:
            op.operands[0] = last
            op.results[0].set_type(last.type)
        op.move_before(end)
        for i, operand in enumerate(end.operands):
            if operand == op.operands[0]:
                end.operands[i] = op.results[0]
    return reasons


def _moved(op: ir.Operation) -> tuple[ir.Value, Declined | None]:
    """What ops that the all_reduce `op` may follow make of its result, and why it may not follow the next op."""
    last, reduction = op.results[0], reduction_of(op)
    while (user := only_user_of(last)) is not None and user.name != _RETURN:
        declined = None if _carries_on(user) else refusal(_require_scaled, user, last, reduction)
        if declined is not None:
            return last, declined
        last = user.results[0]
    return last, None


def _carries_on(op: ir.Operation) -> bool:
    """Whether `op` returns its only operand, in another shape perhaps."""
    copies = op.name == CONSTRAINT or (keeps_elements(op) and op.name != "stablehlo.convert")
    return len(op.operands) == 1 and (copies or (may_squeeze(op) and unsqueezes(op)))


def _require_scaled(op: ir.Operation, value: ir.Value, reduction: Reduction) -> None:
    """Declines unless `op` scales the elements of `value`, or takes a part of each, so that `reduction` may follow."""
    require(is_elementwise(op) and op.name != "stablehlo.convert", _IN_PLACE)
    partial = frozenset(i for i, operand in enumerate(op.operands) if operand == value)
    addends = addends_of(op, Crossing(reduction, "any", None, partial, lambda *_: None))
    require(addends == tuple(partial), _IN_PLACE)


def _is_accumulated(manual: ir.Operation, value: ir.Value) -> bool:
    """Whether the result of `manual` that returns `value` is only used as an addend."""
    end = terminator_of(manual.regions[0].blocks[0])
    numbers = [i for i, operand in enumerate(end.operands) if operand == value]
    user = only_user_of(manual.results[numbers[0]]) if len(numbers) == 1 else None
    return user is not None and adds(user)


def _is_returned(op: ir.Operation) -> bool:
    """Whether the block around the all_reduce `op` returns its result to a loop that accumulates it."""
    user, manual = only_user_of(op.results[0]), parent_of(op)
    ends = user is not None and user.name == _RETURN and is_within(manual, WHILE)
    return ends and _is_accumulated(manual, op.results[0])


def _lift(part: Exposed, producers: list[Producer], pass_name: str, done: _Done) -> None:
    """Gives the values that `part` leaves unreduced a dimension for devices."""
    mesh, axes = reduced_axes(part.sources[0])
    reduction = global_reduction(mesh, axes)
    found = Unreduced({op.results[0]: global_reduction(*reduced_axes(op)) for op in part.sources})
    require(all(each == reduction for each in found.values.values()), "sums over different axes meet", part.sources[0])
    require_liftable(found)
    for value in found.values:
        _require_whole(value, axes)
    devices = Devices(module_of(part.sources[0]), mesh, axes)
    text = "the manual computation returns the addend of each device"
    done.remarks.extend(applied(pass_name, op, text) for op in part.all_reduces if _is_returned(op))
    with part.sources[0].context:
        for source, producer in zip(part.sources, producers, strict=True):
            place(source, producer, devices)
        lift(found, devices)
        for op in part.all_reduces:
            _close(op, devices)


def _require_whole(value: ir.Value, axes: Axes) -> None:
    lies = noted_sharding(value)
    apart = lies is None or not names_of(lies.axes) & names_of(axes)
    maker = value.owner.owner.operation if isinstance(value.owner, ir.Block) else op_of(value)
    require(apart, "a sum is sharded over these axes", maker)


def _close(op: ir.Operation, devices: Devices) -> None:
    """Replaces the all_reduce `op` with a sum over the dimension for devices: where the block returns the result of
    `op`, outside of the block."""
    if _is_returned(op):
        manual, use = parent_of(op), next(iter(op.results[0].uses))
        number = use.operand_number
        use.owner.operation.operands[number] = op.operands[0]
        returned_by_device(manual, number, devices, op.location)
        op.erase()
        return
    with ir.InsertionPoint(op), op.location:
        whole = summed(op.operands[0], devices)
    op.results[0].replace_all_uses_with(whole)
    op.erase()
