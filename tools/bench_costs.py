"""All that the page says of what rewriting costs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench_growth import Growth, measure_growth, walks_and_lists
from bench_rewrite import Part, Rewrite, Share, measure, measure_parts, measure_shares


class Costs(NamedTuple):
    """What rewriting takes, of whole programs, of each stage, of many of the same."""

    rewrites: Sequence[Rewrite]
    shares: Sequence[Share]
    parts: Sequence[Part] = ()
    growths: Sequence[Growth] = ()
    loops: int = 0  # work-list loops outside of the engine
    lists: int = 0  # lists of ops outside of the op table


def measure_costs(progress: Callable[[str], None]) -> Costs:
    rewrites = list(measure(progress))
    shares = list(measure_shares(progress))
    return Costs(rewrites, shares, measure_parts(progress), measure_growth(progress), *walks_and_lists())
