"""Programs of users, lowered: functions, `jax.jit` functions, and wrappers of these (as of equinox)."""

import copy
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import jax
from jaxlib.mlir import ir

from paropt.clusters.targets import lowered_for
from paropt.modules.module_io import bytecode_of

UNKNOWN_JAX = f"paropt needs jax 0.10 to 0.12: it does not know how jax {jax.__version__} lowers programs"

_KINDS = {"cuda": "gpu", "rocm": "gpu"}  # as GPUs are called where a program is lowered for one kind of them


@runtime_checkable
class WithPasses(Protocol):
    """The result of `paropt.jit`."""

    @property
    def passes(self) -> str:
        """The pipeline."""

    def lower_without_passes(self, /, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """The function as `jax.jit` lowers it."""


def lowered_of(program: Any) -> jax.stages.Lowered | None:
    """`program`, if it is lowered: jax's result, or an object that holds it, as the result of equinox's `lower`
    does."""
    inner = getattr(program, "lowered", program)
    return inner if isinstance(inner, jax.stages.Lowered) else None


def compiled_of(program: Any) -> Any:
    """The `jax.stages.Compiled` in `program`, as `lowered_of`; None where that is something else."""
    inner = getattr(program, "compiled", program)
    return inner if isinstance(inner, jax.stages.Compiled) else None


def is_foreign(program: Any) -> bool:
    """Whether `program` can be lowered and is not of jax's kind, such as a result of `equinox.filter_jit`."""
    is_jitted = isinstance(program, jax.stages.Wrapped)
    return not is_jitted and not isinstance(program, str) and callable(getattr(program, "lower", None))


def require_own(fun: Any) -> None:
    """Raises TypeError for a function that `paropt.jit` cannot compile because something else does."""
    if is_foreign(fun):
        maker = type(fun).__module__.partition(".")[0]
        raise TypeError(f"jit: the function is compiled by {maker} already; call it inside `with paropt.enabled():`")


def without_static(jitted: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a function that `jax.jit` made compiles for, and not with."""
    static = jitted._jit_info
    return (
        tuple(a for i, a in enumerate(args) if not {i, i - len(args)} & set(static.static_argnums)),
        {name: a for name, a in kwargs.items() if name not in static.static_argnames},
    )


def static_of(jitted: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """The others: their places or names, with their values and types (1, 1.0 and True are equal)."""
    static = jitted._jit_info
    places = [(i, a) for i, a in enumerate(args) if {i, i - len(args)} & set(static.static_argnums)]
    named = [(name, kwargs[name]) for name in sorted(kwargs) if name in static.static_argnames]
    return tuple((where, type(value), value) for where, value in [*places, *named])


def donated_of(lowered: Any) -> list[bool]:
    """Which of the arguments that the program did not drop its callers donate."""
    flags = [argument.donated for argument in jax.tree.leaves(lowered.args_info)]
    return [flags[number] for number in kept_of(lowered)]


def kept_of(lowered: Any) -> list[int]:
    """The numbers of the arguments that the program did not drop."""
    count = len(jax.tree.leaves(lowered.args_info))
    return sorted(lowered._lowering.compile_args.get("kept_var_idx", range(count)))


def platform_of(names: Iterable[str]) -> str:
    """cpu, tpu or gpu, from jax's names of the platforms that a program is lowered for; "" where there are several."""
    kinds = {_KINDS.get(name, name) for name in names}
    return kinds.pop() if len(kinds) == 1 else ""


def platform_of_lowered(lowered: Any) -> str:
    """The same of a program that jax has lowered; "" where it left the devices open."""
    return platform_of(device.platform for device in lowered_for(lowered))


def copied(lowered: jax.stages.Lowered) -> jax.stages.Lowered:
    """`lowered` with a copy of its module, which may be changed before `compile`."""
    if not hasattr(getattr(lowered, "_lowering", None), "_hlo"):
        raise RuntimeError(UNKNOWN_JAX)
    module: Any = lowered.compiler_ir()
    return with_module(lowered, ir.Module.parse(bytecode_of(module), module.context))


def with_module(lowered: jax.stages.Lowered, module: ir.Module) -> jax.stages.Lowered:
    lowering: Any = copy.copy(lowered._lowering)
    lowering._hlo = module
    lowering._executable = None
    result = copy.copy(lowered)
    result._lowering = lowering
    return result


def lowered_for_arguments(program: Any, args: Any, kwargs: Any) -> jax.stages.Lowered:
    """The function `program`, compiled by someone or not, lowered for the arguments."""
    if is_foreign(program):
        found = lowered_of(program.lower(*args, **kwargs))
        if found is None:
            maker = type(program).__module__.partition(".")[0]
            raise TypeError(f"expected a function or what `jax.jit` returns, got a {type(program).__name__} of {maker}")
        return found
    jitted = program if isinstance(program, jax.stages.Wrapped) else jax.jit(program)
    return jitted.lower(*args, **kwargs)
