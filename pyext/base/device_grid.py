"""The number of devices of a module, as replicas and partitions."""

import re

from jaxlib.mlir import ir

from paropt.passes.sharding.collectives import partition_count, replica_count
from paropt.passes.sharding.meshes import meshes_of

_GROUPS = re.compile(r"replica_groups = dense<([^>]*)>")


def device_grid(module: ir.Operation) -> tuple[int, int]:
    """Replicas and partitions: as `module` says; where it says none, or one, as many as its meshes or replica groups
    need.

    Modules of jax say it. One written by hand may leave out `mhlo.num_partitions` and `mhlo.num_replicas`: then all
    devices of its largest `sdy.mesh` are partitions; without a mesh, the numbers in its replica groups are replicas.
    """
    replicas, partitions = (max(count(module), 1) for count in (replica_count, partition_count))
    if replicas * partitions > 1:
        return replicas, partitions
    if sizes := [len(mesh.device_ids) for mesh in meshes_of(module).values()]:
        return 1, max(sizes)
    named = [int(number) for groups in _GROUPS.findall(str(module)) for number in re.findall(r"\d+", groups)]
    return max(named, default=0) + 1, 1
