"""An axis of the device mesh, split into several."""

import difflib
import re
from typing import Annotated

from jaxlib.mlir import ir

from paropt.passes.sharding.mesh_rewrite import Split, rewrite_axis
from paropt.passes.sharding.meshes import Mesh, meshes_of
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require
from paropt.passes.support.sources import source_of

NAME = "split-mesh-axis"
_EXAMPLE = f"{NAME}{{axis=data into=replica:2,data:4}}"
_PART = re.compile(r"(?P<name>.+):(?P<size>[1-9]\d*)")


@register
def split_mesh_axis(
    module: ir.Operation,
    *,
    axis: Annotated[str, "The axis to split; it has to be given."] = "",
    into: Annotated[
        str, "The new axes in its place, `name:size,...`, the most major first; they have to be given."
    ] = "",
) -> list[Remark]:
    """Split an axis of the mesh into several, and rewrite all that names it.

    Before:

        sdy.mesh @mesh = <["data"=8]>
        func main(%x {sdy.sharding = <@mesh, [{"data"}]>}, %y {sdy.sharding = <@mesh, [{"data":(2)4}]>})

    After:

        sdy.mesh @mesh = <["replica"=2, "data"=4]>
        func main(%x {sdy.sharding = <@mesh, [{"replica", "data"}]>}, %y {sdy.sharding = <@mesh, [{"data"}]>})

    Every device keeps its place, and every array its shards: the program is the same, but its passes can now tell the
    new axes apart. Meshes, shardings of arguments, results and ops, constraints, manual computations, Shardy's
    collectives and replica groups given as axes are rewritten; a part of the old axis becomes parts of the new ones. A
    mesh that has the new axes already stays as it is.

    A condition that fails is an error, not a remark.

    Legal when:

    - a mesh has the axis
    - the sizes of the new axes multiply to its size, in every mesh that has it
    - no other axis of the mesh has one of the new names
    - each part of the axis that is named consists of parts of the new axes
    - shardings are attributes that can be read, not strings

    Sources: Shardy's sub-axes.
    """
    split = _split(axis, into)
    meshes = meshes_of(module)
    if not meshes:
        return [missed(NAME, module, Declined("the module has no mesh of a name"))]
    if _is_done(split, meshes):
        return [missed(NAME, module, Declined(f"the mesh has the axes {split} already"))]
    try:
        _require_splittable(split, meshes)
        count = rewrite_axis(module, split)
    except Declined as declined:
        where = f"{source_of(declined.op.location)}: " if declined.op is not None else ""
        raise PipelineError(f"{where}{NAME}: {declined.reason}") from declined
    return [applied(NAME, module, f"axis {split.name} is {split} now, in {count} attributes")]


def _split(axis: str, into: str) -> Split:
    """The split that the options ask for. Raises PipelineError."""
    if not axis or not into:
        raise PipelineError(f"{NAME} needs both options: {_EXAMPLE}")
    found = [_PART.fullmatch(part.strip()) for part in into.split(",")]
    if not all(found):
        raise PipelineError(f"{NAME}{{into={into}}}: expected `name:size,...`, as in {_EXAMPLE}")
    parts = tuple((part["name"], int(part["size"])) for part in found if part)
    names = [name for name, _ in parts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PipelineError(f"{NAME}{{into={into}}}: two axes are called `{twice}`")
    return Split(axis, parts)


def _is_done(split: Split, meshes: dict[str, Mesh]) -> bool:
    """Whether each mesh with one of the new axes has all of them, in a row."""
    names = {name for name, _ in split.into}
    touched = [mesh for mesh in meshes.values() if names & set(mesh.names) or split.name in mesh.names]
    return bool(touched) and all(_has_in_a_row(mesh, split.into) for mesh in touched)


def _has_in_a_row(mesh: Mesh, axes: tuple[tuple[str, int], ...]) -> bool:
    return any(mesh.axes[i : i + len(axes)] == axes for i in range(len(mesh.axes)))


def _require_splittable(split: Split, meshes: dict[str, Mesh]) -> None:
    having = {name: mesh for name, mesh in meshes.items() if split.name in mesh.names}
    known = list(dict.fromkeys(axis for mesh in meshes.values() for axis in mesh.names))
    near = difflib.get_close_matches(split.name, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the meshes have {', '.join(known)}"
    require(bool(having), f"no axis called `{split.name}`; {hint}")
    for name, mesh in having.items():
        size = dict(mesh.axes)[split.name]
        require(
            size == split.size, f"axis `{split.name}` of @{name} has size {size}, and {split} multiply to {split.size}"
        )
        taken = [axis for axis, _ in split.into if axis != split.name and axis in mesh.names]
        require(not taken, f"@{name} has an axis `{next(iter(taken), '')}` already: {', '.join(mesh.names)}")
