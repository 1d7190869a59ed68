"""Which processes run the stages of a pipeline: those of the devices of each place."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
from jax.sharding import Mesh

from paropt.stages.step_plan import StageError


@dataclass(frozen=True)
class Owners:
    """Of each place its processes, which run its programs and hold its arrays. One process has all where devices are
    those of a target, which are not there.
    """

    places: tuple[tuple[int, ...], ...]

    @property
    def processes(self) -> tuple[int, ...]:
        return tuple(sorted({process for place in self.places for process in place}))

    @property
    def several(self) -> bool:
        return len(self.processes) > 1

    def here(self, place: int) -> bool:
        """Whether this process runs the programs there."""
        return not self.several or jax.process_index() in self.places[place]

    def speaks(self, place: int) -> bool:
        """Whether this process tells the others the facts that they need of it."""
        return self.places[place][0] == jax.process_index()

    def crossing(self, source: int, place: int) -> bool:
        """Whether a transfer is between processes, and so a program of both."""
        return self.several and len({*self.places[source], *self.places[place]}) > 1


def owners_of(meshes: Sequence[Mesh]) -> Owners:
    """Raises StageError for a mesh without devices of this process."""
    devices = [device for mesh in meshes for device in mesh.devices.flat]
    if jax.process_count() == 1 or not {*devices} <= {*jax.devices(devices[0].platform)}:
        return Owners(((jax.process_index(),),) * len(meshes))
    owners = Owners(tuple(tuple(sorted({each.process_index for each in mesh.devices.flat})) for mesh in meshes))
    if jax.process_index() not in owners.processes:
        raise StageError(f"mesh: it has no device of process {jax.process_index()}, which calls the pipeline")
    return owners
