"""Random sharded programs: after the mesh is split, every device still holds and computes the same."""

import re
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from modules import parsed
from numeric.oracle import assert_same, optimized, optimized_hlo, results

from paropt.passes.ir.signature import signatures
from paropt.passes.sharding.distributions import distribution_of
from paropt.passes.sharding.mesh_rewrite import Split
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.support.pipeline import PipelineError

REPEATABLE = settings.get_profile("repeatable")
MESHES = ((("d", 8),), (("d", 4), ("m", 2)), (("m", 2), ("d", 4)), (("r", 2), ("d", 2), ("m", 2)))
SPLITS = {
    8: ("r0:2,d:4", "a:4,b:2", "a:2,b:2,c:2", "b:8", "one:1,a:8", "d:4,one:1,a:2"),
    4: ("r0:2,d:2", "a:4", "a:2,b:2", "d:4,one:1"),
    2: ("d:2", "a:2", "one:1,d:2"),
}
ORDERS = ("", ", device_ids=[7, 6, 5, 4, 3, 2, 1, 0]", ", device_ids=[0, 4, 2, 6, 1, 5, 3, 7]")


class Program(NamedTuple):
    text: str
    passes: str


Atom = tuple[str, int]  # an axis, and which factor of two of it; 0 is the most major one


@st.composite
def programs(draw: Callable[[Any], Any]) -> Program:
    mesh = draw(st.sampled_from(MESHES))
    atoms = [(name, i) for name, size in mesh for i in range(size.bit_length() - 1)]

    def sharding() -> str:
        """Each dimension of 8 is cut by some factors of the axes, in any order."""
        chosen = draw(st.permutations(atoms))[: draw(st.integers(0, len(atoms)))]
        cut = draw(st.integers(0, len(chosen)))
        return f"<@mesh, [{_axes(mesh, chosen[:cut])}, {_axes(mesh, chosen[cut:])}]>"

    lines, values = [], ["%x", "%y"]
    for number in range(draw(st.integers(1, 6))):
        x, y = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        name = f"%v{number}"
        line = draw(st.sampled_from(OPS)).format(x=x, y=y, sharding=sharding())
        lines.append(f"    {name} = {line}")
        values.append(name)
    shardings = [f"{{sdy.sharding = #sdy.sharding{sharding()}}}" for _ in range(4)]
    kind = "tensor<8x8xf32>"
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh)
    body = "\n".join(lines)
    text = f"""module attributes {{mhlo.num_partitions = 8 : i32}} {{
  sdy.mesh @mesh = <[{axes}]{draw(st.sampled_from(ORDERS))}>
  func.func public @main(%x: {kind} {shardings[0]}, %y: {kind} {shardings[1]}) -> ({kind} {shardings[2]}, {kind} {shardings[3]}) {{
{body}
    return {values[-1]}, {values[-2]} : {kind}, {kind}
  }}
}}"""
    into = draw(st.sampled_from(SPLITS[dict(mesh)["d"]]))
    return Program(text, f"split-mesh-axis{{axis=d into={into}}}")


OPS = (
    "sdy.sharding_constraint {x} {sharding} : tensor<8x8xf32>",
    "sdy.sharding_constraint {x} {sharding} : tensor<8x8xf32>",
    "stablehlo.add {x}, {y} : tensor<8x8xf32>",
    "stablehlo.subtract {x}, {y} {{sdy.sharding = #sdy.sharding_per_value<[{sharding}]>}} : tensor<8x8xf32>",
    "stablehlo.dot_general {x}, {y}, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>",
    "stablehlo.transpose {x}, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>",
)


def _axes(mesh: tuple[tuple[str, int], ...], atoms: list[Atom]) -> str:
    """The factors as Shardy writes them: neighbours that follow each other in one axis are one part."""
    parts: list[list[Any]] = []
    for name, i in atoms:
        if parts and parts[-1][0] == name and parts[-1][2] == i:
            parts[-1][2] = i + 1
        else:
            parts.append([name, i, i + 1])
    return "{" + ", ".join(_axis(dict(mesh)[name], name, low, high) for name, low, high in parts) + "}"


def _axis(size: int, name: str, low: int, high: int) -> str:
    return f'"{name}"' if 1 << (high - low) == size else f'"{name}":({1 << low}){1 << (high - low)}'


def collectives(hlo: str) -> list[str]:
    return re.findall(r" (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(", hlo)


@settings(REPEATABLE, max_examples=60)
@given(program=programs())
def test_every_device_computes_the_same(program: Program) -> None:
    note(program.text)
    note(program.passes)
    after, remarks = optimized(program.text, program.passes)
    note(after)
    assert [remark.applied for remark in remarks] == [True]
    assert places(after) == places(program.text)
    assert_same(program.text, after)
    assert len(results(after)) == 2
    assert collectives(optimized_hlo(after)) == collectives(optimized_hlo(program.text))
    again, remarks = optimized(after, program.passes)
    assert again == after and [remark.applied for remark in remarks] == [False]


def places(text: str) -> list[Any]:
    """For each argument and result of `@main`, the part that each device holds, from the shardings alone."""
    module = parsed(text)
    meshes = meshes_of(module.operation)
    (signature,) = signatures(module.operation)
    found = []
    for slot in (*signature.arguments, *signature.results):
        sharding = distribution_of(slot.notes[SHARDING], meshes)
        assert sharding is not None
        found.append([parts_of(sharding, device) for device in range(8)])
    return found


def parts_of(sharding: Any, device: int) -> list[int]:
    """Which part of each dimension the device holds, when the dimension is cut into as many as its axes say."""
    names = sharding.mesh.names
    coordinates = dict(zip(names, sharding.mesh.coordinates(device, names), strict=True))
    sizes = dict(sharding.mesh.axes)
    found = []
    for axes in sharding.dimensions:
        part = 0
        for axis in axes:
            size = axis.size(sizes)
            digit = coordinates[axis.name] // (sizes[axis.name] // axis.before // size) % size
            part = part * size + digit
        found.append(part)
    return found


# ---- parts of an axis


@st.composite
def splits(draw: Callable[[Any], Any]) -> tuple[Split, int, int]:
    """A split, and a part of the old axis."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    split = Split("old", tuple((f"new{i}", size) for i, size in enumerate(sizes)))
    before = draw(st.sampled_from([n for n in range(1, split.size + 1) if split.size % n == 0]))
    rest = split.size // before
    return split, before, draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))


@settings(REPEATABLE, max_examples=300)
@given(given=splits())
def test_parts_say_which_coordinate_a_device_has(given: tuple[Split, int, int]) -> None:
    split, before, size = given
    parts = split.parts(before, size)
    assume(parts is not None)
    assert parts is not None
    assert prod(length for _, _, length in parts) == size
    sizes = [length for _, length in split.into]
    for device in range(split.size):
        coordinates = dict(zip([name for name, _ in split.into], np.unravel_index(device, sizes), strict=True))
        value = 0
        for name, ahead, length in parts:
            whole = dict(split.into)[name]
            value = value * length + int(coordinates[name]) // (whole // ahead // length) % length
        assert value == device // (split.size // before // size) % size


@pytest.mark.parametrize(
    "into, before, size, parts",
    [
        ([2, 4], 1, 8, [("a", 1, 2), ("b", 1, 4)]),
        ([2, 4], 2, 4, [("b", 1, 4)]),
        ([2, 4], 4, 2, [("b", 2, 2)]),
        ([4, 2], 2, 4, [("a", 2, 2), ("b", 1, 2)]),
        ([2, 1, 4], 2, 2, [("c", 1, 2)]),
        ([2, 3], 1, 3, None),
        ([2, 3], 3, 2, None),
        ([4, 3], 2, 3, None),
        ([2, 3], 1, 2, [("a", 1, 2)]),
    ],
)
def test_parts(into: list[int], before: int, size: int, parts: list[tuple[str, int, int]] | None) -> None:
    assert Split("old", tuple(zip("abcd", into, strict=False))).parts(before, size) == parts


def test_a_wrong_option_is_no_defect() -> None:
    text = 'module { sdy.mesh @mesh = <["data"=8]> }'
    with pytest.raises(PipelineError, match="did you mean `data`"):
        optimized(text, "split-mesh-axis{axis=dat into=a:8}")
