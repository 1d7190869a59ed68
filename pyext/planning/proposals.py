"""Candidates from integer linear programs: for each mesh the shardings of arguments that the model finds fastest.

The model proposes candidates, the compiler measures them: XLA may reshard otherwise than the model has it.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from math import inf, prod
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from paropt.costs.clusters import Cluster
from paropt.modules.module_io import bytecode_of
from paropt.passes.state.argument_roles import plain_path
from paropt.passes.support.pipeline import Pipeline
from paropt.planning.candidates import DEFAULT_POLICY, PROPOSED, Candidate, Mesh, factored
from paropt.planning.equal_layers import shared
from paropt.planning.ilp import InfeasibleError, Plan, Rates, best
from paropt.planning.path_globs import globs_over
from paropt.planning.strategies import WHOLE, Choices, Held, Move, choices_in

_SECONDS = 10.0  # for each program
_FEW = 4  # are compiled
# The model shards replicated arrays for nothing, where XLA computes them replicated: examples that are not over an axis
# are proposed for more than that.
_WORTH_IT = 0.95


class Proposal(NamedTuple):
    """A plan of the model, and the candidates that ask the compiler for it."""

    plan: Plan
    candidates: tuple[Candidate, ...]


def proposals(
    choices: Choices, cluster: Cluster, *, memory: int | None = None, progress: Callable[[str], None] = lambda _: None
) -> list[Candidate]:
    """The fastest few in the model, of all meshes over the cluster's devices, whose arguments fit `memory` (bytes per
    device); the fastest first.

    Meshes are `data` alone, and `data` x `model`, each factorization. Examples of batches are over all devices, over
    `data`, or as the program likes if it likes that much more.
    """
    choices = shared(choices)
    found: dict[str, Proposal] = {}
    for mesh in factored(cluster.size):
        plans = _plans(choices, mesh, rates_of(cluster, mesh), memory)
        progress(f"plan: shardings over {mesh}: {'found' if plans else 'none fit'}")
        for plan in plans:
            made = _candidates(choices, plan, mesh)
            if made:
                found.setdefault(made[0].rules, Proposal(plan, made))
    best_first = sorted(found.values(), key=lambda proposal: proposal.plan.seconds)
    return [candidate for proposal in best_first[:_FEW] for candidate in proposal.candidates]


def _plans(choices: Choices, mesh: Mesh, rates: Rates, memory: int | None) -> list[Plan]:
    """The best of the model with the examples over all axes, over the first, and, where it is worth it, with none of
    that said.
    """
    axes = dict(mesh.axes)
    found = []
    for over in dict.fromkeys((tuple(axes), tuple(axes)[:1])):
        found += _best(choices, axes, rates, memory, _examples_over(choices, axes, over))
    limit = min((plan.seconds for plan in found), default=inf) * _WORTH_IT
    return found + [plan for plan in _best(choices, axes, rates, memory, {}) if plan.seconds < limit]


def _examples_over(choices: Choices, axes: Mapping[str, int], over: tuple[str, ...]) -> dict[int, frozenset[str]]:
    """The axes of the classes that count examples, of those that the devices divide."""
    parts = prod(axes[axis] for axis in over)
    counting = {each.examples for each in choices.arguments} - {WHOLE}
    return {each: frozenset(over) for each in counting if choices.sizes[each] % parts == 0}


def _best(
    choices: Choices,
    axes: Mapping[str, int],
    rates: Rates,
    memory: int | None,
    pinned: Mapping[int, frozenset[str]],
) -> list[Plan]:
    try:
        return [best(choices, axes, rates, memory=memory, pinned=pinned, time_limit=_SECONDS)]
    except InfeasibleError:
        return []


def _candidates(choices: Choices, plan: Plan, mesh: Mesh) -> tuple[Candidate, ...]:
    """None where no argument is sharded: nothing is left for XLA to share."""
    rules = rules_of(choices, plan, mesh)
    if "shard = " not in rules:
        return ()
    policies = (DEFAULT_POLICY, "once") if "gather = " in rules else (DEFAULT_POLICY,)
    return tuple(Candidate(PROPOSED, mesh, rules, policy) for policy in policies)


def rates_of(cluster: Cluster, mesh: Mesh) -> Rates:
    """The speed of devices and links, where each axis of `mesh` is as fast as the slowest link that it crosses."""
    positions = np.arange(mesh.size).reshape([size for _, size in mesh.axes])
    links, latency = {}, 0.0
    for number, (axis, size) in enumerate(mesh.axes):
        route = cluster.route(np.moveaxis(positions, number, -1).reshape(-1, size).tolist())
        links[axis] = min((step.link.bandwidth for step in route), default=float("inf"))
        latency = max([latency, *(step.link.start + step.link.latency for step in route)])
    machine = cluster.machine
    return Rates(machine.flops_of, machine.memory_bandwidth, links, latency)


def rules_of(choices: Choices, plan: Plan, mesh: Mesh) -> str:
    """The shardings of the arguments as rules for annotate-shardings, one for those that are sharded alike.

    Gradients are sharded as their parameters. An argument without a name is left to Shardy.
    """
    names = [axis for axis, _ in mesh.axes]
    alike: dict[_Placed, list[str]] = {}
    for each in choices.arguments:
        if each.path and each.classes:
            alike.setdefault(_placed(each, choices, plan, names), []).append(plain_path(each.path))
    globs = globs_over(tuple(plain_path(each.path) for each in choices.arguments if each.path))
    used = chain.from_iterable((*placed.dimensions, placed.gathered) for placed in alike)
    joined = dict.fromkeys(axes for axes in used if len(axes) > 1)
    head = ["[axes]", *(f"{_name(axes)} = [{', '.join(map(_quoted, axes))}]" for axes in joined)] if joined else []
    rules = chain.from_iterable(_rules(placed, globs.key(paths)) for placed, paths in alike.items())
    return "\n".join([*head, *rules]) + "\n"


class _Placed(NamedTuple):
    dimensions: tuple[tuple[str, ...], ...]  # the axes that shard each; none where it is replicated, whatever its rank
    gathered: tuple[str, ...]  # those that shard it in memory only


def _placed(held: Held, choices: Choices, plan: Plan, names: list[str]) -> _Placed:
    """The sharding of an argument, and the part of it that each of its users gathers.

    XLA is told: it moves activations if one reader keeps an axis that others gather.
    """
    own = set(held.classes) - {WHOLE}
    reads = [each for each in choices.moves if own.issuperset(made := set(each.made) - {WHOLE}) and made]

    def gathers(each: Move, axis: str) -> bool:
        pairs = list(zip(each.made, each.read, strict=True))
        is_sharded = any((a, axis) in plan.sharded for a, _ in pairs)
        return is_sharded and not any((a, axis) in plan.sharded and (b, axis) in plan.sharded for a, b in pairs)

    dimensions = tuple(plan.axes_of(held.classes, names))
    return _Placed(
        dimensions if any(dimensions) else (),
        tuple(axis for axis in names if any(gathers(each, axis) for each in reads)),
    )


def _rules(placed: _Placed, about: str) -> Iterator[str]:
    dimensions = ", ".join(_quoted(_name(axes)) for axes in placed.dimensions)
    shards = f"shard = [{dimensions}]" if placed.dimensions else "whole = true"
    gather = f"\ngather = {_quoted(_name(placed.gathered))}" if placed.gathered else ""
    for role, more in (("any", gather), ("gradient", "")):
        yield f'\n[[rule]]\n{about}\nrole = "{role}"\n{shards}{more}'


def _name(axes: tuple[str, ...]) -> str:
    return "_".join(axes)


def _quoted(text: str) -> str:
    return f'"{text}"'


def choices_of(module: ir.Module) -> Choices:
    """The choices that a module leaves that names no mesh, before its calls are inlined."""
    copy = ir.Module.parse(bytecode_of(module), module.context)
    Pipeline.parse("inline-calls").run(copy.operation)
    return choices_in(copy.operation)
