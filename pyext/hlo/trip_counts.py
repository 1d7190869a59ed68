"""Trip counts of the loops of optimized HLO, where the text proves them.

XLA:CPU and XLA:GPU write the count on the loop (`known_trip_count`). XLA:TPU does not: there it is proven from a
counter that starts at a constant, grows by a constant, and is compared with a constant.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from paropt.hlo.parser import Array, Computation, Instruction, Module

# Where all values of a proven loop stay within this, no integer type of 32 bits or more wraps around.
_MAX_COUNTER = 2**31 - 1
_COUNTER_TYPES = ("s32", "u32", "s64", "u64")
_MAX_DEPTH = 50  # of a chain of scalar instructions; a value behind a longer one is not known
_SAME_VALUE = ("copy", "copy-start", "copy-done", "bitcast", "reshape", "opt-barrier")


@dataclass(frozen=True)
class Carried:
    """The loop-carried value at `position` when an iteration starts, plus `offset`."""

    position: int
    offset: int


@dataclass(frozen=True)
class Comparison:
    """`left direction right`, with the counter on the left."""

    left: Carried
    direction: str
    right: int


Value: TypeAlias = int | Carried | Comparison | tuple["Value", ...] | None  # None: not known


class Scope:
    """A computation as it is called at one place: the known facts of its parameters, hence of its scalars."""

    def __init__(self, module: Module, computation: Computation, argument: Callable[[int], Value]) -> None:
        self.module = module
        self.computation = computation
        self._argument = argument
        self._known: dict[str, Value] = {}
        self._depth = 0

    @classmethod
    def of_entry(cls, module: Module) -> "Scope":
        return cls(module, module.entry, lambda _number: None)

    def inside(self, caller: Instruction, callee: str, first_operand: int = 0) -> "Scope":
        """The computation `callee`, whose parameters are `caller`'s operands from `first_operand` on."""
        operands = caller.operands[first_operand:]

        def argument(number: int) -> Value:
            return self.value(operands[number]) if number < len(operands) else None

        return Scope(self.module, self.module.computation(callee, caller), argument)

    def inside_loop(self, loop: Instruction, role: str) -> "Scope":
        """The `body` or `condition` of a `while`: a loop-invariant value keeps its initial value."""
        computation = self.module.computation(loop.callee(role), loop)
        carried = self._carried(loop)
        return Scope(self.module, computation, lambda _number: carried)

    def trip_count(self, loop: Instruction) -> int | None:
        """How often the body of a `while` of this computation runs; None when the text does not prove it."""
        known = loop.config().get("known_trip_count")
        if known is not None:
            return int(known["n"])
        condition = self.inside_loop(loop, "condition")
        match condition.value(condition.computation.root.name):
            case Comparison(Carried(position, offset), "LT", bound):
                return self._count_to(loop, position, bound - offset)
        return None

    def _count_to(self, loop: Instruction, position: int, bound: int) -> int | None:
        """Iterations until the carried value at `position` is no longer below `bound`."""
        start = self._initial(loop)[position]
        body = self.inside_loop(loop, "body")
        following = body.value(body.computation.root.name)
        if not isinstance(start, int) or not isinstance(following, tuple) or position >= len(following):
            return None
        match following[position]:
            case Carried(same, step) if same == position and step > 0 and abs(start) + abs(bound) + step < _MAX_COUNTER:
                return max(0, -(-(bound - start) // step))
        return None

    def _initial(self, loop: Instruction) -> tuple[Value, ...]:
        width = 1 if isinstance(loop.shape, Array) else len(loop.shape)
        match self.value(loop.operands[0]):
            case tuple() as values if len(values) == width:
                return values
        return (None,) * width

    def _carried(self, loop: Instruction) -> tuple[Value, ...]:
        initial = self._initial(loop)
        symbols = tuple(Carried(position, 0) for position in range(len(initial)))
        body = Scope(self.module, self.module.computation(loop.callee("body"), loop), lambda _number: symbols)
        following = body.value(body.computation.root.name)
        if not isinstance(following, tuple) or len(following) != len(symbols):
            return symbols
        unchanged = [after == symbol for after, symbol in zip(following, symbols, strict=True)]
        return tuple(
            value if kept and isinstance(value, int) else symbol
            for value, kept, symbol in zip(initial, unchanged, symbols, strict=True)
        )

    def value(self, name: str) -> Value:
        """The known facts of the value `name`: scalars of integers, comparisons of them, and tuples of such."""
        if name not in self._known:
            self._known[name] = None  # holds while it is computed: a value that needs itself is not known
            if self._depth < _MAX_DEPTH:
                self._depth += 1
                self._known[name] = self._value(self.computation.instructions[name])
                self._depth -= 1
        return self._known[name]

    def _value(self, instruction: Instruction) -> Value:
        match instruction.opcode:
            case "parameter":
                return self._argument(int(instruction.literal))
            case "tuple":
                return tuple(map(self.value, instruction.operands))
            case "get-tuple-element":
                return self._element(instruction)
            case "fusion" | "call":
                role = "calls" if instruction.opcode == "fusion" else "to_apply"
                callee = self.inside(instruction, instruction.callee(role))
                return callee.value(callee.computation.root.name)
            case opcode if opcode in _SAME_VALUE:
                return self.value(instruction.operands[0])
            case "compare":
                left, right = map(self.value, instruction.operands)
                return _compared(left, right, instruction.attribute("direction"))
        if not isinstance(instruction.shape, Array) or instruction.shape.dims:
            return None
        if instruction.shape.dtype not in _COUNTER_TYPES:
            return None
        match instruction.opcode:
            case "constant":
                return int(instruction.literal) if re.fullmatch(r"-?\d+", instruction.literal) else None
            case "add":
                return _sum(*map(self.value, instruction.operands))
        return None

    def _element(self, instruction: Instruction) -> Value:
        values = self.value(instruction.operands[0])
        index = int(instruction.attribute("index"))
        return values[index] if isinstance(values, tuple) and index < len(values) else None


def _sum(left: Value, right: Value) -> Value:
    match left, right:
        case int(), int():
            return left + right
        case (Carried(position, offset), int(step)) | (int(step), Carried(position, offset)):
            return Carried(position, offset + step)
    return None


def _compared(left: Value, right: Value, direction: str) -> Value:
    match left, right, direction:
        case Carried(), int(), _:
            return Comparison(left, direction, right)
        case int(), Carried(), "GT":
            return Comparison(right, "LT", left)
    return None
