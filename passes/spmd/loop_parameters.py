"""The sharded parameters that a loop reads, their readers, and the axes over which XLA all-gathers them there.

A parameter that is sharded over an axis which also shards the batch is all-gathered wherever an op reads both: two
dimensions of one result can't be sharded over the same axis.

Tests: test/passes/hoist-gathers.mlir, test/numeric/test_hoisted_all_gathers.py.
"""

from collections.abc import Iterable, Iterator
from math import prod
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import depth_first, exhaust
from paropt.passes.dataflow.loop_invariants import Varying
from paropt.passes.ir.barriers import BARRIER, made_of
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.control_flow import Use, carried, uses_of
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import is_elementwise, is_identity, takes_block
from paropt.passes.ir.types import is_float, tensor_of
from paropt.passes.sharding.axes import Axes, Axis, has_part, names_of
from paropt.passes.sharding.op_rules import parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, parts_in, read_sharding, sharding_of
from paropt.passes.spmd.layer_stacks import is_handed_on, is_pass_through, row_copies, rows_read
from paropt.passes.spmd.renewed_parameters import Renewal, renewal_of
from paropt.passes.spmd.trained_parameters import has_other_rows, is_trained, moved_by
from paropt.passes.support.traversal import captured, is_in, module_of, op_of

_BROADCAST, DYNAMIC_SLICE = "stablehlo.broadcast_in_dim", "stablehlo.dynamic_slice"
# A lookup reads few rows of a sharded table: XLA sends these.
_LOOKUP = "stablehlo.gather"
_REDUCE = "stablehlo.reduce"
CONVERT = "stablehlo.convert"
RESHAPE, SLICE, TRANSPOSE = "stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose"
_MAY_BE_EXAMPLES = "it may be examples: the loop adds up no gradient of its shape"
_OVER_PARTS = "it is sharded over a part of an axis"


class Reading(NamedTuple):
    """Where a loop reads a parameter: a chain of ops that copy or convert elements of it, and the reader of the
    last."""

    copies: tuple[Use, ...]  # each reads the result of the one before
    end: Use

    @property
    def first(self) -> Use:
        """The use of the parameter itself."""
        return self.copies[0] if self.copies else self.end

    @property
    def converted(self) -> ir.Type | None:
        """The element type that the parameter is converted to first; None if it is read as it is."""
        convert = next((use.op for use in self.copies if use.op.name == CONVERT), None)
        return ir.RankedTensorType(convert.results[0].type).element_type if convert is not None else None


class Parameter(NamedTuple):
    """A value that a loop all-gathers in each trip."""

    value: ir.Value  # outside of the loop
    sharding: Sharding
    readings: tuple[Reading, ...]  # for which it is gathered
    axes: Axes  # those over which XLA all-gathers it in the loop
    is_invariant: bool  # or else an argument of the program that the loop changes, as over several steps
    renewal: Renewal | None = None  # of one that some trips change, and between which it is the same
    by_shard: tuple[Reading, ...] = ()  # by ops on each element alone, which need no other shards: as of weight decay
    kept_by: tuple[ir.Operation, ...] = ()  # readers sharded like it, where it is gathered for others
    gathers: int = 1  # how often XLA gathers it in a trip
    at_use: Axes = ()  # those of `axes` over which it does; over others it moves activations
    moved: int = 0  # bytes of activations that XLA moves in a trip for readers for which it does not gather it
    unknown: str = ""  # why it may be no parameter


def sharded_parameters(loop: Loop, propagated: Propagated) -> Iterator[Parameter]:
    """The sharded floats of which `loop` reads all in each trip, and which XLA all-gathers there, or for which it moves
    activations. The loop carries them, or its body reads them from outside, as of a loop that was unrolled.
    """
    read = {
        value: _Read(value, tuple(readings), _sharding(value, propagated), invariant)
        for value, (readings, invariant) in _read_by(loop).items()
    }
    batch = _batch_axes(loop, read.values())
    for each in read.values():
        sharding = each.sharding
        if sharding is None or not _is_float(each.value):
            continue
        if each.is_invariant or _is_argument_of_program(each.value):
            each = each if each.is_invariant else each._replace(renewal=renewal_of(loop, each.value))
            found = _parameter(loop, each, sharding, batch, propagated)
            yield from [found] if found is not None else []


class _Read(NamedTuple):
    """A value from outside of a loop that its body reads."""

    value: ir.Value
    readings: tuple[Reading, ...]
    sharding: Sharding | None
    is_invariant: bool
    renewal: Renewal | None = None

    @property
    def is_kept(self) -> bool:
        """Whether several trips read the same."""
        return self.is_invariant or self.renewal is not None


def _parameter(
    loop: Loop, read: _Read, sharding: Sharding, batch: frozenset[str], propagated: Propagated
) -> Parameter | None:
    """The parameter that is `read`; None for other values, and for one that XLA reads without communication."""
    value, readings = read.value, read.readings
    found = [_meets(each, sharding, propagated) for each in readings]
    both = list(zip(readings, found, strict=True))
    stay, rest = (tuple(each for each, meets in both if meets.is_by_shard is by) for by in (True, False))
    split = frozenset(axis for axis in sharding.axes if _splits(loop, sharding.mesh, axis))
    foreign = split.intersection(frozenset[Axis]().union(*(meets.foreign for meets in found)))
    kept = [(like, use.op) for meets in found for like, use in meets.alike if like & foreign]
    axes = foreign.difference(*(like for like, _ in kept))
    asked = frozenset(axis for axis in split - axes if axis.name in batch and rest and read.is_kept)
    trained = asked if is_trained(loop, value) else frozenset[Axis]()
    is_argument = read.is_kept and _is_argument_of_program(value)
    unknown = "" if axes or kept or trained else _MAY_BE_EXAMPLES
    if not (axes or trained or (is_argument and (kept or asked))) or any(
        _is_sliced_by(loop, each) for each in readings
    ):
        return None
    over = axes | (asked if unknown else trained)
    order = tuple(axis for axes in sharding.dimensions for axis in axes if axis in over)
    at_use = [each for each, meets in both if not meets.is_by_shard and (not trained or meets.foreign)]
    gathers = 0 if unknown else len({each.end.op.block for each in at_use})
    moving = [use for meets in found for use in meets.others] if trained or unknown else []
    return Parameter(
        value,
        sharding,
        rest,
        order,
        read.is_invariant,
        read.renewal,
        by_shard=stay,
        kept_by=() if over else tuple(op for _, op in kept[:1]),
        gathers=gathers,
        at_use=tuple(axis for axis in order if axis in foreign),
        moved=moved_by(loop, moving, propagated),
        unknown=_OVER_PARTS if has_part(sharding.axes) else unknown,
    )


def _splits(loop: Loop, mesh: str, axis: Axis) -> bool:
    """Whether `axis` has more than one device."""
    return parts_in(module_of(loop.op), Sharding(mesh, ((axis,),))) > 1


def _batch_axes(loop: Loop, read: Iterable[_Read]) -> frozenset[str]:
    """The mesh axes over which examples are sharded: those of arrays of which each trip reads another slice."""
    shardings = [
        each.sharding
        for each in read
        if each.sharding is not None and any(_is_sliced_by(loop, reading) for reading in each.readings)
    ]
    return frozenset(name for sharding in shardings for name in names_of(sharding.axes))


def _read_by(loop: Loop) -> dict[ir.Value, tuple[list[Reading], bool]]:
    """The values outside of `loop` that its body reads, where, and whether they are loop-invariant."""
    found: dict[ir.Value, tuple[list[Reading], bool]] = {}
    for position, (init, argument) in enumerate(zip(loop.op.operands, loop.body.arguments, strict=True)):
        before, invariant = found.get(init, ([], True))
        found[init] = [*before, *_readings(argument)], invariant and is_pass_through(loop, position)
    for value in captured(loop.op):
        before, invariant = found.get(value, ([], True))
        found[value] = [*before, *_readings(value, loop.body)], invariant
    return found


def readings_of(loop: Loop, value: ir.Value) -> list[Reading]:
    """Where the body of `loop` reads `value`, which is from outside of it."""
    carries = zip(loop.op.operands, loop.body.arguments, strict=True)
    carried_as = [argument for init, argument in carries if init == value]
    return [*(reading for argument in carried_as for reading in _readings(argument)), *_readings(value, loop.body)]


def _is_float(value: ir.Value) -> bool:
    tensor = tensor_of(value)
    return tensor is not None and is_float(tensor.element_type)


def _sharding(init: ir.Value, propagated: Propagated) -> Sharding | None:
    """How the tensor `init` is sharded; None if it is replicated, or no tensor."""
    tensor = tensor_of(init)
    if tensor is None or not tensor.rank:
        return None
    around = init.owner.owner.operation if isinstance(init.owner, ir.Block) else None
    if around is None:
        found = propagated.sharding_of(init)
    elif around.name == WHILE:  # all that a loop carries as one value is sharded alike
        found = propagated.sharding_of(around.results[ir.BlockArgument(init).arg_number])
    else:
        found = sharding_of(init)
    return found if found is not None and found.axes else None


def _is_argument_of_program(value: ir.Value) -> bool:
    return isinstance(value.owner, ir.Block) and value.owner.owner.operation.name == "func.func"


def _readings(argument: ir.Value, body: ir.Block | None = None) -> list[Reading]:
    """Where a loop reads its carried value `argument`, inner loops included; passing it on is no reading.

    With `body`, that of the loop, `argument` is a value from outside.
    """
    copies: dict[ir.Value, tuple[Use, ...]] = {argument: ()}
    readings: list[Reading] = []

    def copied(value: ir.Value) -> Iterator[ir.Value]:
        for use in uses_of(value):
            if body is not None and not is_in(use.op, body):
                continue
            made = _copies_by(use, copies[value])
            if not made and not is_handed_on(use):
                readings.append(Reading(copies[value], use))
            copies.update(made)
            yield from made

    exhaust(depth_first([argument], copied))
    return readings


def _copies_by(use: Use, before: tuple[Use, ...] = ()) -> dict[ir.Value, tuple[Use, ...]]:
    """The copies of a parameter that `use` makes, or inner loops carry, each with the uses that lead to it, `before`
    first; none for a use that makes no copy.
    """
    if use.op.name == WHILE:
        is_carried = is_pass_through(Loop(use.op), use.position)
        return dict.fromkeys(carried(use.op, use.position), before) if is_carried else {}
    if is_copy(use) or _is_float_convert(use.op) or _adds_dimension(use.op):
        return {copy_by(use): (*before, use)}
    rows = rows_read(use.op) if row_copies(use, before) else None
    return {row.results[0]: (*before, use, Use(row, 0)) for row in rows or []}


def _is_float_convert(op: ir.Operation) -> bool:
    return op.name == CONVERT and _is_float(op.results[0])


def _adds_dimension(op: ir.Operation) -> bool:
    """Whether `op` is a broadcast that has each element once."""
    if op.name != _BROADCAST:
        return False
    before, after = (ir.RankedTensorType(value.type).shape for value in (op.operands[0], op.results[0]))
    return prod(before) == prod(after)


def copy_by(use: Use) -> ir.Value:
    """The copy that is made there; see `is_copy`."""
    return made_of(use.op, use.position)


def is_copy(use: Use) -> bool:
    """Whether the use copies its operand, in part perhaps: a convert may as well be done before."""
    copies = takes_block(use.op) or is_identity(use.op)
    return copies and (use.position == 0 or use.op.name == BARRIER)


def _is_sliced_by(loop: Loop, reading: Reading) -> bool:
    """Whether each trip of `loop` itself reads another slice, as a loop over layers does of stacked parameters."""
    slices = [use.op for use in reading.copies if use.op.name == DYNAMIC_SLICE]
    varying = Varying(loop) if slices else None
    return varying is not None and any(index in varying for op in slices for index in list(op.operands)[1:])


class _Meets(NamedTuple):
    """The operands and results beside a value at one of its readers, by the axes of their sharding."""

    foreign: frozenset[Axis]  # those that shard another dimension of a result: it is gathered over them
    alike: list[tuple[frozenset[Axis], Use]]  # those over which the result of an op is sharded as it is
    lookups: list[Use]  # of rows
    is_by_shard: bool  # only ops on each element, and sums of these, which need no other shards

    @property
    def others(self) -> list[Use]:
        """The readers for which it need not be gathered."""
        return [*(use for _, use in self.alike), *self.lookups]


def _meets(reading: Reading, sharding: Sharding, propagated: Propagated) -> _Meets:
    """Found behind the copies that are made of it; XLA gathers it at a constraint that leaves out axes, too."""
    behind = _meets_behind(reading.end, sharding, propagated)
    constraints = [use.op.results[0] for use in reading.copies if use.op.name == CONSTRAINT]
    left = [found.axes if (found := propagated.sharding_of(value)) is not None else () for value in constraints]
    gathered = frozenset[Axis]().union(*(sharding.axes.difference(axes) for axes in left))
    return behind._replace(foreign=behind.foreign | gathered, is_by_shard=behind.is_by_shard and not gathered)


def _meets_behind(use: Use, sharding: Sharding, propagated: Propagated) -> _Meets:
    """Found at the readers of the value, also behind elementwise ops, and in loops that carry it.

    Results sharded as it is are examples, and activations.
    """
    foreign, alike = set[Axis](), list[tuple[frozenset[Axis], Use]]()
    lookups = [use] if use.op.name == _LOOKUP else []

    def behind(reader: tuple[ir.Value, int]) -> list[tuple[ir.Value, int]]:
        op, position = op_of(reader[0]), reader[1]
        if op.name == WHILE:
            return _readers(use for value in _copies_by(Use(op, position)) for use in uses_of(value))
        others, like = _axes_of_others(op, position, propagated)
        foreign.update(others)
        if others & sharding.axes:  # it is gathered there: the result is no parameter any more
            own = Use(op, position)
            alike.extend([(like - others, own)] if like - others and has_other_rows(own, propagated) else [])
            return []
        if is_elementwise(op) or op.name == _BROADCAST or is_copy(Use(op, position)):
            uses = uses_of(made_of(op, position))
            lookups.extend(each for each in uses if each.op.name == _LOOKUP)
            return _readers(uses)
        alike.append((like, Use(op, position)))
        return []

    exhaust(depth_first(_readers([use]), behind))
    are_sums = all(each.op.name == _REDUCE for _, each in alike)
    is_by_shard = are_sums and not lookups and not sharding.axes & foreign
    return _Meets(sharding.axes & foreign, alike, lookups, is_by_shard)


def _readers(uses: Iterable[Use]) -> list[tuple[ir.Value, int]]:
    """The first result of each user, and the position of the operand; lookups left out."""
    return [(use.op.results[0], use.position) for use in uses if len(use.op.results) and use.op.name != _LOOKUP]


def _axes_of_others(op: ir.Operation, position: int, propagated: Propagated) -> tuple[frozenset[Axis], frozenset[Axis]]:
    """The axes that shard other operands and results of `op`: in dimensions that operand `position` lacks; and in those
    in which they shard it, too.
    """
    text = propagated.sharding_rule(op)
    if not text:
        return frozenset(), frozenset()
    rule = parse_rule(text)
    own = {factor for factors in rule.operands[position] for factor in factors}
    dimensions = [*rule.operands, *rule.results]
    shardings = [*propagated.operand_shardings(op), *map(propagated.sharding_of, op.results)]
    split = [
        (number, frozenset(factors), axis)
        for number, (dims, sharding) in enumerate(zip(dimensions, shardings, strict=True))
        if sharding is not None
        for factors, axes in zip(dims, sharding.dimensions, strict=True)
        for axis in axes
    ]
    alike = {(factors, axis) for number, factors, axis in split if number == position}
    others = [(factors, axis) for number, factors, axis in split if number != position]
    foreign = frozenset(axis for factors, axis in others if own.isdisjoint(factors))
    return foreign, frozenset(axis for factors, axis in others if (factors, axis) in alike)


def constraint_over(reading: Reading, parameter: Parameter, propagated: Propagated) -> ir.Operation | None:
    """The constraint on the way to the reader that shards the copy over an axis of `parameter` otherwise than it is
    sharded, and of which not all is gathered behind it.

    A loop may be sharded as a constraint in it asks for, and the parameter resharded in front of it.
    """
    found: ir.Operation | None = None
    for number, op in enumerate(use.op for use in reading.copies):
        if op.name != CONSTRAINT:
            continue
        asked = read_sharding(op.attributes["sharding"])
        of_itself = number == 0 and asked.dimensions != parameter.sharding.dimensions
        if not constrains_over(op, parameter.axes):
            found = None
        elif of_itself or asked not in propagated.operand_shardings(op):
            found = op
    return found


def constrains_over(op: ir.Operation, axes: Axes) -> bool:
    """Whether `op` is a constraint that shards over one of `axes`."""
    return op.name == CONSTRAINT and not read_sharding(op.attributes["sharding"]).axes.isdisjoint(axes)


def narrowest(parameter: Parameter) -> ir.Type:
    """The element type in which the loop reads the parameter: the one to which all readers convert it, if narrower."""
    own = ir.RankedTensorType(parameter.value.type).element_type
    types = {reading.converted for reading in parameter.readings}
    only = types.pop() if len(types) == 1 else None
    is_narrower = isinstance(only, ir.FloatType) and isinstance(own, ir.FloatType) and only.width < own.width
    return only if is_narrower and only is not None else own
