"""What rewriting costs: beside jax's tracing, lowering and XLA's compilation, and beside parsing and printing.

In seconds of processors, of all threads and child processes: they are much the same whatever else the machine does.
"""

import functools
import gc
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import jax
from bench_counts import TARGETS
from jaxlib.mlir import ir
from programs import explicit, models, plain
from programs.patterns import ADDED, UNROLLED, Pattern
from programs.program import Devices, Program, Sizes

import paropt
from paropt.clusters import targets
from paropt.hlo.census import census
from paropt.hlo.participants import Layout
from paropt.passes.sharding.propagation import Propagated, propagation_pipelines, run_natively
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.traversal import all_ops_of
from paropt.verify.predictions import prediction
from paropt.verify.tags import gaps
from paropt.verify.verification import doubts

PASSES = "grad-sync"


@dataclass(frozen=True)
class Rewrite:
    """Seconds that a program takes."""

    program: str
    ops: int
    text: float  # parse + verify + print
    shardy: float | None  # Shardy's propagation alone, of the module without calls; None: not needed
    rewrite: float  # all of it


@dataclass(frozen=True)
class Share:
    """Seconds that a program takes for a target, or why that is not known.

    The machine's speed changes within minutes, so they are measured one after the other; of several times, these are
    those of the time with the middle share.
    """

    program: str
    target: str
    compilation: float = 0.0  # trace + lower + compile
    clock: float = 0.0  # how long that took, with all that the machine did besides
    rewrite: float = 0.0
    propagation: float | None = None  # of that, Shardy's propagation, and to read its answer; None: not needed
    checking: float = 0.0  # what `paropt.jit` does besides: the safety net of docs/jit.md
    problem: str = ""

    @property
    def share(self) -> float:
        """The rewrite's and the checking's, of trace + lower + compile."""
        return (self.rewrite + self.checking) / self.compilation


@dataclass(frozen=True)
class Part:
    """A part of a rewrite of the first of STEPS."""

    name: str
    seconds: float


class _Transformer(NamedTuple):
    name: str
    form: ModuleType
    pattern: Pattern
    sizes: Sizes

    def made(self, devices: Devices = None) -> Program:
        made: Program = self.form.data_parallel(models.transformer, self.pattern, self.sizes, devices)
        return made


_SMALL = {"width": 32, "examples": 16, "sequence": 8}
_STEP = Sizes(layers=24, micro_batches=4, **_SMALL)
_LARGE = Sizes(layers=48, micro_batches=8, **_SMALL)
STEPS = (
    _Transformer("plain, 24 unrolled layers, a loop of 4 micro-batches", plain, ADDED, _STEP),
    _Transformer("explicit, the same", explicit, ADDED, _STEP),
)
LARGE = (
    _Transformer("plain, 48 unrolled layers x 8 unrolled micro-batches", plain, UNROLLED, _LARGE),
    _Transformer("explicit, the same", explicit, UNROLLED, _LARGE),
)


def measure(
    progress: Callable[[str], None], programs: tuple[_Transformer, ...] = (*STEPS, *LARGE), times: int = 3
) -> Iterator[Rewrite]:
    """Beside parsing, verifying and printing."""
    for program in programs:
        made = _measured(program, times)
        progress(f"{made.program}: {made.ops} ops, rewritten in {made.rewrite:.2f} s")
        yield made


def measure_shares(
    progress: Callable[[str], None],
    programs: tuple[_Transformer, ...] = STEPS,
    names: tuple[str, ...] = TARGETS,
    times: int = 1,
) -> Iterator[Share]:
    """Beside what jax and XLA take from the function to the executable."""
    for name in names:
        for program in programs:
            try:
                made = _share(program, targets.get(name), times)
            except targets.TargetError as error:
                made = Share(program.name, name, problem=str(error))
            progress(f"{name}: {made.program}: {made.problem or f'{100 * made.share:.1f} % of compilation'}")
            yield made


def measure_parts(progress: Callable[[str], None], times: int = 5) -> list[Part]:
    """Stages of the rewrite that take a hundredth of it or more, in order, and what Shardy's propagation consists of.

    Of `times` runs, the one with the least of it all.
    """
    step = STEPS[0].made()
    text = str(jax.jit(step.step).lower(*step.args).compiler_ir("stablehlo"))
    runs = [_parts(ir.Module.parse(text, make_context())) for _ in range(times)]
    parts = min(runs, key=lambda parts: parts[0].seconds)
    for part in parts:
        progress(f"{part.name}: {1000 * part.seconds:.0f} ms")
    return parts


def _parts(module: ir.Module) -> list[Part]:
    stages: list[Part] = []
    inside: list[Part] = []
    for step in Pipeline.parse(PASSES).steps():
        manager = step.manager(module.context, [], verify_each=False)
        copy = module.operation.clone() if step.title.startswith("expose") else None
        stages.append(Part(f"`{step.title}`", _seconds(manager.run, module.operation)))
        if copy is not None:
            shardy = _seconds(_propagated, copy.clone())
            inside = [
                Part("of that, Shardy", shardy),
                Part("of that, a copy for Shardy in XLA's order", _seconds(Propagated, copy) - shardy),
            ]
            inside.append(Part("one read of each op: name, operands, results", _seconds(_read, copy)))
    whole = Part("all", sum(stage.seconds for stage in stages))
    worth = [stage for stage in stages if stage.seconds > whole.seconds / 100]
    at = next(i for i, stage in enumerate(worth) if stage.name.startswith("`expose")) + 1
    return [whole, *worth[:at], *inside, *worth[at:]]


def _read(module: ir.Operation) -> None:
    for op in all_ops_of(module):
        _ = op.name, list(op.operands), list(op.results)


def _measured(program: _Transformer, times: int) -> Rewrite:
    step = program.made()
    text = str(jax.jit(step.step).lower(*step.args).compiler_ir("stablehlo"))
    context, modules = make_context(), []

    def parse() -> ir.Module:
        return ir.Module.parse(text, context)

    def base() -> None:
        modules.append(parse())  # kept, so that freeing it is not counted
        assert modules[-1].operation.verify()
        modules[-1].operation.get_asm(assume_verified=True)

    flat = parse()
    Pipeline.parse("inline-calls").run(flat.operation)
    texts, propagations, rewrites = [], [], []
    for _ in range(times):  # in turns, because the machine's speed changes
        texts.append(_best(base, modules.clear))
        propagations.append(_best(_propagated, flat.operation.clone) if program.form is plain else None)
        rewrites.append(_best(_rewritten, parse))
    shardy = min((seconds for seconds in propagations if seconds is not None), default=None)
    return Rewrite(program.name, len(all_ops_of(flat.operation)) - 1, min(texts), shardy, min(rewrites))


def _share(program: _Transformer, target: targets.Target, times: int) -> Share:
    step = program.made(target.devices)
    ours = paropt.jit(step.step).lower(*step.args)
    hlo, layout = target.compile(ours).hlo, Layout.of_module(ours.compiler_ir("stablehlo"))
    context, shares = make_context(), []
    one = jax.tree.leaves(step.args)[0]
    starting = _seconds(_compiled, target, jax.jit(lambda x: x), (one,))  # of a child process
    for _ in range(times):
        jax.clear_caches()
        start = time.perf_counter()
        jitted = jax.jit(step.step)
        compilation = _seconds(_compiled, target, jitted, step.args) - starting
        clock = time.perf_counter() - start
        lowered = jitted.trace(*step.args).lower(lowering_platforms=(target.platform,))
        parse = functools.partial(ir.Module.parse, str(lowered.compiler_ir("stablehlo")), context)
        rewrite = _best(_rewritten, parse)
        flat = parse()
        Pipeline.parse("inline-calls").run(flat.operation)
        propagation = _best(Propagated, flat.operation.clone) if program.form is plain else None
        check = functools.partial(_check, hlo=hlo, layout=layout)
        checking = _best(check, functools.partial(_parsed_and_rewritten, parse))
        shares.append(Share(program.name, target.name, compilation, clock, rewrite, propagation, checking))
    return sorted(shares, key=lambda share: share.share)[times // 2]


def _compiled(target: targets.Target, jitted: Any, args: tuple[Any, ...]) -> None:
    target.compile(jitted.trace(*args).lower(lowering_platforms=(target.platform,)))


def _parsed_and_rewritten(parse: Callable[[], ir.Module]) -> ir.Module:
    return _rewritten(parse())


def _rewritten(module: ir.Module) -> ir.Module:
    Pipeline.parse(PASSES).run(module.operation)
    return module


def _check(module: ir.Module, hlo: str, layout: Layout) -> None:
    assert not gaps(module.operation)
    assert not doubts(prediction(module.operation), census(hlo, layout))


def _propagated(module: ir.Operation) -> None:
    for pipeline in propagation_pipelines(module):
        run_natively(module, pipeline)


def _best(run: Callable[..., object], prepare: Callable[[], Any]) -> float:
    """The shortest of runs on what `prepare` makes: as many as take two seconds, or twenty."""
    taken: list[float] = []
    while sum(taken) < 2 and len(taken) < 20:
        made = prepare()
        taken.append(_seconds(run, *([made] if made is not None else [])))
    return min(taken)


def _seconds(run: Callable[..., object], *args: object) -> float:
    gc.collect()
    start = _processor()
    run(*args)
    return _processor() - start


def _processor() -> float:
    """Seconds of this process and of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
