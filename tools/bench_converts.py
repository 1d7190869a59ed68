"""Measures the error of gradients whose reductions leave the loop through converts to bf16. CPU, 8 devices.

Usage: bench_converts.py [--micro-batches 4 16 64] [--seeds 3] [--exact].
Prints the rows of the table in docs/converts.md.

Parameters in f32 are cast to bf16 in the loss; a factor in f32 makes all later activations f32. So the gradients of
later parameters are products in f32, converted to bf16, and to f32 for the accumulator. Errors are those of the mean
gradient against f64: the root mean square over arrays, each in the Frobenius norm. Bytes are those that the loop sends.
"""

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import simulated_devices

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs.program import data_mesh

import paropt

Tree = Any
Loss = Callable[[Tree, Any, Any], Any]  # of parameters, the examples of a micro-batch, the type of the casts

WIDTH, CLASSES, EXAMPLES, SEQUENCE = 64, 16, 16, 8
PASSES = "inline-calls,expose-all-reduces,fuse-all-reduces,defer-sync{{convert={}}},annotate-unreduced"
DATA = ("signal", "noise", "cancelling")
FORMS = {"as it is": None, "widening": "widening", "excess-precision": "excess-precision", "any": "any"}


class Model(NamedTuple):
    """A loss, the shapes of its parameters, and of the examples in a micro-batch."""

    loss: Loss
    shapes: dict[str, tuple[int, ...]]
    example: tuple[int, ...]


def mlp(parameters: Tree, x: Any, dtype: Any) -> Any:
    p = {name: leaf.astype(dtype) for name, leaf in parameters.items()}
    h = jnp.tanh(x.astype(dtype) @ p["in"])
    h = widened(h, dtype)
    for i in range(2):
        h = h + jnp.tanh(h @ p[f"hidden{i}"])
    return _cross_entropy(h @ p["out"], x)


def gpt(parameters: Tree, x: Any, dtype: Any) -> Any:
    p = {name: leaf.astype(dtype) for name, leaf in parameters.items()}
    h = x.astype(dtype) @ p["in"]
    for i in range(2):
        h = h + _attention(_normed(h), p[f"qkv{i}"], p[f"proj{i}"], dtype)
        h = h + jax.nn.gelu(_normed(h) @ p[f"up{i}"]) @ p[f"down{i}"]
    return _cross_entropy(_normed(h) @ p["out"], x)


def widened(x: Any, dtype: Any) -> Any:
    """`x / np.sqrt(d)`: NumPy's number is no weak type, so that bf16 becomes f32."""
    return x / np.asarray(np.sqrt(x.shape[-1]), jnp.promote_types(dtype, jnp.float32))


def _attention(x: Any, qkv: Any, proj: Any, dtype: Any) -> Any:
    q, k, v = jnp.split(x @ qkv, 3, axis=-1)
    weights = jax.nn.softmax(widened(jnp.einsum("bqd,bkd->bqk", q, k), dtype))
    return jnp.einsum("bqk,bkd->bqd", weights, v) @ proj


def _normed(x: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(1e-5))


def _cross_entropy(logits: Any, x: Any) -> Any:
    labels = jnp.argmax(x[..., :CLASSES], axis=-1)
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(wide), labels[..., None], axis=-1))


SQUARE, BESIDE = (WIDTH, WIDTH), (WIDTH, 4 * WIDTH)
MODELS = {
    "MLP": Model(mlp, {"in": SQUARE, "hidden0": SQUARE, "hidden1": SQUARE, "out": (WIDTH, CLASSES)}, (WIDTH,)),
    "GPT": Model(
        gpt,
        {
            "in": SQUARE,
            **{f"qkv{i}": (WIDTH, 3 * WIDTH) for i in range(2)},
            **{f"proj{i}": SQUARE for i in range(2)},
            **{f"up{i}": BESIDE for i in range(2)},
            **{f"down{i}": BESIDE[::-1] for i in range(2)},
            "out": (WIDTH, CLASSES),
        },
        (SEQUENCE, WIDTH),
    ),
}


def gradients(loss: Loss, dtype: Any, accumulator: Any) -> Callable[[Tree, Any], Tree]:
    """The step: the mean gradient over the micro-batches, the first dimension of the batch."""

    def step(parameters: Tree, batch: Any) -> Tree:
        def body(total: Tree, x: Any) -> tuple[Tree, None]:
            gradient = jax.grad(loss)(parameters, x, dtype)
            return jax.tree.map(lambda t, g: t + g.astype(t.dtype), total, gradient), None

        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, accumulator), parameters)
        return jax.tree.map(lambda total: total / total.dtype.type(len(batch)), lax.scan(body, zeros, batch)[0])

    return step


def drawn(model: Model, data: str, micro_batches: int, seed: int) -> tuple[Tree, Any]:
    """Parameters and a batch. Labels are the largest of the first features, which only `signal` shows to the model."""
    rng = np.random.default_rng(seed)
    parameters = {n: (rng.normal(size=s) / np.sqrt(s[0])).astype(np.float32) for n, s in model.shapes.items()}
    batch = rng.normal(size=(micro_batches, EXAMPLES, *model.example))
    batch = batch.astype(jnp.bfloat16).astype(np.float32)  # so that each type finds the same feature the largest
    if data != "signal":
        parameters["in"][:CLASSES] = 0
    if data == "cancelling":  # the examples of a micro-batch differ in their labels only, and each label is there once
        batch[:, 1:] = batch[:, :1]
        for i in range(EXAMPLES):
            batch[:, i, ..., :CLASSES] = np.eye(CLASSES)[i]
        parameters["out"] /= 10
    return parameters, batch


def error(found: Tree, exact: Tree, names: list[str]) -> float:
    """The root mean square of the relative errors of the arrays, each in the Frobenius norm."""
    each = [np.linalg.norm(np.float64(found[n]) - exact[n]) / np.linalg.norm(exact[n]) for n in names]
    return float(np.sqrt(np.mean(np.square(each))))


def errors(model: Model, data: str, accumulator: Any, count: int, seed: int) -> tuple[dict[str, float], dict[str, int]]:
    """The error of each form of the step against f64, and the bytes that its loop reduces."""
    parameters, batch = drawn(model, data, count, seed)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda p: np.float64(jnp.asarray(p, jnp.bfloat16)), parameters)
        exactly = jax.jit(gradients(model.loss, jnp.float64, jnp.float64))
        exact = jax.tree.map(np.asarray, exactly(wide, np.float64(batch)))
    mesh = data_mesh()
    args = (
        jax.device_put(parameters, NamedSharding(mesh, PartitionSpec())),
        jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, "data"))),
    )
    step = gradients(model.loss, jnp.bfloat16, accumulator)
    found, stay = {}, {}
    for form, option in FORMS.items():
        jit = jax.jit if option is None else partial(paropt.jit, passes=PASSES.format(option), strict=True)
        compiled = jit(step).lower(*args).compile()
        found[form] = error(compiled(*args), exact, list(model.shapes))
        stay[form] = paropt.audit(compiled).sync_in_loop
    return found, stay


def rows(micro_batches: list[int], seeds: int) -> Iterator[str]:
    for name, data, accumulator in itertools.product(MODELS, DATA, (jnp.float32, jnp.bfloat16)):
        for count in micro_batches:
            measured = [errors(MODELS[name], data, accumulator, count, seed) for seed in range(seeds)]
            ratios = [found["excess-precision"] / found["as it is"] for found, _ in measured]
            means = {form: statistics.mean(found[form] for found, _ in measured) for form in FORMS}
            cells = [f"{means[form]:.3e} ({measured[0][1][form] / 1e3:,.0f} kB)" for form in FORMS]
            row = [
                name,
                data,
                jnp.dtype(accumulator).name,
                str(count),
                *cells,
                f"{min(ratios):.3f} to {max(ratios):.3f}",
            ]
            yield f"| {' | '.join(row)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[4, 16, 64], metavar="M")
    parser.add_argument("--seeds", type=int, default=3, help="programs with other parameters and examples")
    parser.add_argument("--exact", action="store_true", help="XLA rounds where the program does")
    options = parser.parse_args()
    if options.exact:
        os.environ["XLA_FLAGS"] += " --xla_allow_excess_precision=false"
    print(f"| model | data | accumulator | M | {' | '.join(FORMS)} | excess-precision / as it is |\n|{'---|' * 9}")
    for row in rows(options.micro_batches, options.seeds):
        print(row, flush=True)


if __name__ == "__main__":
    main()
