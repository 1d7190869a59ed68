"""Schedules that fill the bubble with gradients of the weights, which nothing waits for but the update.

Qi et al. 2023, arXiv:2401.10241.
"""

from dataclasses import replace

from paropt.schedules.one_direction import synchronous
from paropt.schedules.table import KINDS, Instruction, Schedule


def zb_h1(stages: int, microbatches: int) -> Schedule:
    """1F1B in which stage `s` is `s` weight gradients behind: no more memory than 1F1B has in its first stage."""
    ahead = [stages - stage for stage in range(stages)]
    return _delayed("zb-h1", microbatches, ahead, behind=list(range(stages)))


def zb_h2(stages: int, microbatches: int) -> Schedule:
    """Twice as many forwards ahead, and no bubble in a row of steps, at twice the memory of 1F1B.

    It needs updates by chunk: a device begins the next step while others still work on this one. A norm over all
    gradients is then known after the update only, and an update that should not have been is taken back and made again
    (the paper's post-validation of the optimizer).
    """
    ahead = [2 * (stages - stage) - 1 for stage in range(stages)]
    made = _delayed("zb-h2", microbatches, ahead, behind=[2 * stage for stage in range(stages)])
    return replace(made, update="by chunk")


def _delayed(name: str, microbatches: int, ahead: list[int], behind: list[int]) -> Schedule:
    """1F1B with so many forwards ahead, and weight gradients so many micro-batches behind, in each stage."""
    stages = range(len(ahead))
    devices = [_stage(stage, microbatches, min(microbatches, ahead[stage]), behind[stage]) for stage in stages]
    return synchronous(name, devices, (tuple(stages),), microbatches)


def _stage(stage: int, microbatches: int, ahead: int, behind: int) -> list[Instruction]:
    found = [Instruction("F", stage, m) for m in range(ahead)]
    for m in range(microbatches):
        found.append(Instruction("B", stage, m))
        if m >= behind:
            found.append(Instruction("W", stage, m - behind))
        if m + ahead < microbatches:
            found.append(Instruction("F", stage, m + ahead))
    return found + [Instruction("W", stage, m) for m in range(max(0, microbatches - behind), microbatches)]


def zb_v(stages: int, microbatches: int) -> Schedule:
    """Two chunks on each device, placed as a V: the first device has the first and the last chunk.

    No bubble in a row of steps where forward, backward and weight gradient take the same time, with the memory of
    1F1B. Updates are by chunk, as in `zb_h2`. The handcrafted order for equal times.
    """
    homes = ((*range(stages), *reversed(range(stages))),)
    devices = [_Writer(device, stages, microbatches).written() for device in range(stages)]
    return replace(synchronous("zb-v", devices, homes, microbatches), update="by chunk")


class _Writer:
    """Writes the order of one device: each kind of each chunk takes the micro-batches in turn."""

    def __init__(self, device: int, stages: int, microbatches: int) -> None:
        self._device, self._stages, self._microbatches = device, stages, microbatches
        self._chunks = (device, 2 * stages - 1 - device)
        self._done = {(kind, half): 0 for kind in "FBW" for half in (0, 1)}
        self._written: list[Instruction] = []

    def written(self) -> list[Instruction]:
        self._warm_up()
        while self._done["F", 1] < max(self._done["F", 0], self._full):
            self._steady()
        self._cool_down()
        return self._written

    @property
    def _full(self) -> int:
        """The order is that of so many micro-batches at least; those beyond the existing ones stay out."""
        return max(self._microbatches, 2 * self._stages - 1)

    def _warm_up(self) -> None:
        self._write("F0", 2 * (self._stages - self._device) - 1)
        self._write("F1 F0", self._device)
        self._write("F1 B1 W1", self._stages - self._device)

    def _steady(self) -> None:
        if self._done["F", 0] < self._full:
            self._write("F0")
        self._write("B0 W0 F1 B1 W1")

    def _cool_down(self) -> None:
        self._write("B0 B1", self._device)
        self._write("B0 W0", self._stages - self._device)
        for half in (1, 0):
            self._write(f"W{half}", self._done["B", half] - self._done["W", half])

    def _write(self, pattern: str, times: int = 1) -> None:
        for name in pattern.split() * times:
            kind, half = KINDS["FBW".index(name[0])], int(name[1])
            microbatch = self._done[kind, half]
            self._done[kind, half] += 1
            if microbatch < self._microbatches:
                self._written.append(Instruction(kind, self._chunks[half], microbatch))
