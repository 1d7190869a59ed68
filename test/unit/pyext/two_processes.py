"""One of the processes of a distributed run: `python two_processes.py RANK PROCESSES PORT FILE` writes what it saw.

The processes share 8 CPU devices and take one training step on small integers, which is exact in f32.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

RANK, PROCESSES, PORT = (int(argument) for argument in sys.argv[1:4])
DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
FLAGS = os.environ.get("XLA_FLAGS", "")  # of two counts XLA takes the last
os.environ["XLA_FLAGS"] = f"{FLAGS} --xla_force_host_platform_device_count={DEVICES // PROCESSES}"
sys.path.insert(0, str(Path(__file__).parents[2]))

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

if PROCESSES > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{PORT}", PROCESSES, RANK, initialization_timeout=60)

from programs.catalog import PROGRAMS  # noqa: E402

import paropt  # noqa: E402


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def shared(leaf: jax.Array) -> jax.Array:
    """The same array on the devices of all processes, replicated."""
    values = np.asarray(leaf)
    sharding = NamedSharding(program.mesh, PartitionSpec())
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


program = PROGRAMS["mlp_p0_integers"]()
own = PROGRAMS["mlp_p0_integers"](devices=jax.local_devices())  # the same data, which this process can read
args = jax.tree.map(shared, own.args)
step = paropt.jit(program.step)
lowered = step.lower(*args)
leaves = [np.asarray(leaf.addressable_data(0)) for leaf in jax.tree.leaves(step(*args))]
report = {
    "devices": len(jax.devices()),
    "local devices": len(jax.local_devices()),
    "module": digest(lowered.as_text(debug_info=True).encode()),
    "module as written": digest(jax.jit(program.step).lower(*args).as_text(debug_info=True).encode()),
    "sums": paropt.audit(lowered).total("all-reduce").executions,
    "results": digest(*(leaf.tobytes() for leaf in leaves)),
    "nonzero": sum(int(np.count_nonzero(leaf)) for leaf in leaves),
}
Path(sys.argv[4]).write_text(json.dumps(report))
