"""The parts of a training step that is cut into pipeline stages, and how ops name theirs.

A step is `before | loop over micro-batches | after`. Each op of the loop's body and behind it is in one `Part`, but for
*free* ops: cheap functions of values that every part can have (constants, arguments, the number of the micro-batch,
rows of the batch), which each part that reads them has a copy of. The parts of a trip run in one order (`rank`), which
no op reads against:

    F0, F1, ..., Fn, Bn, ..., B1, B0, Wn, ..., W1, W0

of which the last ones, needed by gradients of weights only, are separate only when that is asked for. Data types of
this package, in the order in which they are made:

- `BlockGraph`: the ops of a block by number, and which read what;
- `StepLoop`: the loop, and its carried values: `Sum`s and `Rows`;
- `Phases`: which ops are free, forward and backward;
- `Cut`: where the forward ops are cut, and the cost of that;
- `Part` of each op, written on the op as `paropt.stage = "F0"`, which `outline-stages` reads;
- `Plan`: the functions of the step, each with its inputs and results: a `Task`;
- `StageManifest`: the same for callers, by names of values: a `StageProgram` for each function.

Tests: test/passes/cut-stages.mlir, test/passes/outline-stages.mlir.
"""

from typing import Literal, NamedTuple

from jaxlib.mlir import ir

STAGE = "paropt.stage"

Kind = Literal["F", "B", "W", "U"]  # forward, backward, gradients of weights, update
_KINDS: tuple[Kind, ...] = ("F", "B", "W", "U")


class Part(NamedTuple):
    """The ops of one stage in one phase: all forward ops of stage 0, for one."""

    kind: Kind
    stage: int

    def __str__(self) -> str:
        return f"{self.kind}{self.stage}"

    @property
    def rank(self) -> tuple[int, int]:
        """Its place in the order of a trip."""
        return (_KINDS.index(self.kind), self.stage if self.kind in "FU" else -self.stage)


def write_part(op: ir.Operation, part: Part) -> None:
    op.attributes[STAGE] = ir.StringAttr.get(str(part), op.context)


def part_of(op: ir.Operation) -> Part | None:
    """The part that `op` says it is in; None for a free one."""
    if STAGE not in op.attributes:
        return None
    text = ir.StringAttr(op.attributes[STAGE]).value
    kind, number = text[:1], text[1:]
    found = next((each for each in _KINDS if each == kind), None)
    return Part(found, int(number)) if found is not None and number.isdecimal() else None
