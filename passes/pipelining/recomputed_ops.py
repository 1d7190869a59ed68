"""The ops that a stage computes again, where that costs less than to be sent their results.

Keys of random numbers, masks and positions are functions of the step's arguments, of rows of the batch and of the
number of the micro-batch, all of which each stage can have. A stage that reads such a value made in another stage is
sent it, or has copies of the ops that make it, back to values that it is sent: for each stage a minimum cut, in
floating-point operations. Contractions and sorts are never copied.

Tests: test/passes/cut-stages-recompute.mlir, test/unit/passes/test_cut_stages.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jaxlib.mlir import ir

from paropt.passes.dataflow.min_cut import Flow
from paropt.passes.ir.op_table import is_compute, is_costly, is_deterministic
from paropt.passes.pipelining.op_costs import flops_of, value_bytes
from paropt.passes.pipelining.parts import Part, write_part
from paropt.passes.pipelining.phases import Phases
from paropt.passes.pipelining.step_loop import StepLoop
from paropt.passes.rewrite.peel import recapture
from paropt.passes.support.traversal import nested

_START = 4096  # bytes: as much as to start a transfer costs at least


@dataclass
class Recomputation:
    """The ops of other stages that each stage has copies of, by number."""

    copied: dict[int, frozenset[int]] = field(default_factory=dict)

    def sends(self, n: int, readers: Iterable[int], parts: Mapping[int, Part]) -> set[int]:
        """The stages that are sent the results of op `n`; `readers` are the ops that read it."""
        found = {parts[m].stage for m in readers if m in parts}
        found |= {stage for stage, ops in self.copied.items() if not ops.isdisjoint(readers)}
        return {stage for stage in found - {parts[n].stage} if n not in self.copied.get(stage, ())}


def recomputation(step: StepLoop, phases: Phases, parts: Mapping[int, Part], flops_per_byte: int) -> Recomputation:
    """The ops that each stage computes again, where a byte that is sent costs as much as `flops_per_byte`
    operations."""
    found, given = dict[int, frozenset[int]](), _arguments_of(step)
    candidates = [n for n in sorted(copyable(step, phases)) if n in parts]
    for stage in sorted({part.stage for part in parts.values()}):
        others = [n for n in candidates if _may_be_read(parts[n], stage)]
        own = [n for n, part in parts.items() if part.stage == stage]
        ops = _Cut(step, phases, given, others, own, flops_per_byte).copied()
        found |= {stage: ops} if ops else {}
    return Recomputation(found)


def _may_be_read(part: Part, stage: int) -> bool:
    """Whether another stage, `stage`, may read results of `part`: those of backward ops, only below."""
    return part.stage > stage or (part.kind == "F" and part.stage < stage)


def copyable(step: StepLoop, phases: Phases) -> set[int]:
    """The ops, none of them free, that compute functions of values that each stage can have."""
    found: set[int] = set()
    maker, sums = phases.through.graph.maker, {step.argument_of(each) for each in step.carries}

    def is_there(value: ir.Value) -> bool:
        return value in phases.through.ends or (maker[value] in found if value in maker else value not in sums)

    for n in sorted((*phases.forward, *phases.backward)):
        if all(map(is_there, phases.through.sources(n))) and _may_be_copied(step.body.ops[n]):
            found.add(n)
    return found


def recomputing_flops(step: StepLoop, phases: Phases) -> dict[int, int]:
    """Of each op that may be copied, the operations that copies of it and of all that it is made of take, or more."""
    flops, maker = dict[int, int](), phases.through.graph.maker
    for n in sorted(copyable(step, phases)):
        made = (maker[value] for value in phases.through.sources(n) if value in maker)
        flops[n] = flops_of(step.body.ops[n]) + sum(flops.get(m, 0) for m in made)
    return flops


def _may_be_copied(op: ir.Operation) -> bool:
    ops = (op, *nested(op))
    return all(is_deterministic(each) for each in ops) and not any(is_compute(each) and is_costly(each) for each in ops)


class _Cut:
    """Which of the ops `others` to copy into the stage of the ops `own`: those on the side of the sink.

    `given` has the arguments that values from before the loop are computed from.
    """

    def __init__(
        self,
        step: StepLoop,
        phases: Phases,
        given: Mapping[ir.Value, frozenset[ir.Value]],
        others: list[int],
        own: list[int],
        flops_per_byte: int,
    ) -> None:
        self._step, self._through, self._given = step, phases.through, given
        self._others, self._flops_per_byte = others, flops_per_byte
        self._node = {n: 2 + i for i, n in enumerate(others)} | dict.fromkeys(own, Flow.SINK)
        self._there = {each for n in own for value in self._through.sources(n) for each in self._needed(value)}

    def copied(self) -> frozenset[int]:
        edges = [(Flow.SOURCE, self._node[n], max(flops_of(self._step.body.ops[n]), 1)) for n in self._others]
        count = 2 + len(self._others)
        for source, cost, readers in (*self._results(), *self._inputs()):
            edges += [(source, count, cost), *((count, reader, Flow.UNBOUNDED) for reader in readers)]
            count += 1
        flow = Flow(count)
        for edge in edges:
            flow.connect(*edge)
        stays = flow.source_side()
        return frozenset(n for n in self._others if self._node[n] not in stays)

    def _results(self) -> list[tuple[int, int, list[int]]]:
        """Of each result of an op that may be copied: its node, the cost of sending it, and the nodes that read it."""
        found = []
        for n in self._others:
            for value in self._step.body.ops[n].results:
                readers = [self._node[m] for m in self._through.readers(value) if m in self._node]
                found.append((self._node[n], self._cost(value) + _START * self._flops_per_byte, readers))
        return found

    def _inputs(self) -> list[tuple[int, int, list[int]]]:
        """The same of arguments of the step, and of rows of the batch, that the stage does not have anyway."""
        readers: dict[ir.Value, list[int]] = {}
        for n in self._others:
            for value in (each for source in self._through.sources(n) for each in self._needed(source)):
                if value not in self._there:
                    readers.setdefault(value, []).append(self._node[n])
        return [(Flow.SOURCE, self._cost(value), nodes) for value, nodes in readers.items()]

    def _cost(self, value: ir.Value) -> int:
        return value_bytes(value) * self._flops_per_byte

    def _needed(self, value: ir.Value) -> frozenset[ir.Value]:
        """The rows, or the arguments, that a stage needs which reads a value from outside."""
        return frozenset([value]) if value in self._through.ends else self._given.get(value, frozenset())


def _arguments_of(step: StepLoop) -> dict[ir.Value, frozenset[ir.Value]]:
    """Of each value from before the loop, the arguments that it is computed from."""
    found = {value: frozenset([value]) for value in step.arguments}
    for n in range(step.number):
        read = frozenset[ir.Value]().union(*(found.get(value, ()) for value in step.around.reads[n]))
        found |= dict.fromkeys(step.around.ops[n].results, read)
    return found


def write_copies(step: StepLoop, phases: Phases, parts: Mapping[int, Part], made: Recomputation) -> list[ir.Operation]:
    """Copies ops behind the originals, which are returned: nothing may read these any more."""
    through, originals, readers = phases.through, set[int](), list[tuple[int, dict[ir.Value, ir.Value]]]()
    for stage, ops in made.copied.items():
        own = [n for n, part in parts.items() if part.stage == stage]
        copies: dict[ir.Value, ir.Value] = {}
        for n in through.copied([*own, *ops]):
            reads_copies = any(value in copies for value in through.graph.reads[n])
            if n in ops or (reads_copies and n in through.free):
                part = _copied_part(parts[n], stage) if n in ops else None
                _copy(through.graph.ops[n], part, copies)
                originals.add(n)
            elif reads_copies:
                readers.append((n, copies))
    for n, copies in readers:  # only now: an op may be one of them, and be copied into another stage
        _read(through.graph.ops[n], copies)
    return [through.graph.ops[n] for n in sorted(originals)]


def _copied_part(part: Part, stage: int) -> Part:
    """The part that a copy is in: it reads earlier parts only, and only later ones read it."""
    return Part("F" if part.kind == "F" and part.stage < stage else "B", stage)


def _copy(op: ir.Operation, part: Part | None, copies: dict[ir.Value, ir.Value]) -> None:
    with ir.InsertionPoint.after(op):
        new = op.clone()
    if part is not None:
        write_part(new, part)
    _read(new, copies)
    copies.update(zip(op.results, new.results, strict=True))


def _read(op: ir.Operation, copies: Mapping[ir.Value, ir.Value]) -> None:
    """Has `op` read the copies."""
    for i, operand in enumerate(op.operands):
        if operand in copies:
            op.operands[i] = copies[operand]
    recapture(op, copies)
