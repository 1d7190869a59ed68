"""Equal shardings for old and new state, and for gradients and their parameters."""

from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.ir.loops import Loop
from paropt.passes.ir.signature import Signature, signatures
from paropt.passes.ir.signature_edits import Notes, note_results
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.state.alike_shardings import Gradient, Placements, State, differ, gradients_of, states_of
from paropt.passes.state.placement_edits import constrain_sum
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require

NAME = "annotate-contract"


@register
def annotate_contract(
    module: ir.Operation,
    *,
    gradients: Annotated[bool, "Also shard gradients that a loop accumulates like their parameters."] = True,
) -> list[Remark]:
    """Shard new state like old state, and gradients like their parameters.

    Before:

        func main(%w {sdy.sharding = <@mesh, [{"data"}]>}, %x) -> (%new) {
          %g = while (%sum = %zero) {
            %next = add %sum, ...
            return %next
          }
          %new = subtract %w, %g
          return %new

    After:

        func main(%w {sdy.sharding = <@mesh, [{"data"}]>}, %x) -> (%new {sdy.sharding = <@mesh, [{"data"}]>}) {
          %start = sharding_constraint %zero <@mesh, [{"data"}]>
          %g = while (%sum = %start) {
            %next = add %sum, ...
            %alike = sharding_constraint %next <@mesh, [{"data"}]>
            return %alike
          }
          ...

    These are Alpa's three constraints: old and new state, a parameter and its gradient, and a loop-carried value from
    iteration to iteration have one sharding, so that nothing is resharded between equal roles. State is found by its
    names (`state['w']` comes back as `result[0]['w']`), gradients by their readers. Arguments keep their shardings, of
    which JAX has a record. Values that are sharded differently already are reported, and stay.

    Legal when:

    - the result has no different sharding already
    - the sum has no different sharding already

    Worth it when:

    - the sharding of the argument is closed in all dimensions

    Sources: Alpa's gradient accumulation.
    """
    placements = Placements(module, settled=False)
    remarks: list[Remark] = []
    for signature in signatures(module):
        known = states_of(signature)
        sharded = [state for state in known if SHARDING in state.old.notes]
        remarks += [_remark_of_result(signature, state, placements) for state in sharded]
        note_results(signature.function, _open_results(sharded, placements))
        if gradients:
            remarks += _annotate_gradients(signature, known, placements)
    return remarks


def _open_results(known: list[State], placements: Placements) -> dict[int, Notes]:
    """The shardings of the results that have none."""
    return {
        state.new.number: {SHARDING: state.old.notes[SHARDING]}
        for state in known
        if SHARDING not in state.new.notes and placements.of_slot(state.old) is not None
    }


def _remark_of_result(signature: Signature, state: State, placements: Placements) -> Remark:
    function = signature.function
    old, new = placements.of_slot(state.old), placements.of_slot(state.new)
    try:
        require(old is not None, f"{state.old} has a sharding that leaves dimensions open: {state.new} keeps its own")
        require(not differ(old, new), f"{state.new} is sharded {new}, and {state.old}, which it replaces, {old}")
    except Declined as declined:
        return missed(NAME, function, declined)
    return applied(NAME, function, f"{state.new} is sharded as {state.old}, which it replaces: {old}")


def _annotate_gradients(signature: Signature, known: list[State], placements: Placements) -> list[Remark]:
    # All are found before any is constrained.
    found = [gradient for gradient in gradients_of(signature, known) if SHARDING in gradient.parameter.notes]
    return [_annotate_gradient(gradient, placements) for gradient in found]


def _annotate_gradient(gradient: Gradient, placements: Placements) -> Remark:
    loop, position, parameter = Loop(gradient.loop), gradient.position, gradient.parameter
    wanted = placements.of_slot(parameter)
    try:
        require(
            wanted is not None, f"{parameter} has a sharding that leaves dimensions open: its gradient keeps its own"
        )
        for given in placements.of_carried(loop, position):
            what = f"carried value {position}, its gradient, {given}"
            require(not differ(wanted, given), f"{parameter} is sharded {wanted}, and {what}")
    except Declined as declined:
        return missed(NAME, loop.op, declined)
    constrain_sum(loop, position, parameter.notes[SHARDING], placements, also_after=True)
    return applied(NAME, loop.op, f"carried value {position} is sharded as {parameter}, whose gradient it is: {wanted}")
