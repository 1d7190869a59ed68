"""Sums over the devices of a stage are taken once in a step: what the executables of a pipeline send within stages."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from programs.layered_steps import Program, program, step_of

import paropt
from paropt.pipeline import Pipeline, StageError, pipeline

MICROBATCHES = 4


def mesh(*shape: int, names: tuple[str, ...] = ("stage", "data")) -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(shape), names)


def piped(made: Program, schedule: str = "1f1b", **options: Any) -> Pipeline:
    return pipeline(made.step, stages=2, microbatches=MICROBATCHES, mesh=mesh(2, 4), schedule=schedule, **options)


def collectives(run: Pipeline, made: Program) -> dict[str, list[tuple[str, int]]]:
    """The collectives of each program: their kinds, and bytes per device."""
    lowered = run.lower(made.state, made.batch)
    audits = {symbol: paropt.audit(each) for (symbol, _), each in lowered.items()}
    return {symbol: [(each.kind, each.payload) for each in audit.collectives] for symbol, audit in audits.items()}


def bytes_of(tree: Any) -> int:
    return sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize(
    ("name", "schedule"),
    [("mlp", "1f1b"), ("mlp", "zb-h1"), ("transformer", "1f1b"), ("scanned", "1f1b"), ("scanned", "zb-h1")],
)
def test_no_micro_batch_reduces(name: str, schedule: str) -> None:
    """Each gradient is reduced once, that of the tied embedding too, and so is the loss; that is all that is sent."""
    made = program(name, microbatches=MICROBATCHES)
    found = collectives(piped(made, schedule), made)
    once = {symbol: sent for symbol, sent in found.items() if symbol.startswith("reduce")}
    assert once.keys() == {"reduce_0", "reduce_1"}
    assert not any(sent for symbol, sent in found.items() if symbol not in once)
    sent = [each for program in once.values() for each in program]
    assert {kind for kind, _ in sent} == {"all-reduce"}
    loss = np.float32(0).nbytes
    assert sum(size for _, size in sent) == bytes_of(made.state) + loss


@pytest.mark.parametrize("name", ["mlp", "transformer", "scanned"])
def test_no_more_is_sent_than_by_one_program(name: str) -> None:
    """The step as one program on the devices of a stage, after par-opt, is the measure."""
    made = program(name, microbatches=MICROBATCHES)
    alone = NamedSharding(Mesh(np.array(jax.devices()[:4]), ("data",)), P())
    parts = jax.tree.map(lambda leaf: leaf.reshape(MICROBATCHES, -1, *leaf.shape[1:]), made.batch)

    def step(state: Any, parts: Any) -> Any:  # examples of each micro-batch are sharded
        return made.step(state, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), parts))

    shardings = (alone, alone.update(spec=P(None, "data")))
    lowered = paropt.jit(step, in_shardings=shardings).lower(made.state, parts)
    most = sum(each.payload * (each.executions or 1) for each in paropt.audit(lowered).collectives)
    assert most >= bytes_of(made.state)
    assert sum(size for sent in collectives(piped(made), made).values() for _, size in sent) <= most


def whole_numbers(activation: Any) -> Program:
    """A step whose sums are exact: a linear model of small integers, and squares of differences, added up."""

    def loss(state: Any, part: Any) -> jax.Array:
        x, target = part
        for number, layer in enumerate(state):
            with jax.named_scope(f"layer{number}"):
                x = activation(x @ layer["w"] + layer["b"])
        return jnp.sum(x * target)

    rng = np.random.default_rng(3)

    def number(*shape: int) -> np.ndarray:
        return rng.integers(-1, 2, shape).astype(np.float32)

    state = [{"w": number(8, 8), "b": number(8)} for _ in range(4)]
    return Program(step_of(loss, MICROBATCHES, rate=1.0), state, (number(32, 8), number(32, 8)))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "chimera"])
def test_exact_sums_are_equal(schedule: str) -> None:
    made = whole_numbers(jax.nn.relu)
    want = jax.jit(made.step)(made.state, made.batch)
    run = piped(made, schedule)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(run(made.state, made.batch)), strict=True):
        np.testing.assert_array_equal(other, one)
    assert np.abs(np.asarray(want[0][0]["w"]) - made.state[0]["w"]).max() > 1


def test_a_sum_that_does_not_start_from_zero() -> None:
    """What a sum starts from is counted once, and not once for each device."""
    plain = whole_numbers(jax.nn.relu)

    def step(state: Any, batch: Any) -> Any:
        def trip(total: Any, part: Any) -> Any:
            x = part[0]
            for number, layer in enumerate(state):
                with jax.named_scope(f"layer{number}"):
                    x = x @ layer["w"] + layer["b"]
            value = jnp.sum(x * part[1])
            gradient = jax.grad(lambda bias: jnp.sum((x + bias) * part[1]))(state[-1]["b"])
            return (total[0] + value, total[1] + gradient), None

        parts = jax.tree.map(lambda leaf: leaf.reshape(MICROBATCHES, -1, *leaf.shape[1:]), batch)
        start = (jnp.float32(7), state[0]["b"] + 1)
        (value, total), _ = jax.lax.scan(trip, start, parts)
        return [{**layer, "b": layer["b"] - total} for layer in state], value

    made = Program(step, plain.state, plain.batch)
    want, got = jax.jit(step)(made.state, made.batch), piped(made)(made.state, made.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(other, one)


def test_tied_weights_of_which_one_stage_rounds_its_gradient() -> None:
    """What it rounds to bf16 and widens again, the reduction leaves out: both are reduced once."""

    def loss(state: Any, part: Any) -> jax.Array:
        x, target = part
        for number, layer in enumerate(state):
            with jax.named_scope(f"layer{number}"):
                w = layer["w"] if number < 3 else state[0]["w"].astype(jnp.bfloat16).astype(jnp.float32)
                x = jax.nn.relu(x @ w + layer["b"])
        return jnp.sum(x * target)

    plain = whole_numbers(jax.nn.relu)
    made = Program(step_of(loss, MICROBATCHES, rate=1.0), plain.state, plain.batch)
    run = piped(made)
    found = collectives(run, made)
    assert found["backward_0"] == found["backward_1"] == []
    assert [kind for kind, _ in found["reduce_0"] + found["reduce_1"]] == ["all-reduce"] * 2
    want = jax.jit(made.step)(made.state, made.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(run(made.state, made.batch)), strict=True):
        np.testing.assert_array_equal(other, one)


def test_two_axes_within_a_stage() -> None:
    made = whole_numbers(jax.nn.relu)
    run = pipeline(
        made.step, stages=2, microbatches=MICROBATCHES, mesh=mesh(2, 2, 2, names=("stage", "replica", "data"))
    )
    want, got = jax.jit(made.step)(made.state, made.batch), run(made.state, made.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(other, one)
    found = collectives(run, made)
    assert {symbol for symbol, sent in found.items() if sent} == {"reduce_0", "reduce_1"}


def sharded(state: Any, where: Mesh, dimension: int) -> Any:
    """Matrices, and stacks of them, sharded over `data` in that dimension from the last."""

    def spec(leaf: Any) -> P:
        axes = [None] * leaf.ndim
        return P() if leaf.ndim < 2 else P(*axes[:dimension], "data", *axes[dimension:][1:])

    return jax.tree.map(lambda leaf: jax.device_put(leaf, NamedSharding(where, spec(leaf))), state)


@pytest.mark.parametrize("name", ["mlp", "scanned"])
def test_sharded_state_stays_sharded_in_its_stage(name: str) -> None:
    """Each device of a stage holds its part of parameters and moments, before and after steps."""
    made = program(name, microbatches=MICROBATCHES, clip=None)
    optimizer = optax.adamw(1e-2)

    def step(state: Any, batch: Any) -> Any:
        parameters, moments = state
        new, value = made.step(parameters, batch)
        updates, moments = optimizer.update(jax.tree.map(jnp.subtract, parameters, new), moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), value

    state = (made.state, optimizer.init(made.state))
    run = piped(Program(step, state, made.batch))
    where = sharded(state, mesh(2, 4), -1)
    placed = run.place(where, made.batch)
    assert_sharded(placed, 4)
    want, got = jax.jit(step)(state, made.batch), run(placed, made.batch)
    assert_sharded(got[0], 4)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


OF_TRIPS = ("forward", "backward", "weights")


def census(run: Pipeline, state: Any, batch: Any) -> tuple[set[str], dict[str, int]]:
    """The kinds of collectives in programs of micro-batches, and the bytes of each kind in those that run once."""
    in_trips, once = set[str](), dict[str, int]()
    for symbol, sent in collectives(run, Program(lambda *_: None, state, batch)).items():
        for kind, size in sent:
            if symbol.startswith(OF_TRIPS):
                in_trips.add(kind)
            else:
                once[kind] = once.get(kind, 0) + size
    return in_trips, once


# What programs of micro-batches send, and whether parameters are gathered, and their gradients scattered, once.
SENT = {
    "keep-shards": ({"all-gather", "reduce-scatter"}, set[str]()),
    "defer": ({"all-gather"}, {"reduce-scatter"}),
    "once": (set[str](), {"all-gather", "reduce-scatter"}),
}


@pytest.mark.parametrize("dimension", [-1, -2])
@pytest.mark.parametrize(("policy", "schedule"), [("keep-shards", "1f1b"), ("defer", "zb-h1"), ("once", "chimera")])
def test_policies_of_sharded_parameters(policy: Any, schedule: str, dimension: int) -> None:
    made = whole_numbers(jax.nn.relu)
    run = piped(made, schedule, policy=policy)
    state = sharded(made.state, mesh(2, 4), dimension)
    in_trips, once = census(run, state, made.batch)
    matrices, others = (
        bytes_of([leaf for leaf in jax.tree.leaves(made.state) if (leaf.ndim > 1) == large]) for large in (True, False)
    )
    copies = 2 if schedule == "chimera" else 1  # each place has both stages, for the two copies of the model
    sizes = {"all-gather": copies * matrices, "reduce-scatter": matrices}
    expected = {kind: sizes[kind] for kind in SENT[policy][1]} | {"all-reduce": others + np.float32(0).nbytes}
    assert (in_trips, once) == (SENT[policy][0], expected)
    want, got = jax.jit(made.step)(made.state, made.batch), run(run.place(state, made.batch), made.batch)
    assert_sharded(got[0], 4)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("name", ["transformer", "scanned"])
def test_sharded_parameters_are_gathered_and_activations_are_not(name: str) -> None:
    """Whatever the dimension is in which they are sharded; gradients, that of the tied embedding too, are reduced once."""
    made = program(name, microbatches=MICROBATCHES, clip=None, layers=2)
    run, state = piped(made, policy="defer"), sharded(made.state, mesh(2, 4), -1)
    in_trips, once = census(run, state, made.batch)
    assert in_trips == {"all-gather"} and once.keys() == {"reduce-scatter", "all-reduce"}
    want, got = jax.jit(made.step)(made.state, made.batch), run(run.place(state, made.batch), made.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


def test_sums_over_two_axes_are_scattered_over_those_of_the_parameter() -> None:
    where, made = mesh(2, 2, 2, names=("stage", "replica", "data")), whole_numbers(jax.nn.relu)
    run = pipeline(made.step, stages=2, microbatches=MICROBATCHES, mesh=where, policy="once")
    state = sharded(made.state, where, -1)
    in_trips, once = census(run, state, made.batch)
    assert not in_trips and once.keys() == {"all-gather", "all-reduce", "reduce-scatter"}
    want, got = jax.jit(made.step)(made.state, made.batch), run(run.place(state, made.batch), made.batch)
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(other, one)


def assert_sharded(state: Any, parts: int) -> None:
    """Of matrices, and stacks of them, each device of a stage has one of so many parts."""
    for leaf in jax.tree.leaves(state):
        stages = len(leaf.sharding.device_set) // 4
        held = leaf.nbytes // (parts if leaf.ndim > 1 else 1) // stages
        assert {shard.data.nbytes for shard in leaf.addressable_shards} == {held}


def test_rows_that_stages_share_are_not_sharded_otherwise() -> None:
    made = program("scanned", microbatches=MICROBATCHES, layers=8)
    where = NamedSharding(mesh(2, 4), P("data"))
    state = made.state | {"layers": jax.device_put(made.state["layers"], where)}
    with pytest.raises(StageError, match=r"^state\['layers'\]\['\w+'\]: its first dimension counts layers, which"):
        piped(made).place(state, made.batch)
