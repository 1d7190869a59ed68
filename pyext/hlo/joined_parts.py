"""All-reduces that all-gather: XLA:TPU's form for arrays of one dimension, in whole or after it has cut them.

Each device writes its part into zeros, at a place of its own, and the all-reduce adds these up. No two parts overlap:
that is an all-gather, and no sum of anything.
"""

from typing import NamedTuple

from paropt.hlo.parser import Array, Computation, Instruction, Module

_SAME_VALUE = ("copy", "copy-start", "copy-done", "bitcast", "reshape", "opt-barrier")
_DEVICE_NUMBERS = ("partition-id", "replica-id")
# Of these, a place may be made that is another one on each device.
_COMPUTED = ("add", "subtract", "multiply", "clamp", "convert", "dynamic-slice", *_SAME_VALUE)


class Value(NamedTuple):
    """A value of a computation, and the fusion or call that the computation is inlined at."""

    module: Module
    computation: Computation
    instruction: Instruction
    caller: "Value | None" = None

    def operand(self, number: int) -> "Value":
        return self._replace(instruction=self.computation.instructions[self.instruction.operands[number]])

    @property
    def operands(self) -> list["Value"]:
        return [self.operand(number) for number in range(len(self.instruction.operands))]

    @property
    def elements(self) -> int:
        return self.instruction.shape.elements if isinstance(self.instruction.shape, Array) else 0


def joins_parts(module: Module, computation: Computation, name: str, group: int) -> bool:
    """Whether an all-reduce among `group` devices of the value `name` puts parts together that do not overlap."""
    value = _origin(Value(module, computation, computation.instructions[name]))
    if value.instruction.opcode != "dynamic-update-slice":
        return False
    zeros, part, *places = value.operands
    all_of_it = group > 1 and part.elements * group == value.elements
    return all_of_it and _is_zero(zeros) and all(map(_is_known, places)) and any(map(_is_own, places))


def _origin(value: Value) -> Value:
    """Where `value` comes from, through copies, loops that keep it, and into fusions, or out of them."""
    while (earlier := _earlier(value) or _kept(value)) is not None:
        value = earlier
    return value


def _earlier(value: Value) -> Value | None:
    instruction = value.instruction
    match instruction.opcode:
        case opcode if opcode in _SAME_VALUE and instruction.operands:
            return value.operand(0)
        case "fusion":
            callee = value.module.computation(instruction.callee("calls"), instruction)
            return Value(value.module, callee, callee.root, value)
        case "parameter" if value.caller is not None:
            return value.caller.operand(int(instruction.literal))
        case "get-tuple-element":
            made = _passed(value.operand(0))
            return made.operand(_index(value)) if made.instruction.opcode == "tuple" else None
    return None


def _passed(value: Value) -> Value:
    """Where `value` comes from within a trip of the loops around it."""
    while (earlier := _earlier(value)) is not None:
        value = earlier
    return value


def _kept(value: Value) -> Value | None:
    """The one value that an element of a loop has in all trips, seen inside the loop or behind it."""
    waiting, seen, found = [value], set[tuple[str, str, int]](), dict[tuple[str, str], Value]()
    while waiting:
        each = _passed(waiting.pop())
        loop = _loop_of(each)
        if loop is None:
            found[each.computation.name, each.instruction.name] = each
            continue
        number = _index(each)
        key = loop.computation.name, loop.instruction.name, number
        start, end = _passed(loop.operand(0)), _end_of(loop)
        if start.instruction.opcode != "tuple" or end.instruction.opcode != "tuple":
            return None
        if key not in seen:
            seen.add(key)
            waiting += [start.operand(number), end.operand(number)]
    return next(iter(found.values())) if seen and len(found) == 1 else None


def _loop_of(value: Value) -> Value | None:
    """The loop that `value` is an element of, inside or behind it."""
    if value.instruction.opcode != "get-tuple-element":
        return None
    made = _passed(value.operand(0))
    if made.instruction.opcode == "while":
        return made
    if made.instruction.opcode != "parameter" or made.computation.name not in made.module.loops:
        return None
    return Value(made.module, *made.module.loops[made.computation.name])


def _end_of(loop: Value) -> Value:
    body = loop.module.computation(loop.instruction.callee("body"), loop.instruction)
    return Value(loop.module, body, body.root)


def _index(value: Value) -> int:
    return int(value.instruction.attribute("index"))


def _is_zero(value: Value) -> bool:
    value = _origin(value)
    if value.instruction.opcode == "broadcast":
        return _is_zero(value.operand(0))
    return value.instruction.opcode == "constant" and value.instruction.literal in ("0", "-0", "false")


def _is_known(value: Value) -> bool:
    """Whether `value` depends on nothing but the number of the device."""
    value = _origin(value)
    opcode = value.instruction.opcode
    return opcode in ("constant", *_DEVICE_NUMBERS) or (opcode in _COMPUTED and all(map(_is_known, value.operands)))


def _is_own(value: Value) -> bool:
    """Whether `value` depends on the number of the device."""
    value = _origin(value)
    return value.instruction.opcode in _DEVICE_NUMBERS or any(map(_is_own, value.operands))
