"""The reductions that stay in loops by the default policy, and the effect of `policy=once` on them. Never imports jax.

It is told first, in remarks and in audits. Passes with that policy run on a copy of the module, and tell it.

Tests: test/unit/pyext/modules/test_offers.py, test/par-opt/remarks-offer.mlir.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.base.wording import size_text
from paropt.modules.summary import OFFER, is_of_sums, journeys
from paropt.passes.support.pipeline import Pipeline, Stage
from paropt.passes.support.remarks import Declined, Remark, Saved, missed

UNLIMITED = 1 << 50  # bytes to hold, which is more than any device has
ALL_ONCE = {"policy": "auto", "memory-budget": UNLIMITED}  # which tells the bytes of each sum, as `once` does not
AT_USE = {"policy": "keep-shards"}  # the default
_GATHERS = "hoist-gathers"


class Share(NamedTuple):
    """Arrays that are gathered, or reduced, in loops; bytes per device and step, there and behind them (or before)."""

    arrays: int
    before: int
    after: int

    def __sub__(self, other: "Share") -> "Share":
        return Share(*(max(mine - its, 0) for mine, its in zip(self, other, strict=True)))


class Offer(NamedTuple):
    """The arrays that a policy that holds more would gather and reduce once, and its additional bytes per device."""

    gathers: Share
    sums: Share
    held: int

    def __bool__(self) -> bool:
        return self.held > 0 and bool(self.gathers.arrays or self.sums.arrays)

    def __str__(self) -> str:
        rows = [(self.gathers, "parameter", "gathered", "gather"), (self.sums, "gradient", "reduced", "reduce")]
        shares = [row for row in rows if row[0].arrays]
        found = [
            f"{share.arrays} {what}{'s' * (share.arrays > 1)} {done} ({size_text(share.before)} per step)"
            for share, what, done, _ in shares
        ]
        done = " and ".join(verb for *_, verb in shares)
        after, held = size_text(self.gathers.after + self.sums.after), size_text(self.held)
        once = f"policy=once would {done} {after} once, and hold about {held} more per device"
        return f"stays in loops, as the passes count: {', '.join(found)}; {once} (memory_budget= holds what fits)"


def with_policy(pipeline: Pipeline, options: Mapping[str, Any]) -> Pipeline | None:
    """`pipeline`, the stages that have a policy with these options in place of theirs; None where none has."""
    if not any(map(has_policy, pipeline.stages)):
        return None
    stages = tuple(_with(stage, options) if has_policy(stage) else stage for stage in pipeline.stages)
    return dataclasses.replace(pipeline, stages=stages)


def has_policy(stage: Stage) -> bool:
    return stage.declared is not None and {"policy", "memory-budget"} <= {o.name for o in stage.declared.options}


def _with(stage: Stage, options: Mapping[str, Any]) -> Stage:
    kept = {name: value for name, value in stage.options if name not in ("policy", "memory-budget")}
    return dataclasses.replace(stage, options=tuple({**kept, **options}.items()))


def offered(
    found: Iterable[Remark], module: ir.Operation, pipeline: Pipeline, run: Callable[[Pipeline], Iterable[Remark]]
) -> list[Remark]:
    """`found`, the remarks of `pipeline` on `module`, behind one on the reductions that stay in loops, if any.

    `run` returns the remarks of another pipeline on the module as it was.
    """
    remarks = list(found)
    once = with_policy(pipeline, ALL_ONCE)
    if once is None or not is_of_sums(pipeline) or not _is_default(pipeline):
        return remarks
    offer = offer_of(remarks, run(once))
    return [_told(offer, module), *remarks] if offer else remarks


def _told(offer: Offer, module: ir.Operation) -> Remark:
    """The remark on it, with the gathers that it counts per step."""
    arrays, before, after = offer.gathers
    said = missed(OFFER, module, Declined(str(offer)))
    return dataclasses.replace(said, saved=Saved(arrays, before, 1, arrays, after))


def _is_default(pipeline: Pipeline) -> bool:
    """Whether the user chose no policy. A named pipeline may, for some of its stages."""
    return any("policy" not in dict(stage.options) for stage in pipeline.stages if has_policy(stage))


def offer_of(found: Iterable[Remark], once: Iterable[Remark]) -> Offer:
    """The difference between the remarks of passes and those with a policy that holds more."""
    (gathers, sums, held), (more_gathers, more_sums, more_held) = _totals(found), _totals(once)
    return Offer(more_gathers - gathers, more_sums - sums, max(more_held - held, 0))


def _totals(remarks: Iterable[Remark]) -> tuple[Share, Share, int]:
    all_of = list(remarks)
    moved = [(each.times, each.saved) for each in journeys(all_of)]
    gathered = [(each.count, each.saved) for each in all_of if each.pass_name == _GATHERS and each.saved is not None]
    held = sum(each.held * each.count for each in all_of)
    return _share(gathered), _share(moved), held


def _share(found: Iterable[tuple[int, Any]]) -> Share:
    """A loop of unknown trips counts as one that makes one."""
    arrays = before = after = 0
    for times, saved in found:
        arrays += times * saved.arrays
        before += times * saved.bytes * (saved.trips or 1)
        after += times * saved.bytes_after
    return Share(arrays, before, after)
