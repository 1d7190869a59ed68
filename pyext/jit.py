"""`paropt.jit`, `paropt.enabled` and `paropt.remarks`: passes inside `jax.jit`. docs/jit.md lists the programs that
this covers.

The one file that imports jax's lowering and compilation. jax lowers every program in `mlir.lower_jaxpr_to_module`,
compiles it in `pxla.UnloadedMeshExecutable.from_hlo` and places its arguments in `pxla.shard_args`, which are wrapped
here. The passes to run travel in a `jax.make_user_context`: it is part of the key of each of jax's caches, so programs
with passes, without, or with other ones never meet.
"""

import contextlib
import functools
import inspect
import operator
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

import jax
from jax.extend import source_info_util
from jaxlib.mlir import ir

from paropt.base.keywords import explained_keywords, own_keywords_only
from paropt.clusters.targets import Target, lowered_for
from paropt.hook.donation import Donate
from paropt.hook.jit_arguments import JitArguments, MemoryBudget, Spec, any_traced, require_flag, spec_of
from paropt.hook.lowering import (
    UNKNOWN_JAX,
    compiled_of,
    copied,
    donated_of,
    lowered_of,
    platform_of,
    platform_of_lowered,
    require_own,
    with_module,
    without_static,
)
from paropt.hook.rewriting import (
    COMPILED,
    OTHERWISE,
    REMARKS,
    REWRITES,
    compiled_rewrite,
    remarks_of,
    rewritten_by,
    run,
)
from paropt.hook.slow_axes import with_link_costs
from paropt.hook.user_warnings import warn
from paropt.modules.decisions import Decisions, decided
from paropt.modules.summary import Remarks
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark

try:
    from jax._src.interpreters import mlir as _mlir
    from jax._src.interpreters import pxla as _pxla
except ImportError as error:
    raise ImportError(UNKNOWN_JAX) from error

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


@overload
def jit(
    fun: Callable[P, R],
    /,
    *,
    passes: str | Pipeline = ...,
    strict: bool = ...,
    apart: bool | str = ...,
    donate: Donate | None = ...,
    check: bool = ...,
    compare: bool | None = ...,
    memory_budget: MemoryBudget = ...,
    **jax_jit_arguments: Unpack[JitArguments],
) -> "Jitted[P, R]": ...


@overload
def jit(
    *,
    passes: str | Pipeline = ...,
    strict: bool = ...,
    apart: bool | str = ...,
    donate: Donate | None = ...,
    check: bool = ...,
    compare: bool | None = ...,
    memory_budget: MemoryBudget = ...,
    **jax_jit_arguments: Unpack[JitArguments],
) -> "Callable[[Callable[P, R]], Jitted[P, R]]": ...


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    passes: str | Pipeline = DEFAULT_PIPELINE,
    strict: bool = False,
    apart: bool | str = False,
    donate: Donate | None = None,
    check: bool = False,
    compare: bool | None = None,
    memory_budget: MemoryBudget = None,
    **jax_jit_arguments: Unpack[JitArguments],
) -> Any:
    """`jax.jit`, with `passes` run on the StableHLO before XLA gets it. All other arguments are those of `jax.jit`.

    Without `fun` it makes a decorator: `@paropt.jit(donate_argnums=0)`. Write it outside of `jax.grad` and `jax.vmap`:
    the whole program that runs is rewritten, so a `paropt.jit` inside another `jax.jit` has no effect.

    `donate="state"` gives away, beside the arguments of `donate_argnums`, those that come back as results of the same
    structure: docs/donation.md.

    If a pass fails, or XLA refuses the rewritten program, or loses some of it, the program runs as `jax.jit` would run
    it, with a RuntimeWarning; `strict` raises the error. Where XLA might even end the process, `apart` compiles in a
    child process first: for the devices of this one, or for the target that it names. With `check`, `paropt.check`
    precedes the first call of each program: it and its result run on simulated devices, and CheckError is raised when
    they do not compute the same. With `compare=True`, XLA compiles each program as it was, too, and runs that, with a
    RuntimeWarning, where it sends fewer bytes: a second compilation. By default that is done, without a warning, where
    the passes leave a doubt; with `compare=False` it is not: docs/jit.md.

    `memory_budget` is for all that the program holds on a device, as 60 << 30, "60GiB", or "auto": nine tenths of the
    device's memory. Within it, parameters are gathered once and sums reduced once where that saves most: the `policy`
    of the passes is `auto`, and a plan that turns out to take more, once compiled, shrinks: docs/sharded-training.md.

    Raises PipelineError or TargetError, here and not at the first call, when `passes` is not a pipeline or `apart` not
    a target, or one not known to its compiler, and ValueError for a wrong budget; at the first call, when an option
    does not fit the program's mesh.
    """
    require_flag("check", check)
    spec = spec_of(passes, strict, apart, donate, compare, memory_budget)

    def jitted(fun: Callable[..., Any]) -> Jitted[..., Any]:
        require_own(fun)
        with explained_keywords(jit, jax.jit, jax_jit_arguments):
            made = _jitted_class(fun, spec, jax_jit_arguments)
        made.is_checked = check
        return made

    return jitted if fun is None else jitted(fun)


@own_keywords_only
def enabled(
    passes: str | Pipeline = DEFAULT_PIPELINE,
    *,
    strict: bool = False,
    apart: bool | str = False,
    compare: bool | None = None,
) -> "contextlib._GeneratorContextManager[None]":
    """Runs `passes` on every program that jax lowers in the `with` block, or in the function that this decorates.

    Blocks nest, the innermost one counts, `enabled("")` switches the passes off. A block covers its own thread only.
    `strict`, `apart`, `compare` and errors are as for `jit`.
    """
    spec = spec_of(passes, strict, apart, compare=compare)
    if not _hooked:
        warn(f"paropt.enabled has no effect. {UNKNOWN_JAX}")
    return _within(spec)


def remarks(lowered: Any) -> Remarks:
    """The decisions of the passes when `lowered` was lowered, each with its place and its reason.

    Printed, they begin with the reductions that stay in loops and the effect of another policy on these (for which the
    passes run again, once), then a summary; inlined calls are left out. A last one tells that XLA compiled the program
    as it was, once it has.

    `lowered` comes from the `lower` of a `paropt.jit` function, or of any `jax.jit` or `equinox.filter_jit` one inside
    `paropt.enabled`, or of `paropt.accumulate`; the result of its `compile` will do, too. Raises TypeError for anything
    else, ValueError where no passes ran.
    """
    found = remarks_of(_rewritten_module(lowered, "remarks"))
    if found is None:
        raise ValueError("remarks: no passes ran on this program; lower it by paropt.jit or inside paropt.enabled")
    return found


def decisions(lowered: Any) -> Decisions:
    """What the passes decided about each parameter and each sum of `lowered`, and the alternative.

    Printed, it is a table: bytes per device and step that are gathered or reduced in loops or once, bytes that a device
    would hold more, which of both was decided, and why. Of a program that is compiled, it is what runs. The passes run
    again for it, once. `lowered` is as for
    `remarks`, and so are the errors; ValueError as well where the pipeline has no pass that gathers or reduces once.
    """
    module = _rewritten_module(lowered, "decisions")
    found, otherwise = REMARKS.get(module), OTHERWISE.get(module)
    if found is None:
        raise ValueError("decisions: no passes ran on this program; lower it by paropt.jit or inside paropt.enabled")
    if otherwise is None:
        raise ValueError("decisions: the program has no mesh of several devices: nothing is gathered or reduced")
    return decided(otherwise.pipeline, otherwise.run, found)


def _rewritten_module(lowered: Any, asked: str) -> ir.Module:
    """The module of a lowered or compiled program. Raises TypeError for anything else."""
    program = next(iter(lowered.values()), None) if isinstance(lowered, dict) else lowered
    inner, compiled = lowered_of(program), compiled_of(program)
    if inner is None and compiled is None:
        raise TypeError(
            f"{asked}: expected what `.lower(...)` or its `.compile()` returns, got {type(lowered).__name__}"
        )
    executable = getattr(compiled, "_executable", None)  # a private name of jax: without it, no passes are known
    module = _module_of(inner) if inner is not None else executable and COMPILED.get(executable)
    if module is None:
        raise ValueError(f"{asked}: no passes ran on this program; lower it by paropt.jit or inside paropt.enabled")
    return module


class Jitted(Generic[P, R]):
    """A function compiled through the passes. It is used as the result of `jax.jit`, a `jax.stages.Wrapped`."""

    def __init__(self, fun: Callable[P, R], spec: "Spec | None", jax_jit_arguments: JitArguments) -> None:
        functools.update_wrapper(self, fun)  # first: it copies attributes, those of another Jitted too
        self._jitted: Any = jax.jit(fun, **jax_jit_arguments)
        self._spec = spec
        self.is_checked = False  # see `jit`; only calls are
        self._checked: weakref.WeakSet[ir.Module] = weakref.WeakSet()

    @property
    def passes(self) -> str:
        """The pipeline."""
        return str(self._spec.pipeline) if self._spec else ""

    def lower_without_passes(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Lowered:
        """The function as `jax.jit` lowers it."""
        with _passes(None):
            return self._jitted.lower(*args, **kwargs)

    def _check(self, args: Any, kwargs: Any) -> None:
        """Raises CheckError when the program for these arguments, if it is a new one, computes something else."""
        if any_traced(jax.tree.leaves((args, kwargs))):
            return  # part of another program
        from paropt.check import CheckError, check

        lowered = self.lower_without_passes(*args, **kwargs)
        if _module_of(lowered) in self._checked:
            return
        found = check(lowered, passes=self.passes)
        if not found.is_same:
            raise CheckError(f"paropt.jit(..., check=True): {found}")
        self._checked.add(_module_of(lowered))

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.is_checked:
            self._check(args, kwargs)
        with _passes(self._spec):
            results = self._jitted(*args, **kwargs)
        if self._spec and not self._spec.reached:
            self._warn_if_compiled(results)
        return results

    def trace(self, /, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Traced:
        """As `jax.jit`'s. The passes run when the result is lowered, wherever that is."""
        with _passes(self._spec):
            traced = self._jitted.trace(*args, **kwargs)
        traced.__class__ = _Traced
        traced._through_passes = self._lowered
        return traced

    def lower(self, /, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """As `jax.jit`'s, for arrays or `jax.ShapeDtypeStruct`s.

        The result's `as_text` and `compile` are those of the rewritten program.
        """
        return self._lowered(lambda: self._jitted.lower(*args, **kwargs))

    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """As `jax.jit`'s: `jax.ShapeDtypeStruct`s in place of the results."""
        with _passes(self._spec):
            return self._jitted.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """As `jax.jit`'s."""
        self._jitted.clear_cache()

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self: "Jitted[Concatenate[S, Q], R]", instance: S, owner: type) -> Callable[Q, R]: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<paropt.jit of {self._jitted.__wrapped__!r}>"

    def _lowered(self, lower: Callable[[], jax.stages.Lowered]) -> jax.stages.Lowered:
        with _passes(self._spec):
            lowered = lower()
        if self._spec and _module_of(lowered) not in REMARKS:
            _warn_not_reached()
        return lowered

    def _warn_if_compiled(self, results: Any) -> None:
        leaves = jax.tree.leaves(results)
        uncompiled = jax.config.jax_disable_jit or any_traced(leaves)  # type: ignore[attr-defined]  # jax makes its flags at import
        if leaves and not uncompiled:
            _warn_not_reached()


class _Traced(jax.stages.Traced):
    """The result of `Jitted.trace`: jax's `Traced`, lowered through the passes."""

    _through_passes: Callable[[Callable[[], jax.stages.Lowered]], jax.stages.Lowered]

    def lower(self, **options: Any) -> jax.stages.Lowered:
        return self._through_passes(functools.partial(super().lower, **options))


def _module_of(lowered: jax.stages.Lowered) -> ir.Module:
    """The very module that jax keeps for `lowered`, and for every later one of the same program."""
    module = lowered.compiler_ir()
    assert isinstance(module, ir.Module)
    return module


def _warn_not_reached() -> None:
    warn(f"the program was compiled without its passes. {UNKNOWN_JAX}")


@contextlib.contextmanager
def _within(spec: Spec | None) -> Iterator[None]:
    with _passes(spec):
        yield


# ---- the hooks

_LOWERING, _COMPILING, _PLACING = "lower_jaxpr_to_module", "from_hlo", "shard_args"


def _can_hook() -> bool:
    """Whether this jax lowers and compiles as expected: by attributes that can be replaced, with a module."""
    if not hasattr(jax, "make_user_context") or not hasattr(_mlir, _LOWERING) or not hasattr(_pxla, _PLACING):
        return False
    compiles = getattr(getattr(_pxla, "UnloadedMeshExecutable", None), _COMPILING, None)
    if compiles is None or not set(inspect.signature(compiles).parameters) >= _COMPILE_PARAMETERS:
        return False
    return "module" in getattr(_mlir.LoweringResult, "_fields", ()) and _pxla.mlir is _mlir and _calls_by_attribute()


_COMPILE_PARAMETERS = {"name", "hlo", "device_list", "compiler_options_kvs"}


def _calls_by_attribute() -> bool:
    try:
        source = inspect.getsource(_pxla)
    except OSError:  # installed without sources: `_warn_not_reached` will tell
        return True
    return f"mlir.{_LOWERING}(" in source and f"UnloadedMeshExecutable.{_COMPILING}(" in source


def _hook_lowering(lower: Callable[..., Any]) -> Callable[..., Any]:
    """jax's lowering, followed by the passes of the context in force. The module is fresh: nothing else has seen it."""

    @functools.wraps(lower)
    def lower_and_rewrite(*args: Any, **kwargs: Any) -> Any:
        spec = _passes.value
        if spec is None:
            return lower(*args, **kwargs)
        module, donated = operator.attrgetter("module"), kwargs.get("donated_args", ())
        platform = platform_of(kwargs.get("platforms", ()))
        return rewritten_by(lambda: lower(*args, **kwargs), module, spec, donated, platform)

    return lower_and_rewrite


def _hook_compiling(compile: Callable[..., Any]) -> Callable[..., Any]:
    """jax's compilation, followed by a look at the executable where passes have left annotations that the compiler must
    keep."""

    @functools.wraps(compile)
    def compile_and_verify(name: str, hlo: Any, *args: Any, **kwargs: Any) -> Any:
        def compiled(module: Any) -> Any:
            return compile(name, module, *args, **kwargs)

        if hlo in REWRITES:
            made = compiled_rewrite(hlo, compiled, kwargs["device_list"], kwargs["compiler_options_kvs"])
        else:
            made = compiled(hlo)
        if hlo in REMARKS:
            COMPILED[made] = hlo
        return made

    return compile_and_verify


def _hook_placing(place: Callable[..., Any]) -> Callable[..., Any]:
    """jax's placement of arguments, without passes: the slices that it computes are no program of the user's."""

    @functools.wraps(place)
    def place_without_passes(*args: Any, **kwargs: Any) -> Any:
        with _passes(None):
            return place(*args, **kwargs)

    return place_without_passes


# ---- the fallback, for a jax that cannot be hooked


class _JittedAhead(Jitted[P, R]):
    """Lowers, rewrites a copy and compiles it ahead of time. Each call looks its program up in Python: slower."""

    def __init__(self, fun: Callable[P, R], spec: Spec | None, jax_jit_arguments: JitArguments) -> None:
        super().__init__(fun, spec, jax_jit_arguments)
        self._compiled: weakref.WeakKeyDictionary[ir.Module, jax.stages.Compiled] = weakref.WeakKeyDictionary()

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.is_checked:
            self._check(args, kwargs)
        if self._spec is None or any_traced(jax.tree.leaves((args, kwargs))):
            return self._jitted(*args, **kwargs)
        lowered = self._jitted.lower(*args, **kwargs)  # from jax's cache: the same module for the same types
        module = _module_of(lowered)
        if module not in self._compiled:
            self._compiled[module] = _rewritten_copy(lowered, self._spec).compile()
        dynamic_args, dynamic_kwargs = without_static(self._jitted, args, kwargs)
        return self._compiled[module](*dynamic_args, **dynamic_kwargs)

    def _lowered(self, lower: Callable[[], jax.stages.Lowered]) -> jax.stages.Lowered:
        return lower() if self._spec is None else _rewritten_copy(lower(), self._spec)


class _LoweredAhead(jax.stages.Lowered):
    """The result of `_JittedAhead.lower`: the only one to look at the executable there."""

    __slots__ = ()

    def compile(self, *args: Any, **kwargs: Any) -> jax.stages.Compiled:
        def compiled(module: ir.Module) -> jax.stages.Compiled:
            return jax.stages.Lowered.compile(with_module(self, module), *args, **kwargs)

        module = _module_of(self)
        if module not in REWRITES:
            return compiled(module)
        lowering: Any = self._lowering
        return compiled_rewrite(module, compiled, lowering._device_list, lowering._compiler_options_kvs)


def _rewritten_copy(lowered: jax.stages.Lowered, spec: Spec) -> jax.stages.Lowered:
    """`lowered` is shared by all users of jax's caches: its module must stay as it is."""
    platform = platform_of_lowered(lowered)
    result = rewritten_by(lambda: copied(lowered), _module_of, spec, donated_of(lowered), platform)
    result.__class__ = _LoweredAhead
    return result


def note_remarks(lowered: jax.stages.Lowered, found: Sequence[Remark]) -> None:
    """Has `remarks` know the decisions of passes on the program that `lowered` is a part of."""
    REMARKS[_module_of(lowered)] = Remarks(found)


def rewritten(
    lowered: jax.stages.Lowered, passes: str | Pipeline, target: Target | None = None
) -> tuple[jax.stages.Lowered, Remarks]:
    """`lowered` with the passes run on a copy of its module, and their remarks. Errors of a pass go through.

    It is for `target`, or for the devices that it is lowered for. The caller has to check that the compiler keeps its
    constraints.
    """
    pipeline = Pipeline.parse(passes) if isinstance(passes, str) else passes
    if not pipeline.stages:
        return lowered, Remarks()
    result = copied(lowered)
    platform = platform_of_lowered(lowered) if target is None else platform_of([target.platform])
    devices = lowered_for(lowered) if target is None else target.devices
    pipeline = with_link_costs(pipeline.on(platform), _module_of(result).operation, devices)
    found = REMARKS[_module_of(result)] = run(pipeline, _module_of(result), donated_of(lowered))
    return result, found


# Where a program is a function that jax has made, such as `jax.shard_map(step)`, remarks name the line that calls it.
source_info_util.register_exclusion(str(Path(__file__).parent))

_hooked = _can_hook()
_jitted_class: type[Jitted[..., Any]] = Jitted if _hooked else _JittedAhead
_passes: Any = jax.make_user_context(None) if _hooked else contextlib.nullcontext
if _hooked:
    setattr(_mlir, _LOWERING, _hook_lowering(getattr(_mlir, _LOWERING)))
    setattr(_pxla, _PLACING, _hook_placing(getattr(_pxla, _PLACING)))
    _executable: Any = _pxla.UnloadedMeshExecutable
    setattr(_executable, _COMPILING, staticmethod(_hook_compiling(getattr(_executable, _COMPILING))))
else:
    warn(f"paropt.jit compiles ahead of time, with slower calls. {UNKNOWN_JAX}")
