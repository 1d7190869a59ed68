"""inline-calls on what jax outlines: nothing stays but what jax marked, and positions still lead to the user's line."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import compute_on
from jax.experimental.scheduling_groups import scheduling_group
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from modules import parsed
from numeric.oracle import assert_same

import paropt.passes  # noqa: F401  registers every pass
from paropt.passes.ir.metadata import METADATA
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import ops_of

P = PartitionSpec
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def sharding(*axes: str | None) -> NamedSharding:
    return NamedSharding(jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,)), P(*axes))


@jax.custom_vjp
def own_gradient(x: jax.Array) -> jax.Array:
    return jax.nn.silu(x)


own_gradient.defvjp(lambda x: (jax.nn.silu(x), x), lambda x, g: (g * jax.nn.sigmoid(x),))


def in_shard_map(x: jax.Array) -> jax.Array:
    mesh = sharding().mesh
    return jax.shard_map(lambda y: jax.lax.psum(jax.nn.silu(y), "data"), mesh=mesh, in_specs=P("data"), out_specs=P())(
        x
    )


def exported(x: jax.Array) -> jax.Array:
    # The exported function keeps the shardings of its arguments and results.
    f = jax.jit(lambda y: jnp.sin(y) + y, in_shardings=sharding("data"), out_shardings=sharding(None, None))
    return jax.export.export(f)(jax.ShapeDtypeStruct(X.shape, X.dtype)).call(
        jax.lax.with_sharding_constraint(x, sharding("data"))
    )


PROGRAMS: dict[str, Callable[[jax.Array], object]] = {
    "nested jit": lambda x: jax.jit(jax.nn.gelu)(x) + jax.jit(jax.nn.gelu)(x * 2),
    "nested jit with shardings": jax.jit(lambda x: jnp.sin(x), out_shardings=sharding("data")),
    "nested jit with donation": lambda x: jax.jit(lambda y: y + 1, donate_argnums=0)(x) * 2,
    "checkpoint": jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jax.nn.silu(y)))(x).sum()),
    "custom_vjp": jax.grad(lambda x: own_gradient(x).sum()),
    "cond": lambda x: jax.lax.cond(x[0, 0] > 0, jax.nn.silu, lambda y: jnp.cumsum(y, 0), x),
    "switch": lambda x: jax.lax.switch(x.sum().astype(int), [jax.nn.silu, jnp.sin, jax.nn.gelu], x),
    "while": lambda x: jax.lax.while_loop(lambda c: jax.jit(jnp.sum)(c) < 100, jax.nn.softplus, x),
    "scan": lambda x: jax.lax.scan(lambda c, y: (jax.nn.silu(c + y), c), x[0], x),
    "linalg": lambda x: (jnp.linalg.qr(x), jnp.linalg.inv(x[:4]), jnp.linalg.svd(x)),
    "random": lambda x: (jax.random.normal(jax.random.key(0), (4,)), jax.random.permutation(jax.random.key(1), x)),
    "sort": lambda x: (jnp.sort(x), jnp.argsort(x), jnp.quantile(x, 0.5)),
    "shard_map": in_shard_map,
    "export": exported,
}


def inlined(f: Callable[[jax.Array], object]) -> tuple[ir.Module, str]:
    """The module of `f` after inline-calls, and its text before."""
    text = jax.jit(lambda x: f(x)).lower(X).as_text(debug_info=True)
    module = parsed(text)
    Pipeline.parse("inline-calls").run(module.operation)
    return module, text


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_call_and_no_unused_function_stays(name: str) -> None:
    module, _ = inlined(PROGRAMS[name])
    assert ops_of(module.operation, "func.call") == []
    assert len(ops_of(module.operation, "func.func")) == 1


@pytest.mark.parametrize("name", ["shard_map", "export"])
def test_values_stay(name: str) -> None:
    module, before = inlined(PROGRAMS[name])
    assert_same(before, str(module))


@jax.jit
def layer(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) * 2


# Traced here, so that only the calls that JAX adds later carry metadata, not the ops of the functions.
layer.lower(X)
_mesh_in = jax.shard_map(
    lambda y: jax.lax.psum(layer(y), "data"), mesh=sharding().mesh, in_specs=P("data"), out_specs=P()
)
_HINTED: dict[str, Callable[[jax.Array], object]] = {
    "a jitted function": layer,
    "its gradient": jax.grad(lambda x: layer(x).sum()),
    "in a scan": lambda x: jax.lax.scan(lambda c, y: (c + layer(y), None), x[0], x)[0],
    "in a branch": lambda x: jax.lax.cond(x[0, 0] > 0, layer, jnp.sin, x),
    "in a nested jit": lambda x: jax.jit(lambda y: layer(y) + 1)(x),
    "in a checkpoint": jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(layer(y)))(x).sum()),
    "in shard_map": _mesh_in,
    "exported": exported,
}


@pytest.mark.parametrize("name", _HINTED)
def test_metadata_that_only_hints_goes_to_the_ops(name: str) -> None:
    def hinted(x: jax.Array) -> object:
        with set_xla_metadata(a="b"):
            return _HINTED[name](x)

    module, before = inlined(hinted)
    assert ops_of(module.operation, "func.call") == []
    hint = '{mhlo.frontend_attributes = {a = "b"}}'
    (main,) = ops_of(module.operation, "func.func")
    work = ops_of(main, "stablehlo.tanh", "stablehlo.sine", "stablehlo.multiply")
    assert work and hint in before
    assert all(hint in f"{{mhlo.frontend_attributes = {op.attributes[METADATA]}}}" for op in work)


def test_metadata_of_the_value_of_a_call_goes_to_the_ops_of_the_function() -> None:
    module, before = inlined(lambda x: set_xla_metadata(layer(x), a="b"))
    assert before.count("frontend_attributes") == 1
    assert str(module).count('a = "b"') == len(ops_of(module.operation, "stablehlo.tanh", "stablehlo.multiply")) + 1
    assert_same(before, str(module))


def on(compute_type: str) -> Callable[[jax.Array], jax.Array]:
    run_on: Any = getattr(compute_on, "compute_on2", compute_on.compute_on)  # jax 0.12 has the new form only
    return run_on(lambda x: jnp.sin(x) * 2, compute_type=compute_type, out_memory_spaces=jax.memory.Space.Device)


def not_inlineable(x: jax.Array) -> jax.Array:
    with set_xla_metadata(inlineable="false"):
        return layer(x)


def scheduled(x: jax.Array) -> jax.Array:
    with set_xla_metadata(_scheduling_group_id=3):
        return layer(x)


_UNITS: dict[str, Callable[[jax.Array], object]] = {
    '_xla_compute_type = "host"': on("device_host"),
    '_xla_stream_annotation = "1"': on("gpu_stream:1"),
    '_scheduling_group_id = "3"': scheduled,
    'by its metadata: inlineable = "false"': not_inlineable,
    'scheduling_group = "late"': scheduling_group("late")(layer),
}


@pytest.mark.parametrize("said", _UNITS)
def test_calls_that_jax_made_units_stay(said: str) -> None:
    module = parsed(jax.jit(lambda x: _UNITS[said](x)).lower(X).as_text())
    remarks = Pipeline.parse("inline-calls").run(module.operation)
    assert len(ops_of(module.operation, "func.call")) == 1
    assert [said in remark.text for remark in remarks if not remark.applied] == [True]


def test_positions_lead_to_the_user_s_line() -> None:
    def inner(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def outer(x: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, y: (c + jax.jit(inner)(y), None), x[0], x)[0]

    module, _ = inlined(outer)
    (sine,) = ops_of(module.operation, "stablehlo.sine")
    source = source_of(sine.location)
    assert source.file == __file__
    assert source.line == inspect.getsourcelines(inner)[1] + 1
    assert "while/body" in source.scope
