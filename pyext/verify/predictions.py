"""Predicted reductions of an executable, required and allowed, from the constraints and shardings of its module."""

import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import inf, prod
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.hlo.mesh_axes import axes_of_groups
from paropt.hlo.participants import Layout
from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.op_table import adds, keeps_elements
from paropt.passes.ir.types import is_inexact, tensor_of
from paropt.passes.sharding.annotations import place_of
from paropt.passes.sharding.axes import Axis, axes_in, names_of, whole_axes
from paropt.passes.sharding.collectives import ALL_REDUCE, GLOBAL_ALL_REDUCE, REDUCE_SCATTER, replica_groups
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.sharding.op_rules import Factors, parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import SHARDING, Sharding, is_manual, manual_around, mesh_behind
from paropt.passes.spmd.producers import PRODUCERS
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import defining_op, only_user_of, ops_of, parent_of, users_of
from paropt.verify.tags import sharding_by, tags_of

ANY_GROUP = 0

# Ops after which the partitioner may add a reduction, if a dimension that they add up or look things up in is split.
_COMMUNICATE = (
    *PRODUCERS,
    "stablehlo.cholesky",
    "stablehlo.concatenate",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.fft",
    "stablehlo.gather",
    "stablehlo.pad",
    "stablehlo.reduce_window",
    "stablehlo.reverse",
    "stablehlo.select_and_scatter",
    "stablehlo.slice",
    "stablehlo.sort",
    "stablehlo.triangular_solve",
)
_EXPLICIT = (ALL_REDUCE, REDUCE_SCATTER, GLOBAL_ALL_REDUCE, "sdy.reduce_scatter")


class Key(NamedTuple):
    """The properties that tell reductions apart in an executable. Types do not: compilers convert."""

    elements: int  # per device
    group: int  # devices that take part together
    axes: frozenset[str] = frozenset()  # that these span; empty when not known


class Reduced(NamedTuple):
    """A reduction, or a range of those that an executable may contain."""

    fewest: int  # elements per device
    most: int
    group: int
    in_loop: bool
    times: float  # per step
    axes: frozenset[str] = frozenset()  # as in Key
    name: str = ""  # in the executable, and where it comes from
    addition: int = 0  # the only user of the reduced value: its terms may be added first, and reduced once; 0: none
    not_over: frozenset[str] = frozenset()  # mesh axes: devices that it is over differ in none
    is_exact: bool = False  # in an executable: of integers, or truth values

    def fits(self, key: Key) -> bool:
        return self.fewest <= key.elements <= self.most and self.is_over(key.group, key.axes)

    def stacked(self) -> "Reduced":
        """A compiler's form of a sum in a loop that only writes it to an array: it reduces that array, after the
        loop."""
        times = int(self.times)
        return self._replace(fewest=self.fewest * times, most=self.most * times, in_loop=False, times=1.0)

    def is_over(self, group: int, axes: frozenset[str]) -> bool:
        known = self.group in (ANY_GROUP, group) and (not self.axes or not axes or self.axes == axes)
        return known and not self.not_over & {axis.partition(":")[0] for axis in axes}


class Moved(NamedTuple):
    """Reductions that the module takes out of loops."""

    times: float = 0.0  # per step, that XLA alone runs them in the loops
    places: tuple[str, ...] = ()  # the locations of the ops that reduce

    def __add__(self, other: "Moved") -> "Moved":  # type: ignore[override]  # not as tuples are added
        return Moved(self.times + other.times, (*self.places, *other.places))


class Later(Sequence[Reduced]):
    """Reductions that are found out when they are asked for: it costs a propagation of shardings."""

    def __init__(self, find: Callable[[], Iterable[Reduced]]) -> None:
        self._find = find

    @functools.cached_property
    def _found(self) -> tuple[Reduced, ...]:
        return tuple(self._find())

    def __getitem__(self, index: Any) -> Any:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)


@dataclass(frozen=True)
class Prediction:
    """The reductions of a module's executable, if its compiler loses nothing."""

    unreduced: dict[Key, str]  # reductions that a lost constraint would cause, and where one such value is
    closings: Sequence[Reduced]  # those that the module asks for
    kept: Sequence[Reduced]  # those that it has to add behind an op whose sum is unreduced over other axes only
    others: Sequence[Reduced]  # those that the compiler may add, the former included
    in_loops: frozenset[Key]  # of the first, those that a loop would reduce: a sum after loops is reduced there
    moved: Mapping[Key, Moved] = field(default_factory=dict)
    are_floats: bool = False  # all of `unreduced`: no compiler adds these up as integers

    def without_axes(self) -> "Prediction":
        """For an executable that does not tell over which axes it reduces, but only over how many devices."""
        unreduced = {key._replace(axes=frozenset()): place for key, place in self.unreduced.items()}
        in_loops = frozenset(key._replace(axes=frozenset()) for key in self.in_loops)
        closings, kept, others = map(_without_axes, (self.closings, self.kept, self.others))
        moved: defaultdict[Key, Moved] = defaultdict(Moved)
        for key, each in self.moved.items():
            moved[key._replace(axes=frozenset())] += each
        return Prediction(unreduced, closings, kept, others, in_loops, moved, self.are_floats)


def _without_axes(reductions: Sequence[Reduced]) -> Sequence[Reduced]:
    return Later(lambda: (reduced._replace(axes=frozenset()) for reduced in reductions))


def prediction(module: ir.Operation) -> Prediction:
    """The reductions that the executable of `module`, as it is now, should have: compilers may change it."""
    return _Predictor(module.clone()).prediction()


class _Predictor:
    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self._trip_counts: dict[ir.Value, float] = {}  # by the first result of a loop
        self._sizes: dict[str, dict[str, int]] = {}  # of the axes of a mesh
        self._additions: dict[ir.Value, int] = {}  # numbers, from 1 on
        self._calls: defaultdict[str, list[ir.Operation]] = defaultdict(list)  # of functions
        for call in ops_of(module, "func.call"):
            self._calls[ir.FlatSymbolRefAttr(call.attributes["callee"]).value].append(call)
        self._layout = Layout.of_module(module)
        self._has_one_mesh = len(self._layout.meshes) == 1  # axes of another may span the same devices

    def prediction(self) -> Prediction:
        unreduced: dict[Key, str] = {}
        in_loops: set[Key] = set()
        moved: defaultdict[Key, Moved] = defaultdict(Moved)
        are_floats = True
        for op in tags_of(self._module):
            sharding = sharding_by(op)
            key = Key(self._elements(op.operands[0], sharding), *self._over(sharding.mesh, sharding.unreduced))
            if key.group > 1:
                unreduced.setdefault(key, str(source_of(op.location)))
                are_floats &= is_inexact(ir.RankedTensorType(op.operands[0].type).element_type)
                in_loop, times = self._place(op)
                in_loops.update([key] if in_loop else [])
                if in_loop and _adds_up(op.operands[0]):
                    moved[key] += Moved(times, (place_of(op),))
        closings = [self._closing(*found) for found in _closings(self._module)]
        asked, kept, others = tuple(closings), Later(self._kept), Later(self._others)
        return Prediction(unreduced, asked, kept, others, frozenset(in_loops), moved, are_floats)

    @functools.cached_property
    def _propagated(self) -> Propagated:
        return Propagated(self._module)

    def _kept(self) -> Iterator[Reduced]:
        for op in ops_of(self._module, *PRODUCERS):
            if not is_manual(op) and (tags := _tags_behind(op)) and not self._covers(tags):
                addition = self._addition_of(op.results[0]) if len(op.results) == 1 else 0
                yield from (reduced._replace(addition=addition) for reduced in self._added(op))

    def _addition_of(self, value: ir.Value) -> int:
        """A number of the first addition, where only that reads `value`, or a copy of it; 0 where none does."""
        while (user := only_user_of(value)) is not None:
            if adds(user):
                return self._additions.setdefault(user.results[0], len(self._additions) + 1)
            if user.name != CONSTRAINT and not keeps_elements(user):
                break
            value = user.results[0]
        return 0

    def _covers(self, tags: Iterable[Sharding]) -> bool:
        """Whether all axes of all meshes are among those over which `tags` say that a value is unreduced."""
        unreduced = names_of(axis for sharding in tags for axis in sharding.unreduced)
        axes = [axis for mesh in meshes_of(self._module).values() for axis in mesh.axes]
        are_named = all(sharding.mesh.startswith("@") for sharding in tags)
        return are_named and all(name in unreduced for name, size in axes if size > 1)

    def _closing(self, op: ir.Operation, tag: ir.Operation) -> Reduced:
        """The reduction that `op` asks for: the sum of the value that `tag` declares unreduced."""
        given, wanted = sharding_by(tag), sharding_by(op)
        sizes = [self._elements(op.operands[0], sharding) for sharding in (given, wanted)]
        # Where the sum is split further, it may be split first.
        group, axes = self._over(given.mesh, given.unreduced)
        return Reduced(min(sizes), sizes[0], group, *self._place(op), axes)

    def _others(self) -> Iterator[Reduced]:
        for op in ops_of(self._module, *_EXPLICIT):
            yield from (self._over_groups(op, self._shard_of(op, i)) for i in range(len(op.operands)))
        for op in ops_of(self._module, *_COMMUNICATE):
            if not is_manual(op):
                yield from self._added(op)
                yield from self._added_in_steps(op)
                yield from self._added_in_dispute(op)
            elif op.name in PRODUCERS:  # over axes that are not manual
                yield from (self._part_of(op, value)._replace(not_over=_manual_axes(op)) for value in op.results)
        for op in ops_of(self._module, "stablehlo.composite"):  # XLA decides on its parts
            yield from (self._part_of(op, value) for value in op.results)
        for op in ops_of(self._module, "stablehlo.custom_call"):
            is_split = any(s is not None and s.axes for s in self._propagated.operand_shardings(op))
            if is_split or SHARDING in op.attributes:  # one device's callback: the others get its results by a sum
                yield from (self._part_of(op, value) for value in op.results)

    def _added(self, op: ir.Operation) -> Iterator[Reduced]:
        """The reductions that the partitioner may add behind `op`, beside those that a tag there takes out of its
        hands."""
        return self._reduced_over(op, frozenset().union(*self._apart(op)))

    def _added_in_steps(self, op: ir.Operation) -> Iterator[Reduced]:
        """The same, where each dimension that is added up gets a reduction of its own, or is split as one operand is.

        Or where it is summed over the axes that split the result, too, before that is cut, and then over the others;
        or over each of them by itself.
        """
        apart = self._apart(op)
        if not apart:
            return
        together = frozenset().union(*apart)
        cut = frozenset().union(*(s.axes for s in map(self._propagated.sharding_of, op.results) if s is not None))
        each = [frozenset([axis]) for axis in sorted(together & cut)]
        steps = [*apart, *self._apart(op, by_operand=True), together & cut, together - cut, *each]
        for axes in dict.fromkeys(steps):
            if axes and axes != together:
                yield from self._reduced_over(op, axes)

    def _added_in_dispute(self, op: ir.Operation) -> Iterator[Reduced]:
        """The reductions that XLA may add where an axis shards a contracting dimension of `op`, and another one: it
        shards the former over free axes.

        Outside loops over any devices; a lost constraint shows in loops, and there it may be over the free axes only.
        """
        shardings = (*self._propagated.operand_shardings(op), *map(self._propagated.sharding_of, op.results))
        if op.name not in PRODUCERS or not _is_disputed(self._propagated.sharding_rule(op), shardings):
            return
        if not self._place(op)[0]:
            yield from (self._part_of(op, value) for value in op.results)
            return
        for axes in self._free(shardings):
            yield from self._reduced_over(op, axes)

    def _free(self, shardings: Iterable[Sharding | None]) -> Iterator[frozenset[Axis]]:
        """The sets of mesh axes that are in none of these shardings."""
        given = [sharding for sharding in shardings if sharding is not None]
        mesh = mesh_behind(self._module, given[0].mesh)
        taken = names_of(axis for sharding in given for axis in sharding.axes)
        free = whole_axes(name for name in mesh.names if name not in taken) if mesh is not None else ()
        for count in range(1, len(free) + 1):
            yield from map(frozenset, combinations(free, count))

    def _apart(self, op: ir.Operation, *, by_operand: bool = False) -> list[frozenset[Axis]]:
        """The axes over which `op` reduces or looks up, by dimension, without those over which a tag keeps the result
        unreduced."""
        lies = tuple(self._propagated.operand_shardings(op))
        rule = self._propagated.sharding_rule(op)
        listed: list[tuple[Sharding | None, ...]] = [lies]
        if by_operand:
            listed = [tuple(own if i == j else None for j in range(len(lies))) for i, own in enumerate(lies)]
        split = [axes for shardings in listed for axes in _axes_apart(rule, shardings)]
        done = names_of(_unreduced_behind(op))
        left = [frozenset(axis for axis in axes if not names_of([axis]) & done) for axes in split]
        return [axes for axes in left if axes]

    def _reduced_over(self, op: ir.Operation, axes: frozenset[Axis]) -> Iterator[Reduced]:
        lies = (*self._propagated.operand_shardings(op), *map(self._propagated.sharding_of, op.results))
        meshes = {sharding.mesh for sharding in lies if sharding is not None}
        if not meshes or not axes:
            return
        mesh = meshes.pop()
        for value in op.results:
            tensor = tensor_of(value)
            if tensor is None or meshes:  # XLA moves all to one of them
                yield self._part_of(op, value)
                continue
            split = self._propagated.sharding_of(value) or Sharding(mesh, ((),) * len(tensor.shape))
            whole = Sharding(
                mesh, tuple(tuple(a for a in dimension if a not in axes) for dimension in split.dimensions)
            )
            sizes = [self._elements(value, split), self._elements(value, whole), self._as_operands(op, value, axes)]
            if _splits_twice(self._propagated.sharding_rule(op), lies):
                sizes.append(prod(tensor.shape))
            group, over = self._over(mesh, axes)
            yield Reduced(min(sizes), max(sizes), group, *self._place(op), over)

    def _as_operands(self, op: ir.Operation, value: ir.Value, axes: frozenset[Axis]) -> int:
        """How much of `value` each device reduces that splits it as its operands are, and cuts its part out later."""
        text, position = self._propagated.sharding_rule(op), ir.OpResult(value).result_number
        if not text:
            return 1
        rule = parse_rule(text)
        lies = self._propagated.operand_shardings(op)
        mesh = next(sharding.mesh for sharding in lies if sharding is not None)
        parts: dict[Factors, int] = {}
        for factors, over in rule.split(lies):
            split = self._devices(mesh, [axis for axis in over if axis not in axes])
            parts[factors] = min(split, parts.get(factors, split))
        shape = ir.RankedTensorType(value.type).shape
        return prod(
            -(-size // parts.get(factors, 1)) for size, factors in zip(shape, rule.results[position], strict=True)
        )

    def _part_of(self, op: ir.Operation, value: ir.Value) -> Reduced:
        """A reduction of `value` or of a part of it, over any devices."""
        tensor = tensor_of(value)
        return Reduced(1, prod(tensor.shape) if tensor is not None else sys.maxsize, ANY_GROUP, *self._place(op))

    def _shard_of(self, op: ir.Operation, number: int) -> Reduced:
        """The reduction of an operand by the collective `op`; after loops, by an all_reduce, of each device's shard of
        it.

        Where axes are left to the partitioner, that is less than all. A range would have room for other sums that the
        module asks for, which XLA may concatenate with it.
        """
        part = self._part_of(op, op.operands[number])
        if op.name != ALL_REDUCE or part.in_loop or not is_manual(op):
            return part
        sharding = self._propagated.sharding_of(op.results[number])
        if sharding is None or not sharding.axes:
            return part
        elements = self._elements(op.results[number], sharding)
        return part._replace(fewest=elements, most=elements)

    def _over_groups(self, op: ir.Operation, part: Reduced) -> Reduced:
        """`part` over the devices that the collective `op` lists. XLA concatenates arrays that are over the same ones.

        Over any, it would count for the concatenation of the operand of `op` with other sums that the module asks for.
        """
        listed = replica_groups(op) if op.name in (ALL_REDUCE, REDUCE_SCATTER) else None
        if not listed or "use_global_device_ids" not in op.attributes or len(set(map(len, listed))) > 1:
            return part
        axes = frozenset(axes_of_groups(listed, self._layout.meshes)) if self._has_one_mesh else frozenset()
        return part._replace(group=len(listed[0]), axes=axes)

    def _place(self, op: ir.Operation) -> tuple[bool, float]:
        """Whether `op` is in a loop, and how often it runs per step: infinitely often where nobody knows."""
        in_loop, times = False, 1.0
        while op.parent is not None:
            op = parent_of(op)
            if op.name == WHILE:
                in_loop, times = True, times * self._trips(op)
            if op.name == "func.func" and (calls := self._calls.get(ir.StringAttr(op.attributes["sym_name"]).value)):
                places = [self._place(call) for call in calls]
                in_loop = in_loop or any(inside for inside, _ in places)
                times *= sum(often for _, often in places)
        return in_loop, times

    def _trips(self, loop: ir.Operation) -> float:
        first = loop.results[0]
        if first not in self._trip_counts:  # finding out takes as long as the body
            count = trip_count(Loop(loop))
            self._trip_counts[first] = inf if count is None else max(1, count)
        return self._trip_counts[first]

    def _elements(self, value: ir.Value, sharding: Sharding) -> int:
        """Of `value` on one device; dimensions that do not divide are padded."""
        tensor = tensor_of(value)
        assert tensor is not None, "a sharding is of a static shape"
        parts = [self._devices(sharding.mesh, axes) for axes in sharding.dimensions]
        return prod(-(-length // part) for length, part in zip(tensor.shape, parts, strict=True))

    def _over(self, mesh: str, axes: Iterable[Axis]) -> tuple[int, frozenset[str]]:
        """How many devices `axes` span, and the axes by which a census tells these groups from others."""
        spanned = [axis for axis in axes if self._devices(mesh, [axis]) > 1]
        names = frozenset(axis.label for axis in spanned)
        return self._devices(mesh, spanned), names if self._has_one_mesh else frozenset()

    def _devices(self, mesh: str, axes: Iterable[Axis]) -> int:
        """How many devices `axes` span."""
        if mesh not in self._sizes:
            found = mesh_behind(self._module, mesh)
            assert found is not None, "the module verifies"
            self._sizes[mesh] = dict(found.axes)
        return prod(axis.size(self._sizes[mesh]) for axis in axes)


def _manual_axes(op: ir.Operation) -> frozenset[str]:
    """The axes over which the program communicates by itself where `op` is, and the partitioner does not."""
    found = frozenset[str]()
    while (manual := manual_around(op)) is not None:
        found |= names_of(axes_in(manual.attributes["manual_axes"]))
        op = manual
    return found


def _closings(module: ir.Operation) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    """The constraints that ask for a sum, and the ones before them that declare its operand unreduced."""
    for op in ops_of(module, CONSTRAINT):
        tag = defining_op(op.operands[0])
        if tag is None or tag.name != CONSTRAINT or not sharding_by(tag).unreduced or sharding_by(op).unreduced:
            continue
        if _is_read(op):
            yield op, tag


def _is_read(op: ir.Operation) -> bool:
    """Whether more than dead code reads `op`: XLA erases the sum of a loop-carried value that is dead after the
    loop."""
    waiting, seen = [op], {op.results[0]}
    while waiting:
        for user in users_of(waiting.pop()):
            if not len(user.results) or not is_repeatable(user):
                return True
            if user.results[0] not in seen:
                seen.add(user.results[0])
                waiting.append(user)
    return False


def _adds_up(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name in PRODUCERS


def _unreduced_behind(op: ir.Operation) -> set[Axis]:
    return {axis for sharding in _tags_behind(op) for axis in sharding.unreduced}


def _tags_behind(op: ir.Operation) -> list[Sharding]:
    shardings = [sharding_by(user) for user in users_of(op) if user.name == CONSTRAINT]
    return [sharding for sharding in shardings if sharding.unreduced]


@functools.lru_cache(4096)  # programs have few different ones, of many ops
def _axes_apart(rule_text: str, shardings: tuple[Sharding | None, ...]) -> list[frozenset[Axis]]:
    """The axes that shard the reduced dimensions, and those of lookups, of the op with this rule, dimension by
    dimension."""
    if not rule_text:
        return []
    rule = parse_rule(rule_text)
    found: dict[Factors, frozenset[Axis]] = {}  # by dimension
    for factors, axes in rule.split(shardings):
        if (rule.reduced | rule.moved).intersection(factors):
            found[factors] = found.get(factors, frozenset()) | set(axes)
    return list(found.values())


@functools.lru_cache(4096)
def _dimensions_split(text: str, shardings: tuple[Sharding | None, ...]) -> tuple[frozenset[Factors], ...]:
    """Of each axis, the dimensions of operands and results that it splits, of the op with this rule."""
    if not text:
        return ()
    rule = parse_rule(text)
    split: dict[Axis, set[Factors]] = defaultdict(set)
    for sharding, dimensions in zip(shardings, (*rule.operands, *rule.results), strict=True):
        for factors, axes in zip(dimensions, sharding.dimensions if sharding is not None else (), strict=False):
            for axis in axes:
                split[axis].add(factors)
    return tuple(map(frozenset, split.values()))


def _splits_twice(text: str, shardings: tuple[Sharding | None, ...]) -> bool:
    """Whether an axis splits several dimensions of the op with this rule: XLA puts all but one together first."""
    return any(len(dimensions) > 1 for dimensions in _dimensions_split(text, shardings))


def _is_disputed(text: str, shardings: tuple[Sharding | None, ...]) -> bool:
    """Whether an axis shards a reduced dimension of the op with this rule, and another dimension."""
    split = [frozenset().union(*dimensions) for dimensions in _dimensions_split(text, shardings)]
    return any(len(factors) > 1 and factors & parse_rule(text).reduced for factors in split)
