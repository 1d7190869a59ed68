"""Values that have to be sharded alike, so that none is resharded between equal roles.

Alpa's three constraints: a parameter and its gradient, old and new; state and its replacement; loop-carried values from
one trip to the next.
"""

from collections.abc import Iterator
from typing import NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import is_annotation
from paropt.passes.ir.signature import Signature, Slot, signatures
from paropt.passes.sharding.distributions import Distribution, distribution_of
from paropt.passes.sharding.meshes import Mesh, meshes_of
from paropt.passes.sharding.shardings import MANUAL, SHARDING, is_manual
from paropt.passes.state.aliases import Aliases
from paropt.passes.state.roundtrip import state_of
from paropt.passes.state.updates import ancestors
from paropt.passes.support.traversal import defining_op, ops_of

_MEMORY = "mhlo.memory_kind"


class State(NamedTuple):
    """An argument that comes back as a result."""

    old: Slot
    new: Slot


class Gradient(NamedTuple):
    """A sum that a loop accumulates, and the parameter that it is a gradient of."""

    parameter: Slot
    loop: ir.Operation
    position: int  # among the loop-carried values


class Break(NamedTuple):
    """Two things that have to be alike and are not."""

    op: ir.Operation  # where
    text: str


class Placements:
    """How values are sharded. `settled`: after propagation, where no sharding means whole on each device."""

    def __init__(self, module: ir.Operation, *, settled: bool) -> None:
        self._meshes = meshes_of(module)
        self._settled = settled

    @property
    def mesh(self) -> Mesh | None:
        return next((mesh for mesh in self._meshes.values() if len(mesh.device_ids) > 1), None)

    def of_slot(self, slot: Slot) -> Distribution | None:
        """Of an argument or a result of the function; None when XLA has yet to choose it."""
        if SHARDING in slot.notes:
            return self._known(slot.notes[SHARDING])
        return self._whole(slot.value) if slot.kind == "argument" or self._settled else None

    def of_value(self, value: ir.Value) -> Distribution | None:
        """Of a value that an op computes, or a loop carries."""
        op = defining_op(value)
        if op is None:
            around = ir.BlockArgument(value).owner.owner.operation
            number = ir.BlockArgument(value).arg_number
            return self._of_result(around, number) if around.name == WHILE else None
        return self._of_result(op, ir.OpResult(value).result_number)

    def of_carried(self, loop: Loop, position: int) -> list[Distribution]:
        """The distributions given for a loop-carried value: of its init operand, its next value, and its use
        afterwards."""
        values = (loop.op.operands[position], loop.next_values.operands[position])
        found = (*map(self.of_value, values), self.of_sum(loop, position))
        return [distribution for distribution in found if distribution is not None]

    def of_sum(self, loop: Loop, position: int) -> Distribution | None:
        """Of a value that the loop carries: as said of it, or else of the one use that is made of it afterwards."""
        result = loop.op.results[position]
        readers = [use.owner.operation for use in result.uses]
        if len(readers) == 1 and is_annotation(readers[0]):
            return self.of_value(readers[0].results[0])
        return self.of_value(result)

    def _of_result(self, op: ir.Operation, number: int) -> Distribution | None:
        if is_annotation(op):
            return self._known(op.attributes["sharding"]) if "sharding" in op.attributes else None  # of a barrier
        if op.name == MANUAL:
            return self._known(sdy.TensorShardingPerValueAttr(op.attributes["out_shardings"]).shardings[number])
        if SHARDING in op.attributes:
            return self._known(sdy.TensorShardingPerValueAttr(op.attributes[SHARDING]).shardings[number])
        return self._whole(op.results[number])

    def _known(self, attribute: ir.Attribute) -> Distribution | None:
        found = distribution_of(attribute, self._meshes)
        return found if found is not None and (found.is_closed or self._settled) else None

    def _whole(self, value: ir.Value) -> Distribution | None:
        if not self._settled or self.mesh is None:
            return None
        return Distribution(self.mesh, ((),) * ir.RankedTensorType(value.type).rank, "", True)


def differ(one: Distribution | None, other: Distribution | None) -> bool:
    """Whether both are known, and put elements on other devices."""
    if one is None or other is None:
        return False
    if one.is_whole and other.is_whole:
        return False
    return (one.mesh, one.dimensions, one.unreduced) != (other.mesh, other.dimensions, other.unreduced)


def _is_to_be_summed(parameter: Distribution | None, gradient: Distribution | None) -> bool:
    """Whether the two differ only in a sum over devices that is still to be taken of the gradient."""
    if parameter is None or gradient is None:
        return False
    return bool(gradient.unreduced) and not differ(parameter, gradient._replace(unreduced=""))


def _is_cut_locally(start: Distribution | None, carried: Distribution | None) -> bool:
    """Whether a sum that starts so needs nothing from other devices: each device keeps its part of the init operand, or
    takes 0."""
    if start is None or carried is None or not carried.unreduced or start.unreduced:
        return False
    cuts = zip(start.dimensions, carried.dimensions, strict=True)
    same_mesh = start.mesh == carried.mesh and all(after[: len(before)] == before for before, after in cuts)
    return start.is_whole or same_mesh


def states_of(signature: Signature) -> list[State]:
    """The arguments that come back, with the results that they come back as, however these are sharded."""
    aliases = Aliases(signature, types_only=True)
    pairs = aliases.pairs(signature.arguments)
    found = sorted(state_of(aliases, pairs))
    return [State(signature.arguments[n], signature.results[pairs[n].result]) for n in found]


def gradients_of(signature: Signature, known: list[State]) -> list[Gradient]:
    """The sums of loops that are gradients of state: a parameter is read in the loop, its momentum is not."""
    found = ((state.old, sum_for(state.old.value, state.new.value)) for state in known)
    return [Gradient(old, *made) for old, made in found if made is not None]


def sum_for(old: ir.Value, new: ir.Value) -> tuple[ir.Operation, int] | None:
    """The loop that reads `old`, and the position of the sum in it that `new` is computed from; None of no such."""
    for value, _ in ancestors(new):
        loop = defining_op(value)
        if loop is None or loop.name != WHILE or not _reads(loop, old):
            continue
        position = ir.OpResult(value).result_number
        if _accumulates(Loop(loop), position):
            return loop, position
    return None


def breaks(module: ir.Operation, placements: Placements) -> Iterator[Break]:
    """Where `module` breaks the contract, as far as its shardings are known."""
    for signature in signatures(module):
        known = states_of(signature)
        for state in known:
            yield from _state_breaks(signature, state, placements)
        for gradient in gradients_of(signature, known):
            yield from _gradient_breaks(gradient, placements)
    for op in ops_of(module, WHILE):
        if not is_manual(op):
            yield from _carry_breaks(Loop(op), placements)


def _state_breaks(signature: Signature, state: State, placements: Placements) -> Iterator[Break]:
    one, other = placements.of_slot(state.old), placements.of_slot(state.new)
    if differ(one, other):
        yield Break(signature.function, f"{state.old} is sharded {one}, and {state.new}, which replaces it, {other}")
    kinds = [ir.StringAttr(s.notes[_MEMORY]).value if _MEMORY in s.notes else "" for s in state]
    if all(kinds) and kinds[0] != kinds[1]:
        text = f"{state.old} is in memory {kinds[0]}, and {state.new}, which replaces it, in {kinds[1]}"
        yield Break(signature.function, text)


def _gradient_breaks(gradient: Gradient, placements: Placements) -> Iterator[Break]:
    loop = Loop(gradient.loop)
    one, other = placements.of_slot(gradient.parameter), placements.of_value(loop.op.results[gradient.position])
    if differ(one, other) and not _is_to_be_summed(one, other):
        what = f"carried value {gradient.position}, its gradient, {other}"
        yield Break(loop.op, f"{gradient.parameter} is sharded {one}, and {what}")


def _carry_breaks(loop: Loop, placements: Placements) -> Iterator[Break]:
    for position, result in enumerate(loop.op.results):
        carried = placements.of_value(result)
        start, following = loop.op.operands[position], loop.next_values.operands[position]
        if _unconstrained(following) == loop.body.arguments[position]:
            continue  # the loop leaves it as it is
        for name, value in (("starts as", start), ("goes on as", following)):
            given = placements.of_value(value)
            is_local = value == start and _is_cut_locally(given, carried)
            if defining_op(value) is not None and differ(carried, given) and not is_local:
                yield Break(loop.op, f"carried value {position} is sharded {carried}, and {name} {given}")


def _unconstrained(value: ir.Value) -> ir.Value:
    """The value under the sharding annotations of `value`."""
    op = defining_op(value)
    while op is not None and is_annotation(op):
        value = op.operands[0]
        op = defining_op(value)
    return value


def _reads(loop: ir.Operation, value: ir.Value) -> bool:
    """Whether the loop carries or captures the value."""
    return any(_is_within(use.owner.operation, loop) for use in value.uses)


def _is_within(op: ir.Operation | None, outer: ir.Operation) -> bool:
    while op is not None:
        if op == outer:
            return True
        op = op.parent.operation if op.parent is not None else None
    return False


def _accumulates(loop: Loop, position: int) -> bool:
    """Whether the next loop-carried value is computed from this one, and is not the same."""
    argument, following = loop.body.arguments[position], loop.next_values.operands[position]
    return argument != following and any(value == argument for value, _ in ancestors(following))
