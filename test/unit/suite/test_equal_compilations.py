"""Equal modules are compiled once, and what differs in anything that an executable shows is not equal."""

import gc
import inspect
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import equal_compilations
import jax
import jax.numpy as jnp
import pytest
from equal_compilations import compilations, of_a_file, text_of
from store import ROOT

SHAPE = jax.ShapeDtypeStruct((4, 4), jnp.float32)


def model(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) @ x


def other_line(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) @ x


def lowered(of: Callable[..., Any], **options: Any) -> jax.stages.Lowered:
    def step(x: jax.Array) -> jax.Array:  # another function each time: jax finds nothing that it has compiled
        return of(x)

    return jax.jit(step, **options).lower(SHAPE)


def by_another_caller(of: Callable[..., Any]) -> jax.stages.Lowered:
    return lowered(of)


@pytest.fixture
def kept() -> Iterator[OrderedDict[bytes, Any]]:
    with compilations(once=True) as executables:
        yield executables


def test_what_calls_it_does_not_count(kept: OrderedDict[bytes, Any]) -> None:
    one, two = lowered(model), by_another_caller(model)
    assert one.as_text(debug_info=True) != two.as_text(debug_info=True)
    assert text_of(one.compiler_ir()) == text_of(two.compiler_ir())
    texts = {each.compile().as_text().partition("ENTRY")[2] for each in (one, two)}
    assert len(kept) == len(texts) == 1


def test_lines_donation_and_options_count(kept: OrderedDict[bytes, Any]) -> None:
    for number, each in enumerate((lowered(model), lowered(other_line), lowered(model, donate_argnums=0)), 1):
        each.compile()
        assert len(kept) == number
    lowered(model).compile({"xla_llvm_disable_expensive_passes": False})
    assert len(kept) == 4


def test_callbacks_are_compiled_each_time(kept: OrderedDict[bytes, Any]) -> None:
    def calls_back(x: jax.Array) -> jax.Array:
        jax.debug.callback(lambda value: None, x)
        return x

    lowered(calls_back).compile()
    assert not kept


def test_few_are_kept(kept: OrderedDict[bytes, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_compilations, "KEPT", 1)
    for of in (model, other_line):
        lowered(of).compile()
    assert len(kept) == 1


def test_executables_end_with_their_file() -> None:
    """That of a function which stays, too; and what a cycle of references holds."""
    client, stays = jax.devices()[0].client, jax.jit(model)
    gc.collect()  # not between the two counts
    before = len(client.live_executables())
    with of_a_file():
        stays(jnp.ones((4, 4)))
        in_a_cycle: list[Any] = [jax.jit(other_line).lower(SHAPE).compile()]
        in_a_cycle.append(in_a_cycle)
        del in_a_cycle
        assert len(client.live_executables()) >= before + 2
    assert len(client.live_executables()) <= before


@pytest.mark.parametrize(("programs", "scope"), [("0", "M"), ("1", "F")])
def test_by_night_they_end_with_each_round(programs: str, scope: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--setup-plan",
        "-p",
        "no:cacheprovider",
        "test/unit/suite/test_environment.py",
    ]
    environment = {**os.environ, "PAROPT_PROGRAMS": programs, "PAROPT_UNCHANGED": "run"}
    planned = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"SETUP    {scope} executables_end_with_their_file" in planned


def test_optimized_code_is_compiled_each_time(optimized_code: None) -> None:
    real, calls = equal_compilations._compile_and_load, []

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal_compilations, "_compile_and_load", counted)
        for each in (lowered(model), lowered(model)):
            each.compile()
    assert len(calls) == 2


def test_the_name_of_jax() -> None:
    """With all that jax gives it: another signature would be called wrongly."""
    names = list(inspect.signature(equal_compilations._compile_and_load).parameters)
    assert names == ["backend", "module", "executable_devices", "options", "host_callbacks"]
