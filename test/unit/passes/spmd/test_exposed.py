"""What is decided of one part of the exposed reductions, whichever others are reverted before."""

from collections import Counter
from pathlib import Path

import pytest
from jaxlib.mlir import ir
from unit.scripts import ROOT

from paropt.passes.annotate_unreduced import annotate_unreduced
from paropt.passes.spmd.exposed import Exposed, apart
from paropt.passes.spmd.global_form import (
    erase_exposed,
    global_all_reduces,
    global_reduce_scatters,
    sources,
    take_back_unmoved,
)
from paropt.passes.support.context import make_context

LIT = sorted((ROOT / "test" / "passes").glob("annotate-unreduced*.mlir"))
# Of all parts together: whether scalars alone are worth it, and which other shardings Shardy would change.
OF_ALL = ("only scalars have moved", "its result keeps the sharding")


def exposed(module: ir.Module) -> list[Exposed]:
    op = module.operation
    return apart(Exposed(sources(op), global_all_reduces(op), global_reduce_scatters(op)))


def parsed(text: str) -> ir.Module:
    module = ir.Module.parse(text)
    take_back_unmoved(module.operation)
    return module


def decided(module: ir.Module) -> Counter[str]:
    remarks = map(str, annotate_unreduced(module.operation))
    return Counter(remark for remark in remarks if not any(words in remark for words in OF_ALL))


@pytest.mark.parametrize("path", LIT, ids=lambda path: path.stem)
def test_a_part_is_decided_as_without_the_others(path: Path) -> None:
    for text in path.read_text().split("// -----"):
        with make_context(), ir.Location.unknown():
            together = decided(parsed(text))
            for number in range(len(exposed(parsed(text)))):
                module = parsed(text)
                erase_exposed(exposed(module)[number].ops)
                assert decided(module) <= together, number
