"""What an all-reduce costs beside its bytes, and a reduce-scatter beside it: CPU time on 8 simulated CPU devices.

Usage: bench_collectives.py [--repeat 9]. The last lines say how many bytes cost as much as it does to start one more
(`BYTES_PER_COLLECTIVE` in passes/deferral/deferral_cost.py is to be no more), and from which size on reduce-scatters of
four arrays take less long than one all-reduce of all (`SCATTERS_FROM` in passes/deferral/sharded_sum_costs.py).
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence

import simulated_devices

DEVICES = 8
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(DEVICES)
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  the number of devices is fixed before
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402

SIZES = [4 << power for power in range(0, 20, 2)]  # bytes
COLLECTIVES = 200  # one after the other, in a loop
ARRAYS = 4
LEAST = 1 << 14  # bytes: smaller arrays are not worth a reduce-scatter anywhere

Arrays = tuple[jax.Array, ...]


def all_reduced(arrays: Arrays) -> Arrays:
    """XLA:CPU combines them: one collective for all."""
    return tuple(lax.psum(arrays, "data"))


def scattered(arrays: Arrays) -> Arrays:
    """One collective each."""
    return tuple(lax.psum_scatter(array, "data", tiled=True) for array in arrays)


def seconds(reduce: Callable[[Arrays], Arrays], sizes: Sequence[int], loops: int, repeat: int) -> float:
    """CPU time of all devices for `loops` reductions of arrays of so many bytes; the least of `repeat` runs."""
    mesh = jax.make_mesh((DEVICES,), ("data",), axis_types=(AxisType.Auto,))

    def body(_: int, arrays: Arrays) -> Arrays:
        return tuple(array + made[0] * 1e-9 for array, made in zip(arrays, reduce(arrays), strict=True))

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=PartitionSpec("data"), out_specs=PartitionSpec("data"), check_vma=False)
    def program(*arrays: jax.Array) -> Arrays:
        return lax.fori_loop(0, loops, body, arrays)

    sharding = NamedSharding(mesh, PartitionSpec("data"))
    arrays = [jax.device_put(jnp.ones(DEVICES * size // 4), sharding) for size in sizes]
    jax.block_until_ready(program(*arrays))
    times = []
    for _ in range(repeat):
        start = time.process_time()
        jax.block_until_ready(program(*arrays))
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, help="runs per size, of which the shortest counts")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {DEVICES} devices of {os.cpu_count()} cores, us of CPU per all-reduce")
    costs = []
    for size in SIZES:
        costs.append(1e6 * seconds(all_reduced, [size], COLLECTIVES, options.repeat) / COLLECTIVES)
        print(f"{size:>9,} bytes {costs[-1]:9.1f}")
    print(f"us of CPU for {ARRAYS} arrays: all-reduced together, scattered each")
    enough = 0
    for size in (size for size in SIZES if size >= LEAST):
        loops = max(COLLECTIVES * LEAST // size, 5)
        pair = [1e6 * seconds(how, [size] * ARRAYS, loops, options.repeat) / loops for how in (all_reduced, scattered)]
        print(f"{size:>9,} bytes {pair[0]:9.1f} {pair[1]:9.1f}")
        enough = enough or (size if pair[1] < pair[0] else 0)
    start = min(costs)
    per_byte = np.median([(cost - start) / size for cost, size in zip(costs, SIZES, strict=True) if cost > 2 * start])
    print(
        f"{start:.0f} us to start one, {1e3 * per_byte:.2f} ns per byte: as long as {start / per_byte:,.0f} bytes take"
    )
    print(f"reduce-scatters of {ARRAYS} arrays take less long from {enough:,} bytes each")


if __name__ == "__main__":
    main()
