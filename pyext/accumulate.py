"""`paropt.accumulate`: a training step as programs that Python calls once per micro-batch. docs/accumulation.md."""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib.mlir import ir

from paropt.base.argument_types import require_type
from paropt.base.keywords import own_keywords_and
from paropt.hook.donation import Donate
from paropt.hook.jit_arguments import JitArguments
from paropt.hook.lowering import is_foreign, static_of, without_static
from paropt.hook.step_programs import AccumulateError, Programs, Stream, mesh_of, trimmed
from paropt.jit import note_remarks
from paropt.markers import mark_gradient
from paropt.modules.module_io import callback_of, optimize
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.outline import manifest as manifests
from paropt.passes.outline.manifest import Manifest
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import ops_of
from paropt.verify.tags import gaps

Sync = Literal["apart", "last", "apply", "every"]
Step = Callable[..., Any]


class StepArguments(TypedDict, total=False):
    """Those of the keyword arguments of `jax.jit` that describe the arguments of a step."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Sequence[str] | None


_SYNCS = ("apart", "last", "apply", "every")


@own_keywords_and(JitArguments.__annotations__)
def accumulate(
    step: Step | None = None,
    /,
    *,
    microbatches: int,
    compute_grad: Callable[[Any, Any], Any] | None = None,
    forward: Callable[[Any, Any], Any] | None = None,
    apply_grad: Callable[[Any, Any], Any] | None = None,
    parameters: Callable[[Any], Any] = lambda state: state,
    has_aux: bool = False,
    average: bool = True,
    sync: Sync = "apart",
    passes: str = DEFAULT_PIPELINE,
    donate: Donate | None = "state",
    **jax_jit_arguments: Unpack[StepArguments],
) -> "Accumulated":
    """A training step that adds up the gradients of `microbatches` micro-batches in programs of their own.

    The result is called as a step is, `new_state, aux = train(state, batch)`. It compiles up to five programs, of which
    `accumulate_grad` runs once per micro-batch and reduces no gradient over devices (docs/accumulation.md).

    Either `step(state, batch) -> (new_state, aux)` is a whole step, with a loop over micro-batches (`lax.scan`, or a
    Python loop), or with none, when `split-microbatches` cuts the batch; it may have other arguments and results, too,
    and is called with the same, by keyword or not. Or it is given as two functions, and `batch`
    is a tree of arrays whose first dimension counts micro-batches, or an iterator of micro-batches:

    - `compute_grad(state, micro_batch) -> gradients`, with `has_aux` `(gradients, aux)`, and
      `apply_grad(state, gradients) -> new_state`;
    - `forward(parameters(state), micro_batch) -> loss`, with `has_aux` `(loss, aux)`, whose gradient with respect to
      the parameters is taken, and `apply_grad` as before.

    Of these, gradients are averaged over micro-batches before `apply_grad`, or added up with `average=False`; `aux` is
    the stacked results of the micro-batches (with `forward` the losses, or `(losses, aux)`).

    `sync` says where gradients are reduced over devices: in a program of its own after the last micro-batch (`apart`),
    in the program of the last micro-batch (`last`), before the update (`apply`), or for each micro-batch (`every`).
    `passes` run first; they have to take the reductions out of the loop. The state that is given is donated, its arrays
    die: `donate=None` keeps them. For a whole step, `static_argnums`, `static_argnames`, `donate_argnums` and
    `donate_argnames` are as in `jax.jit`; with one of the last two, nothing else is donated.

    Raises AccumulateError (a ValueError), in one line, at the first call of a step that cannot be cut.
    """
    if sync not in _SYNCS:
        raise AccumulateError(f"sync: expected one of {', '.join(_SYNCS)}, got {sync!r}")
    if donate not in ("state", None):
        raise AccumulateError(f"donate: expected 'state' or None, got {donate!r}")
    if not isinstance(microbatches, int) or isinstance(microbatches, bool) or microbatches < 1:
        raise AccumulateError(f"microbatches: expected a positive integer, got {microbatches!r}")
    given = [name for name, value in (("step", step), ("compute_grad", compute_grad), ("forward", forward)) if value]
    if len(given) != 1:
        wanted = "one of a step, compute_grad= and forward="
        raise AccumulateError(f"accumulate: expected {wanted}, got {' and '.join(given) or 'none'}")
    if is_foreign(step):
        maker = type(step).__module__.partition(".")[0]
        raise AccumulateError(f"accumulate: the function is compiled by {maker} already; give the function itself")
    if step is not None and apply_grad is not None:
        raise AccumulateError("accumulate: a step has its own update: it takes no apply_grad=")
    if step is None and apply_grad is None:
        raise AccumulateError(f"accumulate: {given[0]} needs apply_grad=")
    if step is None:
        gradient = compute_grad if compute_grad is not None else _gradient_of(forward, parameters, has_aux)
        aux = has_aux or compute_grad is None
        step = _step_of(gradient, apply_grad, with_aux=aux, count=microbatches if average else 1)
    unknown = sorted(set(jax_jit_arguments) - set(StepArguments.__annotations__))
    if unknown:
        known = ", ".join(StepArguments.__annotations__)
        raise AccumulateError(f"accumulate: no argument {', '.join(unknown)}; of those of jax.jit it takes {known}")
    if jax_jit_arguments and given != ["step"]:
        raise AccumulateError(f"accumulate: {', '.join(jax_jit_arguments)} is for a whole step, not for {given[0]}")
    return Accumulated(step, microbatches, sync, passes, donate, jax_jit_arguments, is_ours=given != ["step"])


def manifest(program: Any) -> Manifest:
    """The arguments and results of the functions that `outline-accumulation` made; docs/accumulation.md lists the
    fields.

    `program` is an `ir.Module` or a `jax.stages.Lowered`. Raises AccumulateError when it has none.
    """
    module = program.compiler_ir() if hasattr(program, "compiler_ir") else program
    require_type(module, ir.Module, "manifest", "an ir.Module or what `.lower(...)` returns")
    found = _manifest_in(module)
    if found is None:
        raise AccumulateError("manifest: the module has none; run the pass outline-accumulation on it")
    return found


def _gradient_of(
    forward: Callable[..., Any] | None, parameters: Callable[[Any], Any], has_aux: bool
) -> Callable[[Any, Any], Any]:
    assert forward is not None, "one of the three is given"

    def compute_grad(state: Any, micro_batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(forward, has_aux=has_aux)(parameters(state), micro_batch)
        return gradients, loss

    return compute_grad


def _step_of(compute_grad: Any, apply_grad: Any, *, with_aux: bool, count: int) -> Step:
    """The whole step that the two functions make."""

    def split(made: Any) -> tuple[Any, Any]:
        return made if with_aux else (made, None)

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        def trip(total: Any, micro_batch: Any) -> tuple[Any, Any]:
            gradients, aux = split(compute_grad(state, micro_batch))
            return jax.tree.map(jnp.add, total, gradients), aux

        first = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch)
        shapes, _ = split(jax.eval_shape(compute_grad, state, first))
        zeros = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        total, aux = jax.lax.scan(trip, zeros, batch)
        total = mark_gradient(total)
        if count > 1:
            total = jax.tree.map(lambda leaf: leaf / count, total)
        return apply_grad(state, total), aux

    return step


class Accumulated:
    """The result of `accumulate`."""

    def __init__(
        self,
        step: Step,
        microbatches: int,
        sync: Sync,
        passes: str,
        donate: Donate | None,
        jax_jit_arguments: StepArguments,
        *,
        is_ours: bool,
    ) -> None:
        functools.update_wrapper(self, step)
        donating = {name: value for name, value in jax_jit_arguments.items() if name.startswith("donate")}
        static: Any = {name: value for name, value in jax_jit_arguments.items() if name not in donating}
        self._step = jax.jit(step, keep_unused=True, **static)
        # Apart: the programs donate, and the step that they are cut from says nothing of that.
        self._donating: Any = jax.jit(step, keep_unused=True, **jax_jit_arguments) if donating else None
        self._count = microbatches
        self._sync = sync
        self._passes = passes
        self._donate = donate
        self._is_ours = is_ours  # made of two functions: the batch counts micro-batches in its first dimension
        self._programs: dict[Any, Programs] = {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """`step(state, batch)`, or whatever the step takes."""
        if self._is_ours:
            state, batch = self._state_and_batch(args, kwargs)
            if isinstance(batch, Iterator):
                return self._streamed(state, batch)
        return self._of(args, kwargs).run(self._leaves(args, kwargs), None)

    def lower(self, /, *args: Any, **kwargs: Any) -> dict[str, jax.stages.Lowered]:
        """The programs, by their names (`accumulate_grad`), each as `jax.jit`'s `lower` returns it."""
        programs = self._of(args, kwargs)
        lowered = programs.lowered(self._leaves(args, kwargs))
        for each in lowered.values():
            note_remarks(each, programs.remarks)
        return lowered

    def remarks(self, /, *args: Any, **kwargs: Any) -> tuple[Remark, ...]:
        """The decisions of the passes."""
        return tuple(self._of(args, kwargs).remarks)

    def manifest(self, /, *args: Any, **kwargs: Any) -> Manifest:
        """The arguments and results of the programs."""
        return self._of(args, kwargs).manifest

    def _streamed(self, state: Any, micro_batches: Iterator[Any]) -> tuple[Any, Any]:
        first = next(micro_batches, None)
        if first is None:
            raise AccumulateError(f"the iterator ended after 0 of {self._count} micro-batches")
        programs = self._of((state, jax.tree.map(functools.partial(_stacked, count=self._count), first)), {})
        return programs.run(jax.tree.leaves(state), Stream(first, micro_batches, self._count))

    def _state_and_batch(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Of a step that was made of two functions, whichever way it is called."""
        bound = inspect.signature(self._step).bind(*args, **kwargs)
        return bound.arguments["state"], bound.arguments["batch"]

    def _leaves(self, args: Any, kwargs: Any) -> list[Any]:
        """The arrays, in the order in which the step takes them."""
        return jax.tree.leaves(without_static(self._step, args, kwargs))

    def _of(self, args: Any, kwargs: Any) -> "Programs":
        leaves, tree = jax.tree.flatten(without_static(self._step, args, kwargs))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise AccumulateError(
                "what paropt.accumulate returns runs programs: call it outside of jax.jit and the like"
            )
        deleted = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array) and leaf.is_deleted()]
        if deleted:
            raise AccumulateError(f"array {deleted[0]} of the state or the batch was donated by an earlier call")
        if self._is_ours:
            self._require_counted(self._state_and_batch(args, kwargs)[1])
        key = (tree, tuple(map(_kind, leaves)), static_of(self._step, args, kwargs))
        try:
            known = self._programs.get(key)
        except TypeError as error:
            raise AccumulateError(f"the step's static arguments have to be hashable: {error}") from error
        return known or self._programs.setdefault(key, self._made(leaves, args, kwargs))

    def _require_counted(self, batch: Any) -> None:
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
            shape = np.shape(leaf)
            if not shape or shape[0] != self._count:
                name = f"batch{jax.tree_util.keystr(path)}"
                raise AccumulateError(f"{name}: expected {self._count} micro-batches in dimension 0, got shape {shape}")

    def _made(self, leaves: list[Any], args: Any, kwargs: Any) -> "Programs":
        traced = self._step.trace(*args, **kwargs)
        if traced.jaxpr.effects:
            effects = ", ".join(sorted(map(str, traced.jaxpr.effects)))
            raise AccumulateError(f"the step has effects, which would be lost between programs: {effects}")
        lowered = traced.lower()
        module, remarks = self._cut(lowered, "" if self._is_ours else "roll-accumulation,")
        found = _manifest_in(module)
        has_loops = any(remark.pass_name == "outline-accumulation" for remark in remarks)
        if found is None and not has_loops and not self._is_ours:  # a step of the whole batch
            module, remarks = self._cut(lowered, f"split-microbatches{{count={self._count}}},")
            found = _manifest_in(module)
        if found is None:
            raise AccumulateError(f"the step cannot be cut into programs: {_reason(remarks)}")
        if found.counting.trips != self._count:
            raise AccumulateError(
                f"microbatches: expected {found.counting.trips}, the trips of the step's loop, got {self._count}"
            )
        _require_closed(module, found)
        mesh = mesh_of(module, lowered, leaves)
        return Programs(module, found, remarks, lowered, mesh, donated=self._donated(len(leaves), args, kwargs))

    def _donated(self, count: int, args: Any, kwargs: Any) -> list[bool] | None:
        """Which arrays may be overwritten by their new values, if any."""
        if self._donating is None:
            return [True] * count if self._donate is not None else None
        return [argument.donated for argument in jax.tree.leaves(self._donating.trace(*args, **kwargs).args_info)]

    def _cut(self, lowered: jax.stages.Lowered, loop: str) -> tuple[ir.Module, list[Remark]]:
        """The functions of the step, after passes that make its loop; a module without a manifest if there is none."""
        before, place = ("inline-calls", "apply") if self._sync == "every" else (self._passes, self._sync)
        cut = f"annotate-contract,outline-accumulation{{sync={place}}}"
        return optimize(lowered, f"inline-calls,{loop}{before},{cut}")


def _require_closed(module: ir.Module, found: Manifest) -> None:
    """Raises AccumulateError for ops that only the program that jax lowered can run, or that XLA would get wrong."""
    symbols = {stage.symbol for stage in found.stages.values()}
    for op in ops_of(module.operation, "func.call", "stablehlo.composite"):
        callee = ir.FlatSymbolRefAttr(op.attributes["callee" if op.name == "func.call" else "decomposition"]).value
        if callee not in symbols:
            raise AccumulateError(f"the step calls @{callee}, which is not inlined, at {source_of(op.location)}")
    main = ir.SymbolTable(module.operation)["main"].operation
    kinds = {str(main.attributes[key]) for key in ("arg_attrs", "res_attrs") if key in main.attributes}
    if any("mhlo.memory_kind" in kind for kind in kinds):
        raise AccumulateError(
            "the step has arguments or results in other memory than the device's, which programs lose"
        )
    callback = callback_of(module)
    if callback is not None:
        raise AccumulateError(f"the step calls back into Python at {source_of(callback.location)}, its parts cannot")
    wrong = gaps(module.operation)
    if wrong:
        raise AccumulateError(f"a pass left sums half reduced, please report this: {wrong[0]}")


def _kind(leaf: Any) -> Any:
    """The properties of `leaf` for which programs are made anew."""
    sharding = getattr(leaf, "sharding", None)
    if isinstance(sharding, NamedSharding):
        sharding = NamedSharding(sharding.mesh, trimmed(sharding.spec), memory_kind=sharding.memory_kind)
    return (np.shape(leaf), jnp.result_type(leaf), sharding)


def _stacked(leaf: Any, count: int) -> jax.ShapeDtypeStruct:
    """The shape of `count` arrays like `leaf`, stacked."""
    sharding = getattr(leaf, "sharding", None)
    if isinstance(sharding, NamedSharding):
        sharding = NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec))
    else:
        sharding = None
    return jax.ShapeDtypeStruct((count, *np.shape(leaf)), jnp.result_type(leaf), sharding=sharding)


def _reason(remarks: list[Remark]) -> str:
    """Why no pass made a loop of the step, or cut it."""
    for name in ("outline-accumulation", "split-microbatches"):
        own = [remark for remark in remarks if remark.pass_name == name and not remark.applied]
        if own:
            return own[-1].told
    return "nothing is added up, in a loop or over the batch; give compute_grad= and apply_grad="


def _manifest_in(module: ir.Module) -> Manifest | None:
    main = ir.SymbolTable(module.operation)["main"]
    return manifests.read(main.operation)
