"""Equal layers share their choices: the same optimum, of a problem that is no larger with more layers."""

import jax
import pytest
from programs.layered_steps import program
from programs.program import Sizes
from programs.unplaced import shapes_of
from unit.pyext.planning.test_sharding_choices import AXES, RATES, random_choices

from paropt.passes.support.pipeline import Pipeline
from paropt.planning.equal_layers import shared
from paropt.planning.ilp import best, judged
from paropt.planning.strategies import WHOLE, Choices, choices_in


def choices_of(name: str, layers: int) -> Choices:
    built = program(name, microbatches=4, layers=layers)
    module = jax.jit(built.step).lower(built.state, built.batch).compiler_ir()
    Pipeline.parse("inline-calls").run(module.operation)
    return choices_in(module.operation)


@pytest.mark.parametrize("name", ["mlp", "transformer"])
def test_as_good_a_choice_as_with_one_for_each_layer(name: str) -> None:
    """Of the middle layers of an MLP, and of the transformer's with their residual stream."""
    choices = choices_of(name, layers=4)
    small = shared(choices)
    assert len(small.sizes) < len(choices.sizes)
    axes = {"data": 4}
    whole, found = best(choices, axes, RATES), best(small, axes, RATES)
    assert found.seconds == pytest.approx(whole.seconds, rel=1e-6)
    assert found.wire_bytes == pytest.approx(whole.wire_bytes, rel=1e-6)


def test_more_layers_make_no_larger_problem() -> None:
    small = [shared(choices_of("transformer", layers)) for layers in (4, 8)]
    assert len(small[0].sizes) == len(small[1].sizes)
    assert [len(each.moves) for each in small] == [len(small[0].moves)] * 2


@pytest.mark.parametrize("seed", range(6))
def test_what_is_shared_costs_what_it_did(seed: int) -> None:
    """Nothing sharded, and what the smaller problem finds: work and bytes are those of the whole."""
    choices = random_choices(seed, classes=6)
    small = shared(choices)
    none = frozenset[tuple[int, str]]()
    assert judged(small, AXES, RATES, none).seconds == pytest.approx(judged(choices, AXES, RATES, none).seconds)
    assert best(small, AXES, RATES).seconds >= best(choices, AXES, RATES).seconds * (1 - 1e-5)


def test_two_dimensions_of_one_array_stay_apart() -> None:
    """Square matrices one after the other: each dimension looks like the next, and an axis shards one of them only."""
    small = shared(choices_of("mlp", layers=6))
    weights = [held for held in small.arguments if len(held.classes) == 2]
    assert len(weights) == 8  # with two batches
    assert all(held.classes[0] != held.classes[1] for held in weights)


def test_batches_say_which_dimension_counts_examples() -> None:
    made = shapes_of("transformer", Sizes(width=16, layers=1, micro_batches=2, examples=16))
    module = jax.jit(made.step).lower(*made.args).compiler_ir()
    Pipeline.parse("inline-calls").run(module.operation)
    choices = choices_in(module.operation)
    (batch,) = [held for held in choices.arguments if held.path.startswith("batches")]
    assert batch.examples == batch.classes[1] != WHOLE
    assert choices.sizes[batch.examples] == 16
    assert all(held.examples == WHOLE for held in choices.arguments if held is not batch)
