"""Pipelines: `fuse-all-reduces{convert=any},func.func(canonicalize)`, read from text and written back.

Our passes and MLIR's run in one `PassManager`, so verification between passes, IR printing and timing are MLIR's.
"""

import difflib
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from paropt.passes.support.registry import PASSES, PIPELINES, Option, Pass
from paropt.passes.support.remarks import Remark, merged
from paropt.passes.support.traversal import ops_of

ANCHOR = "builtin.module"
NO_PASS = "no pass called"  # how the complaint about an unknown name begins

# MLIR's parser of pipelines recurses, and so does `Stage.parts`. Real pipelines nest two or three levels.
MAX_NESTING = 100


class PipelineError(ValueError):
    """The pipeline text is wrong; the message, one line, says where, and gives the right form."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@dataclass(frozen=True)
class Stage:
    """One of our passes with its options, or (`declared` is None) pipeline text of MLIR's."""

    declared: Pass | None
    options: tuple[tuple[str, Any], ...]  # as given: (kebab-case name, value)
    native: str

    def __str__(self) -> str:
        if self.declared is None:
            return self.native
        spell = {o.name: o.spell for o in self.declared.options}
        given = " ".join(f"{name}={_quoted(spell[name](value))}" for name, value in self.options)
        return f"{self.declared.name}{{{given}}}" if given else self.declared.name

    @property
    def name(self) -> str:
        """Its name for users; for MLIR's, the first pass in it: `func.func(cse)` is `cse`."""
        if self.declared:
            return self.declared.name
        found = _FIRST_PASS.match(self.native)
        assert found is not None, "it matches any text"
        return found[1]

    def on(self, platform: str) -> "Stage":
        """The same with the options that have another default on `platform`, as far as they are not given."""
        if self.declared is None:
            return self
        given = dict(self.options)
        defaults = {
            o.name: each.default for o in self.declared.options for each in o.elsewhere if each.platform == platform
        }
        return replace(self, options=tuple((given | {n: v for n, v in defaults.items() if n not in given}).items()))

    def parts(self) -> list["Stage"]:
        """The same with one pass in each part: `func.func(a,b)` is `func.func(a)`, then `func.func(b)`."""
        nested = _NESTED.fullmatch(self.native)
        if not nested:
            return [self]
        inner = [part for element in elements_of(nested["inner"]) for part in Stage(None, (), element).parts()]
        return [Stage(None, (), f"{nested['anchor']}({part})") for part in inner]

    def callback(self, remarks: list[Remark]) -> Callable[[ir.Operation, object], None]:
        """The pass as MLIR's `PassManager` calls it; its decisions go to `remarks`."""
        assert self.declared is not None
        arguments = {name.replace("-", "_"): value for name, value in self.options}
        run, inlines = functools.partial(self.declared.run, **arguments), self.declared.inlines

        def call(module: ir.Operation, _pass: object) -> None:
            _require_fitting(self, module.operation)
            if inlines and ops_of(module.operation, "func.call"):
                remarks.extend(PASSES["inline-calls"].run(module.operation))
            decided = run(module.operation)
            if not isinstance(decided, list):
                raise TypeError(f"pass `{self.name}` returned {type(decided).__name__}, not its list of remarks")
            remarks.extend(decided)

        return call


@dataclass(frozen=True)
class Printing:
    """The IR that MLIR prints to stderr around the passes, and how; nothing by default."""

    before: frozenset[str] = frozenset()  # names of passes: MLIR prints around a manager's passes or around none,
    after: frozenset[str] = frozenset()  # so these need managers of one pass each, see `Pipeline.steps`
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False  # only the pass's changes of the text that `after` and `after_all` print
    after_failure: bool = False  # only after a pass that failed
    module_scope: bool = False  # the whole module, also for a pass on functions
    debug_info: bool = False
    generic: bool = False
    elide_above: int | None = None  # elements of a constant
    tree_dir: str | None = None  # a folder for files, one for each dump, in place of stderr

    def enable(self, manager: PassManager, pass_names: list[str]) -> None:
        """Turns printing on for `manager`, which runs `pass_names`."""
        before = self.before_all or not self.before.isdisjoint(pass_names)
        after = self.after_all or self.after_change or self.after_failure or not self.after.isdisjoint(pass_names)
        if before or after:
            manager.enable_ir_printing(
                print_before_all=before,
                print_after_all=after,
                print_module_scope=self.module_scope,
                print_after_change=self.after_change,
                print_after_failure=self.after_failure,
                large_elements_limit=self.elide_above,
                enable_debug_info=self.debug_info,
                print_generic_op_form=self.generic,
                tree_printing_dir_path=self.tree_dir,
            )


SILENT = Printing()


@dataclass(frozen=True)
class Pipeline:
    """An ordered list of stages. `str` of it is pipeline text that parses to an equal pipeline."""

    stages: tuple[Stage, ...]
    written: str = field(default="", compare=False)  # its source, in one line, with named pipelines

    @classmethod
    def parse(cls, text: str) -> "Pipeline":
        """Reads `a{option=value},b` or `builtin.module(a,b)`; named pipelines are expanded.

        Raises PipelineError for an unknown pass or option, a bad value, or unbalanced braces, TypeError for no text.
        """
        if not isinstance(text, str):
            raise TypeError(f"passes: expected the text of a pipeline, not {type(text).__name__}")
        return cls(tuple(_stages(_without_anchor(text.strip()), ())), " ".join(text.split()))

    def __str__(self) -> str:
        return ",".join(map(str, self.stages))

    def on(self, platform: str) -> "Pipeline":
        """The same for programs of `platform` (cpu, tpu or gpu): options that are not given may differ there."""
        return replace(self, stages=tuple(stage.on(platform) for stage in self.stages))

    @property
    def title(self) -> str:
        """Its name in a message: as its user wrote it."""
        return self.written or str(self)

    def steps(self) -> list["Pipeline"]:
        """The same, one pass each: for who needs to know which pass runs, or prints around some of them only."""
        return [Pipeline((part,)) for stage in self.stages for part in stage.parts()]

    @property
    def has_ours(self) -> bool:
        """Whether a pass in it is no pass of MLIR's."""
        return any(stage.declared for stage in self.stages)

    @property
    def pass_names(self) -> list[str]:
        """The passes in it, in order; those in `func.func(...)` too."""
        return [step.stages[0].name for step in self.steps()]

    def manager(
        self,
        context: ir.Context,
        remarks: list[Remark],
        *,
        printing: Printing = SILENT,
        verify_each: bool = True,
        timing: bool = False,
    ) -> PassManager:
        """A `PassManager` with these stages; remarks are appended to `remarks` as it runs.

        Raises PipelineError when MLIR does not know a stage.
        """
        with context:
            manager = PassManager(ANCHOR)
            for stage in self.stages:
                if stage.declared is None:
                    _add_native(manager, stage.native)
                else:
                    written = stage.name if printing.tree_dir else str(stage)  # files are called by it
                    manager.add(stage.callback(remarks), name=stage.name, argument=written)
        manager.enable_verifier(verify_each)
        printing.enable(manager, self.pass_names)
        if timing:
            manager.enable_timing()
        return manager

    def run(self, module: ir.Operation) -> list[Remark]:
        """Rewrites `module` (a `builtin.module`) in place; returns the remarks.

        Verified before a stage of MLIR's, which may crash on invalid IR, and at the end: to verify a large module takes
        as long as a pass that finds nothing in it. Raises PipelineError when MLIR does not know a stage, `ir.MLIRError`
        when a pass fails.
        """
        remarks: list[Remark] = []
        alone = [Pipeline((stage,)) for stage in self.stages]
        managers = [each.manager(module.context, remarks, verify_each=False) for each in alone]
        for stage, manager in zip(self.stages, managers, strict=True):
            if stage.declared is None:
                module.verify()
            manager.run(module)
        module.verify()
        return merged(remarks)


_NESTED = re.compile(r"\s*(?P<anchor>[\w.-]+)\s*\((?P<inner>.*)\)", re.S)
_FIRST_PASS = re.compile(r"(?:\s*[\w.-]+\s*\()*\s*([\w.-]*)")
_OURS = re.compile(r"(?P<name>[\w.-]+)\s*(\{(?P<options>.*)\})?", re.S)
_QUOTED = r"'[^']*'|\"[^\"]*\""
_OPTION = re.compile(
    rf"\s*(?P<name>[^\s={{}}'\"]+)(=(?P<value>{_QUOTED}|\{{[^{{}}]*\}}|[^\s{{}}'\"]*))?(?=\s|$)\s*", re.S
)
_INTEGER = re.compile(r"[+-]?\d+")
_PLAIN = re.compile(r"[^\s{}()'\",]+")


def _stages(text: str, within: tuple[str, ...]) -> Iterator[Stage]:
    """The stages in `text`, which stands inside the named pipelines `within`."""
    for element in elements_of(text):
        found = _OURS.fullmatch(element)
        name = found["name"] if found else ""
        if name in PIPELINES:
            yield from _expanded(name, found["options"] if found else None, within)
        elif found and name in PASSES:
            stage = Stage(PASSES[name], tuple(_options(PASSES[name], found["options"] or "")), "")
            yield stage if within else _complete(element, stage)
        else:
            yield _native_stage(element)


def _expanded(name: str, options: str | None, within: tuple[str, ...]) -> Iterator[Stage]:
    """The stages of pipeline `name`; an option goes to each of its passes that has one of that name."""
    if name in within:
        raise PipelineError(f"pipeline `{name}` contains itself")
    stages = list(_stages(PIPELINES[name].stages, (*within, name)))
    pairs = list(_pairs(name, options or ""))
    known = {option.name for stage in stages if stage.declared for option in stage.declared.options}
    _require_known(f"no pass in {name} has an option", pairs, sorted(known))
    for stage in stages:
        if stage.declared:
            given = {**dict(stage.options), **dict(_taken(name, stage.declared, pairs))}
            stage = replace(stage, options=tuple(given.items()))
        yield stage if within else _complete(f"{name}{{{options}}}" if options else name, stage)


def _complete(written: str, stage: Stage) -> Stage:
    """`stage`, which the user wrote as `written`. Raises PipelineError where it lacks an option, or has one in vain."""
    given = dict(stage.options)
    for option in stage.declared.options if stage.declared else ():
        if option.needs is None:
            continue
        other, value = option.needs
        is_asked = given.get(other) == value
        if option.name in given and not is_asked:
            raise PipelineError(f"{written}: option `{option.name}` has an effect with {other}={value} only")
        if is_asked and option.name not in given:
            raise PipelineError(f"{written}: {other}={value} takes option `{option.name}`: {option.expects}")
    return stage


def _require_fitting(stage: Stage, module: ir.Operation) -> None:
    """Raises PipelineError where the value of an option does not fit `module`, as an axis that no mesh of it has."""
    assert stage.declared is not None
    complaints = {option.name: option.complaint for option in stage.declared.options}
    for name, value in stage.options:
        complaint = complaints[name]
        wrong = complaint(value, module) if complaint is not None else None
        if wrong:
            raise PipelineError(f"{name}={value}: {wrong}")


def _taken(owner: str, declared: Pass, pairs: list[tuple[str, str | None]]) -> Iterator[tuple[str, Any]]:
    """Those of `pairs`, written for `owner`, that are options of the pass."""
    known = {option.name: option for option in declared.options}
    return ((name, _value(owner, known[name], value)) for name, value in pairs if name in known)


def _native_stage(element: str) -> Stage:
    anchor, _, inner = element.partition("(")
    ours = [name for name in re.findall(r"[\w.-]+", inner) if name in PASSES or name in PIPELINES]
    if ours and _NESTED.fullmatch(element):
        raise PipelineError(f"`{ours[0]}` runs on the module: write it outside `{anchor.strip()}(...)`")
    name = re.match(r"[\w.-]*", element)
    if name and name[0] in PASSES:
        raise PipelineError(f"`{element}`: `{name[0]}` takes its options in braces, as in `{name[0]}{{option=value}}`")
    return Stage(None, (), element)


def _add_native(manager: PassManager, text: str) -> None:
    try:
        manager.add(text)
    except ValueError as error:
        unknown = re.search(r"'([^'\n]*)' does not refer to a registered pass", str(error))
        if not unknown:
            raise PipelineError(f"in `{text}`: {_first_reason(str(error))}") from error
        near = difflib.get_close_matches(unknown[1], [*PASSES, *PIPELINES], n=1)
        hint = f"did you mean `{near[0]}`?" if near else "`par-opt --list-passes` lists them"
        raise PipelineError(f"{NO_PASS} `{unknown[1]}`; {hint}") from error


def _first_reason(message: str) -> str:
    """MLIR's reason without its position in a text that the user did not write."""
    found = re.search(r"error: (.*)", message)
    return found[1] if found else message.strip().partition("\n")[0]


def _without_anchor(text: str) -> str:
    elements = list(elements_of(text))
    anchored = [e for e in elements if re.match(rf"{re.escape(ANCHOR)}\s*\(", e)]
    if not anchored:
        return text
    if len(elements) > 1:
        raise PipelineError(f"write one `{ANCHOR}(...)` around the whole pipeline, not around parts of it")
    nested = _NESTED.fullmatch(text)
    if not nested:
        raise PipelineError(f"`{text}` goes on after the end of `{ANCHOR}(...)`")
    return nested["inner"]


def _options(declared: Pass, text: str) -> Iterator[tuple[str, Any]]:
    known = {o.name: o for o in declared.options}
    pairs = list(_pairs(declared.name, text))
    _require_known(f"{declared.name} has no option", pairs, list(known))
    for name, value in pairs:
        yield name, _value(declared.name, known[name], value)


def _require_known(complaint: str, pairs: list[tuple[str, str | None]], known: list[str]) -> None:
    """Raises PipelineError, with the `complaint` and the right form, for the first option that is not `known`."""
    before: tuple[str, str | None] = ("", None)
    for name, value in pairs:
        if name in known:
            before = name, value
            continue
        hint = _hint(name, known)
        if value is None and before[1] is not None and not difflib.get_close_matches(name, known, n=1):
            hint = f"; a value with a space is in quotes: {before[0]}='{_unquoted(before[1])} {name}'"
        raise PipelineError(f"{complaint} `{name}`{hint}")


def _pairs(owner: str, text: str) -> Iterator[tuple[str, str | None]]:
    """The options in `text`, each with its value as written; None for a flag."""
    given: set[str] = set()
    start = 0
    while start < len(text.rstrip()):
        pair = _OPTION.match(text, start)
        if not pair:
            raise PipelineError(f"{owner}{{{text}}}: write options as `name=value name2=value2`")
        start, name = pair.end(), pair["name"]
        if name in given:
            raise PipelineError(f"{owner}{{{text}}}: option `{name}` is given twice")
        given.add(name)
        yield name, pair["value"]


def _value(owner: str, option: Option, text: str | None) -> Any:
    """The value of `option`, written for `owner`; a flag that is named without a value is true, as in MLIR."""
    if text is None and option.type is bool:
        return True
    try:
        if text is None:
            raise ValueError(option.name)
        value = option.parse(_unquoted(text))
        if value != value:  # not a number: a pipeline with it would not equal itself
            raise ValueError(text)
    except ValueError as error:
        given = option.name if text is None else f"{option.name}={text}"
        near = difflib.get_close_matches(text or "", option.choices, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        bits = " of 64 bits" if option.type is int and _INTEGER.fullmatch(text or "") else ""
        raise PipelineError(f"{owner}{{{given}}}: expected {option.expects}{bits}{hint}") from error
    return value


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in ("'", '"', "{") else text


def _quoted(text: str) -> str:
    """`text` as a pipeline spells it. Text that was read from a pipeline never holds both kinds of quotes."""
    if _PLAIN.fullmatch(text):
        return text
    quote = '"' if "'" in text else "'"
    if quote in text:
        raise PipelineError(f"`{text}` cannot be written in a pipeline: it holds both kinds of quotes")
    return f"{quote}{text}{quote}"


def _hint(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; it has: {', '.join(known)}" if known else "; it has none"


def elements_of(text: str) -> Iterator[str]:
    """The elements of `text`: it is cut at the commas outside quotes, braces and parentheses."""
    closing = {"(": ")", "{": "}"}
    expected: list[str] = []
    start = 0
    for m in re.finditer(rf"{_QUOTED}|[(){{}},'\"]", text):
        if m[0] in ("'", '"'):
            raise PipelineError(f"`{text}` has no closing {m[0]} after character {m.start() + 1}")
        if m[0][0] in "'\"":
            continue
        if m[0] in closing:
            expected.append(closing[m[0]])
            if len(expected) > MAX_NESTING:
                raise PipelineError(f"the pipeline nests deeper than {MAX_NESTING} levels at character {m.start() + 1}")
        elif m[0] != ",":
            if not expected or expected.pop() != m[0]:
                raise PipelineError(f"`{text}` has a stray `{m[0]}` at character {m.start() + 1}")
        elif not expected:
            yield _element(text, start, m.start())
            start = m.end()
    if expected:
        raise PipelineError(f"`{text}` ends without a closing `{expected[-1]}`")
    if text.strip():
        yield _element(text, start, len(text))


def _element(text: str, start: int, end: int) -> str:
    element = text[start:end].strip()
    if not element:
        raise PipelineError(f"`{text}` has an empty element at character {start + 1}")
    return element
