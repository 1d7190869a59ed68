"""The op table: its rows are ops, what is not in it gets the safe answer, and columns about elements, executed.

`test_linearity`, `test_uniformity`, `test_correspondence` and `numeric/test_followed` execute the other columns.
"""

from collections import Counter
from typing import get_args

import ml_dtypes
import numpy as np
import pytest
from jaxlib.mlir.dialects import chlo, func, sdy, stablehlo
from modules import parsed
from numeric.oracle import results
from unit.passes.dataflow.test_uniformity import F32, I32, OPS, module, result_type

from paropt.passes.ir import op_table
from paropt.passes.ir.op_table import OP_TABLE, Column, Kind, ops_of_kind, ops_with
from paropt.passes.support.traversal import ops_of

OPERANDS = {"f": F32, "i": I32, "z": "tensor<f32>"}


def test_each_row_is_an_op() -> None:
    dialects = (chlo, func, sdy, stablehlo)
    ops = {getattr(each, "OPERATION_NAME", "") for dialect in dialects for each in vars(dialect).values()}
    assert set(OP_TABLE) <= ops


def test_each_op_has_one_row() -> None:
    assert sum(len(ops_of_kind(kind)) for kind in get_args(Kind)) == len(OP_TABLE)


def test_each_column_and_kind_is_used() -> None:
    assert all(ops_with(column) for column in get_args(Column))
    assert all(ops_of_kind(kind) for kind in get_args(Kind))


def test_an_op_without_a_row_gets_the_safe_answers() -> None:
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %y = chlo.is_pos_inf %x : tensor<f32> -> tensor<i1> return %x : tensor<f32> }"
    unknown = ops_of(parsed(text).operation, "chlo.is_pos_inf")[0]
    assert unknown.name not in OP_TABLE and op_table.kind_of(unknown) is None
    queries = {name: ask for name, ask in vars(op_table).items() if is_query(ask)}
    assert len(queries) >= 30
    assert {name for name, ask in queries.items() if ask(unknown)} == {"is_costly", "may_have_effect"}


def is_query(function: object) -> bool:
    return callable(function) and list(getattr(function, "__annotations__", {})) == ["op", "return"]


def run(body: str, result: str, **others: str) -> list[np.ndarray]:
    """The results of `body` on the first device: `%out`, and `others`."""
    return [devices[0] for devices in results(module(body, result, **others))]


def elements(array: np.ndarray) -> Counter[float]:
    return Counter(map(float, array.flatten()))


def without_dialect(names: tuple[str, ...]) -> list[str]:
    return [name.removeprefix("stablehlo.") for name in names if name.startswith("stablehlo.")]


def differs_elsewhere(name: str) -> bool:
    """Whether more than the first element of the result changes with the first elements of the operands."""
    text = module(OPS[name], result_type(name))
    changed = text
    for operand, kind, one in (("f", F32, "[1.0, 0.0, 0.0, 0.0]"), ("i", I32, "[1, 0, 0, 0]")):
        changed = changed.replace(f"%{operand} = ", f"%{operand}_before = ", 1)
        line = f"%step_{operand} = stablehlo.constant dense<{one}> : {kind}\n"
        line += f"%{operand} = stablehlo.add %{operand}_before, %step_{operand} : {kind}\n"
        changed = changed.replace("%one = ", f"{line}%one = ", 1)
    before, after = (results(each)[0][0].flatten() for each in (text, changed))
    return not np.array_equal(before[1:], after[1:], equal_nan=before.dtype.kind == "f")


ELEMENTWISE = [name.removeprefix("stablehlo.") for name in ops_of_kind("elementwise")]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    assert not differs_elsewhere(name)


def test_others_are_not_elementwise() -> None:
    assert all(differs_elsewhere(name) for name in ("reverse", "broadcast_in_dim"))


@pytest.mark.parametrize("name", without_dialect((*ops_of_kind("move"), "stablehlo.select", *ops_with("identity"))))
def test_elements_are_moved(name: str) -> None:
    made, *operands = run(OPS[name], result_type(name), **OPERANDS)
    assert set(elements(made)) <= {element for operand in operands for element in elements(operand)}


@pytest.mark.parametrize("name", without_dialect(ops_with("keeps")))
def test_all_elements_are_kept(name: str) -> None:
    made, f = run(OPS[name], result_type(name), f=F32)
    assert elements(made) == elements(f)


@pytest.mark.parametrize("name", without_dialect(ops_with("block")))
def test_a_block_has_each_element_once(name: str) -> None:
    made, f = run(OPS[name], result_type(name), f=F32)
    assert elements(made) <= elements(f)


@pytest.mark.parametrize("name", without_dialect(ops_with("identity")))
def test_a_result_is_the_operand(name: str) -> None:
    made, f = run(OPS[name], result_type(name), f=F32)
    np.testing.assert_array_equal(made, f)


# %i in another order, and another one: operands of an op that combines.
THREE = f"""%j = stablehlo.reverse %i, dims = [0] : {I32}
  %shifts = stablehlo.constant dense<[5, 2, 9, 7]> : {I32}
  %k = stablehlo.add %i, %shifts : {I32}
"""


def combined(name: str, *lines: str) -> str:
    """`%a = %i, %j` for the op on these operands, line by line."""
    return THREE + "".join(f"{line.replace(' = ', f' = {name} ')} : {I32}\n" for line in lines)


@pytest.mark.parametrize("name", ops_with("combines"))
def test_combining_is_associative_and_commutative(name: str) -> None:
    body = combined(name, "%ij = %i, %j", "%ji = %j, %i", "%left = %ij, %k", "%jk = %j, %k", "%out = %i, %jk")
    out, left, one, other = run(body, I32, left=I32, ij=I32, ji=I32)
    np.testing.assert_array_equal(out, left)
    np.testing.assert_array_equal(one, other)


def is_idempotent(name: str) -> bool:
    out, once = run(combined(name, "%once = %k, %j", "%out = %once, %j"), I32, once=I32)
    return np.array_equal(out, once)


def test_idempotent_are_exactly_those_that_may_combine_a_value_again() -> None:
    assert {name for name in ops_with("combines") if is_idempotent(name)} == {*ops_with("idempotent")}


def test_extremes_are_exactly_those_that_return_an_operand() -> None:
    def returns_operand(name: str) -> bool:
        out, k, j = run(combined(name, "%out = %k, %j"), I32, k=I32, j=I32)
        return bool(np.all((out == k) | (out == j)))

    assert {name for name in ops_with("combines") if returns_operand(name)} == {*ops_with("extreme")}


@pytest.mark.parametrize("name", without_dialect(ops_with("widenable")))
def test_a_wider_type_holds_the_same(name: str) -> None:
    """Written for bfloat16 and for float32, with the same attributes, the op makes the same of the same numbers."""
    narrow = OPS[name].replace("%f", "%g").replace("%z", "%y").replace("f32", "bf16")
    converts = "%g = stablehlo.convert %f : (tensor<4xf32>) -> tensor<4xbf16>\n"
    converts += "%y = stablehlo.convert %z : (tensor<f32>) -> tensor<bf16>\n"
    wide = run(OPS[name], result_type(name))[0]
    made = run(converts + narrow, result_type(name).replace("f32", "bf16"))[0]
    assert made.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(wide.astype(ml_dtypes.bfloat16), made)
