"""Ways in which training programs read sharded parameters in a loop over micro-batches, as public trainers write them.

Each builder makes a `Form` for the given devices: a step, and the shapes of its arguments with their shardings. Values
are small integers if parameters and examples are; the loss is half a sum of squares.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

LAYERS, WIDTH, HIDDEN, VOCABULARY = 3, 32, 64, 64
MICRO_BATCHES, EXAMPLES, TOKENS = 4, 16, 8

Tree = Any
Layer = Callable[[jax.Array, Tree], tuple[jax.Array, None]]
Loss = Callable[[Tree, jax.Array], jax.Array]
P = PartitionSpec
_ROWS, _WHOLE = P(None, "data"), P()


class Form(NamedTuple):
    """A step of parameters and micro-batches; gradients are sharded as parameters are."""

    step: Callable[[Tree, jax.Array], Tree]
    args: tuple[Tree, jax.ShapeDtypeStruct]
    mesh: Mesh


def mesh_of(devices: Sequence[Any], kind: AxisType = AxisType.Auto, axes: dict[str, int] | None = None) -> Mesh:
    axes = axes or {"data": 8}
    return Mesh(np.asarray(devices).reshape(tuple(axes.values())), tuple(axes), axis_types=(kind,) * len(axes))


def accumulated(loss: Loss) -> Callable[[Tree, jax.Array], Tree]:
    """Gradients of bf16 that are small integers, and their sums in f32, are exact."""

    def step(parameters: Tree, batches: jax.Array) -> Tree:
        def body(total: Tree, x: jax.Array) -> tuple[Tree, None]:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(parameters, x)), None

        total, _ = lax.scan(body, jax.tree.map(jnp.zeros_like, parameters), batches)
        return jax.tree.map(jnp.subtract, parameters, total)

    return step


def carried(loss: Loss) -> Callable[[Tree, jax.Array], Tree]:
    """The whole state is carried, parameters unchanged: as NNX merges and splits it."""

    def step(parameters: Tree, batches: jax.Array) -> Tree:
        def body(state: tuple[Tree, Tree], x: jax.Array) -> tuple[tuple[Tree, Tree], None]:
            current, total = state
            return (current, jax.tree.map(jnp.add, total, jax.grad(loss)(current, x))), None

        (kept, total), _ = lax.scan(body, (parameters, jax.tree.map(jnp.zeros_like, parameters)), batches)
        return jax.tree.map(jnp.subtract, kept, total)

    return step


def half_squares(x: jax.Array) -> jax.Array:
    return (x**2).sum() / 2


def feed_forward(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
    return (x + (x @ w["up"]) % 3 @ w["down"]) % 3, None


def named(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
    return (x + checkpoint_name((x @ w["up"]) % 3, "hidden") @ w["down"]) % 3, None


def heads(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
    """The hidden features are those of 8 heads: weights are reshaped at use."""
    hidden = jnp.einsum("...e,ehd->...hd", x, w["up"].reshape(WIDTH, 8, -1)) % 3
    return (x + jnp.einsum("...hd,hde->...e", hidden, w["down"].reshape(8, -1, WIDTH))) % 3, None


@jax.custom_vjp
def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


def _product_back(saved: tuple[jax.Array, jax.Array], g: jax.Array) -> tuple[jax.Array, jax.Array]:
    return g @ saved[1].T, jnp.einsum("btd,bte->de", saved[0], g)


product.defvjp(lambda x, w: (x @ w, (x, w)), _product_back)


def by_own_rule(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
    return (x + product(product(x, w["up"]) % 3, w["down"])) % 3, None


def transposed(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
    """Weights are stored as out x in; without rematerialization their transposes are residuals."""
    return (x + (x @ w["down"].T) % 3 @ w["up"].T) % 3, None


def language_model(
    devices: Sequence[Any],
    *,
    layer: Layer = feed_forward,
    remat: Callable[[Layer], Layer] = jax.checkpoint,
    constrained: bool = True,
    unrolled: bool = False,
    tied: bool = False,
    chunks: int = 1,
    layers: PartitionSpec = _ROWS,
    table: PartitionSpec = _WHOLE,
    batch: Any = "data",
    axes: dict[str, int] | None = None,
    accumulate: Callable[[Loss], Callable[[Tree, jax.Array], Tree]] = accumulated,
) -> Form:
    """A table that is looked up, layers, and a head; activations are `constrained` to the shards of examples."""
    mesh = mesh_of(devices, axes=axes)
    one = remat(layer)

    def split(x: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(x, NamedSharding(mesh, P(batch))) if constrained else x

    def block(x: jax.Array, w: Tree) -> tuple[jax.Array, None]:
        return split(one(x, w)[0]), None

    def loss(parameters: Tree, tokens: jax.Array) -> jax.Array:
        x, weights = split(parameters["table"][tokens]), {name: parameters[name] for name in ("up", "down")}
        if unrolled:
            for i in range(LAYERS):
                x, _ = block(x, jax.tree.map(lambda w, i=i: w[i], weights))
        else:
            x, _ = lax.scan(block, x, weights)
        head = parameters["table"].T if tied else parameters["head"]
        if chunks == 1:
            return half_squares((x @ head) % 3)
        parts = x.reshape(EXAMPLES, chunks, -1, WIDTH).swapaxes(0, 1)
        add = jax.checkpoint(lambda total, part: (total + half_squares((part @ head) % 3), None))
        return lax.scan(add, jnp.zeros((), x.dtype), parts)[0]

    shapes = {"up": (LAYERS, WIDTH, HIDDEN), "down": (LAYERS, HIDDEN, WIDTH), "table": (VOCABULARY, WIDTH)}
    specs = {"up": layers, "down": layers, "table": table}
    if not tied:
        shapes["head"], specs["head"] = (WIDTH, VOCABULARY), P(batch)
    return _form(mesh, accumulate(loss), shapes, specs, (TOKENS,), jnp.int32, batch)


def _form(
    mesh: Mesh, step: Callable[[Tree, jax.Array], Tree], shapes: Tree, specs: Tree, of_example: tuple[int, ...],
    dtype: Any, batch: Any = "data",
) -> Form:  # fmt: skip
    def of(shape: tuple[int, ...], spec: PartitionSpec, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    parameters = {name: of(shape, specs[name]) for name, shape in shapes.items()}
    return Form(step, (parameters, of((MICRO_BATCHES, EXAMPLES, *of_example), P(None, batch), dtype)), mesh)


_SQUARE = ({"w": (LAYERS, WIDTH, WIDTH)}, {"w": P(None, "data")}, (WIDTH,), jnp.float32)


def prefetched(devices: Sequence[Any], *, rows: bool) -> Form:
    """Each layer gathers the weights of the next: a row of all that are rolled, or one that it takes by its number."""
    mesh = mesh_of(devices)
    whole, examples = (NamedSharding(mesh, spec) for spec in (P(), P("data")))

    def gathered(w: jax.Array) -> jax.Array:
        return lax.with_sharding_constraint(w, whole)

    def loss(parameters: Tree, x: jax.Array) -> jax.Array:
        w = parameters["w"]

        def layer(carry: tuple[jax.Array, jax.Array], following: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            x, now = carry
            after = w[jnp.minimum(following + 1, LAYERS - 1)] if rows else following
            return (lax.with_sharding_constraint((x + x @ now) % 3, examples), gathered(after)), None

        over = jnp.arange(LAYERS) if rows else jnp.roll(w, -1, 0)
        return half_squares(lax.scan(layer, (x, gathered(w[0])), over)[0][0])

    return _form(mesh, accumulated(loss), *_SQUARE)


def explicit(devices: Sequence[Any], *, remat: Callable[[Layer], Layer], unrolled: bool = False) -> Form:
    """A mesh with explicit axes: weights are resharded where they are used."""
    mesh = mesh_of(devices, AxisType.Explicit)
    whole = NamedSharding(mesh, P(None, None))
    layer = remat(lambda x, w: ((x + x @ jax.sharding.reshard(w, whole)) % 3, None))

    def loss(parameters: Tree, x: jax.Array) -> jax.Array:
        if not unrolled:
            return half_squares(lax.scan(layer, x, parameters["w"])[0])
        for i in range(LAYERS):
            x, _ = layer(x, parameters["w"][i])
        return half_squares(x)

    return _form(mesh, accumulated(loss), *_SQUARE)


def _as_it_is(layer: Layer) -> Layer:
    return layer


_NAMES = partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names("hidden"))
_DOTS = partial(jax.checkpoint, policy=jax.checkpoint_policies.checkpoint_dots)
_BOTH = ("replica", "data")

# XLA gathers their parameters in the loop, or moves activations.
FORMS: dict[str, Callable[[Sequence[Any]], Form]] = {
    "unconstrained": partial(language_model, constrained=False),
    "unconstrained_saved": partial(language_model, constrained=False, remat=_as_it_is),
    "unconstrained_unrolled": partial(language_model, constrained=False, unrolled=True),
    "unconstrained_rows_of_table": partial(language_model, constrained=False, table=P("data")),
    "unconstrained_columns_of_table": partial(language_model, constrained=False, table=P(None, "data")),
    "rows_of_table": partial(language_model, table=P("data")),
    "tied": partial(language_model, table=P("data"), tied=True),
    "chunked_head": partial(language_model, chunks=2),
    "outputs": partial(language_model, layers=P(None, None, "data")),
    "saved_by_name": partial(language_model, layer=named, remat=_NAMES),
    "saved_products": partial(language_model, remat=_DOTS),
    "unrolled": partial(language_model, unrolled=True),
    "heads": partial(language_model, layer=heads),
    "own_gradient": partial(language_model, layer=by_own_rule),
    "transposed": partial(language_model, layer=transposed, remat=_as_it_is),
    "state_in_the_carry": partial(language_model, accumulate=carried),
    "two_axes": partial(language_model, layers=P(None, _BOTH), batch=_BOTH, axes={"replica": 2, "data": 4}),
    "prefetched": partial(prefetched, rows=False),
    "prefetched_rows": partial(prefetched, rows=True),
    "explicit": partial(explicit, remat=_as_it_is),
    "explicit_computed_again": partial(explicit, remat=jax.checkpoint),
    "explicit_unrolled": partial(explicit, remat=_as_it_is, unrolled=True),
}
