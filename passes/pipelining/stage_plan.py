"""The functions of a step that is cut into stages: the values that each computes, reads and hands on. Facts; nothing is
changed.

Tests: test/passes/outline-stages.mlir, test/numeric/test_outlined_stages.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from jaxlib.mlir import ir

from paropt.passes.ir.constants import is_constant
from paropt.passes.ir.op_table import is_cheap
from paropt.passes.pipelining.block_graph import BlockGraph, Through
from paropt.passes.pipelining.parts import Part, part_of
from paropt.passes.pipelining.phases import rows_taken
from paropt.passes.pipelining.row_pieces import RowRange, sliced_rows
from paropt.passes.pipelining.stage_manifest import ProgramKind
from paropt.passes.pipelining.step_loop import StepLoop
from paropt.passes.pipelining.update_stages import is_joined
from paropt.passes.support.remarks import require

_KINDS: dict[str, ProgramKind] = {"F": "forward", "B": "backward", "W": "weights", "U": "update"}


@dataclass
class Task:
    """A function: its ops in program order, copies of free ones among them, the values that it reads, and those that it
    returns."""

    kind: ProgramKind
    stage: int
    ops: list[ir.Operation]
    inputs: list[ir.Value]  # no constants: it has copies
    wanted: list[ir.Value]
    carries: list[int] = field(default_factory=list)  # loop-carried values that it computes, returned behind `wanted`


class Plan:
    """The tasks of a step. Raises Declined where the parts that ops name cannot run one after the other."""

    def __init__(self, step: StepLoop, *, weights_apart: bool) -> None:
        self.step = step
        self.returned = list(step.signature.end.operands)
        self.joined = self._joined()
        self.pieces = self._pieces()
        taken = rows_taken(step)
        self.parts = _parts_of(step.body)
        self._through = Through(step.body, _others(step.body, self.parts), taken)
        if weights_apart:
            self._part_weights()
        self._updates = _parts_of(step.around)
        late = {n for n in _others(step.around, self._updates) if n > step.number}
        self._around = Through(step.around, late)
        self.carries = self._carries()
        self._require_order()
        trip = [self._trip_task(part) for part in sorted({*self.parts.values()}, key=lambda part: part.rank)]
        self.updates = self._update_tasks()
        self.rows = [task for stage in range(self.stages) if (task := self._row_task(stage, trip, set(taken))).wanted]
        self.trip = trip
        self.inits = [self._init_task(stage) for stage in range(self.stages)]

    @property
    def stages(self) -> int:
        return 1 + max(part.stage for part in (*self.parts.values(), *self._updates.values()))

    def _joined(self) -> dict[ir.Value, list[ir.Value]]:
        """The results that are put together of pieces, and of which."""
        maker, around = self.step.around.maker, self.step.around
        made = {value: maker[value] for value in self.returned if value in maker}
        return {
            value: list(around.ops[n].operands)
            for value, n in made.items()
            if is_joined(self.step, n) and part_of(around.ops[n]) is None
        }

    def _pieces(self) -> dict[ir.Value, tuple[int, RowRange]]:
        """The rows that are taken of arguments before the loop, with the numbers of the arguments."""
        numbers = {value: n for n, value in enumerate(self.step.arguments)}
        found = {}
        for op in self.step.around.ops[: self.step.number]:
            rows = sliced_rows(op)
            if rows is not None and op.operands[0] in numbers:
                found[op.results[0]] = (numbers[op.operands[0]], rows)
        return found

    @property
    def _wanted(self) -> set[ir.Value]:
        """The values that updates have to return."""
        return {piece for value in self.returned for piece in self.joined.get(value, [value])}

    def _part_weights(self) -> None:
        """Moves backward ops that nothing sent to a lower stage needs to a part of their own.

        An addition to a sum stays where its addend, a contraction, is there already, as of scanned layers: else the
        addend would be held meanwhile.
        """
        for stage in range(1, 1 + max(part.stage for part in self.parts.values())):
            own = Part("B", stage)
            sent = [value for n in self._of(own) for value in self._sent(n, own) if self._goes_below(value, stage)]
            needed = self.step.body.ancestors(sent)
            apart = {n for n in self._of(own) if n not in needed} if sent else set()
            for n in apart - self._added_at_once(apart):
                self.parts[n] = Part("W", stage)

    def _added_at_once(self, apart: set[int]) -> set[int]:
        """Those of the ops `apart` that make a loop-carried value of results of others, with negligible work."""
        found: set[int] = set()
        for value in self.step.loop.next_values.operands:
            own = set[int]()
            for n in self.step.body.behind([value]):
                if n in apart and not is_cheap(self.step.body.ops[n]):
                    break
                own.add(n)
            else:
                found |= own & apart
        return found

    def _goes_below(self, value: ir.Value, stage: int) -> bool:
        return any(self.parts[n].stage < stage for n in self._through.readers(value) if n in self.parts)

    def _of(self, part: Part) -> list[int]:
        return [n for n in sorted(self.parts) if self.parts[n] == part]

    def _sent(self, n: int, part: Part) -> list[ir.Value]:
        """The results of op `n` that other parts read."""
        results = self.step.body.ops[n].results
        return [v for v in results if any(self.parts[m] != part for m in self._through.readers(v) if m in self.parts)]

    def _carries(self) -> dict[int, Part]:
        """The part that computes each loop-carried value."""
        found = {}
        for i, value in enumerate(self.step.loop.next_values.operands):
            if i != self.step.counter:
                n = self.step.body.maker.get(value)
                require(n in self.parts, "a loop-carried value is made by no stage", self.step.loop.op)
                assert n is not None
                found[i] = self.parts[n]
        return found

    def _require_order(self) -> None:
        """Declines where an op reads a value that a later part makes, or a sum that another part adds to."""
        arguments = {self.step.loop.body.arguments[i]: part for i, part in self.carries.items()}
        for n, part in self.parts.items():
            op = self.step.body.ops[n]
            for value in self._through.sources(n):
                other = arguments.get(value)
                require(other in (None, part), f"{part} reads a sum of {other}", op)
                made = self.parts.get(self.step.body.maker.get(value, -1))
                ordered = made is None or made.rank <= part.rank
                require(ordered, f"{part} reads what {made} makes, which comes later", op)

    def _trip_task(self, part: Part) -> Task:
        ops = self._of(part)
        wanted = [value for n in ops for value in self._sent(n, part)]
        carries = [i for i, home in self.carries.items() if home == part]
        return self._task(self._through, part, ops, wanted, carries)

    def _task(self, through: Through, part: Part, ops: list[int], wanted: list[ir.Value], carries: list[int]) -> Task:
        copied = through.copied(ops, wanted)
        inputs = self._inputs(through, copied, wanted)
        return Task(_KINDS[part.kind], part.stage, [through.graph.ops[n] for n in copied], inputs, wanted, carries)

    def _inputs(self, through: Through, ops: Iterable[int], wanted: Iterable[ir.Value]) -> list[ir.Value]:
        """The values that ops read and none of them makes."""
        ops = list(ops)
        made = {result for n in ops for result in through.graph.ops[n].results}
        read = (*(value for n in ops for value in through.graph.reads[n]), *wanted)
        return [value for value in dict.fromkeys(read) if value not in made and not is_constant(value)]

    def _row_task(self, stage: int, trip: Sequence[Task], taken: set[ir.Value]) -> Task:
        """The function that takes the rows of a micro-batch that the stage reads."""
        wanted = [v for v in dict.fromkeys(v for t in trip if t.stage == stage for v in t.inputs) if v in taken]
        ops = sorted(self.step.body.ancestors(wanted))
        through = Through(self.step.body, ())
        return Task("rows", stage, [self.step.body.ops[n] for n in ops], self._inputs(through, ops, wanted), wanted)

    def _update_tasks(self) -> list[Task]:
        """The ops behind the loop, in waves: each stage does all that it can, until another has to."""
        waves = _waves(self._around, self._updates)
        wave = {n: i for i, (_, ops) in enumerate(waves) for n in ops}
        around, returned = self.step.around, self._wanted
        tasks = []
        for i, (stage, ops) in enumerate(waves):
            made: list[ir.Value] = [value for n in ops for value in around.ops[n].results]
            wanted = [v for v in made if v in returned or any(wave.get(m) != i for m in self._around.readers(v))]
            tasks.append(self._task(self._around, Part("U", stage), ops, wanted, []))
        self._return_others(tasks)
        return tasks

    def _return_others(self, tasks: list[Task]) -> None:
        """Has the first function of stage 0 return results computed from arguments, or constant."""
        made = {value for task in tasks for value in task.wanted} | {*self.step.loop.op.results, *self.step.arguments}
        pieces = (piece for value in self.returned for piece in self.joined.get(value, [value]))
        others = [value for value in dict.fromkeys(pieces) if value not in made and value not in self.pieces]
        if not others:
            return
        at = next((i for i, task in enumerate(tasks) if task.stage == 0), None)
        if at is None:
            at = 0
            tasks.insert(0, self._task(self._around, Part("U", 0), [], [], []))
        numbers = {result: n for n, op in enumerate(self.step.around.ops) for result in op.results}
        own = [n for n in (numbers[op.results[0]] for op in tasks[at].ops) if n not in self._around.free]
        tasks[at] = self._task(self._around, Part("U", tasks[at].stage), own, tasks[at].wanted + others, [])

    def _init_task(self, stage: int) -> Task:
        """The values computed before the loop that functions of the stage read, and the init operands of its sums."""
        around = self.step.around
        read = (v for t in (*self.rows, *self.trip, *self.updates) if t.stage == stage for v in t.inputs)
        before = [v for v in dict.fromkeys(read) if around.maker.get(v, self.step.number) < self.step.number]
        kept = [value for value in before if value not in self.pieces]
        carries = [i for i, part in self.carries.items() if part.stage == stage]
        starts = [self.step.loop.op.operands[i] for i in carries]
        through = Through(around, range(self.step.number), self.pieces)
        ops = through.copied([], [*kept, *starts])
        inputs = self._inputs(through, ops, [*kept, *starts])
        return Task("init", stage, [around.ops[n] for n in ops], inputs, kept, carries)


def _parts_of(graph: BlockGraph) -> dict[int, Part]:
    found = {n: part_of(op) for n, op in enumerate(graph.ops)}
    return {n: part for n, part in found.items() if part is not None}


def _others(graph: BlockGraph, parts: dict[int, Part]) -> set[int]:
    return {n for n in range(len(graph.ops)) if n not in parts}


def _waves(through: Through, parts: dict[int, Part]) -> list[tuple[int, list[int]]]:
    """Each stage in turn takes the ops whose operands are there."""
    left, waves = sorted(parts), list[tuple[int, list[int]]]()
    stages = sorted({part.stage for part in parts.values()})
    done: set[int] = set()
    while left:
        for stage in stages:
            took: list[int] = []
            for n in left:
                needed = {through.graph.maker.get(value) for value in through.sources(n)} & parts.keys()
                if parts[n].stage == stage and needed <= done | {*took}:
                    took.append(n)
            if took:
                waves.append((stage, took))
                done |= {*took}
        left = [n for n in left if n not in done]
    return waves
