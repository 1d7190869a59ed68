"""Values of a training step by their part in it: examples, sums over examples, values computed from these sums.

The step is seen as a loop over parts of the batch would do it. A value with a dimension of examples is computed part by
part. A sum over the examples is accumulated from part to part, and so are values linear in it. Other functions of a sum
are computed after the loop, and no example may read them.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, NoReturn

from jaxlib.mlir import ir

from paropt.passes.dataflow.engine import backward
from paropt.passes.dataflow.linearity import Crossing, addends_of
from paropt.passes.dataflow.side_effects import is_repeatable
from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.constants import CONSTANT, is_zero, splat_of
from paropt.passes.ir.gradient_marks import mark_of
from paropt.passes.ir.loops import WHILE, Loop
from paropt.passes.ir.op_table import carries_operands, is_cheap, is_costly, is_deterministic, is_random, looks_up
from paropt.passes.microbatch.examples import Batch, Examples, is_extreme
from paropt.passes.sharding.collectives import ADD, ALL_REDUCE, PER_DEVICE, Reduction, combiner_of
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import captured, defining_op, parent_of

IOTA = "stablehlo.iota"


class Role(Enum):
    """The role of a value without examples that is not computed before the loop."""

    SAME = "computed for each part, and equal for all"
    SUM = "the sum over all parts of what each of them adds"
    EXTREME = "the largest, or smallest, over all parts, or whether any or all are true"
    AFTER = "computed from those, or from what the last part leaves"


Fact = Batch | Role  # a value without one is computed before the loop, from no part of the batch
Needs = dict[int, Batch]  # the operands of an op that are to be cut into parts, though they are not computed so

# The roles of values that are known only when all parts are done.
_LATE = (Role.SUM, Role.EXTREME, Role.AFTER)
# Linear in the sum over the parts: the sum that the loop takes.
_OVER_PARTS = Reduction(ALL_REDUCE, ADD, (), False, False, None, "")
_DEEPEST = 200  # ops in a row that are done again


class View(NamedTuple):
    """The part of a value that has the batch as a dimension, though it is computed from no part of it."""

    value: ir.Value
    batch: Batch


class Batching:
    """The roles of the values of `block`, when `batches` come in parts. Holds live values: use it at once.

    Raises Declined when the examples can't be told apart.
    """

    def __init__(
        self,
        block: ir.Block,
        batches: Mapping[ir.Value, Batch],
        examples: Examples,
        state: frozenset[ir.Value],
        *,
        random: bool,
    ) -> None:
        *ops, self.end = (op.operation for op in block.operations)
        self.ops: list[ir.Operation] = ops
        self.batches = dict(batches)
        self.size = examples.size
        self.facts: dict[ir.Value, Fact] = {}
        # By the first result of an op, or for the end of a loop's body, by the first argument of that body.
        self.needs: dict[ir.Value, Needs] = {}
        # How each view is made: by the op of the value, of which these operands are views; None: by cutting the value.
        self.views: dict[View, Needs | None] = {}
        self._block = block
        self._examples = examples
        self._state = state
        self._random = random
        self._whole: set[ir.Value] = set()  # sums that are taken of the whole batch, before the loop
        self.kept: set[ir.Value] = set()  # values of examples that they are taken of
        self._carried: dict[ir.Value, Fact] = {}  # of the arguments of bodies of loops in the step
        self._cut: dict[ir.Value, Batch] = {}  # those of loops that read no examples, but are to be done in parts
        self._cuts_loops = True
        self._depth = 0  # loops around the op that is looked at
        while not self._is_settled():
            pass

    def _is_settled(self) -> bool:
        """Looks at all ops; False when a sum has to be taken before the loop, or another loop is to be cut."""
        self.facts, self.needs, self.views = dict(self.batches), {}, {}
        cut = len(self._cut)
        try:
            for op in self.ops:
                self._visit(op)
        except _TakenBefore:
            return False
        except Declined:
            if not self._cut:
                raise
            self._cut, self._cuts_loops = {}, False
            return False
        return len(self._cut) == cut

    def _visit(self, op: ir.Operation) -> None:
        reads = self.reads(op)
        facts = {self.facts[value] for value in reads if value in self.facts}
        if op.name == WHILE:
            facts |= {self._cut[argument] for argument in Loop(op).body.arguments if argument in self._cut}
        if any(result in self._whole for result in op.results) or not (facts or self._depth):
            return
        if not any(isinstance(fact, Batch) for fact in facts):
            self._visit_without_batch(op, facts)
        elif facts & {Role.AFTER, Role.EXTREME} or (Role.SUM in facts and not carries_operands(op)):
            self._mixed(op, reads)
        elif op.name == WHILE:
            self._visit_loop(Loop(op))
        elif op.name == BARRIER:
            for result, value in zip(op.results, op.operands, strict=True):
                self.facts[result] = self.facts.get(value, Role.SAME)
        else:
            self._apply(op)

    def _visit_without_batch(self, op: ir.Operation, facts: set[Fact]) -> None:
        if facts & {Role.AFTER, Role.EXTREME}:
            self._set(op, Role.AFTER)
        elif Role.SUM in facts:
            self._set(op, Role.SUM if self._is_linear(op) else Role.AFTER)
        else:
            require(is_repeatable(op), f"{op.name} may have side effects", op)
            self._set(op, Role.SAME)

    def _set(self, op: ir.Operation, role: Role) -> None:
        if role == Role.AFTER and self._depth:
            self._mixed(op, self.reads(op))
        for result in op.results:
            self.facts[result] = role

    def _apply(self, op: ir.Operation) -> None:
        """An op that reads some part of the batch."""
        carried = {i: fact for i, value in enumerate(op.operands) if isinstance(fact := self.facts.get(value), Batch)}
        if len(op.regions):
            require(not any(value in self.facts for value in captured(op)), f"a region of {op.name} reads examples", op)
        treatment = self._examples.of_operands(op, carried)
        needs = {i: batch for i, batch in treatment.operands.items() if i not in carried}
        for i, batch in needs.items():
            self._demand(op.operands[i], batch)
        self.needs[op.results[0]] = needs
        facts: Sequence[Fact] = treatment.results or [self._combined(op)] * len(op.results)
        for result, fact in zip(op.results, facts, strict=True):
            self.facts[result] = fact

    def _combined(self, op: ir.Operation) -> Role:
        """The role of a result that `op` computes from all examples."""
        if not is_extreme(op):
            return Role.SUM
        require(not self._depth, f"a loop reduces examples with {combiner_of(op)}", op)
        require(
            op.operands[1] not in self.facts, "a reduce starts from a value that is computed for each micro-batch", op
        )
        return Role.EXTREME

    def _is_linear(self, op: ir.Operation) -> bool:
        """Whether `op` may be done on each part's addends of the sums that it reads."""
        sums = frozenset(i for i, value in enumerate(op.operands) if self.facts.get(value) == Role.SUM)
        if not sums or mark_of(op) is not None:
            return False
        over_devices = op.name in PER_DEVICE  # linear, too: sums over devices of sums over parts
        # Outside of loops it rather follows the sum: one reduction of that, then the slice that belongs to the device.
        if (over_devices or looks_up(op)) and not self._depth:
            return False
        if over_devices:
            return combiner_of(op) == ADD and len(sums) == len(op.operands)
        try:  # the operands from other values are the same for all parts
            addends = addends_of(op, Crossing(_OVER_PARTS, "widening", None, sums, lambda *_: None))
        except Declined:
            return False
        others = [op.operands[i] for i in addends if i not in sums and not is_zero(op.operands[i])]
        for value in others:
            if self._carried.get(value) == Role.SAME:
                raise _Carries(value, Role.SUM)
        return not others and sums <= set(addends)

    def _visit_loop(self, loop: Loop) -> None:
        """A loop in the step: the roles of its carried values are found by trying."""
        for argument, start in zip(loop.body.arguments, loop.op.operands, strict=True):
            self._carried[argument] = self._cut.get(argument) or self.facts.get(start, Role.SAME)
        known = dict(self.facts), dict(self.needs), dict(self.views)
        while True:
            try:
                self._depth += 1
                self._visit_blocks(loop)
                break
            except _Carries as found:
                if found.argument not in list(loop.body.arguments):
                    raise
                self.facts, self.needs, self.views = (dict(each) for each in known)
                self._carried[found.argument] = found.fact
            finally:
                self._depth -= 1
        self._start(loop)

    def _visit_blocks(self, loop: Loop) -> None:
        carried = [self._carried[argument] for argument in loop.body.arguments]
        for block in (loop.condition, loop.body):
            self.facts.update(zip(block.arguments, carried, strict=True))
            *ops, _ = (op.operation for op in block.operations)
            for op in ops:
                self._visit(op)
        needs: Needs = {}
        for i, (argument, value) in enumerate(zip(loop.body.arguments, loop.next_values.operands, strict=True)):
            given = self.facts.get(value, Role.SAME)
            if given == carried[i]:
                continue
            if carried[i] == Role.SAME:
                raise _Carries(argument, given)
            needs[i] = self._given(value, carried[i], loop)
        self.needs[loop.body.arguments[0]] = needs

    def _given(self, value: ir.Value, wanted: Fact, loop: Loop) -> Batch:
        fits = isinstance(wanted, Batch) and self.facts.get(value, Role.SAME) == Role.SAME
        require(fits, "a loop carries the examples in two ways", loop.op)
        assert isinstance(wanted, Batch)
        self._demand(value, wanted)
        return wanted

    def _start(self, loop: Loop) -> None:
        """The init operands of the loop, and its results."""
        needs: Needs = {}
        for i, (argument, start) in enumerate(zip(loop.body.arguments, loop.op.operands, strict=True)):
            wanted = self._carried[argument]
            self.facts[loop.op.results[i]] = wanted
            if self.facts.get(start, Role.SAME) == wanted:
                continue
            if wanted == Role.SUM:
                require(is_zero(start), "a loop sums examples onto a value that is not zero", loop.op)
            else:
                needs[i] = self._given(start, wanted, loop)
        self.needs[loop.op.results[0]] = needs

    def _demand(self, value: ir.Value, batch: Batch, depth: int = 0) -> None:
        """Makes a view of a value that is computed from no part of the batch."""
        view = View(value, batch)
        if view in self.views:
            return
        if value in self._carried:
            raise _Carries(value, batch)
        op = defining_op(value)
        if op is None or depth > _DEEPEST:
            is_argument = op is not None or value.owner == self._block
            require(is_argument, "an argument of a loop's condition is read beside examples")
            self.views[view] = None
            return
        drawn = is_random(op) and not self._random
        require(not drawn, "random numbers of all examples are drawn at once (option random=before allows it)", op)
        if op.name == WHILE and self._cuts_loops and value not in self.facts:
            self._cut[Loop(op).body.arguments[ir.OpResult(value).result_number]] = batch
            self.views[view] = None
            return
        needs = self._repeated(op, value, batch)
        for i, part in (needs or {}).items():
            self._demand(op.operands[i], part, depth + 1)
        self.views[view] = needs

    def _repeated(self, op: ir.Operation, value: ir.Value, batch: Batch) -> Needs | None:
        """The operands that have to carry the batch for the result of `op` to; None: the result is to be cut."""
        if op.name == IOTA:
            counts = ir.IntegerAttr(op.attributes["iota_dimension"]).value == batch.dimension
            is_integer = isinstance(ir.RankedTensorType(value.type).element_type, ir.IntegerType)
            return {} if not counts or (is_integer and batch.inner == 1) else None
        if op.name == CONSTANT:
            return {} if splat_of(op) is not None else None
        if not is_cheap(op):
            return None
        try:
            needs = self._examples.of_result(op, batch).operands
        except Declined:
            return None
        return needs if all(self.facts.get(op.operands[i], Role.SAME) == Role.SAME for i in needs) else None

    def _mixed(self, op: ir.Operation, reads: Sequence[ir.Value]) -> NoReturn:
        """An example reads a sum over all of them: that is in order only if it can be taken before the loop."""
        for value in reads:
            if self.facts.get(value) not in _LATE:
                continue
            inputs = self._inputs(value)
            if inputs is None:
                maker = self._maker(value)
                made = f"{maker.name} at {source_of(maker.location)}"
                reader = "an example reads" if not self._depth else "a loop reads"
                what = "a sum over" if not is_extreme(maker) else "the maximum or minimum of"
                raise Declined(f"{reader} {what} all examples, computed by {made}", op)
            sums = {each for each in inputs if self.facts.get(each) in _LATE}
            self._whole |= sums
            self.kept |= inputs - sums
        raise _TakenBefore

    def _inputs(self, value: ir.Value) -> set[ir.Value] | None:
        """`value` and the values that it is computed from, if all of them cost little and need no state; else None."""
        found: set[ir.Value] = set()
        for each in backward([value], _operands):
            if not self._is_cheap(each):
                return None
            found.add(each)
        return found

    def _is_cheap(self, value: ir.Value) -> bool:
        """Whether it costs little to compute `value` from its op's operands, no state among them."""
        op = defining_op(value)
        if op is None:
            return value not in self._state and bool(value.owner == self._block)
        is_cheap = op.block == self._block and is_deterministic(op) and not is_costly(op)
        return is_cheap and self.facts.get(value) != Role.SAME

    def _maker(self, value: ir.Value) -> ir.Operation:
        """The op that took the sum over examples that `value` is computed from."""
        while (op := defining_op(value)) is not None:
            sums = [operand for operand in op.operands if self.facts.get(operand) in _LATE]
            if not sums:
                return op
            value = sums[0]
        return ir.BlockArgument(value).owner.owner.operation

    def reads(self, op: ir.Operation) -> list[ir.Value]:
        """The values that `op` and its regions read."""
        return [*op.operands, *(captured(op) if len(op.regions) else ())]

    def readers(self, value: ir.Value) -> Iterator[ir.Operation]:
        """The ops of the block that read `value`, themselves or in their regions, or its end."""
        for use in value.uses:
            op = use.owner.operation
            while op.block != self._block:
                op = parent_of(op)
            yield op

    def is_in_loop(self, op: ir.Operation) -> bool:
        """Whether `op` is done for each part, as far as the parts decide that."""
        return any(isinstance(fact := self.facts.get(r), Batch) or fact == Role.SAME for r in op.results)


def _operands(value: ir.Value) -> Sequence[ir.Value]:
    op = defining_op(value)
    return op.operands if op is not None else ()


class _TakenBefore(Exception):  # noqa: N818  an answer, not an error
    """A sum has to be taken before the loop: the roles found so far may differ."""


class _Carries(Exception):  # noqa: N818  an answer, not an error
    """A loop in the step carries more than was thought."""

    def __init__(self, argument: ir.Value, fact: Fact) -> None:
        super().__init__()
        self.argument = argument
        self.fact = fact
