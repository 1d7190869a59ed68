"""One of the processes that run a plan: `plan_worker.py PLAN MODEL RANK PROCESSES PORT`.

The environment has the number of its CPU devices. Prints a line of JSON: how far the new state and the loss are from
those of `jax.jit` on one device, relative to the largest update of each array; and what the executable moves. Arrays
that change by less than a thousandth of what others of their kind do are rounding, as the gradient of a key's bias.
"""

import json
import sys
from collections import defaultdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PLAN, MODEL, RANK, PROCESSES, PORT = sys.argv[1:]
if int(PROCESSES) > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{PORT}", int(PROCESSES), int(RANK), initialization_timeout=60)

from gpt_programs import Gpt, function_of, step_of  # noqa: E402  jax.distributed comes first
from plan_executed import RUN_MICRO_BATCHES, moved  # noqa: E402

import paropt  # noqa: E402
from paropt.plan import Plan  # noqa: E402


def main() -> None:
    model = Gpt(*json.loads(MODEL))
    step = function_of(model, RUN_MICRO_BATCHES, jnp.float32)
    args = filled(model, step_of(model, RUN_MICRO_BATCHES, jnp.float32)[1])
    plan = Plan.load(PLAN)
    planned = plan.jit(step)
    executable = planned.lower(*args).compile()  # type: ignore[attr-defined]  # of a plan without stages
    alone = jax.tree.map(np.asarray, jax.jit(step, device=jax.local_devices()[0])(*args))
    (new, loss), (want, wanted) = planned(*args), alone
    updates = jax.tree.map(lambda after, before: float(np.abs(after - before).max()), want, args[0])
    most = {kind: max(sizes) for kind, sizes in by_kind(updates).items()}
    scales = jax.tree_util.tree_map_with_path(lambda path, size: max(size, 1e-3 * most[kind_of(path)]), updates)
    found = {
        "difference": max(map(difference, *map(jax.tree.leaves, (new, want, scales)))),
        "loss": float(loss),
        "alone": float(wanted),
        "moved": moved(paropt.audit(executable, mesh=plan.mesh()).collectives, model.parameters),
    }
    print(json.dumps(found), flush=True)


def filled(model: Gpt, shapes: Any) -> Any:
    """Arrays for the arguments, the same in each process: small weights, tokens at random, no momentum, and
    squares of gradients on average 1, so that an update is no sign of a gradient that is almost 0."""
    rng = np.random.default_rng(0)

    def array(path: Any, leaf: Any) -> np.ndarray:
        name = jax.tree_util.keystr(path)
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return rng.integers(0, model.vocabulary if leaf.ndim else 1, leaf.shape).astype(leaf.dtype)
        if name.startswith("[0][0]") and leaf.ndim > 1 and not name.endswith("['bias']"):
            ones = 1.0 if name.endswith("['scale']") else 0.0
            return (ones + rng.normal(size=leaf.shape) / np.sqrt(model.width)).astype(leaf.dtype)
        return np.full(leaf.shape, kind_of(path) == "nu", leaf.dtype)

    return jax.tree_util.tree_map_with_path(array, shapes)


def kind_of(path: Any) -> str:
    """Of an array of the state: a parameter, or which of the optimizer's."""
    return next((step.name for step in path if isinstance(step, jax.tree_util.GetAttrKey)), "parameter")


def by_kind(tree: Any) -> dict[str, list[Any]]:
    found = defaultdict[str, list[Any]](list)
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        found[kind_of(path)].append(leaf)
    return found


def difference(got: jax.Array, want: np.ndarray, scale: float) -> float:
    """Of the elements that this process has."""
    parts = ((np.asarray(part.data), want[part.index]) for part in got.addressable_shards)
    return float(max((np.abs(here - there).max(initial=0.0) / scale for here, there in parts), default=0.0))


if __name__ == "__main__":
    main()
