"""Aliases of results and the arguments that they may overwrite."""

from collections.abc import Sequence
from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.ir.signature import ALIAS, DONATED, DONOR, Signature, Slot, signatures
from paropt.passes.ir.signature_edits import Notes, note_arguments
from paropt.passes.state.aliases import Aliases, Overwrite, alias_of
from paropt.passes.state.roundtrip import state_of
from paropt.passes.state.updates import reader_after
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, require
from paropt.passes.support.sources import source_of

NAME = "annotate-aliases"

Donate = Literal["allowed", "state", "any"]


@register
def annotate_aliases(
    module: ir.Operation,
    *,
    donate: Annotated[
        Donate,
        "Which arguments may be overwritten: those that the caller donates (tf.aliasing_output, jax.buffer_donor, "
        "paropt.donated); the state too: arguments that come back as a tree of the same structure; or all.",
    ] = "allowed",
) -> list[Remark]:
    """Alias each result with an argument that is dead by then, so that state is updated in place.

    Before:

        func main(%w {jax.buffer_donor}, %m {jax.buffer_donor}) -> (new_m, new_w)

    After:

        func main(%w {tf.aliasing_output = 1}, %m {tf.aliasing_output = 0}) -> (new_m, new_w)

    A result is matched with the argument that it is the new value of: the nearest of the arguments that it is computed
    from through values of its type. JAX matches in the order of types. Where the shardings of both are known, or there
    is one partition, the pair is written down (`tf.aliasing_output`); where XLA has yet to choose a sharding, the
    argument is offered (`jax.buffer_donor`), because a wrong pair would not compile.

    An argument that is donated in vain is reported, with the reason, and stays donated. So is an argument that could be
    overwritten if its caller donated it, with the bytes that this would save: a caller's array dies with it, so nothing
    is overwritten without the caller's permission.

    Legal when:

    - its caller gives the argument away, or `donate` says so
    - the argument is an array of its own, no token, and no constant that calls share
    - a result has its type
    - that result is in the same memory
    - that result has the same layout
    - that result is sharded alike, as far as the shardings are known
    - no other argument is overwritten by that result

    Worth it when:

    - nothing reads the argument after that result is computed (XLA would have to copy it)

    Sources: JAX `_set_up_aliases`, XLA `OptimizeInputOutputBufferAlias`, xDSL `jax-use-donated-arguments`.
    """
    return [remark for signature in signatures(module) for remark in _annotate(signature, donate)]


def _annotate(signature: Signature, donate: Donate) -> list[Remark]:
    aliases = Aliases(signature)
    # Aliases that JAX matched by the bytes on each device, or a user by hand, are theirs.
    kept = {slot.number: alias for slot in signature.arguments if (alias := _foreign_alias(aliases, slot)) is not None}
    ours = [slot for slot in signature.arguments if slot.number not in kept]
    allowed = _allowed(aliases, ours, donate, taken=list(kept.values()))
    pairs = aliases.pairs([slot for slot in ours if slot.number in allowed], taken=kept.values())
    used = [*kept.values(), *(pair.result for pair in pairs.values())]
    possible = aliases.pairs([slot for slot in ours if slot.number not in allowed], taken=used)

    remarks = [
        _remark(aliases, slot, pairs | possible, allowed, used)
        for slot in ours
        if slot.number in allowed or slot.number in possible
    ]
    notes = {slot.number: _notes(slot, pairs.get(slot.number), used) for slot in ours if slot.number in allowed}
    note_arguments(signature.function, notes)
    return remarks


def _foreign_alias(aliases: Aliases, slot: Slot) -> int | None:
    """The result that, by the module, overwrites the argument, if it is outside of those that fit."""
    alias = alias_of(slot)
    if alias is None:
        return None
    try:
        return None if alias in [result.number for result in aliases.fitting(slot)] else alias
    except Declined:
        return alias


def _allowed(aliases: Aliases, slots: Sequence[Slot], donate: Donate, taken: Sequence[int]) -> set[int]:
    """The arguments that may be overwritten."""
    found = {slot.number for slot in slots if donate == "any" or {ALIAS, DONOR, DONATED} & set(slot.notes)}
    if donate == "state":
        found |= state_of(aliases, aliases.pairs(slots, taken))
    return found


def _remark(
    aliases: Aliases, slot: Slot, pairs: dict[int, Overwrite], allowed: set[int], used: Sequence[int]
) -> Remark:
    """The outcome for an argument that is, or could be, donated."""
    source = source_of(slot.value.location)
    function = aliases.signature.function
    where = source if source.file else source_of(function.location)
    try:
        text = _outcome(aliases, slot, pairs, allowed, used)
    except Declined as declined:
        op = f" ({declined.op.name} at {source_of(declined.op.location)})" if declined.op is not None else ""
        return Remark(NAME, function.name, where, applied=False, text=f"{slot} stays: {declined.reason}{op}")
    return Remark(NAME, function.name, where, applied=True, text=f"{slot} {text}")


def _outcome(aliases: Aliases, slot: Slot, pairs: dict[int, Overwrite], allowed: set[int], used: Sequence[int]) -> str:
    """The result that overwrites the argument. Raises Declined with the reason when none does."""
    fitting = aliases.fitting(slot)
    pair = pairs.get(slot.number)
    if pair is None:
        free = [result for result in fitting if result.number not in used]
        require(bool(free), "each result that could overwrite it overwrites another argument")
        reader = reader_after(aliases.signature, slot.number, free[0].number)
        require(False, f"it is read after {free[0]} is computed", reader)
    assert pair is not None, "the last condition does not hold"
    result = aliases.signature.results[pair.result]
    saved = f"{'' if aliases.is_size_known(slot) else 'at most '}{aliases.bytes_per_device(slot)} bytes per device"
    require(slot.number in allowed, f"it is not given away; {result} could overwrite it and save {saved}")
    if pair.is_certain:
        return f"is overwritten by {result}, which saves {saved}"
    return f"is offered to XLA: {result} may overwrite it, which saves {saved}"


def _notes(slot: Slot, pair: Overwrite | None, used: Sequence[int]) -> Notes:
    """The annotations to write: the pair, or that the argument is given away; not both, because XLA refuses that."""
    context = slot.type.context
    donor: Notes = {ALIAS: None, DONOR: ir.BoolAttr.get(True, context)}
    if pair is None:  # it stays as it is, unless its result was found another argument
        return donor if alias_of(slot) in used else {}
    if not pair.is_certain:
        return donor
    return {ALIAS: ir.IntegerAttr.get(ir.IntegerType.get_signless(32, context), pair.result), DONOR: None}
