"""What only compiled programs tell: sums that XLA alone reduces in bf16."""

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import jax
import pytest
from programs.catalog import MATRIX
from programs.program import Sizes
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census
from paropt.hlo.traffic import Traffic, traffic
from paropt.hook import doubts, rewriting
from paropt.hook.doubts import bytes_in_doubt
from paropt.hook.memory_plans import Plan
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Choice, Remark, Saved
from paropt.passes.support.sources import Source

CPU, GPU = "cpu:8", "gpu:h100:1x1x8"
LITTLE = Sizes(width=128, examples=16, vocabulary=256, sequence=16, heads=4)
MUCH = LITTLE.__class__(**{**vars(LITTLE), "examples": 64})  # activations take more than whole sums do


def compiled(name: str, sizes: Sizes, target: str = CPU, **options: Any) -> tuple[Any, str]:
    """The executable, and what is said of it; of XLA alone without options."""
    program = MATRIX[name](sizes, devices=get(target).devices or None)
    step = paropt.jit(program.step, strict=True, **options) if options else jax.jit(program.step)
    lowered = step.lower(*program.args)
    return lowered.compile(), str(paropt.remarks(lowered)) if options else ""


def temporary(executable: Any) -> int:
    size = executable.memory_analysis().temp_size_in_bytes
    assert isinstance(size, int)
    return size


def sent(executable: Any) -> Traffic:
    return traffic(census(executable.as_text()))


DEFAULT = {"passes": "grad-sync"}


@pytest.mark.parametrize("sizes", [LITTLE, MUCH])
def test_sums_that_the_state_shards_stay_sharded(sizes: Sizes) -> None:
    """ZeRO-1: as XLA alone has them, which nothing has to be compiled for."""
    alone, _ = compiled("plain_transformer_p11", sizes)
    ours, said = compiled("plain_transformer_p11", sizes, **DEFAULT)
    whole, _ = compiled("plain_transformer_p11", sizes, passes="grad-sync{inferred=whole}")
    assert temporary(ours) <= doubts.MORE * temporary(alone)
    assert sent(whole) < sent(ours) <= sent(alone)
    assert (
        "missed: option policy=defer replicates it: its sum is sharded over `data`, and stays so" in said
        and "XLA alone" not in said
    )


def test_what_fails_to_compile_is_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no memory for it\nat all")

    monkeypatch.setattr(rewriting, "settled", fail)
    monkeypatch.setattr(rewriting, "bytes_in_doubt", lambda *_: 1 << 30)
    program = MATRIX["plain_mlp_p4"](Sizes())
    step = paropt.jit(program.step, strict=True)
    lowered = step.lower(*program.args)
    lowered.compile()
    assert "nothing to compare it with was compiled: RuntimeError: no memory for it" in str(paropt.remarks(lowered))


@pytest.mark.parametrize("name", ["plain_mlp_p4", "explicit_mlp_p4"])
def test_xla_gpu_alone_reduces_once_in_a_narrower_type(name: str) -> None:
    """Gradients in bf16 that are added up in f32: half the bytes, and half the buffer of the reduction."""
    available(GPU)
    alone, _ = compiled(name, LITTLE, GPU)
    ours, said = compiled(name, LITTLE, GPU, **DEFAULT)
    wide, _ = compiled(name, LITTLE, GPU, compare=False)
    assert sent(ours) == sent(alone) < sent(wide) and temporary(ours) == temporary(alone) < temporary(wide)
    assert "XLA alone reduces once, too, in a narrower type" in said


def test_then_nothing_else_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("what the passes make of it was compiled")

    available(GPU)
    monkeypatch.setattr(rewriting.Fallback, "compiled", fail)
    _, said = compiled("plain_mlp_p4", LITTLE, GPU, **DEFAULT)
    assert "XLA alone reduces once, too, in a narrower type" in said


def test_where_xla_alone_does_not_compile_the_passes_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> bool:
        raise RuntimeError("no memory for it")

    monkeypatch.setattr(rewriting, "reduces_once", fail)
    monkeypatch.setattr(rewriting, "is_likely_less", lambda *_: True)
    monkeypatch.setattr(rewriting, "bytes_in_doubt", lambda *_: 1 << 30)
    _, said = compiled("plain_mlp_p4", Sizes(), **DEFAULT)
    assert "reduces once, too" not in said and "leave the loop" in said


def plan(*collectives: tuple[str, int]) -> Plan:
    """Collectives, by kind, with the number of loops around each."""
    lines = [SimpleNamespace(kind=kind, depth=depth, at_most=False) for kind, depth in collectives]
    return Plan(cast(Any, SimpleNamespace(as_text=lambda: lines)), Remarks([]))


@pytest.mark.parametrize(
    ("collectives", "expected"),
    [
        ([("all-reduce", 0)], True),
        ([("all-reduce", 0), ("all-gather", 1)], True),
        ([("all-reduce", 0), ("all-reduce", 1)], False),
        ([("reduce-scatter", 2)], False),
    ],
)
def test_xla_alone_is_settled_where_it_reduces_nothing_in_loops(
    collectives: list[tuple[str, int]], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doubts, "census", lambda lines: lines or ())
    assert doubts.reduces_once(plan(*collectives)) == expected


def test_xla_alone_is_compiled_first_where_all_leave_loops_and_much_is_in_doubt() -> None:
    leaves = moved(1, Saved(1, 50, 4, 1, 100))
    stays = Remark("defer-sync", "sdy.all_reduce", leaves.source, False, "why")
    assert doubts.is_likely_less([leaves], 50)
    gathered = dataclasses.replace(stays, pass_name="hoist-gathers", applied=True, choices=(Choice("w", 40, 10),))
    assert not doubts.is_likely_less([leaves, gathered], 50)  # XLA alone gathers it in the loop
    assert not doubts.is_likely_less([leaves, stays], 50)  # XLA reduces in a loop, too
    assert not doubts.is_likely_less([leaves, moved(2, Saved(1, 10000, 4, 1, 10000))], 50)  # as losses beside gradients


def test_in_a_loop_over_layers_xla_gpu_reduces_each_time() -> None:
    """There is no doubt: nothing is compiled again."""
    available(GPU)
    _, said = compiled(
        "plain_mlp_p1", LITTLE.__class__(**{**vars(LITTLE), "dtype": jax.numpy.bfloat16}), GPU, **DEFAULT
    )
    assert "leave the loop" in said and "XLA alone" not in said


def moved(source: int, saved: Saved, before: int | None = None) -> Remark:
    """An array that has left a loop to place `source`; from place `before`, where it had left another one."""
    certificate: Any = SimpleNamespace(moved_from=before, moved_to=source)
    place = cast(Source, Source("step.py", 1, 1, ""))
    return Remark("defer-sync", "sdy.all_reduce", place, True, "", certificate, saved)


@pytest.mark.parametrize(
    ("platform", "remarks", "least"),
    [
        ("gpu", [moved(1, Saved(1, 50, 4, 1, 100))], 50),
        ("cpu", [moved(1, Saved(1, 50, 4, 1, 100))], 0),
        ("gpu", [moved(1, Saved(1, 100, 4, 1, 100))], 0),
        ("gpu", [moved(1, Saved(1, 50, 3, 1, 150)), moved(2, Saved(1, 150, 4, 1, 300), 1)], 0),
        ("gpu", [moved(1, Saved(1, 50, None, 1, 100))], 50),
    ],
)
def test_what_xla_alone_has_to_send_at_least(platform: str, remarks: Sequence[Remark], least: int) -> None:
    """Once what leaves one loop, and in each trip what leaves two: XLA:GPU takes nothing out of a loop over layers."""
    assert bytes_in_doubt(remarks, Pipeline.parse("grad-sync"), platform) == least


@pytest.mark.parametrize(
    "pipeline",
    [
        "grad-sync{accumulate-dtype=f32}",
        "grad-sync{wire-dtype=f32}",
        "pipeline-layer-loop{axis=stage},grad-sync",  # the program as it was has no stages
    ],
)
def test_what_was_asked_for_is_no_doubt(pipeline: str) -> None:
    remarks = [moved(1, Saved(1, 50, 4, 1, 100))]
    assert bytes_in_doubt(remarks, Pipeline.parse(pipeline), "gpu") == 0


def test_sums_in_branches_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch counts as taken in every iteration, which may be more than XLA alone sends, and is not."""
    found = [SimpleNamespace(at_most=True, executions=4, wire_bytes=100.0)]
    monkeypatch.setattr(doubts, "census", lambda text: found)
    made: Any = SimpleNamespace(memory_analysis=lambda: None, as_text=lambda: "")
    first = Plan(made, Remarks([]))

    def never(*_: Any) -> Plan:
        raise AssertionError("it was compiled again")

    assert doubts.settled(first, never, 50, may_take_memory=False) == (first, [])


def test_nothing_is_compiled_again_for_a_hundredth_of_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the norms of a fully sharded step in bf16, beside its matrices."""
    found = [SimpleNamespace(at_most=False, executions=4, wire_bytes=2500.0)]
    assert doubts.LITTLE_IN_DOUBT * 4 * 2500 == 2 * 50
    monkeypatch.setattr(doubts, "census", lambda text: found)
    made: Any = SimpleNamespace(memory_analysis=lambda: None, as_text=lambda: "")
    first = Plan(made, Remarks([]))

    def original() -> Plan:
        raise RuntimeError("it is compiled again")

    assert doubts.settled(first, original, 49, may_take_memory=False) == (first, [])
    with pytest.raises(RuntimeError, match="it is compiled again"):
        doubts.settled(first, original, 50, may_take_memory=False)


@pytest.mark.parametrize(
    ("ours", "is_chosen"),  # bytes held, and sent; XLA alone holds 1000 and sends 400
    [((1020, 400), True), ((1021, 400), False), ((1021, 100), False), ((1000, 401), False)],
)
def test_what_sends_and_holds_no_more_is_chosen(
    ours: tuple[int, int], is_chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(held: int, sent: int) -> Plan:
        memory = SimpleNamespace(temp_size_in_bytes=held)
        return Plan(cast(Any, SimpleNamespace(memory_analysis=lambda: memory, as_text=lambda: str(sent))), Remarks([]))

    monkeypatch.setattr(doubts, "memory_of", lambda stats: SimpleNamespace(temp=stats.temp_size_in_bytes))
    monkeypatch.setattr(
        doubts, "census", lambda text: [SimpleNamespace(at_most=False, executions=1, wire_bytes=float(text))]
    )
    first, alone = plan(*ours), plan(1000, 400)
    found, said = doubts.settled(first, lambda: alone, 1000, may_take_memory=False)
    assert found is (first if is_chosen else alone) and len(said) == 1
    found, _ = doubts.settled(first, lambda: alone, 1000, may_take_memory=True)
    assert found is (first if ours[1] <= 400 else alone)


@pytest.mark.parametrize(
    ("pipeline", "may"),
    [
        ("grad-sync", False),
        ("grad-sync{policy=every}", False),
        ("grad-sync{policy=once}", True),
        ("grad-sync{policy=gather}", True),
        ("hoist-gathers", True),  # which gathers by default
    ],
)
def test_a_policy_that_holds_parameters_or_sums_may_take_memory(pipeline: str, may: bool) -> None:
    """Written-out FSDP in bf16 with policy=once on GPU: XLA alone was chosen, as it takes less."""
    assert doubts.takes_memory(Pipeline.parse(pipeline)) == may


@pytest.mark.parametrize(("sent", "is_chosen"), [(399, True), (400, True), (401, False)])
def test_a_policy_sends_no_more_than_the_default(sent: int, is_chosen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doubts, "census", lambda text: [SimpleNamespace(at_most=False, executions=1, wire_bytes=float(text))]
    )
    first, default = (Plan(cast(Any, SimpleNamespace(as_text=lambda n=n: str(n))), Remarks([])) for n in (sent, 400))
    found, said = doubts.least_sent(first, lambda: default)
    assert found is (first if is_chosen else default) and len(said) == 1


def test_what_xla_moves_in_place_of_a_parameter_is_a_guess() -> None:
    known = moved(1, Saved(1, 50, 4, 1, 100))
    assert not doubts.are_guessed([known])
    assert doubts.are_guessed([known, moved(1, Saved(1, 50, 4, 1, 100, is_guess=True))])


def test_of_two_doubts_both_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that may send more than the default, and reductions in a wider type than XLA's own."""
    asked: list[str] = []

    def answer(name: str) -> Any:
        def settle(first: Plan, *_: Any, **__: Any) -> tuple[Plan, list[str]]:
            asked.append(name)
            return first, [name]

        return settle

    monkeypatch.setattr(rewriting, "least_sent", answer("policy"))
    monkeypatch.setattr(rewriting, "settled", answer("type"))
    monkeypatch.setattr(rewriting, "are_guessed", lambda *_: True)
    monkeypatch.setattr(rewriting, "bytes_in_doubt", lambda *_: 1 << 30)
    program = MATRIX["plain_mlp_p4"](Sizes())
    lowered = paropt.jit(program.step, strict=True).lower(*program.args)
    lowered.compile()
    assert asked == ["policy", "type"]
    assert [remark.text for remark in paropt.remarks(lowered) if remark.pass_name == "paropt"] == asked
