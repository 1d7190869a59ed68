"""An estimate of a pipeline whose stages may have different devices, each with tensor parallelism inside.

Each stage takes its share of what the step takes on its devices: of the collectives inside micro-batches, too. The
micro-batches follow one another (1F1B): the step takes as long as one of them in all stages, and as all others in the
slowest. Activations and their gradients go to the next stage beside compute, but for those that fill and drain.

Sources: Alpa (Zheng et al., OSDI 2022), section 5; Megatron-LM (Narayanan et al., SC 2021).
Tests: test/unit/pyext/planning/test_stage_estimates.py.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import NamedTuple

from paropt.costs.clusters import Cluster
from paropt.costs.collective_times import collective_seconds
from paropt.passes.state.rule_presets import PRESETS
from paropt.planning.candidates import STAGE, Candidate, Mesh, StageMesh, Stages, zero1_with_tensor
from paropt.planning.estimates import Estimated, Modelled, link_bytes
from paropt.planning.layouts import Layouts
from paropt.planning.strategies import Choices

_STARTED = 4  # programs and transfers of a stage for each micro-batch: forward, backward, and what each sends on


class _Stage(NamedTuple):
    """What a stage takes, in seconds but for its memory."""

    estimate: Estimated  # of its share of the step
    each: float  # micro-batch
    send: float  # of one micro-batch's activations to the next stage


def meshes_of(candidate: Candidate, choices: Choices) -> tuple[StageMesh, ...]:
    """The devices and shares of the stages of a candidate: equal devices, and layers as even as they can be."""
    assert candidate.stages is not None
    if candidate.stages.meshes:
        return candidate.stages.meshes
    sizes = dict(candidate.mesh.axes)
    return tuple(
        StageMesh(sizes.get("data", 1), sizes.get("model", 1), share) for share in shares(choices, sizes[STAGE])
    )


def shares(choices: Choices, stages: int) -> tuple[float, ...]:
    """Each stage's part of the FLOPs, with whole layers in each; what is in no layer is in the last, as the loss is."""
    layers = choices.layers
    runs = layers.microbatches * max(1, layers.depth)
    whole = sum(each.flops * each.executions for each in choices.work)
    inside = sum(each.flops * each.executions for each in choices.work if layers.depth and each.executions % runs == 0)
    layer, rest = inside / max(1, layers.depth), whole - inside
    if stages == 1 or not whole or layers.depth < stages:
        return (1 / stages,) * stages
    best = min(
        (_counts(layers.depth, stages, last) for last in range(1, layers.depth - stages + 2)),
        key=lambda counts: (max(*(count * layer for count in counts[:-1]), counts[-1] * layer + rest), -counts[-1]),
    )
    return tuple((count * layer + (rest if number == stages - 1 else 0.0)) / whole for number, count in enumerate(best))


def _counts(layers: int, stages: int, last: int) -> tuple[int, ...]:
    """The layers of each stage: `last` in the last, the others as even as they can be."""
    few, more = divmod(layers - last, stages - 1)
    return (*(few + (number < more) for number in range(stages - 1)), last)


def staged_estimate(layouts: Layouts, candidate: Candidate) -> Estimated:
    """Of the stage that is busy longest the times, of that which sends most the bytes, of the fullest the memory."""
    meshes = meshes_of(candidate, layouts.choices)
    microbatches = layouts.choices.layers.microbatches
    ends = list(accumulate(mesh.size for mesh in meshes))
    found = [_stage(layouts, candidate, meshes, number, end) for number, end in enumerate(ends)]
    fill = sum(stage.each + 2 * stage.send for stage in found)
    busiest = max(found, key=lambda stage: stage.each)
    steady = max(max(stage.each, 2 * stage.send) for stage in found)
    once = max(stage.estimate.once for stage in found)
    hosts = [{unit.host for unit in _part(layouts.cluster, meshes, n).units} for n in range(len(meshes))]
    started = max(Counter(host for own in hosts for host in own).values()) * _STARTED * microbatches
    by_host = started * layouts.cluster.machine.program_start
    seconds = max(fill + (microbatches - 1) * steady + once, by_host)
    busy = busiest.estimate
    own = busy.compute + busy.communication - busy.hidden
    most = max(found, key=lambda stage: stage.estimate.bytes).estimate
    return busy._replace(
        memory=max(stage.estimate.memory for stage in found),
        sent=most.sent,
        by_link=most.by_link,
        waiting=max(0.0, seconds - own),
    )


def _stage(layouts: Layouts, candidate: Candidate, meshes: Sequence[StageMesh], number: int, end: int) -> _Stage:
    mesh, microbatches = meshes[number], layouts.choices.layers.microbatches
    modelled = _modelled(layouts, candidate, mesh, _part(layouts.cluster, meshes, number))
    whole = modelled.estimate()
    in_flight = min(microbatches, len(meshes) - number)
    crossing = sum(each.bytes for each in layouts.choices.layers.crossing)
    send, sent = 0.0, 0.0
    links: dict[str, float] = {}
    for other, edge in ((number + 1, end), (number - 1, end - mesh.size)):  # activations on, their gradients back
        if 0 <= other < len(meshes):
            payload = crossing / min(mesh.data, meshes[other].data)  # devices along `model` have, and send, the same
            route = layouts.cluster.route([[edge - 1, edge]])
            send = collective_seconds("collective-permute", payload, route) if other > number else send
            links = _added(links, dict(link_bytes("collective-permute", payload * microbatches, route)))
            sent += payload * microbatches
    estimate = Estimated(
        compute=mesh.share * whole.compute,
        communication=mesh.share * whole.communication,
        hidden=mesh.share * whole.hidden,
        once=mesh.share * whole.once,
        memory=modelled.memory_of_stage(mesh.share, in_flight),
        sent=_added(_scaled(whole.sent, mesh.share), {"collective-permute": sent}),
        by_link=_added(_scaled(whole.by_link, mesh.share), links),
    )
    each = (estimate.seconds - estimate.once) / microbatches
    return _Stage(estimate, each, send)


def _modelled(layouts: Layouts, candidate: Candidate, mesh: StageMesh, part: Cluster) -> Modelled:
    """The whole step on the devices of a stage."""
    over = Mesh((("data", mesh.data), ("model", mesh.model))) if mesh.model > 1 else Mesh((("data", mesh.data),))
    rules = candidate.rules or (zero1_with_tensor() if mesh.model > 1 else PRESETS["zero1"])
    return Modelled(layouts.choices, part, over, candidate.policy, layouts.given(over, rules))


def _part(cluster: Cluster, meshes: Sequence[StageMesh], number: int) -> Cluster:
    """The devices of a stage: stages stand one behind the other."""
    start = sum(mesh.size for mesh in meshes[:number])
    return replace(cluster, units=cluster.units[start : start + meshes[number].size])


def _scaled(sizes: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: size * factor for name, size in sizes.items()}


def _added(*several: Mapping[str, float]) -> dict[str, float]:
    """The sums by name, without those that are 0."""
    total = defaultdict[str, float](float)
    for name, size in chain.from_iterable(sizes.items() for sizes in several):
        total[name] += size
    return {name: size for name, size in total.items() if size}


def grid(devices: int, choices: Choices) -> Iterator[Candidate]:
    """Megatron's: data x tensor x pipeline, all factorizations of the devices that have micro-batches and layers."""
    layers = choices.layers
    for stages in divisors(devices):
        if stages > min(layers.depth, layers.microbatches):
            continue
        for model in divisors(devices // stages):
            data = devices // stages // model
            meshes = tuple(StageMesh(data, model, share) for share in shares(choices, stages))
            yield Candidate(
                "grid",
                Mesh((("device", devices),)),
                "",
                "keep-shards",
                Stages("1f1b", layers.microbatches, None, (), meshes),
            )


def divisors(number: int) -> list[int]:
    """From 1 to `number`."""
    return [each for each in range(1, number + 1) if number % each == 0]
