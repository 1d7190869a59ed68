"""The order of ops in a block, and in the branches within it.

Tests: test/unit/passes/sharding/test_propagation.py, test/passes/fuse-all-reduces.mlir.
"""

from jaxlib.mlir import ir

from paropt.passes.support.traversal import parent_of


class Place:
    """Where `op` stands in `block`, or in branches within it. Places sort in program order, with ops in branches before
    the if or case that they are in. MLIR numbers the ops of a block itself, so this is cheap for few ops of many.
    """

    __slots__ = ("_path", "op")

    def __init__(self, op: ir.Operation, block: ir.Block) -> None:
        self.op = op
        self._path = [op]
        while self._path[0].block != block:
            self._path.insert(0, parent_of(self._path[0]))

    def __lt__(self, other: "Place") -> bool:
        if len(self._path) == len(other._path) == 1:  # the usual case
            return self.op.is_before_in_block(other.op)
        for mine, theirs in zip(self._path, other._path, strict=False):
            if mine == theirs:
                continue
            if mine.block == theirs.block:
                return mine.is_before_in_block(theirs)
            return _region_of(mine) < _region_of(theirs)
        return len(self._path) > len(other._path)


def _region_of(op: ir.Operation) -> int:
    """Which region of its parent `op` is in."""
    return next(i for i, region in enumerate(parent_of(op).regions) if region.blocks[0] == op.block)
