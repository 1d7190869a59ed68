"""`par-opt step.mlir --plan`: the ranking of candidates for a target, and with -o the plan file of the best."""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.clusters import targets
from paropt.clusters.compiled import TargetError
from paropt.clusters.device_memory import read_budget
from paropt.command.options import Options
from paropt.costs.machines import CostError, read_table
from paropt.modules import module_io
from paropt.modules.module_io import ModuleError
from paropt.passes.support.context import make_context
from paropt.plan import CompiledFor, Plan, PlanError, compiled_for, planned
from paropt.planning.goals import Goal, read_objective
from paropt.planning.plan_files import dumps
from paropt.planning.sharded_programs import step_in

ERRORS = (CostError, ModuleError, PlanError, TargetError, ValueError)


class Request(NamedTuple):
    """The request of the command line."""

    compiled: CompiledFor
    goal: Goal
    cache: str | None

    @classmethod
    def of(cls, options: Options) -> "Request":
        """Reads the options before any module is read. Raises one of ERRORS."""
        (target,) = options.target
        memory = read_budget(options.memory, "--memory")
        compiled = compiled_for(targets.get(target), read_table(options.estimate or None))
        return cls(
            compiled, Goal(compiled.budget(memory), read_objective(options.objective or "seconds")), options.plan_cache
        )

    def plan(self, data: bytes, name: str) -> Plan:
        """The plan for the module in `data`. Raises one of ERRORS."""
        context = make_context()
        parsed = module_io.parse(data, name, context)  # an operation, which may be a module
        module_io.require_checked(parsed, name)
        module = ir.Module.parse(module_io.bytecode_of(parsed), context)
        return planned(step_in(module), self.compiled, self.goal, cache=self.cache)


def file_of(plan: Plan) -> bytes:
    """The plan file."""
    return dumps(plan.candidate, plan.target).encode()
