"""Arguments of `paropt.audit(step, *args, targets=..., **kwargs)` and the like: the function's own, or the step's."""

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.support.pipeline import Pipeline

P = ParamSpec("P")
R = TypeVar("R")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@contextmanager
def explained_keywords(function: Callable[..., Any], program: Any, kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Within the block, `program` is called with `kwargs`, which `function` of this library does not take itself.

    A TypeError for a keyword that `program` does not take either becomes one that names `function`, and gives the right
    keyword. Keywords that `program` takes go through, also where a wrapper does not show it in its signature.
    """
    try:
        yield
    except TypeError:
        unknown = [name for name in kwargs if not _may_take(program, name)]
        if not unknown:
            raise
        raise TypeError(_unknown(function, unknown[0], program)) from None


def own_keywords_only(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which answers an unknown keyword with the right one."""
    return own_keywords_and(())(function)


def own_keywords_and(others: Collection[str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As `own_keywords_only`, of a function that takes `others` as well, for the function that it calls."""

    def checking(function: Callable[P, R]) -> Callable[P, R]:
        known = {*others, *(each.name for each in _parameters(function) or () if each.kind in _BY_NAME)}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = next((name for name in kwargs if name not in known), None)
            if unknown is not None:
                raise TypeError(_unknown(function, unknown, kinds=_BY_NAME))
            return function(*args, **kwargs)

        return checked

    return checking


def require_no_arguments(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], what: str = "this is lowered already"
) -> None:
    """Raises TypeError in words of `function` where it got arguments for a program that is no function."""
    if kwargs:
        raise TypeError(_unknown(function, next(iter(kwargs))))
    if args:
        raise TypeError(f"paropt.{function.__name__}: arguments are for functions; {what}")


def _unknown(
    function: Callable[..., Any],
    name: str,
    program: Any = None,
    kinds: Collection[inspect._ParameterKind] = (inspect.Parameter.KEYWORD_ONLY,),
) -> str:
    """The complaint about the keyword `name` that neither `function` nor `program`, if there is one, takes."""
    own = [each.name for each in _parameters(function) or () if each.kind in kinds]
    inner = [each.name for each in _parameters(program) or () if each.kind in _BY_NAME]
    complaint = f"paropt.{function.__name__}: no keyword `{name}`"
    near = difflib.get_close_matches(name, [*own, *inner], n=1)
    if near:
        return f"{complaint}; did you mean `{near[0]}`?"
    option = name.replace("_", "-")
    if option in _options():
        return f'{complaint}; it is an option of passes: passes="{DEFAULT_PIPELINE}{{{_options()[option]}}}"'
    takes = f", and {getattr(program, '__name__', 'the program')} takes {', '.join(inner)}" if inner else ""
    return f"{complaint}; it has {', '.join(own)}{takes}"


def _options() -> dict[str, str]:
    """Those of the default pipeline, by name: as they are written, behind the other option that they need."""
    stages = Pipeline.parse(DEFAULT_PIPELINE).stages
    options = [option for stage in stages if stage.declared for option in stage.declared.options]
    return {
        each.name: f"{'='.join(each.needs)} {each.name}=..." if each.needs else f"{each.name}=..." for each in options
    }


def _may_take(program: Any, name: str) -> bool:
    """Whether a keyword `name` may be one of `program`, as far as its signature tells."""
    parameters = _parameters(program)
    if parameters is None or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return True
    return any(each.name == name and each.kind in _BY_NAME for each in parameters)


def _parameters(function: Any) -> list[inspect.Parameter] | None:
    """None where it has no signature."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
