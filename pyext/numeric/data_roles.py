"""Roles of arguments, as far as made-up data depend on them: by the ops that they reach.

Only data and tolerances are chosen by this, of the program as it was: an argument that is overlooked gets plain data.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from jaxlib.mlir import ir

from paropt.base.element_types import DTYPES
from paropt.numeric.data import epsilon, is_float
from paropt.passes.support.traversal import defining_op, ops_of, terminator_of

_ROOTS = tuple(f"stablehlo.{name}" for name in "sqrt rsqrt log power".split())
# The result is not negative if these operands are not; None: all operands.
_KEEPS = {
    **dict.fromkeys("add multiply divide maximum concatenate reduce optimization_barrier all_reduce".split()),
    **dict.fromkeys("subtract power".split(), (0,)),  # the variance: a mean square less the square of the mean
    **dict.fromkeys("convert reshape transpose broadcast_in_dim slice reverse reduce_window all_gather".split(), (0,)),
    **dict.fromkeys("dynamic_slice gather reduce_precision".split(), (0,)),
    **dict.fromkeys("dynamic_update_slice pad".split(), (0, 1)),
    "select": (1, 2),
    "clamp": (1,),
}


def not_negative(main: ir.Operation, module: ir.Operation) -> set[int]:
    """The numbers of the arguments of `main` of which it takes roots or logarithms.

    So it is with the second moments of an optimizer: `sqrt(decay * v + (1 - decay) * g * g)` is a number only if `v` is
    not negative.
    """
    return _arguments(main, module, [op.operands[0] for op in ops_of(module, *_ROOTS)])


def narrowed(main: ir.Operation, module: ir.Operation) -> dict[int, np.dtype]:
    """For the numbers of the arguments of `main` that it makes floats of fewer bits of: the type with the fewest."""
    found: dict[int, np.dtype] = {}
    by_type: dict[str, list[ir.Value]] = defaultdict(list)
    for op in ops_of(module, "stablehlo.convert"):
        by_type[_element(op.results[0])].append(op.operands[0])
    types = sorted((name for name in by_type if name in ("f32", "f16", "bf16")), key=lambda n: -epsilon(DTYPES[n]))
    for name in types:
        wider = [value for value in by_type[name] if _epsilon(value) < epsilon(DTYPES[name])]
        for number in _arguments(main, module, wider):
            found.setdefault(number, DTYPES[name])
    return found


def _element(value: ir.Value) -> str:
    return str(ir.ShapedType(value.type).element_type)


def _epsilon(value: ir.Value) -> float:
    """The epsilon of floats; of integers, which are exact, a number above that of any float."""
    dtype = DTYPES.get(_element(value))
    return epsilon(dtype) if dtype is not None and is_float(dtype) else 1.0


def _arguments(main: ir.Operation, module: ir.Operation, waiting: list[ir.Value]) -> set[int]:
    """The numbers of the arguments of `main` that a value in `waiting` has its sign from."""
    calls = ops_of(module, "func.call")
    symbols = ir.SymbolTable(module)
    seen: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            waiting += _sources(value, symbols, calls)
    return {number for number, argument in enumerate(main.regions[0].blocks[0].arguments) if argument in seen}


def _sources(value: ir.Value, symbols: ir.SymbolTable, calls: Iterable[ir.Operation]) -> Iterator[ir.Value]:
    """The values that have the sign of `value`."""
    op = defining_op(value)
    if op is None:
        yield from _given(ir.BlockArgument(value), calls)
        return
    number = ir.OpResult(value).result_number
    if op.name == "func.call":
        callee = symbols[ir.FlatSymbolRefAttr(op.attributes["callee"]).value].operation
        yield terminator_of(callee.regions[0].blocks[0]).operands[number]
    elif op.name in ("stablehlo.case", "stablehlo.if", "sdy.manual_computation"):
        for region in op.regions:
            yield terminator_of(region.blocks[0]).operands[number]
    elif op.name == "stablehlo.while":
        yield op.operands[number]
        yield terminator_of(op.regions[1].blocks[0]).operands[number]
    elif not _is_square(op):
        yield from _kept(op)


def _kept(op: ir.Operation) -> Iterator[ir.Value]:
    name = op.name.removeprefix("stablehlo.")
    if op.name == "sdy.sharding_constraint":
        yield op.operands[0]
    elif name in _KEEPS:
        chosen = _KEEPS[name]
        yield from (op.operands if chosen is None else [op.operands[number] for number in chosen])


def _is_square(op: ir.Operation) -> bool:
    return op.name == "stablehlo.multiply" and op.operands[0] == op.operands[1]


def _given(argument: ir.BlockArgument, calls: Iterable[ir.Operation]) -> Iterator[ir.Value]:
    """The operands of the block's op, or of the calls of its function, for `argument`."""
    holder = argument.owner.owner.operation
    if holder.name == "func.func":
        name = ir.StringAttr(holder.attributes["sym_name"]).value
        for call in calls:
            if ir.FlatSymbolRefAttr(call.attributes["callee"]).value == name:
                yield call.operands[argument.arg_number]
    elif holder.name == "sdy.manual_computation":
        yield holder.operands[argument.arg_number]
    elif holder.name == "stablehlo.while":
        yield holder.operands[argument.arg_number]
        yield terminator_of(holder.regions[1].blocks[0]).operands[argument.arg_number]
