"""Audits in a folder: a second plan of the same step compiles nothing, and one of another step or version does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paropt
from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.costs.machines import read_table
from paropt.plan import Plan, PlanError
from paropt.planning import audit_cache, search
from paropt.planning.audit_cache import cache_in
from paropt.planning.candidates import Candidate, Mesh, Stages, templates
from paropt.planning.sharded_programs import Step, lowered_without_mesh, step_of

DP = next(each for each in templates(8) if each.name == "dp")
STAGED = Candidate("pp x dp", Mesh((("stage", 2), ("data", 4))), DP.rules, "keep-shards", Stages("1f1b", 2))


def step(state: Any, inputs: jax.Array, rate: float = 1.0) -> Any:
    def loss(state: Any, x: jax.Array) -> jax.Array:
        for number, layer in enumerate(state):
            with jax.named_scope(f"layer{number}"):
                x = jnp.maximum(x @ layer, 0)
        return jnp.sum(x)

    def body(total: Any, x: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(state, x)
        return jax.tree.map(jnp.add, total, (gradients, value)), None

    (gradients, value), _ = jax.lax.scan(body, (jax.tree.map(jnp.zeros_like, state), jnp.float32(0)), inputs)
    return jax.tree.map(lambda old, leaf: old - rate * leaf, state, gradients), value


def faster(state: Any, inputs: jax.Array) -> Any:
    return step(state, inputs, 2.0)


ARGS = ([np.ones((16, 16), np.float32)] * 2, np.ones((2, 8, 16), np.float32))


def planned(folder: Path, function: Any = step) -> Plan:
    return paropt.plan(function, *ARGS, target="cpu:8", candidates=[DP, STAGED], cache=folder)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of candidates that were compiled, as if each plan were of a new process."""
    found: list[str] = []

    def counting(name: str) -> None:
        original = getattr(search, name)

        def recorded(*args: Any) -> Any:
            found.append(name)
            return original(*args)

        monkeypatch.setattr(search, name, recorded)

    monkeypatch.setattr(search, "_CACHE", type(search._CACHE)())
    counting("timed_on")
    counting("staged_audit")
    return found


def test_a_second_plan_of_the_same_step_compiles_nothing(tmp_path: Path, compiled: list[str], monkeypatch: Any) -> None:
    first = planned(tmp_path)
    assert {*compiled} == {"timed_on", "staged_audit"} and len([*tmp_path.iterdir()]) == 2
    compiled.clear()
    search._CACHE.clear()
    second = planned(tmp_path)
    assert compiled == [] and second.ranking == first.ranking and str(second) == str(first)

    search._CACHE.clear()
    planned(tmp_path, faster)
    assert {*compiled} == {"timed_on", "staged_audit"}, "another step"

    compiled.clear()
    search._CACHE.clear()
    monkeypatch.setattr(audit_cache, "versions", lambda: "another")
    planned(tmp_path)
    assert {*compiled} == {"timed_on", "staged_audit"}, "another version"


def lowered(donate: tuple[int, ...] = ()) -> Step:
    return step_of(lowered_without_mesh(jax.jit(step, donate_argnums=donate), ARGS, targets.get("cpu:8")))


def test_all_that_has_a_part_in_an_audit_is_a_part_of_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, table = targets.get("cpu:8"), read_table()
    cluster = cluster_of(target, table)
    slower = replace(cluster, machine=replace(cluster.machine, memory_bandwidth=1.0))
    keys = {
        "same": cache_in(tmp_path, lowered(), target, cluster)._path(DP),
        "donated": cache_in(tmp_path, lowered((0,)), target, cluster)._path(DP),
        "target": cache_in(tmp_path, lowered(), targets.get("cpu:4"), cluster)._path(DP),
        "figures": cache_in(tmp_path, lowered(), target, slower)._path(DP),
        "candidate": cache_in(tmp_path, lowered(), target, cluster)._path(replace(DP, policy="")),
    }
    assert cache_in(tmp_path, lowered(), target, cluster)._path(DP) == keys["same"]
    monkeypatch.setenv("XLA_FLAGS", "--xla_another")
    keys["flags"] = cache_in(tmp_path, lowered(), target, cluster)._path(DP)
    assert len({*keys.values()}) == len(keys)


def test_a_file_that_is_not_an_audit_is_compiled_again(tmp_path: Path) -> None:
    target = targets.get("cpu:8")
    cache = cache_in(tmp_path, lowered(), target, cluster_of(target, read_table()))
    for text in ("", "{}", '{"audit": {"collectives": 3}, "transfers": []}', "[1]"):
        cache._path(DP).write_text(text)
        assert cache.read(DP) is None


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match=r"^plan: cannot make the folder '.*file/cache': "):
        planned(tmp_path / "file" / "cache")


def test_versions_name_jax_and_the_library_by_its_source() -> None:
    text = audit_cache.versions()
    assert f"jax={jax.__version__}" in text and len(text.rpartition("paropt=")[2]) == 64
