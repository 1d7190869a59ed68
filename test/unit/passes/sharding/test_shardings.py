"""Shardings as they are read and written again."""

import pytest
from jaxlib.mlir import ir

from paropt.passes.sharding.shardings import closed_as_said, closed_sharding, mesh_behind, parts_in, read_sharding
from paropt.passes.support.context import make_context

MODULE = 'module { sdy.mesh @mesh = <["data"=4, "model"=2]> }'


@pytest.mark.parametrize("mesh", ["@mesh", 'mesh<["data"=4, "model"=2]>'], ids=["named", "spelled out"])
def test_a_mesh_may_have_a_name_or_be_spelled_out(mesh: str) -> None:
    with make_context():
        module = ir.Module.parse(MODULE).operation
        written = ir.Attribute.parse(f'#sdy.sharding<{mesh}, [{{"data"}}, {{}}], unreduced={{"model"}}>')
        read = read_sharding(written)
        assert closed_sharding(read.mesh, read.dimensions, read.unreduced) == written
        found = mesh_behind(module, read.mesh)
        assert found is not None and found.axes == (("data", 4), ("model", 2))
        assert parts_in(module, read) == 4


@pytest.mark.parametrize(
    ("asked", "said", "found"),
    [
        ('@mesh, [{"data"}, {?}]', "@mesh, [{}, {}]", '@mesh, [{"data"}, {}]'),
        ('@mesh, [{"data"}, {?}]', '@mesh, [{"data"}, {"model"}]', '@mesh, [{"data"}, {"model"}]'),
        ('@mesh, [{"data"}, {?}], unreduced={"model"}', "@mesh, [{}, {}]", '@mesh, [{"data"}, {}], unreduced={"model"}'),
        ('@mesh, [{"data"}, {?}]', '@mesh, [{}, {"data"}]', '@mesh, [{"data"}, {?}]'),  # used for what is asked
        ('@mesh, [{?}, {"data", ?}]', "@mesh, [{?}, {}]", '@mesh, [{?}, {"data", ?}]'),  # open there, split here
        ('@mesh, [{"data"}, {}]', '@mesh, [{"data"}, {"model"}]', '@mesh, [{"data"}, {}]'),
        ('@mesh, [{"data"}, {?}]', "@other, [{}, {}]", '@mesh, [{"data"}, {?}]'),
        ('@mesh, [{"data"}, {?}]', '@mesh, [{}, {}], unreduced={"model"}', '@mesh, [{"data"}, {?}]'),
    ],
)  # fmt: skip
def test_what_is_said_to_be_closed_is_not_opened(asked: str, said: str, found: str) -> None:
    with make_context():
        before, others, after = (ir.Attribute.parse(f"#sdy.sharding<{text}>") for text in (asked, said, found))
        assert closed_as_said(before, others) == after
