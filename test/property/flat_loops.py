"""Random flat loops: one loop over the micro-batches of several steps, that updates in some of its trips.

When it updates follows from its counter; a branch or selections do it. All values are integers or halves of such that
f32 holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st
from jax import lax
from jax.sharding import PartitionSpec as P
from programs.program import data_mesh

EXAMPLES, WIDTH = 16, 4
MESH = data_mesh()

Carry = dict[str, jax.Array]

WHEN: dict[str, Callable[[jax.Array, int], jax.Array]] = {
    "last": lambda i, period: i % period == period - 1,
    "counted": lambda i, period: (i + 1) % period == 0,
    "first": lambda i, period: jnp.remainder(i, period) == 0,
    "all but": lambda i, period: i % period != 1,
    "late": lambda i, period: i >= period,
    "once": lambda i, period: i == period,
    "never": lambda i, period: i < 0,
}
UPDATES: dict[str, Callable[[Carry], Carry]] = {
    "sgd": lambda c: {"w": c["w"] - c["total"] / 2},
    "sign": lambda c: {"w": c["w"] - jnp.sign(c["total"])},
    "momentum": lambda c: {"m": c["m"] / 2 + c["total"], "w": c["w"] - jnp.sign(c["m"] / 2 + c["total"])},
    "moments": lambda c: {
        "m": c["m"] / 2 + c["total"],
        "v": jnp.maximum(c["v"], c["total"] * c["total"]),
        "w": c["w"] - jnp.sign(c["m"] - c["v"]),
    },
    "none": lambda c: {},
}
ENDS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "cleared": jnp.zeros_like,
    "kept": lambda total: total,
    "halved": lambda total: total / 2,
}
READS: dict[str, Callable[[Carry], jax.Array]] = {
    "nothing": lambda c: c["seen"],
    "the sum": lambda c: c["seen"] + jnp.abs(c["total"]),
    "the last sum": lambda c: c["total"],
    "the weights": lambda c: c["seen"] + c["w"],
}


@dataclass(frozen=True)
class Plan:
    explicit: bool
    trips: int
    period: int
    start: str  # of the counter: zero, later, or what the caller hands in
    when: str
    then: str  # how it is done: by cond, where, or one of both per array
    negated: bool
    update: str
    end: str
    read: str
    read_when: str  # always, or as updates
    inner: int  # trips of a loop that adds up within a trip; 1: none
    loop: str


def plans() -> st.SearchStrategy[Plan]:
    return st.builds(
        Plan,
        explicit=st.booleans(),
        trips=st.integers(2, 9),
        period=st.integers(1, 4),
        start=st.sampled_from(["zero", "zero", "later", "argument"]),
        when=st.sampled_from([*WHEN, "last", "counted"]),
        then=st.sampled_from(["cond", "where", "select", "both"]),
        negated=st.booleans(),
        update=st.sampled_from([*UPDATES]),
        end=st.sampled_from([*ENDS]),
        read=st.sampled_from([*READS]),
        read_when=st.sampled_from(["always", "updated", "other"]),
        inner=st.sampled_from([1, 1, 2]),
        loop=st.sampled_from(["scan", "fori"]),
    )


def chosen(plan: Plan, predicate: jax.Array, if_true: Carry, if_false: Carry) -> Carry:
    if plan.negated:
        predicate, if_true, if_false = ~predicate, if_false, if_true

    def selected(name: str) -> jax.Array:
        if plan.then == "select":
            shaped = jnp.broadcast_to(predicate, if_true[name].shape)
            return lax.select(shaped, if_true[name], if_false[name])
        return jnp.where(predicate, if_true[name], if_false[name])

    by_branch = {"cond": [*if_true], "both": ["w", "total"]}.get(plan.then, [])
    found = {name: selected(name) for name in if_true if name not in by_branch}
    if by_branch:
        sides = [{name: side[name] for name in by_branch} for side in (if_true, if_false)]
        found |= lax.cond(predicate, lambda: sides[0], lambda: sides[1])
    return found


def step_of(plan: Plan) -> Callable[..., Carry]:
    """(weights, counter's start, micro-batches (trips, inner, EXAMPLES, WIDTH)) -> what the loop carries in the end."""

    def gradient(w: jax.Array, batch: jax.Array) -> jax.Array:
        summed = (batch * jnp.where(w > 0, 1.0, 2.0)).sum(0)
        return lax.psum(summed, "data") if plan.explicit else summed

    def trip(carry: Carry, at: jax.Array, batch: jax.Array) -> Carry:
        added = carry["total"]
        if plan.inner > 1:
            added = lax.scan(lambda t, b: (t + gradient(carry["w"], b), None), added, batch)[0]
        else:
            added = added + gradient(carry["w"], batch[0])
        carry = carry | {"total": added}
        updates = WHEN[plan.when](at, plan.period)
        new = carry | UPDATES[plan.update](carry) | {"total": ENDS[plan.end](added)}
        reads = {"always": None, "updated": updates, "other": at % 3 == 1}[plan.read_when]
        seen = READS[plan.read](carry)
        seen = seen if reads is None else jnp.where(reads, seen, carry["seen"])
        return chosen(plan, updates, new, carry) | {"seen": seen}

    def step(w: jax.Array, start: jax.Array, batches: jax.Array) -> Carry:
        first = {"zero": jnp.int32(0), "later": jnp.int32(5), "argument": start}[plan.start]
        carry = {"w": w, **{name: jnp.zeros_like(w) for name in ("total", "m", "v", "seen")}}
        if plan.loop == "fori":
            body = lambda i, c: trip(c, first + i, batches[i])  # noqa: E731
            return lax.fori_loop(0, plan.trips, body, carry)
        end = lax.scan(lambda c, b: ((trip(c[0], c[1], b), c[1] + 1), None), (carry, first), batches)
        return end[0][0]

    if not plan.explicit:
        return step
    mapped = {"mesh": MESH, "in_specs": (P(), P(), P(None, None, "data")), "out_specs": P()}
    options: Any = mapped | {"check_vma": False}
    return jax.shard_map(step, **options)
