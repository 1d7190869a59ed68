"""The executables that one module may become: as it is, rewritten, rewritten by other pipelines.

Tests: test/unit/pyext/hook/test_variants.py, test/unit/pyext/hook/test_doubts.py.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.base.progress import to_terminal
from paropt.base.wording import size_text
from paropt.clusters import targets
from paropt.hook.fallback import Fallback, Setback
from paropt.hook.jit_arguments import Spec
from paropt.hook.memory_plans import Plan, planned
from paropt.hook.slow_axes import with_link_costs
from paropt.hook.user_warnings import warn
from paropt.modules.other_policies import AT_USE, with_policy
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import nearest_source


class Rewrite(NamedTuple):
    """How a module was rewritten, to be compiled with an eye on the executable."""

    spec: Spec
    fallback: Fallback
    by: Callable[[ir.Module, Pipeline], tuple[Remarks, Fallback]]  # of the module as it was, by other passes
    in_doubt: int  # bytes that XLA alone may reduce less
    is_guess: bool  # whether a policy may send more than the default one
    alone_first: bool = False  # whether XLA alone is likely to send less


class Variants:
    """Each is compiled when it is asked for. `Fallback` may compile the program as it is once more, to compare them."""

    def __init__(
        self,
        module: ir.Module,
        rewrite: Rewrite,
        remarks: Remarks,
        compile: Callable[[ir.Module], Any],
        devices: Any,
        options: Any,
    ) -> None:
        """Of a rewritten `module`, of which the passes said `remarks`."""
        self.rewrite, self.devices = rewrite, devices
        self._module, self._remarks, self._compile, self._options = module, remarks, compile, options
        self._original: Plan | None = None
        self._within: dict[int, Plan] = {}  # by the bytes that it may hold

    def original(self) -> Plan:
        """The program without passes."""
        if self._original is None:
            text = "the program stays as it was, because it takes or sends less than what the passes make of it"
            found = Remarks([remark_on(self._module, text, applied=False)])
            executable = self._compile(self.rewrite.fallback.fresh(self._module.context))
            self._original = Plan(executable, found, is_original=True)
        return self._original

    def rewritten(self) -> Plan:
        """The program by its own pipeline."""
        return self._plan(self._module, self._remarks, self.rewrite.fallback)

    def default(self) -> Plan:
        """The program by its pipeline with the default policy, if that has one."""
        pipeline = with_policy(self.rewrite.spec.pipeline, AT_USE)
        return self._by(pipeline) if pipeline is not None else self.original()

    def within(self, room: int) -> Plan:
        """The program by its pipeline, that may hold so many bytes more."""
        if room not in self._within:
            pipeline = planned(self.rewrite.spec.pipeline, room)
            to_terminal(f"memory_budget: compiling a plan that holds {size_text(room)} more at most")
            # Link costs by these devices: jax lowers for any.
            self._within[room] = self._by(with_link_costs(pipeline, self._module.operation, tuple(self.devices)))
        return self._within[room]

    def _by(self, pipeline: Pipeline) -> Plan:
        fresh = self.rewrite.fallback.fresh(self._module.context)
        return self._plan(fresh, *self.rewrite.by(fresh, pipeline))

    def _plan(self, module: ir.Module, found: Remarks, fallback: Fallback) -> Plan:
        made, setback = fallback.compiled(module, self._compile, operator.methodcaller("as_text"), self._rehearse)
        if setback is not None:
            found = Remarks([*(setback.remarks or found), failure(self.rewrite.spec, self._module, setback)])
        return Plan(made, found, setback is not None and setback.stays == "the program")

    def _rehearse(self, bytecode: bytes) -> None:
        """Compiles it in a child process first, where the user asked for that."""
        if apart := self.rewrite.spec.apart:
            target = apart if isinstance(apart, str) else targets.name_for(self.devices)
            targets.get(target).compile(bytecode, options=dict(self._options))


def failure(spec: Spec, module: ir.Module, setback: Setback) -> Remark:
    """The remark that says why the program, or some of it, stays as it was; the same words are the warning."""
    text = f"`{spec.pipeline.title}` {setback.verdict}, {setback.stays} stays as it was: {setback.reason}"
    name = ir.StringAttr(module.operation.attributes["sym_name"]).value
    warn(f"paropt: {name}: {text} (strict=True raises it)")
    return remark_on(module, text, applied=False)


def remark_on(module: ir.Module, text: str, *, applied: bool) -> Remark:
    """A remark of no pass, on the whole of `module`."""
    return Remark("paropt", module.operation.name, nearest_source(module.operation), applied=applied, text=text)
