"""`paropt.policies`: the policies side by side, by the numbers of the target's compiler."""

from pathlib import Path

import jax
import pytest
from programs.catalog import LAYERS, MATRIX
from programs.compare import difference_from_definition, tolerance_of
from programs.program import Sizes

import paropt
from paropt.passes.support.pipeline import Pipeline
from paropt.policies import Policies, with_options

SIZES = Sizes(width=64)
SCATTERS_WRITTEN = "grad-sync{scatters=written}"  # of XLA:CPU, too, which is left small ones otherwise


def compared(name: str, memory_budget: int | None) -> Policies:
    program = MATRIX[name](SIZES)
    return paropt.policies(program.step, *program.args, memory_budget=memory_budget, plans=0, passes=SCATTERS_WRITTEN)


@pytest.mark.parametrize("name", ["plain_mlp_p6", "explicit_mlp_p6", "plain_mlp_p7"])
def test_the_budget_decides(name: str) -> None:
    program = MATRIX[name](SIZES)
    free = compared(name, None)
    every, kept, gathered, whole, once = free.choices
    names = ["every", "keep-shards", "gather", "defer", "once"]
    assert [c.policy for c in free.choices] == [f"policy={name}" for name in names]
    assert (gathered.wire_bytes, once.wire_bytes) == (kept.wire_bytes, whole.wire_bytes), "XLA gathers once, told where"
    assert whole.wire_bytes < kept.wire_bytes <= every.wire_bytes
    assert free.best == whole

    leaf = program.gradient_bytes // 3
    tight = compared(name, kept.peak_memory + leaf)
    auto = tight.choices[-1]
    assert tight.best == auto
    assert kept.peak_memory < auto.peak_memory <= kept.peak_memory + leaf < whole.peak_memory
    assert whole.wire_bytes < auto.wire_bytes < kept.wire_bytes

    jitted = paropt.jit(program.step, passes=tight.passes, strict=True)
    results = jitted(*program.args)
    assert difference_from_definition(program, results) <= tolerance_of(name)
    planned = jitted.lower(*program.args).compile()
    assert paropt.audit(planned).peak_memory == auto.peak_memory


def test_parameters_of_layers_are_gathered_at_use_or_once() -> None:
    program = LAYERS["blocks_p17"](Sizes(width=32))
    free = paropt.policies(program.step, *program.args, plans=0)
    _, kept, gathered, whole, once = free.choices
    assert free.best == once
    assert once.wire_bytes < gathered.wire_bytes < kept.wire_bytes
    assert once.wire_bytes < whole.wire_bytes < kept.wire_bytes
    assert kept.peak_memory < gathered.peak_memory < once.peak_memory
    between = paropt.policies(program.step, *program.args, memory_budget=gathered.peak_memory, plans=0)
    assert between.best.wire_bytes <= gathered.wire_bytes
    assert between.best.peak_memory <= gathered.peak_memory


def test_plans_between_the_ends(tmp_path: Path) -> None:
    program = LAYERS["blocks_p17"](Sizes(width=32))
    said: list[str] = []
    found = paropt.policies(program.step, *program.args, plans=2, progress=said.append)
    assert said == [f"policies: {each.policy} for cpu:8" for each in found.choices] + ["policies: XLA alone for cpu:8"]
    *ends, first, second = found.choices
    once = ends[-1]
    assert once.wire_bytes < second.wire_bytes < first.wire_bytes < ends[1].wire_bytes
    front = found.pareto
    assert front[-1] == once
    assert front[0].peak_memory == min(choice.peak_memory for choice in (found.best, *found.choices))
    assert [c.peak_memory for c in front] == sorted(c.peak_memory for c in front)
    assert [c.wire_bytes for c in front] == sorted((c.wire_bytes for c in front), reverse=True)
    found.plot(tmp_path / "policies.svg")
    picture = (tmp_path / "policies.svg").read_text()
    assert "keep-shards" in picture and "auto" in picture and "budget" not in picture


def test_no_policy_fits() -> None:
    found = compared("plain_mlp_p6", 1)
    peaks = [found.alone.peak_memory, *(choice.peak_memory for choice in found.choices)]
    assert found.best.peak_memory == min(peak or 0 for peak in peaks)
    assert "policy=auto" not in str(found)
    table = str(found).splitlines()
    assert table[0] == "reductions and memory on cpu:8, per device and step, 1 B allowed"
    assert ["over budget" in line for line in table[2:]] == [True] * 6
    assert [line for line in table if line.endswith("<- best, over budget")]


def test_what_is_accepted() -> None:
    with pytest.raises(TypeError, match="expected a function or a lowered program, not int"):
        paropt.policies(3)
    with pytest.raises(
        ValueError, match=r"^paropt.policies: the program is for one device, which communicates with none"
    ):
        paropt.policies(lambda x: x * 2, 1.0)
    with pytest.raises(paropt.targets.TargetError):
        paropt.policies(jax.jit(lambda x: x).lower(1.0), target="cpu:many")
    for passes in ("grad-sync", "grad-sync{axes=data}", "hsdp{rules='a b.toml'}"):
        assert "policy=defer" in str(Pipeline.parse(with_options(passes, "policy=defer")))
