"""For how many devices a module is."""

import re
from math import prod

from jaxlib.mlir import ir

from paropt.passes.analysis.collectives import partition_count, replica_count
from paropt.passes.analysis.meshes import meshes_of

_GROUPS = re.compile(r"replica_groups = dense<([^>]*)>")


def device_grid(module: ir.Operation) -> tuple[int, int]:
    """Replicas and partitions: as `module` says, as jax does; else what its meshes or replica groups need.

    Written by hand, a module may leave out `mhlo.num_partitions` and `mhlo.num_replicas`: all devices of its largest
    `sdy.mesh` are partitions then; without a mesh, the numbers that the replica groups name are replicas.
    """
    replicas, partitions = (max(count(module), 1) for count in (replica_count, partition_count))
    if replicas * partitions > 1:
        return replicas, partitions
    if sizes := [prod(size for _, size in mesh.axes) for mesh in meshes_of(module).values()]:
        return 1, max(sizes)
    named = [int(number) for groups in _GROUPS.findall(str(module)) for number in re.findall(r"\d+", groups)]
    return max(named, default=0) + 1, 1
