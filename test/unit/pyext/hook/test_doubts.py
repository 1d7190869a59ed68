"""What only compiled programs tell: whole sums that take more memory, and sums that XLA alone reduces in bf16."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest
from programs.catalog import MATRIX
from programs.program import Sizes
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census
from paropt.hlo.traffic import Traffic, traffic
from paropt.hook import doubts, rewriting
from paropt.hook.doubts import doubts_of
from paropt.hook.memory_plans import Plan
from paropt.modules.summary import Remarks
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark, Saved, Source

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


def test_whole_sums_that_take_more_memory_stay_sharded() -> None:
    """ZeRO-1: XLA alone shards the sums as the optimizer's state."""
    alone, _ = compiled("plain_transformer_p11", MUCH)
    ours, said = compiled("plain_transformer_p11", MUCH, **DEFAULT)
    whole, unsaid = compiled("plain_transformer_p11", MUCH, compare=False)
    asked, _ = compiled("plain_transformer_p11", MUCH, passes="grad-sync{inferred=whole}")
    assert temporary(ours) <= 1.02 * temporary(alone) < temporary(whole) == temporary(asked)
    assert sent(whole) < sent(ours) <= sent(alone)
    assert f"whole sums take {temporary(whole)} bytes" in said and f"XLA alone {temporary(alone)}: sums stay" in said
    assert "XLA alone" not in unsaid


def test_whole_sums_that_take_no_more_are_reduced_once() -> None:
    alone, _ = compiled("plain_transformer_p11", LITTLE)
    ours, said = compiled("plain_transformer_p11", LITTLE, **DEFAULT)
    assert temporary(ours) <= temporary(alone) and 2 * sent(ours).known < sent(alone).known
    assert f"whole sums take {temporary(ours)} bytes" in said and "sums stay" not in said


def test_little_that_is_held_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes much more than all sums that are held cannot be 2 % above what XLA alone takes."""
    monkeypatch.setattr(doubts, "_temporary", lambda plan: 1 << 40)
    _, said = compiled("plain_mlp_p11", Sizes(), **DEFAULT)
    assert "XLA alone" not in said


def test_what_fails_to_compile_is_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no memory for it\nat all")

    monkeypatch.setattr(rewriting, "settled", fail)
    program = MATRIX["plain_mlp_p11"](Sizes())
    step = paropt.jit(program.step, strict=True)
    lowered = step.lower(*program.args)
    lowered.compile()
    assert "nothing to compare it with was compiled: RuntimeError: no memory for it" in str(paropt.remarks(lowered))


def test_the_same_values_whichever_is_chosen() -> None:
    program = MATRIX["plain_transformer_p11"](Sizes(examples=64))
    results = [paropt.jit(program.step, compare=compare)(*program.args) for compare in (None, False)]
    for one, other in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["plain_mlp_p4", "explicit_mlp_p4"])
def test_xla_gpu_alone_reduces_once_in_a_narrower_type(name: str) -> None:
    """Gradients in bf16 that are added up in f32: half the bytes, and half the buffer of the reduction."""
    available(GPU)
    alone, _ = compiled(name, LITTLE, GPU)
    ours, said = compiled(name, LITTLE, GPU, **DEFAULT)
    wide, _ = compiled(name, LITTLE, GPU, compare=False)
    assert sent(ours) == sent(alone) < sent(wide) and temporary(ours) == temporary(alone) < temporary(wide)
    assert "XLA alone reduces in a narrower type" in said


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
    ("platform", "remarks", "narrower"),
    [
        ("gpu", [moved(1, Saved(1, 50, 4, 1, 100))], 50),
        ("cpu", [moved(1, Saved(1, 50, 4, 1, 100))], 0),
        ("gpu", [moved(1, Saved(1, 100, 4, 1, 100))], 0),
        ("gpu", [moved(1, Saved(1, 50, 3, 1, 150)), moved(2, Saved(1, 150, 4, 1, 300), 1)], 0),
        ("gpu", [moved(1, Saved(1, 50, None, 1, 100))], 50),
    ],
)
def test_what_xla_alone_has_to_send_at_least(platform: str, remarks: Sequence[Remark], narrower: int) -> None:
    """Once what leaves one loop, and in each trip what leaves two: XLA:GPU takes nothing out of a loop over layers."""
    assert doubts_of(remarks, Pipeline.parse("grad-sync"), platform).narrower == narrower


@pytest.mark.parametrize("option", ["accumulate-dtype=f32", "wire-dtype=f32"])
def test_a_type_that_was_asked_for_is_no_doubt(option: str) -> None:
    remarks = [moved(1, Saved(1, 50, 4, 1, 100))]
    assert doubts_of(remarks, Pipeline.parse(f"grad-sync{{{option}}}"), "gpu").narrower == 0


def test_sums_in_branches_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch counts as taken in every iteration, which may be more than XLA alone sends, and is not."""
    found = [SimpleNamespace(at_most=True, executions=4, wire_bytes=100.0)]
    monkeypatch.setattr(doubts, "census", lambda text: found)
    made: Any = SimpleNamespace(memory_analysis=lambda: None, as_text=lambda: "")
    first = Plan(made, Remarks([]))

    def never(*_: Any) -> Plan:
        raise AssertionError("it was compiled again")

    assert doubts.settled(doubts.Doubts(narrower=50), first, never, never) == (first, [])


@pytest.mark.parametrize(
    ("whole", "sharded", "chosen"),  # bytes held, and sent; XLA alone holds 1000 and sends 400
    [
        ((1020, 100), (0, 0), "whole"),
        ((1021, 100), (1020, 400), "sharded"),
        ((1021, 100), (1021, 400), "alone"),
        ((1021, 100), (1000, 401), "alone"),
    ],
)
def test_what_is_no_worse_than_xla_alone_is_chosen(
    whole: tuple[int, int], sharded: tuple[int, int], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(held: int, sent: int) -> Plan:
        memory = SimpleNamespace(temp_size_in_bytes=held)
        return Plan(cast(Any, SimpleNamespace(memory_analysis=lambda: memory, as_text=lambda: str(sent))), Remarks([]))

    monkeypatch.setattr(doubts, "memory_of", lambda stats: SimpleNamespace(temp=stats.temp_size_in_bytes))
    monkeypatch.setattr(
        doubts, "census", lambda text: [SimpleNamespace(at_most=False, executions=1, wire_bytes=float(text))]
    )
    plans = {"whole": plan(*whole), "sharded": plan(*sharded), "alone": plan(1000, 400)}
    pipeline = Pipeline.parse("grad-sync")
    found, _ = doubts.settled(
        doubts.Doubts(held=500, with_shards=pipeline),
        plans["whole"],
        lambda _: plans["sharded"],
        lambda: plans["alone"],
    )
    assert found is plans[chosen]


@pytest.mark.parametrize(
    ("pipeline", "held"),
    [
        ("grad-sync", 3),
        ("expose-all-reduces", 3),
        ("grad-sync{inferred=whole}", 0),
        ("grad-sync{inferred=stacked}", 0),
        ("grad-sync{policy=defer}", 0),
        ("defer-sync", 0),
        ("pipeline-layer-loop{axis=stage},grad-sync", 0),  # the program as it was has no stages
    ],
)
def test_what_was_asked_for_is_no_doubt(pipeline: str, held: int) -> None:
    held_whole = Remark("expose-all-reduces", "stablehlo.while", Source("step.py", 1, 1, ""), True, "", held=3)
    other = Remark("defer-sync", "sdy.all_reduce", Source("step.py", 2, 1, ""), True, "", held=5)
    assert doubts_of([held_whole, other], Pipeline.parse(pipeline), "cpu").held == held
