"""The values that are stored, as ops are fused: bytes that ops move, and what is live at once, of small functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jaxlib.mlir import ir

from paropt.passes.support.pipeline import Pipeline
from paropt.planning.stored_values import StoredValues, nested_in, size_of

X = jax.ShapeDtypeStruct((64, 64), jnp.float32)
SIZE = 64 * 64 * 4
SCALAR = 4


def block_of(function: Callable[..., Any], *args: Any) -> ir.Block:
    module = jax.jit(function).lower(*args).compiler_ir()
    Pipeline.parse("inline-calls").run(module.operation)
    return module.body.operations[0].regions[0].blocks[0]


def softmax_of_product(x: jax.Array) -> jax.Array:
    exponents = jnp.exp(x @ x)
    return exponents / jnp.sum(exponents)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(lambda x: jnp.tanh(x) + x, 2 * SIZE, id="a chain is one fusion"),
        pytest.param(lambda x: x @ x, 2 * SIZE, id="a product reads and writes"),
        pytest.param(lambda x: jnp.tanh(x) @ x, 2 * SIZE + 3 * SIZE, id="what a product reads is stored"),
        pytest.param(softmax_of_product, 2 * SIZE + SIZE + 2 * SIZE + 3 * SCALAR, id="a sum reads what it is made of"),
        pytest.param(lambda x: x[:8] + 1.0, 2 * SIZE // 8, id="of a slice, its part"),
        pytest.param(lambda x: jax.lax.optimization_barrier(x) * 2.0, 2 * SIZE, id="a barrier moves nothing"),
    ],
)
def test_bytes_that_ops_move(function: Callable[..., Any], expected: int) -> None:
    block = block_of(function, X)
    stored = StoredValues(block, donates=False)
    moved = sum(stored.traffic(op) for op in nested_in(block))
    assert moved == pytest.approx(expected, abs=4 * SCALAR)


def most(function: Callable[..., Any], *args: Any, donates: bool = False) -> int:
    moments = StoredValues(block_of(function, *args), donates=donates).moments()
    return max((sum(map(size_of, live)) for live in moments), default=0)


def test_what_nothing_reads_any_more_is_not_live() -> None:
    assert most(lambda x: ((x @ x) @ x) @ x, X) == 2 * SIZE


def test_what_is_read_later_is_live() -> None:
    def kept(x: jax.Array) -> jax.Array:
        first = x @ x
        second = first @ x
        return (second @ x) @ first

    assert most(kept, X) == 3 * SIZE


def test_a_donated_argument_is_written_over() -> None:
    assert most(lambda x: x * 2.0, X, donates=False) == SIZE
    assert most(lambda x: x * 2.0, X, donates=True) == 0


def step(state: jax.Array, batches: jax.Array) -> jax.Array:
    """Layers in a scan, in a loop over micro-batches."""

    def loss(state: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jax.lax.scan(jax.checkpoint(lambda x, w: (jnp.tanh(x @ w), None)), x, state)[0])

    def micro_batch(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
        return total + jax.grad(loss)(state, x), None

    return jax.lax.scan(micro_batch, jnp.zeros_like(state), batches)[0]


def test_layers_leave_their_inputs_and_hand_on_one() -> None:
    shapes = jax.ShapeDtypeStruct((6, 64, 64), jnp.float32), jax.ShapeDtypeStruct((4, 64, 64), jnp.float32)
    stored = StoredValues(block_of(step, *shapes), donates=False)
    assert [size_of(each) for each in stored.stacked] == [6 * SIZE]
    assert [size_of(each) for each in stored.crossing] == [SIZE]
    assert {size_of(each) for each in stored.stacked_gradients} == {6 * SIZE}
    assert len(stored.stacking) == 1
