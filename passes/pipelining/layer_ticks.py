"""A loop over layers as a pipeline on the devices along one axis of the mesh: each has the rows of some layers.

In tick t, the stage at place p of the pipeline works on micro-batch t - p and hands its result on to the next one: S
stages need M + S - 1 ticks for M micro-batches. Before a stage has its first micro-batch, it works on the first one as
it comes into the pipeline; after its last one, it works on that again, so that rows that it has written stay as they
are. Terms of sums are masked. In a circular pipeline (`tick_turns`), the result of the last stage waits M - S ticks on
the first one, until that has worked on the micro-batches before it.

Tests: test/passes/pipeline-layer-loop.mlir, test/numeric/test_layer_pipeline.py.
"""

from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_constant, scalar_of
from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.outline.stages import reads_of
from paropt.passes.pipelining.layer_loops import LayerLoop, PartialLoop, RowPlace, copied, minus
from paropt.passes.pipelining.layer_order import LayerOrder, in_layer_order
from paropt.passes.pipelining.loop_fission import Made, State, added, copy_free
from paropt.passes.pipelining.loop_places import Inputs, Places
from paropt.passes.pipelining.micro_batch_rows import (
    Layers,
    layers_of,
    row_at,
    rows_type,
    with_layers,
    with_row,
    zeros,
)
from paropt.passes.pipelining.stage_line import Line, neutral_element
from paropt.passes.pipelining.step_loop import Sum
from paropt.passes.pipelining.tick_turns import Turn, compared, number_like, turn_at
from paropt.passes.rewrite.counted_loop import Carry, counted_loop, counter_carry
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.collectives import ADD
from paropt.passes.sharding.device_dimension import Placed, Result, computed, reshaped
from paropt.passes.support.traversal import op_of

_SELECT = "stablehlo.select"


def ticks(line: Line) -> Callable[[int, State], Made]:
    order = LayerOrder(line)
    return lambda place, state: _Ticks(line, order, place, state).made


class _Ticks:
    """The manual computation that stands for the loop over layers at `place`, made at the insertion point."""

    def __init__(self, line: Line, order: LayerOrder, place: int, state: State) -> None:
        self._line, self._order, self._place, self._state = line, order, place, state
        self._places: Places = state.places
        self._layers: LayerLoop = self._places.layers[place // 2]
        self._inputs: Inputs = self._places.inputs[place // 2]
        self._micro_batches = self._places.step.counting.trips
        crossing = [value for value in self._places.crossing if self._places.made_at(value) == place]
        self._written = [value for value in crossing if value in self._places.stacked]
        self._handed = [value for value in crossing if value not in self._places.stacked]
        self._sums = [each for each in self._places.step.sums if self._places.terms_at(place, each)]
        self._in_place = self._written_in_place()
        self._roots = self._places.whole_at(place)
        self._wait = self._micro_batches - line.stages if line.chunks > 1 else 0  # in ticks
        self.made = Made({}, {}, {})
        if crossing or self._sums:
            self._compute()

    def _compute(self) -> None:
        operands = self._operands()
        handed = [Result(rows_type(self._micro_batches, v.type), self._sharding(v, 1, None)) for v in self._handed]
        written = [Result(rows_type(self._micro_batches, v.type), self._sharding(v, 1, 1)) for v in self._written]
        sums = [Result(v.type, self._sharding(v, 0, 0)) for v in self._old_sums()]
        placed = [operand for operand, _ in operands.values()]
        results = computed(
            placed,
            [local for _, local in operands.values()],
            [*handed, *written, *sums],
            self._line.manual_axes,
            lambda arguments: self._body(dict(zip(operands, arguments, strict=True))),
        )
        self.made.rows.update(zip([*self._handed, *self._written], results, strict=False))
        for value in (value for value in self._written if self._places.is_gathered(value)):
            self.made.gathered[value] = in_layer_order(self._line.gathered(self.made.rows[value]), 1, self._line)
        totals = [self._order.of_layers(sum_) for sum_ in results[len(self._handed) + len(self._written) :]]
        self.made.carried.update(zip((each.position for each in self._sums), totals, strict=True))

    def _written_in_place(self) -> list[ir.Value]:
        """The arrays written row by row that only later places read: they are written where they are kept."""
        body = self._places.step.body
        read = {value for n in self._places.rowwise_at(self._place) for value in body.ops[n].operands}
        read.update(value for each in self._sums for value in self._places.terms_at(self._place, each))
        results = [self._layers.loop.op.results[i] for i in self._layers.updates]
        return [value for value in results if value in self._written and value not in read]

    def _old_sums(self) -> list[ir.Value]:
        return [self._state.carried[each.position] for each in self._sums]

    def _sharding(self, value: ir.Value, more: int, dimension: int | None) -> ir.Attribute:
        return self._line.sharding(ir.RankedTensorType(value.type).rank + more, dimension)

    def _operands(self) -> dict[tuple[str, ir.Value], tuple[Placed, ir.Type]]:
        """Each operand, and its type on a device, by its use and the value that it stands for."""
        found: dict[tuple[str, ir.Value], tuple[Placed, ir.Type]] = {}

        def give(use: str, value: ir.Value, given: ir.Value, dimension: int | None) -> None:
            tensor = ir.RankedTensorType(given.type)
            local = tensor if dimension is None else self._local(tensor, dimension)
            found[use, value] = Placed(given, self._line.sharding(tensor.rank, dimension), False), local

        rows = self._state.rows
        stage = self._line.numbers()
        give("stage", stage, stage, 0)
        for value in self._inputs.sources:
            dimension = 1 if value in rows else 0
            given = rows[value] if value in rows else self._outer(value)
            if value not in self._places.stacked:
                given = self._order.of_devices(given, dimension)
            give("source", value, given, dimension)
        for value in self._places.through.merged(self._roots):
            if value in rows:
                give("row", value, rows[value], None)
        for value in self._read_whole():
            give("whole", value, self._outer(value), None)
        for each, value in zip(self._sums, self._old_sums(), strict=True):
            give("sum", self._places.step.argument_of(each), self._order.of_devices(value), 0)
        return found

    def _outer(self, value: ir.Value) -> ir.Value:
        return self._state.hoisted.get(value, value)

    def _read_whole(self) -> list[ir.Value]:
        """The values from outside, but constants, that are read as they are."""
        body, free = self._places.step.body, self._places.through.copied([], self._roots)
        made = {result for n in free for result in body.ops[n].results}
        read = dict.fromkeys([*self._roots, *(value for n in free for value in reads_of(body.ops[n]))])
        counter = self._places.step.loop.body.arguments[self._places.step.counter]
        inner = made | {counter, *self._state.rows}
        return [value for value in read if value not in inner and not self._is_copied(value)]

    def _is_copied(self, value: ir.Value) -> bool:
        return value not in self._state.hoisted and is_constant(value)

    def _local(self, type_: ir.Type, dimension: int) -> ir.RankedTensorType:
        """Of the layers that a device has."""
        return _divided(type_, dimension, self._line.stages)

    def _in_tick(self, type_: ir.Type) -> ir.RankedTensorType:
        """Of the layers that a tick is about."""
        return _divided(type_, 0, self._line.stages * self._line.chunks)

    def _body(self, arguments: dict[tuple[str, ir.Value], ir.Value]) -> list[ir.Value]:
        (stage,) = (value for (use, _), value in arguments.items() if use == "stage")
        stage = reshaped(stage, [])
        last = self._line.stages - 1
        self._stage_place = minus(last, stage) if self._layers.backward else stage
        self._is_first = compared("EQ", self._stage_place, 0)
        self._given = arguments
        self._constants = self._copied_constants()
        results: dict[ir.Value, ir.Value] = {}
        carries = [counter_carry(), *self._carries(results)]
        counted_loop(carries, self._micro_batches * self._line.chunks + last, self._fill)
        is_last = compared("EQ", self._stage_place, last)
        handed = [self._line.from_last(results[value], is_last) for value in self._handed]
        sums = [results[self._places.step.argument_of(each)] for each in self._sums]
        return [*handed, *(results[value] for value in self._written), *sums]

    def _copied_constants(self) -> dict[ir.Value, ir.Value]:
        """Constants from outside: a manual computation reads no values but its arguments."""
        body, free = self._places.step.body, self._places.through.copied([], self._roots)
        read = dict.fromkeys([*self._roots, *(value for n in free for value in reads_of(body.ops[n]))])
        values: dict[ir.Value, ir.Value] = {}
        for value in (value for value in read if value not in body.maker and self._is_copied(value)):
            _copy_constant(value, values)
        return values

    def _carries(self, results: dict[ir.Value, ir.Value]) -> list[Carry]:
        """The values that ticks carry: those that came from the stage before, those that wait, rows of micro-batches,
        sums."""
        count = self._micro_batches

        def finish(value: ir.Value) -> Callable[[ir.Value], None]:
            return lambda result: results.update({value: result})

        def received(position: int) -> Carry:
            start = neutral(self._inputs.starts[position].type)
            return Carry(start, lambda _: self._hand_on(position), lambda _: None)

        def waiting(position: int) -> Carry:
            start = zeros(self._wait, self._inputs.starts[position].type)
            return Carry(start, lambda last: with_row(last, self._came[position], self._slot), lambda _: None)

        def handed(value: ir.Value) -> Carry:
            def following(last: ir.Value) -> ir.Value:
                return with_row(last, self._new[value], self._turn.micro_batch)

            return Carry(zeros(count, value.type), following, finish(value))

        def written(value: ir.Value) -> Carry:
            def following(last: ir.Value) -> ir.Value:
                if value in self._in_place:
                    return self._new[value]
                return with_row(last, self._new[value], self._turn.micro_batch, self._chunk)

            return Carry(zeros(count, self._local(value.type, 0)), following, finish(value))

        def total(carry: Sum) -> Carry:
            argument = self._places.step.argument_of(carry)
            return Carry(self._given["sum", argument], lambda last: self._add(carry, last), finish(argument))

        return [
            *map(received, self._inputs.starts),
            *map(waiting, self._inputs.starts if self._wait else ()),
            *map(handed, self._handed),
            *map(written, self._written),
            *map(total, self._sums),
        ]

    def _fill(self, body: ir.Block, _: ir.Operation) -> None:
        """One tick."""
        tick, *carried = body.arguments
        self._came: dict[int, ir.Value] = dict(zip(self._inputs.starts, carried, strict=False))
        with ir.InsertionPoint(body):
            self._turn = turn_at(tick, self._stage_place, self._micro_batches, self._line.chunks)
            self._chunk = self._chunk_of(self._turn)
            values = self._values_of_micro_batch()
            coming = self._coming(tick, carried[len(self._came) :])
            is_given = self._is_given()
            self._taken = {
                i: create(_SELECT, came.type, is_given, values.get(start, start), came)
                for (i, start), came in zip(self._inputs.starts.items(), coming, strict=True)
            }
            before = len(self._came) + (len(coming) if self._wait else 0) + len(self._handed)
            kept = dict(zip(self._written, carried[before:], strict=False))
            self._new = self._layer_results(values, kept)
            self._rowwise(values)

    def _chunk_of(self, turn: Turn) -> Layers | None:
        """The layers of this tick, among those of the device; None for all."""
        if turn.round is None:
            return None
        chunks, count = self._line.chunks, self._layers.trips // (self._line.stages * self._line.chunks)
        number = minus(chunks - 1, turn.round) if self._layers.backward else turn.round
        return Layers(create("stablehlo.multiply", number.type, number, number_like(number, count)), count)

    def _coming(self, tick: ir.Value, waiting: Sequence[ir.Value]) -> list[ir.Value]:
        """The values from the stage before; those from the last one, after they have waited. At the end, the latest
        values."""
        came = list[ir.Value](self._came.values())
        if not self._wait:
            return came
        self._slot = create("stablehlo.remainder", tick.type, tick, number_like(tick, self._wait))
        on_time = create("stablehlo.not", self._turn.is_late.type, self._turn.is_late)
        waits = create("stablehlo.and", on_time.type, self._is_first, on_time)
        return [
            create(_SELECT, value.type, waits, row_at(rows, self._slot), value)
            for value, rows in zip(came, waiting, strict=False)
        ]

    def _is_given(self) -> ir.Value:
        """Whether the micro-batch comes into the pipeline here: on the first stage, in the first round."""
        turn, is_first = self._turn, self._is_first
        if turn.round is not None:
            is_first = create("stablehlo.and", is_first.type, is_first, compared("EQ", turn.round, 0))
        return create("stablehlo.or", is_first.type, is_first, turn.is_early)

    def _values_of_micro_batch(self) -> dict[ir.Value, ir.Value]:
        values = dict(self._constants)
        values[self._places.step.loop.body.arguments[self._places.step.counter]] = self._turn.micro_batch
        for (use, value), argument in self._given.items():
            if use == "whole":
                values[value] = argument
            elif use == "row":
                values[value] = row_at(argument, self._turn.micro_batch)
        copy_free(values, self._places, (), self._roots)
        return values

    def _layer_results(
        self, values: dict[ir.Value, ir.Value], kept: Mapping[ir.Value, ir.Value]
    ) -> dict[ir.Value, ir.Value]:
        """The loop over the layers of this tick. Values `kept` from earlier ones have room for its rows."""
        layers, line, turn = self._layers, self._line, self._turn
        trips = layers.trips // (line.stages * line.chunks)
        first_row = None if self._chunk is None else self._chunk.first
        in_rows = RowPlace(turn.micro_batch, first_row)
        stacks = {value: self._given["source", value] for value in self._inputs.sources}
        places = {v: in_rows if v in self._state.rows else RowPlace(None, first_row) for v in stacks}
        starts = dict(self._taken)
        for i, update in layers.updates.items():
            result = layers.loop.op.results[i]
            if result in self._in_place:
                starts[i], places[update.results[0]] = kept[result], in_rows
            else:
                starts[i] = neutral(self._in_tick(layers.loop.op.operands[i].type))
        place = self._stage_place
        if turn.round is not None:
            before = create("stablehlo.multiply", place.type, turn.round, number_like(place, line.stages))
            place = create(ADD, place.type, before, place)
        first = create("stablehlo.multiply", place.type, place, number_like(place, trips))

        def number(count: ir.Value) -> ir.Value:
            return create(ADD, count.type, count, first)

        loop = PartialLoop(layers, trips, number, stacks, starts, values, places)
        return {layers.loop.op.results[i]: result for i, result in loop.results.items()}

    def _rowwise(self, values: dict[ir.Value, ir.Value]) -> None:
        """The ops on arrays that the loop has written, row by row."""
        for n in self._places.rowwise_at(self._place):
            op = self._places.step.body.ops[n]
            tensor = self._in_tick(op.results[0].type)
            local: dict[ir.Value, ir.Value] = {}
            for value in op.operands:
                rank = ir.RankedTensorType(value.type).rank
                local[value] = self._new[value] if value in self._new else values.get(value, value)
                if value not in self._new and rank:
                    local[value] = _spread(value, tensor, values)
            new = copied(op, local)
            new.results[0].set_type(tensor)
            self._new[op.results[0]] = new.results[0]

    def _add(self, carry: Sum, last: ir.Value) -> ir.Value:
        turn, terms = self._turn, {}
        for value in self._places.terms_at(self._place, carry):
            term = self._new[value]
            nothing = neutral_element(ir.RankedTensorType(term.type))
            other = create("stablehlo.or", turn.is_early.type, turn.is_early, turn.is_late)
            terms[value] = create(_SELECT, term.type, other, nothing, term)
        if self._chunk is None:
            return added(self._places, carry, last, terms)
        return with_layers(last, added(self._places, carry, layers_of(last, self._chunk), terms), self._chunk)

    def _hand_on(self, position: int) -> ir.Value:
        """The value for the next tick: that of the stage before, or again the last micro-batch's."""
        result = self._new[self._layers.loop.op.results[position]]
        sent = self._line.handed_on(result, backward=self._layers.backward)
        return create(_SELECT, sent.type, self._turn.is_done, self._taken[position], sent)


def _divided(type_: ir.Type, dimension: int, parts: int) -> ir.RankedTensorType:
    tensor = ir.RankedTensorType(type_)
    shape = list(tensor.shape)
    shape[dimension] //= parts
    return ir.RankedTensorType.get(shape, tensor.element_type)


def _spread(value: ir.Value, tensor: ir.RankedTensorType, values: dict[ir.Value, ir.Value]) -> ir.Value:
    """The scalar of which `value` is a broadcast, in another shape."""
    scalar = scalar_of(value)
    assert scalar is not None, "asked when it was placed"
    kind = ir.RankedTensorType(scalar.type)
    if kind.rank:  # a constant of one number
        number = ir.DenseElementsAttr(op_of(scalar).attributes["value"]).get_splat_value()
        return constant(ir.RankedTensorType.get(tensor.shape, kind.element_type), number)
    nowhere = ir.DenseI64ArrayAttr.get([])
    wide = ir.RankedTensorType.get(tensor.shape, kind.element_type)
    return create("stablehlo.broadcast_in_dim", wide, values.get(scalar, scalar), broadcast_dimensions=nowhere)


def _copy_constant(value: ir.Value, values: dict[ir.Value, ir.Value]) -> None:
    """A constant, and the copies, reshapes and conversions that make `value` of it."""
    op = op_of(value)
    for operand in op.operands:
        if operand not in values:
            _copy_constant(operand, values)
    values.update(zip(op.results, copied(op, values).results, strict=True))
