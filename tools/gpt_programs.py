"""GPT models of Alpa's benchmark as ordinary training steps: no mesh, no shardings, shapes in place of arrays.

Layers are scanned and computed again in the backward pass; gradients are accumulated in a loop over micro-batches;
parameters, their sums and AdamW's state are float32. Sizes, batch and vocabulary are those of the table that
tools/alpa_plans.py quotes.
"""

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Tree = Any
BATCH, LENGTH, VOCABULARY = 1024, 1024, 51200
_OPTIMIZER = optax.adamw(1e-4)


class Gpt(NamedTuple):
    """Sizes of a decoder; its MLP is four times as wide."""

    name: str
    width: int
    layers: int
    heads: int
    vocabulary: int = VOCABULARY
    length: int = LENGTH  # tokens per sequence
    batch: int = BATCH  # sequences per step

    def narrowed(self, by: int, batch: int) -> "Gpt":
        """The same with as many layers, of a width, a length and a vocabulary that are so many times smaller."""
        width = self.width // by // 8 * 8  # which eight devices and eight heads divide
        return Gpt(self.name, width, self.layers, 8, self.vocabulary // by // 8 * 8, self.length // by, batch)

    @property
    def shapes(self) -> Tree:
        """Shapes of all parameters; those of layers are stacked."""
        width = self.width
        square = {"kernel": (width, width), "bias": (width,)}
        layer = {
            "attention_norm": {"scale": (width,), "bias": (width,)},
            "query": square,
            "key": square,
            "value": square,
            "out": square,
            "mlp_norm": {"scale": (width,), "bias": (width,)},
            "up": {"kernel": (width, 4 * width), "bias": (4 * width,)},
            "down": {"kernel": (4 * width, width), "bias": (width,)},
        }
        return {
            "embedding": (self.vocabulary, width),
            "positions": (self.length, width),
            "layers": jax.tree.map(lambda shape: (self.layers, *shape), layer, is_leaf=_is_shape),
            "norm": {"scale": (width,), "bias": (width,)},
            "head": (width, self.vocabulary),
        }

    @property
    def parameters(self) -> int:
        """How many there are."""
        return sum(prod(shape) for shape in jax.tree.leaves(self.shapes, is_leaf=_is_shape))


def step_of(model: Gpt, micro_batches: int, dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The step in so many micro-batches, computed in `dtype`, and the shapes of its arguments: state (parameters,
    optimizer's) and tokens. The state is donated."""
    parameters = jax.tree.map(partial(jax.ShapeDtypeStruct, dtype=jnp.float32), model.shapes, is_leaf=_is_shape)
    state = parameters, jax.eval_shape(_OPTIMIZER.init, parameters)
    tokens = jax.ShapeDtypeStruct((micro_batches, model.batch // micro_batches, model.length + 1), jnp.int32)
    return jax.jit(function_of(model, micro_batches, dtype), donate_argnums=0), (state, tokens)


def function_of(model: Gpt, micro_batches: int, dtype: Any) -> Callable[..., Any]:
    """The step itself, to be jitted."""
    loss = partial(_loss, model, dtype)

    def step(state: tuple[Tree, Tree], tokens: jax.Array) -> tuple[tuple[Tree, Tree], jax.Array]:
        parameters, optimizer = state

        def add(total: Tree, micro_batch: jax.Array) -> tuple[Tree, jax.Array]:
            value, gradients = jax.value_and_grad(loss)(parameters, micro_batch)
            return jax.tree.map(jnp.add, total, gradients), value

        sums, values = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, parameters), tokens)
        mean = jax.tree.map(lambda each: each / micro_batches, sums)
        updates, optimizer = _OPTIMIZER.update(mean, optimizer, parameters)
        return (optax.apply_updates(parameters, updates), optimizer), jnp.mean(values)

    return step


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, tuple)


def _loss(model: Gpt, dtype: Any, parameters: Tree, tokens: jax.Array) -> jax.Array:
    cast = partial(jax.tree.map, lambda leaf: leaf.astype(dtype))
    x = cast(parameters["embedding"])[tokens[:, :-1]] + cast(parameters["positions"])

    @jax.checkpoint
    def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
        w = cast(w)
        x = x + _attention(model, _normed(x, w["attention_norm"]), w)
        return x + _dense(jax.nn.gelu(_dense(_normed(x, w["mlp_norm"]), w["up"])), w["down"]), None

    x, _ = jax.lax.scan(layer, x, parameters["layers"])
    logits = (_normed(x, cast(parameters["norm"])) @ cast(parameters["head"])).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def _dense(x: jax.Array, w: Tree) -> jax.Array:
    return x @ w["kernel"] + w["bias"]


def _attention(model: Gpt, x: jax.Array, w: Tree) -> jax.Array:
    """Causal; what each head attends to is written out, as in 2022."""
    heads = (*x.shape[:2], model.heads, model.width // model.heads)
    query, key, value = (_dense(x, w[name]).reshape(heads) for name in ("query", "key", "value"))
    made = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return _dense(made.reshape(x.shape), w["out"])


def _normed(x: jax.Array, w: Tree) -> jax.Array:
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, -1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)
    return scaled.astype(x.dtype) * w["scale"] + w["bias"]
