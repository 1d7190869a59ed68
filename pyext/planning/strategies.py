"""The choices that a step leaves open: which mesh axes shard which dimensions, and the communication of each choice.

Dimensions that must be sharded alike share one class: those that element-wise ops, loops and branches tie together, and
old and new state. A class is sharded over an axis, or it is not; nothing else is to be chosen. Shardy's own sharding
rules say how the dimensions of an op belong together.

Sources: Alpa (Zheng et al., OSDI 2022); Shardy's op sharding rules.
Tests: test/unit/pyext/planning/test_sharding_choices.py.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

from jaxlib.mlir import ir
from scipy.cluster.hierarchy import DisjointSet

from paropt.passes.dataflow.engine import backward
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.op_table import adds, is_contraction, is_linear
from paropt.passes.ir.signature import ALIAS, DONOR, Signature, main_of, signatures
from paropt.passes.ir.types import bytes_of, in_element_type, tensor_of
from paropt.passes.sharding.op_rules import Factors, ShardingRule
from paropt.passes.state.alike_shardings import Gradient
from paropt.passes.state.argument_roles import BATCH, PARAMETER, STATE, Roles, examples_dimension
from paropt.passes.state.batched_arguments import CONTROL_FLOW, RuleOf, batched_arguments, rules_of
from paropt.passes.support.traversal import all_ops_of, defining_op, is_read_once, terminator_of
from paropt.planning.stored_values import StoredValues, is_part, size_at_barrier, size_of

_RUNS_ITS_OPS = (*CONTROL_FLOW, "func.func", "builtin.module")  # regions of others are reducers

WHOLE = 0  # the class of dimensions that nothing may shard

Classes = tuple[int, ...]  # of each dimension of a tensor
_Node = tuple[str, int, int | str]  # a dimension of a numbered value, or a factor of a numbered op
_Nodes = tuple[_Node, ...]
_NOTHING: _Node = ("nothing", 0, 0)


class Move(NamedTuple):
    """A tensor that an op reads with other classes than it is made with: dimensions that only its maker shards are
    sent."""

    made: Classes
    read: Classes
    bytes: int  # of the whole tensor
    executions: int  # per step
    is_part: bool = False  # the op takes a part of it, or puts one in: what stays sharded is not sent
    wider: int = 0  # bytes more where it is gathered: behind a barrier, before it is converted


class Sum(NamedTuple):
    """The result of an op that contracts, or reduces: where a contracted class is sharded, it is all-reduced, or
    reduce-scattered where the axis shards a dimension that the op itself leaves whole.
    """

    made: Classes  # as the op computes it
    kept: Classes  # as it is read
    over: Classes  # the classes that are contracted
    bytes: int
    executions: int  # of the reduction: once per step where a loop only adds the result up
    added_bytes: int = 0  # of the result, in the type in which that loop adds it up
    deferred: int = 1  # the trips of that loop: so many times more where each micro-batch reduces
    beside: Classes = ()  # those that are contracted by another, to which this one is added before either is reduced


class Work(NamedTuple):
    """Arithmetic that the devices share where its classes are sharded."""

    classes: Classes
    flops: int  # of contractions; 0 of other ops
    dtype: str  # of the operands, as `bf16`
    bytes: int  # that it writes
    executions: int
    traffic: int = 0  # bytes that it reads and writes, as ops are fused
    is_stacking: bool = False  # it adds stacked gradients of layers to their sums: nothing where these are in place


class Stored(NamedTuple):
    """Bytes of values with the same classes."""

    classes: Classes
    bytes: int
    is_stacking: bool = False  # gradients of layers, stacked before they are added to their sums


class Held(NamedTuple):
    """An argument, held on the devices during the step."""

    path: str  # JAX's name of it; "" when it has none
    number: int  # among the arguments
    classes: Classes
    bytes: int
    examples: int = WHOLE  # of a batch, the class of the dimension that counts examples
    is_parameter: bool = False  # gradients are summed for it


class Layers(NamedTuple):
    """The loops over micro-batches and over layers, if there are such."""

    microbatches: int = 1  # that gradients are added up over
    depth: int = 0  # layers in a scan; 0: they are written out, or there are none
    stacked: tuple[Stored, ...] = ()  # of one micro-batch: what all layers leave for the backward pass
    crossing: tuple[Stored, ...] = ()  # of one micro-batch: what one layer hands to the next


class Choices(NamedTuple):
    """The open choices, and the costs that depend on them. Plain values: it outlives the module."""

    sizes: tuple[int, ...]  # of each class: the greatest common divisor of dimensions sharded by it; of WHOLE, 1
    exclusive: tuple[Classes, ...]  # of these, an axis shards one at most
    moves: tuple[Move, ...]
    sums: tuple[Sum, ...]
    work: tuple[Work, ...]
    arguments: tuple[Held, ...]
    experts: Classes = ()  # of dimensions of state that count experts
    layers: Layers = Layers()
    moments: tuple[tuple[Stored, ...], ...] = ()  # what is live at once, beside the arguments, where it may be most


def choices_in(module: ir.Operation) -> Choices:
    """The choices that `module` leaves, whose calls are inlined, whatever it says of shardings itself."""
    return _Reader(module).choices()


class _Reader:
    """Ties dimensions in the order of the program, writes down the work of ops, and numbers the classes at last."""

    def __init__(self, module: ir.Operation) -> None:
        self._numbers: dict[ir.Value, int] = {}
        self._ties = DisjointSet([_NOTHING])
        self._sizes: dict[_Node, int] = {_NOTHING: 1}
        self._exclusive: list[_Nodes] = []
        self._moves: list[tuple[_Nodes, _Nodes, Move]] = []  # classes are put in at last
        self._sums: list[tuple[_Nodes, _Nodes, _Nodes, Sum]] = []
        self._summed: dict[ir.Value, int] = {}  # results of reducing ops, and of adds of these: the number of the sum
        self._beside: dict[int, int] = {}  # of sums that are added to others, these
        self._work: list[tuple[_Nodes, Work]] = []
        self._signatures = signatures(module)
        self._batches: set[ir.Value] = set()  # and values made of them alone
        self._state: set[ir.Value] = set()
        self._experts: list[_Node] = []
        self._microbatches = 1
        entry = main_of(module) or self._signatures[0]
        self._stored = StoredValues(entry.function.regions[0].blocks[0], donates=_is_donated(entry))
        self._read(module)

    def choices(self) -> Choices:
        """The classes are numbered in the order in which they are found."""
        numbers: dict[_Node, int] = {self._ties[_NOTHING]: WHOLE}
        sizes: list[int] = [1]

        def classes(nodes: _Nodes) -> Classes:
            for node in nodes:
                number = numbers.setdefault(self._ties[node], len(sizes))
                if number == len(sizes):
                    sizes.append(0)
                sizes[number] = gcd(sizes[number], self._sizes[node])
            return tuple(numbers[self._ties[node]] for node in nodes)

        held = []
        for signature in self._signatures:
            roles = Roles(signature)
            for slot in signature.arguments:
                own = classes(self._dimensions(slot.value))
                counting = examples_dimension(slot) if BATCH in roles.of(slot) else len(own)
                examples = own[counting] if counting < len(own) else WHOLE
                is_parameter = PARAMETER in roles.of(slot)
                held.append(Held(slot.path, slot.number, own, size_of(slot.value), examples, is_parameter))
        exclusive = dict.fromkeys(classes(nodes) for nodes in self._exclusive)
        moves = [each._replace(made=classes(made), read=classes(read)) for made, read, each in self._moves]
        sums = [
            each._replace(
                made=classes(made), kept=classes(kept), over=classes(over), beside=self._beside_of(number, classes)
            )
            for number, (made, kept, over, each) in enumerate(self._sums)
        ]
        work = [each._replace(classes=classes(nodes)) for nodes, each in self._work]
        moved = dict.fromkeys(move for move in moves if move.made != move.read)
        experts = tuple(dict.fromkeys(each for each in classes(tuple(self._experts)) if each != WHOLE))

        def stored(values: Iterable[ir.Value]) -> tuple[Stored, ...]:
            found: dict[tuple[Classes, bool], int] = {}
            for value in values:
                key = classes(self._dimensions(value)), value in self._stored.stacked_gradients
                found[key] = found.get(key, 0) + size_of(value)
            return tuple(Stored(own, size, is_stacking) for (own, is_stacking), size in found.items())

        stacked = self._stored.stacked
        depth = max((tensor.shape[0] for value in stacked if (tensor := tensor_of(value)) is not None), default=0)
        layers = Layers(self._microbatches, depth, stored(stacked), stored(self._stored.crossing))
        moments = tuple(dict.fromkeys(map(stored, self._stored.moments())))
        made = (tuple(exclusive), tuple(moved), tuple(sums), tuple(work), tuple(held), experts, layers, moments)
        return Choices(tuple(sizes), *made)

    def _beside_of(self, number: int, classes: Callable[[_Nodes], Classes]) -> Classes:
        return classes(self._sums[self._beside[number]][2]) if number in self._beside else ()

    def _read(self, module: ir.Operation) -> None:
        rule_of = rules_of(module)
        late: dict[ir.Value, tuple[int, ir.Value]] = {}  # the trips of its loop, and the sum

        for signature in self._signatures:
            roles = Roles(signature)
            self._batches |= {slot.value for slot in signature.arguments if BATCH in roles.of(slot)}
            self._state |= {slot.value for slot in signature.arguments if STATE in roles.of(slot)}
            known = roles.states
            for state in known:
                self._tie(self._dimensions(state.old.value), self._dimensions(state.new.value))
            for gradient in roles.gradients:
                trips = trip_count(Loop(gradient.loop)) or 1
                self._microbatches = max(self._microbatches, trips)
                total = Loop(gradient.loop).body.arguments[gradient.position]
                late |= dict.fromkeys(_added_up(gradient, rule_of), (trips, total))
        for number, op in enumerate(_computing(module)):
            for result in op.results:
                self._tie_predecessors(result)
            for argument in (arg for region in op.regions for block in region.blocks for arg in block.arguments):
                self._tie_predecessors(argument)
            rule = rule_of(op)
            if rule is not None:
                self._take(number, op, rule, late)
                self._find_experts(op, rule, rule_of)

    def _tie_predecessors(self, value: ir.Value) -> None:
        sources = [use.value for use in predecessors(value) or ()]
        for source in sources:
            self._tie(self._dimensions(value), self._dimensions(source))
        if sources and all(source in self._batches or source == value for source in sources):
            self._batches.add(value)

    def _take(
        self, number: int, op: ir.Operation, rule: ShardingRule, late: dict[ir.Value, tuple[int, ir.Value]]
    ) -> None:
        """One op: ties its dimensions, and writes down the tensors that it may have to move, its reductions, and its
        work."""
        factors = {name: self._node("op", number, name, size) for name, size in rule.sizes.items()}
        hidden = rule.tied | {name for dims in (*rule.operands, *rule.results) for dim in dims for name in dim[1:]}
        if not is_part(op):  # newer versions of Shardy tie each factor of 1: of a reshape, nothing is in its way
            hidden = frozenset(name for name in hidden if rule.sizes.get(name) != 1)
        for name in hidden & factors.keys():
            self._ties.merge(_NOTHING, factors[name])
        executions = _executions(op)
        for operand, dims in zip(op.operands, rule.operands, strict=True):
            read = _majors(factors, dims)
            if operand in self._batches:
                self._tie_shardable(self._dimensions(operand), read)
            if is_contraction(op) or hidden:
                wider = size_at_barrier(operand) - size_of(operand)
                move = Move((), (), size_of(operand), executions, is_part(op), max(0, wider))
                self._moves.append((self._dimensions(operand), read, move))
            else:
                self._tie(self._dimensions(operand), read)
        if all(operand in self._batches or _is_scalar(operand) for operand in op.operands) and len(op.operands):
            self._batches.update(op.results)
        for result, dims in zip(op.results, rule.results, strict=True):
            made, kept = _majors(factors, dims), self._dimensions(result)
            if rule.reduced:
                deferred, total = late.get(result, (1, result))
                over = tuple(factors[name] for name in sorted(rule.reduced))
                self._summed[result] = len(self._sums)
                each = Sum((), (), (), size_of(result), executions // deferred, _size_as(result, total), deferred)
                self._sums.append((made, kept, over, each))
            else:
                self._tie(made, kept)
        self._add_sums(op)
        self._exclusive.append(tuple(factors.values()))
        flops = 2 * prod(rule.sizes.values()) if is_contraction(op) else 0
        tensor = tensor_of(op.operands[0]) if flops else None
        dtype = str(tensor.element_type) if tensor is not None else ""
        written, traffic = sum(map(size_of, op.results)), self._stored.traffic(op)
        is_stacking = self._stored.is_stacking(op)
        self._work.append((tuple(factors.values()), Work((), flops, dtype, written, executions, traffic, is_stacking)))

    def _add_sums(self, op: ir.Operation) -> None:
        """Of two sums that are only added, the second is added before either is reduced."""
        if op.name == "stablehlo.add" and all(each in self._summed and is_read_once(each) for each in op.operands):
            one, other = (self._summed[each] for each in op.operands)
            self._beside[other] = self._summed[op.results[0]] = one

    def _find_experts(self, op: ir.Operation, rule: ShardingRule, rule_of: RuleOf) -> None:
        """The dimensions of state that a contraction has as batching dimensions."""
        if is_contraction(op):
            found = batched_arguments(op, rule, rule_of)
            self._experts += (self._dimensions(b.argument)[b.dimension] for b in found if b.argument in self._state)

    def _tie_shardable(self, some: _Nodes, others: _Nodes) -> None:
        """Reading a part of a batch that is whole costs nothing, but XLA does not choose to: it has to be sharded."""
        for one, other in zip(some, others, strict=True):
            if not self._ties.connected(other, _NOTHING):
                self._ties.merge(one, other)

    def _dimensions(self, value: ir.Value) -> _Nodes:
        """The nodes of the dimensions of `value`, of which an axis shards one at most."""
        tensor = tensor_of(value)
        shape = list(tensor.shape) if tensor is not None else []
        is_new = value not in self._numbers
        number = self._numbers.setdefault(value, len(self._numbers))
        nodes = tuple(self._node("value", number, i, size) for i, size in enumerate(shape))
        if is_new and len(nodes) > 1:
            self._exclusive.append(nodes)
        return nodes

    def _node(self, kind: str, number: int, part: int | str, size: int) -> _Node:
        node = (kind, number, part)
        self._ties.add(node)
        self._sizes[node] = size
        return node

    def _tie(self, some: _Nodes, others: _Nodes) -> None:
        for one, other in zip(some, others, strict=True):
            self._ties.merge(one, other)


def _is_donated(signature: Signature) -> bool:
    """Whether new state may be written over old."""
    return any(note in slot.notes for slot in signature.arguments for note in (ALIAS, DONOR))


def _majors(factors: dict[str, _Node], dims: Sequence[Factors]) -> _Nodes:
    """Of each dimension the factor that an axis would shard: the most major one."""
    return tuple(factors[dim[0]] if dim else _NOTHING for dim in dims)


def _computing(module: ir.Operation) -> Iterator[ir.Operation]:
    """The ops of `module` but for those of reducers, which the op around them runs as it likes."""
    return (op for op in all_ops_of(module) if all(each.name in _RUNS_ITS_OPS for each in _holders(op)))


def _holders(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops in whose regions `op` is, the innermost first."""
    while op.parent is not None:
        op = op.parent.operation
        yield op


def _executions(op: ir.Operation) -> int:
    """How often a step runs `op`, as far as loops count from a constant to a constant; a branch counts as taken."""
    return prod(trip_count(Loop(each)) or 1 for each in _holders(op) if each.name == WHILE)


def _added_up(gradient: Gradient, rule_of: RuleOf) -> Iterator[ir.Value]:
    """The values that a loop only accumulates to `gradient`: their reduction is due once, behind the loop.

    What something else reads as well is reduced where that does.
    """

    def made_of(value: ir.Value) -> Iterator[ir.Value]:
        uses = predecessors(value)
        if uses is not None:
            yield from (use.value for use in uses if is_read_once(use.value))
            return
        op = defining_op(value)
        if op is None or not (is_linear(op) or adds(op) or op.name == "stablehlo.convert"):
            return
        rule = rule_of(op)
        if rule is not None and not any(rule.sizes[name] > 1 for name in rule.reduced):
            yield from filter(is_read_once, op.operands)

    end = terminator_of(Loop(gradient.loop).body)
    return backward([end.operands[gradient.position]], made_of)


def _is_scalar(value: ir.Value) -> bool:
    tensor = tensor_of(value)
    return tensor is not None and tensor.rank == 0


def _size_as(value: ir.Value, other: ir.Value) -> int:
    """Bytes of `value` in the element type of `other`."""
    tensor, wanted = tensor_of(value), tensor_of(other)
    if tensor is None or wanted is None:
        return 0
    return bytes_of(in_element_type(tensor, wanted.element_type))
