"""Roles of arguments: parameters, optimizer state, batches."""

import re
from collections.abc import Iterator

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import forward
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.signature import Signature, Slot
from paropt.passes.state.alike_shardings import Gradient, gradients_of, states_of

PARAMETER, OPTIMIZER, BATCH, STATE, EXPERT = "parameter", "optimizer", "batch", "state", "expert"


class Roles:
    """The roles of the arguments of a function. Holds live values: use it at once."""

    def __init__(self, signature: Signature) -> None:
        self.states = states_of(signature)
        self.gradients: list[Gradient] = gradients_of(signature, self.states)
        self._state = {state.old.number for state in self.states}
        self._parameters = {gradient.parameter.number for gradient in self.gradients}
        if not self._parameters:  # no loop adds up gradients
            news = {state.new.number for state in self.states}
            others = {slot.value for slot in signature.results if slot.number not in news}
            self._parameters = {n for n in self._state if _reaches(signature.arguments[n].value, others)}

    def of(self, argument: Slot) -> tuple[str, ...]:
        """State or batch; state is a parameter, on which other results depend, or not. None without a name.

        Experts are known by their names only.
        """
        if not argument.path:
            return ()
        if argument.number not in self._state:
            return (BATCH,)
        kind = PARAMETER if argument.number in self._parameters else OPTIMIZER
        return (STATE, kind, EXPERT) if "expert" in argument.path.lower() else (STATE, kind)


def plain_path(path: str) -> str:
    """`state['params'][0].kernel` as `state/params/0/kernel`."""
    return re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]|\.", lambda found: f"/{found[1] or ''}", path).rstrip("/")


def examples_dimension(batch: Slot) -> int:
    """Which dimension counts examples: the first, or the second when a loop takes one micro-batch after the other."""
    for use in batch.value.uses:
        op = use.owner.operation
        if op.name == WHILE and _is_sliced(Loop(op).body.arguments[use.operand_number]):
            return 1
    return 0


def _is_sliced(value: ir.Value) -> bool:
    """Whether one element of the first dimension is read at a time."""
    for use in value.uses:
        op = use.owner.operation
        if op.name == "stablehlo.dynamic_slice" and use.operand_number == 0:
            return ir.DenseI64ArrayAttr(op.attributes["slice_sizes"])[0] == 1
        if op.name == "func.call":
            return True  # jax calls a function that slices
    return False


def _reaches(value: ir.Value, ends: set[ir.Value]) -> bool:
    """Whether a value in `ends` depends on `value`: through data, as far as ops at this level tell."""

    def made_by(use: ir.OpOperand) -> Iterator[ir.Value]:
        op: ir.Operation | None = use.owner.operation
        while op is not None and op.name != "func.func":
            yield from op.results
            op = op.parent.operation if op.parent is not None else None

    return any(each in ends for each in forward([value], made_by))
