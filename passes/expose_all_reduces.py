"""Writes the reductions that the partitioner will add into the program."""

from jaxlib.mlir import ir

from paropt.passes.analysis.explicit import Propagated
from paropt.passes.core.global_form import expose
from paropt.passes.core.registry import register
from paropt.passes.core.remarks import Remark

NAME = "expose-all-reduces"


@register
def expose_all_reduces(module: ir.Operation) -> list[Remark]:
    """doc"""
    for producer in Propagated(module).producers():
        expose(producer, producer.axes)
    return []
