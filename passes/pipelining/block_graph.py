"""The data flow of one block: ops by number, in program order. MLIR hashes an op by its content, so none is a key.

Tests: test/passes/cut-stages.mlir, test/passes/outline-stages.mlir.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first, exhaust
from paropt.passes.support.traversal import reads


class BlockGraph:
    """The ops of a block but its terminator, and which of them make and read which values."""

    def __init__(self, block: ir.Block) -> None:
        self.block = block
        self.ops = [op.operation for op in block.operations][:-1]
        self.reads = [list(dict.fromkeys(reads(op))) for op in self.ops]
        self.maker: dict[ir.Value, int] = {result: n for n, op in enumerate(self.ops) for result in op.results}
        self._readers: dict[ir.Value, list[int]] = {}
        for n, values in enumerate(self.reads):
            for value in values:
                self._readers.setdefault(value, []).append(n)

    def readers(self, value: ir.Value) -> list[int]:
        """The ops that read `value`, in program order; the terminator is none of them."""
        return self._readers.get(value, [])

    def ancestors(self, values: Iterable[ir.Value]) -> set[int]:
        """The ops that `values` are computed from."""
        return set(self.behind(values))

    def behind(self, values: Iterable[ir.Value]) -> Iterator[int]:
        """The same one by one, for a caller who may have seen enough."""
        starts = [self.maker[value] for value in values if value in self.maker]
        return depth_first(starts, self._before.__getitem__)

    @cached_property
    def _before(self) -> list[list[int]]:
        """Of each op, those that make its operands."""
        return [[self.maker[value] for value in values if value in self.maker] for values in self.reads]


class Through:
    """A graph seen through some of its ops, which each reader has copies of, but not through values in `ends`."""

    def __init__(self, graph: BlockGraph, free: Collection[int], ends: Collection[ir.Value] = ()) -> None:
        self.graph = graph
        self.free = frozenset(free)
        self.ends = frozenset(ends)
        self._roots: dict[ir.Value, list[ir.Value]] = {}

    def roots(self, value: ir.Value) -> list[ir.Value]:
        """The values that free ops compute `value` from; `value` itself where none does."""
        if value not in self._roots:
            read = self._read(value)
            self._roots[value] = [value] if read is None else self.merged(read)
        return self._roots[value]

    def _read(self, value: ir.Value) -> list[ir.Value] | None:
        """The operands of the free op that makes `value`; None where none does."""
        n = self.graph.maker.get(value)
        if n is None or n not in self.free or value in self.ends:
            return None
        return self.graph.reads[n]

    def copied(self, ops: Iterable[int], values: Iterable[ir.Value] = ()) -> list[int]:
        """`ops` and the free ones that they and `values` are computed from, in program order."""
        wanted, maker = [*values, *(value for n in ops for value in self.graph.reads[n])], self.graph.maker
        reached = [value for value in depth_first(wanted, lambda v: self._read(v) or []) if value not in self.ends]
        return sorted({*ops, *(maker[value] for value in reached if maker.get(value) in self.free)})

    def sources(self, n: int) -> list[ir.Value]:
        """The values that op `n` reads, through free ops, and that no free op makes."""
        return self.merged(self.graph.reads[n])

    def merged(self, values: Iterable[ir.Value]) -> list[ir.Value]:
        return list(dict.fromkeys(root for value in values for root in self.roots(value)))

    def readers(self, value: ir.Value) -> list[int]:
        """The ops, none of them free, that read `value`, if through free ones."""
        found: dict[int, None] = {}

        def following(value: ir.Value) -> list[ir.Value]:
            ops = self.graph.readers(value)
            found.update((n, None) for n in ops if n not in self.free)
            return [result for n in ops if n in self.free for result in self.graph.ops[n].results]

        exhaust(depth_first([value], following))
        return sorted(found)


def free_ops(graph: BlockGraph, is_free: Callable[[ir.Operation, list[ir.Value], set[int]], bool]) -> set[int]:
    """The ops that are free, given those before them that are."""
    free: set[int] = set()
    for n, op in enumerate(graph.ops):
        if is_free(op, graph.reads[n], free):
            free.add(n)
    return free
