"""The loop over the parts of a batch, built from a whole-batch step.

Part i of M has the examples i, M + i, 2 M + i and so on: of examples that are sharded over devices, each device has as
many in every part, and keeps them.

Tests: test/passes/split-microbatches.mlir, test/numeric/test_split_microbatches.py.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from jaxlib.mlir import ir

from paropt.passes.ir.constants import CONSTANT, splat_of
from paropt.passes.ir.induction_variable import Counter, constant, create
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import is_deterministic
from paropt.passes.microbatch.batch_sums import Sums
from paropt.passes.microbatch.batching import IOTA, Batching, Fact, Needs, Role, View
from paropt.passes.microbatch.examples import Batch
from paropt.passes.rewrite.counted_loop import Carry, counted_loop, counter_carry
from paropt.passes.rewrite.peel import recapture
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.collectives import ADD, combiner_of
from paropt.passes.support.traversal import is_used, op_of
from paropt.passes.unrolled.roll import first_sum

# Which attribute of an op is the size of the part that it takes of its first operand.
_SIZES = {
    "stablehlo.slice": "limit_indices",
    "stablehlo.dynamic_slice": "slice_sizes",
    "stablehlo.gather": "slice_sizes",
}


def split(batching: Batching, sums: Sums, count: int) -> ir.Operation:
    """Replaces the ops on the batch by a loop over `count` parts, which it returns."""
    return _Parts(batching, sums, count).build()


class _Parts:
    def __init__(self, batching: Batching, sums: Sums, count: int) -> None:
        self._batching = batching
        self._sums = sums
        self._count = count
        self._values: dict[ir.Value, ir.Value] = {}  # the replacement of a value in the loop
        self._views: dict[View, ir.Value] = {}
        self._views_of: defaultdict[ir.Value, list[View]] = defaultdict(list)
        for view in batching.views:
            self._views_of[view.value].append(view)
        self._made: list[ir.Operation] = []
        self._inside = [op for op in batching.ops if self._is_inside(op)]
        inside = {op.results[0] for op in self._inside}
        self._late = [op for op in batching.ops if self._is_late(op, inside)]

    def _is_inside(self, op: ir.Operation) -> bool:
        return self._batching.is_in_loop(op) or any(result in self._sums.added for result in op.results)

    def _is_late(self, op: ir.Operation, inside: set[ir.Value]) -> bool:
        """Whether the op reads live-outs of the loop."""
        if len(op.results) and op.results[0] in inside:
            return False
        values = list(op.results) or self._batching.reads(op)
        facts = {self._batching.facts.get(value) for value in values}
        return any(isinstance(fact, Role) for fact in facts)

    def build(self) -> ir.Operation:
        end = self._batching.end
        with ir.InsertionPoint(end), op_of(self._sums.carried[0]).location:
            carries = [counter_carry(), *map(self._sum, self._sums.carried), *map(self._last, self._lasts())]
            carries += [self._stack(value) for value in self._returned()]
            loop = counted_loop(carries, self._count, self._fill)
        for op in self._late:
            op.move_before(end)
        self._clean()
        return loop

    def _lasts(self) -> list[ir.Value]:
        """The values computed in the loop, the same for all parts, and read after it."""
        inside = {op.results[0] for op in self._inside}
        found = [r for op in self._inside for r in op.results if self._batching.facts.get(r) == Role.SAME]
        return [value for value in found if self._is_read_outside(value, inside)]

    def _is_read_outside(self, value: ir.Value, inside: set[ir.Value]) -> bool:
        readers = self._batching.readers(value)
        return any(not len(reader.results) or reader.results[0] not in inside for reader in readers)

    def _returned(self) -> list[ir.Value]:
        """The values of examples that the step returns and that are computed in the loop only, once each."""
        results = dict.fromkeys(self._batching.end.operands)
        whole = {*self._batching.batches, *self._batching.kept}
        return [v for v in results if isinstance(self._batching.facts.get(v), Batch) and v not in whole]

    def _sum(self, value: ir.Value) -> Carry:
        tensor = ir.RankedTensorType(value.type)
        if self._batching.facts[value] == Role.EXTREME:
            return self._extreme(op_of(value), tensor)
        number = first_sum(ADD, tensor.element_type)
        start = neutral(tensor) if number is None else constant(tensor, number)
        return Carry(start, lambda total: create(ADD, tensor, total, self._values[value]), value.replace_all_uses_with)

    def _extreme(self, reduce: ir.Operation, tensor: ir.RankedTensorType) -> Carry:
        """Of all parts. Each starts from the same number, and so does the loop: once more changes nothing."""
        (value,), combiner = reduce.results, combiner_of(reduce)
        assert combiner is not None, "it is an extreme"
        start = reduce.operands[1]
        if tensor.shape:
            start = create(
                "stablehlo.broadcast_in_dim", tensor, start, broadcast_dimensions=ir.DenseI64ArrayAttr.get([])
            )
        return Carry(
            start, lambda known: create(combiner, tensor, known, self._values[value]), value.replace_all_uses_with
        )

    def _last(self, value: ir.Value) -> Carry:
        return Carry(neutral(value.type), lambda _: self._values[value], value.replace_all_uses_with)

    def _stack(self, value: ir.Value) -> Carry:
        """One array with the values of all examples."""
        batch = self._batch_of(value)
        tensor = ir.RankedTensorType(value.type)
        stacked = self._apart(tensor, batch)

        def put(buffer: ir.Value) -> ir.Value:
            part = create("stablehlo.reshape", self._one(tensor, batch), self._values[value])
            starts = self._counter.starts(stacked.rank, batch.dimension + 1)
            return create("stablehlo.dynamic_update_slice", stacked, buffer, part, *starts)

        def finish(buffer: ir.Value) -> None:
            value.replace_all_uses_with(create("stablehlo.reshape", tensor, buffer))

        return Carry(neutral(stacked), put, finish)

    def _batch_of(self, value: ir.Value) -> Batch:
        batch = self._batching.facts[value]
        assert isinstance(batch, Batch)
        return batch

    def _fill(self, block: ir.Block, loop: ir.Operation) -> None:
        self._loop = loop
        self._counter = Counter(block.arguments[0], self._count, block, ir.InsertionPoint(loop))
        with ir.InsertionPoint(block):
            for value, batch in self._batching.batches.items():
                with loop.location:
                    self._values[value] = self._cut(value, batch)
            for view in self._batching.views:
                if view.value not in self._batching.facts:
                    self._view(view)
            for op in self._inside:
                self._copy(op)

    def _copy(self, op: ir.Operation) -> None:
        """Writes `op`, for one part, at the insertion point; then the views of its results."""
        with op.location:
            new = self._loop_in_loop(Loop(op)) if op.name == WHILE else self._same_op(op, self._needs(op), {})
        self._values.update(zip(op.results, new.results, strict=True))
        for result in op.results:
            for view in self._views_of[result]:
                self._view(view)

    def _needs(self, op: ir.Operation) -> Needs:
        return self._batching.needs.get(op.results[0], {}) if len(op.results) else {}

    def _same_op(self, op: ir.Operation, needs: Needs, result: Mapping[ir.Value, Fact]) -> ir.Operation:
        new = op.clone()
        self._made.append(new)
        for i, value in enumerate(op.operands):
            new.operands[i] = self._read(value, needs.get(i))
        recapture(new, self._values)
        for old, made in zip(op.results, new.results, strict=True):
            made.set_type(self._part_type(old, result.get(old, self._batching.facts.get(old))))
        if op.name in _SIZES:
            self._resize(new, op)
        return new

    def _resize(self, new: ir.Operation, old: ir.Operation) -> None:
        """Sizes that are those of the whole operand become those of its part."""
        name = _SIZES[old.name]
        before, after = (ir.RankedTensorType(op.operands[0].type).shape for op in (old, new))
        sizes = list(ir.DenseI64ArrayAttr(old.attributes[name]))
        if before != after:
            fitting = [a if size == b else size for size, b, a in zip(sizes, before, after, strict=True)]
            new.attributes[name] = ir.DenseI64ArrayAttr.get(fitting)

    def _loop_in_loop(self, loop: Loop) -> ir.Operation:
        needs = self._needs(loop.op)
        starts = [self._read(value, needs.get(i)) for i, value in enumerate(loop.op.operands)]
        new = ir.Operation.create(
            WHILE,
            results=[start.type for start in starts],
            operands=starts,
            attributes=dict(loop.op.attributes),
            regions=2,
        )
        self._made.append(new)
        for old, region in zip((loop.condition, loop.body), new.regions, strict=True):
            block = region.blocks.append(*[start.type for start in starts])
            with self._scope(), ir.InsertionPoint(block):
                self._values.update(zip(old.arguments, block.arguments, strict=True))
                *ops, end = (op.operation for op in old.operations)
                for op in ops:
                    self._copy(op)
                needs = self._batching.needs.get(old.arguments[0], {}) if old == loop.body else {}
                with end.location:
                    values = [self._read(value, needs.get(i)) for i, value in enumerate(end.operands)]
                    ir.Operation.create(end.name, operands=values)
        return new

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """Values made within are not to be read outside."""
        known = dict(self._values), dict(self._views)
        yield
        self._values, self._views = known

    def _read(self, value: ir.Value, part: Batch | None) -> ir.Value:
        if part is not None:
            return self._views[View(value, part)]
        return self._values.get(value, value)

    def _view(self, view: View) -> None:
        needs = self._batching.views[view]
        value = self._values.get(view.value, view.value)
        if needs is None:
            self._views[view] = self._cut(value, view.batch)
            return
        op = op_of(view.value)
        with op.location:
            if op.name == CONSTANT:
                number = splat_of(op)
                assert number is not None, "else the constant is cut"
                self._views[view] = constant(self._type_of_part(view.value, view.batch), number)
            elif op.name == IOTA:
                self._views[view] = self._iota(op, view)
            else:
                self._views[view] = self._same_op(op, needs, {view.value: view.batch}).results[0]

    def _iota(self, op: ir.Operation, view: View) -> ir.Value:
        """Numbers of examples are those of the part, M apart; other numbers stay."""
        tensor = self._type_of_part(view.value, view.batch)
        dimension = op.attributes["iota_dimension"]
        numbers = create(IOTA, tensor, iota_dimension=dimension)
        if ir.IntegerAttr(dimension).value != view.batch.dimension:
            return numbers
        element = tensor.element_type
        factor = constant(tensor, ir.IntegerAttr.get(element, self._count))
        first = ir.RankedTensorType.get([], element)
        part = self._counter.value
        part = part if part.type == first else create("stablehlo.convert", first, part)
        offset = create("stablehlo.broadcast_in_dim", tensor, part, broadcast_dimensions=ir.DenseI64ArrayAttr.get([]))
        return create(ADD, tensor, create("stablehlo.multiply", tensor, numbers, factor), offset)

    def _cut(self, value: ir.Value, batch: Batch) -> ir.Value:
        """The part of a whole value that is of this trip."""
        tensor = ir.RankedTensorType(value.type)
        apart = self._apart(tensor, batch)
        if value.owner == self._batching.end.block or self._is_outside(value):
            with ir.InsertionPoint(self._loop):
                rows = create("stablehlo.reshape", apart, value)
        else:
            rows = create("stablehlo.reshape", apart, value)
        one = self._one(tensor, batch)
        starts = self._counter.starts(apart.rank, batch.dimension + 1)
        sizes = ir.DenseI64ArrayAttr.get(list(one.shape))
        part = create("stablehlo.dynamic_slice", one, rows, *starts, slice_sizes=sizes)
        return create("stablehlo.reshape", self._type_of_part(value, batch), part)

    def _is_outside(self, value: ir.Value) -> bool:
        return not isinstance(value.owner, ir.Block) and op_of(value).block == self._batching.end.block

    def _apart(self, tensor: ir.RankedTensorType, batch: Batch) -> ir.RankedTensorType:
        """The type with dimensions of their own for rows of the parts, and for the parts."""
        return self._with(tensor, batch, [self._batching.size // self._count, self._count, batch.inner])

    def _one(self, tensor: ir.RankedTensorType, batch: Batch) -> ir.RankedTensorType:
        """The same, of one part."""
        return self._with(tensor, batch, [self._batching.size // self._count, 1, batch.inner])

    def _with(self, tensor: ir.RankedTensorType, batch: Batch, sizes: Sequence[int]) -> ir.RankedTensorType:
        shape = list(tensor.shape)
        sizes = list(sizes) if batch.inner > 1 else list(sizes)[:2]
        shape[batch.dimension : batch.dimension + 1] = sizes
        return ir.RankedTensorType.get(shape, tensor.element_type)

    def _part_type(self, value: ir.Value, fact: Fact | None) -> ir.Type:
        return self._type_of_part(value, fact) if isinstance(fact, Batch) else value.type

    def _type_of_part(self, value: ir.Value, batch: Batch) -> ir.RankedTensorType:
        tensor = ir.RankedTensorType(value.type)
        shape = list(tensor.shape)
        shape[batch.dimension] //= self._count
        return ir.RankedTensorType.get(shape, tensor.element_type)

    def _clean(self) -> None:
        """Erases the ops that the loop replaces, and dead ones that were made."""
        viewed = {view.value for view in self._batching.views}
        inside = {op.results[0] for op in self._inside}
        for op in reversed(self._batching.ops):
            replaced = len(op.results) and (op.results[0] in inside or any(r in viewed for r in op.results))
            if replaced and not is_used(op):
                op.erase()
        for op in reversed(self._made):
            if is_deterministic(op) and not is_used(op):
                op.erase()
