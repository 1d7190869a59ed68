"""Candidates whose modules differ in the names of axes only are compiled once, each audit in its own names."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import paropt
from paropt.clusters.targets import CpuTarget
from paropt.planning import search
from paropt.planning.candidates import DEFAULT_POLICY, Candidate, Mesh
from paropt.reports.totals import Audit

RULES = '[[rule]]\nrole = "batch"\nexamples = "{0}"\n\n[[rule]]\nrole = "state"\nshard = ["{1}", ""]\n'


def step(w: jax.Array, batches: jax.Array) -> tuple[jax.Array, jax.Array]:
    def trip(total: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)
        return total + gradient, loss

    total, losses = jax.lax.scan(trip, jnp.zeros_like(w), batches)
    return w - total, losses.mean()


def candidate(outer: str, inner: str, outer_size: int = 2) -> Candidate:
    mesh = Mesh(((outer, outer_size), (inner, 8 // outer_size)))
    return Candidate("own", mesh, RULES.format(outer, inner), DEFAULT_POLICY)


def test_other_names_of_axes_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    timed_on = search.timed_on

    def counting(target: Any, module: Any, cluster: Any) -> Audit:
        compiled.append(str(module))
        return timed_on(target, module, cluster)

    monkeypatch.setattr(search, "timed_on", counting)
    shapes = jax.ShapeDtypeStruct((24, 40), jnp.float32), jax.ShapeDtypeStruct((4, 16, 24), jnp.float32)
    given = [candidate("data", "model"), candidate("replica", "data"), candidate("data", "model", 4)]
    found = paropt.plan(step, *shapes, target=CpuTarget("cpu:8", 8), candidates=given)
    by_mesh = {str(each.candidate.mesh): each.audit for each in found.ranking}
    one, same, other = (by_mesh[str(each.mesh)] for each in given)
    assert one is not None and same is not None and other is not None
    assert {axis for each in one.collectives for axis in each.axes} == {"data", "model"}
    assert {axis for each in same.collectives for axis in each.axes} == {"replica", "data"}
    to_other = {"data": "replica", "model": "data"}
    assert [tuple(map(to_other.get, each.axes)) for each in one.collectives] == [each.axes for each in same.collectives]
    # Without and with the passes, for each size of axes: of two equal programs the one that comes first.
    assert len(compiled) == 2 * len({each.mesh.axes[0][1] for each in given})
    assert any('"data"=4' in text for text in compiled)
