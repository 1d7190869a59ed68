"""A step, lowered and cut into the functions of its stages."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import jax
from jaxlib.mlir import ir

from paropt.hook.module_call import Function, shape_of
from paropt.hook.user_warnings import warn
from paropt.modules.module_io import bytecode_of, optimize
from paropt.passes.pipelining.op_costs import flops_of
from paropt.passes.pipelining.stage_manifest import StageManifest, StageProgram, read_stages
from paropt.passes.support.remarks import Remark
from paropt.stages.stage_constraints import constrain_within
from paropt.stages.step_plan import StageError
from paropt.stages.typed_keys import is_key

_NAMES = ("outline-stages", "cut-stages", "split-microbatches", "roll-accumulation")


@dataclass(frozen=True)
class CutStep:
    """The functions of a step, for arguments of one kind."""

    bytecode: bytes
    manifest: StageManifest
    remarks: list[Remark]
    shapes: dict[str, jax.ShapeDtypeStruct]  # of each value that functions take or return
    flops: dict[str, int]  # of each function
    out_tree: Any  # of the step's results; None of a module
    digest: str  # of the text of the module, without locations
    key_results: Mapping[int, Any] = field(default_factory=dict)  # the type of each leaf of results that has typed keys

    @property
    def microbatches(self) -> int:
        return self.manifest.counting.trips

    def function(self, program: StageProgram) -> Callable[..., list[Any]]:
        return Function(self.bytecode, program.symbol, tuple(self.shapes[name] for name in program.results))


def cut_step(
    step: Any,
    args: Any,
    kwargs: Any,
    *,
    stages: int,
    microbatches: int,
    options: str,
    apart: bool,
    axes: Mapping[str, int],
) -> CutStep:
    """Cuts a result of `jax.jit`; raises StageError where that cannot be. `options` are those of `cut-stages`, `axes`
    those of a stage's mesh, with their sizes.
    """
    traced = step.trace(*args, **kwargs)
    if traced.jaxpr.effects:
        effects = ", ".join(sorted(map(str, traced.jaxpr.effects)))
        raise StageError(f"the step has effects, which would be lost between stages: {effects}")
    lowered = traced.lower()
    cut = cut_program(lowered, stages=stages, options=options, apart=apart, split=microbatches, axes=axes)
    for remark in cut.remarks:
        if remark.pass_name == "cut-stages" and not remark.applied:
            warn(remark.told)
    if cut.microbatches != microbatches:
        wanted = cut.microbatches
        raise StageError(f"microbatches: expected {wanted}, the trips of the step's loop, got {microbatches}")
    results, tree = jax.tree.flatten(lowered.out_info)
    keys = {position: leaf.dtype for position, leaf in enumerate(results) if is_key(leaf)}
    return replace(cut, out_tree=tree, key_results=keys)


def cut_program(
    program: Any,
    *,
    stages: int,
    options: str,
    apart: bool,
    split: int | None = None,
    axes: Mapping[str, int] = MappingProxyType({}),
) -> CutStep:
    """The same of a module, or of a `jax.stages.Lowered`, with the micro-batches of its loop. A step of the whole batch
    is cut into `split` micro-batches. Raises StageError.
    """
    weights = "apart" if apart else "with"
    layers = f"canonicalize,cse,split-layer-loop{{stages={stages}}},canonicalize,cse"
    cut = f"{layers},cut-stages{{stages={stages}{options}}},outline-stages{{weights={weights}}}"
    # Copies in a loop over micro-batches are layers, each of which adds to the loss.
    module, remarks = optimize(program, f"inline-calls,roll-accumulation{{within-loops=false}},{cut}")
    # Of a step of the whole batch, such layers may be all that was rolled.
    made = any(remark.pass_name == "roll-accumulation" and remark.applied for remark in remarks)
    is_whole = made or not any(remark.pass_name == "cut-stages" for remark in remarks)
    if _manifest(module) is None and is_whole and split is not None:
        if split == 1:
            raise StageError("microbatches: a step without a loop over them is cut into two or more, got 1")
        module, remarks = optimize(program, f"inline-calls,split-microbatches{{count={split}}},{cut}")
    if _manifest(module) is None:
        raise StageError(f"the step cannot be cut into stages: {_reason(remarks)}")
    constrain_within(module.operation, axes)
    return cut_in(module, remarks)


def cut_in(module: Any, remarks: Sequence[Remark] = ()) -> CutStep:
    """The cut step in a module that is outlined as stages."""
    manifest = _manifest(module)
    assert manifest is not None, "the module was outlined as stages"
    shapes, flops = _shapes(module, manifest), _flops(module, manifest)
    digest = hashlib.sha256(module.operation.get_asm(enable_debug_info=False).encode()).hexdigest()
    return CutStep(bytecode_of(module), manifest, [*remarks], shapes, flops, None, digest)


def _manifest(module: Any) -> StageManifest | None:
    return read_stages(ir.SymbolTable(module.operation)["main"].operation)


def _shapes(module: Any, manifest: StageManifest) -> dict[str, jax.ShapeDtypeStruct]:
    symbols, found = ir.SymbolTable(module.operation), dict[str, jax.ShapeDtypeStruct]()
    main = _types(symbols["main"])
    found |= {f"argument{n}": shape_of(type_) for n, type_ in enumerate(main.inputs)}
    for program in manifest.programs:
        types = _types(symbols[program.symbol])
        found |= dict(zip(program.arguments, map(shape_of, types.inputs), strict=True))
        found |= dict(zip(program.results, map(shape_of, types.results), strict=True))
    return found


def _flops(module: Any, manifest: StageManifest) -> dict[str, int]:
    symbols = ir.SymbolTable(module.operation)
    bodies = {each.symbol: symbols[each.symbol].operation.regions[0].blocks[0] for each in manifest.programs}
    return {name: sum(flops_of(op.operation) for op in body.operations) for name, body in bodies.items()}


def _types(function: Any) -> ir.FunctionType:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _reason(remarks: list[Remark]) -> str:
    """Why no pass cut it."""
    for name in _NAMES:
        missed = [remark for remark in remarks if remark.pass_name == name and not remark.applied]
        if missed:
            return missed[0].told
    return "it adds up nothing over micro-batches, and no argument is a batch of them"
