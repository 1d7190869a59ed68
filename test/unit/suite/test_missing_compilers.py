"""Tests without the compiler that they ask for are skipped, and no others."""

import missing_compilers
import pytest

from paropt.clusters import targets
from paropt.clusters.compiled import TargetError

NEEDED = {"tpu:v5e:2x4": "libtpu", "gpu:h100:1x1x8": "jax's CUDA plugin"}


def outcome(error: Exception) -> None:
    """What becomes of a test that raises `error`."""
    call = missing_compilers.pytest_runtest_call()
    next(call)
    call.throw(error)


@pytest.fixture(params=NEEDED)
def without_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TargetError:
    """The error of a target whose compiler can't be found in this test."""
    monkeypatch.setattr(targets, "_is_installed", lambda module: False)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    with pytest.raises(TargetError) as raised:
        targets.get(request.param).require_compiler()
    return raised.value


def test_a_compiler_that_is_not_installed_skips(without_compiler: TargetError, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_compilers.missing() == set(NEEDED.values())
    monkeypatch.setattr(missing_compilers, "MISSING", missing_compilers.missing())
    with pytest.raises(pytest.skip.Exception, match=r"^\S+ needs .*, or `make extras`$"):
        outcome(without_compiler)


def test_one_that_is_installed_does_not(without_compiler: TargetError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_compilers, "MISSING", frozenset())
    with pytest.raises(TargetError):
        outcome(without_compiler)


def test_other_errors_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_compilers, "MISSING", frozenset(NEEDED.values()))
    for error in (TargetError("tpu:v9:2x2: libtpu says no"), ValueError("tpu needs libtpu: pip install it")):
        with pytest.raises(type(error)) as raised:
            outcome(error)
        assert raised.value is error


@pytest.mark.parametrize("phase", ["setup", "call"])
def test_fixtures_are_watched_as_tests_are(phase: str, pytestconfig: pytest.Config) -> None:
    hook = getattr(pytestconfig.hook, f"pytest_runtest_{phase}")
    assert missing_compilers in [each.plugin for each in hook.get_hookimpls()]
