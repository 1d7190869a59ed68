"""A pass that finds nothing in a large module costs next to nothing."""

from unit.tools import load

LIMIT = 0.05  # of parse + verify + print


def test_cost_of_finding_nothing() -> None:
    base, passes = load("bench_overhead").measure(ops=100_000, repeat=3)
    shares = {name: seconds / base for name, seconds in passes.items()}
    assert shares and max(shares.values()) < LIMIT, shares
