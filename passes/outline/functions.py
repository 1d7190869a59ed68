"""The stages of a training step as functions, which its entry calls.

Tests: test/passes/outline-accumulation.mlir, test/numeric/test_accumulate.py.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import Loop
from paropt.passes.ir.signature import Signature
from paropt.passes.outline.clone import Copies, loop_like
from paropt.passes.outline.manifest import Stage
from paropt.passes.outline.stages import DYNAMIC_SLICE, Body, Stages, inputs_of
from paropt.passes.rewrite.peel import peel_last
from paropt.passes.sharding.shardings import MANUAL, SHARDING
from paropt.passes.support.context import inlined_call
from paropt.passes.support.traversal import captured, defining_op, op_of, ops_of, parent_of

CALL, FUNCTION, RETURN = "func.call", "func.func", "func.return"
START, MICRO_BATCH, ACCUMULATE, SYNC, APPLY = "start_grad micro_batch accumulate_grad sync_grad apply_grad".split()
ACCUMULATE_AND_SYNC = "accumulate_grad_and_sync"
_FUNCTIONS = (START, MICRO_BATCH, ACCUMULATE, ACCUMULATE_AND_SYNC, SYNC, APPLY)
# The inputs of functions, in this order.
_KINDS = ("argument", "kept", "micro_batch", "carried", "synced", "trip")


class Names:
    """Names of values, each of which is made by one function and read by others."""

    def __init__(self) -> None:
        self._names: dict[ir.Value, str] = {}
        self._counts: dict[str, int] = {}

    def give(self, kind: str, values: Sequence[ir.Value]) -> list[str]:
        """Names `values` one after the other, `kind0` and so on."""
        found = []
        for value in values:
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            self._names[value] = f"{kind}{number}"
            found.append(f"{kind}{number}")
        return found

    def set(self, value: ir.Value, name: str) -> None:
        self._names[value] = name

    def place(self, value: ir.Value) -> tuple[int, int]:
        """Where the value stands among the arguments of a function."""
        kind = self._names[value].rstrip("0123456789")
        return _KINDS.index(kind), int(self._names[value].removeprefix(kind) or 0)

    def of(self, values: Sequence[ir.Value]) -> list[str]:
        return [self._names[value] for value in values]


class Outlining:
    """The functions of one entry."""

    def __init__(self, signature: Signature, loop: Loop, counter: int) -> None:
        self._entry = signature.function
        self._end = signature.end
        self._loop = loop
        self._counter = counter
        self._names = Names()
        for slot in signature.arguments:
            self._names.set(slot.value, f"argument{slot.number}")
        self._symbols = _free_symbols(self._entry)
        self._functions: dict[str, ir.Operation] = {}
        self.stages: dict[str, Stage] = {}
        self.rows: dict[str, str] = {}  # of each part of a batch, its array
        self.shardings: dict[str, ir.Attribute] = {}  # by name
        for slot in (*signature.arguments, *signature.results):
            if SHARDING in slot.notes:
                self.shardings[f"{slot.kind}{slot.number}"] = slot.notes[SHARDING]
        self._now: dict[ir.Value, ir.Value] = {slot.value: slot.value for slot in signature.arguments}

    @property
    def _positions(self) -> list[int]:
        """The loop-carried values other than the counter."""
        return [i for i in range(len(self._loop.op.operands)) if i != self._counter]

    def outline(self, stages: Stages, body: Body, *, sync_last: bool) -> None:
        """Makes the functions, and the entry call them."""
        old = [op.operation for op in self._loop.op.block.operations][:-1]
        returned = list(self._end.operands)
        with ir.InsertionPoint(self._end), self._loop.op.location:
            self._start(stages, returned)
            new = self._trips(body)
            for i, result in enumerate(self._loop.op.results):
                self._now[result] = new.op.results[i]
                if i != self._counter:
                    self._names.set(result, self._carried[i])
            if stages.closing:
                later = set(inputs_of(stages.update, returned))
                closed = [result for op in stages.closing for result in op.results if result in later]
                made = self._call(SYNC, stages.closing, closed, self._names.give("synced", closed))
                self._now.update(zip(closed, made, strict=True))
            names = [f"result{i}" for i in range(len(returned))]
            ends = self._call(APPLY, stages.update, returned, names)
            ir.Operation.create(RETURN, operands=ends)
        self._end.erase()
        for op in reversed(old):
            op.erase()
        if sync_last and stages.closing:
            with new.op.location:
                self._sync_in_last_trip(new)

    def _start(self, stages: Stages, returned: Sequence[ir.Value]) -> None:
        later = {*captured(self._loop.op), *inputs_of(stages.update, returned), *inputs_of(stages.closing)}
        kept = [result for op in stages.start for result in op.results if result in later]
        starts = [self._loop.op.operands[i] for i in self._positions]
        self._carried = {i: f"carried{n}" for n, i in enumerate(self._positions)}
        names = [*self._carried.values(), *self._names.give("kept", kept)]
        made = self._call(START, stages.start, [*starts, *kept], names)
        self._starts = made[: len(starts)]
        self._now.update(zip(kept, made[len(starts) :], strict=True))

    def _trips(self, body: Body) -> Loop:
        """The loop that calls the functions of each trip."""
        old, at = self._loop, self._counter
        new = loop_like(old, at, self._starts)
        block = new.body
        self._now.update(zip(old.body.arguments, block.arguments, strict=True))
        self._names.set(old.body.arguments[at], "trip")
        for i, name in self._carried.items():
            self._names.set(old.body.arguments[i], name)
        with ir.InsertionPoint(block):
            if body.taken:
                rows = self._call(MICRO_BATCH, body.slices, body.taken, self._names.give("micro_batch", body.taken))
                self._now.update(zip(body.taken, rows, strict=True))
                sources = [_array_of(value) for value in body.taken]
                self.rows = dict(zip(self._names.of(body.taken), self._names.of(sources), strict=True))
            nexts = [old.next_values.operands[i] for i in self._positions]
            made = self._call(ACCUMULATE, body.trip, nexts, list(self._carried.values()))
            count = op_of(old.next_values.operands[at])
            counting = Copies({old.body.arguments[at]: block.arguments[at]})
            counting.copy(count)
            made.insert(at, counting.of(count.results[0]))
            ir.Operation.create("stablehlo.return", operands=made)
        return new

    def _call(
        self, name: str, ops: Sequence[ir.Operation], wanted: Sequence[ir.Value], results: list[str]
    ) -> list[ir.Value]:
        """Makes a function of `ops` that returns `wanted`, and calls it at the insertion point."""
        read = sorted(inputs_of(ops, wanted), key=self._names.place)
        function = self._function(name, [v.type for v in read], [v.type for v in wanted])
        block = function.regions[0].blocks.append(*[value.type for value in read])
        with ir.InsertionPoint(block):
            copies = Copies(dict(zip(read, block.arguments, strict=True)))
            copies.copy_all(ops)
            ir.Operation.create(RETURN, operands=[copies.of(value) for value in wanted])
        self.stages[name] = Stage(self._symbols[name], self._names.of(read), results)
        for value, result in zip(wanted, results, strict=True):
            sharding = sharding_of(value)
            if sharding is not None and name != APPLY:
                self.shardings[result] = sharding
        return self._called(name, [self._now[value] for value in read], [value.type for value in wanted])

    def _function(self, name: str, arguments: list[ir.Type], results: list[ir.Type]) -> ir.Operation:
        last = next(reversed(self._functions.values()), self._entry)
        with ir.InsertionPoint.after(last):
            self._functions[name] = ir.Operation.create(
                FUNCTION,
                attributes={
                    "sym_name": ir.StringAttr.get(self._symbols[name]),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get(arguments, results)),
                },
                regions=1,
            )
        return self._functions[name]

    def _called(self, name: str, operands: Sequence[ir.Value], results: Sequence[ir.Type]) -> list[ir.Value]:
        callee = ir.FlatSymbolRefAttr.get(self._symbols[name])
        call = ir.Operation.create(CALL, results=results, operands=operands, attributes={"callee": callee})
        return list(call.results)

    def _sync_in_last_trip(self, loop: Loop) -> None:
        """Does the last trip after the loop, by a function that adds up and reduces at once."""
        peel_last(loop)
        trip, sync = (
            next(op for op in ops_of(self._entry, CALL) if op.block == loop.op.block and _callee(op) == callee)
            for callee in (self._symbols[ACCUMULATE], self._symbols[SYNC])
        )
        types = [operand.type for operand in trip.operands]
        read = [i for i, r in enumerate(trip.results) if any(use.owner.operation != sync for use in r.uses)]
        results = [*(trip.results[i] for i in read), *sync.results]
        function = self._function(ACCUMULATE_AND_SYNC, types, [result.type for result in results])
        block = function.regions[0].blocks.append(*types)
        with ir.InsertionPoint(block):
            added = inlined_call(self._functions[ACCUMULATE], list(block.arguments), trip.location)
            values: dict[ir.Value, ir.Value] = dict(zip(trip.results, added, strict=True))
            summed = inlined_call(self._functions[SYNC], [values[v] for v in sync.operands], sync.location)
            ir.Operation.create(RETURN, operands=[*(added[i] for i in read), *summed])
        with ir.InsertionPoint(sync):
            made = self._called(ACCUMULATE_AND_SYNC, list(trip.operands), [result.type for result in results])
        for old, new in zip(results, made, strict=True):
            old.replace_all_uses_with(new)
        sync.erase()
        trip.erase()
        self._functions.pop(SYNC).erase()
        one, other = self.stages[ACCUMULATE], self.stages.pop(SYNC)
        both = [*(one.results[i] for i in read), *other.results]
        self.stages[ACCUMULATE_AND_SYNC] = Stage(self._symbols[ACCUMULATE_AND_SYNC], one.arguments, both)


def _free_symbols(entry: ir.Operation) -> dict[str, str]:
    """Of each function its symbol, which nothing else in the module has; those of `main` are called as they are."""
    of_module = [op.operation.attributes for op in parent_of(entry).regions[0].blocks[0].operations]
    taken = {ir.StringAttr(attributes["sym_name"]).value for attributes in of_module if "sym_name" in attributes}
    own = ir.StringAttr(entry.attributes["sym_name"]).value
    prefix = "" if own == "main" else f"{own}_"
    while any(prefix + name in taken for name in _FUNCTIONS):
        prefix += "step_"
    return {name: prefix + name for name in _FUNCTIONS}


def _array_of(row: ir.Value) -> ir.Value:
    """The array of the slice, or of the slice that is reshaped."""
    op = op_of(row)
    slice_ = op if op.name == DYNAMIC_SLICE else op_of(op.operands[0])
    return slice_.operands[0]


def sharding_of(value: ir.Value) -> ir.Attribute | None:
    """The sharding of the value, where it has one."""
    op = defining_op(value)
    if op is None:
        return None
    if op.name == MANUAL:
        listed = sdy.TensorShardingPerValueAttr(op.attributes["out_shardings"]).shardings
        return listed[ir.OpResult(value).result_number]
    return op.attributes["sharding"] if op.name == CONSTRAINT else None


def _callee(call: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
