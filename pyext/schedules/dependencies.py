"""The instructions that must have ended before one starts, whatever the schedule.

The chunks of a model are a chain: forwards run along it, backwards against it. A value that skips chunks adds nothing,
since the forward of a chunk waits for those of all chunks before it.
"""

from collections import defaultdict

from paropt.schedules.table import Instruction, Schedule


class Dependencies:
    """The dependencies of the instructions of one schedule; the order on a device is not among them."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._gradients: dict[int, list[Instruction]] = defaultdict(list)
        for instruction in schedule.instructions():
            if instruction.kind == "W" or self.is_whole(instruction):
                self._gradients[instruction.chunk].append(instruction)

    def is_whole(self, instruction: Instruction) -> bool:
        """Whether it is a backward that takes the gradient of the weights, too: no other instruction does."""
        return instruction.kind == "B" and instruction._replace(kind="W") not in self._schedule.places

    def of(self, instruction: Instruction) -> list[Instruction]:
        match instruction.kind:
            case "F":
                return self._of_forward(instruction)
            case "B":
                return self._of_backward(instruction)
            case "W":
                return [instruction._replace(kind="B")]
            case "U":
                return self._of_update(instruction)

    def _of_forward(self, forward: Instruction) -> list[Instruction]:
        """Attention of a token slice reads the slices before it."""
        found = []
        if forward.chunk:
            found.append(forward._replace(chunk=forward.chunk - 1))
        if forward.token_slice:
            found.append(forward._replace(token_slice=forward.token_slice - 1))
        return found

    def _of_backward(self, backward: Instruction) -> list[Instruction]:
        """The values that later token slices read of this one have gradients from them."""
        found = [backward._replace(kind="F")]
        if backward.chunk + 1 < self._schedule.chunks:
            found.append(backward._replace(chunk=backward.chunk + 1))
        if backward.token_slice + 1 < self._schedule.token_slices:
            found.append(backward._replace(token_slice=backward.token_slice + 1))
        return found

    def _of_update(self, update: Instruction) -> list[Instruction]:
        chunks = range(self._schedule.chunks) if self._schedule.update == "together" else [update.chunk]
        gradients = [gradient for chunk in chunks for gradient in self._gradients[chunk]]
        return [gradient for gradient in gradients if gradient.microbatch <= update.microbatch]
