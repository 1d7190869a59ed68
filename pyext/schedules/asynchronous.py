"""Schedules that update weights after each micro-batch, without waiting for those under way.

They compute another step than the program that they are made of: the gradient of a micro-batch is taken at weights that
lack the updates of the micro-batches before it. All other schedules accumulate all gradients before one update, as the
program says.
"""

from paropt.schedules.one_direction import alternating
from paropt.schedules.table import Instruction, Kind, Schedule


def pipedream(stages: int, microbatches: int) -> Schedule:
    """1F1B with an update after each backward, and the weights of each forward kept for its backward (stashed).

    Its changes: each gradient is that of one version of the weights within a chunk, but the versions differ from chunk
    to chunk, and stage `s` updates with gradients that are `S - 1 - s` updates old. There are as many updates as
    micro-batches, each by one gradient. It keeps `S - s` versions of the weights in stage `s`.
    """
    return _updated_at_once("pipedream", stages, microbatches, stashed=True)


def ampnet(stages: int, microbatches: int) -> Schedule:
    """The same order, without stashed weights: a backward uses the weights as they are by then.

    Its changes beyond `pipedream`: in stage `s` the backward multiplies by weights that are `S - 1 - s` updates newer
    than those that its forward used, so that its result is the gradient of no function.
    """
    return _updated_at_once("ampnet", stages, microbatches, stashed=False)


def _updated_at_once(name: str, stages: int, microbatches: int, *, stashed: bool) -> Schedule:
    devices = [_updated(alternating(stage, stages - stage, microbatches)) for stage in range(stages)]
    return Schedule(name, tuple(devices), (tuple(range(stages)),), microbatches, update="by chunk", stashed=stashed)


def _updated(instructions: list[Instruction]) -> tuple[Instruction, ...]:
    after: dict[Kind, tuple[Kind, ...]] = {"B": ("B", "U")}
    return tuple(each._replace(kind=kind) for each in instructions for kind in after.get(each.kind, (each.kind,)))
