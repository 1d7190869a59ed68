"""Random functions, donations and shardings: no alias is ever wrong, and nothing dies that was not given away."""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import paropt

REPEATABLE = settings.get_profile("repeatable")
KINDS = (((8,), np.float32), ((8,), np.float32), ((8, 16), np.float32), ((8,), np.int32))
SPECS = (None, PartitionSpec(), PartitionSpec("x"), PartitionSpec(("x", "y")), PartitionSpec("y"))
PASS = "annotate-aliases"


class Kind(NamedTuple):
    shape: tuple[int, ...]
    dtype: type


class Case(NamedTuple):
    """A function and how it is called. Steps name values by number: arguments first."""

    arguments: list[Kind]
    steps: list[tuple[str, int, int]]
    results: list[int]
    donated: list[int]
    donate: str  # the option of the pass
    placed: list[int] | None  # for each argument and result, its sharding; None for one device


@st.composite
def cases(draw: Callable[[Any], Any]) -> Case:
    arguments = [Kind(*draw(st.sampled_from(KINDS))) for _ in range(draw(st.integers(1, 5)))]
    kinds = list(arguments)
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, len(kinds) - 1))
        alike = [i for i, kind in enumerate(kinds) if kind == kinds[first]]
        steps.append((draw(st.sampled_from(sorted(STEPS))), first, draw(st.sampled_from(alike))))
        kinds.append(kinds[first])
    results = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=5))
    donated = draw(st.lists(st.integers(0, len(arguments) - 1), unique=True))
    donate = draw(st.sampled_from(("allowed", "allowed", "state", "any")))
    count = len(arguments) + len(results)
    specs = st.lists(st.integers(0, len(SPECS) - 1), min_size=count, max_size=count)
    return Case(arguments, steps, results, donated, donate, draw(st.one_of(st.none(), specs)))


def looped(x: Any, y: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, total: total + y, x)


# Each keeps the type and small integers; some write where they read, some cannot.
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - 2 * y,
    "reverse": lambda x, y: x[::-1],
    "mix": lambda x, y: x - y.sum(),
    "place": lambda x, y: x.at[2].set(y[3]),
    "loop": looped,
    "branch": lambda x, y: jax.lax.cond(y.sum() > 0, lambda: x + 1, lambda: y),
}


def function(case: Case) -> Callable[..., Any]:
    def f(*arguments: Any) -> Any:
        values = list(arguments)
        for name, first, second in case.steps:
            values.append(STEPS[name](values[first], values[second]))
        return tuple(values[i] for i in case.results)

    return f


def shardings(case: Case) -> tuple[dict[str, Any], list[NamedSharding]]:
    """The arguments of `jit` and, for each argument of the function, where its array is."""
    if case.placed is None:
        return {}, []
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    chosen = [NamedSharding(mesh, spec) if (spec := SPECS[i]) is not None else None for i in case.placed]
    taken, returned = chosen[: len(case.arguments)], chosen[len(case.arguments) :]
    whole = NamedSharding(mesh, PartitionSpec())
    jit = {"in_shardings": tuple(taken), "out_shardings": tuple(returned)}
    return jit, [sharding or whole for sharding in taken]


def arrays(case: Case, places: list[NamedSharding]) -> list[jax.Array]:
    """Made by XLA: memory of numpy cannot be overwritten."""
    made = []
    for number, kind in enumerate(case.arguments):
        values = jax.random.randint(jax.random.key(number), kind.shape, -4, 5).astype(kind.dtype)
        made.append(jnp.copy(jax.device_put(values, places[number])) if places else values)
    return jax.block_until_ready(made)


def pointers(array: jax.Array) -> list[int]:
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


CERTAIN = re.compile(r"argument (\d+) .*is overwritten by result \d+ \(result\[(\d+)\]\)")


@settings(REPEATABLE, max_examples=80)
@given(case=cases())
def test_values_are_kept_and_only_what_may_die_dies(case: Case) -> None:
    note(str(case))
    f, (jit, places) = function(case), shardings(case)
    expected = [np.asarray(value) for value in jax.jit(f, keep_unused=True, **jit)(*arrays(case, places))]
    arguments = arrays(case, places)
    before = [pointers(argument) for argument in arguments]
    passes = f"inline-calls,{PASS}{{donate={case.donate}}}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax warns of what it cannot use
        step = paropt.jit(f, passes=passes, donate_argnums=case.donated, keep_unused=True, strict=True, **jit)
        told = paropt.remarks(step.lower(*arguments))
        results = step(*arguments)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, want)

    overwritten: dict[Any, Any] = {}
    for remark in told:
        note(remark.message)
        if remark.applied:
            overwritten |= {int(a): int(r) for a, r in CERTAIN.findall(remark.text)}
    assert len(set(overwritten.values())) == len(overwritten), "one result overwrites two arguments"
    for number, argument in enumerate(arguments):
        if number in overwritten:
            assert argument.is_deleted()
            assert pointers(results[overwritten[number]]) == before[number], "it was copied"
        if case.donate == "allowed" and number not in case.donated:
            assert not argument.is_deleted(), "nobody gave it away"
        if not argument.is_deleted():
            assert [pointers(argument)] == [before[number]]


@pytest.mark.parametrize("on_one_device", [True, False])
def test_the_generator_reaches_what_matters(on_one_device: bool) -> None:
    seen: dict[str, int] = {}

    @settings(REPEATABLE, max_examples=200)
    @given(cases())
    def collect(case: Case) -> None:
        if (case.placed is None) != on_one_device:
            return
        f, (jit, places) = function(case), shardings(case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            passes = f"{PASS}{{donate={case.donate}}}"
            step = paropt.jit(f, passes=passes, donate_argnums=case.donated, keep_unused=True, strict=True, **jit)
            told = paropt.remarks(step.lower(*arrays(case, places)))
        for remark in told:
            for words in ("is overwritten", "is offered", "sharded otherwise", "each result that", "is read after"):
                seen[words] = seen.get(words, 0) + (words in remark.text)

    collect()
    least = {"is overwritten": 20, "each result that": 10, "is read after": 2}
    if not on_one_device:
        least |= {"is offered": 20, "sharded otherwise": 10}
    assert {words: seen[words] for words in least if seen[words] < least[words]} == {}
