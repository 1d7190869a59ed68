"""Passes for the tests of the command line: each does one thing that a pass may do, well or badly."""

import os
import signal
from typing import Annotated, Literal

from jaxlib.mlir import ir

from paropt.passes.support.registry import name_pipeline, register
from paropt.passes.support.remarks import Declined, Remark, applied, missed
from paropt.passes.support.traversal import ops_of


@register
def probe_remark(
    module: ir.Operation,
    *,
    text: Annotated[str, "What the remark says."] = "seen",
    times: Annotated[int, "How many remarks each add gets."] = 1,
    verdict: Annotated[Literal["applied", "missed"], "Which kind of remark."] = "applied",
    backwards: Annotated[bool, "Visit the last add first."] = False,
) -> list[Remark]:
    """Make a remark at each add, changing nothing."""
    adds = ops_of(module, "stablehlo.add")
    make = applied if verdict == "applied" else lambda name, op, why: missed(name, op, Declined(why))
    ordered = reversed(adds) if backwards else adds
    return [make("probe-remark", op, f"{text} {n}") for op in ordered for n in range(times)]


@register
def probe_rename(module: ir.Operation) -> list[Remark]:
    """Call each function @renamed."""
    for function in ops_of(module, "func.func"):
        function.attributes["sym_name"] = ir.StringAttr.get("renamed", module.context)
    return []


@register
def probe_break(module: ir.Operation) -> list[Remark]:
    """Leave an invalid module: an add without operands."""
    for add in ops_of(module, "stablehlo.add"):
        with ir.InsertionPoint(add), add.location:
            ir.Operation.create("stablehlo.add", results=[add.results[0].type])
    return []


@register
def probe_raise(module: ir.Operation) -> list[Remark]:
    """Raise what no pass should."""
    raise KeyError("probe")


@register
def probe_crash(module: ir.Operation) -> list[Remark]:
    """Crash in native code."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return []


@register
def probe_crash_second(module: ir.Operation) -> list[Remark]:
    """Crash in native code when the module is called @second."""
    if "sym_name" in module.attributes and ir.StringAttr(module.attributes["sym_name"]).value == "second":
        os.kill(os.getpid(), signal.SIGSEGV)
    return []


@register
def probe_forget(module: ir.Operation) -> list[Remark]:
    """Return no list of remarks."""
    return None  # type: ignore[return-value]  # the mistake


name_pipeline(
    "probe-pipeline", "probe-remark{text=one},cse,probe-remark{text='two words'}", "Two passes and one of MLIR's."
)
