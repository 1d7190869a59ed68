"""Measures the memory that `fuse-loops` saves for one backward pass of a loss that is summed in a loop. CPU, 8 devices.

Usage: bench_fusing.py [--micro-batches 4 8 32]. Prints the rows of the table in docs/accumulation.md.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import simulated_devices

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs import models
from programs.models import Model
from programs.program import Sizes, Tree, mesh_of

import paropt

PASSES = "inline-calls,fuse-loops,grad-sync"
SPLIT = PartitionSpec(None, "data")


def one_backward(model: Model) -> Callable[..., Tree]:
    def total(parameters: Tree, *batches: jax.Array) -> jax.Array:
        return jnp.sum(lax.map(lambda batch: model.loss(parameters, *batch), batches))

    return jax.grad(total)


def a_gradient_in_each_trip(model: Model) -> Callable[..., Tree]:
    def step(parameters: Tree, *batches: jax.Array) -> Tree:
        def body(total: Tree, batch: tuple[jax.Array, ...]) -> tuple[Tree, None]:
            return jax.tree.map(jnp.add, total, jax.grad(model.loss)(parameters, *batch)), None

        return lax.scan(body, jax.tree.map(jnp.zeros_like, parameters), batches)[0]

    return step


def temporary(jit: Callable[..., Any], step: Callable[..., Tree], model: Model) -> str:
    """kB per device, besides arguments and results."""
    mesh = mesh_of(None, data=-1)
    parameters = jax.device_put(model.parameters, NamedSharding(mesh, PartitionSpec()))
    batches = jax.device_put(model.batches, NamedSharding(mesh, SPLIT))
    memory = jit(step).lower(parameters, *batches).compile().memory_analysis()
    return f"{memory.temp_size_in_bytes / 1e3:.0f}"


def fused(step: Callable[..., Tree]) -> Any:
    return paropt.jit(step, passes=PASSES, strict=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[4, 8, 32], metavar="M")
    options = parser.parse_args()
    print("| program | M | as JAX writes it, kB | fused, kB | `jax.grad` in each trip, kB |")
    print("|---|---|---|---|---|")
    for build in (models.mlp, models.transformer, models.scanned_transformer):
        for count in options.micro_batches:
            model = build(Sizes(micro_batches=count))
            whole, each = one_backward(model), a_gradient_in_each_trip(model)
            cells = temporary(jax.jit, whole, model), temporary(fused, whole, model), temporary(fused, each, model)
            print(f"| {build.__name__} | {count} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
