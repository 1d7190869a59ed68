"""A step's tasks as functions, which its entry calls one after the other.

Tests: test/passes/outline-stages.mlir, test/numeric/test_outlined_stages.py.
"""

from collections.abc import Iterator, Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.signature import Signature
from paropt.passes.outline.clone import Copies, loop_like
from paropt.passes.outline.functions import CALL, FUNCTION, RETURN
from paropt.passes.pipelining.stage_manifest import Piece, StageManifest, StageProgram
from paropt.passes.pipelining.stage_plan import Plan, Task
from paropt.passes.pipelining.stage_sums import shares_of
from paropt.passes.state.alike_shardings import states_of, sum_for
from paropt.passes.support.traversal import op_of, parent_of

# The inputs of functions, in this order.
_KINDS = ("argument", "piece", "kept", "row", "value", "carried", "update", "trip")


class StageOutlining:
    """The functions of one entry. A value may be another one in each stage: its names are the stage's."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._step = plan, plan.step
        self._entry = plan.step.signature.function
        self._names: dict[tuple[int, ir.Value], str] = {}  # of the values that each stage has of its own
        self._shared: dict[ir.Value, str] = {}
        self._counts: dict[str, int] = {}
        self._now: dict[str, ir.Value] = {}
        self._last = self._entry
        self._symbols = _Symbols(self._entry)
        self.programs: list[StageProgram] = []

    def outline(self) -> StageManifest:
        step = self._step
        for slot in step.signature.arguments:
            self._shared[slot.value] = f"argument{slot.number}"
            self._now[f"argument{slot.number}"] = slot.value
        for n, i in enumerate(self._plan.carries):
            for value in (step.loop.body.arguments[i], step.loop.op.results[i]):
                self._shared[value] = f"carried{n}"
        self._shared[step.loop.body.arguments[step.counter]] = "trip"
        for value in self._plan.pieces:
            self._fresh("piece", value)
        old = [op.operation for op in step.loop.op.block.operations][:-1]
        end = step.signature.end
        gradients, shares = self._gradients(), self._shares()
        with ir.InsertionPoint(end), step.loop.op.location:
            for value in self._plan.pieces:
                self._now[self._shared[value]] = op_of(value).clone().results[0]
            self._before()
            self._trips()
            for task in self._plan.updates:
                self._call(task, [self._fresh("update", value) for value in task.wanted])
            joined = {self._fresh("joined", value): self._join(value) for value in self._plan.joined}
            results = [self._shared[value] for value in self._plan.returned]
            ir.Operation.create(RETURN, operands=[self._now[name] for name in results])
        manifest = self._manifest(step.signature, results, joined, shares, gradients)
        end.erase()
        for op in reversed(old):
            op.erase()
        return manifest

    def _join(self, value: ir.Value) -> list[str]:
        """Assembles a result of the step; returns the names of its pieces."""
        names = [self._shared[piece] for piece in self._plan.joined[value]]
        new = op_of(value).clone()
        for i, name in enumerate(names):
            new.operands[i] = self._now[name]
        self._now[self._shared[value]] = new.results[0]
        return names

    def _manifest(
        self,
        signature: Signature,
        results: list[str],
        joined: dict[str, list[str]],
        shares: dict[str, str],
        gradients: dict[str, str],
    ) -> StageManifest:
        pieces = {self._shared[value]: Piece(n, *rows) for value, (n, rows) in self._plan.pieces.items()}
        slots = (*signature.arguments, *signature.results)
        return StageManifest(
            self.programs,
            self._step.counting,
            results,
            pieces,
            joined,
            [(state.old.number, state.new.number) for state in states_of(signature)],
            [self._carried(each.position) for each in self._step.sums],
            shares,
            gradients,
            {f"{slot.kind}{slot.number}": slot.path for slot in slots if slot.path},
        )

    def _gradients(self) -> dict[str, str]:
        """The sums that new values of state are computed from: of whole arguments, and of pieces of them."""
        loop = self._step.loop.op
        found = ((name, sum_for(old, new)) for name, old, new in self._replaced())
        return {self._carried(made[1]): name for name, made in found if made is not None and made[0] == loop}

    def _replaced(self) -> Iterator[tuple[str, ir.Value, ir.Value]]:
        """State, and pieces of it, by name: the old value and the new one."""
        for state in states_of(self._step.signature):
            yield f"argument{state.old.number}", state.old.value, state.new.value
            pieces = {rows: value for value, (n, rows) in self._plan.pieces.items() if n == state.old.number}
            news = self._plan.joined.get(state.new.value, ())
            if len(pieces) == len(news):
                yield from (
                    (self._shared[pieces[rows]], pieces[rows], new)
                    for rows, new in zip(sorted(pieces), news, strict=True)
                )

    def _shares(self) -> dict[str, str]:
        return {self._carried(one): self._carried(other) for one, other in shares_of(self._step)}

    def _carried(self, position: int) -> str:
        return self._shared[self._step.loop.op.results[position]]

    def _before(self) -> None:
        for task in self._plan.inits:
            kept = [self._fresh("kept", value, task.stage) for value in task.wanted]
            names = kept + [self._carried(i) for i in task.carries]
            if names:
                starts = [self._step.loop.op.operands[i] for i in task.carries]
                self._call(task, names, [*task.wanted, *starts])

    def _trips(self) -> None:
        """The loop that calls the functions of each trip."""
        old, at = self._step.loop, self._step.counter
        positions = list(self._plan.carries)
        new = loop_like(old, at, [self._now[self._carried(i)] for i in positions])
        inside = {self._carried(i): new.body.arguments[i] for i in positions}
        after = {self._carried(i): new.op.results[i] for i in positions}
        self._now |= inside | {"trip": new.body.arguments[at]}
        with ir.InsertionPoint(new.body):
            for task in self._plan.rows:
                self._call(task, [self._fresh("row", value, task.stage) for value in task.wanted])
            for task in self._plan.trip:
                names = [self._fresh("value", value) for value in task.wanted]
                nexts = [old.next_values.operands[i] for i in task.carries]
                self._call(task, names + [self._carried(i) for i in task.carries], [*task.wanted, *nexts])
            counting = Copies({old.body.arguments[at]: new.body.arguments[at]})
            counting.copy(op_of(old.next_values.operands[at]))
            made = [self._now[self._carried(i)] for i in positions]
            made.insert(at, counting.of(old.next_values.operands[at]))
            ir.Operation.create("stablehlo.return", operands=made)
        self._now |= after

    def _fresh(self, kind: str, value: ir.Value, stage: int | None = None) -> str:
        """A new name, of the value in one stage or in all."""
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        name = f"{kind}{number}"
        if stage is None:
            self._shared[value] = name
        else:
            self._names[stage, value] = name
        return name

    def _name(self, value: ir.Value, stage: int) -> str:
        return self._names.get((stage, value)) or self._shared[value]

    def _call(self, task: Task, names: list[str], wanted: Sequence[ir.Value] | None = None) -> None:
        """Makes the function of `task`, which returns `wanted` under `names`, and calls it at the insertion point."""
        wanted = list(task.wanted if wanted is None else wanted)
        inputs = sorted(task.inputs, key=lambda value: _place(self._name(value, task.stage)))
        read = [self._name(value, task.stage) for value in inputs]
        symbol = self._symbols.free(f"{task.kind}_{task.stage}")
        self._function(symbol, task, inputs, wanted)
        self.programs.append(StageProgram(symbol, task.kind, task.stage, read, names))
        call = ir.Operation.create(
            CALL,
            results=[value.type for value in wanted],
            operands=[self._now[name] for name in read],
            attributes={"callee": ir.FlatSymbolRefAttr.get(symbol)},
        )
        self._now.update(zip(names, call.results, strict=True))

    def _function(self, symbol: str, task: Task, inputs: list[ir.Value], wanted: list[ir.Value]) -> None:
        types = [value.type for value in inputs]
        kind = ir.FunctionType.get(types, [value.type for value in wanted])
        with ir.InsertionPoint.after(self._last):
            self._last = ir.Operation.create(
                FUNCTION,
                attributes={
                    "sym_name": ir.StringAttr.get(symbol),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "function_type": ir.TypeAttr.get(kind),
                },
                regions=1,
            )
        block = self._last.regions[0].blocks.append(*types)
        with ir.InsertionPoint(block):
            copies = Copies(dict(zip(inputs, block.arguments, strict=True)))
            copies.copy_all(task.ops)
            ir.Operation.create(RETURN, operands=[copies.of(value) for value in wanted])


def _place(name: str) -> tuple[int, int]:
    kind = name.rstrip("0123456789")
    return _KINDS.index(kind), int(name.removeprefix(kind) or 0)


class _Symbols:
    """Names of functions that nothing else in the module has; those of `main` are called as they are."""

    def __init__(self, entry: ir.Operation) -> None:
        of_module = [op.operation.attributes for op in parent_of(entry).regions[0].blocks[0].operations]
        self._taken = {
            ir.StringAttr(attributes["sym_name"]).value for attributes in of_module if "sym_name" in attributes
        }
        own = ir.StringAttr(entry.attributes["sym_name"]).value
        self._prefix = "" if own == "main" else f"{own}_"

    def free(self, name: str) -> str:
        name = self._prefix + name
        number = 0
        symbol = name
        while symbol in self._taken:
            number += 1
            symbol = f"{name}_{number}"
        self._taken.add(symbol)
        return symbol
