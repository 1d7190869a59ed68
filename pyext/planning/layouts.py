"""The estimate of each candidate of a step: its rules are applied to the step's arguments, and spread from there.

Tests: test/unit/pyext/planning/test_estimates.py.
"""

from dataclasses import dataclass, field

from paropt.costs.clusters import Cluster
from paropt.planning.candidates import Candidate, Mesh
from paropt.planning.estimates import Estimated, Modelled
from paropt.planning.sharded_programs import Step, module_by_rules, specs_in
from paropt.planning.spread_shardings import Dimensions
from paropt.planning.strategies import Choices


@dataclass
class Layouts:
    """Of one step on one cluster; rules are applied once for each mesh."""

    step: Step
    choices: Choices
    cluster: Cluster
    _given: dict[tuple[Mesh, str], dict[int, Dimensions]] = field(default_factory=dict)

    def estimate(self, candidate: Candidate) -> Estimated:
        """Of a candidate without stages. Raises PipelineError for rules that are wrong."""
        return self.modelled(candidate).estimate()

    def modelled(self, candidate: Candidate) -> Modelled:
        """The step as the candidate lays it out."""
        given = self.given(candidate.mesh, candidate.rules)
        return Modelled(self.choices, self.cluster, candidate.mesh, candidate.policy, given)

    def given(self, mesh: Mesh, rules: str) -> dict[int, Dimensions]:
        """The axes that shard each argument, by its number."""
        if (mesh, rules) not in self._given:
            self._given[mesh, rules] = dict(enumerate(specs_in(module_by_rules(self.step, mesh, rules))))
        return self._given[mesh, rules]
