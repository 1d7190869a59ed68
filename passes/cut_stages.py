"""A training step cut into pipeline stages: each op says which stage it is in, and which phase."""

from collections.abc import Sequence
from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.ir.types import is_number, tensor_of
from paropt.passes.pipelining.backward_stages import Backward, places_of
from paropt.passes.pipelining.forward_stages import Weights, forward_cut
from paropt.passes.pipelining.op_costs import flops_of, value_bytes
from paropt.passes.pipelining.parts import STAGE, Part, part_of, write_part
from paropt.passes.pipelining.phases import phases_of, terms_of
from paropt.passes.pipelining.recomputed_ops import Recomputation, recomputation, write_copies
from paropt.passes.pipelining.stage_sums import Share, split_sums
from paropt.passes.pipelining.step_loop import Rows, StepLoop, Sum, from_arguments, loops_of, step_loop
from paropt.passes.pipelining.update_stages import update_stages
from paropt.passes.rewrite.erase import erase_unread
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.registry import Bytes, register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require

NAME = "cut-stages"


@register(inlines=True)
def cut_stages(
    module: ir.Operation,
    *,
    stages: Annotated[int, "How many stages the step is cut into."] = 2,
    cuts: Annotated[
        Literal["names", "costs"],
        "Where forward ops may be cut: between layers that names tell, if they do (`layer3`, `Block_3`), or anywhere.",
    ] = "names",
    flops_per_byte: Annotated[
        int, "Floating-point operations in the time in which a byte goes to another stage."
    ] = 1000,
    max_stage_bytes: Annotated[Bytes, "Most bytes of parameters that a stage may have; 0 is no limit."] = 0,
    recompute: Annotated[
        bool,
        "Compute functions of arguments and rows of the batch in each stage, where that costs less than to send.",
    ] = True,
) -> list[Remark]:
    """Say of each op of a training step in which pipeline stage it is.

    Before:

        %acc_w, %acc_v, %acc_l = while (...) {
          %y = dot %x, %w
          %z = dot %y, %v
          %l = reduce %z
          %dv = dot %y, %z
          %dy = dot %z, %v
          %dw = dot %x, %dy
          return %acc_w + %dw, %acc_v + %dv, %acc_l + %l
        }
        %new_w, %new_v = %w - %acc_w, %v - %acc_v

    After:

        %acc_w, %acc_v, %acc_l = while (...) {
          %y = dot %x, %w   {F0}
          %z = dot %y, %v   {F1}
          %l = reduce %z    {F1}
          %dv = dot %y, %z  {B1}
          %dy = dot %z, %v  {B1}
          %dw = dot %x, %dy {B0}
          return %acc_w + %dw {B0}, %acc_v + %dv {B1}, %acc_l + %l {F1}
        }
        %new_w, %new_v = %w - %acc_w {U0}, %v - %acc_v {U1}

    `paropt.stage` on an op is its phase (forward, backward, update) and its stage. Ops without it are cheap functions
    of values that each stage can have, and each reader has copies of them. Forward are the ops that a sum over
    micro-batches needs that reaches no new parameter: the loss. The sequence of forward ops is cut so that the most
    expensive stage is cheapest, in floating-point operations and bytes sent, by a dynamic program; each stage has
    parameters, where some cut gives each some. A backward op goes where the forward values and parameters are that it
    reads: a minimum cut of the bytes that cross each boundary, which is one cotangent. An update goes to its parameter.
    Names never decide whether the result is right: they say where cuts are looked for.

    Functions of arguments, rows of the batch and the number of the micro-batch (keys of random numbers, masks) that one
    stage makes and another reads are sent, or the reader has copies of the ops: by a minimum cut of both costs.

    A sum whose terms are made in several stages (the gradient of a tied embedding) gets an accumulator in each, which
    are added once, behind the loop. Pass-through values of the loop become values from outside.

    Legal when:

    - one loop adds something up, and its trip count is known
    - the loop carries sums, and arrays of which each trip writes its own row, and nothing else from trip to trip
    - no op may have side effects, and shapes are static
    - a sum reaches no new parameter and reads nothing transposed: the loss
    - there are as many forward ops as stages
    - terms of a sum in several stages are real numbers
    - some cut has no more than max-stage-bytes of parameters in a stage

    Worth it when:

    - no op that a stage computes again is a contraction or a sort
    - what a stage computes again takes fewer operations than to send it, as flops-per-byte says

    A sum in several stages is reassociated; no other value changes.

    Sources: GPipe and PipeDream partition layers so; Alpa's dynamic program over operators; Shardy's MPMD fragments.
    """
    if stages < 1:
        raise PipelineError(f"{NAME}{{stages={stages}}}: a step has one stage or more")
    remarks: list[Remark] = []
    for signature in signatures(module):
        loops = loops_of(signature)
        if not loops or any(STAGE in op.attributes for loop in loops for op in _ops(loop.op)):
            continue
        try:
            weights = Weights(cuts == "names", flops_per_byte, max_stage_bytes, recompute)
            cutting = _Cutting(signature, step_loop(signature, loops), stages, weights)
        except Declined as declined:
            remarks.append(missed(NAME, loops_of(signature)[0].op, declined))  # the loop may be another one by now
            continue
        remarks += cutting.remarks()
        cutting.write()
    return remarks


def _ops(loop: ir.Operation) -> list[ir.Operation]:
    return [op.operation for op in loop.regions[1].blocks[0].operations]


class _Cutting:
    """The parts of one step."""

    def __init__(self, signature: Signature, step: StepLoop, stages: int, weights: Weights) -> None:
        self._signature, self._step, self._stages = signature, step, stages
        self._phases = phases_of(step)
        self._cut = forward_cut(step, self._phases, stages, weights)
        self._backward = Backward(step, self._phases, self._cut.stage, stages)
        self.parts = {n: Part("F", stage) for n, stage in self._cut.stage.items()}
        self.parts |= {n: Part("B", stage) for n, stage in self._backward.stage.items()}
        self._again = Recomputation()
        if weights.recompute:
            self._again = recomputation(step, self._phases, self.parts, weights.flops_per_byte)
        self._shares = [(each, self._shares_of(each)) for each in step.sums]
        for each, shares in self._shares:
            tensor = tensor_of(step.argument_of(each))
            real = tensor is not None and is_number(tensor.element_type) and not _is_complex(tensor)
            require(len(shares) == 1 or real, "a sum in several stages is of complex numbers", step.loop.op)

    def _shares_of(self, sum_: Sum) -> list[Share]:
        """The terms that each stage adds to a sum, the lowest stage first."""
        found: dict[int, list[tuple[Part, ir.Value]]] = {}
        unplaced: list[ir.Value] = []
        for term in sum_.terms:
            part = self._part_of([term])
            if part is None:
                unplaced.append(term)
            else:
                found.setdefault(part.stage, []).append((part, term))
        if not found:
            return [Share(Part("F", 0), unplaced)]
        shares = [
            Share(max((part for part, _ in terms), key=lambda part: part.rank), [term for _, term in terms])
            for _, terms in sorted(found.items())
        ]
        shares[0].terms.extend(unplaced)
        return shares

    def _part_of(self, values: Sequence[ir.Value]) -> Part | None:
        """The last part that makes one of `values`."""
        through = self._phases.through
        makers = [through.graph.maker.get(root) for value in values for root in through.roots(value)]
        return max((self.parts[n] for n in makers if n in self.parts), key=lambda part: part.rank, default=None)

    def write(self) -> None:
        """Marks the ops, copies those that stages compute again, and splits sums."""
        step = self._step
        for n, part in self.parts.items():
            write_part(step.body.ops[n], part)
        for each, shares in self._shares:
            for n in each.adds if len(shares) == 1 else ():
                write_part(step.body.ops[n], shares[0].part)
        for rows in step.rows:
            write_part(rows.update, self._part_of(terms_of(rows)) or Part("F", 0))
        places = places_of(step, self._phases, {n: part.stage for n, part in self.parts.items()})
        homes = {value: min(stages) for value, stages in places.items() if value in from_arguments(step)}
        copied = write_copies(step, self._phases, self.parts, self._again)
        loop = split_sums(step, [each for each in self._shares if len(each[1]) > 1])
        after = step_loop(self._signature, [loop])
        for carry in after.carries:
            homes[after.result_of(carry)] = _written(after, carry).stage
        for n, stage in update_stages(after, homes).items():
            write_part(after.around.ops[n], Part("U", stage))
        erase_unread([value for op in copied for value in op.results])

    def remarks(self) -> list[Remark]:
        """One for the step, and one for each stage."""
        where = "between layers that names tell" if self._cut.by_names else "by costs"
        split = sum(len(shares) > 1 for _, shares in self._shares)
        text = f"cut into {self._stages} stages, {where}" + (f"; {split} sums in several stages" if split else "")
        found = [applied(NAME, self._step.loop.op, text), *map(self._stage_remark, range(self._stages))]
        idle = [str(stage) for stage in self._cut.without_parameters]
        if idle:
            why = Declined(f"no parameters for stage {' and '.join(idle)}: fewer stages would do the same work")
            found.append(missed(NAME, self._step.loop.op, why))
        return found

    def _stage_remark(self, stage: int) -> Remark:
        ops = self._step.body.ops
        forward, backward = ([n for n in self.parts if self.parts[n] == Part(kind, stage)] for kind in ("F", "B"))
        flops = [sum(flops_of(ops[n]) for n in each) for each in (forward, backward)]
        first = ops[min(forward)] if forward else self._step.loop.op
        held = self._parameters(stage)
        text = f"stage {stage}: {len(forward)} forward ops ({flops[0]} FLOP), {len(backward)} backward ({flops[1]}), "
        text += f"{len(held)} parameters ({sum(map(value_bytes, held))} bytes)"
        if self._copied(stage):
            text += f"; computes again {len(self._copied(stage))} ops of other stages"
        for other, size in sorted(self.sent(stage).items()):
            text += f"; sends {size} bytes to stage {other}"
        return applied(NAME, first, text)

    def _parameters(self, stage: int) -> list[ir.Value]:
        given, through = from_arguments(self._step), self._phases.through
        own = [n for n, part in self.parts.items() if part.stage == stage]
        read = (value for n in (*own, *self._copied(stage)) for value in through.sources(n))
        return [value for value in dict.fromkeys(read) if value in given]

    def _copied(self, stage: int) -> frozenset[int]:
        return self._again.copied.get(stage, frozenset())

    def sent(self, stage: int) -> dict[int, int]:
        """The bytes that a stage sends to each other one, per micro-batch."""
        found: dict[int, int] = {}
        through = self._phases.through
        for n, part in self.parts.items():
            if part.stage == stage:
                for value in through.graph.ops[n].results:
                    for other in self._again.sends(n, through.readers(value), self.parts):
                        found[other] = found.get(other, 0) + value_bytes(value)
        return found


def _written(step: StepLoop, carry: Sum | Rows) -> Part:
    """The part that makes the next value of the loop-carried one."""
    op = step.body.ops[carry.adds[-1]] if isinstance(carry, Sum) else carry.update
    return part_of(op) or Part("F", 0)


def _is_complex(tensor: ir.RankedTensorType) -> bool:
    return isinstance(tensor.element_type, ir.ComplexType)
