"""Gradient accumulation in the ways that users write it, around a small multi-layer perceptron.

All use `jax.shard_map` over the axis `data`: parameters are replicated, batches are (micro-batches, examples,
width). With `check_vma=False` the user sums the gradients. With `check_vma=True` jax does: it knows that the parameters
are replicated, and puts a psum where the backward pass meets each use of one; another psum would count them twice.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec
from programs.program import Program, data_mesh, tree_bytes

WIDTH = 16
LAYERS = 3
MICRO_BATCHES = 4
EXAMPLES = 16  # of a micro-batch, over all devices
VOCABULARY = 32
RATE = 2.0**-8  # a power of two: exact on integers
TOLERANCE = 1e-5

Tree = Any
Accumulate = Callable[..., tuple[Tree, Tree]]  # (parameters, xs, ys) -> (gradient sums, what else is returned)


def _values(key: jax.Array, shape: tuple[int, ...], integers: bool) -> jax.Array:
    """Normal deviates, or integers so small that f32 holds every sum of their products."""
    if integers:
        return jax.random.randint(key, shape, -1, 2).astype(jnp.float32)
    return jax.random.normal(key, shape) / jnp.sqrt(shape[-1])


def _activation(integers: bool) -> Callable[[jax.Array], jax.Array]:
    return (lambda x: x) if integers else jnp.tanh


def _loss(integers: bool) -> Callable[..., jax.Array]:
    """Half the squared error, summed over examples; the layers are a list of matrices or one stacked array."""
    activation = _activation(integers)

    def loss(layers: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
        if isinstance(layers, list):
            for layer in layers:
                x = activation(x @ layer)
        else:
            x, _ = lax.scan(lambda x, layer: (activation(x @ layer), None), x, layers)
        return 0.5 * jnp.sum((x - y) ** 2)

    return loss


def _psum(tree: Tree) -> Tree:
    return lax.psum(tree, "data")


def _norm(tree: Tree) -> jax.Array:
    return jnp.sqrt(sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree)))


def _add(left: Tree, right: Tree) -> Tree:
    return jax.tree.map(jnp.add, left, right)


def _scale(tree: Tree, factor: Any) -> Tree:
    return jax.tree.map(lambda leaf: leaf * factor, tree)


def _scan(each: Callable[..., tuple[Tree, Tree]], parameters: Tree, *batches: jax.Array) -> tuple[Tree, Tree]:
    """Sums the first result of `each(*micro_batch)` over the micro-batches; stacks the second one."""

    def body(total: Tree, micro_batch: tuple[jax.Array, ...]) -> tuple[Tree, Tree]:
        gradients, extra = each(*micro_batch)
        return _add(total, gradients), extra

    return lax.scan(body, jax.tree.map(jnp.zeros_like, parameters), batches)


def _program(
    accumulate: Accumulate,
    parameters: Tree,
    batches: tuple[jax.Array, ...],
    expected: str,
    *,
    replicated: int = 0,
    check_vma: bool = False,
    is_deferrable: bool = True,
    tolerance: float = TOLERANCE,
) -> Program:
    """The step `parameters - RATE * gradient sums`; the last `replicated` batches are the same on all devices."""
    mesh = data_mesh()

    def step(parameters: Tree, *batches: jax.Array) -> tuple[Tree, Tree]:
        gradients, extra = accumulate(parameters, *batches)
        return jax.tree.map(lambda p, g: p - RATE * g, parameters, gradients), extra

    sharded = PartitionSpec(None, "data")
    specs = [PartitionSpec(), *[sharded] * (len(batches) - replicated), *[PartitionSpec()] * replicated]
    mapped = jax.shard_map(step, mesh=mesh, in_specs=tuple(specs), out_specs=PartitionSpec(), check_vma=check_vma)
    arguments = (parameters, *batches)
    return Program(mapped, arguments, mesh, expected, tree_bytes(parameters), is_deferrable, tolerance)


def _data(integers: bool, *, stacked: bool = False, layers: int = LAYERS) -> tuple[Tree, tuple[jax.Array, jax.Array]]:
    key = jax.random.key(0)
    weights = _values(key, (layers, WIDTH, WIDTH), integers)
    x = _values(jax.random.fold_in(key, 1), (MICRO_BATCHES, EXAMPLES, WIDTH), integers)
    y = _values(jax.random.fold_in(key, 2), (MICRO_BATCHES, EXAMPLES, WIDTH), integers)
    return (weights if stacked else list(weights)), (x, y)


def p0(integers: bool = False) -> Program:
    """`acc += psum(g)` in `lax.scan`, layers unrolled."""
    parameters, batches = _data(integers)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
            loss, gradients = jax.value_and_grad(_loss(integers))(parameters, x, y)
            return _psum(gradients), _psum(loss)

        return _scan(each, parameters, x, y)

    expected = "one reduction of every gradient, and of the stacked losses, after the loop"
    return _program(accumulate, parameters, batches, expected, tolerance=_tolerance(integers))


def p1(integers: bool = False) -> Program:
    """The same with `lax.scan` over the layers: jax puts the psum of a layer into the inner, backward loop."""
    parameters, batches = _data(integers, stacked=True)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
            loss, gradients = jax.value_and_grad(_loss(integers))(parameters, x, y)
            return gradients, _psum(loss)

        return _scan(each, parameters, x, y)

    expected = "one reduction of the stacked gradients after both loops"
    return _program(accumulate, parameters, batches, expected, check_vma=True, tolerance=_tolerance(integers))


def p2(integers: bool = False) -> Program:
    """`acc += pmean(g) / M`: the mean is taken inside the loop."""
    parameters, batches = _data(integers)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
            gradients = jax.grad(_loss(integers))(parameters, x, y)
            return _scale(lax.pmean(gradients, "data"), 1 / MICRO_BATCHES), None

        return _scan(each, parameters, x, y)

    expected = "one reduction of every gradient after the loop, scaled before or after it"
    return _program(accumulate, parameters, batches, expected, tolerance=_tolerance(integers))


def p4(integers: bool = False) -> Program:
    """Gradients are computed and summed in bf16, accumulated in f32."""
    parameters, batches = _data(integers)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
            half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), (parameters, x, y))
            gradients = _psum(jax.grad(_loss(integers))(*half))
            return jax.tree.map(lambda leaf: leaf.astype(jnp.float32), gradients), None

        return _scan(each, parameters, x, y)

    expected = "one reduction after the loop in f32, the accumulator's type: never narrower than bf16 per micro-batch"
    return _program(accumulate, parameters, batches, expected, tolerance=2.0**-6)  # bf16 sums round at 2^-8


def p5(integers: bool = False) -> Program:
    """A tied weight, `w` and `w.T`: jax puts one psum per use into the loop."""
    (tied, *_), batches = _data(integers)
    activation = _activation(integers)

    def loss(tied: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum((activation(x @ tied) @ tied.T - y) ** 2)

    def accumulate(tied: jax.Array, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        return _scan(lambda x, y: (jax.grad(loss)(tied, x, y), None), tied, x, y)

    expected = "one reduction of the tied weight after the loop, not one per use"
    return _program(accumulate, tied, batches, expected, check_vma=True, tolerance=_tolerance(integers))


def p8(integers: bool = False) -> Program:
    """Micro-batches unrolled in Python: M reductions per parameter."""
    parameters, batches = _data(integers)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        total = jax.tree.map(jnp.zeros_like, parameters)
        for i in range(MICRO_BATCHES):
            total = _add(total, _psum(jax.grad(_loss(integers))(parameters, x[i], y[i])))
        return total, None

    expected = "one reduction of every gradient instead of one per micro-batch"
    return _program(accumulate, parameters, batches, expected, tolerance=_tolerance(integers))


def p9(integers: bool = False) -> Program:
    """An embedding table: its gradient is a scatter."""
    (layer, *_), (_, y) = _data(integers)
    key = jax.random.key(3)
    parameters = {"table": _values(key, (VOCABULARY, WIDTH), integers), "layers": [layer]}
    tokens = jax.random.randint(key, (MICRO_BATCHES, EXAMPLES), 0, VOCABULARY)

    def loss(parameters: Tree, tokens: jax.Array, y: jax.Array) -> jax.Array:
        return _loss(integers)(parameters["layers"], parameters["table"][tokens], y)

    def accumulate(parameters: Tree, tokens: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        return _scan(lambda t, y: (_psum(jax.grad(loss)(parameters, t, y)), None), parameters, tokens, y)

    expected = "one reduction of the table's and the layer's gradients after the loop"
    return _program(accumulate, parameters, (tokens, y), expected, tolerance=_tolerance(integers))


def p10(integers: bool = False) -> Program:
    """`acc += weight_i * psum(g)`: the weight of a micro-batch is an argument, the same on all devices."""
    parameters, batches = _data(integers)
    weights = jnp.arange(1.0, MICRO_BATCHES + 1)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array, weights: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array, weight: jax.Array) -> tuple[Tree, Tree]:
            return _scale(_psum(jax.grad(_loss(integers))(parameters, x, y)), weight), None

        return _scan(each, parameters, x, y, weights)

    expected = "one reduction of the weighted gradients after the loop"
    return _program(accumulate, parameters, (*batches, weights), expected, replicated=1, tolerance=_tolerance(integers))


def p12(integers: bool = False) -> Program:
    """Each micro-batch also returns the norm of its summed gradient."""
    parameters, batches = _data(integers)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
            gradients = _psum(jax.grad(_loss(integers))(parameters, x, y))
            return gradients, _norm(gradients)

        return _scan(each, parameters, x, y)

    expected = "refused: the summed gradient of a micro-batch is read in the loop"
    return _program(accumulate, parameters, batches, expected, is_deferrable=False, tolerance=0.0)


def p13(integers: bool = False) -> Program:
    """Gradients are clipped per micro-batch by their global norm."""
    parameters, batches = _data(integers)

    def accumulate(parameters: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
        def each(x: jax.Array, y: jax.Array) -> tuple[Tree, Tree]:
            gradients = _psum(jax.grad(_loss(integers))(parameters, x, y))
            return _scale(gradients, jnp.minimum(1.0, 1.0 / _norm(gradients))), None

        return _scan(each, parameters, x, y)

    expected = "refused: the factor depends on the summed gradient of the micro-batch"
    return _program(accumulate, parameters, batches, expected, is_deferrable=False, tolerance=0.0)


def _tolerance(integers: bool) -> float:
    return 0.0 if integers else TOLERANCE


BUILDERS = {"p0": p0, "p1": p1, "p2": p2, "p4": p4, "p5": p5, "p8": p8, "p9": p9, "p10": p10, "p12": p12, "p13": p13}
