"""Checks that an executable reduces what its module says is not reduced: once, where the module says so.

`annotate-unreduced` tells XLA by sharding constraints which values are not reduced yet. A compiler that loses one of
them compiles a program that computes something else, without a word. It shows in what the executable communicates: the
value is reduced in a loop where nothing reduces it, or not at all. docs/jit.md says what that finds and what not.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, prod
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.census import Collective
from paropt.passes.analysis.collectives import ALL_REDUCE, REDUCE_SCATTER, global_reduction
from paropt.passes.analysis.linearity import Crossing, addends_of
from paropt.passes.analysis.loops import WHILE, Loop, loop_around, trip_count
from paropt.passes.analysis.meshes import Mesh, mesh_named, mesh_of
from paropt.passes.analysis.producers import ROWS
from paropt.passes.analysis.propagation import Propagated
from paropt.passes.analysis.shardings import Axes, Sharding, is_manual, read_sharding
from paropt.passes.analysis.types import tensor_of
from paropt.passes.core.remarks import Declined, source_of
from paropt.passes.core.traversal import defining_op, module_of, ops_of, users_of

CONSTRAINT = "sdy.sharding_constraint"
_KINDS = ("all-reduce", "reduce-scatter")

# Ops after which the partitioner may add a reduction, if a dimension that they add up or look things up in is split.
_COMMUNICATE = (
    *ROWS,
    "stablehlo.cholesky",
    "stablehlo.concatenate",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.fft",
    "stablehlo.gather",
    "stablehlo.pad",
    "stablehlo.reduce_window",
    "stablehlo.reverse",
    "stablehlo.select_and_scatter",
    "stablehlo.slice",
    "stablehlo.sort",
    "stablehlo.triangular_solve",
)
_EXPLICIT = (ALL_REDUCE, REDUCE_SCATTER, "sdy.all_reduce", "sdy.reduce_scatter")
# Of Shardy's sharding rules: dimensions over which an op cannot be split without communication.
_APART = re.compile(r"(?:reduction|need_replication|permutation)=\{([^}]*)\}")


class Reduced(NamedTuple):
    """A reduction that an executable may contain."""

    fewest: int  # elements per device
    most: int
    group: int  # devices; 0: any number
    in_loop: bool
    times: float  # per step

    def may_be(self, elements: int, group: int) -> bool:
        return self.fewest <= elements <= self.most and self.group in (0, group)


class Key(NamedTuple):
    """What a reduction of a value looks like in an executable."""

    elements: int  # per device
    group: int  # devices

    def __str__(self) -> str:
        return f"{self.elements} elements over {self.group} devices"


@dataclass(frozen=True)
class Prediction:
    """The reductions that the executable of a module should have."""

    moved: dict[Key, str]  # of values that are not reduced, and where one of them is
    closings: tuple[Reduced, ...]  # what the module itself reduces
    others: tuple[Reduced, ...]  # what the compiler may add


def tags_of(module: ir.Operation) -> list[ir.Operation]:
    """The constraints that say that a value is not reduced."""
    return [op for op in ops_of(module, CONSTRAINT) if not is_manual(op) and _sharding(op).unreduced]


def prediction(module: ir.Operation) -> Prediction | None:
    """What the executable of `module` should reduce; None when the module says of no value that it is not reduced."""
    tags = tags_of(module)
    if not tags:
        return None
    moved: dict[Key, str] = {}
    for op in tags:
        sharding = _sharding(op)
        key = Key(_elements(op.operands[0], sharding), _devices(op, sharding.mesh, sharding.unreduced))
        if key.group > 1:
            moved.setdefault(key, str(source_of(op.location)))
    closings = [_closing(op) for op in ops_of(module, CONSTRAINT) if _closes(op)]
    return Prediction(moved, tuple(closings), tuple(_others(module)))


def mismatches(predicted: Prediction, collectives: Iterable[Collective]) -> list[str]:
    """In words, where what an executable reduces is not what was predicted; empty when it fits.

    Compilers concatenate small arrays and unroll loops. So arrays are counted by how often they run, and where some
    are too few or too many, their elements in all.
    """
    found = [r for c in collectives if c.kind in _KINDS for r in _arrays(c)]
    return [*_repeated(predicted, found), *_missing(predicted, found)]


def _repeated(predicted: Prediction, found: list[Reduced]) -> Iterator[str]:
    """Values that are not reduced, but the executable does."""
    allowed = [*predicted.closings, *predicted.others]
    for key, place in predicted.moved.items():
        for in_loop, where in ((True, "in a loop "), (False, "")):
            there, fits = (_times(key, of, in_loop) for of in (found, allowed))
            if there > fits:
                yield f"{key} are reduced {where}{there:g} times, not {fits:g} times; the value at {place} may be one of these"
                break
    for group in sorted({key.group for key in predicted.moved}):
        there, fits = (sum(r.most * r.times for r in of if r.in_loop and r.group in (0, group)) for of in (found, allowed))
        if there > fits:
            yield f"{there:g} elements are reduced over {group} devices in loops, not {fits:g}"


def _missing(predicted: Prediction, found: list[Reduced]) -> Iterator[str]:
    """Values that the module reduces outside of loops, but the executable does not."""
    outside = [r for r in found if not r.in_loop]
    for group in sorted({closing.group for closing in predicted.closings if closing.group > 1}):
        wanted = [closing for closing in predicted.closings if closing.group == group and not closing.in_loop]
        unused = [r for r in outside if r.group == group]
        lacking = []
        for closing in sorted(wanted, key=lambda c: c.most - c.fewest):
            one = next((r for r in unused if closing.may_be(r.most, group)), None)
            unused.remove(one) if one else lacking.append(closing)
        unknown = sum(r.most for r in unused if not any(other.may_be(r.most, group) for other in predicted.others))
        if sum(closing.fewest for closing in lacking) > unknown:
            yield f"{Key(lacking[0].most, group)} are not reduced, as the program says"


def _times(key: Key, reductions: Iterable[Reduced], in_loop: bool) -> float:
    return sum(r.times for r in reductions if r.may_be(*key) and r.in_loop >= in_loop)


def _arrays(collective: Collective) -> Iterator[Reduced]:
    times = collective.executions
    for array in collective.arrays:
        size = prod(array.dims)
        yield Reduced(size, size, collective.group, collective.depth > 0, 1 if times is None else times)


def _sharding(op: ir.Operation) -> Sharding:
    return read_sharding(op.attributes["sharding"])


def _closes(op: ir.Operation) -> bool:
    """Whether the constraint `op` asks for the sum of a value that is not reduced."""
    before = defining_op(op.operands[0])
    return before is not None and before.name == CONSTRAINT and bool(_sharding(before).unreduced) and not _sharding(op).unreduced


def _closing(op: ir.Operation) -> Reduced:
    before = defining_op(op.operands[0])
    assert before is not None
    given, wanted = _sharding(before), _sharding(op)
    sizes = [_elements(op.operands[0], sharding) for sharding in (given, wanted)]
    in_loop, times = _place(op)
    return Reduced(min(sizes), sizes[0], _devices(op, given.mesh, given.unreduced), in_loop, times)


def _others(module: ir.Operation) -> Iterator[Reduced]:
    """What may be reduced besides: by ops that say so, and by those that the partitioner follows by a reduction."""
    propagated = Propagated(module)
    for op in ops_of(module, *_EXPLICIT):
        for value in op.operands:
            yield _some_of(op, value)
    for op in ops_of(module, *_COMMUNICATE):
        if is_manual(op):
            yield from (_some_of(op, value) for value in op.results if op.name in ROWS)
        else:
            yield from _added(op, propagated)
    for op in ops_of(module, "stablehlo.custom_call"):
        if any(sharding is not None and sharding.axes for sharding in propagated.operand_shardings(op)):
            yield from (_some_of(op, value) for value in op.results)


def _added(op: ir.Operation, propagated: Propagated) -> Iterator[Reduced]:
    """The reductions that the partitioner may add behind `op`, which has one operand that is split or several."""
    shardings = propagated.operand_shardings(op)
    left = {axis for tag in _tags(op) for axis in tag.unreduced}
    axes = _axes_apart(propagated.sharding_rule(op), shardings) - left
    mesh = next((sharding.mesh for sharding in shardings if sharding is not None), None)
    if mesh is None or not axes:
        return
    in_loop, times = _place(op)
    for value in op.results:
        sharding = propagated.sharding_of(value) or Sharding(mesh, ((),) * len(tensor_of(value).shape))
        whole = Sharding(mesh, tuple(tuple(a for a in dim if a not in axes) for dim in sharding.dimensions))
        yield Reduced(
            _elements(value, sharding), _elements(value, whole), _devices(op, mesh, tuple(axes)), in_loop, times
        )


def _axes_apart(rule: str, shardings: list[Sharding | None]) -> set[str]:
    """The axes that split a dimension of an operand which the op with that rule adds up or looks things up in."""
    apart = {factor for listed in _APART.findall(rule) for factor in listed.split(", ")}
    operands = re.findall(r"\[([^\]]*)\]", rule[: rule.find("->")])
    found: set[str] = set()
    for sharding, dims in zip(shardings, operands, strict=False):
        if sharding is not None:
            for axes, factors in zip(sharding.dimensions, dims.split(", "), strict=False):
                found |= set(axes) if apart & set(re.findall(r"[a-z](?:_\d+)?", factors)) else set()
    return found


def _tags(op: ir.Operation) -> Iterator[Sharding]:
    """What constraints behind `op` say of its results that are not reduced."""
    for user in users_of(op):
        if user.name == CONSTRAINT and _sharding(user).unreduced:
            yield _sharding(user)


def _some_of(op: ir.Operation, value: ir.Value) -> Reduced:
    """A reduction of at most the elements of `value`, over any number of devices."""
    in_loop, times = _place(op)
    tensor = tensor_of(value)
    return Reduced(1, prod(tensor.shape) if tensor is not None else sys.maxsize, 0, in_loop, times)


def _place(op: ir.Operation) -> tuple[bool, float]:
    """Whether `op` is in a loop, and how often it runs per step."""
    times, in_loop = 1.0, False
    while op.parent is not None:
        op = op.parent.operation
        if op.name == WHILE:
            count = trip_count(Loop(op))
            times *= inf if count is None else count
            in_loop = True
    return in_loop, times


def _elements(value: ir.Value, sharding: Sharding) -> int:
    """Of `value` on one device. Dimensions that do not divide are padded."""
    tensor = tensor_of(value)
    assert tensor is not None
    op = value.owner.operation
    sizes = [_devices(op, sharding.mesh, axes) for axes in sharding.dimensions]
    return prod(-(-length // size) for length, size in zip(tensor.shape, sizes, strict=True))


def _devices(op: ir.Operation, mesh: str, axes: Axes) -> int:
    """How many devices `axes` span."""
    found = _mesh(op, mesh)
    assert found is not None
    return prod(_size(dict(found.axes), axis) for axis in axes)


def _mesh(op: ir.Operation, mesh: str) -> Mesh | None:
    return mesh_named(module_of(op), mesh[1:]) if mesh.startswith("@") else mesh_of(ir.Attribute.parse(f"#sdy.{mesh}"))


def _size(sizes: dict[str, int], axis: str) -> int:
    _, _, sub = axis.partition(")")  # `"data":(1)2` is a part of it
    return int(sub) if sub else sizes[axis.strip('"')]


def broken_tags(module: ir.Operation) -> list[str]:
    """In words, where a value is not reduced but what is made of it is not said to be so; empty when all is said."""
    return [line for op in tags_of(module) for line in _broken(op)]


def _broken(tag: ir.Operation) -> Iterator[str]:
    axes = _sharding(tag).unreduced
    for use in tag.results[0].uses:
        yield from _misread(use, axes)
    before = defining_op(tag.operands[0])
    if before is None:
        return
    if before.name == WHILE:
        position = ir.OpResult(tag.operands[0]).result_number
        for end in (before, Loop(before).next_values):
            if not _is_unreduced(end.operands[position], axes):
                yield _at(before, f"carried value {position} is not reduced only after the loop")
    elif before.name not in (*ROWS, CONSTRAINT) or any(_is_unreduced(v, axes) for v in before.operands):
        yield from _mixed(before, axes)


def _misread(use: ir.OpOperand, axes: Axes) -> Iterator[str]:
    """Where `use` reads a value that is not reduced over `axes`, and its result is not said to be so."""
    op, position = use.owner.operation, use.operand_number
    if op.name == CONSTRAINT:
        if _sharding(op).unreduced not in ((), axes):
            yield _at(op, "it changes the axes over which the value is not reduced")
        return
    loop = Loop(op) if op.name == WHILE else loop_around(op.block) if op.name == "stablehlo.return" else None
    if loop is None:
        if op.name in ("stablehlo.return", "func.return", "sdy.return"):
            yield _at(op, "a value that is not reduced leaves its region")
        for result in op.results:
            if not _all_say(result, axes):
                yield _at(op, "its operand is not reduced, its result is said to be")
        return
    ends = (loop.op.operands[position], loop.next_values.operands[position])
    if not all(_is_unreduced(end, axes) for end in ends) or not _all_say(loop.op.results[position], axes):
        yield _at(loop.op, f"carried value {position} is not reduced in some places only")
    if next(loop.condition.arguments[position].uses, None) is not None:
        yield _at(loop.op, "its condition reads a value that is not reduced")
    for inner in loop.body.arguments[position].uses:
        if inner.owner.operation.name != "stablehlo.return":
            yield from _misread(inner, axes)


def _mixed(op: ir.Operation, axes: Axes) -> Iterator[str]:
    """Where `op`, whose result is said to be not reduced, is not linear, or reads addends that are reduced."""
    partial = frozenset(i for i, operand in enumerate(op.operands) if _is_unreduced(operand, axes))
    if not partial:
        yield _at(op, "its result is said to be not reduced, none of its operands is")
        return
    try:
        addends = addends_of(op, Crossing(global_reduction("", axes), "any", partial, lambda *_: None))
    except Declined as reason:
        yield _at(op, reason.reason)
        return
    if partial != set(addends):
        yield _at(op, "a sum of what is not reduced and what is")


def _is_unreduced(value: ir.Value, axes: Axes) -> bool:
    op = defining_op(value)
    if op is not None:
        return op.name == CONSTRAINT and _sharding(op).unreduced == axes
    argument = ir.BlockArgument(value)
    loop = loop_around(argument.owner)
    return loop is not None and _is_unreduced(loop.op.operands[argument.arg_number], axes)


def _all_say(value: ir.Value, axes: Axes) -> bool:
    users = [use.owner.operation for use in value.uses]
    return all(user.name == CONSTRAINT and _sharding(user).unreduced == axes for user in users)


def _at(op: ir.Operation, what: str) -> str:
    return f"{op.name} at {source_of(op.location)}: {what}"
