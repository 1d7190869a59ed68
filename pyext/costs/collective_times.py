"""The time of a collective by the alpha-beta model: latency per hop, and bytes over bandwidth.

n members, S bytes (of all-gather the result, else the operand), alpha = latency, B = bandwidth; `start` is added once
for each level:

    all-reduce          ring  2 (n-1) alpha + 2 (n-1)/n S/B      tree  2 log2(n) alpha + 2 S/B
    all-gather          ring    (n-1) alpha +   (n-1)/n S/B
    reduce-scatter      ring    (n-1) alpha +   (n-1)/n S/B
    all-to-all                  (n-1) alpha +   (n-1)/n S/B      on a ring of links  n/2 alpha + max(n/4, (n-1)/n) S/B
    collective-permute                alpha +           S/B
    collective-broadcast  ring  (n-1) alpha +           S/B      tree    log2(n) (alpha + S/B)

Groups that span two levels, m members inside and k outside, are hierarchical: an all-reduce reduce-scatters inside,
all-reduces 1/m of the bytes outside, and all-gathers inside.

Sources: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH (2005); NCCL.
"""

import math

from paropt.costs.clusters import Route, Step

# A send crosses one link, as a permutation does; a ragged all-to-all sends at most what an equal one does.
_LIKE = {"send": "collective-permute", "ragged-all-to-all": "all-to-all"}


def collective_seconds(kind: str, payload: float, route: Route) -> float:
    """Seconds of one collective of `kind` (as the census names it) with `payload` bytes per device, along `route`.

    A group of one device takes none. Raises KeyError for a kind that is not known.
    """
    if not route:
        return 0.0
    match _LIKE.get(kind, kind):
        case "all-reduce":
            return _all_reduce(payload, route)
        case "all-gather" | "reduce-scatter":
            return _gather(payload, route)
        case "all-to-all":
            return _all_to_all(payload, route)
        case "collective-permute":
            slowest = route[-1].link  # the outermost: some pair needs it
            return slowest.start + slowest.latency + payload / slowest.bandwidth
        case "collective-broadcast":
            return sum(_broadcast(payload, step) for step in route)
    raise KeyError(kind)


def _all_reduce(payload: float, route: Route) -> float:
    inner, *outer = route
    if not outer:
        return _all_reduce_on(payload, inner)
    return 2 * _gather(payload, (inner,)) + _all_reduce(payload / inner.members, tuple(outer))


def _all_reduce_on(payload: float, step: Step) -> float:
    link, n = step
    ring = 2 * (n - 1) * link.latency + 2 * (n - 1) / n * payload / link.bandwidth
    tree = 2 * math.ceil(math.log2(n)) * link.latency + 2 * payload / link.bandwidth
    return link.start + min({"ring": ring, "tree": tree}[name] for name in link.algorithms)


def _gather(payload: float, route: Route) -> float:
    """An all-gather, or in the reverse order a reduce-scatter: the outer levels have 1/m of the bytes."""
    seconds = 0.0
    for link, n in route:
        seconds += link.start + (n - 1) * link.latency + (n - 1) / n * payload / link.bandwidth
        payload /= n
    return seconds


def _all_to_all(payload: float, route: Route) -> float:
    """Level by level: each has all bytes but those that stay."""
    seconds = 0.0
    for link, n in route:
        if link.topology == "ring":  # bytes pass n/4 links on average, and each device feeds links of bandwidth B
            seconds += link.start + n / 2 * link.latency + max(n / 4, (n - 1) / n) * payload / link.bandwidth
        else:
            seconds += link.start + (n - 1) * link.latency + (n - 1) / n * payload / link.bandwidth
    return seconds


def _broadcast(payload: float, step: Step) -> float:
    link, n = step
    ring = (n - 1) * link.latency + payload / link.bandwidth
    tree = math.ceil(math.log2(n)) * (link.latency + payload / link.bandwidth)
    return link.start + min({"ring": ring, "tree": tree}[name] for name in link.algorithms)
