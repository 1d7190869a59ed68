"""What programs of tests share or leave out: MLIR contexts, drawn numbers, flags of XLA."""

from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest
from programs.program import Sizes
from programs.unplaced import shapes_of
from unit.scripts import load


def test_ten_lowerings_share_a_context() -> None:
    """Those of others count, too: somewhere among thirteen a new one begins."""
    modules = [jax.jit(lambda x, n=n: x + n).lower(1.0).compiler_ir() for n in range(13)]
    changes = sum(one.context is not other.context for one, other in pairwise(modules))
    assert changes in (1, 2)


def test_of_shapes_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Numbers:
        def standard_normal(self, *_: Any) -> None:
            raise AssertionError("parameters are drawn")

        def integers(self, *_: Any, size: Any, dtype: Any) -> np.ndarray:
            return np.zeros(size, dtype)  # tokens

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Numbers())
    made = shapes_of("transformer", Sizes(width=16, layers=2, heads=2))
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(made.args))


def test_a_tool_keeps_flags_and_sets_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    flags_for = load("simulated_devices").flags_for
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1 --xla_force_host_platform_device_count=8 --xla_b=2")
    assert flags_for(4) == "--xla_a=1 --xla_b=2 --xla_force_host_platform_device_count=4"
    monkeypatch.delenv("XLA_FLAGS")
    assert flags_for(2) == "--xla_force_host_platform_device_count=2"
