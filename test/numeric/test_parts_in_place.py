"""Examples over two axes, and parameters over one of them and a third: XLA alone moves parts of gradients between devices.

Of what is not reduced it would take parts from devices with addends of other sums: the gradient was wrong, silently.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from numeric.user_steps import EXAMPLES, MICRO_BATCHES, WIDTH, Case, accumulated, compared, integers, placed
from programs.program import Tree, mesh_of

MESH = mesh_of(data=2, fsdp=2, tensor=2)
LAYERS, HIDDEN = 4, 16
MOVED = "XLA would move what is not reduced between devices"


class Program(NamedTuple):
    loss: Callable[[Any, Any], Any]
    parameters: Tree
    specs: dict[str, tuple[Any, ...]]
    examples: tuple[str, ...] = ("data", "fsdp")  # the axes that split them
    vocabulary: int = 0  # of integer examples


def scaled(w: Any, x: jax.Array) -> jax.Array:
    return ((x * w["g"]) ** 2).mean()


def product(w: Any, x: jax.Array) -> jax.Array:
    return (jnp.tanh(x @ w["a"]) ** 2).mean()


def lookup(w: Any, x: jax.Array) -> jax.Array:
    return (w["e"][x] ** 2).mean()


def scaled_layers(w: Any, x: jax.Array) -> jax.Array:
    def block(h: jax.Array, w: Any) -> tuple[jax.Array, None]:
        return h + jnp.tanh((h * w["g"]) @ w["a"]) @ w["b"], None

    layers = {key: w[key] for key in "abg"}
    return (lax.scan(jax.checkpoint(block), x @ w["i"], layers)[0] ** 2).mean()


LAYERED = {
    "i": integers(WIDTH, WIDTH) / 8,
    "a": integers(LAYERS, WIDTH, HIDDEN) / 8,
    "b": integers(LAYERS, HIDDEN, WIDTH) / 8,
    "g": integers(LAYERS, WIDTH) / 4,
}
REVERSED = ("tensor", "fsdp", "data")
PROGRAMS = {
    "a scale": Program(scaled, {"g": integers(WIDTH)}, {"g": (("fsdp", "tensor"),)}),
    "columns": Program(product, {"a": integers(WIDTH, HIDDEN) / 4}, {"a": (None, ("fsdp", "tensor"))}),
    "other axes": Program(
        product, {"a": integers(WIDTH, HIDDEN) / 4}, {"a": (None, ("tensor", "fsdp"))}, ("data", "tensor")
    ),
    "rows of a table": Program(lookup, {"e": integers(16, WIDTH)}, {"e": (("fsdp", "tensor"),)}, vocabulary=16),
    "scales of layers": Program(
        scaled_layers, LAYERED, {"i": (), "a": (), "b": (None, None, "data"), "g": (None, "tensor")}, REVERSED
    ),
    "layers over all axes": Program(
        scaled_layers, LAYERED, {"i": (), "a": (), "b": REVERSED, "g": (None, "tensor")}, REVERSED
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_right(name: str) -> None:
    program = PROGRAMS[name]
    parameters = {key: placed(value, *program.specs[key], mesh=MESH) for key, value in program.parameters.items()}
    shape = (MICRO_BATCHES, EXAMPLES) if program.vocabulary else (MICRO_BATCHES, EXAMPLES, WIDTH)
    examples = abs(integers(*shape)).astype(int) if program.vocabulary else integers(*shape) / 2

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(lambda a, b: a - b, w, accumulated(jax.grad(program.loss), w, x))

    arguments = (parameters, placed(examples, None, program.examples, mesh=MESH))
    _, _, missed = compared(Case(step, arguments, tolerance=1e-5))
    assert any(MOVED in remark for remark in missed)
