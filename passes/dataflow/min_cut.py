"""The placement of reductions at least cost: a minimum cut.

Partial sums flow from the reductions that make them to the uses that need them reduced. Each path must be closed by one
reduction somewhere; closing at a value costs the bytes of that value, once, however many uses follow. The cheapest set
of such places is a minimum vertex cut. Sums join paths, so closing after a sum costs less than before it; a broadcast
makes closing after it dearer, a slice cheaper; a shared sum is closed where it is shared. Residuals are computed
separately then, which may cost a duplicated all-gather or contraction.
"""

from collections import deque

from jaxlib.mlir import ir

from paropt.passes.dataflow.duplication_cost import PER_BYTE, adds_nothing, joined, multiplications
from paropt.passes.dataflow.partial_values import PartialValues
from paropt.passes.ir.types import bytes_of
from paropt.passes.sharding.annotations import parts_unreduced
from paropt.passes.support.traversal import op_of

# Bytes come first, the number of arrays second: below this many arrays, one byte outweighs them all.
_BYTE = 1 << 24


class Placement:
    """The cheapest places for the reductions of `partial`.

    `split`: the values computed before any reduction; `closed`: those of them that are reduced, in program order.
    Of several cheapest placements it is the one nearest to where the reductions stand, so that a second run changes
    nothing.
    """

    def __init__(self, partial: PartialValues) -> None:
        values = list(partial.values)
        flow = Flow(2 + 2 * len(values))
        enters = {value: 2 + 2 * i for i, value in enumerate(values)}
        mixed = _mixed(partial)
        for value, made in partial.values.items():
            flow.connect(enters[value], enters[value] + 1, bytes_of(ir.RankedTensorType(value.type)) * _BYTE + 1)
            if value in mixed:
                flow.connect(enters[value], Flow.SINK, _twice(value, partial) * _BYTE)
            if not made.addends:
                flow.connect(Flow.SOURCE, enters[value], Flow.UNBOUNDED)
            if partial.other_uses(value):
                flow.connect(enters[value] + 1, Flow.SINK, Flow.UNBOUNDED)
            for operand in made.addends:
                addend = op_of(value).operands[operand]
                if addend in enters:
                    # An op is done before the reduction only if the ops that it reads are.
                    flow.connect(enters[addend] + 1, enters[value], Flow.UNBOUNDED)
                    flow.connect(enters[value], enters[addend], Flow.UNBOUNDED)
        reached = flow.source_side()
        self.split = [value for value in values if enters[value] in reached]
        self.closed = [value for value in self.split if enters[value] + 1 not in reached]


def _mixed(partial: PartialValues) -> frozenset[ir.Value]:
    """The values with a residual, which is computed separately while the partial sum is unreduced."""
    mixed: set[ir.Value] = set()
    for value in partial.values:  # in program order
        terms = partial.terms(value) if partial.values[value].addends else ()
        never = (term for term in terms if term not in partial.values)
        if not mixed.isdisjoint(terms) or any(not adds_nothing(term, partial.reduction.combiner) for term in never):
            mixed.add(value)
    return frozenset(mixed)


def _twice(value: ir.Value, partial: PartialValues) -> int:
    """The cost of duplicating `value`, in reduced bytes: each of these is sent twice.

    Sizes are those of whole arrays, whatever part of them a device holds, so that each move reduces fewer bytes, and
    moves come to an end.
    """
    parts = max((parts_unreduced(part, partial.reduction) for part in partial.parts(value)), default=1)
    return (joined(value) + multiplications(value) // PER_BYTE) * parts // 2


def may_move(partial: PartialValues) -> bool:
    """Whether another place could cost less: where reductions meet, or where a function of one is smaller."""
    size: dict[ir.Value, int] = {}  # of the one reduction that a value is made of
    reduced: dict[ir.Value, ir.Value] = {}  # that reduction's result
    for value in partial.values:
        found = {reduced[part] for part in partial.parts(value)} or {value}
        own = bytes_of(ir.RankedTensorType(value.type))
        source = found.pop()
        if found or own < size.setdefault(source, own):
            return True
        reduced[value] = source
    return False


class Flow:
    """Maximum flow by Dinic's algorithm; capacities are Python integers of any size.

    `scipy.sparse.csgraph.maximum_flow` does not replace it: its capacities are 32 bits, and larger ones are cut off
    without a word, where 128 bytes take 32 here, and the sums of 48 layers x 8 unrolled micro-batches 39. On their
    graph of 10,478 nodes, with bytes alone as capacities, it takes as long (13 ms, to build its matrix included); to
    import it takes 0.2 s, twice as long as all passes.
    """

    SOURCE, SINK = 0, 1
    UNBOUNDED = 1 << 200

    def __init__(self, size: int) -> None:
        self._edges_of: list[list[int]] = [[] for _ in range(size)]
        self._target: list[int] = []
        self._capacity: list[int] = []  # its residual; edge i ^ 1 is the reverse of edge i

    def connect(self, source: int, target: int, capacity: int) -> None:
        for start, end, left in ((source, target, capacity), (target, source, 0)):
            self._edges_of[start].append(len(self._target))
            self._target.append(end)
            self._capacity.append(left)

    def source_side(self) -> set[int]:
        """The nodes on the source side of the minimum cut nearest to the source."""
        while True:
            level = self._levels()
            if self.SINK not in level:
                return set(level)
            unused = [0] * len(self._edges_of)
            while self._augment(level, unused):
                pass

    def _levels(self) -> dict[int, int]:
        level = {self.SOURCE: 0}
        waiting = deque([self.SOURCE])
        while waiting:
            node = waiting.popleft()
            for edge in self._edges_of[node]:
                if self._capacity[edge] and self._target[edge] not in level:
                    level[self._target[edge]] = level[node] + 1
                    waiting.append(self._target[edge])
        return level

    def _augment(self, level: dict[int, int], unused: list[int]) -> bool:
        """Sends flow along one shortest path; `unused[n]` is the first edge of node n not yet found blocked."""
        path: list[int] = []
        node = self.SOURCE
        while node != self.SINK:
            edge = self._next_edge(node, level, unused)
            if edge is not None:
                path.append(edge)
                node = self._target[edge]
            elif not path:
                return False
            else:
                node = self._target[path.pop() ^ 1]
                unused[node] += 1
        sent = min(self._capacity[edge] for edge in path)
        for edge in path:
            self._capacity[edge] -= sent
            self._capacity[edge ^ 1] += sent
        return True

    def _next_edge(self, node: int, level: dict[int, int], unused: list[int]) -> int | None:
        edges = self._edges_of[node]
        while unused[node] < len(edges):
            edge = edges[unused[node]]
            if self._capacity[edge] and level.get(self._target[edge]) == level[node] + 1:
                return edge
            unused[node] += 1
        return None
