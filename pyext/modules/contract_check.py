"""The check that state, gradients and their replacements are sharded alike once XLA has chosen all shardings."""

from jaxlib.mlir import ir

from paropt.modules.module_io import Module, bytecode_of
from paropt.passes.sharding.chlo import add_chlo_rules
from paropt.passes.state.alike_shardings import Placements, breaks
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.sources import source_of

# Shardy's own propagation, on a copy: XLA's steps on the module, up to the point where it splits it over devices.
_PROPAGATION = "sdy-propagation-pipeline"


def broken(module: Module) -> list[str]:
    """Each place where `module` breaks the contract, in one line; none for a module without a mesh."""
    copy = ir.Module.parse(bytecode_of(module), module.operation.context)
    if Placements(copy.operation, settled=True).mesh is None:
        return []
    Pipeline.parse("inline-calls").run(copy.operation)
    add_chlo_rules(copy.operation)
    Pipeline.parse(_PROPAGATION).run(copy.operation)
    found = breaks(copy.operation, Placements(copy.operation, settled=True))
    return [f"{source_of(place.op.location)}: {place.text}" for place in found]
