"""Complex numbers of a global-view program, part by part, as XLA tracks unreduced ones.

Target: TPU.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50.
Reproducer: test/numeric/test_unreduced_propagation.py::test_products_of_complex_numbers_are_not_followed_as_they_are.

Tests: test/passes/annotate-unreduced.mlir, test/numeric/test_unreduced_propagation.py.
"""

from collections.abc import Sequence

from jaxlib.mlir import ir

from paropt.passes.ir.constraints import CONSTRAINT
from paropt.passes.ir.control_flow import predecessors
from paropt.passes.ir.op_table import is_contraction
from paropt.passes.ir.types import real_of
from paropt.passes.sharding.explicit_ops import constrained
from paropt.passes.support.traversal import defining_op

_COMPLEX, _REAL, _IMAGINARY = "stablehlo.complex", "stablehlo.real", "stablehlo.imag"
_MULTIPLY = "stablehlo.multiply"


def is_complex_product(op: ir.Operation) -> bool:
    """Whether XLA:TPU makes real products of `op` before it partitions the program, and reduces each."""
    return (is_contraction(op) or op.name == _MULTIPLY) and real_of(op.results[0]) is not None


def joined(parts: Sequence[ir.Value]) -> ir.Value:
    """The complex numbers that have these parts; or the one part, of a real value. At the insertion point."""
    if len(parts) == 1:
        return parts[0]
    shape, element = _of(parts[0])
    return _create(_COMPLEX, ir.RankedTensorType.get(shape, ir.ComplexType.get(element)), parts)


def parts_of(value: ir.Value) -> list[ir.Value]:
    """The real and the imaginary part, constrained as `value` is; or `value` alone, where it is not complex."""
    element = real_of(value)
    if element is None:
        return [value]
    part = ir.RankedTensorType.get(_of(value)[0], element)
    made = [_create(_REAL, part, [value]), _create(_IMAGINARY, part, [value])]
    sharding = _constraint_on(value)
    return made if sharding is None else [constrained(each, sharding) for each in made]


def take_apart(product: ir.Operation) -> None:
    """Makes four real contractions of the complex one, which is declared unreduced."""
    (use,) = product.results[0].uses
    sharding = use.owner.operation.attributes["sharding"]
    with product.context, ir.InsertionPoint(product), product.location:
        x, y = (parts_of(operand) for operand in product.operands)
        (rr, ri), (ir_, ii) = ([_product(product, a, b, sharding) for b in y] for a in x)
        real = constrained(_create("stablehlo.subtract", rr.type, [rr, ii]), sharding)
        imaginary = constrained(_create("stablehlo.add", ri.type, [ri, ir_]), sharding)
        product.results[0].replace_all_uses_with(joined([real, imaginary]))
    product.erase()


def _product(like: ir.Operation, x: ir.Value, y: ir.Value, sharding: ir.Attribute) -> ir.Value:
    made = like.clone()
    made.operands[0], made.operands[1] = x, y
    shape, element = _of(like.results[0])[0], _of(x)[1]
    made.results[0].set_type(ir.RankedTensorType.get(shape, element, loc=like.location))
    return constrained(made.results[0], sharding)


def _constraint_on(value: ir.Value) -> ir.Attribute | None:
    """The constraint that `value` is, or that a loop starts from, which carries it."""
    op = defining_op(value)
    if op is None:
        entries = predecessors(value, manual=False, back_edges=False)
        op = defining_op(entries[0].value) if entries is not None else None
    return op.attributes["sharding"] if op is not None and op.name == CONSTRAINT else None


def _of(value: ir.Value) -> tuple[list[int], ir.Type]:
    tensor = ir.RankedTensorType(value.type)
    return tensor.shape, tensor.element_type


def _create(name: str, type_: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    return ir.Operation.create(name, results=[type_], operands=operands).results[0]
