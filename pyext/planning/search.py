"""The search of a plan: candidates are compiled for the target, counted, and timed by the cost model."""

import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.base.wording import counted
from paropt.clusters.compile_apart import standing_compilers
from paropt.clusters.compiled import TargetError
from paropt.clusters.targets import Target
from paropt.costs.clusters import Cluster
from paropt.hook.lowering import platform_of
from paropt.hook.rewriting import run
from paropt.modules.module_io import bytecode_of
from paropt.passes.support.pipeline import Pipeline, PipelineError
from paropt.planning.audit_cache import AuditCache
from paropt.planning.axis_names import axis_names, nameless, renamed
from paropt.planning.candidates import Candidate, shardings_only
from paropt.planning.sharded_programs import Step, module_on_mesh
from paropt.planning.stage_audits import staged_audit
from paropt.planning.stage_choices import StageCuts
from paropt.reports.target_audits import timed_on
from paropt.reports.totals import Audit
from paropt.schedules import ScheduleError
from paropt.stages.cut_step import CutStep
from paropt.stages.stages_apart import Layout, standing_stage_compiler
from paropt.stages.step_plan import StageError
from paropt.verify.verification import differences

_REMEMBERED = 256  # executables, of this process: a plan for another budget compiles nothing anew


class Judged(NamedTuple):
    """A candidate, and its outcome."""

    candidate: Candidate
    audit: Audit | None  # None where there is no executable, or it would compute something else
    problem: str = ""  # why, in one line

    @property
    def seconds(self) -> float:
        assert self.audit is not None and self.audit.estimate is not None
        return self.audit.estimate.seconds

    @property
    def peak_memory(self) -> int:
        assert self.audit is not None
        return self.audit.peak_memory or 0


class Later(NamedTuple):
    """Candidates that are made when their turn comes."""

    make: Callable[[], Iterable[Candidate]]
    name: str = ""  # of them, where it takes long to make them


@dataclass
class Search:
    """Compiles candidates side by side, each in a process of its own, until the time is up."""

    step: Step
    target: Target  # to compile for
    cluster: Cluster  # to estimate times of: that of the target, or of one that there is no compiler for
    seconds: float  # to start compilations in
    progress: Callable[[str], None]
    cache: AuditCache | None = None  # of earlier searches
    skipped: int = 0
    unsought: list[str] = field(default_factory=list)  # kinds of candidates that there was no time to look for
    _started: float = field(default_factory=time.monotonic)

    @cached_property
    def cuts(self) -> StageCuts:
        """The cuts of the step into stages."""
        return StageCuts(self.step)

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self._started > self.seconds

    @property
    def left_out(self) -> str:
        """What there was no time for, in words; "" for nothing."""
        counts = [counted(self.skipped, "more candidate")] if self.skipped else []
        return ", ".join([*counts, *self.unsought])

    def run(self, candidates: Iterable[Candidate], always: int = 1, later: Iterable[Later] = ()) -> list[Judged]:
        """All candidates that there is time for, in their order; of the first ones so many `always`.

        What is `later` follows these, and is looked for while they are compiled, if there is time for that.
        """
        found: list[Judged] = []
        waiting = list(candidates)
        with (
            standing_compilers(),
            standing_stage_compiler(),
            ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool,
            ThreadPoolExecutor(1) as stages,  # one child, which compiles equal stages once
            tempfile.TemporaryDirectory() as folder,
        ):
            jobs: list[Future[Judged]] = []
            for number, candidate in enumerate(self._with(waiting, later)):
                if number >= always and self.is_late:
                    self.skipped += 1
                    continue
                known = self.cache.read(candidate) if self.cache is not None else None
                if known is not None:
                    jobs.append(pool.submit(Judged, candidate, known))
                elif candidate.stages is None:
                    jobs.append(self._submit(pool, candidate, Path(folder)))
                else:
                    jobs.append(self._submit_stages(stages, candidate))
                if len(jobs) > (os.cpu_count() or 1):
                    found.append(self._result(jobs.pop(0), len(found) + 1, len(waiting)))
            found += [self._result(job, len(found) + i, len(waiting)) for i, job in enumerate(jobs, 1)]
        return found

    def _with(self, waiting: list[Candidate], later: Iterable[Later]) -> Iterator[Candidate]:
        """Those that wait, and then others, which wait from then on."""
        yield from waiting
        for each in later:
            if each.name and self.is_late:
                self.unsought.append(each.name)
                continue
            made = list(each.make())
            waiting += made
            yield from made

    def _result(self, job: "Future[Judged]", number: int, count: int) -> Judged:
        judged = job.result()
        if self.cache is not None and judged.audit is not None:
            self.cache.write(judged.candidate, judged.audit)
        self.progress(f"plan: {number} of {count} candidates for {self.target.name}: {judged.candidate}")
        return judged

    def _submit(self, pool: ThreadPoolExecutor, candidate: Candidate, folder: Path) -> "Future[Judged]":
        """Runs the passes here; MLIR's contexts are no matter for several threads. Compiles in the pool."""
        rules = folder / f"{hashlib.sha256(candidate.rules.encode()).hexdigest()[:16]}.toml"
        rules.write_text(candidate.rules, encoding="utf-8")
        try:
            before = self._rewritten(candidate, shardings_only(str(rules)))
            after = self._rewritten(candidate, candidate.passes(str(rules)))
        except PipelineError as error:
            return pool.submit(Judged, candidate, None, str(error).replace(str(rules), "rules"))
        return pool.submit(self._judged, candidate, bytecode_of(before), bytecode_of(after))

    def _submit_stages(self, pool: ThreadPoolExecutor, candidate: Candidate) -> "Future[Judged]":
        """Cuts the step here."""
        try:
            cut, layout = self.cuts.of(candidate)
        except (PipelineError, ScheduleError, StageError) as error:
            return pool.submit(Judged, candidate, None, str(error))
        return pool.submit(self._judged_stages, candidate, cut, layout)

    def _judged_stages(self, candidate: Candidate, cut: CutStep, layout: Layout) -> Judged:
        key = f"{cut.digest} {layout}".encode()
        try:
            return Judged(candidate, self._once(key, lambda: staged_audit(self.target, cut, layout, self.cluster)))
        except (StageError, TargetError) as error:
            return Judged(candidate, None, str(error))

    def _rewritten(self, candidate: Candidate, passes: str) -> ir.Module:
        made = module_on_mesh(self.step.module, candidate.mesh)
        run(Pipeline.parse(passes).on(platform_of([self.target.platform])), made, self.step.donated)
        return made

    def _judged(self, candidate: Candidate, alone: bytes, own: bytes) -> Judged:
        try:
            audit = self._audit(own)
            if alone != own:
                wrong = _differences(alone, own, audit, self._audit(alone))
                if wrong:
                    return Judged(candidate, None, f"results would be wrong: {wrong[0]}")
        except TargetError as error:
            return Judged(candidate, None, str(error))
        if audit.peak_memory is None:
            return Judged(candidate, None, f"{self.target.name} does not tell how much memory a program takes")
        return Judged(candidate, audit)

    def _audit(self, module: bytes) -> Audit:
        """The audit of the executable. Of modules that are equal but for the names of axes one is compiled, whatever
        candidates they are of.
        """
        parsed = _parsed(module)
        names = axis_names(parsed.operation)
        numbers = [str(number) for number in range(len(names))]

        def audited() -> Audit:
            found = timed_on(self.target, parsed, self.cluster)
            return renamed(found, dict(zip(names, numbers, strict=True)))

        known = self._once(nameless(parsed.operation, names).encode(), audited)
        return renamed(known, dict(zip(numbers, names, strict=True)))

    def _once(self, what: bytes, audited: Callable[[], Audit]) -> Audit:
        """The audit of `what` for the target, made once in this process."""
        key = hashlib.sha256(repr((self.target.name, self.cluster)).encode() + what).hexdigest()
        with _LOCK:
            job = _CACHE.get(key)
            is_ours = job is None
            if job is None:
                job = _CACHE[key] = Future()
                while len(_CACHE) > _REMEMBERED:
                    _CACHE.popitem(last=False)
        if is_ours:
            try:
                job.set_result(audited())
            except BaseException as error:
                job.set_exception(error)
        return job.result()


_CACHE: "OrderedDict[str, Future[Audit]]" = OrderedDict()
_LOCK = threading.Lock()


def _parsed(module: bytes) -> ir.Module:
    from paropt.passes.support.context import make_context

    return ir.Module.parse(module, make_context())


def _differences(alone: bytes, own: bytes, audit: Audit, audit_alone: Audit) -> list[str]:
    before, after = _parsed(alone), _parsed(own)
    return differences(before.operation, after.operation, audit.collectives, audit_alone.collectives)
