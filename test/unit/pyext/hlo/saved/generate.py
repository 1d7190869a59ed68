"""Prints the optimized HLO that the census tests read: `cd test/unit/pyext/hlo/saved; python generate.py cpu > cpu-jax-0.10.2.txt`.

`python generate.py tpu` and `slices` need libtpu and no TPU; `python generate.py gpu TARGET.txtpb` and `concatenated
TARGET.txtpb` need jax's CUDA plugin, a description of the GPU, and no GPU.
"""

import os
import sys
from pathlib import Path

TARGET = sys.argv[1]
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TPU_WORKER_HOSTNAMES": "localhost", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}

import jax  # noqa: E402  after the environment is set
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec  # noqa: E402


def every_kind(x, w):
    """Two loops, a conditional, a combined all-reduce, and each kind of collective; w is f32[8,4]."""

    def outer(c, _):
        def inner(d, _):
            return d + lax.psum(d * x.sum(), "data"), None

        c, _ = lax.scan(inner, c, None, length=3)
        gathered = lax.all_gather(c, "model")
        return c + lax.pmean(c, ("data", "model")) + gathered.sum(0), lax.psum(c.sum(), "data")

    c, losses = lax.scan(outer, w, None, length=5)
    scattered = lax.psum_scatter(c, "data", tiled=True)
    permuted = lax.ppermute(scattered, "data", [(i, (i + 1) % 4) for i in range(4)])
    exchanged = lax.all_to_all(c, "data", 0, 0, tiled=True)
    branch = lax.cond(losses.sum() > 3.0, lambda: lax.psum(c * 3, "data"), lambda: c)
    combined = lax.psum({"a": c * 2, "b": c[:4].astype(jnp.bfloat16)}, "data")
    return c, losses, scattered, permuted, exchanged, branch, combined


def async_gather(x, w):
    """An all-gather in a loop that XLA:TPU makes asynchronous, and two nested loops; w is f32[256,256]."""

    def outer(c, _):
        def inner(d, _):
            return jnp.tanh(d @ lax.psum(d * x.sum(), "data")), None

        c, _ = lax.scan(inner, c, None, length=3)
        gathered = lax.all_gather(c, "model")
        return c + lax.pmean(c @ c, ("data", "model")) + gathered.sum(0), None

    return lax.scan(outer, w, None, length=5)[0]


def between_slices(x, w):
    """Two slices of 4: each kind of exchange between them, two in a loop; w is f32[64,64], `data` is within slices."""

    def body(c, _):
        summed = lax.psum(jnp.tanh(c @ c) * x.sum(), ("slice", "data"))
        return jnp.sqrt(summed), lax.psum(summed.max(), "slice")

    c, losses = lax.scan(body, w, None, length=5)
    gathered = lax.all_gather(c, "slice")
    scattered = lax.psum_scatter(c, "slice", tiled=True)
    permuted = lax.ppermute(c, "slice", [(0, 1), (1, 0)])
    exchanged = lax.all_to_all(c, "slice", 0, 0, tiled=True)
    return c, losses, gathered.sum(0), scattered, permuted, exchanged


def concatenated(x, w):
    """Three sums that XLA:GPU takes as one, in a loop, of f32[16,16], f32[16] and f32[]; w is f32[16,16]."""

    def body(c, _):
        h = jnp.tanh(x @ c)
        of_w = lax.psum(x.T @ h, "data")
        of_b = lax.psum(h.sum(0), "data")
        loss = lax.psum((h * h).sum(), "data")
        return c + jnp.sqrt(of_w) * of_b * loss, None

    return lax.scan(body, w, None, length=5)[0]


def topology():
    if TARGET == "tpu":
        return topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4")
    if TARGET == "slices":
        return topologies.get_topology_desc("v5e:2x2", "tpu", num_slices=2)
    description = Path(sys.argv[2]).read_text()
    eight = "1x1x8"  # slices x hosts x devices
    return topologies.get_topology_desc(eight, "cuda", topology=eight, target_config=description)


# Of each program: the function, the shape of w, the axes of the mesh, and which results are split over `data`.
PROGRAMS = {
    "cpu": (every_kind, (8, 4), {"data": 4, "model": 2}, (0, 0, 1, 1, 0, 0, 0)),
    "tpu": (async_gather, (256, 256), {"data": 4, "model": 2}, 0),
    "gpu": (async_gather, (256, 256), {"data": 4, "model": 2}, 0),
    "slices": (between_slices, (64, 64), {"slice": 2, "data": 4}, (0,) * 6),
    "concatenated": (concatenated, (16, 16), {"data": 8}, 0),
}


def main():
    function, (rows, columns), axes, out = PROGRAMS[TARGET]
    devices = np.array(jax.devices() if TARGET == "cpu" else topology().devices)
    mesh = Mesh(devices.reshape(tuple(axes.values())), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    whole, sharded = PartitionSpec(), PartitionSpec("data")
    out_specs = jax.tree.map(lambda is_sharded: sharded if is_sharded else whole, out)
    mapped = jax.shard_map(function, mesh=mesh, in_specs=(sharded, whole), out_specs=out_specs, check_vma=False)
    shape = jax.ShapeDtypeStruct((rows, columns), jnp.float32)
    args = [shape.update(sharding=NamedSharding(mesh, spec)) for spec in (sharded, whole)]
    text = jax.jit(mapped).lower(*args).compile().as_text()
    print(text.replace(__file__, "generate.py"))


main()
