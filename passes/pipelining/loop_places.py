"""Where the ops of a loop over micro-batches go when it is split at the loops over layers that it holds.

Places are numbers, in the order in which they run: 2k is the k-th loop over micro-batches, 2k + 1 the k-th loop over
layers, which then runs over all micro-batches by itself. A value that a place makes and a later one reads crosses:
there is one of it for each micro-batch.

Tests: test/passes/pipeline-layer-loop.mlir.
"""

from collections.abc import Iterable

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first, exhaust
from paropt.passes.ir.constants import scalar_of
from paropt.passes.ir.op_table import is_annotation, is_cheap, is_cloned, is_elementwise
from paropt.passes.outline.stages import DYNAMIC_SLICE
from paropt.passes.pipelining.block_graph import BlockGraph, Through, free_ops
from paropt.passes.pipelining.layer_loops import LayerLoop
from paropt.passes.pipelining.op_costs import value_bytes
from paropt.passes.pipelining.phases import terms_of
from paropt.passes.pipelining.step_loop import Rows, StepLoop, Sum
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import captured


class Inputs:
    """The values that a loop over layers reads."""

    def __init__(self, layers: LayerLoop) -> None:
        op = layers.loop.op
        self.starts = {
            i: value for i, value in enumerate(op.operands) if i != layers.counter and i not in layers.updates
        }
        self.sources = list(dict.fromkeys(each.operands[0] for each in layers.slices))  # arrays of a row a layer
        self.whole = [value for value in captured(op) if value not in self.sources]


class Places:
    """The place of each op of the body, and the values that cross. Not to be kept across a rewrite."""

    def __init__(self, step: StepLoop, layers: list[LayerLoop]) -> None:
        """Raises Declined where the loop cannot be split."""
        self.step, self.layers, self._body = step, layers, step.body
        self.inputs = [Inputs(each) for each in layers]
        self._numbers = {self._body.maker[each.loop.op.results[0]]: 2 * k + 1 for k, each in enumerate(layers)}
        apart = {n for each in step.sums for n in each.adds}
        self._apart = apart | {self._body.maker[each.update.results[0]] for each in step.rows}
        carried = {step.argument_of(each) for each in step.carries}
        sources = {self._body.maker.get(value) for each in self.inputs for value in each.sources}
        free = _free(self._body, carried) - self._apart - sources
        self.through = Through(self._body, free)
        self.hoisted = _invariant(step, carried) - free - self._apart - set(self._numbers)
        self._elsewhere = self.hoisted | {-1}
        self.stacked: dict[ir.Value, int] = {}  # arrays that loops over layers write row by row, and where
        self.place: dict[int, int] = {}
        self._place_early()
        self._place_late()
        self.own: list[set[int]] = []  # of each place, the ops that something needs
        self.crossing: dict[ir.Value, None] = {}
        self._find_crossing()

    @property
    def count(self) -> int:
        return 2 * len(self.layers) + 1

    def after(self, value: ir.Value) -> int:
        """The loop over layers that writes `value` row by row; else the first over micro-batches that can read it."""
        if value in self.stacked:
            return self.stacked[value]
        places = [self.place.get(self._body.maker[root], 0) for root in self._roots([value])]
        return max((place + place % 2 for place in places), default=0)

    def _behind(self, value: ir.Value) -> int:
        """The first loop over micro-batches that can read `value`."""
        place = self.after(value)
        return place + place % 2

    def made_at(self, value: ir.Value) -> int:
        """The place that makes the crossing `value`."""
        return self.place[self._body.maker[value]]

    def terms_at(self, place: int, carry: Sum | Rows) -> list[ir.Value]:
        """The terms that the place adds to, or writes to, the loop-carried value."""
        at = self._behind if isinstance(carry, Rows) else self.after
        return [value for value in terms_of(carry) if at(value) == place]

    def is_gathered(self, value: ir.Value) -> bool:
        """Whether `value`, which layers write row by row, is read by more than layers."""
        return value in self.stacked and any(value in each for each in self._frontiers[::2])

    def reached(self, place: int) -> list[ir.Value]:
        """The crossing values that the place reads, in the order of the program."""
        return [value for value in self.crossing if value in self._frontiers[place]]

    def whole_at(self, place: int) -> list[ir.Value]:
        """The values that a loop over layers reads otherwise than a row a layer."""
        inputs = self.inputs[place // 2]
        return [*inputs.starts.values(), *inputs.whole, *self._scalars(place)]

    def roots_at(self, place: int) -> list[ir.Value]:
        """The values that the place has to make, or that its loop over layers reads."""
        if place % 2:
            return [*self.whole_at(place), *self.inputs[place // 2].sources]
        rows = [value for each in self.step.rows if self.terms_at(place, each) for value in each.update.operands[1:]]
        terms = [value for each in self.step.sums for value in self.terms_at(place, each)]
        return [*terms, *rows, *(value for value in self.crossing if self.made_at(value) == place)]

    def rowwise_at(self, place: int) -> list[int]:
        """The ops of the loop over layers on arrays that it has written row by row."""
        return [n for n, at in self.place.items() if at == place and n not in self._numbers]

    def _roots(self, values: Iterable[ir.Value]) -> list[ir.Value]:
        """The values that free ops compute `values` from, but for values from outside and hoisted ones."""
        maker = self._body.maker
        return [root for root in self.through.merged(values) if maker.get(root, -1) not in self._elsewhere]

    def _place_early(self) -> None:
        """Each op behind the loops over layers that it needs."""
        for n, op in enumerate(self._body.ops):
            if n in self.through.free or n in self.hoisted or n in self._apart:
                continue
            if n in self._numbers:
                self.place[n] = self._numbers[n]
                self._require_rows_only(self.inputs[self.place[n] // 2], op)
                self.stacked.update((op.results[i], self.place[n]) for i in self.layers[self.place[n] // 2].updates)
                continue
            places = {self.stacked[value] for value in self._body.reads[n] if value in self.stacked}
            if self._is_rowwise(n, places):
                self.stacked[op.results[0]] = self.place[n] = places.pop()
                continue
            self.place[n] = max(map(self._behind, self._body.reads[n]), default=0)
            for value in (value for value in self._body.reads[n] if value in self.stacked):
                self._require_small(value, op)
        for rows in self.step.rows:
            if rows.update.operands[1] in self.stacked:
                self._require_small(rows.update.operands[1], rows.update)

    def _require_rows_only(self, inputs: Inputs, op: ir.Operation) -> None:
        whole = [*inputs.starts.values(), *inputs.whole]
        require(not any(value in self.stacked for value in whole), "it reads what other layers have written", op)

    def _is_rowwise(self, n: int, places: set[int]) -> bool:
        """Whether a stage can do op `n` to the rows of its layers."""
        op = self._body.ops[n]
        if len(places) != 1 or len(op.results) != 1 or not (is_elementwise(op) or is_annotation(op)):
            return False
        scalars = [scalar_of(value) for value in op.operands if value not in self.stacked]
        return all(scalar is not None and self._behind(scalar) < min(places) for scalar in scalars)

    def _require_small(self, value: ir.Value, reader: ir.Operation) -> None:
        """Rows of all layers, for `reader`, are all-gathered, where that takes no more bytes than layers hand on."""
        handed = sum(value_bytes(each) for each in self.inputs[self.stacked[value] // 2].starts.values())
        what = f"{reader.name} reads {value_bytes(value)} bytes of all layers; each hands {handed} bytes on to the next"
        require(value_bytes(value) <= handed, what, reader)

    def _scalars(self, place: int) -> list[ir.Value]:
        operands = [value for n in self.rowwise_at(place) for value in self._body.ops[n].operands]
        scalars = [scalar_of(value) for value in operands if value not in self.stacked]
        return [value for value in scalars if value is not None]

    def _place_late(self) -> None:
        """Places ops that need no loop over layers as late as their readers allow: fewer values cross."""
        for n in sorted(self.place, reverse=True):
            if self.place[n] == 0:
                readers = [m for value in self._body.ops[n].results for m in self.through.readers(value)]
                known = [self.place[m] // 2 * 2 for m in readers if m in self.place]
                self.place[n] = min(known, default=0)

    def _find_crossing(self) -> None:
        found: list[set[int]] = []
        self._frontiers: list[set[ir.Value]] = [set() for _ in range(self.count)]
        for place in reversed(range(self.count)):
            own, frontier = self._walk(place)
            found.append(own)
            self._frontiers[place] = frontier
            self.crossing.update(dict.fromkeys(sorted(frontier, key=self._body.maker.__getitem__)))
        self.own = found[::-1]

    def _walk(self, place: int) -> tuple[set[int], set[ir.Value]]:
        """The ops of the place that it needs, and the values of earlier places that it needs."""
        own, frontier = set[int](), set[ir.Value]()

        def made_of(value: ir.Value) -> list[ir.Value]:
            n = self._body.maker[value]
            if self.place[n] != place or place % 2:
                frontier.add(value)
                return []
            own.add(n)
            return self._roots(self._body.reads[n])

        exhaust(depth_first(self._roots(self.roots_at(place)), made_of))
        return own, frontier


def _free(body: BlockGraph, carried: set[ir.Value]) -> set[int]:
    """The ops that each place has copies of: cheap functions of rows of the batch, and of values from outside."""

    def is_free(op: ir.Operation, values: list[ir.Value], free: set[int]) -> bool:
        if any(value in carried for value in values):
            return False
        cheap = is_cloned(op) or is_cheap(op) or op.name == DYNAMIC_SLICE
        return cheap and all(value not in body.maker or body.maker[value] in free for value in values)

    return free_ops(body, is_free)


def _invariant(step: StepLoop, carried: set[ir.Value]) -> set[int]:
    """The ops that make the same of the same values in each trip."""
    body, changing = step.body, carried | {step.loop.body.arguments[step.counter]}

    def is_invariant(op: ir.Operation, values: Iterable[ir.Value], found: set[int]) -> bool:
        return all(body.maker[value] in found if value in body.maker else value not in changing for value in values)

    return free_ops(body, is_invariant)
