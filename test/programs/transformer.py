"""A decoder-only transformer in plain jax.numpy, and its data-parallel training step with gradient accumulation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from programs.draws import normal, stacked
from programs.program import Devices, Program, Tree, mesh_of, tree_bytes

# How a block is split over the axis `model`: attention by heads, the MLP by columns and then by rows.
SPLIT_BLOCK = {
    "qkv": PartitionSpec(None, None, "model"),
    "out": PartitionSpec("model"),
    "up": PartitionSpec(None, "model"),
    "down": PartitionSpec("model"),
}


@dataclass(frozen=True)
class Config:
    """Sizes and variants of the model."""

    vocabulary: int = 64
    width: int = 32
    heads: int = 2
    layers: int = 2
    sequence: int = 16  # tokens per example
    is_tied: bool = True  # the head is the transposed embedding
    is_scanned: bool = False  # one `lax.scan` over stacked layers instead of a Python loop
    compute_dtype: Any = jnp.float32  # parameters and gradient sums are f32


def init(config: Config) -> Tree:
    """The parameters: a tree of f32 arrays; `layers` is a list, or stacked arrays where layers are scanned."""
    seeds, width = count(), config.width

    def matrix(rows: int, columns: int) -> Any:
        return normal(next(seeds), (rows, columns)) / np.float32(np.sqrt(rows))

    def layer() -> Tree:
        return {
            "attention_norm": np.ones(width, np.float32),
            "qkv": matrix(width, 3 * width).reshape(width, 3, width),
            "out": matrix(width, width),
            "mlp_norm": np.ones(width, np.float32),
            "up": matrix(width, 4 * width),
            "down": matrix(4 * width, width),
        }

    layers = [layer() for _ in range(config.layers)]
    parameters = {
        "embedding": normal(next(seeds), (config.vocabulary, width)) * np.float32(0.02),
        "layers": jax.tree.map(lambda *leaves: stacked(leaves), *layers) if config.is_scanned else layers,
        "norm": np.ones(width, np.float32),
    }
    if not config.is_tied:
        parameters["head"] = matrix(width, config.vocabulary)
    return jax.tree.map(jnp.array, parameters)


def loss(
    config: Config, parameters: Tree, tokens: jax.Array, reduce: Callable[[jax.Array], jax.Array] = lambda x: x
) -> jax.Array:
    """Mean cross-entropy of predicting each next token; `tokens` is (examples, sequence + 1) integers.

    `reduce` adds up what the devices that share a block (SPLIT_BLOCK) computed of its attention and of its MLP.
    """
    parameters = jax.tree.map(lambda leaf: leaf.astype(config.compute_dtype), parameters)
    x = parameters["embedding"][tokens[:, :-1]]
    if config.is_scanned:
        x, _ = lax.scan(lambda x, layer: (_block(config, layer, x, reduce), None), x, parameters["layers"])
    else:
        for layer in parameters["layers"]:
            x = _block(config, layer, x, reduce)
    head = parameters["embedding"].T if config.is_tied else parameters["head"]
    logits = (rms_norm(x, parameters["norm"]) @ head).astype(jnp.float32)
    targets = jax.nn.one_hot(tokens[:, 1:], config.vocabulary)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * targets, axis=-1))


def _block(config: Config, layer: Tree, x: jax.Array, reduce: Callable[[jax.Array], jax.Array]) -> jax.Array:
    x = x + reduce(attention(config, layer, rms_norm(x, layer["attention_norm"])))
    return x + reduce(jax.nn.gelu(rms_norm(x, layer["mlp_norm"]) @ layer["up"]) @ layer["down"])


def rms_norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attention(config: Config, layer: Tree, x: jax.Array) -> jax.Array:
    """The part of the attention that the heads of `layer` make: all of them, or those of this device."""
    examples, length, width = x.shape
    qkv = jnp.einsum("bld,dcf->blcf", x, layer["qkv"])
    heads = qkv.reshape(examples, length, 3, -1, width // config.heads)
    q, k, v = rotated(heads[:, :, 0]), rotated(heads[:, :, 1]), heads[:, :, 2]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1]).astype(x.dtype)
    visible = jnp.tril(jnp.ones((length, length), bool))
    weights = jax.nn.softmax(jnp.where(visible, scores.astype(jnp.float32), -1e30)).astype(x.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(examples, length, -1) @ layer["out"]


def rotated(x: jax.Array) -> jax.Array:
    """Rotary position embedding of (examples, length, heads, features)."""
    length, half = x.shape[1], x.shape[-1] // 2
    frequencies = 10000.0 ** (-jnp.arange(half) / half)
    angles = (jnp.arange(length)[:, None] * frequencies)[:, None, :]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


@dataclass(frozen=True)
class Optimizer:
    """Applied once per step, to the mean gradient."""

    init: Callable[[Tree], Tree]
    update: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]  # (parameters, state, gradients) -> (parameters, state)


def sgd(rate: float = 0.1) -> Optimizer:
    def update(parameters: Tree, state: Tree, gradients: Tree) -> tuple[Tree, Tree]:
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients), state

    return Optimizer(lambda parameters: (), update)


def adam(rate: float = 1e-3, decay: tuple[float, float] = (0.9, 0.99), epsilon: float = 1e-4) -> Optimizer:
    """With a smaller `epsilon`, the update of a gradient near 0 is that of its rounding, which processors do otherwise."""

    def update(parameters: Tree, state: Tree, gradients: Tree) -> tuple[Tree, Tree]:
        step = state["step"] + 1
        mean = jax.tree.map(lambda m, g: decay[0] * m + (1 - decay[0]) * g, state["mean"], gradients)
        square = jax.tree.map(lambda s, g: decay[1] * s + (1 - decay[1]) * g * g, state["square"], gradients)

        def moved(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
            return p - rate * (m / (1 - decay[0] ** step)) / (jnp.sqrt(s / (1 - decay[1] ** step)) + epsilon)

        return jax.tree.map(moved, parameters, mean, square), {"step": step, "mean": mean, "square": square}

    def zeros(parameters: Tree) -> Tree:
        return jax.tree.map(jnp.zeros_like, parameters)

    return Optimizer(lambda p: {"step": jnp.zeros((), jnp.int32), "mean": zeros(p), "square": zeros(p)}, update)


def training_step(config: Config, mesh: Mesh, optimizer: Optimizer, *, check_vma: bool) -> Callable[..., Any]:
    """`step(state, tokens) -> (state, losses)`, to be jitted with `donate_argnums=0`.

    `state` is (parameters, optimizer state), replicated; `tokens` is (micro-batches, examples, sequence + 1), its
    examples sharded over the mesh axis `data`; `losses` has the mean loss of each micro-batch.

    With `check_vma=False` the step takes the mean of the gradient tree itself, in every micro-batch. With
    `check_vma=True` it differentiates the mean loss, and jax puts a psum where the backward pass meets a parameter.
    """

    def local(parameters: Tree, tokens: jax.Array) -> tuple[jax.Array, Tree]:
        value, gradients = jax.value_and_grad(lambda p: loss(config, p, tokens))(parameters)
        return lax.pmean(value, "data"), lax.pmean(gradients, "data")

    def checked(parameters: Tree, tokens: jax.Array) -> tuple[jax.Array, Tree]:
        return jax.value_and_grad(lambda p: lax.pmean(loss(config, p, tokens), "data"))(parameters)

    def step(state: Tree, tokens: jax.Array) -> tuple[Tree, jax.Array]:
        parameters, optimizer_state = state

        def body(total: Tree, micro_batch: jax.Array) -> tuple[Tree, jax.Array]:
            value, gradients = (checked if check_vma else local)(parameters, micro_batch)
            return jax.tree.map(jnp.add, total, gradients), value

        total, losses = lax.scan(body, jax.tree.map(jnp.zeros_like, parameters), tokens)
        gradients = jax.tree.map(lambda g: g / tokens.shape[0], total)
        return optimizer.update(parameters, optimizer_state, gradients), losses

    specs = (PartitionSpec(), PartitionSpec(None, "data"))
    return jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=check_vma)


def batch(config: Config, micro_batches: int, examples: int, step: int = 0) -> jax.Array:
    """Tokens to learn from, the same in every process: sequences that count up in strides of 1 to 4."""
    shape = (2, micro_batches, examples, 1)
    start, stride = np.random.default_rng((7, step)).integers(config.vocabulary, size=shape, dtype=np.int32)
    counted = np.arange(config.sequence + 1, dtype=np.int32)
    return jnp.array((start + (1 + stride % 4) * counted) % config.vocabulary)


def program(
    config: Config = Config(),
    *,
    check_vma: bool = False,
    optimizer: Optimizer | None = None,
    micro_batches: int = 4,
    examples: int = 16,
    devices: Devices = None,
) -> Program:
    """The training step with parameters and tokens for it; `examples` are those of a micro-batch, on all devices."""
    optimizer = optimizer or sgd()
    mesh = mesh_of(devices, data=-1)
    parameters = init(config)

    def definition(state: Tree, tokens: jax.Array) -> tuple[Tree, jax.Array]:
        """All micro-batches at once: the mean over tokens is the mean over micro-batches of the same size."""
        value = jax.jit(partial(loss, config))
        gradients = jax.jit(jax.grad(partial(loss, config)))(state[0], tokens.reshape(-1, tokens.shape[-1]))
        parameters, moments = state
        return optimizer.update(parameters, moments, gradients), jnp.stack([value(state[0], part) for part in tokens])

    return Program(
        step=training_step(config, mesh, optimizer, check_vma=check_vma),
        args=((parameters, optimizer.init(parameters)), batch(config, micro_batches, examples)),
        mesh=mesh,
        expected="one reduction of every gradient, and of the stacked losses, after the loop",
        gradient_bytes=tree_bytes(parameters),
        is_deferrable=True,
        tolerance=2e-2 if config.compute_dtype == jnp.bfloat16 else 1e-4,
        ideal_bytes=tree_bytes(parameters),
        sync_groups=frozenset({mesh.size}),
        reference=definition,
    )
