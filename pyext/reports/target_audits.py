"""Audits of modules, compiled for targets and counted."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from jaxlib.mlir import ir

from paropt.costs.clusters import Cluster, cluster_of
from paropt.costs.machines import Machine
from paropt.costs.step_time import estimate
from paropt.hlo.census import census
from paropt.hlo.participants import Layout
from paropt.modules.module_io import name_of
from paropt.passes.ir.signature import signatures
from paropt.passes.ir.types import tensor_of
from paropt.passes.support.context import make_context
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import ops_of
from paropt.reports.comparison import AuditComparison
from paropt.reports.totals import Audit
from paropt.verify.verification import differences

Costs: TypeAlias = Mapping[str, Machine]  # figures, by the machine's name


def compare(
    target: Any, before: Any, after: Any, passes: str, remarks: Iterable[Remark], costs: Costs | None = None
) -> AuditComparison:
    """The audits of a program before and after `passes`, compiled for `target`; without passes, compiled once.

    With `costs`, step times are estimated. Raises CostError where these have no figures for the target.
    """
    audited = audit_on(target, after, costs)
    alone = audit_on(target, before, costs) if passes else audited
    modules = _module_of(before), _module_of(after)
    wrong = differences(*modules, audited.collectives, alone.collectives) if passes else ()
    return AuditComparison(
        before=alone,
        after=audited,
        passes=passes,
        target=target.name,
        remarks=tuple(dict.fromkeys(remarks)),
        mismatches=tuple(wrong),
        module=name_of(_module_of(after)),
        arguments=_argument_shapes(_module_of(before)),
    )


def _argument_shapes(module: ir.Operation) -> frozenset[tuple[int, ...]]:
    """Of the arguments of the program, unsharded."""
    found = [tensor_of(slot.value) for each in signatures(module) for slot in each.arguments]
    return frozenset(tuple(tensor.shape) for tensor in found if tensor is not None)


def _module_of(program: Any) -> ir.Operation:
    return (program.compiler_ir() if hasattr(program, "compiler_ir") else program).operation


def with_names(bytecode: bytes) -> ir.Module:
    """The module in `bytecode`, its ops named: XLA keeps the position of an op only together with a name."""
    context = make_context(allow_unregistered_dialects=True)

    def name(op: ir.Operation) -> ir.WalkResult:
        source = source_of(op.location)
        if source.line and not source.scope:
            position = ir.Location.file(source.file, source.line, source.column, context=context)
            op.location = ir.Location.name(op.name.rpartition(".")[2], position, context=context)
        return ir.WalkResult.ADVANCE

    module = ir.Module.parse(bytecode, context)
    module.operation.walk(name)
    label_reducers(module)
    return module


def label_reducers(module: ir.Module) -> None:
    """Gives the reducers of collectives their own position, where XLA may drop that of the collective.

    jax has traced the reducer before, for the first collective of its kind, and has left the position of that one.
    """
    for collective in ops_of(module.operation, "stablehlo.all_reduce", "stablehlo.reduce_scatter"):
        block = collective.regions[0].blocks[0]
        for argument in block.arguments:
            argument.set_location(collective.location)
        for op in block.operations:
            op.location = collective.location


def audit_on(target: Any, program: Any, costs: Costs | None = None) -> Audit:
    """The audit of the executable that `target` makes of `program`, a module or a `jax.stages.Lowered`."""
    return timed_on(target, program, None if costs is None else cluster_of(target, costs))


def timed_on(target: Any, program: Any, cluster: Cluster | None) -> Audit:
    """The same, with times estimated for a cluster of as many devices: the target's, or another. None: without."""
    compiled = target.compile(program)
    module = program if isinstance(program, ir.Module) else program.compiler_ir()
    layout = Layout.of_module(module, compiled.devices)
    estimated = None if cluster is None else estimate(compiled.hlo, cluster, compiled.devices)
    return Audit(census(compiled.hlo, layout), compiled.memory.peak if compiled.memory else None, estimated)
