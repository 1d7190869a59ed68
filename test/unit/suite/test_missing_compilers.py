"""Tests without the compiler that they ask for are skipped, and no others."""

import missing_compilers
import pytest

from paropt.clusters import targets
from paropt.clusters.compiled import TargetError


def outcome(error: Exception) -> None:
    """What becomes of a test that raises `error`."""
    call = missing_compilers.pytest_runtest_call()
    next(call)
    call.throw(error)


@pytest.mark.parametrize("name", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_a_compiler_that_is_not_installed_skips(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_is_installed", lambda module: False)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    with pytest.raises(TargetError) as missing:
        targets.get(name).require_compiler()
    with pytest.raises(pytest.skip.Exception, match=r"^\S+ needs .*, or `make extras`$"):
        outcome(missing.value)


@pytest.mark.parametrize(
    "error", [TargetError("tpu:v9:2x2: libtpu says no"), ValueError("tpu needs libtpu: pip install it")]
)
def test_other_errors_fail(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        outcome(error)
    assert raised.value is error
