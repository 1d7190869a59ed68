"""Random layered steps, cut into stages anywhere: as one program, and run as a pipeline, they compute the step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh
from programs.layered_steps import Program, step_of

import paropt
from paropt.pipeline import pipeline

WIDTH, MICRO_BATCHES = 8, 2

STEPS = 20


class Layer(NamedTuple):
    """What a layer computes, of the outputs of those before it."""

    weight: int  # several layers may have the same
    skip: int | None  # another output that is added
    scaled: int | None  # an output whose mean scales this one: a scalar that goes from stage to stage
    kind: str
    common: bool  # whether it adds a function of the batch that the first one made


@st.composite
def layers(draw: st.DrawFn) -> list[Layer]:
    kinds = st.sampled_from(["tanh", "relu", "none"])

    def earlier(number: int) -> int | None:
        return draw(st.one_of(st.none(), st.integers(0, number)))

    return [
        Layer(draw(st.integers(0, 3)), earlier(n), earlier(n), draw(kinds), draw(st.booleans()))
        for n in range(draw(st.integers(3, 6)))
    ]


KINDS: dict[str, Any] = {"tanh": jnp.tanh, "relu": jax.nn.relu, "none": lambda x: x}


def made_of(found: list[Layer]) -> Program:
    def loss(state: Any, part: Any) -> jax.Array:
        outputs, common = [part[0]], jnp.cumsum(part[1], 0)
        for number, layer in enumerate(found):
            with jax.named_scope(f"layer{number}"):
                x = KINDS[layer.kind](outputs[-1] @ state[layer.weight]["w"] + state[layer.weight]["b"])
                if layer.common:
                    x = x + common / 10
                if layer.skip is not None:
                    x = x + outputs[layer.skip]
                if layer.scaled is not None:
                    x = x * (1 + outputs[layer.scaled].mean())
            outputs.append(x)
        return jnp.mean((outputs[-1] - part[1]) ** 2)

    rng = np.random.default_rng(0)
    state = [
        {"w": (rng.standard_normal((WIDTH, WIDTH)) / 3).astype("f"), "b": rng.standard_normal(WIDTH).astype("f") / 9}
        for _ in range(4)
    ]
    batch = tuple(rng.standard_normal((16, WIDTH)).astype("f") for _ in range(2))
    return Program(step_of(loss, MICRO_BATCHES, clip=0.5, rate=1.0), state, batch)


def assert_close(got: Any, want: Any) -> None:
    for one, other in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


@pytest.mark.random_programs(STEPS)
@settings(max_examples=STEPS)
@given(layers(), st.sampled_from([2, 3]), st.sampled_from(["names", "costs"]), st.sampled_from(["with", "apart"]))
def test_all_stages_called_in_order_are_the_step(found: list[Layer], stages: int, cuts: str, weights: str) -> None:
    made = made_of(found)
    cut = f"cut-stages{{stages={stages} cuts={cuts} flops-per-byte=1}},outline-stages{{weights={weights}}}"
    run = paropt.jit(made.step, passes=f"inline-calls,canonicalize,cse,{cut}", strict=True)
    assert_close(run(made.state, made.batch), jax.jit(made.step)(made.state, made.batch))


@pytest.mark.random_programs(STEPS)
@settings(max_examples=STEPS)
@given(layers(), st.sampled_from(["1f1b", "zb-h1", "chimera"]))
def test_a_pipeline_computes_the_step(found: list[Layer], schedule: str) -> None:
    made = made_of(found)
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("stage", "data"))
    run = pipeline(made.step, stages=2, microbatches=MICRO_BATCHES, mesh=mesh, schedule=schedule)
    assert_close(run(made.state, made.batch), jax.jit(made.step)(made.state, made.batch))
