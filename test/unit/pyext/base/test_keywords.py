"""Keywords that neither a function of the library nor the step takes: one line that names the function, and what is right."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import paropt
from paropt.audit import audit
from paropt.check import check

X = jax.ShapeDtypeStruct((8,), jnp.float32)


def step(x: jax.Array, scale: float = 1.0) -> jax.Array:
    return x * scale


LOWERED = jax.jit(step).lower(X)


@pytest.mark.parametrize("program", [step, jax.jit(step), paropt.jit(step)], ids=["function", "jax.jit", "paropt.jit"])
@pytest.mark.parametrize(
    ("function", "keyword", "said"),
    [
        (audit, "target", "paropt.audit: no keyword `target`; did you mean `targets`?"),
        (audit, "scales", "paropt.audit: no keyword `scales`; did you mean `scale`?"),
        (
            audit,
            "qqq",
            "paropt.audit: no keyword `qqq`; it has passes, targets, mesh, estimate, and step takes x, scale",
        ),
        (
            audit,
            "memory_budget",
            'paropt.audit: no keyword `memory_budget`; it is an option of passes: passes="grad-sync{policy=auto memory-budget=...}"',
        ),
        (
            paropt.policies,
            "link_cost",
            'paropt.policies: no keyword `link_cost`; it is an option of passes: passes="grad-sync{link-cost=...}"',
        ),
        (paropt.policies, "budget", "paropt.policies: no keyword `budget`; did you mean `memory_budget`?"),
        (check, "seed", "paropt.check: no keyword `seed`; did you mean `seeds`?"),
    ],
)
def test_a_keyword_of_neither(function: Callable[..., Any], keyword: str, said: str, program: Any) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
        function(program, X, **{keyword: "cpu:8"})


def test_a_keyword_of_jit() -> None:
    with pytest.raises(TypeError, match=r"^paropt\.jit: no keyword `pases`; did you mean `passes`\?$"):
        paropt.jit(step, pases="grad-sync")  # type: ignore[call-overload]  # the mistake
    with pytest.raises(
        TypeError, match=r"^paropt\.jit: no keyword `donate_arguments`; did you mean `donate_argnums`\?$"
    ):
        paropt.jit(donate_arguments=0)(step)  # type: ignore[call-overload]  # the mistake


def test_a_keyword_of_a_function_that_calls_no_step() -> None:
    with pytest.raises(TypeError, match=r"^paropt\.optimize: no keyword `pases`; did you mean `passes`\?$"):
        paropt.optimize("", pases="grad-sync")  # type: ignore[call-arg]  # the mistake
    with pytest.raises(TypeError, match=r"^paropt\.enabled: no keyword `pases`; did you mean `passes`\?$"):
        paropt.enabled(pases="")  # type: ignore[call-arg]  # what is refused
    with pytest.raises(TypeError, match=r"^paropt\.pipeline: no keyword `stage`; did you mean `stages`\?$"):
        paropt.pipeline(step, stage=2)  # type: ignore[call-arg]  # what is refused
    with pytest.raises(
        TypeError, match=r"^paropt\.accumulate: no keyword `microbatch`; did you mean `microbatches`\?$"
    ):
        paropt.accumulate(step, microbatch=2)  # type: ignore[call-arg]  # what is refused
    with pytest.raises(TypeError, match=r"^paropt\.plan: no keyword `targets`; did you mean `target`\?$"):
        paropt.plan(step, X, targets="cpu:8")  # type: ignore[call-arg]  # the mistake


def test_values_of_another_type() -> None:
    with pytest.raises(TypeError, match=r"^passes: expected the text of a pipeline, not NoneType$"):
        paropt.optimize("", passes=None)  # the mistake
    with pytest.raises(TypeError, match=r"^check: expected True or False, got 'yes'$"):
        paropt.jit(step, check="yes")  # type: ignore[call-overload]  # the mistake
    with pytest.raises(TypeError, match=r"^strict: expected True or False, got 'no'$"):
        paropt.jit(step, strict="no")  # type: ignore[call-overload]  # the mistake
    with pytest.raises(TypeError, match=r"^compare: expected True or False, got 1$"):
        paropt.enabled(compare=1)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match=r"^apart: expected True, False or the name of a target, got 8$"):
        paropt.enabled(apart=8)  # type: ignore[arg-type]  # the mistake


@pytest.mark.parametrize("function", [audit, paropt.policies, check])
def test_what_is_lowered_takes_no_arguments(function: Callable[..., Any]) -> None:
    name = f"paropt.{function.__name__}"
    with pytest.raises(TypeError, match=f"^{re.escape(name)}: arguments are for functions; this is lowered already$"):
        function(LOWERED, X)
    with pytest.raises(TypeError, match=f"^{re.escape(name)}: no keyword `pases`; did you mean `passes`\\?$"):
        function(LOWERED, pases="grad-sync")


def test_what_is_compiled_takes_no_keyword_but_those_of_audit() -> None:
    with pytest.raises(TypeError, match=r"^paropt\.audit: no keyword `estimates`; did you mean `estimate`\?$"):
        audit(LOWERED.compile(), estimates=True)


def test_keywords_of_the_step_go_through() -> None:
    seen = dict[str, Any]()

    @wraps(step)
    def hidden(*args: Any, target: Any = None, **kwargs: Any) -> jax.Array:
        """Takes a keyword that its signature, which is that of `step`, does not show."""
        seen.update(target=target)
        return step(*args, **kwargs)

    def any_names(x: jax.Array, **arrays: jax.Array) -> jax.Array:
        return x + arrays["target"]

    assert audit(step, X, scale=X).peak_memory == audit(step, X, X).peak_memory
    assert audit(hidden, X, target=X, scale=X).peak_memory == audit(step, X, X).peak_memory
    assert seen["target"].shape == X.shape
    assert audit(any_names, X, target=X).peak_memory == audit(step, X, X).peak_memory


def test_other_mistakes_stay_the_steps_own() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        audit(step, scale=X)
    with pytest.raises(TypeError, match="unhashable type"):
        audit(lambda x, scale: x + {scale}, X, scale=X)
