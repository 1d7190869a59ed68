"""What an all-reduce costs beside its bytes, on 8 simulated CPU devices: CPU time per collective, by size.

Usage: bench_collectives.py [--repeat 9]. The last line says how many bytes cost as much as it does to start one more:
`BYTES_PER_COLLECTIVE` in passes/analysis/deferral.py is to be no more.
"""

import argparse
import os
import time

DEVICES = 8
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  the number of devices is fixed before
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import AxisType, PartitionSpec  # noqa: E402

SIZES = [4 << power for power in range(0, 20, 2)]  # bytes
COLLECTIVES = 200  # one after the other, in a loop


def seconds(size: int, collectives: int, repeat: int) -> float:
    """CPU time of all devices for a program with so many all-reduces of `size` bytes; the least of `repeat` runs."""
    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(AxisType.Auto,))

    def body(_: int, x: jax.Array) -> jax.Array:
        return lax.psum(x, "data") * (1 / DEVICES)

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec("data"), check_vma=False)
    def program(x: jax.Array) -> jax.Array:
        return lax.fori_loop(0, collectives, body, x)

    x = jnp.ones(DEVICES * size // 4)
    program(x).block_until_ready()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        program(x).block_until_ready()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, help="runs per size, of which the shortest counts")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {DEVICES} devices of {os.cpu_count()} cores, us of CPU per all-reduce")
    costs = []
    for size in SIZES:
        costs.append(1e6 * seconds(size, COLLECTIVES, options.repeat) / COLLECTIVES)
        print(f"{size:>9,} bytes {costs[-1]:9.1f}")
    start = min(costs)
    per_byte = np.median([(cost - start) / size for cost, size in zip(costs, SIZES, strict=True) if cost > 2 * start])
    print(
        f"{start:.0f} us to start one, {1e3 * per_byte:.2f} ns per byte: as long as {start / per_byte:,.0f} bytes take"
    )


if __name__ == "__main__":
    main()
