"""Mesh axes whose links are slow: those that join hosts, or slices of TPUs. The cost of a byte over them in a plan.

Tests: test/unit/pyext/hook/test_slow_axes.py.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from paropt.passes.deferral.policy import HAS_BUDGET
from paropt.passes.sharding.meshes import Mesh, meshes_of
from paropt.passes.support.pipeline import Pipeline, Stage

# Times the cost of a byte between devices of one host, in round numbers; costs/machines.toml has the links of machines.
SLOW = 8
_OPTION = "link-cost"


def slow_axes(module: ir.Operation, devices: Sequence[Any]) -> tuple[str, ...]:
    """The axes along which devices of one group are of several hosts, where devices along other axes share one.

    TPUs of one slice are joined by fast links, whatever hosts they have. `devices` are in the order of the partitions.
    """
    units = list(map(_unit, devices))
    found: dict[str, bool] = {}  # whether the axis is slow
    for mesh in meshes_of(module).values():
        if not all(0 <= device < len(units) for device in mesh.device_ids):
            continue
        for axis, size in mesh.axes:
            if size > 1:
                found[axis] = found.get(axis, False) or _joins_units(mesh, axis, units)
    return tuple(axis for axis, is_slow in found.items() if is_slow) if not all(found.values()) else ()


def with_link_costs(pipeline: Pipeline, module: ir.Operation, devices: Sequence[Any]) -> Pipeline:
    """`pipeline`, where plans that give no cost of a byte weigh slow axes."""
    if not any(map(_asks, pipeline.stages)):
        return pipeline
    costs = ",".join(f"{axis}:{SLOW}" for axis in slow_axes(module, devices))
    return dataclasses.replace(pipeline, stages=tuple(_weighed(stage, costs) for stage in pipeline.stages))


def _unit(device: Any) -> int:
    """The slice of a TPU, or else the process that has the device: one per host."""
    if device.platform == "tpu":
        return getattr(device, "slice_index", None) or 0
    return int(device.process_index)


def _joins_units(mesh: Mesh, axis: str, units: Sequence[int]) -> bool:
    return any(len({units[device] for device in group}) > 1 for group in mesh.groups([axis]) or ())


def _asks(stage: Stage) -> bool:
    has_option = stage.declared is not None and _OPTION in {option.name for option in stage.declared.options}
    given = dict(stage.options)
    return has_option and given.get("policy") in HAS_BUDGET and _OPTION not in given


def _weighed(stage: Stage, costs: str) -> Stage:
    if not costs or not _asks(stage):
        return stage
    return dataclasses.replace(stage, options=(*stage.options, (_OPTION, costs)))
