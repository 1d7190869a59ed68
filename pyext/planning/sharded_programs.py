"""Programs that name no mesh, lowered once, and put on the mesh of each candidate."""

from collections.abc import Sequence
from typing import Any

import jax
from jaxlib.mlir import ir

from paropt.clusters.targets import Target
from paropt.hook.lowering import is_foreign, kept_of, with_module
from paropt.modules.module_io import bytecode_of
from paropt.passes.sharding.meshes import has_mesh
from paropt.passes.sharding.shardings import SHARDING, read_sharding
from paropt.planning.candidates import Mesh

MESH = "mesh"
_ALIASING, _DONOR = "tf.aliasing_output", "jax.buffer_donor"


class PlanError(ValueError):
    """There is no plan for these arguments; one line that says why, and what would help."""


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


def on_mesh(lowered: Any, mesh: Mesh) -> Any:
    """A copy of `lowered` for all devices of `mesh`. Donated arguments are donors, as jax has it on several devices."""
    text = lowered.compiler_ir()
    module = ir.Module.parse(bytecode_of(text), text.context)
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    with module.context:
        attributes = {"sym_name": ir.StringAttr.get(MESH), "mesh": ir.Attribute.parse(f"#sdy.mesh<[{axes}]>")}
        with ir.InsertionPoint(module.body.operations[0]), ir.Location.unknown():
            ir.Operation.create("sdy.mesh", attributes=attributes)
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), mesh.size)
        module.operation.attributes["mhlo.num_partitions"] = number
        _donate(_main(module))
    return with_module(lowered, module)


def _main(module: ir.Module) -> Any:
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    return next(op for op in functions if ir.StringAttr(op.attributes["sym_name"]).value == "main")


def _donate(main: Any) -> None:
    if "arg_attrs" not in main.attributes:
        return
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([_donor(each) for each in main.attributes["arg_attrs"]])


def _donor(attributes: Any) -> ir.Attribute:
    found = {each.name: each.attr for each in attributes}
    if found.pop(_ALIASING, None) is not None:
        found[_DONOR] = ir.BoolAttr.get(True)
    return ir.DictAttr.get(found)


def specs_of(lowered: Any) -> list[Any]:
    """The PartitionSpec of each argument, those that the program dropped included: they are replicated."""
    count = len(jax.tree.leaves(lowered.args_info))
    specs = [jax.sharding.PartitionSpec()] * count
    main = _main(lowered.compiler_ir())
    if "arg_attrs" not in main.attributes:
        return specs
    for number, attributes in zip(kept_of(lowered), main.attributes["arg_attrs"], strict=True):
        if SHARDING in attributes:
            dimensions = read_sharding(attributes[SHARDING]).dimensions
            specs[number] = jax.sharding.PartitionSpec(*(tuple(axis.name for axis in axes) for axes in dimensions))
    return specs
