"""Machine code that is made quickly, which tests run: executables communicate the same, in the same memory."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import gpu_assembler
import jax
import pytest
from jaxlib import xla_client
from programs.catalog import LAYERS, MATRIX
from programs.machine_code import machine_code
from programs.program import Sizes
from programs.quick_options import FLAGS, QUICK
from unit.clusters import available, signs

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census

NAMES = ("blocks_p18", "plain_transformer_p6", "plain_mlp_p7", "explicit_mlp_p6")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_and_taken_is_the_same(name: str) -> None:
    found = []
    for is_optimized in (True, False):  # from one line: the executable names the lines that made it
        program = (LAYERS | MATRIX)[name](Sizes(width=32))
        with machine_code(is_optimized=is_optimized):
            compiled = paropt.jit(program.step, strict=True).lower(*program.args).compile()
        found.append((Counter(map(str, census(compiled.as_text()))), compiled.memory_analysis()))
    (wanted, memory), (sent, taken) = found
    assert wanted == sent
    assert taken.output_size_in_bytes == memory.output_size_in_bytes
    assert taken.alias_size_in_bytes == memory.alias_size_in_bytes
    assert abs(taken.temp_size_in_bytes - memory.temp_size_in_bytes) <= 0.01 * memory.temp_size_in_bytes


@pytest.mark.parametrize("target", ["gpu:h100:1x1x8", "tpu:v5e:2x4"])
def test_options_and_stand_in_change_nothing_that_is_looked_at(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    available(target)
    if target.startswith("gpu"):
        assert gpu_assembler.FOLDER in Path(os.environ[gpu_assembler.ROOT_VARIABLE]).parents
    program = LAYERS["blocks_p18"](Sizes(width=32), get(target).devices)
    lowered = paropt.jit(program.step, strict=True).lower(*program.args)
    ours = get(target).compile(lowered)
    monkeypatch.delenv(gpu_assembler.ROOT_VARIABLE, raising=False)
    assert FLAGS in os.environ["XLA_FLAGS"]
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"].replace(FLAGS, ""))
    users = get(target).compile(lowered)
    assert signs(ours.hlo) == signs(users.hlo)
    assert ours.memory == users.memory


def options_of(monkeypatch: pytest.MonkeyPatch, **given: Any) -> dict[str, Any]:
    """The XLA options with which `jit` compiles."""
    seen: list[Any] = []
    compile_here = xla_client._xla.Client.compile_and_load

    def compile_and_load(*arguments: Any, compile_options: Any, **named: Any) -> Any:
        seen.append(dict(compile_options.env_option_overrides))
        return compile_here(*arguments, compile_options=compile_options, **named)

    monkeypatch.setattr(xla_client._xla.Client, "compile_and_load", compile_and_load)
    jax.jit(lambda x: x + 1, **given).lower(1.0).compile()
    (options,) = seen
    return dict(options)


def test_tests_compile_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options_of(monkeypatch) == QUICK


def test_options_of_a_user_win(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"xla_backend_optimization_level": 1}
    assert options_of(monkeypatch, compiler_options=given) == QUICK | given


@pytest.mark.usefixtures("optimized_code")
def test_a_test_asks_for_what_users_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = options_of(monkeypatch)
    assert found.keys() == QUICK.keys()
    assert not any(found[name] == QUICK[name] for name in found)
