"""The census of optimized HLO: one row per collective, with the loops around it, its payload and its group.

Definitions are in docs/census.md.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from paropt.hlo import parser as hlo
from paropt.hlo.joined_parts import joins_parts
from paropt.hlo.origins import Origin, Origins, counterpart
from paropt.hlo.participants import Layout, participants
from paropt.hlo.trip_counts import Scope

SYNC_KINDS = ("all-reduce", "reduce-scatter")

KINDS = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
    "send",
)
_KIND_OF = {opcode: kind for kind in KINDS for opcode in (kind, f"{kind}-start")}

# The collectives that XLA:TPU does between slices, by the name that it gives to the exchange.
_BETWEEN_SLICES = {
    "ALL_REDUCE": "all-reduce",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_GATHER": "all-gather",
    "ALL_TO_ALL": "all-to-all",
    "ONE_TO_ONE": "collective-permute",
}
_TRANSFER = re.compile(r'_xla_megascale_transfer_type="(\w+)"')


@dataclass(frozen=True)
class Loop:
    """A loop around a collective."""

    name: str  # JAX's name stack (`jit(step)/while`), or the name in HLO
    trip_count: int | None  # per entry; None when the executable does not tell


@dataclass(frozen=True)
class Collective:
    """One collective of the executable, which may combine several arrays. Bytes are per device."""

    kind: str  # one of KINDS
    name: str  # in HLO
    arrays: tuple[hlo.Array, ...]
    group: int  # devices that take part together
    loops: tuple[Loop, ...]  # outermost first
    at_most: bool  # it is in a branch of a conditional: the counts are upper bounds
    asynchronous: bool
    op_name: str  # JAX's name stack, "" when the executable does not tell
    source_file: str  # "" when the executable does not tell
    source_line: int
    axes: tuple[str, ...] = ()  # of the mesh, that the group spans: data, or the part data:(2)4; empty when not known
    origins: tuple[Origin, ...] = ()  # the labels of the ops around it, where it has none itself
    joined: tuple[bool, ...] = ()  # of an all-reduce, by array: whether it puts parts together, as an all-gather does

    @property
    def gathers(self) -> bool:
        """Whether it is an all-gather, or XLA's all-reduce in place of one."""
        return self.kind == "all-gather" or (any(self.joined) and all(self.joined))

    @property
    def marked_arrays(self) -> list[tuple[hlo.Array, bool]]:
        """Its arrays, each with whether an all-reduce puts parts together there."""
        return list(zip(self.arrays, self.joined or (False,) * len(self.arrays), strict=True))

    @property
    def executions(self) -> int | None:
        """How often it runs per step; None when a loop around it has an unknown trip count."""
        counts = [loop.trip_count for loop in self.loops]
        return 0 if 0 in counts else _product(counts)

    @property
    def depth(self) -> int:
        return len(self.loops)

    @property
    def payload(self) -> int:
        """Bytes that one execution combines: of all-gather the results, of the other kinds the operands."""
        return sum(array.bytes for array in self.arrays)

    @property
    def wire_bytes(self) -> float:
        """Bytes that one execution sends, as a ring does: 2(n-1)/n of the payload for all-reduce, else (n-1)/n."""
        return self.payload * sent_per_byte(self.kind, self.group)


def census(text: str, layout: Layout = Layout()) -> tuple[Collective, ...]:  # noqa: B008  it is frozen
    """The collectives of optimized HLO, in program order. Raises HloError when the text cannot be read.

    `layout` tells the axes of the mesh apart.
    """
    module = hlo.parse(text)
    return tuple(_Walk(module, layout).collectives(Scope.of_entry(module), _Place((), False, False, ())))


class _Place(NamedTuple):
    """Where a computation is executed from."""

    loops: tuple[Loop, ...]
    at_most: bool
    asynchronous: bool
    callers: tuple[str, ...]

    def in_loop(self, name: str, trip_count: int | None) -> "_Place":
        return self._replace(loops=(*self.loops, Loop(name, trip_count)))


class _Walk:
    """Follows the calls of a module from its entry."""

    def __init__(self, module: hlo.Module, layout: Layout) -> None:
        self.module = module
        self.layout = layout
        self._origins = Origins(module)
        starts = [(name, start) for name, c in module.computations.items() for start in started_in(c)]
        self._started = {(computation, start.name) for computation, start in starts}
        self._channels = {start.attributes.get("channel_id") for _, start in starts}
        instructions = (i for c in module.computations.values() for i in c.instructions.values())
        self._fused = {i.callee("calls") for i in instructions if i.opcode == "fusion"}

    def collectives(self, scope: Scope, place: _Place) -> Iterator[Collective]:
        """The collectives in the computation of `scope` and in those that it calls."""
        name = scope.computation.name
        if name in place.callers:
            raise hlo.HloError(f"HLO computation `{name}` calls itself")
        inside = place._replace(callers=(*place.callers, name))
        for instruction in scope.computation.instructions.values():
            kind = kind_of(instruction)
            if kind is None:
                for callee, callee_place in self._called(scope, instruction, inside):
                    yield from self.collectives(callee, callee_place)
            elif not self._is_continued(scope.computation, instruction):
                if name in self._fused and is_scattered(scope.computation, instruction):
                    kind = "reduce-scatter"
                yield self._collective(kind, scope.computation, instruction, inside)

    def _called(self, scope: Scope, caller: hlo.Instruction, place: _Place) -> Iterator[tuple[Scope, _Place]]:
        match caller.opcode:
            case "while":
                name = caller.metadata().get("op_name", caller.name)
                count = scope.trip_count(caller)
                tests = None if count is None else count + 1
                yield scope.inside_loop(caller, "condition"), place.in_loop(name, tests)
                yield scope.inside_loop(caller, "body"), place.in_loop(name, count)
            case "conditional":
                branches = caller.called("branch_computations", "true_computation", "false_computation")
                for operand, branch in enumerate(branches, 1):
                    yield scope.inside(caller, branch, operand), place._replace(at_most=True)
            case "fusion" | "call":
                role = "calls" if caller.opcode == "fusion" else "to_apply"
                yield scope.inside(caller, caller.callee(role)), place
            case "custom-call":  # how often it runs the computation that it names is up to the target
                for name in caller.called("called_computations", "to_apply", "calls"):
                    yield scope.inside(caller, name), place.in_loop(caller.name, None)
            case opcode if opcode.endswith("-start") and "calls" in caller.attributes:
                asynchronous = place.asynchronous or not is_sync(caller)
                yield scope.inside(caller, caller.callee("calls")), place._replace(asynchronous=asynchronous)

    def _is_continued(self, computation: hlo.Computation, collective: hlo.Instruction) -> bool:
        """True for the copies in which XLA:TPU continues and ends a collective that another fusion starts: all have one
        channel."""
        if "async_collective_fusion_config" not in collective.attributes.get("backend_config", ""):
            return False
        is_start = (computation.name, collective.name) in self._started
        return not is_start and collective.attributes.get("channel_id") in self._channels

    def _collective(
        self, kind: str, computation: hlo.Computation, instruction: hlo.Instruction, place: _Place
    ) -> Collective:
        file, line = self.module.source(instruction)
        in_fusion = (computation.name, instruction.name) in self._started
        started = instruction.opcode.endswith("-start") and not is_sync(instruction)
        between_slices = _between_slices(instruction) is not None
        taking_part = participants(kind, self.module, instruction)
        return Collective(
            kind=kind,
            name=instruction.name,
            arrays=payload_of(kind, computation, instruction),
            group=taking_part.group,
            loops=place.loops,
            at_most=place.at_most,
            asynchronous=place.asynchronous or started or in_fusion or between_slices,
            op_name=instruction.metadata().get("op_name", ""),
            source_file=file,
            source_line=line,
            axes=self.layout.axes(taking_part, self.module),
            origins=self._origins.of(computation, instruction),
            joined=self._joined(kind, computation, instruction, taking_part.group),
        )

    def _joined(
        self, kind: str, computation: hlo.Computation, instruction: hlo.Instruction, group: int
    ) -> tuple[bool, ...]:
        if kind != "all-reduce" or instruction.opcode == "send":
            return ()
        return tuple(joins_parts(self.module, computation, name, group) for name in instruction.operands)


def kind_of(instruction: hlo.Instruction) -> str | None:
    """The kind of collective that the instruction starts, None when it is something else."""
    kind = _KIND_OF.get(instruction.opcode)
    if kind is None or "calls" in instruction.attributes:
        return None
    if instruction.attributes.get("is_host_transfer") == "true":
        return _between_slices(instruction)
    return kind


def is_scattered(computation: hlo.Computation, instruction: hlo.Instruction) -> bool:
    """Whether an all-reduce in a fusion is a reduce-scatter, which XLA:TPU writes as a sum of which it cuts a part."""
    readers = _readers(computation, instruction)
    parts = [part for i in readers for part in ([i] if i.opcode != "get-tuple-element" else _readers(computation, i))]
    return instruction.opcode == "all-reduce" and {part.opcode for part in parts} == {"dynamic-slice"}


def _readers(computation: hlo.Computation, value: hlo.Instruction) -> list[hlo.Instruction]:
    return [i for i in computation.instructions.values() if value.name in i.operands]


def _between_slices(instruction: hlo.Instruction) -> str | None:
    """The kind of exchange between slices that a `send` to the host starts; None for other transfers to the host."""
    transfer = _TRANSFER.search(instruction.attributes.get("frontend_attributes", ""))
    if instruction.opcode != "send" or not transfer:
        return None
    return _BETWEEN_SLICES.get(transfer[1], "send")


def started_in(computation: hlo.Computation) -> list[hlo.Instruction]:
    """The collectives that XLA:TPU starts in this fusion, to be continued in others beside the computation there."""
    instructions = computation.instructions.values()
    starts = [i for i in instructions if i.attributes.get("custom_call_target") == '"AsyncCollectiveStart"']
    operands = [computation.instructions[name] for start in starts for name in start.operands]
    return [operand for operand in operands if kind_of(operand) is not None]


def _target(instruction: hlo.Instruction) -> str:
    return instruction.attributes.get("custom_call_target", "").strip('"')


def is_sync(start: hlo.Instruction) -> bool:
    """True when XLA:GPU runs the start and the done of the pair together."""
    return bool(start.config().get("collective_backend_config", {}).get("is_sync"))


def payload_of(kind: str, computation: hlo.Computation, instruction: hlo.Instruction) -> tuple[hlo.Array, ...]:
    shapes: tuple[hlo.Shape, ...]
    if kind == "all-gather":
        shapes = (_gathered(computation, instruction),)
    elif kind == "reduce-scatter" and instruction.opcode == "all-reduce":
        shapes = tuple(_before_cut(computation, name) for name in instruction.operands)
    else:
        shapes = tuple(_without_padding(computation, name) for name in instruction.operands)
    if instruction.opcode == "send" or kind == "ragged-all-to-all" or "slice_sizes" in instruction.attributes:
        shapes = shapes[:1]  # the others are offsets, sizes, tokens and the buffer to write into
    arrays = (array for shape in shapes for array in hlo.arrays_of(shape))
    return tuple(array for array in arrays if array.dtype not in ("token", "opaque"))


def _gathered(computation: hlo.Computation, gather: hlo.Instruction) -> hlo.Shape:
    received = counterpart(computation, gather, "recv") if gather.opcode == "send" else None
    if received:
        return received.shape[0] if isinstance(received.shape, tuple) else received.shape
    if gather.opcode.endswith("-start") and isinstance(gather.shape, tuple):
        return gather.shape[1]  # behind the operands
    return gather.shape


def _before_cut(computation: hlo.Computation, name: str) -> hlo.Shape:
    """The shape of the array that XLA:TPU reduces to cut it, and pads where the parts would be unequal."""
    value = computation.instructions[name]
    return computation.instructions[value.operands[0]].shape if value.opcode == "pad" else value.shape


def _without_padding(computation: hlo.Computation, name: str) -> hlo.Shape:
    """The shape of a value; of one that XLA:TPU has padded to send it to other slices, as it was before."""
    value = computation.instructions[name]
    shape = value.shape
    while isinstance(shape, hlo.Array) and (earlier := _before_padding(computation, value)):
        if not isinstance(earlier.shape, hlo.Array) or earlier.shape.dtype != shape.dtype:
            break
        value = earlier
        shape = earlier.shape if earlier.shape.elements < shape.elements else shape
    return shape


def _before_padding(computation: hlo.Computation, value: hlo.Instruction) -> hlo.Instruction | None:
    """The value that `value` is a copy of, padded perhaps, or the sum of over devices; None when it is something
    else."""
    if value.opcode == "get-tuple-element":
        combined = computation.instructions[value.operands[0]]
        if combined.opcode != "all-reduce":
            return None
        return computation.instructions[combined.operands[int(value.attribute("index"))]]
    copies = value.opcode in ("bitcast", "copy", "all-reduce") or _target(value) == "ZeroCrop"
    return computation.instructions[value.operands[0]] if copies and len(value.operands) == 1 else None


def sent_per_byte(kind: str, group: int) -> float:
    if group < 2:
        return 0.0
    return (2 if kind == "all-reduce" else 1) * (group - 1) / group


def _product(counts: Iterable[int | None]) -> int | None:
    product = 1
    for count in counts:
        if count is None:
            return None
        product *= count
    return product
