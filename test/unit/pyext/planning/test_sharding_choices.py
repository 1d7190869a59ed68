"""Choices of shardings: those of a step, and the best of them, against a search over all."""

import itertools
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from programs.layered_steps import program

import paropt
from paropt.audit import audit
from paropt.passes.support.pipeline import Pipeline
from paropt.planning.ilp import InfeasibleError, Plan, Rates, Sharded, best, judged
from paropt.planning.strategies import WHOLE, Choices, Classes, Held, Move, Sum, Work, choices_in

AXES = {"data": 2, "model": 4}
RATES = Rates(flops=lambda _: 1e9, memory=1e9, links={"data": 1e8, "model": 3e8}, latency=1e-7)


def rates_of(axes: Mapping[str, int]) -> Rates:
    return RATES._replace(links={axis: 1e8 * (1 + i) for i, axis in enumerate(axes)})


def random_choices(seed: int, classes: int) -> Choices:
    """A few classes, and transfers, sums and work of random ones of them."""
    rng = np.random.default_rng(seed)

    def some(count: int) -> Classes:
        return tuple(int(each) for each in rng.choice(np.arange(1, classes + 1), count, replace=False))

    def read() -> Classes:
        return tuple(int(each) for each in rng.integers(0, classes + 1, 2))

    def size() -> int:
        return int(rng.integers(1, 40)) * 1000

    moves = tuple(Move(some(2), read(), size(), int(rng.integers(1, 4))) for _ in range(3))
    sums = tuple(
        Sum(made[:2], some(2), made[2:], size(), int(rng.integers(1, 4))) for made in (some(3) for _ in range(2))
    )
    work = tuple(Work(some(2), size() * 300, "f32", size(), 2) for _ in range(3))
    held = tuple(Held(f"a{i}", i, some(2), size()) for i in range(3))
    of_work, of_held = [each.classes for each in work], [each.classes for each in held]
    together = [each.made for each in moves] + [each.read for each in moves] + of_work + of_held
    together += [nodes for each in sums for nodes in (each.made + each.over, each.kept)]
    sizes = (1, *(int(rng.choice([2, 4, 8, 12])) for _ in range(classes)))
    return Choices(sizes, tuple(dict.fromkeys(together)), moves, sums, work, held)


def possible(choices: Choices, axes: Mapping[str, int]) -> Iterator[Sharded]:
    """Every choice that is allowed, one by one."""
    per_class = []
    for each, size in enumerate(choices.sizes):
        subsets = [s for n in range(len(axes) + 1) for s in itertools.combinations(axes, n)]
        fitting = [s for s in subsets if size % int(np.prod([axes[a] for a in s], dtype=int)) == 0]
        per_class.append([()] if each == WHOLE else fitting)
    for chosen in itertools.product(*per_class):
        sharded = frozenset((each, axis) for each, over in enumerate(chosen) for axis in over)
        shards = [sum((each, axis) in sharded for each in classes) for classes in choices.exclusive for axis in axes]
        if max(shards, default=0) <= 1:
            yield sharded


@pytest.mark.parametrize("seed", range(12))
def test_the_best_choice_is_the_best_of_all(seed: int) -> None:
    choices = random_choices(seed, classes=5)
    all_plans = [judged(choices, AXES, RATES, sharded) for sharded in possible(choices, AXES)]
    found = best(choices, AXES, RATES)
    assert found.seconds == pytest.approx(min(plan.seconds for plan in all_plans), rel=1e-5)
    held = sorted(plan.held_bytes for plan in all_plans)
    memory = int(held[len(held) // 10])
    fitting = [plan for plan in all_plans if plan.held_bytes <= memory]
    found = best(choices, AXES, RATES, memory=memory)
    assert found.held_bytes <= memory
    assert found.seconds == pytest.approx(min(plan.seconds for plan in fitting), rel=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_axes_one_after_the_other_come_near(seed: int) -> None:
    """With three axes the choice is a local optimum: no other choice for one pair of axes is better."""
    axes = {"a": 2, "b": 2, "c": 2}
    choices = random_choices(seed, classes=4)
    rates = rates_of(axes)
    found = best(choices, axes, rates)
    others = [judged(choices, axes, rates, sharded) for sharded in possible(choices, axes)]
    for kept in axes:
        same = [p for p in others if _over(p, kept) == _over(found, kept)]
        assert found.seconds <= min(plan.seconds for plan in same) * (1 + 1e-5)


def _over(plan: Plan, axis: str) -> Sharded:
    return frozenset(each for each in plan.sharded if each[1] == axis)


def test_what_does_not_fit_says_by_how_much() -> None:
    choices = random_choices(0, classes=5)
    least = min(judged(choices, AXES, RATES, sharded).held_bytes for sharded in possible(choices, AXES))
    with pytest.raises(InfeasibleError, match=r"^arguments take \d+ bytes per device, \d+ too many$") as error:
        best(choices, AXES, RATES, memory=int(least) - 1000)
    assert float(str(error.value).split()[2]) == pytest.approx(least, abs=1)


def read(name: str, layers: int) -> tuple[Choices, object]:
    built = program(name, microbatches=4, layers=layers)
    module = jax.jit(built.step).lower(built.state, built.batch).compiler_ir()
    Pipeline.parse("inline-calls").run(module.operation)
    return choices_in(module.operation), built


def held(choices: Choices) -> dict[str, Held]:
    return {each.path: each for each in choices.arguments}


def test_gradients_are_sharded_as_their_parameters_and_reduced_once() -> None:
    """Of an MLP, each weight's gradient contracts the examples, once per step; activations in each micro-batch."""
    choices, _ = read("mlp", layers=2)
    arguments = held(choices)
    for layer in range(2):
        weight = arguments[f"state[{layer}]['w']"]
        gradients = [each for each in choices.sums if set(each.kept) == set(weight.classes)]
        assert [each.executions for each in gradients] == [1]
        assert gradients[0].bytes == weight.bytes
    forward = [each for each in choices.sums if each.executions == 4 and each.bytes == 16 * 16 * 4]
    assert len(forward) == 3  # two products, and the gradient of what the second reads


@pytest.mark.parametrize("name", ["transformer", "scanned"])
def test_all_state_of_a_transformer_can_be_sharded(name: str) -> None:
    """Each dimension by itself, but for the one that counts scanned layers, of which one at a time is read."""
    choices, _ = read(name, layers=2)
    for each in choices.arguments:
        if each.path.startswith("state"):
            own = each.classes[1:] if "layers" in each.path and name == "scanned" else each.classes
            assert len(set(own) - {WHOLE}) == len(own) > 0


def pinned(choices: Choices, specs: Mapping[str, PartitionSpec]) -> dict[int, frozenset[str]]:
    found: dict[int, frozenset[str]] = {}
    for each in choices.arguments:
        spec = specs.get(each.path, PartitionSpec())
        dims = [*spec, *[None] * (len(each.classes) - len(spec))]
        found |= {c: frozenset([axis] if axis else []) for c, axis in zip(each.classes, dims, strict=True)}
    return found


def step(weights: list[jax.Array], batches: jax.Array) -> list[jax.Array]:
    """Micro-batches lie in the first dimension of the batch."""

    def loss(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        return ((jax.nn.relu(x @ weights[0]) @ weights[1]) ** 2).sum()

    def trip(total: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], None]:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(weights, x)), None

    total = jax.lax.scan(trip, jax.tree.map(jnp.zeros_like, weights), batches)[0]
    return jax.tree.map(lambda old, new: old - new / 100, weights, total)


DATA = {"batches": PartitionSpec(None, "data")}
MEGATRON = DATA | {"weights[0]": PartitionSpec(None, "model"), "weights[1]": PartitionSpec("model")}


@pytest.mark.parametrize(
    "axes, specs", [({"data": 8}, DATA), (AXES, MEGATRON)], ids=["data parallel", "tensor parallel as well"]
)
def test_the_model_counts_what_the_compiler_does(axes: dict[str, int], specs: dict[str, PartitionSpec]) -> None:
    """Of plans whose arguments' shardings are pinned: the model chooses those of all other values as Shardy does."""
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    shapes = {"weights[0]": (32, 64), "weights[1]": (64, 32), "batches": (4, 16, 32)}
    *weights, batches = (
        jax.device_put(jnp.ones(shape), NamedSharding(mesh, specs.get(path, PartitionSpec())))
        for path, shape in shapes.items()
    )
    module = jax.jit(step).lower(weights, batches).compiler_ir()
    Pipeline.parse("inline-calls").run(module.operation)
    choices = choices_in(module.operation)
    rates = rates_of(axes)._replace(flops=lambda _: 1e8, memory=1e15, latency=0.0)
    plan = best(choices, axes, rates, pinned=pinned(choices, specs))
    found = audit(paropt.jit(step, passes="grad-sync", strict=True).lower(weights, batches).compile())
    counted = sum(each.wire_bytes * (each.executions or 1) for each in found.collectives)
    assert plan.wire_bytes == pytest.approx(counted, rel=0.1)
