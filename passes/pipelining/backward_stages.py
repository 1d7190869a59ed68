"""The stages of backward ops: for each boundary between stages a minimum cut, of the bytes that cross it.

A forward value is where it was made, and where forward ops read it; a parameter, where forward ops read it. A backward
op that reads it elsewhere has it sent; so the ops go where their values are, and one cotangent crosses each boundary.
No backward op is in a lower stage than one that reads it: cotangents go down.

Tests: test/passes/cut-stages.mlir, test/unit/passes/test_cut_stages.py.
"""

from collections.abc import Iterator, Mapping

from jaxlib.mlir import ir

from paropt.passes.dataflow.min_cut import Flow
from paropt.passes.pipelining.op_costs import value_bytes
from paropt.passes.pipelining.phases import Phases
from paropt.passes.pipelining.step_loop import StepLoop, from_arguments
from paropt.passes.state.alike_shardings import gradients_of, states_of

# Bytes come first; of cuts that cost the same, that with fewest ops far from a forward value that they read, and fewest
# sums of gradients far from their parameter.
_BYTE = 1 << 20


class Backward:
    """The stages of the backward ops of a step, by op number; `forward` has those of the forward ops."""

    def __init__(self, step: StepLoop, phases: Phases, forward: dict[int, int], stages: int) -> None:
        self._step, self._phases = step, phases
        self._through = phases.through
        self._ops = phases.backward
        self._node = {n: 2 + i for i, n in enumerate(self._ops)}
        self._places = places_of(step, phases, forward)
        self._ends = self._terms()
        self.stage = dict.fromkeys(self._ops, 0)
        above = set[int]()
        for boundary in range(stages - 1, 0, -1):
            above = self._above(boundary, above)
            for n in above:
                self.stage[n] = max(self.stage[n], boundary)

    def _terms(self) -> dict[int, set[int]]:
        """Of the ops that make a term of a gradient, the places of its parameter."""
        signature, found = self._step.signature, dict[int, set[int]]()
        homes = {
            each.position: self._places.get(each.parameter.value, set())
            for each in gradients_of(signature, states_of(signature))
            if each.loop == self._step.loop.op
        }
        for each in self._step.sums:
            for root in (root for term in each.terms for root in self._through.roots(term)):
                n = self._through.graph.maker.get(root)
                if n in self._node and homes.get(each.position):
                    found.setdefault(n, set()).update(homes[each.position])
        return found

    def _above(self, boundary: int, pinned: set[int]) -> set[int]:
        """The ops in `boundary` or a stage above it; `pinned` are."""
        nodes = _Nodes(2 + len(self._ops))
        edges: list[tuple[int, int, int]] = [(Flow.SOURCE, self._node[n], Flow.UNBOUNDED) for n in pinned]
        edges += self._cotangents(nodes)
        edges += self._residuals(boundary, nodes)
        for n, homes in self._ends.items():
            if min(homes) >= boundary:
                edges.append((Flow.SOURCE, self._node[n], 1))
            elif max(homes) < boundary:
                edges.append((self._node[n], Flow.SINK, 1))
        flow = Flow(nodes.count)
        for edge in edges:
            flow.connect(*edge)
        reached = flow.source_side()
        return {n for n in self._ops if self._node[n] in reached}

    def _cotangents(self, nodes: "_Nodes") -> Iterator[tuple[int, int, int]]:
        """A value of a backward op crosses once where a reader is below; a reader is never above its maker."""
        for n in self._ops:
            for value in self._through.graph.ops[n].results:
                readers = [m for m in self._through.readers(value) if m in self._node]
                if readers:
                    sent = nodes.new()
                    yield self._node[n], sent, value_bytes(value) * _BYTE
                    for m in readers:
                        yield sent, self._node[m], Flow.UNBOUNDED
                        yield self._node[m], self._node[n], Flow.UNBOUNDED

    def _residuals(self, boundary: int, nodes: "_Nodes") -> Iterator[tuple[int, int, int]]:
        """A value made on one side only and read on the other is sent once."""
        read: dict[ir.Value, list[int]] = {}
        for n in self._ops:
            for value in self._through.sources(n):
                if value in self._places:
                    read.setdefault(value, []).append(n)
        for value, readers in read.items():
            sent, cost = nodes.new(), value_bytes(value) * _BYTE
            if min(self._places[value]) >= boundary:
                yield Flow.SOURCE, sent, cost
                for n in readers:
                    yield sent, self._node[n], Flow.UNBOUNDED
                    yield Flow.SOURCE, self._node[n], 1
            elif max(self._places[value]) < boundary:
                yield sent, Flow.SINK, cost
                for n in readers:
                    yield self._node[n], sent, Flow.UNBOUNDED
                    yield self._node[n], Flow.SINK, 1


class _Nodes:
    """Numbers of nodes."""

    def __init__(self, count: int) -> None:
        self.count = count

    def new(self) -> int:
        self.count += 1
        return self.count - 1


def places_of(step: StepLoop, phases: Phases, stage: Mapping[int, int]) -> dict[ir.Value, set[int]]:
    """The stages that have each value that the ops with a stage make, or read and that arguments are needed for."""
    given = from_arguments(step)
    found: dict[ir.Value, set[int]] = {}
    for n, number in stage.items():
        read = [value for value in phases.through.sources(n) if value in phases.through.graph.maker or value in given]
        for value in (*read, *phases.through.graph.ops[n].results):
            found.setdefault(value, set()).add(number)
    return found
