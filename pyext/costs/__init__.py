"""The costs of steps: machines' figures, the time of collectives, and the step time of an executable (docs/costs.md).

from paropt.costs import cluster_of, collective_seconds, estimate, read_table

cluster = cluster_of("gpu:h100:1x2x8", read_table())
print(collective_seconds("all-reduce", 1 << 20, cluster.route([range(16)])))
print(estimate(hlo, cluster).seconds)
"""

from paropt.costs.clusters import Cluster, Route, cluster_of
from paropt.costs.collective_times import collective_seconds
from paropt.costs.machines import CostError, Link, Machine, read_table
from paropt.costs.step_time import Estimate, OpTime, estimate

__all__ = [
    "Cluster",
    "CostError",
    "Estimate",
    "Link",
    "Machine",
    "OpTime",
    "Route",
    "cluster_of",
    "collective_seconds",
    "estimate",
    "read_table",
]
