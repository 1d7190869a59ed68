"""Operands of contractions and scatters that XLA all-gathers, or all-to-alls, for the op.

Sequence parallel training shards activations by positions between layers and by features within, both over the axis of
the tensor parallel weights. A contraction of the two cannot keep both: XLA keeps the sharding of the result where the
other operand has it, too, and all-gathers the other values over that axis. In a batch of contractions, such as those of
experts, devices exchange differently sharded parts for parts of the batch.

The gradient of a table that is sharded by features, over an axis that shards tokens as well, is sharded by features,
too: XLA all-gathers the indices of its rows, which are few bytes. That of a table whose rows are sharded over the axis
that shards the features of activations, as with tensor parallelism, adds up whole features: XLA all-gathers these.

Target: CPU, TPU, GPU.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50 (CPU and TPU).
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.

Tests: test/passes/expose-all-reduces-rows.mlir, test/numeric/test_all_gather_growth.py.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.axes import Axes, Axis
from paropt.passes.sharding.op_rules import Factors, parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding

_DOT, _SCATTER = "stablehlo.dot_general", "stablehlo.scatter"

_Splits = Mapping[Factors, Axes]  # of the dimensions of an operand or a result, by their names in Shardy's rule


class Gather(NamedTuple):
    """The shardings of an operand before and after XLA all-gathers it."""

    before: Sharding
    after: Sharding


def gathers(op: ir.Operation, propagated: Propagated) -> tuple[Gather | None, ...]:
    """Per operand of `op`; None where it is read in its own sharding, and for ops other than contractions and
    scatters."""
    nothing = (None,) * len(op.operands)
    if op.name == _SCATTER:
        return _scattered(op, propagated)
    if op.name != _DOT:
        return nothing
    lies, result = propagated.operand_shardings(op), propagated.sharding_of(op.results[0])
    if result is None or len(lies) != 2 or None in lies:
        return nothing
    rule = parse_rule(propagated.sharding_rule(op))
    made = dict(zip(rule.results[0], result.dimensions, strict=True))
    known = [sharding for sharding in lies if sharding is not None]
    own, other = (dict(zip(of, s.dimensions, strict=True)) for of, s in zip(rule.operands, known, strict=True))
    return (_gather(known[0], own, other, made), _gather(known[1], other, own, made))


def _scattered(op: ir.Operation, propagated: Propagated) -> tuple[Gather | None, ...]:
    """Of a scatter, the indices, or the updates, where one of them is sharded over an axis that its result needs."""
    lies, result = propagated.operand_shardings(op), propagated.sharding_of(op.results[0])
    if len(lies) != 3 or result is None:
        return (None,) * len(op.operands)
    _, of_indices, of_updates = lies
    if of_indices is None or of_updates is None:
        return (None, None, None)
    rule = parse_rule(propagated.sharding_rule(op))
    made = dict(zip(rule.results[0], result.dimensions, strict=True))
    _, *read = rule.operands
    indices, updates = (
        dict(zip(dims, lie.dimensions, strict=True)) for dims, lie in zip(read, (of_indices, of_updates), strict=True)
    )
    rows = {axis for dimension, axes in made.items() if dimension not in updates for axis in axes}
    if rows:
        features = _features_gathered(of_updates, updates, made, rows)
        exchanged = not any(made.get(dimension) for dimension in updates)
        return (None, None, None if exchanged and features and _is_more(op, features.after, result) else features)
    return (None, _gather(of_indices, indices, updates, made), None)


def _features_gathered(lies: Sharding, updates: _Splits, made: _Splits, rows: set[Axis]) -> Gather | None:
    """Of updates whose features are sharded over axes that shard the `rows` of the result."""
    kept = {dim: () if dim in made and rows.issuperset(axes) else axes for dim, axes in updates.items()}
    found = lies._replace(dimensions=tuple(kept.values()))
    return Gather(lies, found) if found != lies and rows.isdisjoint(found.axes) else None


def _is_more(op: ir.Operation, updates: Sharding, result: Sharding) -> bool:
    """Whether the updates of a scatter, with whole features, are more than its result, whose parts XLA may exchange
    instead where no axis shards the features of the result."""
    return shard_bytes(op.operands[2], updates) > shard_bytes(op.results[0], result)


def is_gathered_alike(use: ir.OpOperand, gather: Gather, propagated: Propagated) -> bool:
    """Whether XLA all-gathers the operand used there, too, to the same sharding."""
    return gathers(use.owner.operation, propagated)[use.operand_number] == gather


def _gather(lies: Sharding, own: _Splits, other: _Splits, result: _Splits) -> Gather | None:
    """Of the operand that is split as `own`, so that it keeps the axes that the `other` operand and the `result`
    allow."""
    kept: dict[Factors, Axes] = {}
    free: set[Axis] = set()  # the axes that are given up
    for dimension, axes in own.items():
        allowed = result.get(dimension, other.get(dimension, axes))
        left = tuple(axis for axis, _ in takewhile(lambda pair: pair[0] == pair[1], zip(axes, allowed, strict=False)))
        lost, wanted = axes[len(left) :], allowed[len(left) :]
        in_use = {axis for at, over in own.items() if at != dimension for axis in over}  # not to be had for this one
        if lost and not (_is_taken(lost, other, result) and in_use.issuperset(wanted)):
            return None
        kept[dimension] = left
        free.update(lost)
    for dimension, left in kept.items():
        wanted = result.get(dimension, ())[len(left) :]
        if free.issuperset(wanted):  # devices exchange parts, to have the same ones of a batch
            kept[dimension] = (*left, *wanted)
    found = lies._replace(dimensions=tuple(kept.values()))
    return Gather(lies, found) if found != lies else None


def _is_taken(axes: Axes, other: _Splits, result: _Splits) -> bool:
    """Whether all of `axes` shard a dimension of both the `other` operand and the `result`."""
    shared = [axis for dimension, over in result.items() if over == other.get(dimension) for axis in over]
    return set(axes) <= set(shared)
