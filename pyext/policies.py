"""`paropt.policies`: bytes that each policy of `grad-sync` sends and holds, and which one fits a memory budget.

Unsharded sums that are reduced once, or shards that every micro-batch reduces into; parameters that are gathered once,
or at each use: the passes estimate the bytes of a sum, but only the target's compiler knows those of the executable. So
it is asked: docs/sharded-training.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paropt.audit import audit
from paropt.base.argument_types import require_type
from paropt.base.device_grid import device_grid
from paropt.base.progress import Progress, require_progress, to_terminal
from paropt.base.wording import size_text
from paropt.clusters.device_memory import MemoryBudget, memory_budget_of, read_budget
from paropt.hlo.census import SYNC_KINDS
from paropt.hlo.traffic import Traffic, traffic, traffic_by_axes
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.support.pipeline import Pipeline
from paropt.reports.comparison import AuditReport
from paropt.reports.totals import Audit

if TYPE_CHECKING:
    from paropt.clusters.targets import Target

ALONE = "XLA alone"
_DEFAULT = "policy=keep-shards"  # of the passes
_FIXED = ("every", "keep-shards", "gather", "defer", "once")  # policies that have no budget
_AUTO = "policy=auto memory-budget={}"
_TRIES = 4  # compilations that look for the bytes that auto may hold


@dataclass(frozen=True)
class Choice:
    """One policy, or XLA alone: the pipeline, and the bytes that the executable sends and holds."""

    policy: str  # as options of the pipeline, or ALONE, whose pipeline is empty
    passes: str
    audit: Audit

    @property
    def peak_memory(self) -> int:
        """Bytes per device: arguments, results and temporaries, without results written over arguments."""
        return self.audit.peak_memory or 0

    @property
    def sent(self) -> Traffic:
        """The bytes that a device sends, by all kinds of collectives."""
        return traffic(self.audit.collectives)

    @property
    def wire_bytes_by_axes(self) -> dict[tuple[str, ...], float]:
        """The same for each set of mesh axes that collectives span; () where that is not known."""
        return {axes: sent.known for axes, sent in traffic_by_axes(self.audit.collectives).items()}

    @property
    def wire_bytes(self) -> float:
        """Bytes that a device sends per step, by all kinds of collectives."""
        return self.sent.known


@dataclass(frozen=True)
class Policies:
    """The policies side by side. `str` of it is a table."""

    alone: Audit  # XLA without passes
    choices: tuple[Choice, ...]
    memory_budget: int | None  # bytes per device
    target: str

    @property
    def best(self) -> Choice:
        """Of those that fit the budget the one that sends least, then the smallest; if none fits, the smallest.

        XLA alone is one of them. Of equals it is the default policy.
        """
        in_order = sorted(self._all, key=lambda choice: choice.policy != _DEFAULT)
        fitting = [choice for choice in in_order if self._fits(choice.audit)]
        if not fitting:
            return min(in_order, key=lambda choice: choice.peak_memory)
        return min(fitting, key=lambda choice: (choice.sent, choice.peak_memory))

    @property
    def pareto(self) -> tuple[Choice, ...]:
        """Those of which no other one holds and sends as little or less; the smallest first."""
        front: list[Choice] = []
        for choice in sorted(self._all, key=lambda choice: (choice.peak_memory, choice.sent)):
            if not front or choice.sent < front[-1].sent:
                front.append(choice)
        return tuple(front)

    def plot(self, path: str | Path) -> None:
        """Writes a picture of the bytes that each sends and holds to `path`. Raises ImportError without matplotlib."""
        from paropt.reports.pareto import Point, plot_pareto

        front = {(choice.peak_memory, choice.wire_bytes) for choice in self.pareto}
        points = [
            Point(c.policy.removeprefix("policy="), *place, is_best=place in front)
            for c in self._all
            for place in [(c.peak_memory, c.wire_bytes)]
        ]
        plot_pareto(points, self.target, path)

    @property
    def passes(self) -> str:
        """The pipeline of the best policy, for `paropt.jit`; empty where XLA alone is best."""
        return self.best.passes

    @property
    def _all(self) -> tuple[Choice, ...]:
        return (Choice(ALONE, "", self.alone), *self.choices)

    @property
    def _axes(self) -> list[tuple[str, ...]]:
        """The sets of mesh axes that collectives span, those of one axis first; none where all span the same."""
        found = {axes for choice in self._all for axes in choice.wire_bytes_by_axes}
        return sorted(found, key=lambda axes: (len(axes), axes)) if len(found) > 1 else []

    def _fits(self, audited: Audit) -> bool:
        return self.memory_budget is None or (audited.peak_memory or 0) <= self.memory_budget

    def __str__(self) -> str:
        over = self._axes
        heads = [f"over {','.join(axes) or '?'}" for axes in over]
        rows: list[tuple[str, ...]] = [("policy", "in loops", "after", "sent in all", *heads, "peak memory", "")]
        best = self.best.policy
        for choice in self._all:
            total = choice.audit.total(*SYNC_KINDS)
            sent = choice.wire_bytes_by_axes
            by_axes = [round(sent.get(axes, 0)) for axes in over]
            sizes = (total.in_loops, total.outside, round(choice.wire_bytes), *by_axes, choice.peak_memory)
            said = "" if self._fits(choice.audit) else "over budget"
            marks = ["<- best"] * (choice.policy == best) + [said] * bool(said)
            rows.append((choice.policy, *map(size_text, sizes), ", ".join(marks)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        budget = f", {size_text(self.memory_budget)} allowed" if self.memory_budget is not None else ""
        return "\n".join([f"reductions and memory on {self.target}, per device and step{budget}", *lines])


def policies(
    program: Any,
    /,
    *args: Any,
    target: "str | Target | None" = None,
    memory_budget: MemoryBudget = None,
    plans: int = 3,
    passes: str = DEFAULT_PIPELINE,
    progress: Progress = to_terminal,
    **kwargs: Any,
) -> Policies:
    """Compiles `program` for `target` under each policy, and measures the bytes that it sends and holds.

    Without a target, it is as many CPU devices as the program is for.

    `program` is a function or the result of `jax.jit`, which is lowered for the arguments (arrays or
    `jax.ShapeDtypeStruct`), or a `jax.stages.Lowered`. `passes` is one pipeline that has the option `policy`. Between
    the ends, so many `plans` of the policy `auto` hold the arrays that save most, with budgets in equal steps. With
    `memory_budget`, per device and for all that the program holds, in bytes or as text such as "60GiB" ("auto": nine
    tenths of a device's memory), there is one for the rest of the budget, which is found by compiling. `progress` is
    called with a line of text before each compilation; by default, it prints to a terminal.

    Raises ValueError for a wrong budget, a negative number of plans, or a program for one device and no target,
    TargetError when the target is not known,
    PipelineError for a wrong pipeline, and TypeError for another program, or a keyword that neither this nor `program`
    takes, all before anything is compiled; TargetError when the target does not tell how much memory a program takes.
    """
    from paropt.clusters import targets
    from paropt.clusters.compile_apart import standing_compilers

    require_progress(progress)
    asked = read_budget(memory_budget)
    require_type(plans, int, "plans", "a number")
    if plans < 0:
        raise ValueError(f"plans={plans}: expected a number of at least 0")
    found = targets.target_of("cpu:8" if target is None else target)
    found.require_compiler()
    Pipeline.parse(with_options(passes, _DEFAULT))
    budget = None if asked is None else memory_budget_of(asked, found.devices)
    with standing_compilers():
        name = None if target is None else found.name
        return _Comparison(program, args, kwargs, name, passes, progress).run(budget, plans)


class _Comparison:
    def __init__(
        self, program: Any, args: Any, kwargs: Any, target: str | None, passes: str, progress: Progress
    ) -> None:
        from paropt.base.keywords import explained_keywords, require_no_arguments
        from paropt.hook.lowering import lowered_for_arguments, lowered_of

        lowered = lowered_of(program)
        if lowered is None and not callable(program):
            kind = type(program).__name__
            raise TypeError(f"paropt.policies: expected a function or a lowered program, not {kind}")
        if lowered is not None:
            require_no_arguments(policies, args, kwargs)
        with explained_keywords(policies, program, kwargs):
            self._lowered = lowered or lowered_for_arguments(program, args, kwargs)
        self._target = target or self._of_cpus()
        self._passes = passes
        self._progress = progress

    def _of_cpus(self) -> str:
        """As many as the program is for."""
        module: Any = self._lowered.compiler_ir()
        replicas, partitions = device_grid(module.operation)
        if replicas * partitions == 1:
            what = "arguments with shardings over several, arrays or jax.ShapeDtypeStruct"
            raise ValueError(
                f"paropt.policies: the program is for one device, which communicates with none: give {what}"
            )
        return f"cpu:{replicas * partitions}"

    def run(self, memory_budget: int | None, plans: int) -> Policies:
        fixed = {name: self._choice(f"policy={name}") for name in _FIXED}
        slow = [self._choice(f"policy=once axes={axes}") for axes in self._slow_axes()]
        kept, once = (fixed[name].peak_memory for name in ("keep-shards", "once"))
        rooms = [(once - kept) * (i + 1) // (plans + 1) for i in range(plans)]
        steps = [self._choice(_AUTO.format(room)) for room in dict.fromkeys(rooms) if room > 0]
        auto = [] if memory_budget is None else list(self._auto(kept, memory_budget))
        self._progress(f"policies: {ALONE} for {self._target}")
        return Policies(self._audit(""), (*fixed.values(), *slow, *steps, *auto), memory_budget, self._target)

    def _slow_axes(self) -> list[str]:
        """The axes that join hosts, as the option takes them; none where no axis is faster."""
        from paropt.clusters.targets import get
        from paropt.hook.slow_axes import slow_axes

        module: Any = self._lowered.compiler_ir()
        found = slow_axes(module.operation, get(self._target).devices)
        return [",".join(found)] if found else []

    def _auto(self, kept: int, budget: int) -> Iterator[Choice]:
        """`auto` with as much to hold as the executable has room for beside the bytes that it takes with its shards."""
        room = budget - kept
        for _ in range(_TRIES):
            if room <= 0:
                return  # that is keep-shards
            found = self._choice(_AUTO.format(room))
            if found.peak_memory <= budget:
                yield found
                return
            room -= found.peak_memory - budget

    def _choice(self, policy: str) -> Choice:
        self._progress(f"policies: {policy} for {self._target}")
        passes = with_options(self._passes, policy)
        return Choice(policy, passes, self._audit(passes))

    def _audit(self, passes: str) -> Audit:
        from paropt.clusters.targets import TargetError

        report = audit(self._lowered, passes=passes, targets=[self._target])
        assert isinstance(report, AuditReport), "it has targets"
        found = report[self._target].after
        if found.peak_memory is None:
            raise TargetError(f"target {self._target} does not tell how much memory a program takes")
        return found


def with_options(passes: str, options: str) -> str:
    """The pipeline `passes`, one name with or without options in braces, with more options."""
    name, brace, given = passes.strip().partition("{")
    return f"{name}{{{given.removesuffix('}')} {options}}}" if brace else f"{name}{{{options}}}"
