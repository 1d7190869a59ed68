"""Audits made by hand, for the tests of reports and budgets."""

import dataclasses

from paropt.hlo.census import Collective, Loop
from paropt.hlo.parser import Array
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import Source
from paropt.reports.comparison import AuditComparison, AuditReport
from paropt.reports.totals import Audit

W = Array("f32", (64, 64))  # 16384 bytes
V = Array("bf16", (64,))  # 128 bytes
S = Array("f32", ())
LOOP = Loop("jit(step)/while", 8)
UNKNOWN = Loop("jit(step)/while", None)
FILE = "/somewhere/loss.py"

_PLAIN = Collective("all-reduce", "ar", (W,), 8, (), False, False, "jit(step)/psum", FILE, 41, ("data",))


def collective(*arrays: Array, loops: tuple[Loop, ...] = (LOOP,), line: int = 41, **fields: object) -> Collective:
    """An all-reduce of f32[64,64] over 8 devices, `data`, in a loop of 8, at loss.py:41, but for what is given."""
    name = "jit(step)/while/body/psum" if loops else "jit(step)/psum"
    given = {"op_name": name, "arrays": arrays or (W,), "loops": loops, "source_line": line, **fields}
    return dataclasses.replace(_PLAIN, **given)  # type: ignore[arg-type]  # any field


def remark(text: str, *, line: int = 41, applied: bool = False, op: str = "all_reduce", **source: str) -> Remark:
    """What defer-sync says about loss.py:41, but for what is given."""
    place = Source(source.get("file", FILE), line, 9, source.get("scope", "while/body/psum"))
    return Remark("defer-sync", f"stablehlo.{op}", place, applied, text)


def comparison(
    before: list[Collective], after: list[Collective], *remarks: Remark, memory: int | None = 1000
) -> AuditComparison:
    """Of passes `grad-sync` on cpu:8."""
    return AuditComparison(Audit(tuple(before), memory), Audit(tuple(after), memory), "grad-sync", "cpu:8", remarks)


def report(*comparisons: AuditComparison) -> AuditReport:
    return AuditReport(comparisons)


MOVED = remark("16384 bytes per device, now reduced after the loop and not 8 times in it", applied=True)
READ = remark(f"the reduced value is also read by stablehlo.sqrt (stablehlo.sqrt at {FILE}:43:11)", line=42)


def example() -> AuditReport:
    """One all-reduce left the loop; one stayed, which XLA had combined with it before; an all-gather nobody looked at."""
    gather = collective(V, kind="all-gather", loops=(), line=50, op_name="jit(step)/all_gather", axes=())
    before = [collective(W, W), gather]
    after = [collective(W, line=42), collective(W, loops=()), gather]
    return report(comparison(before, after, MOVED, READ))
