"""How a stack and the accumulators that it is added to are sharded, as XLA would infer it.

Tests: test/passes/accumulate-in-place-shardings.mlir, test/numeric/test_in_place_sums.py.
"""

from collections.abc import Iterable

from jaxlib.mlir import ir

from paropt.passes.accumulators.row_stack import RowStack
from paropt.passes.accumulators.stack_additions import Addition
from paropt.passes.dataflow.engine import spread
from paropt.passes.dataflow.unreduced import made_unreduced
from paropt.passes.ir.op_table import adds
from paropt.passes.ir.row_index import UPDATE
from paropt.passes.sharding.annotations import SHARDINGS, noted_alone, noted_sharding
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.meshes import has_mesh
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import SHARDING, Sharding, is_all_manual, manual_around, read_sharding
from paropt.passes.spmd.global_form import sources, take_back
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import all_ops_of, op_of

_Cut = list[tuple[int, Axes]]  # the size of a dimension, and the axes that shard it


class SumShardings:
    """The shardings in `module`, inferred when they are needed, and again after an edit."""

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self._has_mesh = has_mesh(module)
        self.forget()

    def forget(self) -> None:
        """To be called after an edit."""
        self._inferred: dict[ir.Value, Sharding | None] | None = None
        self._unreduced: dict[ir.Value, None] | None = None

    def require_alike(self, stack: RowStack, addition: Addition) -> None:
        """Declines unless each device adds its own parts of rows to its own parts of the accumulator."""
        loop = stack.loop.op
        require(SHARDING not in loop.attributes, "the loop says how its values are sharded", loop)
        manual = manual_around(loop)
        if not self._has_mesh or (manual is not None and is_all_manual(manual)):
            return
        written, added = stack.write.results[0], addition.op.results[0]
        rows, sums = self._sharding(written), self._sharding(added)
        require(not (rows and rows.dimensions[stack.row]), "the rows are on different devices", stack.write)
        alike = _cut(rows, written, addition.way.dimensions) == _cut(sums, added, range(_rank(added)))
        require(alike, "the accumulator is sharded otherwise than the stack", addition.op)

    def _sharding(self, result: ir.Value) -> Sharding | None:
        """How XLA would shard the op result `result`; None where it is replicated."""
        if SHARDINGS in op_of(result).attributes or result in self._exposed():
            return noted_sharding(result)
        alone = noted_alone(ir.OpResult(result))
        if alone is not None:
            return read_sharding(alone[0]) if len(alone) else None
        return self._propagated().get(result)

    def _exposed(self) -> dict[ir.Value, None]:
        """The unreduced values of sums that are exposed."""
        if self._unreduced is None:
            self._unreduced = dict.fromkeys(source.results[0] for source in sources(self._module))
            spread(self._unreduced, lambda _, use: made_unreduced(use, on_condition=True))
        return self._unreduced

    def _propagated(self) -> dict[ir.Value, Sharding | None]:
        """The shardings of the results of ops that write rows or add, as Shardy finds them without exposed
        reductions."""
        if self._inferred is None:
            copy = self._module.clone()
            pairs = list(zip(_asked(self._module), _asked(copy), strict=True))
            take_back(copy)
            found = Propagated(copy)
            self._inferred = {mine.results[0]: found.sharding_of(its.results[0]) for mine, its in pairs}
        return self._inferred


def _asked(module: ir.Operation) -> list[ir.Operation]:
    return [op for op in all_ops_of(module) if op.name == UPDATE or adds(op)]


def _cut(sharding: Sharding | None, value: ir.Value, order: Iterable[int]) -> _Cut:
    """The dimensions of `value` that are sharded, in this order: a reshape of others changes nothing."""
    shape = ir.RankedTensorType(value.type).shape
    return [(shape[i], sharding.dimensions[i]) for i in order if sharding.dimensions[i]] if sharding is not None else []


def _rank(value: ir.Value) -> int:
    return ir.RankedTensorType(value.type).rank
