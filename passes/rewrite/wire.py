"""The element type in which reductions send their values, where a user chose another than the program's.

Tests: test/passes/defer-sync-precision.mlir, test/numeric/test_shard_map_accumulation.py.
"""

from jaxlib.mlir import ir

from paropt.passes.ir.types import is_float
from paropt.passes.rewrite.residual_split import in_type, sent_as
from paropt.passes.sharding.collectives import DEFERRED, IN_BRANCH, REDUCTIONS
from paropt.passes.support.traversal import ops_of


def set_wire_type(module: ir.Operation, wire: ir.Type | None) -> None:
    """Has the reductions that follow loops send floats as `wire` (None: as they are), and takes their marks away.

    So have those that branches in these loops need.

    Done when all have left all the loops that they may: a reduction that leaves another loop is accumulated as it was
    before.
    """
    for op in ops_of(module, *REDUCTIONS):
        marks = [mark for mark in (DEFERRED, IN_BRANCH) if mark in op.attributes]
        if not marks:
            continue
        for mark in marks:
            del op.attributes[mark]
        element = ir.RankedTensorType(op.results[0].type).element_type
        if wire is None or element == wire or not is_float(element):
            continue
        with ir.InsertionPoint(op), op.location:
            reduced = sent_as(op, wire)
            op.results[0].replace_all_uses_with(in_type(reduced, element))
        op.erase()
