"""Sums of terms that look alike, and copies of what computes them: facts, without any change."""

from pathlib import Path

import pytest
from jaxlib.mlir import ir
from modules import parsed
from unit.scripts import ROOT

from paropt.passes.dataflow.op_comparison import is_same
from paropt.passes.ir.gradient_marks import marked_gradients
from paropt.passes.support.remarks import Declined
from paropt.passes.unrolled.live_outs import Order, exits, following, grow
from paropt.passes.unrolled.packs import Carried, Copies, Each, Inner, Shared
from paropt.passes.unrolled.reduction_chains import Accumulation, accumulations

CORPUS = sorted((ROOT / "test" / "passes").glob("*.mlir"))


def sums(
    body: str, arguments: str = "%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>, %s: tensor<f32>"
) -> list[Accumulation]:
    text = f"func.func @main({arguments}) {{\n{body}\nreturn }}"
    module = parsed(text)
    KEPT.append(module)  # values do not keep their module alive
    return accumulations(module.operation, "stablehlo.add")


KEPT: list[ir.Module] = []
TERMS = "".join(f"%{n} = stablehlo.sine %{m} : tensor<f32>\n" for n, m in zip("abc", "xyz", strict=True))


def added(*pairs: str) -> str:
    return TERMS + "".join(f"%{i} = stablehlo.add {pair} : tensor<f32>\n" for i, pair in enumerate(pairs))


@pytest.mark.parametrize(
    "pairs, terms, has_start, is_tree",
    [
        (("%s, %a", "%0, %b", "%1, %c"), 3, True, False),
        (("%a, %b", "%0, %c"), 3, False, False),
        (("%c, %s", "%b, %0", "%a, %1"), 3, True, False),
        (("%a, %b", "%c, %a", "%0, %1"), 4, False, True),
    ],
)
def test_sums(pairs: tuple[str, ...], terms: int, has_start: bool, is_tree: bool) -> None:
    (found,) = sums(added(*pairs))
    assert (len(found.terms), found.start is not None, found.is_tree) == (terms, has_start, is_tree)


def test_a_sum_that_is_read_in_between_ends_there() -> None:
    (found,) = sums(added("%s, %a", "%0, %b", "%1, %c") + "%r = stablehlo.sine %1 : tensor<f32>")
    assert len(found.terms) == 2


def test_where_values_of_copies_come_from() -> None:
    (found,) = sums(added("%s, %a", "%0, %b", "%1, %c"))
    copies = Copies(3)
    copies.align(tuple(op.results[0] for op in found.ops))
    assert [group.first.name for group in copies.groups] == ["stablehlo.add", "stablehlo.sine"]
    assert {type(source) for source in copies.sources.values()} == {Inner, Carried, Each}


def test_declined_copies_leave_nothing_behind() -> None:
    (found,) = sums(
        TERMS.replace("sine %y", "cosine %y") + added("%s, %a", "%0, %b", "%1, %c").removeprefix(TERMS)
    ) or [None]
    assert found is None, "a term looks otherwise: no sum of alike terms"
    deeper = "".join(f"%{n}{n} = stablehlo.abs %{n} : tensor<f32>\n" for n in "abc")
    body = TERMS.replace("sine %y", "cosine %y") + deeper + added("%s, %aa", "%0, %bb", "%1, %cc").removeprefix(TERMS)
    (found,) = sums(body)
    copies = Copies(3)
    with pytest.raises(Declined, match=r"copy 2 of 3 differs: stablehlo.cosine, which is stablehlo.sine in the first"):
        copies.align(tuple(op.results[0] for op in found.ops))
    assert not (copies.groups or copies.places or copies.sources)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_analyses_change_nothing(path: Path) -> None:
    for text in path.read_text().split("// -----\n"):
        module = parsed(text)
        before = str(module)
        assert len(marked_gradients(module.operation)) == text.count('paropt.mark = "gradient"')
        for found in accumulations(module.operation, "stablehlo.add", "stablehlo.maximum"):
            copies, order = Copies(len(found.terms)), Order(found.ops[0].block)
            try:
                copies.align(found.terms)
            except Declined:
                continue
            if copies.groups:
                grow(copies, order)
                exits(copies, order, ())
                following(copies, order, len(order.ops))
        assert str(module) == before


def test_shared_values_are_shared() -> None:
    terms = "".join(f"%{n} = stablehlo.multiply %{m}, %s : tensor<f32>\n" for n, m in zip("abc", "xyz", strict=True))
    (found,) = sums(terms + added("%s, %a", "%0, %b", "%1, %c").removeprefix(TERMS))
    copies = Copies(3)
    copies.align(found.terms)
    assert [s for s in copies.sources.values() if isinstance(s, Shared)]


def test_ops_of_which_one_has_an_attribute_differ() -> None:
    """jaxlib raises when it compares an array of attributes with None."""
    module = parsed(
        "func.func @main(%x: tensor<f32>) { %a = stablehlo.sine %x {a = [1]} : tensor<f32> %b = stablehlo.sine %x : tensor<f32> return }",
    )
    one, other, _ = (view.operation for view in module.body.operations[0].regions[0].blocks[0].operations)
    assert not is_same(one, other)
    assert not is_same(other, one)
    assert is_same(one, one)
