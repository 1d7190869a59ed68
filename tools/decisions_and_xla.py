"""Compares `paropt.decisions` with XLA's own executables: bytes gathered and reduced in loops, by program and target.

All-to-alls count as gathers: experts stay where they are, and tokens are exchanged.

What the passes count for parameters and sums is a prediction of XLA; this tells where it is another. Programs that
differ for a known reason are in DIFFER; the status is 1 if another one does, or if one of these no longer does. All of
it takes half an hour on two cores.

Tests: test/numeric/test_decisions_and_xla.py.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import simulated_devices

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(8)
sys.path.append(str(Path(__file__).resolve().parent.parent / "test"))

import jax
from bench_counts import SIZES, TARGETS
from programs.catalog import LAYERS, MATRIX

import paropt
from paropt.base.wording import size_text
from paropt.clusters import targets
from paropt.hlo.census import census

PROGRAMS = {**MATRIX, **LAYERS}
GATHERED, REDUCED = "gathered", "reduced"
_KINDS = {"all-gather": GATHERED, "all-to-all": GATHERED, "all-reduce": REDUCED, "reduce-scatter": REDUCED}
CLOSE = 0.03  # of the bytes: scalars are reduced beside gradients
SMALL = 4096  # bytes per step


class Difference(NamedTuple):
    """Programs for which the passes count otherwise than XLA does, and why."""

    programs: str  # patterns of names, separated by spaces
    targets: str
    what: str
    reason: str
    since: tuple[int, ...] = ()  # the version of jax

    def is_of(self, program: str, target: str, what: str) -> bool:
        if jax.__version_info__ < self.since:
            return False
        is_program = any(fnmatch(program, pattern) for pattern in self.programs.split())
        return is_program and fnmatch(target, self.targets) and fnmatch(what, self.what)


class Count(NamedTuple):
    """Bytes per device that collectives in loops take in a step."""

    program: str
    target: str
    what: str
    counted: int  # by the passes
    compiled: int  # by XLA alone

    @property
    def agrees(self) -> bool:
        return abs(self.counted - self.compiled) <= max(SMALL, CLOSE * max(self.counted, self.compiled))

    @property
    def reason(self) -> str:
        """Why it differs, if that is known."""
        found = (each.reason for each in DIFFER if each.is_of(self.program, self.target, self.what))
        return next(found, "")

    def __str__(self) -> str:
        sizes = f"{size_text(self.counted)} counted, {size_text(self.compiled)} compiled"
        return f"{self.program}, {self.target}, {self.what}: {sizes}"


ITSELF = "XLA takes a reduction out of a loop that only adds it up by itself"
EACH_USE = "XLA alone reduces the gradient of each use of a tied weight"
# The first that fits is the reason.
DIFFER = (
    Difference("*_p12 *_p13", "*", REDUCED, "of sums that other ops read in the loop, the passes count no bytes"),
    Difference("*_p14 llama_p19", "*", REDUCED, "of sums of activations, over another axis, the passes count no bytes"),
    Difference("*_p0 *_p4 *_p9 *_p15 *_transformer_p1 *_transformer_p5 explicit_*_p11", "[tg]pu*", REDUCED, ITSELF),
    Difference("plain_mlp_p5", "gpu*", REDUCED, ITSELF),
    Difference("explicit_*_p6", "tpu*", REDUCED, ITSELF),
    Difference("*_p5", "cpu*", REDUCED, EACH_USE),
    Difference("explicit_mlp_p5", "gpu*", REDUCED, EACH_USE),
    Difference("*_p4", "cpu*", REDUCED, "XLA:CPU reduces bf16 as f32"),
    Difference("*half_blocks*", "cpu*", "*", "XLA:CPU gathers and reduces bf16 as f32"),
    Difference("plain_mlp_p7", "*", REDUCED, "XLA alone reduces over both axes at once, and not one after the other"),
    Difference("explicit_*_p7 explicit_*p18", "[tg]pu*", REDUCED, "XLA takes that over the slow axis out by itself"),
    Difference("*_p6 *_p7 experts_p20", "cpu*", GATHERED, "XLA:CPU takes a loop-invariant gather out by itself"),
    Difference("plain_*_p6 plain_*_p7", "gpu*", GATHERED, "XLA:GPU takes a loop-invariant gather out, too", (0, 12)),
    Difference(
        "*_p6 *_p7 blocks_p1? explicit_blocks_p1? llama_p19 experts_p20 adapters_p21",
        "tpu*",
        GATHERED,
        "XLA:TPU gathers in bf16 what products alone read, as they round f32 to it",
    ),
    Difference("plain_transformer_p11", "[tg]pu*", GATHERED, "XLA gathers rows and indices of its own scatter"),
    Difference("explicit_mlp_p15", "*", GATHERED, "the program exchanges tokens itself, and gathers no parameter"),
)


def counts(program: str, target: str) -> Iterator[Count]:
    """Of gathers and of reductions. Sums of which the passes count no bytes, as of activations, may be more."""
    made = PROGRAMS[program](SIZES, targets.get(target).devices)
    decided = paropt.decisions(paropt.jit(made.step).lower(*made.args))
    compiled = dict.fromkeys((GATHERED, REDUCED), 0)
    for each in census(jax.jit(made.step).lower(*made.args).compile().as_text() or ""):
        if each.kind in _KINDS and each.wire_bytes and each.executions not in (None, 1):
            compiled[_KINDS[each.kind]] += each.payload * each.executions
    for what, kind in (("parameter", GATHERED), ("sum", REDUCED)):
        yield Count(
            program, target, kind, sum(each.in_loops or 0 for each in decided if each.what == what), compiled[kind]
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="TARGET", help="(%(default)s)")
    options = parser.parse_args()
    new = 0
    for target in options.targets:
        for each in (count for program in options.programs for count in counts(program, target)):
            is_known = bool(each.reason) is not each.agrees
            new += not is_known
            if not is_known or not each.agrees:
                verdict = each.reason if is_known else f"agrees, but: {each.reason}" if each.reason else "NEW"
                print(f"{each}: {verdict}", flush=True)
    print(f"{new} differences that DIFFER has wrong, or lacks")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
