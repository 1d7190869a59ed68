"""Predicted shardings of contractions, reductions, gathers and scatters are those of XLA's own run of Shardy.

Of the program as jax writes it, and as the passes leave it. Only ops that XLA keeps as they are can be compared.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from numeric.identity_ops import NEUTRAL_OPS
from numeric.test_hybrid_sharding import CASES as HYBRID
from numeric.user_steps import MICRO_BATCHES, Case, accumulated, compared
from programs.program import Tree, mesh_of

from paropt.jit import rewritten
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, sharding_of
from paropt.passes.support.context import make_context
from paropt.passes.support.traversal import is_used, ops_of

KINDS = tuple(f"stablehlo.{name}" for name in ("dot", "dot_general", "gather", "reduce", "scatter"))
MESH = mesh_of(data=2, fsdp=2, tensor=2)
WORDS, WIDTH, HIDDEN, LAYERS, SEQUENCE, EXAMPLES = 16, 16, 32, 2, 8, 16


def on_mesh(value: np.ndarray, *spec: Any) -> jax.Array:
    return jax.device_put(value, NamedSharding(MESH, PartitionSpec(*spec)))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) / 4).astype(np.float32)


def language_model(w: Any, batch: Any) -> jax.Array:
    """Nothing says how activations are split: what Shardy finds depends on the order in which it goes through ops."""

    def layer(h: jax.Array, p: Any) -> tuple[jax.Array, None]:
        return h + jax.nn.silu(h @ p["up"]) @ p["down"], None

    h = lax.scan(layer, w["words"][batch["x"]], {"up": w["up"], "down": w["down"]})[0]
    logits = (h * lax.rsqrt((h**2).mean(-1, keepdims=True) + 1) * w["gain"]) @ w["head"]
    right = jnp.take_along_axis(logits, batch["y"][..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - right).sum()


def tokens(seed: int) -> jax.Array:
    shape = (MICRO_BATCHES, EXAMPLES, SEQUENCE)
    return on_mesh(np.random.default_rng(seed).integers(0, WORDS, shape), None, ("data", "fsdp"))


LANGUAGE_MODEL = (
    language_model,
    {
        "words": on_mesh(normal(WORDS, WIDTH), "tensor", "fsdp"),
        "up": on_mesh(normal(LAYERS, WIDTH, HIDDEN), None, "fsdp", "tensor"),
        "down": on_mesh(normal(LAYERS, HIDDEN, WIDTH), None, "tensor", "fsdp"),
        "gain": on_mesh(normal(WIDTH)),
        "head": on_mesh(normal(WIDTH, WORDS), "fsdp", "tensor"),
    },
    {"x": tokens(0), "y": tokens(1)},
)
PROGRAMS: dict[str, tuple[Callable[..., Any], Tree, Tree]] = {"a language model": LANGUAGE_MODEL} | HYBRID


@pytest.mark.parametrize("passes", ["inline-calls", "grad-sync"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_xla_splits(name: str, passes: str, tmp_path: Path) -> None:
    loss, parameters, batches = PROGRAMS[name]

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(jnp.subtract, w, accumulated(jax.grad(loss), w, x))

    predicted, found = predicted_and_found(jax.jit(step).lower(parameters, batches), passes, tmp_path)
    assert predicted == found and predicted.total() > 3


# XLA erases what a choice leaves out before it decides in which order it goes through ops; here that is still there.
IN_ORDER = [name for name in NEUTRAL_OPS if name != "choice"]


@pytest.mark.parametrize("name", IN_ORDER)
def test_neutral_ops_are_none_for_xla(name: str, tmp_path: Path) -> None:
    """What a constraint splits is the value itself, not a copy of it that could be split otherwise."""
    neutral = NEUTRAL_OPS[name]

    def step(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jnp.sin(x)
        split = lax.with_sharding_constraint(neutral(h), NamedSharding(MESH, PartitionSpec(None, "data")))
        return split, h.sum(1)

    lowered = jax.jit(step).lower(on_mesh(normal(EXAMPLES, WIDTH), "data"))
    predicted, found = predicted_and_found(lowered, "inline-calls", tmp_path)
    assert predicted == found and predicted.total() == 1


@pytest.mark.parametrize("passes", ["inline-calls", "grad-sync"])
def test_arrays_that_a_loop_only_reads_are_outside_of_it(passes: str, tmp_path: Path) -> None:
    """Examples are split by rows, what is computed of them by columns: as the loop carries them, it would reach them."""

    def loss(w: jax.Array, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        h = jax.checkpoint(lambda w, x: x * w)(w, batch[0])
        return (lax.with_sharding_constraint(h, NamedSharding(MESH, PartitionSpec(None, "data"))) * batch[1]).sum()

    def step(w: jax.Array, batches: Any) -> Any:
        def trip(total: Any, batch: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(w, batch)), None

        return lax.scan(trip, (jnp.float32(0), jnp.zeros_like(w)), batches)[0]

    batches = tuple(on_mesh(normal(MICRO_BATCHES, EXAMPLES, WIDTH, seed=seed), None, "data") for seed in range(2))
    predicted, found = predicted_and_found(jax.jit(step).lower(on_mesh(normal(WIDTH)), batches), passes, tmp_path)
    assert predicted == found and predicted.total() > 1


def predicted_and_found(lowered: Any, passes: str, directory: Path) -> tuple[Counter[Any], Counter[Any]]:
    passed, _ = rewritten(lowered, passes)
    module: Any = passed.compiler_ir()
    predicted = _splits(module.operation, Propagated(module.operation))
    dumped: dict[str, str | bool] = {
        "xla_dump_to": str(directory),
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_pass_re": "spmd.*|shardy.*",
    }
    (lowered if passes == "inline-calls" else passed).compile(compiler_options=dumped)
    (text,) = (path.read_text() for path in directory.rglob("02.after_propagation.mlir"))
    found = ir.Module.parse(text, make_context(allow_unregistered_dialects=True))
    return predicted, _splits(found.operation, None)


def test_nothing_else_is_gathered() -> None:
    """What would be split otherwise for the gradients that have moved is held as XLA alone splits it."""
    loss, parameters, batches = LANGUAGE_MODEL

    def step(w: Any, x: Any) -> Any:
        return jax.tree.map(jnp.subtract, w, accumulated(jax.grad(loss), w, x))

    before, after, _ = compared(Case(step, (parameters, batches), tolerance=1e-5))
    assert after.sync_in_loop < before.sync_in_loop and after.sync_bytes < before.sync_bytes


def _splits(module: ir.Operation, propagated: Propagated | None) -> Counter[tuple[str, ...]]:
    """How the ops that are compared read what they read, and make what they make."""
    found: Counter[tuple[str, ...]] = Counter()
    for op in ops_of(module, *KINDS):
        if propagated is None:
            lies = [sharding_of(value) for value in (*op.operands, op.results[0])]
        elif is_used(op):  # XLA erases what is not
            lies = [*propagated.operand_shardings(op), propagated.sharding_of(op.results[0])]
        else:
            continue
        if op.name == "stablehlo.reduce":
            lies = [lies[0], lies[-1]]  # XLA shares start values
        types = [str(value.type) for value in (*op.operands, op.results[0])]
        found[op.name.removesuffix("_general"), *types, *map(_text, lies)] += 1
    return found


def _text(sharding: Sharding | None) -> str:
    split = sharding is not None and any(sharding.dimensions)
    return str(sharding.dimensions) if split and sharding is not None else ""
