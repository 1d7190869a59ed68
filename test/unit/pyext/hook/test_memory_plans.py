"""Memory budgets of programs: plans that shrink until they fit, and what is accepted as a budget."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from programs.catalog import LAYERS
from programs.compare import difference_from_definition, tolerance_of
from programs.program import Program, Sizes

import paropt
from paropt.audit import audit
from paropt.clusters.compiled import TargetError
from paropt.clusters.device_memory import memory_budget_of, read_budget
from paropt.hook import rewriting
from paropt.hook.memory_plans import TRIES, Plan, fitting
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import Source

BASE = 100  # bytes that the programs of these tests take beside what their plan holds


class Stats(NamedTuple):
    """What XLA tells of an executable."""

    temp_size_in_bytes: int
    argument_size_in_bytes: int = 0
    output_size_in_bytes: int = 0
    alias_size_in_bytes: int = 0


class Executable(NamedTuple):
    peak: int

    def memory_analysis(self) -> Stats:
        return Stats(self.peak)


def plan(held: int, peak: int, *, is_original: bool = False) -> Plan:
    remark = Remark("pass", "op", Source("", 0, 0, ""), applied=True, text="", held=held)
    return Plan(Executable(peak), Remarks([remark]), is_original)


class Compiler:
    """Makes plans of steps of 10 bytes, each of which takes `factor` times what is predicted."""

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor
        self.rooms: list[int] = []

    def __call__(self, room: int) -> Plan:
        self.rooms.append(room)
        held = room // 10 * 10
        return plan(held, BASE + self.factor * held)


def unchanged(peak: int = BASE) -> Callable[[], Plan]:
    return lambda: plan(0, peak, is_original=True)


def test_a_plan_that_fits_is_compiled_once() -> None:
    compiler = Compiler()
    chosen, said = fitting(plan(50, 150), 150, compiler, unchanged())
    assert (chosen.held, compiler.rooms) == (50, [])
    assert said == ["a plan that holds 50 bytes more takes 150 bytes of a budget of 150 (150 B)"]


def test_a_plan_that_is_too_large_shrinks_to_what_fits() -> None:
    compiler = Compiler()
    chosen, said = fitting(plan(50, 150), 125, compiler, unchanged())
    assert (chosen.held, compiler.rooms) == (20, [25])
    assert said == [
        "a plan that holds 50 bytes more takes 150 bytes of a budget of 125 (125 B): too many",
        "a plan that holds 20 bytes more takes 120 bytes of a budget of 125 (125 B)",
    ]


@pytest.mark.parametrize("budget", [140, 110, 100])
def test_at_most_three_times(budget: int) -> None:
    compiler = Compiler(factor=2)
    chosen, said = fitting(plan(50, 200), budget, compiler, unchanged())
    assert len(compiler.rooms) == len(said) - 1 <= TRIES
    assert chosen.peak <= budget


def test_a_peak_that_hardly_depends_on_what_is_held() -> None:
    """Less by as much as it was too much does not do twice: then half, and not nothing."""
    peaks = {400: 1100, 350: 1060, 170: 1000, 0: 700}
    rooms: list[int] = []

    def again(room: int) -> Plan:
        rooms.append(room)
        held = max(size for size in peaks if size <= room)
        return plan(held, peaks[held])

    chosen, _ = fitting(plan(400, 1100), 1050, again, unchanged())
    assert (chosen.held, rooms) == (170, [350, 175])


def test_what_holds_nothing_may_take_more_than_the_program() -> None:
    chosen, said = fitting(plan(50, 150), 90, Compiler(), unchanged(80))
    assert chosen.is_original and chosen.peak == 80
    assert said[-1] == "the program takes 80 bytes of a budget of 90 (90 B)"


def test_where_nothing_fits_the_smallest_is_chosen() -> None:
    chosen, said = fitting(plan(50, 130), 90, lambda room: plan(0, 140), unchanged(145))
    assert (chosen.held, chosen.peak) == (50, 130)
    assert said[-1] == "a plan that holds 50 bytes more takes 130 bytes of a budget of 90 (90 B): too many"


def test_what_the_compiler_refuses_is_tried_with_what_is_free() -> None:
    compiler = Compiler()
    chosen, _ = fitting(plan(0, 90, is_original=True), 130, compiler, unchanged())
    assert (chosen.held, compiler.rooms) == (30, [0, 30])


@pytest.mark.parametrize("budget", [None, 0, 5, np.int64(5), 60e9, "auto", "5B", "60GiB", "512MB", "4kB"])
def test_budgets(budget: Any) -> None:
    expected = {"5B": 5, "60GiB": 60 << 30, "512MB": 512_000_000, "4kB": 4000}
    assert read_budget(budget) == expected.get(budget, budget)


def test_devices_that_do_not_tell_their_memory_are_refused_before_passes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing, passes and compilation may take minutes."""
    ran: list[object] = []
    monkeypatch.setattr(rewriting, "_rewrite", lambda *given: ran.append(given))
    with pytest.raises(TargetError, match=r"^memory_budget=auto: cpu does not tell how much memory it has; give bytes"):
        paropt.jit(lambda x: x, memory_budget="auto").lower(np.ones(8))
    assert not ran


@pytest.mark.parametrize("budget", [-1, True, 1.5, -1e9, float("nan"), float("inf"), "much", "5 parsecs"])
def test_no_budgets(budget: Any) -> None:
    with pytest.raises(ValueError, match=r"^memory_budget=.*: expected a number of bytes, such as 60GiB, or auto$"):
        paropt.jit(lambda x: x, memory_budget=budget)


@pytest.mark.parametrize("number", ["60", " 60 ", "85899345920", "1.5"])
def test_text_without_a_unit_is_no_budget(number: str) -> None:
    bare = number.strip()
    said = f"memory_budget={number!r}: text takes a unit, as in {bare}GiB, or {bare}B for bytes"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        paropt.jit(lambda x: x, memory_budget=number)


def test_an_option_of_passes_is_a_number_of_bytes() -> None:
    passes = "grad-sync{policy=auto memory-budget=60}"
    assert paropt.jit(lambda x: x, passes=passes).passes == str(Pipeline.parse(passes))
    assert "memory-budget=60}" in str(Pipeline.parse(passes))


def test_passes_without_policies_take_no_budget() -> None:
    with pytest.raises(ValueError, match="memory_budget: no pass of `inline-calls` has the option `policy`"):
        paropt.jit(lambda x: x, passes="inline-calls", memory_budget=1)


def test_another_policy_takes_no_budget() -> None:
    with pytest.raises(
        ValueError, match=r"memory_budget: it goes with policy=auto, and `grad-sync\{policy=once\}` has policy=once"
    ):
        paropt.jit(lambda x: x, passes="grad-sync{policy=once}", memory_budget=1)


class Device(NamedTuple):
    device_kind: str
    stats: dict[str, int] | None = None

    def memory_stats(self) -> dict[str, int] | None:
        return self.stats


def test_auto_is_what_the_device_has_less_a_tenth() -> None:
    assert memory_budget_of("auto", [Device("any", {"bytes_limit": 1000})]) == 900
    assert memory_budget_of("auto", [Device("TPU v5 lite")]) == (16 << 30) - (16 << 30) // 10
    assert memory_budget_of("auto", paropt.targets.get("gpu:h100:1x1x8").devices) == (80 << 30) * 9 // 10
    with pytest.raises(paropt.targets.TargetError, match="auto: cpu does not tell how much memory it has; give bytes"):
        memory_budget_of("auto", [Device("cpu")])
    assert memory_budget_of(7, []) == 7


def layers(width: int = 64) -> Program:
    return LAYERS["blocks_p17"](Sizes(width=width))


def test_a_program_takes_no_more_than_its_budget() -> None:
    program = layers()
    kept, once = (
        audit(paropt.jit(program.step, passes=f"grad-sync{{policy={policy}}}", strict=True).lower(*program.args).compile())
        for policy in ("keep-shards", "once")
    )  # fmt: skip
    assert kept.peak_memory and once.peak_memory
    between = (kept.peak_memory + once.peak_memory) // 2
    jitted = paropt.jit(program.step, memory_budget=between, strict=True)
    lowered = jitted.lower(*program.args)
    found = audit(lowered.compile())
    assert found.peak_memory and kept.peak_memory < found.peak_memory <= between
    assert once.total().wire < found.total().wire < kept.total().wire
    *_, before, last = [remark.message for remark in paropt.remarks(lowered) if remark.pass_name == "paropt"]
    assert before.endswith(": too many")
    assert f"takes {found.peak_memory} bytes of a budget of {between}" in last
    assert difference_from_definition(program, jitted(*program.args)) <= tolerance_of("blocks_p17")


def test_a_budget_that_nothing_fits_is_told() -> None:
    program = layers(width=16)
    says = r"memory_budget: nothing fits 1 kB: the smallest program found takes [\d.]+ kB per device, [\d.]+ kB more; "
    with pytest.warns(RuntimeWarning, match=says):
        paropt.jit(program.step, memory_budget="1kB").lower(*program.args).compile()


def test_auto_in_pipelines() -> None:
    program = LAYERS["blocks_p17"](Sizes(width=16), devices=paropt.targets.get("tpu:v5e:2x4").devices)
    report = audit(
        program.step, *program.args, passes="grad-sync{policy=auto memory-budget=auto}", targets=["tpu:v5e:2x4"]
    )
    free = int(report["tpu:v5e:2x4"].passes.partition("memory-budget=")[2].rstrip("}"))
    assert 0.89 * (16 << 30) < free < 0.9 * (16 << 30)
