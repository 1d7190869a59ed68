"""Shardings as they are read and written again."""

import pytest
from jaxlib.mlir import ir

from paropt.passes.analysis.shardings import closed_sharding, mesh_behind, parts_in, read_sharding
from paropt.passes.core.context import make_context

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
