"""Schedules of pipelines as data, and a simulator for them (docs/pipelines.md).

from paropt.schedules import Costs, schedule, simulate

found = simulate(schedule("1f1b", stages=4, microbatches=8), Costs(F=1, B=2, W=1))
print(found.bubble, found.peak)
"""

from paropt.schedules.catalog import SCHEDULES, schedule
from paropt.schedules.costs import Costs
from paropt.schedules.run import Deadlock
from paropt.schedules.simulation import Event, Simulation, period, simulate, steady_bubble
from paropt.schedules.table import Instruction, Schedule, ScheduleError

__all__ = [
    "SCHEDULES",
    "Costs",
    "Deadlock",
    "Event",
    "Instruction",
    "Schedule",
    "ScheduleError",
    "Simulation",
    "period",
    "schedule",
    "simulate",
    "steady_bubble",
]
