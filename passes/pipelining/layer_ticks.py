"""A loop over layers as a pipeline on the devices along one axis of the mesh: each has the rows of some layers.

In tick t, the stage at place p of the pipeline works on micro-batch t - p and hands what it makes on to the next one:
S stages need M + S - 1 ticks for M micro-batches. Before a stage has its first micro-batch, it works on the first one
as it comes into the pipeline; after its last one, it works on that again, so that rows that it has written stay as they
are. Terms of sums are masked.

Tests: test/passes/pipeline-layer-loop.mlir, test/numeric/test_layer_pipeline.py.
"""

from collections.abc import Callable

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_constant, scalar_of
from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.outline.stages import reads_of
from paropt.passes.pipelining.layer_loops import LayerLoop, PartialLoop, copied, minus
from paropt.passes.pipelining.loop_fission import Made, State, added, copy_free
from paropt.passes.pipelining.loop_places import Inputs, Places
from paropt.passes.pipelining.micro_batch_rows import row_at, rows_type, with_row, zeros
from paropt.passes.pipelining.stage_line import Line, neutral_element
from paropt.passes.pipelining.step_loop import Sum
from paropt.passes.rewrite.counted_loop import Carry, counted_loop, counter_carry
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.collectives import ADD
from paropt.passes.sharding.device_dimension import Placed, Result, computed, reshaped
from paropt.passes.support.traversal import op_of

_SELECT, _SIGNED = "stablehlo.select", "SIGNED"


def ticks(line: Line) -> Callable[[int, State], Made]:
    return lambda place, state: _Ticks(line, place, state).made


class _Ticks:
    """The manual computation that stands for the loop over layers at `place`, made at the insertion point."""

    def __init__(self, line: Line, place: int, state: State) -> None:
        self._line, self._place, self._state = line, place, state
        self._places: Places = state.places
        self._layers: LayerLoop = self._places.layers[place // 2]
        self._inputs: Inputs = self._places.inputs[place // 2]
        self._micro_batches = self._places.step.counting.trips
        crossing = [value for value in self._places.crossing if self._places.made_at(value) == place]
        self._written = [value for value in crossing if value in self._places.stacked]
        self._handed = [value for value in crossing if value not in self._places.stacked]
        self._sums = [each for each in self._places.step.sums if self._places.terms_at(place, each)]
        self._roots = self._places.whole_at(place)
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
            self.made.gathered[value] = self._line.gathered(self.made.rows[value])
        count = len(self._handed) + len(self._written)
        self.made.carried.update(zip((each.position for each in self._sums), results[count:], strict=True))

    def _old_sums(self) -> list[ir.Value]:
        return [self._state.carried[each.position] for each in self._sums]

    def _sharding(self, value: ir.Value, more: int, dimension: int | None) -> ir.Attribute:
        return self._line.sharding(ir.RankedTensorType(value.type).rank + more, dimension)

    def _operands(self) -> dict[tuple[str, ir.Value], tuple[Placed, ir.Type]]:
        """Each operand, and its type on a device, by what it is for and which value it stands for."""
        found: dict[tuple[str, ir.Value], tuple[Placed, ir.Type]] = {}

        def give(use: str, value: ir.Value, given: ir.Value, dimension: int | None) -> None:
            tensor = ir.RankedTensorType(given.type)
            local = tensor if dimension is None else self._local(tensor, dimension)
            found[use, value] = Placed(given, self._line.sharding(tensor.rank, dimension), False), local

        rows = self._state.rows
        numbers = ir.RankedTensorType.get([self._line.stages], ir.IntegerType.get_signless(32))
        stage = create("stablehlo.iota", numbers, iota_dimension=ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0))
        give("stage", stage, stage, 0)
        for value in self._inputs.sources:
            crosses = value in rows
            give("source", value, rows[value] if crosses else self._outer(value), 1 if crosses else 0)
        for value in self._places.through.merged(self._roots):
            if value in rows:
                give("row", value, rows[value], None)
        for value in self._read_whole():
            give("whole", value, self._outer(value), None)
        for each, value in zip(self._sums, self._old_sums(), strict=True):
            give("sum", self._places.step.argument_of(each), value, 0)
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
        tensor = ir.RankedTensorType(type_)
        shape = list(tensor.shape)
        shape[dimension] //= self._line.stages
        return ir.RankedTensorType.get(shape, tensor.element_type)

    def _body(self, arguments: dict[tuple[str, ir.Value], ir.Value]) -> list[ir.Value]:
        (stage,) = (value for (use, _), value in arguments.items() if use == "stage")
        stage = reshaped(stage, [])
        last = self._line.stages - 1
        self._stage_place = minus(last, stage) if self._layers.backward else stage
        self._is_first = _compare("EQ", self._stage_place, 0)
        self._given = arguments
        self._constants = self._copied_constants()
        results: dict[ir.Value, ir.Value] = {}
        carries = [counter_carry(), *self._carries(results)]
        counted_loop(carries, self._micro_batches + last, self._fill)
        is_last = _compare("EQ", self._stage_place, last)
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
        """What ticks carry: values that came from the stage before, rows of micro-batches, sums."""
        count = self._micro_batches

        def finish(value: ir.Value) -> Callable[[ir.Value], None]:
            return lambda result: results.update({value: result})

        def received(position: int) -> Carry:
            start = neutral(self._inputs.starts[position].type)
            return Carry(start, lambda _: self._hand_on(position), lambda _: None)

        def row(value: ir.Value, type_: ir.Type) -> Carry:
            return Carry(zeros(count, type_), lambda last: with_row(last, self._new[value], self._index), finish(value))

        def total(carry: Sum) -> Carry:
            argument = self._places.step.argument_of(carry)
            return Carry(self._given["sum", argument], lambda last: self._add(carry, last), finish(argument))

        return [
            *map(received, self._inputs.starts),
            *(row(value, value.type) for value in self._handed),
            *(row(value, self._local(value.type, 0)) for value in self._written),
            *map(total, self._sums),
        ]

    def _fill(self, body: ir.Block, _: ir.Operation) -> None:
        """One tick."""
        tick, *carried = body.arguments
        with ir.InsertionPoint(body):
            behind = create("stablehlo.subtract", tick.type, tick, self._stage_place)
            self._is_early = _compare("LT", behind, 0)
            self._is_done = _compare("GE", behind, self._micro_batches - 1)  # what comes next is no micro-batch
            self._is_late = _compare("GE", behind, self._micro_batches)
            low, high = (_number(behind, n) for n in (0, self._micro_batches - 1))
            self._index = create("stablehlo.clamp", behind.type, low, behind, high)
            values = self._values_of_micro_batch()
            is_given = create("stablehlo.or", self._is_first.type, self._is_first, self._is_early)
            self._taken = {
                i: create(_SELECT, came.type, is_given, values.get(start, start), came)
                for (i, start), came in zip(self._inputs.starts.items(), carried, strict=False)
            }
            self._new = self._layer_results(values)
            self._rowwise(values)

    def _values_of_micro_batch(self) -> dict[ir.Value, ir.Value]:
        values = dict(self._constants)
        values[self._places.step.loop.body.arguments[self._places.step.counter]] = self._index
        for (use, value), argument in self._given.items():
            if use == "whole":
                values[value] = argument
            elif use == "row":
                values[value] = row_at(argument, self._index)
        copy_free(values, self._places, (), self._roots)
        return values

    def _layer_results(self, values: dict[ir.Value, ir.Value]) -> dict[ir.Value, ir.Value]:
        """The loop over the layers of the stage."""
        layers, trips = self._layers, self._layers.trips // self._line.stages
        stacks = {value: self._source(value) for value in self._inputs.sources}
        starts = dict(self._taken)
        for i in layers.updates:
            starts[i] = neutral(self._local(layers.loop.op.operands[i].type, 0))
        first = create("stablehlo.multiply", self._index.type, self._stage_place, _number(self._index, trips))

        def number(count: ir.Value) -> ir.Value:
            return create(ADD, count.type, count, first)

        loop = PartialLoop(layers, trips, number, stacks, starts, values)
        return {layers.loop.op.results[i]: result for i, result in loop.results.items()}

    def _source(self, value: ir.Value) -> ir.Value:
        given = self._given["source", value]
        return row_at(given, self._index) if value in self._state.rows else given

    def _rowwise(self, values: dict[ir.Value, ir.Value]) -> None:
        """What is done to what the loop has written, row by row."""
        for n in self._places.rowwise_at(self._place):
            op = self._places.step.body.ops[n]
            tensor = self._local(op.results[0].type, 0)
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
        terms = {}
        for value in self._places.terms_at(self._place, carry):
            term = self._new[value]
            nothing = neutral_element(ir.RankedTensorType(term.type))
            other = create("stablehlo.or", self._is_early.type, self._is_early, self._is_late)
            terms[value] = create(_SELECT, term.type, other, nothing, term)
        return added(self._places, carry, last, terms)

    def _hand_on(self, position: int) -> ir.Value:
        """What the next tick has: that of the stage before, or again the last micro-batch's."""
        result = self._new[self._layers.loop.op.results[position]]
        sent = self._line.handed_on(result, backward=self._layers.backward)
        return create(_SELECT, sent.type, self._is_done, self._taken[position], sent)


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


def _compare(direction: str, value: ir.Value, number: int) -> ir.Value:
    truth = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
    return create(
        "stablehlo.compare",
        truth,
        value,
        _number(value, number),
        comparison_direction=ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>"),
        compare_type=ir.Attribute.parse(f"#stablehlo<comparison_type {_SIGNED}>"),
    )


def _number(like: ir.Value, number: int) -> ir.Value:
    tensor = ir.RankedTensorType(like.type)
    return constant(tensor, ir.IntegerAttr.get(tensor.element_type, number))
