"""No pass keeps a list of ops of its own: what kinds of ops there are is in `passes/ir/op_table.py`."""

import ast
import re
from collections.abc import Iterator

import pytest
from unit.scripts import ROOT

from paropt.passes.ir.op_table import OP_TABLE

TABLE = ROOT / "passes" / "ir" / "op_table.py"
OP = re.compile(r"(stablehlo|sdy|func|chlo)\.\w+")
BARE = {name.removeprefix("stablehlo.") for name in OP_TABLE}

# By file, and the name or function: why it may stay.
ALLOWED = {
    "compose_all_reduces.py: _steps": "the ops of the one chain that is matched, step by step",
    "dataflow/duplication_cost.py: joined": "where XLA joins parts: by the shardings of the operands of these two",
    "dataflow/op_comparison.py: _COUNTED": "which attributes of each a loop can count",
    "ir/control_flow.py: RETURNS": "what control flow itself is: the ops whose operands leave their region",
    "ir/control_flow.py: _CONTROL_FLOW": "the ops whose regions it goes through, each in its own way",
    "microbatch/accumulation_loop.py: _SIZES": "which attribute of each is a size",
    "microbatch/examples.py: _WRITTEN": "which operand of each is written",
    "sharding/annotations.py: _WRITTEN": "which attribute of each is a sharding",
    "sharding/annotations.py: _is_accumulated": "what a loop has accumulated, reduced or not yet, as our passes write it",
    "sharding/propagation.py: _WAS": "what Shardy and we make of each",
    "spmd/xla_quirks/as_slices.py: has_slices": "those that are written as slices, each in its own way, where they have one index",
}


def op_lists(text: str, constants: set[str]) -> Iterator[tuple[str, int]]:
    """Where `text` lists ops: the assigned name or function, and the line. `constants` are names of ops' names."""
    tree = ast.parse(text)
    unpackings = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and is_unpacking(node)]
    unpacked = {id(each) for node in unpackings for each in (node.value, *node.targets)}
    for place, node in placed(tree, ""):
        if id(node) not in unpacked and lists_ops(node, constants):
            yield place, node.lineno


def is_unpacking(assign: ast.Assign) -> bool:
    """Whether each element gets a name of its own."""
    return isinstance(assign.targets[0], ast.Tuple)


def placed(node: ast.AST, place: str) -> Iterator[tuple[str, ast.expr]]:
    """The expressions under `node`, with the function or name to which they belong; no docstrings."""
    for child in ast.iter_child_nodes(node):
        inner = place
        match child:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                inner = name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                inner = place or name
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.expr():
                yield place, child
        yield from placed(child, inner)


def lists_ops(node: ast.expr, constants: set[str]) -> bool:
    match node:
        case ast.Set(elts=members) | ast.List(elts=members) | ast.Tuple(elts=members):
            return sum(names_op(member, constants) for member in members) > 1 or are_bare(members)
        case ast.Dict(keys=keys, values=values):  # one of functions says how each op is done, not which ops there are
            listed = sum(key is not None and names_op(key, constants) for key in keys) > 1
            return listed and any(is_data(value) for value in values)
        case ast.Constant(value=str(text)):
            words = text.split()
            return len(words) > 1 and (all(word in BARE for word in words) or all(map(OP.fullmatch, words)))
    return False


def names_op(node: ast.expr, constants: set[str]) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return bool(OP.fullmatch(text))
        case ast.Name(id=name):
            return name in constants
    return False


def are_bare(nodes: list[ast.expr]) -> bool:
    """Whether these are ops' names without their dialect."""
    return len(nodes) > 1 and all(isinstance(node, ast.Constant) and node.value in BARE for node in nodes)


def is_data(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Tuple) or (isinstance(node, ast.Name) and node.id.isupper())


def named_ops(text: str) -> Iterator[str]:
    """The module's own names of ops' names."""
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if names_op(value, set()):
                yield name
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, values, strict=True)
                yield from (ast.unparse(target) for target, value in pairs if names_op(value, set()))


def test_passes_list_no_ops() -> None:
    texts = {path: path.read_text() for path in (ROOT / "passes").rglob("*.py") if path != TABLE}
    constants = {name for text in texts.values() for name in named_ops(text)}
    assert {"WHILE", "BARRIER", "CONSTRAINT", "ALL_REDUCE"} <= constants
    found = [
        f"{path.relative_to(ROOT / 'passes')}: {place}"
        for path, text in texts.items()
        for place, _ in op_lists(text, constants)
    ]
    assert sorted(found) == sorted(ALLOWED), "ask the op table, or add a column: docs/writing-a-pass.md says how"


@pytest.mark.parametrize(
    "text",
    [
        'X = ("stablehlo.add", "stablehlo.subtract")',
        'X = frozenset({"stablehlo.add", "sdy.reshard"})',
        'X = ["func.func", "func.call", other]',
        'X = frozenset(f"stablehlo.{name}" for name in ("add", "subtract"))',
        'X = {f"stablehlo.{name}" for name in "add subtract".split()}',
        'X = "stablehlo.add stablehlo.subtract".split()',
        'X: dict[str, int] = {"stablehlo.add": 1, WHILE: 2}',
        "X = (WHILE, *OTHERS, BARRIER)",
        'def X(op):\n    return op.name in ("stablehlo.add", WHILE)',
        "def X(op):\n    if op.name in {WHILE, BARRIER}:\n        return True",
    ],
)
def test_a_list_of_ops_is_found(text: str) -> None:
    assert [place for place, _ in op_lists(text, {"WHILE", "BARRIER"})] == ["X"]


@pytest.mark.parametrize(
    "text",
    [
        'ADD, SUBTRACT = "stablehlo.add", "stablehlo.subtract"',
        'X = {"stablehlo.add": _sum, "stablehlo.subtract": lambda a, b: a - b}',
        'def x(op):\n    """add subtract"""\n    match op.name:\n        case "stablehlo.add" | "stablehlo.subtract":\n            return 1',
        'X = ("stablehlo.add", "paropt.note")',
        'X = "a sum and a difference"',
        'X = ops_of(module, "stablehlo.add", WHILE)',
    ],
)
def test_other_uses_of_names_are_fine(text: str) -> None:
    assert list(op_lists(text, {"WHILE", "BARRIER"})) == []
