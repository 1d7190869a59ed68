"""The GPT models of Alpa's benchmark, and the plans that were published for them.

Source: github.com/alpa-projects/alpa, benchmark/alpa/suite_manual_gpt.py and suite_auto_gpt.py.
"""

from typing import NamedTuple

from gpt_programs import Gpt

from paropt.planning.candidates import Candidate, Mesh, StageMesh, Stages

SHAPES = {1: "1x1x1", 2: "1x1x2", 4: "1x1x4", 8: "1x1x8", 16: "1x2x8", 32: "1x4x8", 64: "1x8x8"}  # of hosts with 8


class Published(NamedTuple):
    """A model, and its plan: a mesh for each stage, with its part of the FLOPs."""

    model: Gpt
    micro_batches: int
    stages: tuple[StageMesh, ...]

    @property
    def devices(self) -> int:
        """Of all stages."""
        return sum(stage.size for stage in self.stages)

    def candidate(self, micro_batches: int) -> Candidate:
        """The plan with so many micro-batches."""
        stages = Stages("1f1b", micro_batches, None, (), self.stages)
        return Candidate("published", Mesh((("device", self.devices),)), "", "keep-shards", stages)


PUBLISHED = {
    each.model.name: each
    for each in (
        Published(Gpt("350M", 1024, 24, 16), 512, (StageMesh(1, 1, 1.0),)),
        Published(Gpt("760M", 1536, 24, 16), 128, (StageMesh(1, 1, 0.5),) * 2),
        Published(Gpt("1.3B", 2048, 24, 32), 128, (StageMesh(2, 1, 0.5),) * 2),
        Published(Gpt("2.6B", 2560, 32, 32), 128, (*(StageMesh(2, 1, 0.25),) * 2, StageMesh(4, 1, 0.5))),
        Published(Gpt("6.7B", 4096, 32, 32), 64, (StageMesh(2, 4, 0.5),) * 2),
        Published(Gpt("15B", 5120, 48, 40), 128, (StageMesh(2, 4, 0.25),) * 4),
        Published(Gpt("39B", 8192, 48, 64), 1024, (StageMesh(1, 4, 1 / 16),) * 16),
    )
}
