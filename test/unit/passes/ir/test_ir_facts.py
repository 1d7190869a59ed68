"""Analyses read the IR and leave it as it is; element types; sources of locations."""

from pathlib import Path

import pytest
from jaxlib.mlir import ir
from modules import parsed
from unit.scripts import ROOT

from paropt.passes.dataflow.min_cut import Placement
from paropt.passes.dataflow.partial_values import BlockFacts, blocks_with_reductions
from paropt.passes.ir.constants import is_zero
from paropt.passes.ir.types import bytes_of, widens
from paropt.passes.support.context import make_context
from paropt.passes.support.sources import nearest_source, source_of

CORPUS = sorted((ROOT / "test" / "passes").glob("*.mlir"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_analyses_change_nothing(path: Path) -> None:
    for text in path.read_text().split("// -----\n"):
        module = parsed(text)
        before = str(module)
        for block in blocks_with_reductions(module.operation):
            facts = BlockFacts(block, "widening")
            for reduction, ops in facts.reductions.kinds.items():
                partial = facts.partial_values(reduction, [result for op in ops for result in op.results])
                Placement(partial)
        assert str(module) == before


@pytest.mark.parametrize(
    "source, target, holds",
    [
        ("bf16", "f32", True),
        ("f16", "f32", True),
        ("f32", "f64", True),
        ("f32", "f32", True),
        ("f8E4M3FN", "bf16", True),
        ("f32", "bf16", False),
        ("f16", "bf16", False),
        ("bf16", "f16", False),
        ("i8", "i32", False),
        ("i8", "f32", False),
        ("f32", "complex<f32>", False),
    ],
)
def test_widens(source: str, target: str, holds: bool) -> None:
    with make_context():
        assert widens(ir.Type.parse(source), ir.Type.parse(target)) == holds


@pytest.mark.parametrize(
    "type_, size",
    [("4x2xf32", 32), ("f64", 8), ("3xi1", 3), ("5xi4", 3), ("0xf32", 0), ("2xcomplex<f32>", 16), ("7xf8E5M2", 7)],
)
def test_bytes_of(type_: str, size: int) -> None:
    with make_context():
        assert bytes_of(ir.RankedTensorType(ir.Type.parse(f"tensor<{type_}>"))) == size


@pytest.mark.parametrize(
    "location, source",
    [
        ('"f.py":3:5', "f.py:3:5"),
        ('"jit(step)/psum"("inner"("f.py":3:5))', "f.py:3:5 (jit(step)/psum)"),
        ('"psum:"("jit(step)/psum"("f.py":3:5))', "f.py:3:5 (jit(step)/psum)"),
        ('callsite("f.py":3:5 at "g.py":8:1)', "f.py:3:5"),
        ('fused["f.py":3:5, "g.py":8:1]', "f.py:3:5"),
        ('"x"', "<unknown location> (x)"),
        ("unknown", "<unknown location>"),
    ],
)
def test_source_of(location: str, source: str) -> None:
    with make_context():
        module = ir.Module.parse(f"module {{ }} loc({location})")
        assert str(source_of(module.operation.location)) == source


@pytest.mark.parametrize(
    ("inner", "source"),
    [
        ('"jit(step)/while/body/add"("f.py":3:5)', "f.py:3:5 (jit(step))"),
        ("unknown", "<unknown location>"),
    ],
)
def test_a_module_without_a_position_is_at_its_first_op_with_one(inner: str, source: str) -> None:
    text = f"""module {{
      func.func @main(%x: tensor<f32>) -> tensor<f32> {{
        %0 = stablehlo.add %x, %x : tensor<f32> loc(unknown)
        %1 = stablehlo.add %x, %0 : tensor<f32> loc({inner})
        return %1 : tensor<f32> loc(unknown)
      }} loc(unknown)
    }} loc(unknown)"""
    with make_context():
        assert str(nearest_source(ir.Module.parse(text).operation)) == source


BARRIERS = """
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %own = stablehlo.optimization_barrier %z : tensor<f32>
  %both:2 = stablehlo.optimization_barrier %z, %x : tensor<f32>, tensor<f32>
  return %own, %both#0, %both#1 : tensor<f32>, tensor<f32>, tensor<f32>
}
"""


def test_zeros_behind_a_barrier() -> None:
    """Of several operands, the first says nothing of the others."""
    module = parsed(BARRIERS)
    *_, end = module.body.operations[0].regions[0].blocks[0].operations
    assert [is_zero(value) for value in end.operands] == [True, False, False]
