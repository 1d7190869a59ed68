"""Schedules in which two micro-batches meet on a device: two copies of the model that run in opposite directions, or
one that goes down the devices and comes back."""

from paropt.schedules.one_direction import synchronous
from paropt.schedules.table import Instruction, Kind, Schedule


def chimera(stages: int, microbatches: int) -> Schedule:
    """Two copies of the model, one down and one up the devices, each with half of the micro-batches.

    The gradients of both copies are added before the update. In groups of as many micro-batches as there are stages,
    one group after the other: in slots of equal length, chunk `c` runs the `j`-th forward of its direction in slot
    `c + 2j`, and the backward in slot `2S - 1 - c + 2j`, and the two directions never meet on a device.
    """
    homes = (tuple(range(stages)), tuple(reversed(range(stages))))
    slots: list[list[tuple[int, Instruction]]] = [[] for _ in range(stages)]
    for microbatch in range(microbatches):
        group, place = divmod(microbatch, stages)
        size = min(stages, microbatches - group * stages)
        direction, turn = divmod(place, size // 2)
        for chunk in range(stages):
            first = 2 * stages * group + 2 * turn
            device = slots[homes[direction][chunk]]
            device.append((first + chunk, Instruction("F", chunk, microbatch, direction)))
            device.append((first + 2 * stages - 1 - chunk, Instruction("B", chunk, microbatch, direction)))
    return synchronous("chimera", [[each for _, each in sorted(slot)] for slot in slots], homes, microbatches)


def dualpipe(stages: int, microbatches: int) -> Schedule:
    """Two copies of the model in opposite directions, and forwards of one run beside backwards of the other.

    Half of the micro-batches go each way. While a device sends for the one, it computes the other: a pair of a
    forward and a whole backward takes `pair` in the costs.
    """
    homes = (tuple(range(stages)), tuple(reversed(range(stages))))
    half = stages // 2
    devices, paired = [], set[Instruction]()
    for device in range(stages):
        first = int(device >= half)  # the direction that comes in earlier
        rank = min(device, stages - 1 - device)
        sides = [(homes[way].index(device), way, way * (microbatches // 2)) for way in (first, 1 - first)]
        writer = _Dual(sides, rank, half, microbatches // 2)
        devices.append(writer.written())
        paired |= writer.paired
    return synchronous("dualpipe", devices, homes, microbatches, paired=frozenset(paired))


def dualpipe_v(stages: int, microbatches: int) -> Schedule:
    """DualPipe cut in half: one copy of the model, whose chunks go down the devices and come back.

    Device `d` has chunks `d` and `2S - 1 - d`, and on both the work that DualPipe for `2S` devices does on device `d`.
    """
    homes = ((*range(stages), *reversed(range(stages))),)
    devices, paired = [], set[Instruction]()
    for device in range(stages):
        sides = [(device, 0, 0), (2 * stages - 1 - device, 0, 0)]
        writer = _Dual(sides, device, stages, microbatches)
        devices.append(writer.written())
        paired |= writer.paired
    return synchronous("dualpipev", devices, homes, microbatches, paired=frozenset(paired))


class _Dual:
    """Writes the order of one device: the eight parts of DualPipe.

    `sides` has, for the side that comes in earlier and the other, chunk, direction and first micro-batch.
    """

    def __init__(self, sides: list[tuple[int, int, int]], rank: int, ranks: int, microbatches: int) -> None:
        self._sides, self._rank, self._ranks, self._microbatches = sides, rank, ranks, microbatches
        self._done = {(kind, side): 0 for kind in "FB" for side in (0, 1)}
        self._waiting: list[Instruction] = []  # gradients of weights, to be taken in order
        self._written: list[Instruction] = []
        self.paired: set[Instruction] = set()

    def written(self) -> list[Instruction]:
        outer, inner = self._ranks - self._rank - 1, self._rank + 1  # towards the middle, and from there
        for _ in range(2 * outer):
            self._one("F", 0)
        for _ in range(inner):
            self._one("F", 0)
            self._one("F", 1)
        for _ in range(outer):
            self._backward(1, split=True)
            self._weights()
            self._one("F", 1)
        for turn in range(self._microbatches - 2 * self._ranks + inner):
            self._pair(0, 1, beside=turn > 0 or outer > 0)
            self._pair(1, 0)
        for _ in range(outer):
            self._backward(1)
            self._pair(1, 0)
        self._drain(inner)
        for _ in range(outer):
            self._weights()
            self._backward(0, split=True)
        for _ in range(inner):
            self._weights()
        return self._written

    def _drain(self, count: int) -> None:
        """Backwards of both sides in turn; those of the second half leave gradients of weights for later."""
        for turn in range(2 * count):
            self._backward(1 - turn % 2, split=turn >= count)

    def _pair(self, forward: int, backward: int, *, beside: bool = True) -> None:
        """The device in the middle does not run its first pair at the same time: the backward waits for the forward."""
        first = self._one("F", forward)
        self._one("B", backward)
        if beside:
            self.paired.add(first)

    def _backward(self, side: int, *, split: bool = False) -> None:
        made = self._one("B", side)
        if split:
            self._waiting.append(made._replace(kind="W"))

    def _weights(self) -> None:
        self._written.append(self._waiting.pop(0))

    def _one(self, kind: Kind, side: int) -> Instruction:
        chunk, direction, first = self._sides[side]
        made = Instruction(kind, chunk, first + self._done[kind, side], direction)
        self._done[kind, side] += 1
        self._written.append(made)
        return made
