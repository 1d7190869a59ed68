"""Traversal of ops. The one file that knows jaxlib's binding of MLIR's rewrite drivers.

jaxlib ships those bindings without upstream's `mlir.rewrite` shim, under a private name. MLIR's walk driver skips
ops of other kinds in C++ (0.01 us each), so a pass that finds nothing costs next to nothing.
"""

from collections.abc import Iterator

from jaxlib.mlir import ir

try:
    from jaxlib.mlir._mlir_libs._mlir import rewrite as _driver
except ImportError:  # the private name moved: fall back to the public walk, 60 times slower
    _driver = None  # type: ignore[assignment]  # mypy takes the import for its type


def ops_of(root: ir.Operation, *names: str) -> list[ir.Operation]:
    """The ops nested in `root` whose name is one of `names`; inner ops before the op that holds them."""
    if _driver is None:
        return [op for op in all_ops_of(root) if op.name in names]
    found: list[ir.Operation] = []

    def seen(op: ir.OpView, _rewriter: object) -> bool:
        found.append(op.operation)
        return True  # MLIR's binding takes a truthy answer to mean "no match"

    patterns = _driver.RewritePatternSet(root.context)
    for name in names:
        patterns.add(name, seen)
    _driver.walk_and_apply_patterns(root, patterns.freeze())
    return found


def all_ops_of(root: ir.Operation) -> list[ir.Operation]:
    """`root` and the ops nested in it; inner ops before the op that holds them."""
    found: list[ir.Operation] = []

    def seen(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(seen)
    return found


def users_of(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops that read a result of `op`, once per use."""
    for result in op.results:
        for use in result.uses:
            yield use.owner.operation


def is_used(op: ir.Operation) -> bool:
    return any(next(result.uses, None) is not None for result in op.results)


def only_user_of(value: ir.Value) -> ir.Operation | None:
    """The op that reads `value`, where one does, once."""
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None


def is_read_once(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op whose result `value` is; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def op_of(result: ir.Value) -> ir.Operation:
    """The op whose result `result` is, which must not be a block argument."""
    op = defining_op(result)
    assert op is not None, "a block argument is no result"
    return op


def captured(op: ir.Operation) -> list[ir.Value]:
    """The values from outside that the regions of `op` read, in order, once each."""
    inside: set[ir.Value] = set()
    found: dict[ir.Value, None] = {}

    def visit(op: ir.Operation) -> None:
        for block in (block for region in op.regions for block in region.blocks):
            inside.update(block.arguments)
            for each in (view.operation for view in block.operations):
                found.update((operand, None) for operand in each.operands if operand not in inside)
                inside.update(each.results)
                if len(each.regions):
                    visit(each)

    visit(op)
    return list(found)


def terminator_of(block: ir.Block) -> ir.Operation:
    """The last op of `block`."""
    op = ir.InsertionPoint.at_block_terminator(block).ref_operation  # `operations[-1]` counts them all, twice
    assert op is not None, "the block is complete"
    return op.operation


def parent_of(op: ir.Operation) -> ir.Operation:
    """The op that holds `op`, which must not be the module."""
    assert op.parent is not None, "a module has no parent"
    return op.parent.operation


def is_within(op: ir.Operation, name: str) -> bool:
    """Whether `op` is in a region of an op called `name`, or in a region there."""
    while op.parent is not None:
        op = op.parent.operation
        if op.name == name:
            return True
    return False


def is_in(op: ir.Operation, block: ir.Block) -> bool:
    """Whether `op` is in `block`, or in a region there."""
    while op.block != block:
        if op.parent is None or op.parent.operation.parent is None:
            return False
        op = op.parent.operation
    return True


def is_defined_in(value: ir.Value, op: ir.Operation) -> bool:
    """Whether `value` is defined in a region of `op`, or in a region there."""
    owner = value.owner
    inner = owner.owner.operation if isinstance(owner, ir.Block) else parent_of(owner.operation)
    while inner != op:
        if inner.parent is None:
            return False
        inner = inner.parent.operation
    return True


def module_of(op: ir.Operation) -> ir.Operation:
    """The outermost op around `op`: its module."""
    while op.parent is not None:
        op = op.parent.operation
    return op


def reads(op: ir.Operation) -> list[ir.Value]:
    """The operands of `op`, then the values from outside that its regions read, once each."""
    return [*op.operands, *(captured(op) if len(op.regions) else ())]


def nested(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops in the regions of `op`, at any depth."""
    for region in op.regions:
        for block in region:
            for each in block.operations:
                yield each.operation
                yield from nested(each.operation)
