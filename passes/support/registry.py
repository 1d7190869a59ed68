"""The registry of passes and pipelines, for the command line, the jit hook and docs/passes.md."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints, overload

from jaxlib.mlir import ir

from paropt.passes.support.axis_numbers import checked
from paropt.passes.support.byte_sizes import EXPECTED, byte_count
from paropt.passes.support.remarks import Remark

Run = Callable[..., list[Remark]]

PASSES: dict[str, "Pass"] = {}
PIPELINES: dict[str, "NamedPipeline"] = {}


class Size:
    """The type of an option that is a number of bytes, which may be written with a unit."""


class AxisNames:
    """The type of an option that names axes of the mesh, as `data,replica`; empty for none."""


class AxisNumbers:
    """The type of an option that gives axes of the mesh whole numbers, as `data:8,fsdp:1`; empty for none."""


Complaint: TypeAlias = Callable[[Any, ir.Operation], str | None]


class Check(NamedTuple):
    """Of an option whose value is checked against the module before the pass runs: a complaint, or None."""

    complaint: Complaint


Bytes: TypeAlias = Annotated[int, Size]


class OnlyWith(NamedTuple):
    """Of an option that has to be given where another one has this value, and only there."""

    option: str
    value: str


class On(NamedTuple):
    """Of an option that has another default for programs of this platform: cpu, tpu or gpu. See `Pipeline.on`."""

    platform: str
    default: Any


def integer(text: str) -> int:
    """The number that `text` is. Raises ValueError for more than 64 bits, as MLIR does, and for no number."""
    found = int(text)
    if abs(found) >> 63:
        raise ValueError(text)
    return found


_EXPECTED = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "text",
    Size: EXPECTED,
    AxisNames: "names of mesh axes, separated by commas",
    AxisNumbers: "mesh axes with a number of at least 1 each, as in `data:8,fsdp:1`",
}
_PARSED: dict[type, Callable[[str], Any]] = {int: integer, Size: byte_count, AxisNames: str, AxisNumbers: checked}


@dataclass(frozen=True)
class Option:
    """A keyword-only parameter of a pass function, as the command line sees it."""

    name: str  # kebab-case, as typed
    type: Any  # bool, int, float, str, Size, AxisNames, AxisNumbers, or a Literal of strings
    default: Any
    help: str
    needs: OnlyWith | None = None
    elsewhere: tuple[On, ...] = ()
    complaint: Complaint | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that there are; none when they cannot be listed."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def expects(self) -> str:
        """The form of a value, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return _EXPECTED[self.type]

    def parse(self, text: str) -> Any:
        """The value that `text` spells; ValueError when it spells none."""
        if get_origin(self.type) is Literal:
            allowed = {str(choice): choice for choice in get_args(self.type)}
            if text not in allowed:
                raise ValueError(text)
            return allowed[text]
        if self.type is bool:
            if text not in ("true", "false"):
                raise ValueError(text)
            return text == "true"
        return _PARSED.get(self.type, self.type)(text)

    def spell(self, value: Any) -> str:
        """The text that `parse` turns back into `value`."""
        return str(value).lower() if self.type is bool else str(value)


@dataclass(frozen=True)
class Pass:
    """A registered pass: its name, its options and its documentation all come from one function."""

    run: Run
    inlines: bool = False  # it needs the module as `inline-calls` leaves it, and has that run first

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", "-")

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def summary(self) -> str:
        return self.doc.partition("\n")[0]

    @functools.cached_property
    def options(self) -> tuple[Option, ...]:
        hints = get_type_hints(self.run, include_extras=True)
        parameters = inspect.signature(self.run).parameters.values()
        return tuple(_option(p, hints[p.name]) for p in parameters if p.kind is p.KEYWORD_ONLY)


class Stage(NamedTuple):
    """A stage of a named pipeline, and why it stands where it does."""

    text: str  # pipeline text
    reason: str


@dataclass(frozen=True)
class NamedPipeline:
    """A short ordered list of stages under one name."""

    name: str
    stages: str  # pipeline text
    doc: str
    explained: tuple[Stage, ...] = ()  # the same stages with their reasons, where these are declared


@overload
def register(run: Run) -> Run: ...


@overload
def register(*, inlines: bool) -> Callable[[Run], Run]: ...


def register(run: Run | None = None, *, inlines: bool = False) -> Run | Callable[[Run], Run]:
    """Registers `run(module, *, options...) -> list[Remark]` as the pass of its own name, kebab-cased.

    `module` is the `builtin.module` operation to rewrite in place. Each option is a keyword-only parameter with a
    default and a help text: `max_bytes: Annotated[Bytes, "Close a bucket before it grows past this."] = 4 << 20`.
    With `inlines`, where there are calls, `inline-calls` runs first: users call the pass by itself.
    """
    if run is None:
        return functools.partial(_registered, inlines=inlines)
    return _registered(run, inlines=inlines)


def _registered(run: Run, *, inlines: bool) -> Run:
    declared = Pass(run, inlines)
    if declared.name in PASSES and PASSES[declared.name].run.__module__ != run.__module__:
        raise ValueError(f"two passes are called `{declared.name}`")
    if not declared.summary:
        raise ValueError(f"pass `{declared.name}` has no docstring")
    for option in declared.options:  # raises for an option without help, default or a usable type
        assert option.expects
    PASSES[declared.name] = declared
    return run


def name_pipeline(name: str, stages: str | Sequence[Stage], doc: str) -> None:
    """Registers `stages`, pipeline text or one `Stage` after another, under `name`.

    Raises ValueError when a pass or another pipeline has that name.
    """
    if name in PASSES or name in PIPELINES:
        raise ValueError(f"two pipelines or passes are called `{name}`")
    explained = () if isinstance(stages, str) else tuple(stages)
    text = stages if isinstance(stages, str) else ",".join(stage.text for stage in stages)
    PIPELINES[name] = NamedPipeline(name, text, doc, explained)


def _option(parameter: inspect.Parameter, hint: Any) -> Option:
    name = parameter.name.replace("_", "-")
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    text = next((note for note in notes if isinstance(note, str)), None)
    if text is None:
        raise ValueError(f"option `{name}` has no help: write Annotated[type, 'help']")
    if parameter.default is parameter.empty:
        raise ValueError(f"option `{name}` has no default")
    if kind not in (bool, int, float, str) and get_origin(kind) is not Literal:
        raise ValueError(f"option `{name}` has type {kind}; options are bool, int, float, str or Literal")
    needs = next((note for note in notes if isinstance(note, OnlyWith)), None)
    elsewhere = tuple(note for note in notes if isinstance(note, On))
    check = next((note.complaint for note in notes if isinstance(note, Check)), None)
    special = next((each for each in _PARSED if each in notes), kind)
    return Option(name, special, parameter.default, text, needs, elsewhere, check)
