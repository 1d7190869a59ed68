"""A parser of optimized HLO (`compiled.as_text()`) into computations and instructions.

Text to structure only: `paropt.audit` interprets its communication. Every line is read or refused with its number; none
is skipped.
"""

import functools
import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

# A comma, a bracket, a whole string or a whole comment: the tokens that may end or hide a piece of a line.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|/\*.*?\*/|[(){}\[\],"]')
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_COMMENT = re.compile(r"/\*.*?\*/")
_GAP = re.compile(r"(?:\s|/\*.*?\*/)*")

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9,<= ]*)\](?:\{(?:[^{}]|\{[^{}]*\})*\})?")
_DTYPE = re.compile(r"pred|token|opaque|(?:s|u|f|bf|c)(\d+)[a-z0-9]*")
_MAX_TUPLE_DEPTH = 64

_MODULE = re.compile(r"HloModule ([^\s,]+)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+)(?: \(.*\) -> .*)? \{")
_END = re.compile(r'\}(?:, execution_thread="[^"]*")?')
_ASSIGNMENT = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r" ([a-z][\w\-]*)\(")
_ATTRIBUTE = re.compile(r"\s*([\w.\-]+)=(.*)", re.DOTALL)
_NAME = re.compile(r"%?([\w.\-]+)")
# The form of most lines, in one: an array, operands by name, attributes in which no bracket is nested. Other lines are
# read step by step.
_USUAL = re.compile(
    r"\s+(ROOT )?%([\w.\-]+) = ([a-z][a-z0-9]*)\[([0-9,]*)\](?:\{[^{}]*\})? "
    r"(?:(parameter|constant)\(([\w.\-]*)\)|([a-z][\w\-]*)\((%[\w.\-]+(?:, %[\w.\-]+)*)\))"
)
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_USUAL_ATTRIBUTE = re.compile(
    rf", ([\w.\-]+)=({_STRING}|\{{[^(){{}}\[\]\"]*(?:{_STRING}[^(){{}}\[\]\"]*)*\}}|[^\s(){{}}\[\],\"]+)(?=,|$)"
)

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r"(\d+) (.*)")
_METADATA = re.compile(r'(\w+)=("[^"\\]*(?:\\.[^"\\]*)*"|[^\s"{}]+)')


class HloError(ValueError):
    """The text is not HLO that can be read; one line that names the line and the text expected there."""


def _error(line: int, problem: str, text: str) -> HloError:
    text = text.strip()
    return HloError(f"HLO line {line}: {problem}: `{text if len(text) <= 80 else text[:77] + '...'}`")


@dataclass(frozen=True)
class Array:
    """An array type; layout, tiling and memory space are left out."""

    dtype: str  # as HLO spells it: f32, bf16, pred, s4, f8e4m3fn, token
    dims: tuple[int, ...]  # the upper bound where a dimension is dynamic

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes of the elements, without the padding of tiled layouts; types below a byte are packed."""
        return -(-self.elements * _bits(self.dtype) // 8)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


Shape: TypeAlias = Array | tuple["Shape", ...]


def _bits(dtype: str) -> int:
    if dtype in ("token", "opaque"):
        return 0
    if dtype == "pred":
        return 8
    width = _DTYPE.fullmatch(dtype)
    assert width is not None, "the reader lets no other type pass"
    return int(width[1])


def arrays_of(shape: Shape) -> Iterator[Array]:
    """The arrays of a shape, depth first."""
    if isinstance(shape, Array):
        yield shape
        return
    for element in shape:
        yield from arrays_of(element)


class Instruction(NamedTuple):
    """One instruction: `%name = shape opcode(operands), attributes`."""

    name: str
    shape: Shape
    opcode: str
    operands: tuple[str, ...]  # names within the computation; empty for `parameter` and `constant`
    literal: str  # the text in parentheses of `parameter` and `constant`, else ""
    attributes: Mapping[str, str]  # values as written
    line: int

    def attribute(self, key: str) -> str:
        """The attribute `key` as written; HloError when there is none."""
        if key not in self.attributes:
            raise _error(self.line, f"{self.opcode} has no attribute `{key}`", self.name)
        return self.attributes[key]

    def called(self, *roles: str) -> tuple[str, ...]:
        """The computations in the attributes `roles` (`calls`, `to_apply`, `body`, ...), in that order."""
        texts = (self.attributes[role] for role in roles if role in self.attributes)
        return tuple(name for text in texts for name in _NAME.findall(text))

    def callee(self, role: str) -> str:
        """The one computation in the attribute `role`; HloError when there is none."""
        return self.attribute(role).removeprefix("%")

    def config(self) -> dict[str, Any]:
        """`backend_config` as JSON; empty when there is none. Raises HloError when it is no JSON object."""
        text = self.attributes.get("backend_config", "{}")
        try:
            value = json.loads(text)
            value = json.loads(value or "{}") if isinstance(value, str) else value
        except json.JSONDecodeError as error:
            raise _error(self.line, "backend_config is not JSON", text) from error
        if not isinstance(value, dict):
            raise _error(self.line, "backend_config is not a JSON object", text)
        return value

    def metadata(self) -> dict[str, str]:
        """`metadata={op_name="..." source_line=3}` without the quotes; empty when there is none."""
        pairs = _METADATA.findall(self.attributes.get("metadata", ""))
        return {key: _unquoted(value) for key, value in pairs}


@dataclass(frozen=True)
class Computation:
    """A named list of instructions, operands before their users."""

    name: str
    instructions: Mapping[str, Instruction]
    root: Instruction


@dataclass(frozen=True)
class Module:
    """An HLO module: its computations, and where its instructions come from."""

    name: str
    attributes: Mapping[str, str]  # of the `HloModule` line, as written
    computations: Mapping[str, Computation]
    entry: Computation
    tables: Mapping[str, Mapping[int, str]] = field(repr=False)  # FileNames to StackFrames, rows as written

    @property
    def replicas(self) -> int:
        return int(self.attributes.get("replica_count", "1"))

    @property
    def partitions(self) -> int:
        return int(self.attributes.get("num_partitions", "1"))

    def computation(self, name: str, caller: Instruction) -> Computation:
        if name not in self.computations:
            raise _error(caller.line, f"no computation is called `{name}`", caller.name)
        return self.computations[name]

    @cached_property
    def loops(self) -> dict[str, tuple[Computation, Instruction]]:
        """The loop of each body that one loop alone has, and the computation that the loop is in."""
        found: dict[str, list[tuple[Computation, Instruction]]] = defaultdict(list)
        for computation in self.computations.values():
            for instruction in computation.instructions.values():
                if instruction.opcode == "while":
                    found[instruction.callee("body")].append((computation, instruction))
        return {body: loops[0] for body, loops in found.items() if len(loops) == 1}

    def source(self, instruction: Instruction) -> tuple[str, int]:
        """File and line that the instruction comes from, ("", 0) when the text does not say."""
        metadata = instruction.metadata()
        if "stack_frame_id" in metadata:
            return self._frames.get(int(metadata["stack_frame_id"]), ("", 0))
        return metadata.get("source_file", ""), int(metadata.get("source_line", "0"))

    @cached_property
    def _frames(self) -> dict[int, tuple[str, int]]:
        """Stack frame to the file and line of its innermost call."""
        files = {number: _unquoted(row) for number, row in self.tables["FileNames"].items()}
        locations = {number: _fields(row) for number, row in self.tables["FileLocations"].items()}
        frames = {number: _fields(row) for number, row in self.tables["StackFrames"].items()}
        found = {}
        for number, frame in frames.items():
            location = locations.get(frame.get("file_location_id", 0), {})
            found[number] = (files.get(location.get("file_name_id", 0), ""), location.get("line", 0))
        return found


def _fields(row: str) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", row)}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


class _Line(NamedTuple):
    number: int  # from 1
    text: str

    def error(self, problem: str, at: int = 0) -> HloError:
        return _error(self.number, problem, self.text[at:])


def parse(text: str) -> Module:
    """The module that `text` holds. Raises HloError for a line that it cannot read."""
    numbered = enumerate(map(str.rstrip, text.split("\n")), 1)
    lines = deque(_Line(number, line) for number, line in numbered if line and not line.lstrip().startswith("//"))
    if not lines:
        raise HloError("HLO line 1: the text is empty")
    _attributes.cache_clear()  # another text repeats other attributes
    name, attributes = _read_header(lines.popleft())
    tables = _read_tables(lines)
    computations: dict[str, Computation] = {}
    entries = []
    while lines:
        line = lines[0]
        computation, is_entry = _read_computation(lines)
        if computation.name in computations:
            raise line.error("a second computation of that name")
        computations[computation.name] = computation
        if is_entry:
            entries.append(computation)
    if len(entries) != 1:
        raise HloError(f"HLO module `{name}` has {len(entries)} ENTRY computations instead of one")
    return Module(name, attributes, computations, entries[0], tables)


def _read_header(line: _Line) -> tuple[str, Mapping[str, str]]:
    header = _MODULE.match(line.text)
    if not header:
        raise line.error("expected `HloModule name` (optimized HLO, as `compiled.as_text()` gives it)")
    return header[1], _read_attributes(line, header.end())


def _read_tables(lines: deque[_Line]) -> dict[str, dict[int, str]]:
    tables: dict[str, dict[int, str]] = {name: {} for name in _TABLES}
    while lines and lines[0].text in tables:
        table = tables[lines.popleft().text]
        while lines and (row := _ROW.fullmatch(lines[0].text)):
            table[int(row[1])] = row[2]
            lines.popleft()
    return tables


def _read_computation(lines: deque[_Line]) -> tuple[Computation, bool]:
    """The computation at the head of `lines`, which loses it; True when it is the entry."""
    head = lines.popleft()
    header = _COMPUTATION.fullmatch(head.text)
    if not header:
        raise head.error("expected a computation, `%name (parameters) -> shape {`")
    instructions: dict[str, Instruction] = {}
    root = None
    while lines and not (lines[0].text.startswith("}") and _END.fullmatch(lines[0].text)):
        line = lines.popleft()
        instruction, is_root = _read_instruction(line)
        if instruction.name in instructions:
            raise line.error("a second instruction of that name")
        undefined = [name for name in instruction.operands if name not in instructions]
        if undefined:
            raise line.error(f"operand `{undefined[0]}` is not defined above")
        instructions[instruction.name] = instruction
        root = instruction if is_root else root
    if not lines:
        raise head.error("the text ends within the computation")
    lines.popleft()
    if root is None:
        raise head.error("the computation has no ROOT")
    return Computation(header[2], instructions, root), header[1] is not None


def _read_instruction(line: _Line) -> tuple[Instruction, bool]:
    usual = _USUAL.match(line.text)
    if usual and _is_dtype(usual[3]):
        root, name, dtype, dims, kind, literal, opcode, names = usual.groups()
        operands = tuple(names.replace("%", "").split(", ")) if names else ()
        attributes = _read_attributes(line, usual.end())
        made = Instruction(name, _array(dtype, dims), kind or opcode, operands, literal or "", attributes, line.number)
        return made, root is not None
    return _read_any_instruction(line)


def _read_any_instruction(line: _Line) -> tuple[Instruction, bool]:
    """The same of any line, step by step."""
    assignment = _ASSIGNMENT.match(line.text)
    if not assignment:
        raise line.error("expected an instruction, `%name = shape opcode(operands)`")
    shape, at = _read_shape(line, assignment.end())
    opcode = _OPCODE.match(line.text, at)
    if not opcode:
        raise line.error("expected an opcode and its operands", at)
    pieces, end = _pieces(line, opcode.end())
    if line.text[end : end + 1] != ")":
        raise line.error("expected `)` after the operands", opcode.end())
    is_literal = opcode[1] in ("parameter", "constant")
    operands = () if is_literal else tuple(_operand(line, piece) for piece in pieces)
    literal = line.text[opcode.end() : end] if is_literal else ""
    attributes = _read_attributes(line, end + 1)
    instruction = Instruction(assignment[2], shape, opcode[1], operands, literal, attributes, line.number)
    return instruction, assignment[1] is not None


def _operand(line: _Line, piece: str) -> str:
    """The name in `%name` or `f32[8]{0} %name`."""
    word = (_COMMENT.sub("", piece) if "/*" in piece else piece).split()
    name = _NAME.fullmatch(word[-1]) if word else None
    if not name:
        raise line.error(f"cannot read operand `{piece.strip()}`")
    return name[1]


def _read_attributes(line: _Line, at: int) -> Mapping[str, str]:
    """The attributes of `, key=value, key=value` from `at` to the end of the line."""
    rest = line.text[at:]
    try:
        return _attributes(rest)
    except HloError:
        return _read_any_attributes(_Line(line.number, rest))  # raises the same, of this line


@functools.lru_cache(4096)  # a program has few different ones, of many instructions
def _attributes(text: str) -> Mapping[str, str]:
    attributes: dict[str, str] = {}
    at = 0
    while usual := _USUAL_ATTRIBUTE.match(text, at):
        attributes[usual[1]] = usual[2]
        at = usual.end()
    is_read = at == len(text) and "device_ids" not in attributes
    return attributes if is_read else _read_any_attributes(_Line(0, text))


def _read_any_attributes(line: _Line) -> dict[str, str]:
    """The same of a line that is no more than they, however they are written."""
    if not line.text.startswith(","):
        raise line.error("expected `, attribute=value`")
    pieces, end = _pieces(line, 1)
    if end != len(line.text):
        raise line.error("a bracket is closed that was not opened", end)
    attributes: dict[str, str] = {}
    for piece in pieces:
        pair = _ATTRIBUTE.fullmatch(piece)
        if not pair:
            raise line.error(f"cannot read attribute `{piece.strip()}`")
        if pair[1] == "device_ids":  # the order of the mesh's devices: part of the value before, comma or not
            attributes["replica_groups"] = f"{attributes.get('replica_groups', '')},{piece}"
            continue
        attributes[pair[1]] = pair[2]
    return attributes


def _pieces(line: _Line, at: int) -> tuple[list[str], int]:
    """The text from `at`, cut at its commas, up to the bracket that closes one opened before `at` or to the end.

    Returns the pieces and the position of that bracket or end.
    """
    pieces = []
    expected: list[str] = []
    start, end = at, len(line.text)
    for mark in _STRUCTURE.finditer(line.text, at):
        token = mark[0]
        if token in _CLOSING:
            expected.append(_CLOSING[token])
        elif token == '"':
            raise line.error("a string is not closed", mark.start())
        elif token == "," and not expected:
            pieces.append(line.text[start : mark.start()])
            start = mark.end()
        elif token in ")}]" and not expected:
            end = mark.start()
            break
        elif token in ")}]" and expected.pop() != token:
            raise line.error(f"`{token}` closes another bracket", mark.start())
    if expected:
        raise line.error(f"`{expected[-1]}` is missing", at)
    last = line.text[start:end]
    return ([*pieces, last] if pieces or last.strip() else []), end


def _read_shape(line: _Line, at: int, depth: int = 0) -> tuple[Shape, int]:
    """The shape that starts at `at`, and the position after it."""
    if line.text.startswith("(", at):
        return _read_tuple(line, at + 1, depth)
    if line.text.startswith("b(", at):  # a buffer, read as a tuple of the array in parentheses
        return _read_tuple(line, at + 2, depth)
    array = _ARRAY.match(line.text, at)
    if not array or not _is_dtype(array[1]):
        raise line.error("expected a shape", at)
    try:
        return _array(array[1], array[2]), array.end()
    except ValueError as error:
        raise line.error("cannot read the dimensions", at) from error


@functools.lru_cache(4096)
def _array(dtype: str, dims: str) -> Array:
    return Array(dtype, tuple(int(dim.strip().removeprefix("<=")) for dim in dims.split(",") if dim))


@functools.lru_cache(4096)
def _is_dtype(text: str) -> bool:
    return _DTYPE.fullmatch(text) is not None


def _read_tuple(line: _Line, at: int, depth: int) -> tuple[tuple[Shape, ...], int]:
    """The shapes from `at` to the `)`, and the position after it."""
    if depth == _MAX_TUPLE_DEPTH:
        raise line.error(f"a tuple is nested deeper than {_MAX_TUPLE_DEPTH}", at)
    elements: list[Shape] = []
    at = _end_of_gap(line, at)
    while not line.text.startswith(")", at):
        if elements:
            if not line.text.startswith(",", at):
                raise line.error("expected `,` or `)` in a tuple shape", at)
            at = _end_of_gap(line, at + 1)
        element, at = _read_shape(line, at, depth + 1)
        elements.append(element)
        at = _end_of_gap(line, at)
    return tuple(elements), at + 1


def _end_of_gap(line: _Line, at: int) -> int:
    gap = _GAP.match(line.text, at)
    assert gap is not None, "the pattern matches nothing, too"
    return gap.end()
