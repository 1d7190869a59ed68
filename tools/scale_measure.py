"""Measures one program of docs/scale.md on one target, in a process of its own: `scale_measure.py MODEL LAYOUT TARGET`.

Prints one line of JSON per variant as soon as it is compiled: bytes sent per device and step, memory, seconds.
"""

import json
import os
import re
import resource
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # no machine with TPUs: libtpu need not look for its neighbours
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import jax
from scale_programs import LAYOUTS, MODELS, program

import paropt
from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.costs.machines import read_table
from paropt.costs.step_time import estimate
from paropt.hlo.census import census
from paropt.hlo.participants import Layout

FOLDERS = re.compile(r"/\S+?/(?:site-packages|tools)/")  # of this machine, in positions
START = "scale: "  # of a line with results: compilers print, too
VARIANTS: dict[str, dict[str, Any] | None] = {
    "XLA alone": None,
    "default": {},
    'memory_budget="auto"': {"memory_budget": "auto"},
    "policy=once": {"passes": "grad-sync{policy=once}"},
}


def main(model: str, layout: str, target: str, *variants: str) -> None:
    """Each variant of VARIANTS, or of those named."""
    for name in variants or VARIANTS:
        print(START + json.dumps({"variant": name, **_tried(model, layout, target, VARIANTS[name])}), flush=True)


def _tried(model: str, layout: str, target: str, options: dict[str, Any] | None) -> dict[str, Any]:
    try:
        return _measured(model, layout, target, options)
    except Exception as error:  # whatever a compiler raises: it is said on the page
        return {"problem": f"{type(error).__name__}: {error}".strip().partition("\n")[0][:300]}


def _measured(model: str, layout: str, target: str, options: dict[str, Any] | None) -> dict[str, Any]:
    found = targets.get(target)
    step, shapes, given = program(MODELS[model], LAYOUTS[layout], list(found.devices))
    jit = jax.jit if options is None else paropt.jit
    start = _cpu_seconds()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lowered = jit(step, **given, **(options or {})).lower(*shapes)
        between = _cpu_seconds()
        compiled = lowered.compile()
    end = _cpu_seconds()
    memory: Any = compiled.memory_analysis()
    text = compiled.as_text() or ""
    layout_of = Layout.of_mesh(next(leaf.sharding.mesh for leaf in jax.tree.leaves(shapes)))
    sent: dict[str, float] = defaultdict(float)
    by_axes: dict[str, float] = defaultdict(float)
    runs = 0
    for each in census(text, layout_of):
        bytes_sent = each.wire_bytes * (each.executions or 0)
        sent[each.kind] += bytes_sent
        by_axes[" ".join(each.axes)] += bytes_sent
        runs += (each.executions or 0) if each.wire_bytes else 0
    seconds = estimate(text, cluster_of(found, read_table()), layout_of.devices).seconds
    said = [FOLDERS.sub("", str(each.message)) for each in caught if str(each.message).startswith("paropt")]
    return {
        "kinds": {kind: size for kind, size in sent.items() if size},
        "axes": {axes: size for axes, size in by_axes.items() if size},
        "collectives": runs,
        "temporary": memory.temp_size_in_bytes,
        "arguments": memory.argument_size_in_bytes,
        "peak": memory.peak_memory_in_bytes,
        "lowering": round(between - start, 1),
        "compiling": round(end - between, 1),
        "step": seconds,
        "warnings": said,
    }


def _cpu_seconds() -> float:
    """Of all threads, and of child processes that ended: what else runs on the machine does not count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main(*sys.argv[1:])
