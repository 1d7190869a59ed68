"""The time of a collective by the alpha-beta model: latency per hop, and bytes over bandwidth.

n members, S bytes (of all-gather the result, else the operand), alpha = latency, B = bandwidth, the bytes per second
that leave a device:

                          switch                                ring of links
    all-reduce            2 (n-1) alpha + 2 (n-1)/n S/B         2 floor(n/2) alpha + 2 (n-1)/n S/B
      as a tree           2 log2(n) alpha + 2 S/B
    all-gather            (n-1) alpha +   (n-1)/n S/B             floor(n/2) alpha +   (n-1)/n S/B
    reduce-scatter        (n-1) alpha +   (n-1)/n S/B             floor(n/2) alpha +   (n-1)/n S/B
    all-to-all            (n-1) alpha +   (n-1)/n S/B             floor(n/2) alpha + max(n/4, (n-1)/n) S/B
    collective-permute          alpha +           S/B                        alpha + 2 S/B
    collective-broadcast  (n-1) alpha +           S/B                  (n-1) alpha +   S/B

Devices on a ring of links send to both sides, half of B to each: so the furthest data comes half way round, a
permutation has one link, and half of a broadcast goes all the way round on each side. The largest `start` of the links
is added once: a collective is one kernel. Factors of S/B are those of the bus bandwidth of NCCL's tests.

Groups that span two levels, m members inside and k outside, are hierarchical: an all-reduce reduce-scatters inside,
all-reduces 1/m of the bytes outside, and all-gathers inside.

Sources: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH (2005);
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md; trees and starts as in NCCL's src/graph/tuning.cc
(of a broadcast it makes rings only); rings of links: https://github.com/jax-ml/scaling-book/blob/main/sharding.md.
"""

import math
from numbers import Real

from paropt.costs.clusters import Route, Step
from paropt.costs.machines import CostError, near_or_all
from paropt.hlo.census import KINDS

# A send crosses one link, as a permutation does; a ragged all-to-all sends at most as much as an equal one.
_LIKE = {"send": "collective-permute", "ragged-all-to-all": "all-to-all"}


def collective_seconds(kind: str, payload: float, route: Route) -> float:
    """Seconds of one collective of `kind` (as the census names it) with `payload` bytes per device, along `route`.

    A group of one device takes none. Raises CostError for a kind that is not known, bytes below 0, or another route
    than `Cluster.route` returns.
    """
    _require_known(kind, payload, route)
    if not route:
        return 0.0
    return max(step.link.start for step in route) + _after_start(_LIKE.get(kind, kind), payload, route)


def _require_known(kind: str, payload: float, route: Route) -> None:
    if kind not in KINDS:
        raise CostError(f"collective_seconds: no collective {kind!r}{near_or_all(str(kind), KINDS)}")
    if not isinstance(payload, Real) or not payload >= 0:
        raise CostError(f"collective_seconds: expected a number of bytes as payload, not {payload!r}")
    if not isinstance(route, tuple) or not all(isinstance(step, Step) for step in route):
        raise CostError(f"collective_seconds: expected what `Cluster.route` returns as route, not {route!r}")


def _after_start(kind: str, payload: float, route: Route) -> float:
    match kind:
        case "all-reduce":
            return _all_reduce(payload, route)
        case "all-gather" | "reduce-scatter":
            return _gather(payload, route)
        case "all-to-all":
            return sum(_all_to_all(payload, step) for step in route)  # each level has all bytes but those that stay
        case "collective-permute":
            return _permute(payload, route[-1])  # the outermost: some pair needs it
        case "collective-broadcast":
            return sum((n - 1) * link.latency + payload / link.bandwidth for link, n in route)
    raise AssertionError(kind)


def _hops(step: Step) -> int:
    """To the furthest member: round a ring of links both ways, else one member after the other."""
    return step.members // 2 if step.link.topology == "ring" else step.members - 1


def _all_reduce(payload: float, route: Route) -> float:
    inner, *outer = route
    if not outer:
        return _all_reduce_on(payload, inner)
    return 2 * _gather(payload, (inner,)) + _all_reduce(payload / inner.members, tuple(outer))


def _all_reduce_on(payload: float, step: Step) -> float:
    link, n = step
    ring = 2 * _hops(step) * link.latency + 2 * (n - 1) / n * payload / link.bandwidth
    tree = 2 * math.ceil(math.log2(n)) * link.latency + 2 * payload / link.bandwidth
    return min({"ring": ring, "tree": tree}[name] for name in link.algorithms)


def _gather(payload: float, route: Route) -> float:
    """An all-gather, or in the reverse order a reduce-scatter: the outer levels have 1/m of the bytes."""
    seconds = 0.0
    for step in route:
        link, n = step
        seconds += _hops(step) * link.latency + (n - 1) / n * payload / link.bandwidth
        payload /= n
    return seconds


def _all_to_all(payload: float, step: Step) -> float:
    """On a ring of links bytes pass n/4 links on average, and share them."""
    link, n = step
    share = max(n / 4, (n - 1) / n) if link.topology == "ring" else (n - 1) / n
    return _hops(step) * link.latency + share * payload / link.bandwidth


def _permute(payload: float, step: Step) -> float:
    """To a neighbour, by one of the two links of a ring of links."""
    link, _ = step
    return link.latency + payload / (link.bandwidth / 2 if link.topology == "ring" else link.bandwidth)
