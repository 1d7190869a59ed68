"""Gradient markers: `paropt.mark_gradient` survives what JAX and MLIR do to a program, and costs nothing compiled."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from jaxlib.mlir.passmanager import PassManager
from modules import parsed
from numeric.oracle import optimized
from programs.program import data_mesh

import paropt
from paropt.passes.ir.gradient_marks import marked_gradients

WEIGHTS = {"a": jnp.ones((4, 4)), "b": jnp.full((4, 4), 2.0)}
BATCH = jnp.arange(32.0).reshape(8, 4)
LEAVES = len(WEIGHTS)


def loss(weights: Any, batch: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(batch @ weights["a"]) @ weights["b"])


def update(weights: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradients)


def step(mark: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda weights, batch: update(weights, mark(jax.grad(loss)(weights, batch)))


def marks(text: str) -> int:
    return len(marked_gradients(parsed(text).operation))


def scanned(weights: Any, batch: jax.Array) -> Any:
    return lax.scan(lambda w, x: (step(paropt.mark_gradient)(w, x[None]), None), weights, batch)[0]


def mapped(check_vma: bool) -> Callable[..., Any]:
    def local(weights: Any, batch: jax.Array) -> Any:
        gradients = jax.grad(loss)(weights, batch)
        return update(weights, paropt.mark_gradient(gradients if check_vma else lax.psum(gradients, "data")))

    specs = (PartitionSpec(), PartitionSpec("data"))
    return jax.shard_map(
        local, mesh=data_mesh(), in_specs=specs, out_specs=PartitionSpec(), check_vma=check_vma
    )  # fmt: skip


MARKED = step(paropt.mark_gradient)
FORMS: dict[str, Callable[..., Any]] = {
    "jit": MARKED,
    "nested jit": jax.jit(MARKED),
    "vmap": lambda w, x: jax.vmap(MARKED, in_axes=(None, 0))(w, x[:, None]),
    "scan": scanned,
    "remat": jax.checkpoint(MARKED),
    "shard_map": mapped(check_vma=False),
    "shard_map that checks": mapped(check_vma=True),
    "value_and_grad": lambda w, x: jax.value_and_grad(lambda w: sum(map(jnp.sum, MARKED(w, x).values())))(w),
    "jvp": lambda w, x: jax.jvp(lambda w: MARKED(w, x), (w,), (w,)),
}


@pytest.mark.parametrize("form", FORMS)
def test_mark_survives(form: str) -> None:
    lowered = jax.jit(FORMS[form]).lower(WEIGHTS, BATCH)
    text = optimized(lowered.as_text(), "inline-calls")[0]
    assert marks(text) == LEAVES
    module = parsed(text)
    PassManager.parse("builtin.module(canonicalize,cse)", module.context).run(module.operation)
    assert marks(str(module)) == LEAVES, "MLIR takes it for nothing"


def test_equal_gradients_may_share_a_mark() -> None:
    text = jax.jit(lambda x: paropt.mark_gradient((x, x))).lower(BATCH).as_text()
    module = parsed(text)
    PassManager.parse("builtin.module(func.func(cse))", module.context).run(module.operation)
    assert marks(str(module)) == 1


def test_program_without_passes_is_the_same() -> None:
    plain, marked = (jax.jit(step(mark)) for mark in (lambda tree: tree, paropt.mark_gradient))
    for want, got in zip(
        jax.tree.leaves(plain(WEIGHTS, BATCH)), jax.tree.leaves(marked(WEIGHTS, BATCH)), strict=True
    ):  # fmt: skip
        np.testing.assert_array_equal(got, want)
    instructions = [f.lower(WEIGHTS, BATCH).compile().as_text().count(" = ") for f in (plain, marked)]
    assert instructions[0] == instructions[1], "the mark is left in the compiled program"


def test_outside_of_jit_and_on_what_is_no_array() -> None:
    assert paropt.mark_gradient({"x": 1.5, "none": None})["x"] == 1.5
    np.testing.assert_array_equal(paropt.mark_gradient([BATCH])[0], BATCH)
    assert paropt.mark_gradient(BATCH.astype(jnp.bfloat16)).dtype == jnp.bfloat16


def test_a_reshape_is_no_mark() -> None:
    assert marks(jax.jit(lambda x: x.reshape(4, 8)).lower(BATCH).as_text()) == 0


def test_mark_stays_through_the_passes() -> None:
    program = mapped(check_vma=False)
    lowered = paropt.jit(program, strict=True).lower(WEIGHTS, BATCH)
    assert marks(lowered.as_text()) == LEAVES
