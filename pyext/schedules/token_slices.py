"""Schedules that cut sequences, too."""

from paropt.schedules.one_direction import synchronous
from paropt.schedules.table import Instruction, Schedule


def terapipe(stages: int, microbatches: int, token_slices: int) -> Schedule:
    """GPipe over token slices: forwards from the first slice of a sequence on, backwards from the last.

    For models in which a token depends on earlier ones only, such as causal attention. The values that later slices
    read of a slice (its keys and values) are kept, and have gradients from all of them: the sums, and so the step, stay
    the same.
    """
    slices = range(token_slices)
    devices = [
        [Instruction("F", stage, m, 0, k) for m in range(microbatches) for k in slices]
        + [Instruction("B", stage, m, 0, k) for m in range(microbatches) for k in reversed(slices)]
        for stage in range(stages)
    ]
    return synchronous("terapipe", devices, (tuple(range(stages)),), microbatches, token_slices=token_slices)
