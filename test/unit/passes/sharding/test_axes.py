"""Axes of meshes and parts of them, as they are read, written and put together."""

import pytest
from jaxlib.mlir import ir

from paropt.passes.sharding.axes import Axis, axes_in, joined_parts, spelled, units, whole_axes
from paropt.passes.support.context import make_context

SIZES = {"data": 12, "model": 2}
MAJOR, MINOR = Axis("data", 1, 2), Axis("data", 2, 6)
DATA, MODEL = whole_axes(SIZES)


def test_axes_are_written_as_they_are_read() -> None:
    with make_context():
        written = '{"model", "data":(1)2, "data":(2)6}'
        axes = axes_in(ir.Attribute.parse(f"#sdy<axis_ref_list{written}>"))
    assert axes == (MODEL, MAJOR, MINOR)
    assert spelled(axes) == written
    assert [axis.label for axis in axes] == ["model", "data:(1)2", "data:(2)6"]


@pytest.mark.parametrize(
    ("axes", "found"),
    [
        ((MODEL, MINOR, MAJOR), (DATA, MODEL)),
        ((MODEL, DATA), (DATA, MODEL)),
        ((MINOR,), (MINOR,)),
        ((Axis("data", 6, 2), MAJOR), (MAJOR, Axis("data", 6, 2))),  # they do not meet
    ],
)
def test_parts_are_joined_where_they_meet(axes: tuple[Axis, ...], found: tuple[Axis, ...]) -> None:
    assert joined_parts(axes, SIZES) == found


def test_units_are_of_prime_size() -> None:
    assert units((MINOR, MODEL), SIZES) == (Axis("data", 2, 2), Axis("data", 4, 3), Axis("model", 1, 2))
