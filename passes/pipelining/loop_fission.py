"""A loop over micro-batches split at its loops over layers: loops over micro-batches, and between them ticks.

Tests: test/passes/pipeline-layer-loop.mlir, test/numeric/test_layer_pipeline.py.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.induction_variable import create
from paropt.passes.outline.carried_arrays import counter_known
from paropt.passes.pipelining.layer_loops import copied
from paropt.passes.pipelining.loop_places import Places
from paropt.passes.pipelining.micro_batch_rows import row_at, with_row, zeros
from paropt.passes.pipelining.step_loop import Rows, Sum
from paropt.passes.rewrite.counted_loop import Carry, counted_loop, counter_carry
from paropt.passes.sharding.collectives import ADD


class Made(NamedTuple):
    """The values that a place leaves for later ones: rows of micro-batches, and sums so far."""

    rows: dict[ir.Value, ir.Value]
    gathered: dict[ir.Value, ir.Value]  # rows that are sharded layer by layer, with all layers on each device
    carried: dict[int, ir.Value]


Ticks = Callable[[int, "State"], Made]


class State:
    """The values from outside, as far as places have made them."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.hoisted: dict[ir.Value, ir.Value] = {}
        self.rows: dict[ir.Value, ir.Value] = {}  # of crossing values
        self.gathered: dict[ir.Value, ir.Value] = {}
        step = places.step
        self.carried = {each.position: step.loop.op.operands[each.position] for each in step.carries}

    def update(self, made: Made) -> None:
        self.rows.update(made.rows)
        self.gathered.update(made.gathered)
        self.carried.update(made.carried)


def split(places: Places, ticks: Ticks) -> None:
    """Replaces the loop. `ticks` makes the replacement of a loop over layers, at the insertion point."""
    loop, state = places.step.loop, State(places)
    with ir.InsertionPoint(loop.op), loop.op.location:
        for n in places.through.copied(places.hoisted):
            _copy_into(state.hoisted, places.step.body.ops[n])
        for place in range(places.count):
            state.update(ticks(place, state) if place % 2 else _micro_batches(place, state))
    for position, value in state.carried.items():
        loop.op.results[position].replace_all_uses_with(value)
    counter_known(loop, places.step.counter, places.step.counting.trips)
    loop.op.erase()


def _copy_into(values: dict[ir.Value, ir.Value], op: ir.Operation) -> None:
    with op.location:
        values.update(zip(op.results, copied(op, values).results, strict=True))


def copy_free(values: dict[ir.Value, ir.Value], places: Places, own: Collection[int], roots: list[ir.Value]) -> None:
    """Copies of the ops `own`, and of the free ones that they and `roots` need."""
    for n in places.through.copied(own, roots):
        _copy_into(values, places.step.body.ops[n])


def _micro_batches(place: int, state: State) -> Made:
    """The loop over micro-batches at `place`; none where its results would be dead."""
    places, made = state.places, Made({}, {}, {})
    step, roots = places.step, places.roots_at(place)
    crossing = [value for value in places.crossing if places.made_at(value) == place]
    carries = [each for each in step.carries if places.terms_at(place, each)]
    if not crossing and not carries:
        return made
    values: dict[ir.Value, ir.Value] = dict(state.hoisted)
    count = step.counting.trips

    def fill(body: ir.Block, _: ir.Operation) -> None:
        with ir.InsertionPoint(body):
            index = values[step.loop.body.arguments[step.counter]] = body.arguments[0]
            values.update(
                {value: row_at((state.rows | state.gathered)[value], index) for value in places.reached(place)}
            )
            copy_free(values, places, places.own[place], roots)

    def stacked(value: ir.Value) -> Carry:
        def following(rows: ir.Value) -> ir.Value:
            return with_row(rows, values[value], values[step.loop.body.arguments[step.counter]])

        def finish(result: ir.Value) -> None:
            made.rows[value] = result

        return Carry(zeros(count, value.type), following, finish)

    def carried(carry: Sum | Rows) -> Carry:
        def following(last: ir.Value) -> ir.Value:
            if isinstance(carry, Rows):
                return copied(carry.update, values | {step.argument_of(carry): last}).results[0]
            return added(places, carry, last, {v: values.get(v, v) for v in places.terms_at(place, carry)})

        def finish(result: ir.Value) -> None:
            made.carried[carry.position] = result

        return Carry(state.carried[carry.position], following, finish)

    counted_loop([counter_carry(), *map(stacked, crossing), *map(carried, carries)], count, fill)
    return made


def added(places: Places, carry: Sum, last: ir.Value, terms: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """The sum `last` and those of its terms that there are, added as the loop adds them."""
    body = places.step.body
    found: dict[ir.Value, ir.Value] = dict(terms) | {places.step.argument_of(carry): last}
    for n in carry.adds:
        addends = [found[value] for value in body.ops[n].operands if value in found]
        if len(addends) == 2:
            addends = [create(ADD, addends[0].type, *addends)]
        found.update(dict.fromkeys(body.ops[n].results, *addends) if addends else {})
    return found[places.step.loop.next_values.operands[carry.position]]
