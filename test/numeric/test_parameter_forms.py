"""However a program writes it, each sharded parameter is gathered once per step with `policy=once`, and reduced once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import parameter_forms
from programs.parameter_forms import FORMS, VOCABULARY, Form
from unit.clusters import available

import paropt
from paropt.audit import audit
from paropt.clusters.targets import get
from paropt.hlo.census import census
from paropt.hlo.traffic import traffic

KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")
# What XLA alone does not gather in the loop, or behind constraints that jax writes; the others are as one of these.
NEW = ["unconstrained", "unconstrained_columns_of_table", "prefetched", "prefetched_rows", "explicit_computed_again"]


TOKENS = 4 * parameter_forms.MICRO_BATCHES * parameter_forms.EXAMPLES * parameter_forms.TOKENS  # bytes in a step


def numbers(form: Form) -> tuple[dict[str, jax.Array], jax.Array]:
    """Parameters of -1, 0 and 1; examples, or tokens."""
    rng = np.random.default_rng(0)

    def made(shape: jax.ShapeDtypeStruct) -> jax.Array:
        low, high = (0, VOCABULARY) if shape.dtype == jnp.int32 else (-1, 2)
        return jax.device_put(rng.integers(low, high, shape.shape).astype(shape.dtype), shape.sharding)

    return jax.tree.map(made, form.args)


@pytest.mark.parametrize("policy", ["gather", "once"])
@pytest.mark.parametrize("name", FORMS)
def test_values_are_the_same_bit_for_bit(name: str, policy: str) -> None:
    form = FORMS[name](jax.devices())
    args = numbers(form)
    ours = paropt.jit(form.step, passes=f"grad-sync{{policy={policy}}}", strict=True)
    jax.tree.map(np.testing.assert_array_equal, jax.jit(form.step)(*args), ours(*args))


def wire(form: Form, policy: str, target: str) -> tuple[dict[str, int], float, float]:
    """Bytes in loops by kind; all that is sent by XLA alone, and with the policy."""
    shardings = jax.tree.map(lambda leaf: leaf.sharding, form.args[0])
    step = jax.jit(form.step, out_shardings=shardings)
    found = audit(step, *form.args, passes=f"grad-sync{{policy={policy}}}", targets=[target])[target]
    in_loops = {kind: found.after.total(kind).in_loops for kind in KINDS}
    before, after = (sum(side.total(kind).wire for kind in KINDS) for side in (found.before, found.after))
    return in_loops, before, after


def sharded_and_all(form: Form) -> tuple[int, int]:
    sizes = [(not leaf.sharding.is_fully_replicated, 4 * leaf.size) for leaf in jax.tree.leaves(form.args[0])]
    return sum(size for is_sharded, size in sizes if is_sharded), sum(size for _, size in sizes)


@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, "cpu:8") for name in FORMS), *((name, t) for t in ("tpu:v5e:2x4", "gpu:h100:1x1x8") for name in NEW)],
)
def test_each_is_gathered_once_and_reduced_once(name: str, target: str) -> None:
    """7/8 of the bytes of those that are sharded, to gather them; as much to scatter their gradients, twice that to
    reduce others. XLA:TPU makes all-reduces of small gradients in place of reduce-scatters.
    """
    available(target)
    form = FORMS[name](get(target).devices or jax.devices())
    in_loops, alone, sent = wire(form, "once", target)
    sharded, total = sharded_and_all(form)
    assert {kind: size for kind, size in in_loops.items() if size > 1000} == {}
    scattered = 0 if target.startswith("tpu") else sharded
    assert sent <= 7 / 8 * (sharded + scattered + 2 * (total - scattered)) + 1000
    assert sent <= alone


@pytest.mark.parametrize("name", NEW)
def test_gathering_alone_sends_no_more(name: str) -> None:
    form = FORMS[name](jax.devices())
    in_loops, alone, sent = wire(form, "gather", "cpu:8")
    assert in_loops["all-gather"] <= TOKENS  # and no parameter
    assert sent <= alone


@pytest.mark.parametrize("policy", ["gather", "once"])
def test_where_that_sends_more_parameters_are_gathered_at_use(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one token per device XLA:TPU moves the activations of a wide table's rows, which are fewer bytes."""
    target = "tpu:v5e:2x4"
    available(target)
    monkeypatch.setattr(parameter_forms, "EXAMPLES", 8)
    monkeypatch.setattr(parameter_forms, "TOKENS", 1)
    form = FORMS["unconstrained_columns_of_table"](get(target).devices)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, form.args[0])

    def sent(**options: Any) -> tuple[float, str]:
        lowered = paropt.jit(form.step, out_shardings=shardings, **options).lower(*form.args)
        known = traffic(census(lowered.compile().as_text())).known
        return known, str(paropt.remarks(lowered))

    default, _ = sent()
    chosen, said = sent(passes=f"grad-sync{{policy={policy}}}")
    as_asked, _ = sent(passes=f"grad-sync{{policy={policy}}}", compare=False)
    assert chosen == default < as_asked
    assert f"parameters are gathered at use, which sends {default:.0f} bytes" in said
