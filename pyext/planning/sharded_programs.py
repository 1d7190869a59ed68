"""Programs that name no mesh, lowered once, and put on the mesh of each candidate."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxlib.mlir import ir

from paropt.base.device_grid import device_grid
from paropt.clusters.targets import Target
from paropt.hook.lowering import donated_of, is_foreign, kept_of, with_module
from paropt.hook.rewriting import run
from paropt.modules.module_io import bytecode_of
from paropt.passes.ir.signature import ALIAS, DONOR, signatures
from paropt.passes.sharding.meshes import has_mesh
from paropt.passes.sharding.shardings import SHARDING, read_sharding
from paropt.passes.support.pipeline import Pipeline
from paropt.planning.candidates import Mesh, shardings_only

MESH = "mesh"


class PlanError(ValueError):
    """There is no plan for these arguments; one line that says why, and gives remedies."""


def lowered_without_mesh(program: Any, args: Sequence[Any], target: Target) -> Any:
    """`program`, a function or `jax.jit` of it, lowered for the target's platform; arguments are on no mesh.

    Raises PlanError when the program names a mesh itself.
    """
    if is_foreign(program):
        raise PlanError("plan: expected a function or the result of jax.jit")
    jitted = program if isinstance(program, jax.stages.Wrapped) else jax.jit(program)
    shapes = jax.tree.map(_shape, tuple(args))
    lowered = jitted.trace(*shapes).lower(lowering_platforms=(target.platform,))
    if has_mesh(lowered.compiler_ir().operation):
        raise PlanError("plan: the step names a mesh itself; give the step without shardings, which the plan chooses")
    return lowered


def _shape(leaf: Any) -> Any:
    """The shape and type alone: where an array is now is no part of the plan."""
    array = leaf if hasattr(leaf, "dtype") else jax.numpy.asarray(leaf)
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


class Step(NamedTuple):
    """A program for one device, of which each candidate gets a copy on its mesh."""

    module: ir.Module
    donated: tuple[bool, ...]  # of each argument


def step_of(lowered: Any) -> Step:
    """The step that jax has lowered."""
    return Step(lowered.compiler_ir(), tuple(donated_of(lowered)))


def step_in(module: ir.Module) -> Step:
    """The step in a module that jax has printed. Raises PlanError."""
    if has_mesh(module.operation):
        raise PlanError("the module names a mesh itself; give the step without shardings, which the plan chooses")
    replicas, partitions = device_grid(module.operation)
    if replicas * partitions > 1:
        raise PlanError(f"the module is for {replicas * partitions} devices; give the step for one")
    if not _mains(module):
        raise PlanError("the module has no function @main, which is what jax calls a step")
    (main,) = _mains(module)
    if not any(slot.path for signature in signatures(module.operation) for slot in signature.arguments):
        raise PlanError(
            "no argument of @main has a name, by which rules would shard it; print the step with "
            "`jax.jit(step).lower(...).as_text(debug_info=True)`"
        )
    notes = main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else []  # noqa: SIM401  MLIR's has no get
    given = tuple(any(each.name in (ALIAS, DONOR) for each in attributes) for attributes in notes)
    return Step(module, given or (False,) * len(main.regions[0].blocks[0].arguments))


def on_mesh(lowered: Any, mesh: Mesh) -> Any:
    """`lowered`, put on all devices of `mesh`."""
    return with_module(lowered, module_on_mesh(lowered.compiler_ir(), mesh))


def module_on_mesh(module: ir.Module, mesh: Mesh) -> ir.Module:
    """A copy for all devices of `mesh`. Donated arguments are donors, as jax has it on several devices."""
    copy = ir.Module.parse(bytecode_of(module), module.context)
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    with copy.context:
        attributes = {"sym_name": ir.StringAttr.get(MESH), "mesh": ir.Attribute.parse(f"#sdy.mesh<[{axes}]>")}
        with ir.InsertionPoint(copy.body.operations[0]), ir.Location.unknown():
            ir.Operation.create("sdy.mesh", attributes=attributes)
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), mesh.size)
        copy.operation.attributes["mhlo.num_partitions"] = number
        _donate(_main(copy))
    return copy


def module_by_rules(step: "Step", mesh: Mesh, rules: str) -> ir.Module:
    """A copy on `mesh`, its arguments sharded by `rules`, the text of a file. Raises PipelineError for wrong ones."""
    module = module_on_mesh(step.module, mesh)
    shard_by_rules(module, rules, step.donated)
    return module


def shard_by_rules(module: ir.Module, rules: str, donated: Sequence[bool]) -> None:
    """Shards the arguments of a module on a mesh by `rules`, the text of a file. Raises PipelineError for wrong
    ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.toml"
        path.write_text(rules, encoding="utf-8")
        run(Pipeline.parse(shardings_only(str(path))), module, donated)


def _main(module: ir.Module) -> Any:
    (main,) = _mains(module)
    return main


def _mains(module: ir.Module) -> list[Any]:
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    return [op for op in functions if ir.StringAttr(op.attributes["sym_name"]).value == "main"]


def _donate(main: Any) -> None:
    if "arg_attrs" not in main.attributes:
        return
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([_donor(each) for each in main.attributes["arg_attrs"]])


def _donor(attributes: Any) -> ir.Attribute:
    found = {each.name: each.attr for each in attributes}
    if found.pop(ALIAS, None) is not None:
        found[DONOR] = ir.BoolAttr.get(True)
    return ir.DictAttr.get(found)


def specs_of(lowered: Any) -> list[Any]:
    """The PartitionSpec of each argument, those that the program dropped included: they are replicated."""
    count = len(jax.tree.leaves(lowered.args_info))
    specs = [jax.sharding.PartitionSpec()] * count
    for number, dimensions in zip(kept_of(lowered), specs_in(lowered.compiler_ir()), strict=True):
        specs[number] = jax.sharding.PartitionSpec(*dimensions)
    return specs


def specs_in(module: ir.Module) -> list[tuple[tuple[str, ...], ...]]:
    """Of each argument of a module, the axes that shard each dimension; empty where no sharding says."""
    main = _main(module)
    if "arg_attrs" not in main.attributes:
        return [()] * len(main.regions[0].blocks[0].arguments)
    return [_dimensions(attributes) for attributes in main.attributes["arg_attrs"]]


def _dimensions(attributes: Any) -> tuple[tuple[str, ...], ...]:
    if SHARDING not in attributes:
        return ()
    return tuple(tuple(axis.name for axis in axes) for axes in read_sharding(attributes[SHARDING]).dimensions)
