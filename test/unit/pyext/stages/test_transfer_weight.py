"""What sending a byte costs, by the devices of the mesh and the links between its stages."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from paropt.costs import read_table
from paropt.stages.transfer_weight import flops_per_byte

AXES = ("data", "stage")


def away(kind: str, platform: str, hosts: int) -> Mesh:
    """Two places of two devices each, on so many hosts."""
    devices = [SimpleNamespace(device_kind=kind, platform=platform, process_index=n * hosts // 4) for n in range(4)]
    return SimpleNamespace(axis_names=AXES, devices=np.array(devices, object).reshape(2, 2).T)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("kind", "platform", "hosts", "machine", "link"),
    [
        ("NVIDIA H100 80GB HBM3", "cuda", 1, "h100", 0),
        ("NVIDIA H100 80GB HBM3", "cuda", 2, "h100", 1),
        ("TPU v5 lite", "tpu", 2, "v5e", 0),  # hosts of one slice are joined as its chips are
    ],
)
def test_the_link_between_stages_counts(kind: str, platform: str, hosts: int, machine: str, link: int) -> None:
    known = read_table()[machine]
    want = known.flops_of("bf16") / known.links[link].bandwidth
    assert flops_per_byte(away(kind, platform, hosts), "stage") == round(want)


def test_what_is_in_no_table_has_none() -> None:
    assert flops_per_byte(away("a new one", "cuda", 1), "stage") is None
    assert flops_per_byte(Mesh(np.array(jax.devices()).reshape(4, 2), AXES), "stage") is None
