"""Which mesh axes are slow, and that plans weigh them unless a user says otherwise."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from modules import parsed
from programs import models, plain
from programs.program import Sizes
from unit.clusters import available

import paropt
from paropt.audit import audit
from paropt.clusters.targets import get
from paropt.hook.slow_axes import slow_axes

WEIGHED = "a byte costs 8 over replica"
AUTO = "grad-sync{{policy=auto memory-budget=100kB{}}}"


def devices(processes: Sequence[int], platform: str = "gpu", slices: Sequence[int] | None = None) -> list[Any]:
    return [
        SimpleNamespace(platform=platform, process_index=process, slice_index=slices[i] if slices else None)
        for i, process in enumerate(processes)
    ]


def found(mesh: str, of: list[Any]) -> tuple[str, ...]:
    module = parsed(f"sdy.mesh @mesh = <{mesh}>")
    return slow_axes(module.operation, of)


@pytest.mark.parametrize(
    ("mesh", "processes", "slow"),
    [
        ('["replica"=2, "data"=4]', [0, 0, 0, 0, 1, 1, 1, 1], ("replica",)),
        ('["data"=4, "replica"=2]', [0, 0, 1, 1, 2, 2, 3, 3], ("data",)),
        ('["replica"=2, "data"=4], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]', [0, 0, 1, 1, 2, 2, 3, 3], ("data",)),
        ('["pod"=2, "host"=2, "data"=2]', [0, 0, 1, 1, 2, 2, 3, 3], ("pod", "host")),
        ('["replica"=2, "data"=4]', [0] * 8, ()),
        ('["replica"=2, "data"=4]', list(range(8)), ()),  # nothing is faster
        ('["data"=8]', [0, 0, 0, 0, 1, 1, 1, 1], ()),
        ('["replica"=2, "data"=4]', [], ()),  # not known
    ],
)
def test_axes_that_join_hosts(mesh: str, processes: list[int], slow: tuple[str, ...]) -> None:
    assert found(mesh, devices(processes)) == slow


def test_hosts_of_a_tpu_slice_are_joined_by_fast_links() -> None:
    mesh, hosts = '["replica"=2, "data"=4]', [0, 0, 0, 0, 1, 1, 1, 1]
    assert found(mesh, devices(hosts, "tpu")) == ()
    assert found(mesh, devices(hosts, "tpu", slices=[0, 0, 0, 0, 1, 1, 1, 1])) == ("replica",)


@pytest.mark.parametrize(("target", "is_weighed"), [("gpu:h100:1x2x4", True), ("gpu:h100:1x1x8", False)])
def test_a_memory_budget_weighs_slow_axes(target: str, is_weighed: bool) -> None:
    """Where it does not allow all; the devices are known when the program is compiled."""
    available(target)
    program = plain.layers_over_all(models.blocks, Sizes(width=64), get(target).devices)
    lowered = paropt.jit(program.step, memory_budget="400kB", strict=True).lower(*program.args)
    lowered.compile()
    assert (WEIGHED in str(paropt.remarks(lowered))) == is_weighed


def test_each_target_of_an_audit_has_its_own() -> None:
    targets = ["gpu:h100:1x2x4", "gpu:h100:1x1x8"]
    available(targets[0])
    program = plain.layers_over_all(models.blocks, Sizes(width=64))
    for options, weighed in [("", [True, False]), (" link-cost=data:2", [False, False])]:
        report = audit(program.step, *program.args, passes=AUTO.format(options), targets=targets)
        assert [any(WEIGHED in str(remark) for remark in report[target].remarks) for target in targets] == weighed
