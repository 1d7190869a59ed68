"""Propagated shardings: what Shardy finds in a copy of the module is what XLA makes of it, for ops of every kind."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from modules import parsed

from paropt.passes.sharding.propagation import Propagated
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.traversal import terminator_of

SHAPE = (16, 8, 8)  # split in its first dimension
KEY = jax.random.key(0)
FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "approximate top_k": lambda x: lax.approx_max_k(x, 2)[0],
    "argmax": lambda x: jnp.argmax(x, -1),
    "associative scan": lambda x: lax.associative_scan(jnp.add, x, axis=1),
    "attention": lambda x: jax.nn.dot_product_attention(x[:, :, None], x[:, :, None], x[:, :, None]),
    "bessel": lambda x: lax.bessel_i1e(x),
    "bitcast": lambda x: lax.bitcast_convert_type(x, jnp.int32),
    "checkpoint": jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x))),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.swapaxes(1, 2) + jnp.eye(8)),
    "cond": lambda x: lax.cond(jnp.sum(x) > 0, lambda x: x * 2, lambda x: x, x),
    "convolution": lambda x: lax.conv_general_dilated(x, jnp.ones((3, 8, 8)), (1,), "SAME"),
    "cumulative maximum": lambda x: lax.cummax(x, 1),
    "cumulative sum": lambda x: jnp.cumsum(x, 1),
    "dot": lambda x: jnp.einsum("bij,bkj->bik", x, x),
    "dropout": lambda x: jnp.where(jax.random.bernoulli(KEY, 0.5, x.shape), x, 0),
    "erf": lambda x: jax.nn.gelu(x, approximate=False),
    "erf_inv": lax.erf_inv,
    "fft": lambda x: jnp.fft.fft(x).real,
    "gamma": lambda x: lax.lgamma(x) + lax.digamma(x),
    "gather": lambda x: jnp.take_along_axis(x, jnp.argmax(x, -1)[..., None], -1),
    "gradient of a maximum pool": jax.grad(
        lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "VALID"))
    ),
    "hyperbolic": lambda x: jnp.sinh(x) + jnp.cosh(x) + jnp.arcsinh(x) + jnp.arctan(x),
    "incomplete beta": lambda x: lax.betainc(x, x, x),
    "next after": lambda x: jnp.nextafter(x, x + 1),
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 1), (0, 0))),
    "polygamma": lambda x: lax.polygamma(x, x) + lax.zeta(x, x),
    "random": lambda x: x + jax.random.normal(KEY, x.shape),
    "reverse": lambda x: x[:, ::-1],
    "scan": lambda x: lax.scan(lambda h, part: (jnp.tanh(h + part), h), jnp.zeros((16, 8)), x.swapaxes(0, 1))[1],
    "scatter": jax.vmap(lambda x: jax.ops.segment_sum(x, jnp.arange(8) % 3, 3)),
    "singular values": lambda x: jnp.linalg.svd(x)[1],
    "softmax": jax.nn.softmax,
    "solve": lambda x: jnp.linalg.solve(x, x),
    "sort": lambda x: jnp.sort(x, -1),
    "square": lambda x: jnp.square(jax.nn.relu(x)),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "triangular solve": lambda x: jax.scipy.linalg.solve_triangular(x, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_xla(name: str) -> None:
    mesh = Mesh(np.array(jax.devices()[:8]), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    lowered = jax.jit(FUNCTIONS[name]).lower(jax.ShapeDtypeStruct(SHAPE, np.float32, sharding=split))
    module = parsed(str(lowered.compiler_ir("stablehlo"))).operation
    Pipeline.parse("inline-calls").run(module)
    main = ir.SymbolTable(module)["main"].operation
    found = Propagated(module).sharding_of(terminator_of(main.regions[0].blocks[0]).operands[0])
    made = lowered.compile().output_shardings
    axes = list(made.spec)
    assert found is not None
    assert [over[0].name if over else None for over in found.dimensions[: len(axes)]] == axes
    assert "data" in axes
    assert not any(found.dimensions[len(axes) :])
