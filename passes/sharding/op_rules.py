"""Shardy's sharding rules: correspondences between the dimensions of operands and results.

A rule gives each dimension as a product of factors. Along a factor that is neither added up nor tied, each index of
the result is computed from the same index of the operands alone.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.shardings import Sharding

Factors = tuple[str, ...]  # of one dimension, the most major first

_FACTOR = re.compile(r"[a-z](?:_\d+)?")


class ShardingRule(NamedTuple):
    operands: tuple[tuple[Factors, ...], ...]  # of each operand and dimension
    results: tuple[tuple[Factors, ...], ...]
    sizes: dict[str, int]
    reduced: frozenset[str]  # an index of the result is computed from all indices of the operands, and it lacks them
    tied: frozenset[str]  # an index of the result may depend on any index of the operands
    moved: frozenset[str] = frozenset()  # those of these that can't be sharded without communication

    def split(self, shardings: Sequence[Sharding | None]) -> Iterator[tuple[Factors, Axes]]:
        """The factors of each dimension of each operand, and the axes that shard it."""
        for sharding, dimensions in zip(shardings, self.operands, strict=True):
            for number, factors in enumerate(dimensions):
                yield factors, sharding.dimensions[number] if sharding is not None else ()


@functools.lru_cache(maxsize=4096)  # layers that are alike have the same rules
def parse_rule(text: str) -> ShardingRule:
    """The rule that Shardy prints as `text`: `#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, ...} ...>`."""
    operands, _, rest = text.partition("->")
    results = rest[: rest.index(")") + 1]
    sizes = {name: int(size) for name, size in re.findall(rf"({_FACTOR.pattern})=(\d+)", rest)}
    moved = _set(rest, "need_replication") | _set(rest, "permutation")
    tied = moved | _set(rest, "blocked_propagation")
    return ShardingRule(_values(operands), _values(results), sizes, _set(rest, "reduction"), tied, moved)


def plain_rule(op: ir.Operation, tied: Sequence[int]) -> ShardingRule:
    """The rule of an op whose operands and results have the same dimensions, of which some are tied."""
    shape = list(ir.RankedTensorType(op.operands[0].type).shape)
    names = [f"z_{i}" for i in range(len(shape))]
    dims = tuple((name,) for name in names)
    sizes = dict(zip(names, shape, strict=True))
    operands, results = (dims,) * len(op.operands), (dims,) * len(op.results)
    return ShardingRule(operands, results, sizes, frozenset(), frozenset(names[i] for i in tied))


def _values(text: str) -> tuple[tuple[Factors, ...], ...]:
    values = re.findall(r"\[([^\]]*)\]", text)
    return tuple(tuple(tuple(_FACTOR.findall(dim)) for dim in value.split(",") if dim.strip()) for value in values)


def _set(text: str, kind: str) -> frozenset[str]:
    found = re.search(rf"{kind}=\{{([^}}]*)\}}", text)
    return frozenset(_FACTOR.findall(found[1])) if found else frozenset()
