"""The pipeline stages of a training step as functions that may be separate programs."""

from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.outline.carried_arrays import counter_known
from paropt.passes.pipelining.parts import STAGE
from paropt.passes.pipelining.stage_functions import StageOutlining
from paropt.passes.pipelining.stage_manifest import STAGES, written
from paropt.passes.pipelining.stage_plan import Plan
from paropt.passes.pipelining.step_loop import loops_of, step_loop
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed

NAME = "outline-stages"


@register
def outline_stages(
    module: ir.Operation,
    *,
    weights: Annotated[
        Literal["with", "apart"],
        "Where gradients of weights are computed: with those of activations, or in functions of their own, which may "
        "run later (zero-bubble schedules); those that are there with the activations', as of scanned layers, are not.",
    ] = "with",
) -> list[Remark]:
    """Outline the parts of a step that was cut into pipeline stages as functions.

    Before:

        %acc_w, %acc_v = while (%i = 0, ...) {
          %y = dot %x, %w    {F0}
          %z = dot %y, %v    {F1}
          %dv = dot %y, %z   {B1}
          %dy = dot %z, %v   {B1}
          %dw = dot %x, %dy  {B0}
          return %i + 1, %acc_w + %dw {B0}, %acc_v + %dv {B1}
        }
        %new_w, %new_v = %w - %acc_w {U0}, %v - %acc_v {U1}

    After:

        %zero_w, %zero_v = call @init_0(), call @init_1()
        %acc_w, %acc_v = while (%i = 0, ...) {
          %x = call @rows_0(%xs, %i)
          %y = call @forward_0(%w, %x)
          %z = call @forward_1(%v, %y)
          %dy, %next_v = call @backward_1(%v, %y, %z, %acc_v)
          %next_w = call @backward_0(%x, %dy, %acc_w)
          return %i + 1, %next_w, %next_v
        }
        %new_w = call @update_0(%w, %acc_w)
        %new_v = call @update_1(%v, %acc_v)

    `main` still is the whole step. Its attribute `paropt.stages` names the arguments and results of each function, so
    that they can be compiled separately, each for the devices of its stage, and called in the order of a schedule, as
    `paropt.pipeline` does. Ops without a stage are copied to each function that reads them. Values from before the loop
    that functions of several stages need, each stage computes for itself. Where updates need each other (the norm of
    all gradients), a stage has several functions.

    Legal when:

    - one loop adds something up, and its trip count is known
    - no op reads what a later part of the trip makes, or a sum that another part adds to
    - each loop-carried value is made by a stage

    Values do not change.

    Sources: Shardy's MPMD fragments; Alpa's pipeshard executables; zero-bubble pipelines (weights=apart).
    """
    remarks: list[Remark] = []
    for signature in signatures(module):
        loops = [loop for loop in loops_of(signature) if _is_cut(loop.body)]
        if not loops or STAGES in signature.function.attributes:
            continue
        try:
            plan = Plan(step_loop(signature, loops), weights_apart=weights == "apart")
        except Declined as declined:
            remarks.append(missed(NAME, loops_of(signature)[0].op, declined))  # the loop may be another one by now
            continue
        remarks.append(_rewrite(module, signature, plan))
    return remarks


def _is_cut(body: ir.Block) -> bool:
    return any(STAGE in op.operation.attributes for op in body.operations)


def _rewrite(module: ir.Operation, signature: Signature, plan: Plan) -> Remark:
    counting, loop = plan.step.counting, plan.step.loop
    remark_op = loop.op
    count = len(plan.trip)
    remark = applied(NAME, remark_op, f"{plan.stages} stages became functions: {count} per micro-batch")
    with module.context:
        counter_known(loop, plan.step.counter, counting.start + counting.trips * counting.step)
        manifest = StageOutlining(plan).outline()
        signature.function.attributes[STAGES] = written(manifest)
    return remark
