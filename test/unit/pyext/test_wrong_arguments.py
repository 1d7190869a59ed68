"""Public functions that are called with something else than they take: one line, which names the argument."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paropt
from paropt import costs, gpus, report_json, schedules, targets
from paropt.passes.support.pipeline import PipelineError
from paropt.pipeline import StageError
from paropt.plan import PlanError

X = jax.ShapeDtypeStruct((8, 16), jnp.float32)
MESH = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("stage",))
CLUSTER = costs.cluster_of("gpu:h100:1x2x8")
ROUTE = CLUSTER.route([range(16)])


def step(state: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(lambda state: jnp.sum(jnp.tanh(x * state) ** 2))(state)
        return total + gradient, loss

    total, losses = jax.lax.scan(body, jnp.zeros_like(state), batch)
    return state - total, losses


def pipeline(**options: Any) -> Any:
    given: dict[str, Any] = {"stages": 2, "microbatches": 8, "mesh": MESH, **options}
    return paropt.pipeline(step, **given)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"mesh": None}, StageError, "mesh: expected a jax.sharding.Mesh with an axis 'stage', got None"),
        ({"shardings": 3}, StageError, "shardings: expected a function of the step's arguments, got 3"),
        ({"cut_options": True}, StageError, 'cut_options: expected a mapping, such as {"recompute": False}, got True'),
        ({"cut_options": {"recompute": 3}}, PipelineError, "cut-stages{recompute=3}: expected true or false"),
        (
            {"progress": None},
            TypeError,
            "progress: expected a function that takes a line, such as print, got None",
        ),
    ],
)
def test_pipelines_when_they_are_made(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        pipeline(**wrong)
    assert str(raised.value) == message


def test_flags_are_options_of_cuts() -> None:
    assert pipeline(cut_options={"recompute": False}) is not None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, "shardings: too many positional arguments; it is called with the arguments of the step"),
        (lambda *_: None, "shardings: expected one for each array of the arguments (2); the function returns 0"),
        (
            lambda *_: jax.sharding.PartitionSpec(),
            "shardings: expected one for each array of the arguments (2), as a jax.sharding.NamedSharding; "
            "the function returns P()",
        ),
    ],
)
def test_shardings_of_pipelines(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(StageError) as raised:
        pipeline(shardings=function).compile(jax.ShapeDtypeStruct((16,), jnp.float32), X)
    assert str(raised.value).replace("PartitionSpec()", "P()") == message


KINDS = "`host`, `cpu:8`, `tpu:v5e:2x4` or `gpu:h100:1x1x8`"


@pytest.mark.parametrize(
    "called",
    [
        lambda wrong: targets.get(wrong),
        lambda wrong: costs.cluster_of(wrong),
        lambda wrong: paropt.plan(step, X, X, target=wrong),
        lambda wrong: paropt.audit(step, X, X, targets=[wrong]),
    ],
    ids=["get", "cluster_of", "plan", "audit"],
)
@pytest.mark.parametrize("wrong", [None, 3, b"cpu:8"])
def test_targets(called: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(targets.TargetError) as raised:
        called(wrong)
    assert str(raised.value) == f"no target {wrong!r}: expected the name of one: {KINDS}"


def test_a_target_is_as_good_as_its_name() -> None:
    cpu = targets.get("cpu:8")
    assert costs.cluster_of(cpu) == costs.cluster_of("cpu:8", costs.read_table())
    found = paropt.audit(jax.jit(lambda x: x + 1), X, targets=targets.get("cpu:1"))
    assert [each.target for each in cast(Any, found).comparisons] == ["cpu:1"]


@pytest.mark.parametrize(
    ("called", "message"),
    [
        (lambda: costs.collective_seconds("all_reduce", 1, ROUTE), "no collective 'all_reduce'; did you mean `all-"),
        (lambda: costs.collective_seconds("all-reduce", -1, ROUTE), "expected a number of bytes as payload, not -1"),
        (
            lambda: costs.collective_seconds("all-reduce", cast(Any, "1"), ROUTE),
            "a number of bytes as payload, not '1'",
        ),
        (lambda: costs.collective_seconds("all-reduce", 1, cast(Any, 3)), "`Cluster.route` returns as route, not 3"),
        (lambda: CLUSTER.route(cast(Any, 3)), "route: expected groups of devices, such as [[0, 1], [2, 3]] or "),
        (lambda: CLUSTER.route(cast(Any, [0, 1])), "route: expected groups of devices, such as [[0, 1], [2, 3]] or "),
        (lambda: CLUSTER.route([[0, 16]]), "route: gpu:h100:1x2x8 has the devices 0 to 15, not 16"),
        (lambda: costs.cluster_of("cpu:8", cast(Any, 3)), "cluster_of: expected a table as `read_table` returns it, "),
    ],
)
def test_costs(called: Callable[[], Any], message: str) -> None:
    with pytest.raises(costs.CostError) as raised:
        called()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("given", "got"), [([], "none"), (["dp"], "'dp'"), (3, "3")])
def test_candidates_of_plans(given: Any, got: str) -> None:
    with pytest.raises(PlanError) as raised:
        paropt.plan(step, X, X, target="cpu:8", candidates=given)
    assert str(raised.value) == f"candidates: expected one Candidate of paropt.planning.candidates or more, got {got}"


PLAN = schedules.schedule("1f1b", stages=2, microbatches=2)


@pytest.mark.parametrize(
    ("called", "message"),
    [
        (
            lambda: paropt.plan(step, X, X, target="cpu:8", seconds=cast(Any, "1")),
            "seconds: expected a number, got '1'",
        ),
        (lambda: paropt.plan(step, X, X, target="cpu:8", cache=cast(Any, 3)), "cache: expected the path of a folder"),
        (
            lambda: paropt.plan(step, X, X, target="cpu:8", costs=cast(Any, 3)),
            "costs: expected the path of a TOML file",
        ),
        (lambda: paropt.policies(step, X, X, plans=cast(Any, "1")), "plans: expected a number, got '1'"),
        (lambda: costs.estimate(cast(Any, None), CLUSTER), "estimate: expected optimized HLO"),
        (lambda: costs.estimate("", cast(Any, None)), "estimate: expected a cluster, as `cluster_of` returns it"),
        (lambda: schedules.simulate(cast(Any, None)), "simulate: expected what `paropt.schedules.schedule` returns"),
        (lambda: schedules.simulate(PLAN, cast(Any, 3)), "costs: expected paropt.schedules.Costs, got 3"),
        (lambda: report_json.dumps(cast(Any, None)), "dumps: expected the report of an audit with targets, got None"),
        (lambda: report_json.loads(cast(Any, None)), "loads: expected JSON text, got None"),
        (lambda: gpus.target_config(cast(Any, "h100")), "target_config: expected a row of the table"),
        (lambda: targets.get("cpu:8").mesh(cast(Any, 8)), "mesh: expected sizes by names, such as"),
        (lambda: targets.get("cpu:8").mesh(cast(Any, {"data": "8"})), "mesh: expected a number of devices, got '8'"),
        (lambda: paropt.manifest(None), "manifest: expected an ir.Module or what `.lower(...)` returns, got None"),
    ],
)
def test_values_of_another_type(called: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as raised:
        called()
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("nothing", [0, "0", "0B", "0GiB", " 0.0 "])
def test_a_budget_of_nothing_is_one_in_any_unit(nothing: Any) -> None:
    from paropt.clusters.device_memory import read_budget

    assert read_budget(nothing) == 0
