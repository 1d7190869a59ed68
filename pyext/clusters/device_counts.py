"""The number of devices of a target, compared with that of a module.

Tests: test/unit/pyext/clusters/test_targets.py.
"""

from jaxlib.mlir import ir

from paropt.base.device_grid import device_grid
from paropt.base.wording import counted
from paropt.clusters.compiled import TargetError
from paropt.clusters.targets import Target


def require_named_count(target: Target, module: ir.Operation) -> None:
    """Raises TargetError where the name of the target tells another number than that of the module.

    To describe thousands of devices takes a minute, which is saved so.
    """
    if target.named_devices is not None:
        require_count(target.name, target.named_devices, module)


def require_count(name: str, devices: int, module: ir.Operation) -> None:
    """Raises TargetError where the module is for another number of devices."""
    replicas, partitions = device_grid(module)
    if replicas * partitions == devices:
        return
    grid = f"{counted(replicas, 'replica')} x {counted(partitions, 'partition')}"
    asked = f"{counted(replicas * partitions, 'device')} ({grid})"
    raise TargetError(f"{name} has {counted(devices, 'device')}, the module is for {asked}")
