"""What rewriting costs: beside jax's tracing, lowering and XLA's compilation, and beside parsing and printing."""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import jax
from jaxlib.mlir import ir
from programs import explicit, models, plain
from programs.patterns import ADDED, UNROLLED, Pattern
from programs.program import Sizes

import paropt
from paropt.census import census
from paropt.passes.analysis.propagation import propagation_pipeline, run_shardy
from paropt.passes.core.context import make_context
from paropt.passes.core.pipeline import Pipeline
from paropt.tags import gaps
from paropt.verification import prediction

PASSES = "grad-sync"


@dataclass(frozen=True)
class Rewrite:
    """Seconds that a program takes."""

    program: str
    ops: int
    compilation: float | None  # trace + lower + compile; None: not measured
    text: float  # parse + verify + print
    shardy: float | None  # Shardy's propagation alone, of the module without calls; None: not needed
    rewrite: float  # all of it
    checking: float | None  # what `paropt.jit` does besides: the safety net of docs/jit.md; None: not measured


class _Program(NamedTuple):
    name: str
    form: ModuleType
    pattern: Pattern
    sizes: Sizes
    compiles: bool


_SMALL = {"width": 32, "examples": 16, "sequence": 8}
_STEP = Sizes(layers=24, micro_batches=4, **_SMALL)
_LARGE = Sizes(layers=48, micro_batches=8, **_SMALL)
PROGRAMS = (
    _Program("plain, 24 unrolled layers, a loop of 4 micro-batches", plain, ADDED, _STEP, compiles=True),
    _Program("explicit, the same", explicit, ADDED, _STEP, compiles=True),
    _Program("plain, 48 unrolled layers x 8 unrolled micro-batches", plain, UNROLLED, _LARGE, compiles=False),
    _Program("explicit, the same", explicit, UNROLLED, _LARGE, compiles=False),
)


def measure(progress: Callable[[str], None], programs: tuple[_Program, ...] = PROGRAMS) -> Iterator[Rewrite]:
    for program in programs:
        made = _measured(program)
        progress(f"{made.program}: {made.ops} ops, rewritten in {made.rewrite:.2f} s")
        yield made


def _measured(program: _Program) -> Rewrite:
    step = program.form.data_parallel(models.transformer, program.pattern, program.sizes)
    start = time.perf_counter()
    lowered = jax.jit(step.step).lower(*step.args)
    text = str(lowered.compiler_ir("stablehlo"))
    compilation = _seconds(lowered.compile) + time.perf_counter() - start if program.compiles else None
    context, modules = make_context(), []

    def parse() -> ir.Module:
        return ir.Module.parse(text, context)

    def base() -> None:
        modules.append(parse())  # kept, so that freeing it is not counted
        assert modules[-1].operation.verify()
        modules[-1].operation.get_asm(assume_verified=True)

    def rewritten() -> ir.Module:
        module = parse()
        Pipeline.parse(PASSES).run(module.operation)
        return module

    checking = None
    if program.compiles:
        made = paropt.jit(step.step).lower(*step.args).compile()
        checking = _best(_checked, rewritten) + _best(lambda: census(made.as_text() or ""), lambda: None)
    flat = parse()
    Pipeline.parse("inline-calls").run(flat.operation)
    return Rewrite(
        program.name,
        sum(1 for _ in _ops(flat.operation)),
        compilation,
        _best(base, modules.clear),
        _best(_propagated, flat.operation.clone) if program.form is plain else None,
        _best(lambda module: Pipeline.parse(PASSES).run(module.operation), parse),
        checking,
    )


def _checked(module: ir.Module) -> None:
    assert not gaps(module.operation)
    prediction(module.operation)


def _propagated(module: ir.Operation) -> None:
    run_shardy(module, propagation_pipeline(module))


def _best(run: Callable[..., object], prepare: Callable[[], Any]) -> float:
    """The shortest of runs on what `prepare` makes: as many as take two seconds, at least three."""
    taken: list[float] = []
    while len(taken) < 3 or sum(taken) < 2:
        made = prepare()
        taken.append(_seconds(run, *([made] if made is not None else [])))
    return min(taken)


def _seconds(run: Callable[..., object], *args: object) -> float:
    gc.collect()
    start = time.perf_counter()
    run(*args)
    return time.perf_counter() - start


def _ops(root: ir.Operation) -> Iterator[ir.Operation]:
    for region in root.regions:
        for block in region:
            for op in block.operations:
                yield op.operation
                yield from _ops(op.operation)
