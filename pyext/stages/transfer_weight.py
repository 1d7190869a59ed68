"""How many operations a device does while it sends a byte to the next stage, by the table of costs (docs/costs.md).

Tests: test/unit/pyext/stages/test_transfer_weight.py.
"""

from typing import Any

import numpy as np
from jax.sharding import Mesh

from paropt.costs import Link, read_table
from paropt.costs.clusters import kind_of

_TYPE = "bf16"  # of most products on machines that have links


def flops_per_byte(mesh: Mesh, axis: str) -> int | None:
    """Of the devices of `mesh`, whose stages are along `axis`; None where the table does not tell.

    Simulated devices of a CPU tell nothing: they stand for others.
    """
    stages = np.moveaxis(mesh.devices, mesh.axis_names.index(axis), 0)
    machine = read_table().get(kind_of(stages.flat[0]))
    if machine is None or not machine.links or stages.flat[0].platform == "cpu":
        return None
    inner, outer = machine.links[0], machine.links[-1]
    pairs = zip(stages[:-1].flat, stages[1:].flat, strict=True)
    near = all(_unit(one, inner) == _unit(other, inner) for one, other in pairs)
    link = inner if near else outer
    return round(machine.flops_of(_TYPE) / link.bandwidth)


def _unit(device: Any, link: Link) -> int:
    """Which of those it is within that `link` joins the devices of."""
    return device.process_index if link.within == "host" else getattr(device, "slice_index", None) or 0
