"""Prints what a scan over layers sends and holds as a pipeline in one program: the table of docs/stages.md."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import simulated_devices

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

import jax
import numpy as np
from bench_table import table
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from programs.layered_steps import program

import paropt

MICROBATCHES, LAYERS = 4, 8
GRIDS = {"4 x 2": (4, 2), "2 x 4": (2, 4)}  # stages, devices that share the examples
PIPELINES = {
    "`pipeline-layer-loop`": "pipeline-layer-loop{axis=stage},grad-sync",
    "the same, `circular=2`": "pipeline-layer-loop{axis=stage circular=2},grad-sync",
}
HEADER = ("target, stages x data, layers", "by", "sent, kB", "collectives", "memory at the peak, kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="cpu:8", help="separated by commas (%(default)s)")
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = [HEADER]
    for target in options.targets.split(","):
        for grid in GRIDS:
            for checkpointed in (False, True):
                rows += _rows(target, grid, checkpointed)
    print(table(rows))


def _rows(target: str, grid: str, checkpointed: bool) -> list[tuple[str, ...]]:
    made = program("scanned", microbatches=MICROBATCHES, layers=LAYERS, parted=True, checkpointed=checkpointed)
    devices = paropt.targets.get(target).devices or jax.devices()
    mesh = Mesh(np.array(devices).reshape(GRIDS[grid]), ("stage", "data"))

    def placed(path: Any, leaf: Any) -> Any:
        spec = PartitionSpec("stage") if "layers" in str(path) else PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    examples = NamedSharding(mesh, PartitionSpec(None, "data"))
    state = jax.tree_util.tree_map_with_path(placed, made.state)
    batch = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=examples), made.batch)
    out = (jax.tree.map(lambda leaf: leaf.sharding, state), NamedSharding(mesh, PartitionSpec()))
    step = jax.jit(made.step, out_shardings=out)
    found = {
        name: paropt.audit(step, state, batch, passes=passes, targets=[target]) for name, passes in PIPELINES.items()
    }
    alone = found[next(iter(found))][target].before
    what = f"{target}, {grid}, {'`jax.checkpoint`' if checkpointed else 'plain'}"
    reports = {"XLA alone": alone} | {name: report[target].after for name, report in found.items()}
    return [(what, name, *_figures(report)) for name, report in reports.items()]


def _figures(audit: Any) -> tuple[str, ...]:
    sent = sum(each.wire_bytes * (each.executions or 1) for each in audit.collectives)
    count = sum(each.executions or 1 for each in audit.collectives)
    return f"{sent / 1000:.0f}", str(count), f"{audit.peak_memory / 1000:.0f}"


if __name__ == "__main__":
    main()
