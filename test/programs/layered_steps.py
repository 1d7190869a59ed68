"""Training steps of layered models, with a loop over micro-batches: what pipeline stages are cut from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Loss = Callable[[Any, Any], jax.Array]
WIDTH, TOKENS, VOCABULARY, HEADS = 16, 8, 24, 2


class Program(NamedTuple):
    """A step, and what it takes."""

    step: Callable[[Any, Any], Any]
    state: Any
    batch: Any


def program(
    name: str,
    *,
    microbatches: int,
    layers: int = 4,
    named: bool = True,
    clip: float | None = 0.5,
    rate: float = 100.0,
    parted: bool = False,
    checkpointed: bool = False,
) -> Program:
    """`mlp`, `transformer` (layers one after the other) or `scanned` (the same, layers in a `lax.scan`).

    Updates are large beside what rounding does to the state. `parted`: the batch comes in micro-batches. `checkpointed`:
    scanned layers are computed again in the backward pass.
    """
    rng = np.random.default_rng(1)
    if name == "mlp":
        batch: Any = tuple(_normal(rng, 64, WIDTH) for _ in range(2))
        state: Any = [{"w": _normal(rng, WIDTH, WIDTH) / 4, "b": _normal(rng, WIDTH) / 10} for _ in range(layers)]
        return Program(step_of(_mlp(named), microbatches, clip=clip, rate=rate), state, batch)
    batch = tuple(rng.integers(0, VOCABULARY, (32, TOKENS)).astype(np.int32) for _ in range(2))
    state = _transformer_state(rng, layers)
    if name == "scanned":
        state["layers"] = jax.tree.map(lambda *leaves: np.stack(leaves), *state["layers"])
    if parted:
        batch = in_parts(batch, microbatches)
    loss = _transformer(named, scanned=name == "scanned", block=jax.checkpoint(_block) if checkpointed else _block)
    return Program(step_of(loss, microbatches, clip=clip, rate=rate, parted=parted), state, batch)


def in_parts(batch: Any, microbatches: int) -> Any:
    return jax.tree.map(lambda leaf: leaf.reshape(microbatches, -1, *leaf.shape[1:]), batch)


def step_of(
    loss: Loss, microbatches: int, *, clip: float | None = None, rate: float, parted: bool = False
) -> Callable[..., Any]:
    """Plain gradient descent, clipped by the global norm."""

    def step(state: Any, batch: Any) -> Any:
        parts = batch if parted else in_parts(batch, microbatches)

        def trip(carry: Any, part: Any) -> Any:
            value, gradient = jax.value_and_grad(loss)(state, part)
            return (jax.tree.map(jnp.add, carry[0], gradient), carry[1] + value), None

        (total, value), _ = jax.lax.scan(trip, (jax.tree.map(jnp.zeros_like, state), jnp.float32(0)), parts)
        total = jax.tree.map(lambda leaf: leaf / microbatches, total)
        if clip is not None:
            norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(total)))
            total = jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, clip / norm), total)
        return jax.tree.map(lambda old, leaf: old - rate * leaf, state, total), value / microbatches

    return step


def _mlp(named: bool) -> Loss:
    def loss(state: Any, part: Any) -> jax.Array:
        x, target = part
        for number, layer in enumerate(state):
            with _scope(f"layer{number}", named):
                x = jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.mean((x - target) ** 2)

    return loss


def _transformer(named: bool, *, scanned: bool, block: Callable[[Any, jax.Array], jax.Array]) -> Loss:
    """Pre-norm, causal; the embedding is tied to the head."""

    def loss(state: Any, part: Any) -> jax.Array:
        tokens, targets = part
        x = state["embedding"][tokens] + state["position"]
        if scanned:
            x, _ = jax.lax.scan(lambda x, layer: (block(layer, x), None), x, state["layers"])
        else:
            for number, layer in enumerate(state["layers"]):
                with _scope(f"layer{number}", named):
                    x = block(layer, x)
        logits = _normed(x, state["scale"]) @ state["embedding"].T
        chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)

    return loss


def _block(layer: Any, x: jax.Array) -> jax.Array:
    batch, tokens, width = x.shape
    query, key, value = (
        part.reshape(batch, tokens, HEADS, -1) for part in jnp.split(_normed(x, layer["g1"]) @ layer["qkv"], 3, -1)
    )
    scores = jnp.einsum("bthd,bshd->bhts", query, key) / np.sqrt(width // HEADS).astype(np.float32)
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores, -1), value).reshape(batch, tokens, width)
    x = x + mixed @ layer["o"]
    return x + jax.nn.gelu(_normed(x, layer["g2"]) @ layer["up"]) @ layer["down"]


def _normed(x: jax.Array, scale: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def _transformer_state(rng: np.random.Generator, layers: int) -> dict[str, Any]:
    def layer() -> dict[str, Any]:
        made = {name: _normal(rng, *shape) / 4 for name, shape in _SHAPES.items()}
        return made | {name: np.ones(WIDTH, np.float32) for name in ("g1", "g2")}

    return {
        "embedding": _normal(rng, VOCABULARY, WIDTH) / 4,
        "position": _normal(rng, TOKENS, WIDTH) / 10,
        "layers": [layer() for _ in range(layers)],
        "scale": np.ones(WIDTH, np.float32),
    }


_SHAPES = {"qkv": (WIDTH, 3 * WIDTH), "o": (WIDTH, WIDTH), "up": (WIDTH, 32), "down": (32, WIDTH)}


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def _scope(name: str, named: bool) -> Any:
    return jax.named_scope(name if named else "layer")
