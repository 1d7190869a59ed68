"""Disjoint sets: components of things that share members.

Tests: test/passes/annotate-unreduced.mlir.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir


def connected(positions: Sequence[int], made_of: dict[int, list[ir.Value]]) -> list[list[int]]:
    """Positions, of loop-carried values or else, in groups that share no partial value that these are made of."""
    leader = {i: i for i in positions}

    def leader_of(i: int) -> int:
        while leader[i] != i:
            i = leader[i]
        return i

    first: dict[ir.Value, int] = {}
    for i in positions:
        for value in made_of[i]:
            one, other = sorted((leader_of(i), leader_of(first.setdefault(value, i))))
            leader[other] = one
    groups: dict[int, list[int]] = {}
    for i in positions:
        groups.setdefault(leader_of(i), []).append(i)
    return list(groups.values())
