"""Origins of collectives without metadata: the labels of the ops around them.

XLA:GPU concatenates arrays before it reduces them, and XLA:TPU splits all-reduces over slices: their results have no
label, or (XLA:GPU of jax 0.12) that of one of these arrays. The label that an op had is then on the op that has taken
its place behind the collective, or on the reducer; else the ops that compute the operands have labels of their own.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from paropt.hlo.parser import Computation, Instruction, Module

_MOST_VISITED = 1000  # ops on the way to labels; the search ends there
_MOVES = frozenset("bitcast copy copy-start copy-done get-tuple-element reshape slice transpose".split())
_HOLDS = _MOVES | {"parameter", "tuple"}  # of a fusion that only moves data
# These have the label of something larger than the value that is asked for.
_UNLABELLED = ("while", "conditional", "get-tuple-element", "tuple", "parameter")
_RENDEZVOUS = re.compile(r'_xla_host_transfer_rendezvous="([^"]*)"')


class Origin(NamedTuple):
    """The label of an op."""

    op_name: str  # JAX's name stack
    source_file: str
    source_line: int


class _Value(NamedTuple):
    """A value, or one element of it, in a computation that some instructions call: outermost first."""

    computation: Computation
    name: str
    element: int | None
    callers: tuple[tuple[Computation, Instruction], ...]

    @property
    def instruction(self) -> Instruction:
        return self.computation.instructions[self.name]

    @property
    def key(self) -> tuple[object, ...]:
        return self.computation.name, self.name, self.element, tuple(caller.name for _, caller in self.callers)

    def operand(self, number: int, element: int | None = None) -> "_Value":
        return self._replace(name=self.instruction.operands[number], element=element)

    def operands(self) -> list["_Value"]:
        return [self.operand(number) for number in range(len(self.instruction.operands))]


class Origins:
    """Looks for labels in one module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._users: dict[str, dict[str, list[Instruction]]] = {}

    def of(self, computation: Computation, collective: Instruction) -> tuple[Origin, ...]:
        """The labels around `collective`, each once, in the order of lines; empty when it has the only one itself."""
        own = self._label(collective)
        if own and not self._is_of_several(computation, collective):
            return ()
        received = counterpart(computation, collective, "recv") or collective
        found = set(self._behind(computation, received))
        if not own:
            found = found or self._in_front(computation, collective)
        elif found - {own}:
            found |= {own}
        else:
            return ()
        return tuple(sorted(found, key=lambda origin: (origin.source_file, origin.source_line, origin.op_name)))

    def _is_of_several(self, computation: Computation, collective: Instruction) -> bool:
        """Whether the arrays that `collective` works on are put together first."""
        operands = [computation.instructions[name] for name in collective.operands]
        made = [
            self._module.computation(each.callee("calls"), each).root if each.opcode == "fusion" else each
            for each in operands
        ]
        return any(each.opcode == "concatenate" for each in made)

    def _in_front(self, computation: Computation, collective: Instruction) -> set[Origin]:
        """The label of the reducer, and those of the operands unless there is but one: then it is the same value's."""
        found = set(self._before(computation, collective))
        own = self._reducer_label(collective)
        if not own:
            return found
        return {own, *found} if len(found) > 1 else {own}

    def _label(self, instruction: Instruction) -> Origin | None:
        file, line = self._module.source(instruction)
        return Origin(instruction.metadata().get("op_name", ""), file, line) if file else None

    def _reducer_label(self, collective: Instruction) -> Origin | None:
        """The label of the reducer of `collective`, if it is that of the collective.

        Not if it has another name than the arguments: jax then took the reducer over from another collective.
        """
        reducer = self._module.computations.get(collective.attributes.get("to_apply", "").removeprefix("%"))
        label = reducer and self._label(reducer.root)
        if not reducer or not label:
            return None
        parameters = [i for i in reducer.instructions.values() if i.opcode == "parameter"]
        names = {i.metadata().get("op_name", "").rpartition("/")[2] for i in parameters}
        return label if names == {label.op_name.rpartition("/")[2]} else None

    def _behind(self, computation: Computation, collective: Instruction) -> Iterator[Origin]:
        """The first label on each way that the results take through ops that only move data."""
        waiting, seen = [collective], {collective.name}
        while waiting and len(seen) < _MOST_VISITED:
            for user in self._users_of(computation, waiting.pop(0)):
                if user.name in seen or not self._moves(user):
                    continue
                seen.add(user.name)
                label = None if user.opcode in _UNLABELLED else self._label(user)
                if label:
                    yield label
                else:
                    waiting.append(user)

    def _users_of(self, computation: Computation, instruction: Instruction) -> list[Instruction]:
        if computation.name not in self._users:
            users: dict[str, list[Instruction]] = defaultdict(list)
            for user in computation.instructions.values():
                for operand in dict.fromkeys(user.operands):
                    users[operand].append(user)
            self._users[computation.name] = users
        return self._users[computation.name].get(instruction.name, [])

    def _moves(self, instruction: Instruction) -> bool:
        if instruction.opcode == "fusion":
            inside = self._module.computation(instruction.callee("calls"), instruction).instructions.values()
            return all(each.opcode in _HOLDS for each in inside)
        return instruction.opcode in _MOVES or instruction.opcode.endswith("-done")

    def _before(self, computation: Computation, collective: Instruction) -> Iterator[Origin]:
        """The first label on each way back from the operands."""
        waiting = _Value(computation, collective.name, None, ()).operands()
        seen: set[tuple[object, ...]] = set()
        while waiting and len(seen) < _MOST_VISITED:
            value = waiting.pop(0)
            if value.key in seen:
                continue
            seen.add(value.key)
            instruction = value.instruction
            label = None if instruction.opcode in _UNLABELLED else self._label(instruction)
            if not label and _is_reduction(instruction):
                label = self._reducer_label(instruction)
            if label:
                yield label
            else:
                waiting = [*self._made_of(value), *waiting]

    def _made_of(self, value: _Value) -> Iterable[_Value]:
        """The values that the value, which has no label, is made of."""
        instruction = value.instruction
        match instruction.opcode:
            case "fusion" | "call":
                role = "calls" if instruction.opcode == "fusion" else "to_apply"
                inside = self._module.computation(instruction.callee(role), instruction)
                callers = (*value.callers, (value.computation, instruction))
                return [_Value(inside, inside.root.name, value.element, callers)]
            case "while":  # the values of its last iteration
                inside = self._module.computation(instruction.callee("body"), instruction)
                return [_Value(inside, inside.root.name, value.element, ())]
            case "parameter":
                if not value.callers:
                    return []
                computation, caller = value.callers[-1]
                operand = caller.operands[int(instruction.literal)]
                return [_Value(computation, operand, value.element, value.callers[:-1])]
            case "get-tuple-element":
                return [value.operand(0, int(instruction.attribute("index")))]
            case "tuple" if value.element is not None:
                return [value.operand(value.element)]
            case "recv":
                sent = counterpart(value.computation, instruction, "send")
                return [value._replace(name=sent.operands[0], element=None)] if sent else []
        return value.operands()


def _is_reduction(instruction: Instruction) -> bool:
    return instruction.opcode.removesuffix("-start") in ("all-reduce", "reduce-scatter")


def counterpart(computation: Computation, transfer: Instruction, opcode: str) -> Instruction | None:
    """The `send` or `recv` that meets with the transfer to the host, which is of the other kind."""
    place = _RENDEZVOUS.search(transfer.attributes.get("frontend_attributes", ""))
    if not place:
        return None
    for instruction in computation.instructions.values():
        if instruction.opcode == opcode and place[0] in instruction.attributes.get("frontend_attributes", ""):
            return instruction
    return None
