"""Estimates of pipelines whose stages differ: shares of the layers, the time of a schedule, memory, and what is sent."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from unit.pyext.planning.test_estimates import CHOICES, MICRO_BATCHES, ROWS_BYTES, SHARDED, WEIGHT, scanned_step

from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.costs.collective_times import collective_seconds
from paropt.planning.candidates import Candidate, Mesh, StageMesh, Stages
from paropt.planning.estimates import Modelled
from paropt.planning.layouts import Layouts
from paropt.planning.proposals import choices_of
from paropt.planning.stage_estimates import divisors, grid, meshes_of, shares, staged_estimate
from paropt.planning.strategies import Layers, Stored, Work

CLUSTER = cluster_of("gpu:h100:1x2x4")
LAYERS = 12
STEP = scanned_step(LAYERS, MICRO_BATCHES)
LAYOUTS = Layouts(STEP, choices_of(STEP.module), CLUSTER)


def piped(meshes: Sequence[StageMesh]) -> Candidate:
    stages = Stages("1f1b", MICRO_BATCHES, None, (), tuple(meshes))
    return Candidate("by hand", Mesh((("device", 8),)), "", "keep-shards", stages)


def layered(layer: int, rest: int, count: int = LAYERS) -> tuple[float, ...]:
    work = Work((), layer, "bf16", 0, MICRO_BATCHES * count), Work((), rest, "bf16", 0, MICRO_BATCHES)
    choices = CHOICES._replace(work=work, layers=Layers(MICRO_BATCHES, count))
    return tuple(round(each * (layer * count + rest) / layer, 6) for each in shares(choices, 4))


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (0, (3, 3, 3, 3)),
        (10, (3, 3, 3, 3 + 1)),  # one layer less in the last would make two elsewhere longer than it is
        (40, (4, 4, 3, 1 + 4)),
        (400, (4, 4, 3, 1 + 40)),
    ],
)
def test_stages_have_whole_layers_and_the_last_one_the_loss(rest: int, expected: Sequence[float]) -> None:
    assert layered(10, rest) == expected


def test_layers_that_are_not_in_a_scan_are_shared_out_evenly() -> None:
    assert shares(CHOICES, 4) == (0.25,) * 4


def test_the_grid_has_each_factorization() -> None:
    found = {tuple(stage.size for stage in meshes_of(each, LAYOUTS.choices)) for each in grid(8, LAYOUTS.choices)}
    assert found == {(8,), (4, 4), (2, 2, 2, 2)}  # no more stages than micro-batches
    assert len(list(grid(8, LAYOUTS.choices))) == 4 + 3 + 2
    assert divisors(12) == [1, 2, 3, 4, 6, 12]


def test_the_slowest_stage_makes_the_step_and_others_wait() -> None:
    even = staged_estimate(LAYOUTS, piped([StageMesh(4, 1, 0.5)] * 2))
    uneven = staged_estimate(LAYOUTS, piped([StageMesh(4, 1, 0.25), StageMesh(4, 1, 0.75)]))
    assert uneven.compute == pytest.approx(1.5 * even.compute)
    each = (even.compute + even.communication - even.hidden - even.once) / MICRO_BATCHES
    send = (even.waiting - each) / 2  # one micro-batch of the other stage fills, and what it sends down and up
    payload = 1024 * 512 * 4 / 4
    assert send == pytest.approx(collective_seconds("collective-permute", payload, CLUSTER.route([[3, 4]])))


def test_twice_the_devices_take_nearly_half_the_time_of_a_stage() -> None:
    """As the plan that was published for 2.6 G parameters has it; where ops start at once."""
    machine = replace(CLUSTER.machine, op_start=0.0, program_start=0.0)
    layouts = Layouts(STEP, LAYOUTS.choices, replace(CLUSTER, machine=machine))
    found = staged_estimate(layouts, piped([StageMesh(2, 1, 0.25), StageMesh(2, 1, 0.25), StageMesh(4, 1, 0.5)]))
    even = staged_estimate(layouts, piped([StageMesh(2, 1, 0.25)] * 4))
    assert even.compute < found.compute < 1.4 * even.compute  # it adds up twice the gradients
    assert found.waiting < even.waiting


def test_tensor_parallelism_inside_a_stage_reduces_activations() -> None:
    """The parameters of the step have no names of matrices, so nothing is cut: those of a transformer are."""
    found = staged_estimate(LAYOUTS, piped([StageMesh(1, 4, 0.5)] * 2))
    assert found.memory > staged_estimate(LAYOUTS, piped([StageMesh(4, 1, 0.5)] * 2)).memory


def test_a_stage_holds_what_is_under_way_of_each_micro_batch() -> None:
    kept = Stored((), ROWS_BYTES)
    choices = CHOICES._replace(layers=Layers(MICRO_BATCHES, LAYERS, (kept,), ()))
    modelled = Modelled(choices, CLUSTER, Mesh((("data", 8),)), "keep-shards", {})
    one, three = (modelled.memory_of_stage(0.25, in_flight) for in_flight in (1, 3))
    assert three - one == 2 * 0.25 * ROWS_BYTES


def test_a_stage_gathers_all_its_parameters_and_makes_whole_gradients() -> None:
    """Of 39 G parameters as 16 stages of 4 devices, the executable takes 29 GB, of which two thirds are these."""
    modelled = Modelled(CHOICES._replace(moments=()), CLUSTER, Mesh((("data", 8),)), "keep-shards", SHARDED)
    assert modelled.memory_of_stage(0.5, 1) == 0.5 * (modelled.arguments() + 2 * WEIGHT * 7 / 8)


def test_what_crosses_is_sent_once_for_each_micro_batch() -> None:
    found = staged_estimate(LAYOUTS, piped([StageMesh(4, 1, 0.5)] * 2))
    assert found.sent["collective-permute"] == MICRO_BATCHES * 1024 * 512 * 4 / 4
    assert set(found.by_link) == {"NVLink", "InfiniBand"}


def test_a_stage_between_two_sends_activations_on_and_their_gradients_back() -> None:
    found = staged_estimate(LAYOUTS, piped([StageMesh(2, 1, 0.25)] * 4))
    assert found.sent["collective-permute"] == 2 * MICRO_BATCHES * 1024 * 512 * 4 / 2
    tensor = staged_estimate(LAYOUTS, piped([StageMesh(1, 2, 0.25)] * 4))
    assert tensor.sent["collective-permute"] == 2 * found.sent["collective-permute"], "each device sends its copy"


def test_a_target_needs_no_compiler_for_an_estimate() -> None:
    cluster = cluster_of(targets.get("gpu:v100:1x2x4"))
    assert staged_estimate(Layouts(STEP, LAYOUTS.choices, cluster), piped([StageMesh(4, 1, 0.5)] * 2)).seconds > 0
