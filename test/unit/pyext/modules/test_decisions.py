"""The table of decisions: each parameter and sum, its bytes either way, and why it is not once."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from programs.catalog import LAYERS
from programs.program import Sizes

import paropt
from paropt.modules.decisions import Decision, Decisions

WIDTH, TRIPS, DEVICES = 64, 4, 8
ARRAY = WIDTH * WIDTH * 4
SCALAR = 4


def on(*axes: str | None) -> NamedSharding:
    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(AxisType.Auto,))
    return NamedSharding(mesh, P(*axes))


def step(state: Any, batches: jax.Array) -> tuple[Any, jax.Array]:
    def loss(weights: Any, x: jax.Array) -> jax.Array:
        for each in weights.values():
            x = jax.lax.with_sharding_constraint(jnp.tanh(x @ each), on("data"))
        return jnp.sum(x**2)

    def body(total: Any, x: jax.Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(state, x)), None

    (losses, total), _ = jax.lax.scan(body, (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state)), batches)
    return jax.tree.map(lambda old, new: old - new, state, total), losses


def arguments(*axes: str | None) -> Any:
    weight = jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32, sharding=on(*axes))
    batches = jax.ShapeDtypeStruct((TRIPS, 16, WIDTH), jnp.float32, sharding=on(None, "data"))
    return {"up": weight, "down": weight}, batches


def lowered(passes: str, *axes: str | None) -> Any:
    return paropt.jit(step, passes=passes).lower(*arguments(*axes))


def of(found: Decisions, what: str) -> list[Decision]:
    return [each for each in found if each.what == what]


def test_by_default_parameters_and_their_sums_stay_in_the_loop() -> None:
    found = paropt.decisions(lowered("grad-sync", "data"))
    parameters, sums = of(found, "parameter"), of(found, "sum")
    assert {each.name for each in parameters} == {"state['up']", "state['down']"}
    for each in parameters:  # gathered once in each trip, for the forward and the backward pass
        assert (each.in_loops, each.once, each.held, each.is_once) == (ARRAY * TRIPS, ARRAY, ARRAY, False)
        assert each.reason == "the policy gathers parameters where they are read, and holds none"
    gradients = [each for each in sums if each.in_loops != SCALAR * TRIPS]
    assert sum(each.arrays for each in gradients) == 2
    assert sum(each.in_loops or 0 for each in gradients) == 2 * ARRAY * TRIPS
    assert sum(each.held or 0 for each in gradients) == 2 * (ARRAY - ARRAY // DEVICES)
    assert {each.reason for each in gradients} == {
        "option policy=defer replicates it: its sum is sharded over `data`, and stays so"
    }


@pytest.mark.parametrize("axes", [("data",), ()])
def test_once_is_decided_where_it_is_asked_for_or_costs_nothing(axes: tuple[str, ...]) -> None:
    found = paropt.decisions(lowered("grad-sync{policy=once}" if axes else "grad-sync", *axes))
    assert [each for each in found if not each.is_once] == []
    assert len(of(found, "parameter")) == (2 if axes else 0)
    assert sum(each.in_loops or 0 for each in of(found, "sum")) == 2 * ARRAY * TRIPS + SCALAR * TRIPS
    assert sum(each.once or 0 for each in of(found, "sum")) == 2 * ARRAY + SCALAR


def test_a_budget_holds_what_saves_most_for_each_byte() -> None:
    """A sum is held whole in place of a shard, a parameter beside its shard: both save as much."""
    found = paropt.decisions(lowered(f"grad-sync{{policy=auto memory-budget={ARRAY}}}", "data"))
    assert [(each.what, each.held) for each in found if each.is_once and each.held] == [
        ("sum", ARRAY - ARRAY // DEVICES)
    ]
    for each in of(found, "parameter"):
        left = ARRAY // DEVICES
        want = (
            f"it would save {3 * ARRAY} bytes of all-gathers and hold {ARRAY} more, and {left} are left of a budget of "
        )
        assert (each.is_once, each.reason) == (False, f"{want}{ARRAY}")


@pytest.mark.filterwarnings("ignore:paropt. memory_budget")
def test_of_a_compiled_program_it_is_what_runs() -> None:
    """What was planned takes too much, as the compiler counts: a smaller plan runs."""
    small = paropt.jit(step, memory_budget=62_000).lower(*arguments("data"))
    planned = [each.held for each in paropt.decisions(small) if each.is_once and each.held]
    small.compile()
    found = paropt.decisions(small)
    runs = [each.held for each in found if each.is_once and each.held]
    last = [remark.text for remark in paropt.remarks(small) if remark.pass_name == "paropt"][-1]
    assert sum(planned) > sum(runs)
    assert last.startswith(f"a plan that holds {sum(runs)} bytes more takes ")


def test_as_text_it_is_a_table() -> None:
    head, *rows = str(paropt.decisions(lowered("grad-sync", "data"))).splitlines()
    assert head.split()[-1] == "reason"
    assert [head.index("in loops") == row.index("65.5 kB") for row in rows if row.startswith("parameter")] == [True] * 2
    assert str(Decisions()) == "nothing is decided: the passes found no parameter and no sum"


def test_a_pipeline_without_a_policy_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"no pass of `inline-calls` gathers or reduces once; `grad-sync` has such"):
        paropt.decisions(lowered("inline-calls", "data"))


def test_programs_that_no_pass_saw() -> None:
    with pytest.raises(ValueError, match="decisions: no passes ran on this program"):
        paropt.decisions(jax.jit(jnp.sin).lower(1.0))
    with pytest.raises(TypeError, match=r"decisions: expected what `.lower"):
        paropt.decisions("step")


def test_shards_reduced_once_over_another_axis_are_told_beside_their_reduction_in_loops() -> None:
    """A hybrid sharded step: over `data`, gradients are scattered in each layer of each micro-batch."""
    program = LAYERS["blocks_p18"](Sizes(width=32))
    lowered = paropt.jit(program.step).lower(*program.args)
    rows = [each for each in paropt.decisions(lowered) if each.name == "dot_general"]
    assert [each.is_once for each in rows] == [True, False] * 2
    once, in_loops = rows[:2]
    shards = dict(program.args[0]["into"].sharding.mesh.shape)["data"]
    assert (in_loops.in_loops, in_loops.once) == (shards * (once.in_loops or 0), shards * (once.once or 0))
    assert "sharded over `data`" in in_loops.reason
    assert ", 3 gradients reduced (" in paropt.remarks(lowered).offer


def test_arrays_that_manual_computations_gather_have_the_names_of_arguments() -> None:
    """Each is a row, with all trips of both loops around it."""
    program = LAYERS["explicit_blocks_p17"](Sizes(width=32))
    found = paropt.decisions(paropt.jit(program.step).lower(*program.args))
    parameters, (sums,) = of(found, "parameter"), [each for each in of(found, "sum") if each.arrays > 1]
    assert [each.name for each in parameters] == [f"parameters['{name}']" for name in ("into", "out", "scale")]
    assert sums.arrays == len(parameters)
    gathered = sum(each.in_loops or 0 for each in parameters)
    assert gathered == 2 * (sums.in_loops or 0)  # for the forward and the backward pass
