"""The arguments of `paropt.jit`: those of `jax.jit`, and its own: which passes to run, and how."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import jax

from paropt.clusters import targets
from paropt.clusters.device_memory import ASKS_AUTO, AUTO, MEMORY_BUDGET, MemoryBudget, read_budget
from paropt.hook.donation import Donate, with_donation
from paropt.hook.memory_plans import planned
from paropt.passes.deferral.policy import UNLIMITED
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline


class JitArguments(TypedDict, total=False):
    """The keyword arguments of `jax.jit`."""

    in_shardings: Any
    out_shardings: Any
    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Sequence[str] | None
    keep_unused: bool
    device: jax.Device | None
    backend: str | None
    inline: Any
    compiler_options: dict[str, Any] | None


_OTHER_POLICY = re.compile(r"\bpolicy=(?!auto\b)[\w-]+")


@dataclass(eq=False)
class Spec:
    """The passes to run, and how. There is one object per pipeline, compared by identity: jax hashes it on every
    call."""

    pipeline: Pipeline
    strict: bool
    apart: bool | str
    compare: bool | None  # None: only where the passes leave a doubt
    memory_budget: int | Literal["auto"] | None = None  # bytes per device, for all of the program
    reached: bool = False  # by the lowering of some program

    @property
    def compares_in_doubt(self) -> bool:
        """Whether a program may be compiled a second time, which nobody asked for."""
        return self.compare is None and self.memory_budget is None


def spec_of(
    passes: str | Pipeline,
    strict: bool,
    apart: bool | str = False,
    donate: Donate | None = None,
    compare: bool | None = None,
    memory_budget: MemoryBudget = None,
) -> Spec | None:
    """None for no passes. That is also the context's value outside every block: such programs are plain jax's."""
    if not isinstance(passes, str | Pipeline):
        raise TypeError(f"passes: expected pipeline text or a Pipeline, got {type(passes).__name__}")
    require_flag("strict", strict)
    if compare is not None:
        require_flag("compare", compare)
    if not isinstance(apart, str):
        require_flag("apart", apart, "True, False or the name of a target")
    budget = read_budget(memory_budget)
    if isinstance(passes, str) and ASKS_AUTO.search(passes):
        passes, budget = ASKS_AUTO.sub(f"{MEMORY_BUDGET}=0", passes), AUTO if budget is None else budget
    other = _OTHER_POLICY.search(passes) if isinstance(passes, str) and budget is not None else None
    if other:
        raise ValueError(f"memory_budget: it goes with policy=auto, and `{passes}` has {other[0]}")
    pipeline = with_donation(Pipeline.parse(passes) if isinstance(passes, str) else passes, donate)
    if budget is not None:
        pipeline = planned(pipeline, UNLIMITED if budget == AUTO else budget)
    if isinstance(apart, str):
        _require_known(targets.get(apart))
    return _checked_spec(pipeline, strict, apart, compare, budget) if pipeline.stages else None


def require_flag(argument: str, value: object, expected: str = "True or False") -> None:
    """Raises TypeError, in words of the `argument`, for any value but a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument}: expected {expected}, got {value!r}")


@functools.cache
def _require_known(target: targets.Target) -> None:
    """Raises TargetError when this cannot be compiled for here. The compiler is asked until it knows the target."""
    target.require_known()


@functools.cache
def _checked_spec(
    pipeline: Pipeline, strict: bool, apart: bool | str, compare: bool | None, budget: int | Literal["auto"] | None
) -> Spec:
    context = make_context()  # has to outlive the manager
    pipeline.manager(context, [])  # raises for a stage that MLIR does not know
    return Spec(pipeline, strict, apart, compare, budget)


def any_traced(leaves: Sequence[Any]) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
