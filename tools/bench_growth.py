"""What many of the same cost, and how many walks and lists of ops the passes have that are in no shared place."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from unit.passes.nested_sums import nested_sums
from unit.passes.test_growth import sharded_sums, sums_of_one_value
from unit.repository.test_layout import ENGINE, sources, work_lists
from unit.repository.test_op_lists import TABLE, named_ops, op_lists
from unit.scripts import ROOT

from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline

DECLINED = "stablehlo.slice %n{0} [0:3, 0:4]"  # unequal parts


@dataclass(frozen=True)
class Growth:
    """Seconds of the processor that a pass takes."""

    program: str
    passes: str
    seconds: float
    declined: int  # remarks on what stays as it was


def measure_growth(progress: Callable[[str], None], many: int = 160, equal: int = 2000) -> list[Growth]:
    sharded = f"{many + 1} gradients of sharded parameters"
    rest: dict[str, Any] = {"last": DECLINED, "kind": "tensor<3x4xf32>"}
    made = [
        _growth(f"{sharded}, all annotated", sharded_sums(many), "annotate-unreduced"),
        _growth(f"{sharded}, the first declined", sharded_sums(many, **rest, of=0), "annotate-unreduced"),
        _growth(f"{sharded}, the last declined", sharded_sums(many, **rest), "annotate-unreduced"),
        _growth(f"{equal:,} sums of one value", sums_of_one_value(equal), "defer-sync"),
        _growth("loops of 3 levels, 100 arrays", nested_sums(100, depth=2), "defer-sync"),
    ]
    for each in made:
        progress(f"{each.program}: {each.passes}, {each.seconds:.2f} s")
    return made


def _growth(program: str, text: str, passes: str, times: int = 3) -> Growth:
    taken: list[float] = []
    for _ in range(times):
        module = ir.Module.parse(text, make_context())
        gc.collect()
        start = time.process_time()
        remarks = Pipeline.parse(passes).run(module.operation)
        taken.append(time.process_time() - start)
    return Growth(program, passes, min(taken), sum(not remark.applied for remark in remarks))


def walks_and_lists() -> tuple[int, int]:
    """How many work-list loops are outside of the engine, and lists of ops outside of the op table."""
    files = {str(path.relative_to(ROOT)): path for path in sources("passes")}
    loops = sum(len(work_lists(path)) for name, path in files.items() if name != ENGINE)
    texts = [path.read_text() for path in files.values() if path != TABLE]
    constants = {name for text in texts for name in named_ops(text)}
    return loops, sum(1 for text in texts for _ in op_lists(text, constants))
