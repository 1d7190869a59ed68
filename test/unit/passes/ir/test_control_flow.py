"""Every data-flow edge of control flow, on a small program; that both directions agree, on all lit files."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from jaxlib.mlir import ir
from modules import parsed
from unit.scripts import ROOT

from paropt.passes.ir.control_flow import Use, carried, predecessors, successors, uses_of
from paropt.passes.support.traversal import all_ops_of, ops_of

SPLIT = re.compile(r"^// -----.*$", re.M)

# A loop in a branch in a loop in a manual computation; locations are the names of values, #n that of result n.
TEXT = """
sdy.mesh @mesh = <["data"=2]>
func.func @main(%f: tensor<8xf32>, %w: tensor<i32>) -> tensor<8xf32> {
  %m = sdy.manual_computation(%f, %w) in_shardings=[<@mesh, [{"data"}]>, <@mesh, []>]
      out_shardings=[<@mesh, [{"data"}]>] manual_axes={"data"} (%x: tensor<4xf32>, %n: tensor<i32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32> loc("zero")
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("more")
      stablehlo.return %more : tensor<i1>
    } do {
      %first = stablehlo.constant dense<0> : tensor<i32> loc("first")
      %even = stablehlo.compare EQ, %i, %first, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc("even")
      %h:2 = stablehlo.optimization_barrier %a, %i : tensor<4xf32>, tensor<i32> loc("h")
      %b = "stablehlo.if"(%even) ({
        %s = stablehlo.while(%c = %h#0) : tensor<4xf32>
        cond {
          %never = stablehlo.constant dense<false> : tensor<i1> loc("never")
          stablehlo.return %never : tensor<i1>
        } do {
          %d = stablehlo.negate %c : tensor<4xf32> loc("d")
          stablehlo.return %d : tensor<4xf32>
        } loc("s")
        stablehlo.return %s : tensor<4xf32>
      }, {
        %e = "stablehlo.case"(%h#1) ({
          stablehlo.return %a : tensor<4xf32>
        }, {
          %g = stablehlo.abs %a : tensor<4xf32> loc("g")
          stablehlo.return %g : tensor<4xf32>
        }) : (tensor<i32>) -> tensor<4xf32> loc("e")
        stablehlo.return %e : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32> loc("b")
      %start = stablehlo.constant dense<0.0> : tensor<f32> loc("start")
      %total = stablehlo.reduce(%b init: %start) applies stablehlo.add across dimensions = [0]
        : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc("total")
      %j = stablehlo.add %i, %i : tensor<i32> loc("j")
      stablehlo.return %j, %b : tensor<i32>, tensor<4xf32>
    } loc("r")
    sdy.return %r#1 : tensor<4xf32>
  } : (tensor<8xf32>, tensor<i32>) -> tensor<8xf32> loc("m")
  return %m : tensor<8xf32>
}
"""
# What an operand, named by its value and its reader, becomes. `arg 1 of r.1` is argument 1 of region 1 of the op `r`.
EDGES = {
    "arg 0 of main.0 in m": ["arg 0 of m.0"],
    "arg 1 of main.0 in m": ["arg 1 of m.0"],
    "zero in r": ["arg 0 of r.0", "arg 0 of r.1", "r#0"],
    "arg 0 of m.0 in r": ["arg 1 of r.0", "arg 1 of r.1", "r#1"],
    "more in return of r.0": [],
    "j in return of r.1": ["arg 0 of r.0", "arg 0 of r.1", "r#0"],
    "b#0 in return of r.1": ["arg 1 of r.0", "arg 1 of r.1", "r#1"],
    "arg 1 of r.1 in h": ["h#0"],
    "arg 0 of r.1 in h": ["h#1"],
    "even in b": [],
    "h#0 in s": ["arg 0 of s.0", "arg 0 of s.1", "s#0"],
    "never in return of s.0": [],
    "d in return of s.1": ["arg 0 of s.0", "arg 0 of s.1", "s#0"],
    "s#0 in return of b.0": ["b#0"],
    "e#0 in return of b.1": ["b#0"],
    "h#1 in e": [],
    "arg 1 of r.1 in return of e.0": ["e#0"],
    "g in return of e.1": ["e#0"],
    "r#1 in return of m.0": ["m#0"],
}
CROSSES_MANUAL = {"arg 0 of main.0 in m", "arg 1 of main.0 in m", "r#1 in return of m.0"}
REGION_OPS = {"r", "h", "s", "e", "b", "m"}


@pytest.fixture
def module() -> Iterator[ir.Module]:
    yield parsed(TEXT)


def name_of(value: ir.Value) -> str:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return f"arg {ir.BlockArgument(value).arg_number} of {place(owner)}"
    name = named(owner.operation)
    return f"{name}#{ir.OpResult(value).result_number}" if name in REGION_OPS else name


def place(block: ir.Block) -> str:
    holder = block.owner.operation
    number = next(i for i, region in enumerate(holder.regions) if region.blocks[0] == block)
    return f"{named(holder)}.{number}"


def named(op: ir.Operation) -> str:
    return "main" if op.name == "func.func" else str(op.location).removeprefix('loc("').removesuffix('")')


def reader(op: ir.Operation) -> str:
    return f"return of {place(op.block)}" if op.name.endswith(".return") else named(op)


def edges(module: ir.Module, **options: bool) -> dict[str, list[str]]:
    """By operand, the names of what it becomes; those that are no control flow left out."""
    found: dict[str, list[str]] = {}
    for op in all_ops_of(module.operation):
        for position, operand in enumerate(op.operands):
            after = successors(Use(op, position), **options)
            if after is not None:
                found[f"{name_of(operand)} in {reader(op)}"] = [name_of(value) for value in after]
    return found


def test_each_kind_of_edge(module: ir.Module) -> None:
    assert edges(module) == EDGES


def test_manual_computations_can_be_ops_like_others(module: ir.Module) -> None:
    assert edges(module, manual=False) == {name: after for name, after in EDGES.items() if name not in CROSSES_MANUAL}
    (manual,) = ops_of(module.operation, "sdy.manual_computation")
    for value in (manual.results[0], *manual.regions[0].blocks[0].arguments):
        assert predecessors(value) and predecessors(value, manual=False) is None


def test_conditions_can_be_left_out(module: ir.Module) -> None:
    without = {name: [each for each in after if not each.endswith((" r.0", " s.0"))] for name, after in EDGES.items()}
    assert edges(module, conditions=False) == without != EDGES


def test_predecessors_in_order(module: ir.Module) -> None:
    """Of a loop the init operand comes first, of branches that of the first; other values have none."""
    (loop, _) = sorted(ops_of(module.operation, "stablehlo.while"), key=named)
    (branch,) = ops_of(module.operation, "stablehlo.if")
    for value in carried(loop, 1):
        before = predecessors(value)
        assert before is not None
        assert [f"{name_of(use.value)} in {reader(use.op)}" for use in before] == [
            "arg 0 of m.0 in r",
            "b#0 in return of r.1",
        ]
        assert predecessors(value, back_edges=False) == before[:1]
    before = predecessors(branch.results[0])
    assert before is not None
    assert [name_of(use.value) for use in before] == ["s#0", "e#0"]
    (reduce,) = ops_of(module.operation, "stablehlo.reduce")
    (function,) = ops_of(module.operation, "func.func")
    others = (reduce.results[0], *reduce.regions[0].blocks[0].arguments, *function.regions[0].blocks[0].arguments)
    assert [predecessors(value) for value in others] == [None] * 5


def test_uses_of_are_the_uses(module: ir.Module) -> None:
    (loop, _) = sorted(ops_of(module.operation, "stablehlo.while"), key=named)
    value = loop.regions[1].blocks[0].arguments[1]
    uses = uses_of(value)
    assert len(uses) == 3 and all(use.value == value for use in uses)
    assert [successors(use) for use in uses] == [successors(use) for use in value.uses]


@pytest.mark.parametrize("manual", [True, False])
def test_both_directions_agree(manual: bool) -> None:
    """On all uses of all values of the lit files, which have every kind of edge."""
    kinds = Counter[str]()
    for module in lit_modules():
        for value in values_in(module.operation):
            for use in uses_of(value):
                for after in successors(use, manual=manual) or ():
                    assert use in (predecessors(after, manual=manual) or ()), f"{use.op} at {use.position}"
                    kinds[f"{use.op.name} in {use.op.block.owner.operation.name}"] += 1
            for use in predecessors(value, manual=manual) or ():
                assert value in (successors(use, manual=manual) or ()), f"{use.op} at {use.position}"
    ends = {f"stablehlo.return in stablehlo.{name}" for name in ("while", "if", "case")}
    crossing = {"sdy.manual_computation in func.func", "sdy.return in sdy.manual_computation"}
    assert ends | {"stablehlo.while in func.func", "stablehlo.optimization_barrier in stablehlo.while"} <= kinds.keys()
    assert crossing & kinds.keys() == (crossing if manual else set())


def lit_modules() -> Iterator[ir.Module]:
    for path in sorted((ROOT / "test" / "passes").glob("*.mlir")):
        for chunk in SPLIT.split(path.read_text()):
            if "expected-error" not in chunk:
                yield parsed(chunk)


def values_in(root: ir.Operation) -> Iterator[ir.Value]:
    for op in all_ops_of(root):
        yield from op.results
        for block in (block for region in op.regions for block in region.blocks):
            yield from block.arguments
