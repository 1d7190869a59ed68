"""By default a language model takes no more memory than by XLA alone, however it is written, and sends no more.

Gradients take more than activations, and the vocabulary more than the layers.
"""

from collections.abc import Callable
from typing import Any

import jax
import pytest
from programs.language_models import Form, language_model
from programs.package_models import STEPS
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census
from paropt.hlo.traffic import traffic

CPU, TPU, GPU = "cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"
AROUND, IN, OPEN = frozenset({"before", "behind"}), frozenset({"in"}), frozenset[str]()

FORMS = [
    Form("fsdp", constrained=OPEN),
    Form("fsdp", constrained=AROUND),
    Form("fsdp", constrained=IN, is_scanned=False),
    Form("fsdp", vocabulary=32000, width=64, constrained=AROUND, is_tied=True, optimizer="adam"),
    Form("fsdp", vocabulary=256, constrained=AROUND, dtype="float32", is_scanned=False),
    Form("hsdp", constrained=OPEN),  # the state is sharded over both axes, parameters over one
    Form("hsdp", constrained=AROUND, is_tied=True),
    Form("zero1", constrained=OPEN),
    Form("zero1", constrained=OPEN, is_scanned=False, is_tied=True),
    Form("zero2", constrained=frozenset({"before"})),
    Form("zero2", constrained=frozenset({"behind"}), is_scanned=False),
    Form("zero2", constrained=AROUND, is_tied=True),
    Form("dp", constrained=OPEN, is_tied=True),
    Form("dp", constrained=OPEN, is_scanned=False),
]


NO_MORE = 1.02  # times XLA alone
# XLA:GPU of jax 0.12 does not reduce these in place: by one of two tables of 4 MB each, beside 21 MB.
HOLDS_MORE = {("nnx-dp", GPU): 1.2, ("keras-dp", GPU): 1.2} if jax.__version_info__ >= (0, 12) else {}


@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", [CPU, TPU, GPU])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_holds_and_sends_no_more(form: Form, target: str) -> None:
    available(target)
    compare(*language_model(form, devices_of(target)), tells_peak=target != CPU)


@pytest.mark.targets_in_turns
@pytest.mark.parametrize("target", [CPU, TPU, GPU])
@pytest.mark.parametrize("name", STEPS)
def test_of_libraries_holds_and_sends_no_more(name: str, target: str) -> None:
    """XLA:TPU counts the memory of the core as well, up to 128 MiB, which it fills as it likes: as much as all here."""
    available(target)
    most = HOLDS_MORE.get((name, target), NO_MORE)
    compare(*STEPS[name](devices_of(target)), tells_peak=target == GPU, most=most)


def devices_of(target: str) -> list[Any]:
    return list(get(target).devices or jax.devices()[:8])


def compare(
    step: Callable[..., Any],
    shapes: tuple[Any, ...],
    options: dict[str, Any],
    *,
    tells_peak: bool,
    most: float = NO_MORE,
) -> None:
    alone, ours = (
        jit(step, **options).lower(*shapes).compile()
        for jit in (jax.jit, lambda f, **o: paropt.jit(f, strict=True, **o))
    )
    held, holds = (each.memory_analysis() for each in (alone, ours))
    assert holds.temp_size_in_bytes <= most * held.temp_size_in_bytes
    assert most == NO_MORE or holds.temp_size_in_bytes > NO_MORE * held.temp_size_in_bytes, "the row is not needed"
    assert not tells_peak or holds.peak_memory_in_bytes <= most * held.peak_memory_in_bytes
    before, after = (traffic(census(each.as_text())) for each in (alone, ours))
    assert after.unknown == before.unknown == 0 and after.known <= before.known
