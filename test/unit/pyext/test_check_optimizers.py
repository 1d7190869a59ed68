"""`paropt.check` of training steps under every optimizer of optax: right ones pass, a gradient that is 0.1 % off does not."""

import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from programs.program import data_mesh
from unit.jit_passes import seen as seen

import paropt
from paropt.check import Check
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Remark
from paropt.passes.support.traversal import ops_of

Tree = Any
LEAVES = ("kernel", "bias")
# Not in optax's module of optimizers, which is asked what it has.
_CONTRIBUTED = (
    "acprop ademamix adopt cocob dadapt_adamw dog dowg galore madgrad momo momo_adam muon prodigy "
    "schedule_free_adamw schedule_free_sgd simplified_ademamix"
).split()


def optimizers() -> dict[str, Callable[..., Any]]:
    own = {name: made for name, made in vars(optax).items() if getattr(made, "__module__", "") == optax.adam.__module__}
    return own | {f"contrib.{name}": getattr(optax.contrib, name) for name in _CONTRIBUTED}


def optimizer(name: str) -> Any:
    """With what it cannot do without."""
    make = optimizers()[name]
    needed = {"learning_rate": 0.01, "min_step_size": 1e-6, "max_step_size": 50.0, "key": 0}
    parameters = inspect.signature(make).parameters.values()
    given = {p.name: needed[p.name] for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD}
    return optax.with_extra_args_support(make(**given))


def loss(weights: Tree, x: jax.Array) -> jax.Array:
    return jnp.mean((jax.nn.relu(jnp.tanh(x @ weights["kernel"] + weights["bias"])) - 1) ** 2)


def checked(names: list[str], passes: str) -> dict[str, Check]:
    """One program that takes the same gradients to each optimizer; of each, what its results are."""
    chosen = {name: optimizer(name) for name in names}

    def step(weights: Tree, states: Tree, xs: jax.Array) -> Tree:
        def add(total: Tree, x: jax.Array) -> tuple[Tree, None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(weights, x)), None

        zeros = jax.tree.map(jnp.zeros_like, (jnp.float32(0), weights))
        (value, gradients), _ = jax.lax.scan(add, zeros, xs)
        stepped = {}
        for name, each in chosen.items():
            more = {"value": value, "grad": gradients, "value_fn": lambda weights: loss(weights, xs[0])}
            updates, state = each.update(gradients, states[name], weights, **more)
            stepped[name] = optax.apply_updates(weights, updates), state
        return stepped

    mesh = data_mesh()
    weights = {name: jnp.ones(shape) for name, shape in zip(LEAVES, [(8, 16), (16,)], strict=True)}
    states = {name: each.init(weights) for name, each in chosen.items()}
    weights, states = jax.device_put((weights, states), NamedSharding(mesh, PartitionSpec()))
    xs = jax.device_put(jnp.ones((4, 16, 8)), NamedSharding(mesh, PartitionSpec(None, "data")))
    found = paropt.check(step, weights, states, xs, passes=passes)
    paths = jax.tree_util.tree_leaves_with_path(jax.eval_shape(step, weights, states, xs))
    of = [path[0].key for path, _ in paths]
    return {name: found._replace(results=tuple(r for r in found.results if of[r.number] == name)) for name in chosen}


def scale_total(module: ir.Operation, *, number: Annotated[int, "Which array the loop leaves."] = 0) -> list[Remark]:
    """Make what a loop leaves 0.1 % larger."""
    loop = ops_of(module, "stablehlo.while")[0]
    totals = [r for r in loop.results if "xf32" in str(r.type) and next(r.uses, None) is not None]
    total = totals[number]
    with loop.context, loop.location, ir.InsertionPoint.after(loop):
        dense = ir.DenseElementsAttr.get_splat(total.type, ir.FloatAttr.get_f32(1.001))
        factor = ir.Operation.create("stablehlo.constant", [total.type], attributes={"value": dense})
        scaled = ir.Operation.create("stablehlo.multiply", [total.type], [total, factor.result])
    total.replace_all_uses_except(scaled.result, scaled)
    return []


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time is compilation."""
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0")


def test_every_optimizer_passes() -> None:
    by_name = checked(list(optimizers()), "grad-sync")
    for name, found in by_name.items():
        assert found.is_same, f"{name}: {found}"
    rounded = [name for name, found in by_name.items() if any(result.difference for result in found.results)]
    assert len(rounded) > len(by_name) / 2


@pytest.mark.parametrize("number", range(len(LEAVES)))
def test_a_gradient_that_is_slightly_wrong_is_found(number: int, seen: list[str]) -> None:
    """Whatever the optimizer, and whichever gradient; what depends on no other gradient is right."""
    register(scale_total)
    names = ["sgd", "adam", "adamw", "adafactor", "lion", "adagrad", "rmsprop", "contrib.muon"]
    for name, found in checked(names, f"scale-total{{number={number}}}").items():
        assert not found.is_same, f"{name}: {found}"
        assert len(found.different) < len(found.results), f"{name}: {found}"
