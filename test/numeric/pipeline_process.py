"""One of the processes of a pipeline: `python pipeline_process.py MODE RANK PROCESSES PORT FILE`.

The processes share 8 CPU devices. `runs` writes what this one saw of each case; in the other modes, it takes steps for
ever, but for process 1, which dies, raises an error, exits, builds where the other takes a step, or has another step, or a
number of micro-batches that is wrong.
"""

import hashlib
import itertools
import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
RANK, PROCESSES, PORT = (int(argument) for argument in sys.argv[2:5])
DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
FLAGS = os.environ.get("XLA_FLAGS", "")  # of two counts XLA takes the last
os.environ["XLA_FLAGS"] = f"{FLAGS} --xla_force_host_platform_device_count={DEVICES // PROCESSES}"
sys.path.insert(0, str(Path(__file__).parents[1]))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

# One process has this, too: its sums are added in the order of those of several.
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(
    f"127.0.0.1:{PORT}", PROCESSES, RANK, initialization_timeout=60, heartbeat_timeout_seconds=10
)

from programs.layered_steps import Program, program, step_of  # noqa: E402

from paropt.pipeline import Pipeline, StageError, pipeline  # noqa: E402

MICROBATCHES, WIDTH = 4, 16
CASES = {  # the program, stages, schedule
    "two stages": ("mlp", 2, "1f1b"),
    "four stages": ("mlp", 4, "gpipe"),
    "interleaved": ("mlp", 2, "interleaved"),
    "stacked and tied": ("stacked", 2, "1f1b"),
    "stacked, interleaved": ("stacked", 2, "interleaved"),
}
OPTIONS: dict[str, Any] = {"differs": {"rate": 50.0}, "refuses": {"microbatches": 8}}  # of process 1


def stacked() -> Program:
    """A scan over layers between two uses of one matrix, and a count of steps."""
    rng = np.random.default_rng(2)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    def loss(parameters: Any, part: Any) -> jax.Array:
        x = jnp.tanh(part[0] @ parameters["tied"])
        x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, parameters["layers"])
        return jnp.mean((x @ parameters["tied"].T - part[1]) ** 2)

    def step(state: Any, batch: Any) -> Any:
        count, parameters = state
        new, value = step_of(loss, MICROBATCHES, clip=0.5, rate=100.0)(parameters, batch)
        return (count + 1, new), value * count

    parameters = {"tied": normal(WIDTH, WIDTH) / 4, "layers": normal(4, WIDTH, WIDTH) / 4}
    return Program(step, (np.float32(1), parameters), (normal(64, WIDTH), normal(64, WIDTH)))


def case(name: str, rate: float = 100.0, microbatches: int = MICROBATCHES) -> tuple[Program, Pipeline]:
    kind, stages, schedule = CASES[name]
    made = stacked() if kind == "stacked" else program(kind, microbatches=MICROBATCHES, rate=rate)
    mesh = Mesh(np.array(jax.devices()).reshape(stages, -1), ("stage", "data"))
    return made, pipeline(made.step, stages=stages, microbatches=microbatches, mesh=mesh, schedule=schedule)


def report(name: str) -> dict[str, Any]:
    """What this process has of two steps: its programs, the loss, and of each of its arrays the parts."""
    made, run = case(name)
    state = run.place(made.state, made.batch)
    homes = {jax.tree_util.keystr(path): len(leaf.addressable_shards) for path, leaf in _paths(state)}
    first = run(state, made.batch)
    want = jax.jit(made.step)(made.state, made.batch)
    updates = jax.tree.map(lambda new, old: np.abs(np.asarray(new) - old).max(), want[0], made.state)
    error = max(map(_error, jax.tree.leaves(first), jax.tree.leaves(want)))
    views = [np.asarray(part.data) for leaf in jax.tree.leaves(first[0]) for part in leaf.addressable_shards]
    copies = [view.copy() for view in views]
    new, loss = run(first[0], made.batch)  # which overwrites the first, but for what numpy has
    return {
        "symbols": sorted({symbol for symbol, _ in run.programs(made.state, made.batch)}),
        "homes": homes,
        "loss": float(loss).hex(),
        "error": error,
        "views are kept": all(map(np.array_equal, views, copies)),
        "largest update": float(max(jax.tree.leaves(updates))),
        "parts": {jax.tree_util.keystr(path): _parts(leaf) for path, leaf in _paths(new)},
    }


def mistakes() -> list[str]:
    """What is refused of several processes."""
    made, run = case("two stages")
    over_stages = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, -1), ("stage", "data")), PartitionSpec("stage"))
    batch = [jax.make_array_from_callback(x.shape, over_stages, x.__getitem__) for x in made.batch]
    found = [refused(run, run.place(made.state, made.batch), tuple(batch))]
    made, run = case("stacked, interleaved")
    return [*found, refused(run, made.state, made.batch), another_scale(), another_batch()]


def another_scale() -> str:
    """Of a number that both processes read, and that is not the same in both."""
    made, _ = case("two stages")

    def step(state: Any, batch: Any, scale: Any) -> Any:
        new, value = made.step(state, batch)
        return jax.tree.map(lambda leaf: leaf * scale, new), value

    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("stage", "data"))
    run = pipeline(step, stages=2, microbatches=MICROBATCHES, mesh=mesh)
    return refused(run, made.state, made.batch, np.float32(RANK))


def another_batch() -> str:
    """Of examples that the first stage alone reads, and that are not the same in both processes."""
    made, run = case("two stages")
    batch = (made.batch[0] + RANK, made.batch[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(made.state, batch)
        run(made.state, batch)
    return "; ".join(str(each.message) for each in caught)


def refused(run: Pipeline, *args: Any) -> str:
    try:
        run(*args)
    except StageError as error:
        return str(error)
    return "nothing is refused"


def _paths(tree: Any) -> Any:
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def _error(got: jax.Array, want: jax.Array) -> float:
    """The largest error of the elements that this process has."""
    value = np.asarray(want)
    return float(max((np.abs(part.data - value[part.index]).max() for part in got.addressable_shards), default=0.0))


def _parts(leaf: jax.Array) -> dict[str, str]:
    found = {str(part.index): np.asarray(part.data).tobytes() for part in leaf.addressable_shards}
    return {index: hashlib.sha256(data).hexdigest() for index, data in found.items()}


def step_for_ever() -> None:
    made, run = case("two stages", **OPTIONS.get(MODE, {}) if RANK == 1 else {})
    state = run.place(made.state, made.batch)
    if RANK == 1 and MODE == "exits first":
        sys.exit(3)
    for number in itertools.count():
        state, loss = run(state, made.batch)
        print(f"step {number}: {float(loss)}", flush=True)
        if RANK == 1 and MODE == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if RANK == 1 and MODE == "raises":
            raise RuntimeError("no batch is left")
        if RANK == 1 and MODE == "exits":
            sys.exit(3)
        if RANK == 1 and MODE == "builds":
            case("four stages")[1].compile(made.state, made.batch)


if MODE == "runs":
    seen: dict[str, Any] = {name: report(name) for name in CASES if name != "stacked, interleaved"}
    Path(sys.argv[5]).write_text(json.dumps(seen | {"mistakes": mistakes() if PROCESSES > 1 else []}))
else:
    try:
        step_for_ever()
    except StageError as error:
        sys.exit(f"StageError: {error}")
