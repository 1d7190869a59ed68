"""Estimates before compilation: of a matrix, layer by layer, in every layout by hand; bytes against executables."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.hlo.traffic import traffic
from paropt.planning.candidates import Candidate, Mesh, templates
from paropt.planning.estimates import Modelled, Transfer, link_bytes
from paropt.planning.layouts import Layouts
from paropt.planning.proposals import choices_of
from paropt.planning.search import Search
from paropt.planning.sharded_programs import Step, lowered_without_mesh, step_of
from paropt.planning.spread_shardings import spread
from paropt.planning.strategies import Choices, Held, Layers, Move, Stored, Sum, Work

CLUSTER = cluster_of("gpu:h100:1x2x4")
MICRO_BATCHES, WIDTH, EXAMPLES = 4, 4096, 8192
# Classes of x[examples, in] @ w[in, out]: the parameter's dimensions, those of the product, of the batch.
P_IN, P_OUT, IN, OUT, ROWS, FEATURES = range(1, 7)
WEIGHT, ROWS_BYTES = WIDTH * WIDTH * 4, EXAMPLES * WIDTH * 2
CHOICES = Choices(
    sizes=(1, WIDTH, WIDTH, WIDTH, WIDTH, EXAMPLES, WIDTH),
    exclusive=((P_IN, P_OUT), (ROWS, IN, OUT), (ROWS, FEATURES)),
    moves=(
        Move((P_IN, P_OUT), (IN, OUT), WEIGHT // 2, MICRO_BATCHES),
        Move((ROWS, FEATURES), (ROWS, IN), ROWS_BYTES, MICRO_BATCHES),
    ),
    sums=(
        Sum((ROWS, OUT), (ROWS, OUT), (IN,), ROWS_BYTES, MICRO_BATCHES),
        Sum((IN, OUT), (P_IN, P_OUT), (ROWS,), WEIGHT // 2, 1, WEIGHT, MICRO_BATCHES),
    ),
    work=(Work((ROWS, IN, OUT), 2 * EXAMPLES * WIDTH * WIDTH, "bf16", ROWS_BYTES, MICRO_BATCHES, ROWS_BYTES),),
    arguments=(
        Held("w", 0, (P_IN, P_OUT), WEIGHT, is_parameter=True),
        Held("mu", 1, (P_IN, P_OUT), WEIGHT),
        Held("x", 2, (ROWS, FEATURES), ROWS_BYTES, examples=ROWS),
    ),
    layers=Layers(MICRO_BATCHES),
    moments=((Stored((P_IN, P_OUT), WEIGHT), Stored((ROWS, OUT), ROWS_BYTES)), (Stored((P_IN, P_OUT), WEIGHT, True),)),
)
DATA, BOTH = Mesh((("data", 8),)), Mesh((("data", 2), ("model", 4)))
REPLICATED = {0: ((), ()), 1: ((), ()), 2: (("data",), ())}
SHARDED = {0: (("data",), ()), 1: (("data",), ()), 2: (("data",), ())}
COLUMNS = {0: ((), ("model",)), 1: ((), ("model",)), 2: (("data",), ())}
ROWS_OF_WEIGHT = {0: (("model",), ()), 1: (("model",), ()), 2: (("data",), ())}


class Case(NamedTuple):
    mesh: Mesh
    given: Mapping[int, tuple[tuple[str, ...], ...]]
    policy: str
    transfers: set[Transfer]


@pytest.mark.parametrize(
    "case",
    [
        Case(DATA, REPLICATED, "keep-shards", {Transfer("all-reduce", ("data",), WEIGHT, 1, True)}),
        Case(DATA, REPLICATED, "", {Transfer("all-reduce", ("data",), WEIGHT / 2, MICRO_BATCHES)}),
        Case(
            DATA,
            SHARDED,
            "keep-shards",
            {
                Transfer("all-gather", ("data",), WEIGHT / 2, MICRO_BATCHES),
                Transfer("reduce-scatter", ("data",), WEIGHT / 2, MICRO_BATCHES),
            },
        ),
        Case(
            DATA,
            SHARDED,
            "once",
            {
                Transfer("all-gather", ("data",), WEIGHT / 2, 1, True),
                Transfer("reduce-scatter", ("data",), WEIGHT, 1, True),
            },
        ),
        Case(BOTH, COLUMNS, "keep-shards", {Transfer("all-reduce", ("data",), WEIGHT / 4, 1, True)}),
        Case(
            BOTH,
            ROWS_OF_WEIGHT,
            "keep-shards",
            {
                Transfer("all-reduce", ("model",), ROWS_BYTES / 2, MICRO_BATCHES),
                Transfer("all-reduce", ("data",), WEIGHT / 4, 1, True),
            },
        ),
    ],
    ids=["dp", "dp, XLA alone", "fsdp", "fsdp, once", "columns", "rows"],
)
def test_collectives_of_a_layout(case: Case) -> None:
    modelled = Modelled(CHOICES, CLUSTER, case.mesh, case.policy, case.given)
    assert set(modelled.transfers) == case.transfers


def test_small_collectives_of_a_kind_are_one() -> None:
    small = CHOICES._replace(sums=(CHOICES.sums[1]._replace(bytes=100, added_bytes=200),) * 3)
    assert Modelled(small, CLUSTER, DATA, "keep-shards", REPLICATED).transfers == [
        Transfer("all-reduce", ("data",), 600, 1, True)
    ]


def test_a_sum_that_is_added_to_another_is_reduced_with_it() -> None:
    two = CHOICES._replace(sums=(CHOICES.sums[0], CHOICES.sums[0]._replace(beside=(IN,))))
    found = Modelled(two, CLUSTER, BOTH, "keep-shards", ROWS_OF_WEIGHT).transfers
    assert found == [Transfer("all-reduce", ("model",), ROWS_BYTES / 2, MICRO_BATCHES)]


@pytest.mark.parametrize(
    ("given", "policy", "expected"),
    [
        (REPLICATED, "keep-shards", 2 * WEIGHT + WEIGHT + 2 * ROWS_BYTES / 8),
        (SHARDED, "keep-shards", 3 * WEIGHT / 8 + 2 * ROWS_BYTES / 8 + 2 * WEIGHT / 2),
        (SHARDED, "once", 3 * WEIGHT / 8 + 2 * ROWS_BYTES / 8 + 1.5 * WEIGHT * 7 / 8),
    ],
    ids=["dp", "fsdp", "fsdp, once"],
)
def test_memory_is_of_arguments_the_fullest_moment_and_what_is_gathered(
    given: Mapping[int, tuple[tuple[str, ...], ...]], policy: str, expected: float
) -> None:
    assert Modelled(CHOICES, CLUSTER, DATA, policy, given).memory() == expected


def test_gradients_that_are_added_in_place_are_not_held() -> None:
    stacked = CHOICES._replace(moments=((Stored((), 1000, is_stacking=True), Stored((), 10)),))
    alone, ours = (Modelled(stacked, CLUSTER, DATA, policy, REPLICATED).memory() for policy in ("", "keep-shards"))
    assert alone - ours == 1000


def test_compute_is_shared_by_the_devices_that_shard_it() -> None:
    machine = CLUSTER.machine
    seconds = 2 * EXAMPLES * WIDTH * WIDTH / machine.flops_of("bf16")
    for given, parts in ((REPLICATED, 2), (COLUMNS, 8)):
        found = Modelled(CHOICES, CLUSTER, BOTH, "keep-shards", given).compute()
        assert found == pytest.approx(MICRO_BATCHES * (seconds / parts + machine.op_start))


def test_an_axis_that_shards_examples_goes_no_further_from_a_parameter() -> None:
    placed = spread(CHOICES, {"data": 8}, SHARDED)
    assert placed.gathered == {(P_IN, "data")}
    assert (IN, "data") not in placed.sharded
    assert (ROWS, "data") in placed.sharded


def test_outer_links_have_what_inner_ones_leave() -> None:
    route = CLUSTER.route([range(8)])
    assert dict(link_bytes("all-reduce", 800.0, route)) == {"NVLink": 2 * 600, "InfiniBand": 800 / 4}
    assert dict(link_bytes("all-gather", 800.0, route)) == {"NVLink": 600, "InfiniBand": 100}


def scanned_step(layers: int, micro_batches: int) -> Step:
    """A stack of layers in a scan, in a loop over micro-batches."""

    def step(state: jax.Array, batches: jax.Array) -> tuple[jax.Array, jax.Array]:
        def loss(state: jax.Array, x: jax.Array) -> jax.Array:
            return jnp.mean(jax.lax.scan(jax.checkpoint(lambda x, w: (jnp.tanh(x @ w), None)), x, state)[0] ** 2)

        def micro_batch(total: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            value, gradient = jax.value_and_grad(loss)(state, x)
            return total + gradient, value

        total, losses = jax.lax.scan(micro_batch, jnp.zeros_like(state), batches)
        return state - total, jnp.mean(losses)

    state = jax.ShapeDtypeStruct((layers, 512, 512), jnp.float32)
    shapes = state, jax.ShapeDtypeStruct((micro_batches, 1024, 512), jnp.float32)
    return step_of(lowered_without_mesh(jax.jit(step, donate_argnums=0), shapes, targets.get("cpu:8")))


@pytest.mark.parametrize("name", ["dp", "fsdp"])
def test_bytes_and_memory_are_near_those_of_the_executable(name: str) -> None:
    step, target = scanned_step(6, 4), targets.get("cpu:8")
    candidate: Candidate = next(each for each in templates(8) if each.name == name)
    cluster = cluster_of(target)
    (judged,) = Search(step, target, cluster, 600.0, lambda _: None).run([candidate])
    assert judged.audit is not None
    found = Layouts(step, choices_of(step.module), cluster).estimate(candidate)
    assert found.bytes == pytest.approx(traffic(judged.audit.collectives).known, rel=0.15)
    assert found.memory == pytest.approx(judged.peak_memory, rel=0.3)
