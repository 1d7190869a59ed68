"""The shardings of a global-view program's values: Shardy's propagation, on a copy of the module."""

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy
from jaxlib.mlir.passmanager import PassManager

from paropt.passes.ir.constants import CONSTANT
from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.loops import WHILE
from paropt.passes.ir.op_table import is_contraction
from paropt.passes.sharding.axes import Axes
from paropt.passes.sharding.chlo import RULE, add_chlo_rules
from paropt.passes.sharding.depth_first import Sorted, sort_depth_first
from paropt.passes.sharding.op_rules import Factors, parse_rule
from paropt.passes.sharding.shardings import (
    MANUAL,
    SHARDING,
    Sharding,
    closed_sharding,
    rank_of,
    read_sharding,
    refines,
    sharding_of,
    unsplit,
)
from paropt.passes.sharding.shardy_input import (
    Program,
    Read,
    SameValues,
    bypass,
    lift_unchanged,
    open_read_by_loops,
    reshape,
    unsqueezing,
)
from paropt.passes.support.memoize import Remembered
from paropt.passes.support.pipeline import elements_of
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import all_ops_of, defining_op, op_of, ops_of

_RULES = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
_PROPAGATION = "builtin.module(sdy-propagation-pipeline)"
# The passes of that pipeline that change no value asked about: they take a third of its time.
_NOT_ASKED_FOR = ("canonicalize", "func.func(sdy-drop-sharding-rules)", "sdy-save-module")
_DEAD = "builtin.module(trivial-dce)"
_DCE = "symbol-dce"  # erases functions that are not called any more
_BROADCAST, _RESHAPE = "stablehlo.broadcast_in_dim", "stablehlo.reshape"
_WAS = {"sdy.reshard": CONSTRAINT, _RESHAPE: _BROADCAST}  # the op that one may have been in the module
_RESHARD = "sdy.reshard"
_INSERTS_RESHARDS = "sdy-insert-explicit-reshards"
_BARRIER = "sdy.propagation_barrier"
_TRANSPOSE = "stablehlo.transpose"


def propagated_or_none(module: ir.Operation) -> "Propagated | None":
    """The shardings of `module`; None where Shardy would abort, which whoever compiles the module finds out."""
    try:
        return Propagated(module)
    except Declined:
        return None


class Propagated:
    """The shardings that Shardy finds in a copy of `module`, by the ops of `module` itself.

    How the results `forward_only` are used is not to tell how they are split. With `rules_only`, nothing is
    propagated: only sharding rules can be asked for.
    """

    def __init__(
        self,
        module: ir.Operation,
        forward_only: Sequence[ir.Value] = (),
        *,
        rules_only: bool = False,
    ) -> None:
        self._program = Program(all_ops_of(module))
        self._copy = module.operation.clone()
        copies = self._marked(rules_only=rules_only)
        self._same: dict[ir.Value, ir.Value] = {}  # the value that XLA reads in place of another
        if not rules_only:
            same = SameValues(self._program)
            self._same = same.values
            self._bypass(same.reads, copies)
        for result in forward_only:
            if (copy := copies.get(self._program.numbers[op_of(result).results[0]])) is not None:
                _stop_backward(copy.results[ir.OpResult(result).result_number])
        for number in unsqueezing(self._program):
            if number in copies:
                reshape(copies[number])
        loops = [number for number in self._program.named(WHILE) if number in copies]
        self._unchanged = {self._program.ops[loop].results[0]: lift_unchanged(copies[loop]) for loop in loops}
        opened = open_read_by_loops(self._copy)
        for number, constraint in enumerate(opened, len(self._program.ops)):
            constraint.location = self._mark(number)
        self._opened = {constraint.location.attr for constraint in opened}
        _ensure_main(self._copy)
        add_chlo_rules(self._copy)
        if rules_only:
            run_natively(self._copy, _RULES)
        else:
            self._propagate()
        self._named: dict[str, dict[ir.Attribute, ir.Operation]] = {}  # of the copy: ops that are asked about, by mark
        # Memoized answers, by the first result of the op, or by the result.
        self._copies: dict[ir.Value, ir.Operation | None] = {}
        self._operands: dict[ir.Value, list[Sharding | None]] = {}
        self._results: dict[ir.Value, Sharding | None] = {}

    def _marked(self, *, rules_only: bool) -> dict[int, ir.Operation]:
        """Sorts the copy, and marks its ops but for constants. Returns them by their numbers, if something reads them.

        XLA erases dead ops first.
        """
        order = Sorted(all_ops_of(self._copy), []) if rules_only else sort_depth_first(self._copy)
        copies: dict[int, ir.Operation] = {}
        self._marks: dict[int, ir.Attribute] = {}
        for number in self._program.numbers.values():
            if self._program.names[number] != CONSTANT:
                copy, mark = order.ops[number], self._mark(number)
                copies[number], self._marks[number] = copy, mark.attr
                copy.location = mark
        if all(op.name == CONSTANT for op in order.unread):
            return copies
        run_natively(self._copy, _DEAD)
        left = {op.location.attr: op for op in all_ops_of(self._copy) if len(op.results)}  # not a module without a name
        return {number: left[mark] for number, mark in self._marks.items() if mark in left}

    def _bypass(self, same: dict[int, Read], copies: dict[int, ir.Operation]) -> None:
        """Has the users of ops that leave a value as it is read that value, in the order of the copy."""
        numbers = {self._marks[number]: number for number in same}
        for op in ops_of(self._copy, *{self._program.names[number]: None for number in same}) if same else ():
            if (number := numbers.get(op.location.attr)) is not None:
                reader, position = same[number]
                bypass(op.results[0], copies[reader].operands[position])

    def _propagate(self) -> None:
        says_so = any(map(_is_unreduced, ops_of(self._copy, CONSTRAINT)))
        before, after = propagation_pipelines(self._copy)
        run_natively(self._copy, before)
        for reshard in ops_of(self._copy, _RESHARD) if says_so else ():
            if _is_unreduced(reshard):
                self._require_split_alike(defining_op(reshard.operands[0]))
        run_natively(self._copy, after)

    def _require_split_alike(self, copy: ir.Operation | None) -> None:
        """Declines where the reduced dimensions of the copy's operands are sharded differently: Shardy would abort the
        process."""
        if copy is None or RULE not in copy.attributes:
            return
        rule = parse_rule(str(copy.attributes[RULE]))
        split: dict[Factors, Axes] = {}  # by reduced factors
        for factors, axes in rule.split([self._of(operand) for operand in copy.operands]):
            if factors and rule.reduced.issuperset(factors) and split.setdefault(factors, axes) != axes:
                raise Declined(
                    "it is declared unreduced, but its operands are sharded in different ways", self._original(copy)
                )

    def _original(self, copy: ir.Operation) -> ir.Operation:
        return self._program.ops[next(number for number, mark in self._marks.items() if mark == copy.location.attr)]

    def _marked_by(self, mark: ir.Attribute, name: str) -> ir.Operation | None:
        """The op that was called `name` before Shardy; ops that Shardy puts behind it are marked like it."""
        if name not in self._named:
            found = self._named[name] = {}
            for op in ops_of(self._copy, name, *(now for now, was in _WAS.items() if was == name)):
                found.setdefault(op.location.attr, op)
        return self._named[name].get(mark)

    def _mark(self, number: int) -> ir.Location:
        """The location of an op of the copy, by which it is found again: Shardy keeps it, but where it makes copies of
        constants and scalars anew. To set attributes, unlike for each op, takes longer.
        """
        return ir.Location.file("", number, 0, self._copy.context)

    def sharding_of(self, result: ir.Value) -> Sharding | None:
        """The sharding of the op result `result`; None when it is replicated, or the copy lacks it."""
        if result not in self._results:
            made = self._stands_for(result)
            copy = self._copy_of(defining_op(made))
            number = ir.OpResult(made).result_number
            self._results[result] = self._of(copy.results[number]) if copy is not None else None
        return self._results[result]

    def _stands_for(self, result: ir.Value) -> ir.Value:
        """The op result that XLA reads in place of `result`, which may be that itself."""
        value = self._same.get(result, result)
        return result if defining_op(value) is None else value

    def knows(self, op: ir.Operation) -> bool:
        """Whether the copy has `op` still: Shardy makes ops on constants only anew."""
        return self._copy_of(op) is not None

    def listed(self, op: ir.Operation) -> ir.ArrayAttr | None:
        """How all results of `op` are split, in order, as Shardy writes it; None when none is."""
        if op.name == CONSTRAINT:
            return self._constrained(op)
        if len(op.results) == 1 and (value := self._stands_for(op.results[0])) != op.results[0]:
            return self._listed_of(op_of(value), ir.OpResult(value).result_number)
        copy = self._copy_of(op)
        name = "out_shardings" if op.name == MANUAL else SHARDING
        if copy is None or name not in copy.attributes:
            return None
        return ir.ArrayAttr.get(sdy.TensorShardingPerValueAttr(copy.attributes[name]).shardings, op.context)

    def _listed_of(self, op: ir.Operation, number: int) -> ir.ArrayAttr | None:
        """The same of one result alone."""
        listed = self.listed(op)
        if listed is None and op.name == CONSTRAINT:
            return ir.ArrayAttr.get([op.attributes["sharding"]], op.context)
        return listed and ir.ArrayAttr.get([listed[number]], op.context)

    def _constrained(self, constraint: ir.Operation) -> ir.ArrayAttr | None:
        """How the result of `constraint` is split; None when it is as it says: it may leave dimensions open."""
        copy, written = self._copy_of(constraint), constraint.attributes["sharding"]
        if copy is None or read_sharding(copy.attributes["sharding"]) == read_sharding(written):
            return None
        return ir.ArrayAttr.get([copy.attributes["sharding"]], constraint.context)

    def wanted(self, op: ir.Operation) -> ir.ArrayAttr | None:
        """How all that reads the results of `op` would have them split, where that was not to tell how they are."""
        copy = self._copy_of(op)
        if copy is None:
            return None
        behind = list(copy.results)
        for i, result in enumerate(copy.results):
            for reader in (use.owner.operation for use in result.uses):
                if reader.name == _BARRIER and reader.location == copy.location:
                    behind[i] = reader.results[0]
        wanted = [self._wanted(value) for value in behind]
        if wanted.count(None) == len(wanted):
            return None
        alone = [self._of(result) for result in copy.results]
        if not any(w is not None and refines(w, own) for w, own in zip(wanted, alone, strict=True)):
            return None
        mesh = next(sharding.mesh for sharding in wanted if sharding is not None)
        with copy.context:
            shardings = [
                w if w is not None and refines(w, own) else own or unsplit(value, mesh)
                for value, w, own in zip(behind, wanted, alone, strict=True)
            ]
            listed = [closed_sharding(sharding.mesh, sharding.dimensions) for sharding in shardings]
            return ir.ArrayAttr.get(listed)

    def operand_shardings(self, op: ir.Operation) -> list[Sharding | None]:
        """How the operands of `op` are split; none where the copy lacks it."""
        copy = self._copy_of(op)
        if copy is None:
            return []
        first = op.results[0]
        if first not in self._operands:
            self._operands[first] = [self._of(operand) for operand in copy.operands]
        return list(self._operands[first])

    def is_read_as_made(self, op: ir.Operation, position: int) -> bool:
        """Whether `op` reads that operand as it was made, rather than a reshard or a copy that Shardy made of it."""
        copy = self._copy_of(op)
        if copy is None:
            return False
        operand, read = self._outside(op.operands[position]), copy.operands[position]
        owner, reader = defining_op(operand), defining_op(read)
        if reader is not None and reader.location.attr in self._opened:
            first = self._marked_by(reader.location.attr, CONSTRAINT) == reader  # and no reshard of its result
            return bool(operand != op.operands[position] and first)
        if owner is None:
            return self._is_copy_of_argument(read, ir.BlockArgument(operand))
        made = self._copy_of(owner)
        return made is not None and bool(read == made.results[ir.OpResult(operand).result_number])

    def _outside(self, value: ir.Value) -> ir.Value:
        """The value that `value` equals outside of loops that pass it through, and before identities."""
        while (read := self._same.get(value) or self._carried_in(value)) is not None:
            value = read
        return value

    def _carried_in(self, value: ir.Value) -> ir.Value | None:
        """The init operand behind `value`, of a loop that passes it through."""
        if not isinstance(value.owner, ir.Block):
            return None
        loop, at = value.owner.owner.operation, ir.BlockArgument(value).arg_number
        unchanged = len(loop.results) and at in self._unchanged.get(loop.results[0], ())
        return loop.operands[at] if unchanged else None

    def _is_copy_of_argument(self, read: ir.Value, argument: ir.BlockArgument) -> bool:
        if not isinstance(read.owner, ir.Block) or ir.BlockArgument(read).arg_number != argument.arg_number:
            return False
        around, copy = argument.owner.owner.operation, read.owner.owner.operation
        return copy.name == around.name and (not len(around.results) or self._copy_of(around) == copy)

    def sharding_rule(self, op: ir.Operation) -> str:
        """How the dimensions of operands and results of `op` belong together; "" when Shardy has no rule for it."""
        copy = self._copy_of(op)
        return _TEXT(copy.attributes[RULE], copy.context) if copy is not None and RULE in copy.attributes else ""

    def _of(self, value: ir.Value) -> Sharding | None:
        sharding = sharding_of(value)
        if sharding is not None and not sharding.dimensions and rank_of(value):
            return None  # one device has all of a callback's result
        return sharding

    def _wanted(self, value: ir.Value) -> Sharding | None:
        """The one sharding of all users of `value`, but for those that make a scalar of it; None when they differ."""
        found: Sharding | None = None
        for use in value.uses:
            user = use.owner.operation
            for result in user.results:
                sharding = self._of(result)
                if not rank_of(result):
                    continue
                alike = _shape(result) == _shape(value) and not _reorders(user)
                if sharding is None or not alike or found not in (None, sharding):
                    return None
                found = sharding
            if not user.results:
                return None
        return found

    def _copy_of(self, op: ir.Operation | None) -> ir.Operation | None:
        assert op is not None, "a result, not an argument"
        if not len(results := op.results):
            return None
        first = results[0]
        if first not in self._copies:
            mark = self._marks.get(self._program.numbers.get(first, -1))
            self._copies[first] = self._marked_by(mark, op.name) if mark is not None else None
        return self._copies[first]


_TEXT = Remembered[ir.Attribute, str](str)


def _reorders(op: ir.Operation) -> bool:
    """Whether the dimensions of the result are not those of the operands, even where the shapes are the same."""
    return is_contraction(op) or op.name == _TRANSPOSE


def propagation_pipelines(module: ir.Operation) -> tuple[str, str]:
    """Shardy's own pipeline, as in this version, without passes that only tidy up: before it reshards, and then."""
    text = str(PassManager.parse(_PROPAGATION, module.context))
    left_out = _NOT_ASKED_FOR if ops_of(module, "func.call") else (*_NOT_ASKED_FOR, _DCE)
    found = elements_of(text.removeprefix("builtin.module(").removesuffix(")"))
    stages = [stage for stage in found if not stage.startswith(left_out)]
    first = next((i for i, stage in enumerate(stages) if _INSERTS_RESHARDS in stage), len(stages))
    before, after = (f"builtin.module({','.join(part)})" for part in (stages[:first], stages[first:]))
    return before, after


def run_natively(module: ir.Operation, pipeline: str) -> None:
    """Runs Shardy's or MLIR's passes on a copy of a module: verification and warnings are of no use."""
    manager = PassManager.parse(pipeline, module.context)
    manager.enable_verifier(False)
    silent: Any = module.context.attach_diagnostic_handler(lambda _: True)  # warnings: ops without a rule
    with silent:
        manager.run(module)


def _is_unreduced(constraint: ir.Operation) -> bool:
    return bool(read_sharding(constraint.attributes["sharding"]).unreduced)


def _shape(value: ir.Value) -> list[int]:
    return ir.RankedTensorType(value.type).shape


def _stop_backward(result: ir.Value) -> None:
    op = op_of(result)
    with op.context, ir.InsertionPoint.after(op), op.location:
        barrier = sdy.PropagationBarrierOp(result, int(sdy.PropagationDirection.FORWARD))
    result.replace_all_uses_except(barrier.result, barrier.operation)


def _ensure_main(module: ir.Operation) -> None:
    """Shardy aborts the process when there is no function of this name."""
    block = module.regions[0].blocks[0]
    names = [op.operation.attributes.get("sym_name") for op in block.operations if op.operation.name == "func.func"]
    if any(ir.StringAttr(name).value == "main" for name in names if name is not None):
        return
    empty = ir.Module.parse("func.func @main() { return }", module.context)
    for op in empty.body.operations:
        block.append(op.operation.clone())
