"""Branches with some unreduced results, in a form that XLA's compilers survive.

Shardy aborts the process on a `stablehlo.if` whose results are unreduced over different axes, and XLA:GPU on any of
several results that are; a `case` both follow. But XLA:GPU makes an `if` of each `case` of two that is chosen by a
predicate, as JAX's `lax.cond` is; of three, it can't.

Target: TPU; CPU and GPU with jaxlib 0.10.2, and for parts of axes.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50, and its plugin for GPUs.
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.

Tests: test/passes/annotate-unreduced-regions.mlir, test/numeric/test_gradients_in_branches.py.
"""

from collections.abc import Mapping, Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.barriers import BARRIER
from paropt.passes.ir.branches import CASE, IF
from paropt.passes.ir.induction_variable import constant, create
from paropt.passes.ir.types import is_float, tensor_of
from paropt.passes.rewrite.residual_split import neutral
from paropt.passes.sharding.axes import has_part
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.sharding.shardings import Sharding, closed_sharding, parts_in, rank_of, read_sharding
from paropt.passes.spmd.xla_quirks.complex_numbers import joined
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import module_of


def needs_third(op: ir.Operation, shardings: Mapping[ir.Value, ir.Attribute]) -> bool:
    """Whether `op` is an if or a case of two that has several results, one of them unreduced: `shardings` says so."""
    unreduced = any(read_sharding(shardings[result]).unreduced for result in op.results if result in shardings)
    return len(op.regions) == 2 and len(op.results) > 1 and unreduced


def require_thirds(op: ir.Operation) -> None:
    """Declines unless a third branch can be written for `op`."""
    for result in op.results:
        tensor = tensor_of(result)
        element = tensor.element_type if tensor is not None else None
        plain = isinstance(element, ir.IntegerType | ir.ComplexType) or (element is not None and is_float(element))
        require(plain, f"{op.name} returns both an unreduced value and a {result.type}, which is no plain tensor", op)


def in_thirds(op: ir.Operation, unreduced: Sequence[ir.Attribute | None]) -> None:
    """Replaces `op`, an if or a case of two, by a case of three; `unreduced` are the shardings of such results."""
    types = [result.type for result in op.results]
    notes = dict(op.attributes)
    with ir.InsertionPoint(op), op.location:
        number = _number(op)
        case = ir.Operation.create(CASE, results=types, operands=[number], attributes=notes, regions=3)
    for region, branch in zip(op.regions, case.regions, strict=False):
        region.blocks[0].append_to(branch)
    never = case.regions[2].blocks.append()
    with ir.InsertionPoint(never), op.location:
        zeros = [unreduced_zeros(t, s) if s is not None else neutral(t) for t, s in zip(types, unreduced, strict=True)]
        ir.Operation.create("stablehlo.return", operands=zeros)
    for old, new in zip(op.results, case.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def unreduced_zeros(type_: ir.Type, sharding: ir.Attribute) -> ir.Value:
    """Zeros of their own with this sharding, made at the insertion point."""
    tensor = ir.RankedTensorType(type_)
    if isinstance(tensor.element_type, ir.ComplexType):  # XLA crashes where complex numbers are whole first
        part = unreduced_zeros(ir.RankedTensorType.get(tensor.shape, tensor.element_type.element_type), sharding)
        return constrained(joined([part, part]), sharding)
    lies = read_sharding(sharding)
    if has_part(lies.unreduced):
        return _added_up_zeros(tensor, lies)
    # Whole first: a constant that is constrained to be unreduced at once is merged with others, which are not. For
    # scalars that is not enough: XLA reduced the init operands of others.
    zeros = neutral(type_)
    if not tensor.rank:
        zeros = ir.Operation.create(BARRIER, results=[type_], operands=[zeros]).results[0]
    whole = constrained(zeros, closed_sharding(lies.mesh, ((),) * rank_of(zeros)))
    return constrained(whole, sharding)


def _added_up_zeros(tensor: ir.RankedTensorType, lies: Sharding) -> ir.Value:
    """Zeros that are a product: XLA aborts at a value that is whole, and then unreduced over a part of an axis."""
    split = lies._replace(dimensions=(lies.unreduced,), unreduced=())
    count = parts_in(module_of(ir.InsertionPoint.current.block.owner.operation), split)
    left, right = (neutral(ir.RankedTensorType.get([count, *s], tensor.element_type)) for s in ([], tensor.shape))
    left = constrained(left, closed_sharding(lies.mesh, split.dimensions))
    right = constrained(right, closed_sharding(lies.mesh, (lies.unreduced, *lies.dimensions)))
    numbers = ir.Attribute.parse("#stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>")
    total = create("stablehlo.dot_general", tensor, left, right, dot_dimension_numbers=numbers)
    return constrained(total, closed_sharding(lies.mesh, lies.dimensions, lies.unreduced))


def _number(op: ir.Operation) -> ir.Value:
    """0 where the first branch of `op` is taken, else 1, made at the insertion point."""
    integer = ir.IntegerType.get_signless(32)
    kind = ir.RankedTensorType.get([], integer)
    first, second = (constant(kind, ir.IntegerAttr.get(integer, number)) for number in (0, 1))
    is_first = op.operands[0]
    if op.name != IF:
        bit = ir.RankedTensorType.get([], ir.IntegerType.get_signless(1))
        equal = ir.Attribute.parse("#stablehlo<comparison_direction EQ>")
        is_first = create("stablehlo.compare", bit, is_first, first, comparison_direction=equal)
    return create("stablehlo.select", kind, is_first, first, second)
