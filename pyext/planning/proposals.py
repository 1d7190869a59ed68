"""Candidates from integer linear programs: for each mesh the shardings of arguments that the model finds fastest.

The model says what to try, the compiler what it is worth: XLA may reshard otherwise than the model has it.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from paropt.costs.clusters import Cluster
from paropt.modules.module_io import bytecode_of
from paropt.passes.state.argument_roles import plain_path
from paropt.passes.support.pipeline import Pipeline
from paropt.planning.candidates import DEFAULT_POLICY, Candidate, Mesh, factored
from paropt.planning.ilp import InfeasibleError, Plan, Rates, best
from paropt.planning.strategies import Choices, Held, choices_in

NAME = "ilp"
_EXACT_UP_TO = 100  # transfers: with more of them, one axis after the other is chosen
_SECONDS = 10.0  # for each program


def proposals(
    lowered: Any, cluster: Cluster, *, memory: int | None = None, progress: Callable[[str], None] = lambda _: None
) -> list[Candidate]:
    """One candidate for each mesh over the cluster's devices whose arguments fit `memory` (bytes per device).

    `lowered` names no mesh. Meshes are `data` alone, and `data` x `model`, each factorization.
    """
    choices = _choices(lowered)
    found = []
    for mesh in factored(cluster.size):
        plan = _best(choices, mesh, rates_of(cluster, mesh), memory)
        progress(f"plan: shardings over {mesh}: {'none fit' if plan is None else 'found'}")
        if plan is not None and plan.sharded:
            found.append(Candidate(NAME, mesh, rules_of(choices.arguments, plan, mesh), DEFAULT_POLICY))
    return found


def rates_of(cluster: Cluster, mesh: Mesh) -> Rates:
    """What devices and links do, where each axis of `mesh` is as fast as the slowest link that it crosses."""
    positions = np.arange(mesh.size).reshape([size for _, size in mesh.axes])
    links, latency = {}, 0.0
    for number, (axis, size) in enumerate(mesh.axes):
        route = cluster.route(np.moveaxis(positions, number, -1).reshape(-1, size).tolist())
        links[axis] = min((step.link.bandwidth for step in route), default=float("inf"))
        latency = max([latency, *(step.link.start + step.link.latency for step in route)])
    machine = cluster.machine
    return Rates(machine.flops_of, machine.memory_bandwidth, links, latency)


def rules_of(arguments: tuple[Held, ...], plan: Plan, mesh: Mesh) -> str:
    """The shardings of `arguments` as rules for annotate-shardings, one for those that are sharded alike.

    Gradients are sharded as their parameters. An argument without a name is left to Shardy.
    """
    names = [axis for axis, _ in mesh.axes]
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for each in arguments:
        if each.path and each.classes:
            alike.setdefault(plan.axes_of(each.classes, names), []).append(re.escape(plain_path(each.path)))
    joined = dict.fromkeys(axes for axes in chain.from_iterable(alike) if len(axes) > 1)
    head = ["[axes]", *(f"{_name(axes)} = [{', '.join(map(_quoted, axes))}]" for axes in joined)] if joined else []
    return "\n".join([*head, *chain.from_iterable(_rules(axes, paths) for axes, paths in alike.items())]) + "\n"


def _rules(dimensions: tuple[tuple[str, ...], ...], paths: list[str]) -> Iterator[str]:
    shards = (
        f"shard = [{', '.join(_quoted(_name(axes)) for axes in dimensions)}]" if any(dimensions) else "whole = true"
    )
    for role in ("any", "gradient"):
        yield f"\n[[rule]]\nregex = '^({'|'.join(paths)})$'\nrole = \"{role}\"\n{shards}"


def _name(axes: tuple[str, ...]) -> str:
    return "_".join(axes)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _choices(lowered: Any) -> Choices:
    module = lowered.compiler_ir()
    copy = ir.Module.parse(bytecode_of(module), module.context)
    Pipeline.parse("inline-calls").run(copy.operation)
    return choices_in(copy.operation)


def _best(choices: Choices, mesh: Mesh, rates: Rates, memory: int | None) -> Plan | None:
    together = 2 if len(choices.moves) + len(choices.sums) <= _EXACT_UP_TO else 1
    try:
        return best(choices, dict(mesh.axes), rates, memory=memory, together=together, time_limit=_SECONDS)
    except InfeasibleError:
        return None
