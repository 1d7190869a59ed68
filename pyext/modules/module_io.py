"""Modules: reading, rewriting, writing, for the command line and the library. Never imports jax."""

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from jaxlib.mlir import ir

from paropt.base.keywords import own_keywords_only
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.state.checked_attributes import complaint
from paropt.passes.support.context import make_context
from paropt.passes.support.locations import is_position
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.remarks import Remark
from paropt.passes.support.sources import Source, source_of
from paropt.passes.support.traversal import ops_of
from paropt.verify.tags import VerificationError, gap_behind_passes, known_of

# Both have `.operation`. Keep the object itself: an operation alone does not keep its module alive.
Module: TypeAlias = ir.Module | ir.OpView

BYTECODE_MAGIC = b"ML\xefR"
STDIN = "-"  # MLIR's name of text without a file name

# MLIR's parser and printer recurse. They overflow an 8 MiB stack from some 5,000 levels on; real modules have 30.
MAX_NESTING = 1000
_OPENING, _CLOSING = b"([{<", b")]}>"
_STEPS = bytes.maketrans(_OPENING + _CLOSING, b"\x01" * 4 + b"\xff" * 4)  # as int8: +1 and -1
_NO_BRACKETS = bytes(set(range(256)) - set(_OPENING + _CLOSING))


_SHOWN_OP = "see current operation"  # MLIR's note that repeats the op: for the eye, not for matching
_NOWHERE = Source("", 0, 0, "")
_T = TypeVar("_T")


class Diagnostic(NamedTuple):
    """One of MLIR's diagnostics, in plain values."""

    severity: str  # error, warning, remark or note
    source: Source  # line 0 when the position is unknown
    message: str
    notes: tuple["Diagnostic", ...] = ()

    def __str__(self) -> str:
        return f"{self.position}: {self.message}"

    @property
    def is_shown_op(self) -> bool:
        return self.message.startswith(_SHOWN_OP)

    @property
    def position(self) -> str:
        source = self.source
        return f"{source.file}:{source.line}:{source.column}" if source.line else source.file


class ModuleError(ValueError):
    """The input is no valid module. The message, one line, starts with `file:line:column: ` where that is known."""

    def __init__(self, diagnostics: list[Diagnostic], summary: str = "") -> None:
        # The first of MLIR's diagnostics is the closest to the cause.
        super().__init__(str(diagnostics[0]) if diagnostics else " ".join(summary.split()))
        self.diagnostics = diagnostics


class Optimized(NamedTuple):
    """The result of `optimize`."""

    module: Any  # text for text, bytecode for bytecode, else an `ir.Module`
    remarks: list[Remark]


@own_keywords_only
def optimize(module: Any, passes: str = DEFAULT_PIPELINE, *, in_place: bool = False) -> Optimized:
    """Runs the pipeline `passes` over `module` and returns the rewritten module with the remarks.

    | `module` is                 | `Optimized.module` is                                           |
    |-----------------------------|-----------------------------------------------------------------|
    | text (`str`)                | text; positions in the text are the remarks' positions          |
    | MLIR bytecode (`bytes`)     | bytecode, with its locations                                    |
    | an `ir.Module`              | a new `ir.Module` of the same context                           |
    | a lowered `jax.jit` program | a new `ir.Module`                                               |

    The given module stays as it is: jax caches the module of a lowered program, `lowered.compiler_ir()`, and would
    compile the rewritten one from then on. With `in_place=True`, an `ir.Module` is itself rewritten and returned.

    Raises PipelineError (a ValueError) for a wrong pipeline, ModuleError (a ValueError) for text or bytecode that is no
    valid module and for an attribute of another form than passes expect, TypeError for anything else, `ir.MLIRError`
    when a pass fails, and `fallback.VerificationError` when the passes declare some values unreduced, but only some of
    those made of them; a module that is rewritten in place is then left as the passes left it.
    """
    pipeline = Pipeline.parse(passes)
    if in_place and not isinstance(module, ir.Module):
        raise TypeError(f"in_place=True rewrites an ir.Module, not {type(module).__name__}")
    match module:
        case str():
            parsed = parse(module.encode(), STDIN, make_context())
            remarks = _rewrite(parsed, pipeline)
            return Optimized(parsed.operation.get_asm(assume_verified=True), remarks)
        case bytes():
            parsed = parse_bytecode(module, make_context())
            remarks = _rewrite(parsed, pipeline)
            return Optimized(bytecode_of(parsed), remarks)
        case ir.Module():
            own = module if in_place else _copy(module)
            return Optimized(own, _rewrite(own, pipeline))
    module = getattr(module, "lowered", module)  # equinox holds jax's result there
    if not hasattr(module, "compiler_ir"):
        raise TypeError(f"expected an ir.Module, text, bytecode or a lowered program, not {type(module).__name__}")
    own = _copy(module.compiler_ir())
    return Optimized(own, _rewrite(own, pipeline))


def name_of(module: ir.Operation) -> str:
    """As in `jit_step`; "" where it has none."""
    return ir.StringAttr(module.attributes["sym_name"]).value if "sym_name" in module.attributes else ""


def _rewrite(module: Module, pipeline: Pipeline) -> list[Remark]:
    """Runs `pipeline`. Raises VerificationError when a pass says of some values only that they are not reduced."""
    if pipeline.has_ours:
        require_checked(module, STDIN)
    known = known_of(module.operation)
    remarks = pipeline.run(module.operation)
    gap = gap_behind_passes(module.operation, known)
    if gap is not None:
        raise VerificationError(gap)
    return remarks


def parse(data: bytes, name: str, context: ir.Context, *, implicit_module: bool = True) -> Module:
    """The module in `data` (text or bytecode), whose positions say that it comes from the file `name`.

    Top-level operations other than one `builtin.module` are put in a module, unless `implicit_module` is False: then
    there has to be one operation, which is returned, whatever it is. Raises ModuleError.
    """
    if data.startswith(BYTECODE_MAGIC):
        return _parsed(data, name, context)
    text = _decoded(data, name)
    _require_shallow(data, name)
    if not implicit_module:
        with refusing(context, name), context:
            return ir.Operation.parse(text, source_name=name)
    if name == STDIN:
        return _parsed(text, name, context)
    try:
        # The only way to name the file of a text in memory; it takes exactly one operation.
        with refusing(context, name), context:
            module = ir.Operation.parse(text, source_name=name)
    except ModuleError as error:
        if "single top-level operation" not in str(error):
            raise
        return _named(_parsed(text, name, context), name)
    if module.operation.name == "builtin.module":
        return module
    return _named(_parsed(text, name, context), name)


def parse_bytecode(data: bytes, context: ir.Context) -> Module:
    """As `parse`, for data that somebody else wrote, in a process that must go on, whatever MLIR makes of it."""
    if data.startswith(BYTECODE_MAGIC):
        from paropt.modules.readable import complaint  # here: the command does without

        if error := complaint(data):
            raise ModuleError([], error)
    return parse(data, STDIN, context)


def require_checked(module: Module, name: str) -> None:
    """Raises ModuleError where an attribute that passes read has another form than they expect."""
    found = complaint(module.operation, annotated=b"paropt" in bytecode_of(module))
    if found:
        source = source_of(found.op.location)
        raise ModuleError([Diagnostic("error", source if source.file else source._replace(file=name), found.text)])


def bytecode_of(module: Module) -> bytes:
    """The module as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _copy(module: ir.Module) -> ir.Module:
    return ir.Module.parse(bytecode_of(module), module.context)


def type_of_main(module: ir.Module) -> ir.Attribute | None:
    for op in module.body.operations:
        attributes = op.operation.attributes
        if "sym_name" in attributes and ir.StringAttr(attributes["sym_name"]).value == "main":
            return attributes["function_type"]
    return None


def callback_of(module: Module) -> ir.Operation | None:
    """The first op that calls back into the Python of the process that made `module`."""
    calls = ops_of(module.operation, "stablehlo.custom_call")
    return next((op for op in calls if "callback" in ir.StringAttr(op.attributes["call_target_name"]).value), None)


def diagnostic_of(given: ir.Diagnostic, name: str) -> Diagnostic:
    """`given` without MLIR's handles; `name` is the file that was read."""
    # A diagnostic's location comes untyped; its attribute knows its type.
    source = _readable(lambda: source_of(ir.Location.from_attr(given.location.attr, given.location.context)), _NOWHERE)
    if not source.file or source.file == STDIN:
        source = source._replace(file=name)
    message = _readable(lambda: given.message, "MLIR's message holds bytes that are no UTF-8 text")
    notes = tuple(note for note in (diagnostic_of(note, name) for note in given.notes) if not note.is_shown_op)
    return Diagnostic(given.severity.name.lower(), source, " ".join(message.split()), notes)


@contextlib.contextmanager
def refusing(context: ir.Context, name: str, summary: str = "") -> Iterator[None]:
    """Errors of MLIR within the block raise ModuleError, with the positions of the file `name`.

    `summary` names the failure when MLIR does not. The errors are taken as MLIR emits them: on their way into an
    `ir.MLIRError`, a name that is no UTF-8 text would abort the process.
    """
    errors: list[Diagnostic] = []

    def take(given: ir.Diagnostic) -> bool:
        if given.severity != ir.DiagnosticSeverity.ERROR:
            return False
        errors.append(diagnostic_of(given, name))
        return True

    emitted = context.emit_error_diagnostics
    context.emit_error_diagnostics = True
    handler: Any = context.attach_diagnostic_handler(take)
    try:
        yield
    except ir.MLIRError as error:
        raise ModuleError(errors, f"{name}: {summary or error.message}") from error
    finally:
        handler.detach()
        context.emit_error_diagnostics = emitted


def _readable(read: Callable[[], _T], otherwise: _T) -> _T:
    """The result of `read`, unless it is made of bytes that are no UTF-8 text, which jaxlib reports in several ways."""
    try:
        return read()
    except (UnicodeDecodeError, RuntimeError):
        return otherwise


def dialect_names() -> list[str]:
    """The dialects that a context of ours reads; only MLIR's own complaint about another one lists them."""
    try:
        ir.Module.parse("no_such_dialect.op", make_context())
    except ir.MLIRError as error:
        listed = re.search(r"Available dialects: ([^;]*);", str(error))
        return [name.strip() for name in re.sub(r"\([^)]*\)", "", listed[1]).split(",")] if listed else []
    return []


def _parsed(source: str | bytes, name: str, context: ir.Context) -> ir.Module:
    with refusing(context, name):
        try:
            return ir.Module.parse(source, context)
        except ValueError as error:  # of C++: a count that no vector can have
            raise ModuleError([], f"{name}: {error}") from error


def _named(module: ir.Module, name: str) -> ir.Module:
    """`module`, whose positions in unnamed text now say `name`."""

    def renamed(location: Any) -> Any:
        if not is_position(location) or location.filename != STDIN:
            return location
        return ir.Location.file(name, location.start_line, location.start_col, context=module.context)

    for op in _ops(module.operation):
        op.location = renamed(op.location)
        for block in (block for region in op.regions for block in region.blocks):
            for argument in block.arguments:
                argument.set_location(renamed(argument.location))
    return module


def _ops(root: ir.Operation) -> Iterator[ir.Operation]:
    yield root
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                yield from _ops(op.operation)


def _decoded(data: bytes, name: str) -> str:
    zero = data.find(b"\0")  # MLIR takes it for a space, and a file of zeros for an empty module
    if zero >= 0:
        raise _error_at(data, zero, name, "neither MLIR bytecode nor UTF-8 text: byte 0x00")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        what = f"neither MLIR bytecode nor UTF-8 text: byte 0x{data[error.start]:02x}"
        raise _error_at(data, error.start, name, what) from error


def _require_shallow(text: bytes, name: str) -> None:
    """Raises ModuleError where brackets nest deeper than MAX_NESTING: MLIR would overflow the stack, a crash.

    Brackets in strings and comments count too, so this is an upper bound.
    """
    brackets = text.replace(b"->", b"").translate(_STEPS, delete=_NO_BRACKETS)  # 4 ns per byte of text
    if np.cumsum(np.frombuffer(brackets, np.int8), dtype=np.int32).max(initial=0) <= MAX_NESTING:
        return
    depth = 0
    for found in re.finditer(rb"->|[()\[\]{}<>]", text):
        depth += (found[0] in _OPENING) - (found[0] in _CLOSING)
        if depth > MAX_NESTING:
            raise _error_at(text, found.start(), name, f"brackets nest deeper than {MAX_NESTING} levels")


def _error_at(data: bytes, offset: int, name: str, message: str) -> ModuleError:
    before = data[:offset]
    source = Source(name, before.count(b"\n") + 1, offset - before.rfind(b"\n"), "")
    return ModuleError([Diagnostic("error", source, message)])
