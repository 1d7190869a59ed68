"""The reductions that stay in loops by the default policy, and the effect of `policy=once` on them. Never imports jax.

It is told first, in remarks and in audits. Passes with that policy run on a copy of the module, and tell it.

Tests: test/unit/pyext/modules/test_offers.py, test/par-opt/remarks-offer.mlir.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.base.wording import size_text
from paropt.modules.decisions import Decision, decisions
from paropt.modules.other_policies import ALL_ONCE, has_policy, with_policy
from paropt.modules.summary import OFFER, is_of_sums
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Declined, Remark, Saved, missed


class Share(NamedTuple):
    """Arrays that are gathered, or reduced, in loops; bytes per device and step, there and behind them (or before)."""

    arrays: int
    before: int
    after: int


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
    """What the remarks `found` say to stay in loops, and those of a policy that holds more take out."""
    ours, theirs = list(found), list(once)
    stays = [each for each in decisions(ours, theirs) if not each.is_once]
    held = _held(theirs) - _held(ours)
    return Offer(_share(stays, "parameter"), _share(stays, "sum"), max(held, 0))


def _held(remarks: Iterable[Remark]) -> int:
    return sum(each.held * each.count for each in remarks)


def _share(stays: Iterable[Decision], what: str) -> Share:
    could = [(each.arrays, each.in_loops or 0, each.once) for each in stays if each.what == what]
    rows = [(arrays, before, once) for arrays, before, once in could if once is not None]
    return Share(*(sum(row[i] for row in rows) for i in range(len(Share._fields))))
