"""Our orders against those of Shardy's MPMD partitioner, which comes with jaxlib."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from paropt.schedules import schedule

# Our name, Shardy's, and whether it takes the gradients of the weights apart.
NAMES = (
    ("gpipe", "GPipe", False),
    ("1f1b", "1F1B", False),
    ("zb-h1", "ZeroBubbleH1", True),
    ("zb-h2", "ZeroBubbleH2ZeroTxLatency", True),
)
SIZES = ((2, 4), (3, 4), (3, 7), (4, 8), (4, 9))
CASES = [
    (ours, theirs, s, m, split)
    for ours, theirs, split in NAMES
    for s, m in SIZES
    if ours != "zb-h2" or m >= 2 * s > 4  # below, Shardy leaves backwards in any order
]
NOT_HERE = 3

Order = list[tuple[str, int]]


@cache
def shardys() -> dict[tuple[str, int, int], list[Order]] | str:
    """All of Shardy's orders, from one process; or why there are none."""
    program = Path(__file__).with_name("mpmd_orders.py")
    keys = [(ours, s, m) for ours, _, s, m, _ in CASES]
    cases = [case[1:] for case in CASES]
    ran = subprocess.run(
        [sys.executable, program, json.dumps(cases)], capture_output=True, text=True, check=False, timeout=300
    )
    last = ran.stdout.splitlines()[-1] if ran.stdout else ""  # after what the partitioner logs there
    if ran.returncode == NOT_HERE:
        return f"jaxlib has no MPMD partitioner that can be asked: {last}"
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = [[[(kind, batch) for kind, batch in row] for row in rows] for rows in json.loads(last)]
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize(("name", "stages", "microbatches"), [(ours, s, m) for ours, _, s, m, _ in CASES])
def test_orders_are_shardys(name: str, stages: int, microbatches: int) -> None:
    found = shardys()
    if isinstance(found, str):
        pytest.skip(found)
    theirs = found[name, stages, microbatches]
    made = schedule(name, stages=stages, microbatches=microbatches)
    assert len(theirs) == stages
    for stage, (instructions, order) in enumerate(zip(made.devices, theirs, strict=True)):
        ours: Order = [(each.kind, each.microbatch) for each in instructions if each.kind != "U"]
        if stage == 0:  # there is no gradient of its input: Shardy splits nothing
            ours = [each for each in ours if each[0] != "W"]
        behind = {"zb-h1": stage, "zb-h2": 2 * stage}.get(name, 0)
        assert placed(ours, microbatches - behind) == placed(order, microbatches - behind)
        if name != "zb-h2":
            assert without_free(ours, microbatches - behind) == without_free(order, microbatches - behind)
        assert sorted(ours) == sorted(order)


def without_free(order: Order, count: int) -> Order:
    """Without the weight gradients that Shardy leaves where they are: only the first have a backward to stand behind."""
    return [(kind, batch) for kind, batch in order if kind != "W" or batch < count]


def placed(order: Order, count: int) -> list[Order]:
    """What stands between two backwards: for ZB-H2, Shardy says no more than that."""
    parts: list[Order] = [[]]
    for kind, batch in without_free(order, count):
        if kind == "B":
            parts.append([])
        parts[-1].append((kind, batch))
    return [sorted(part) for part in parts]
