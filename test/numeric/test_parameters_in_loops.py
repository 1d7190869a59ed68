"""With `policy=once` no loop gathers a sharded parameter without a remark: in programs of the catalog and of libraries."""

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from programs.catalog import LAYERS, MATRIX
from programs.package_models import STEPS
from programs.program import Sizes
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import Collective, census

ONCE = "grad-sync{policy=once}"
TARGET = "gpu:h100:1x1x8"
SMALL = 1024  # bytes: arrays of no more are not looked at
SHARDED = [name for name in MATRIX if name.endswith(("_p6", "_p7"))]
AT_USE = "parameters are gathered at use, which sends "


def elements_of(arguments: Any) -> frozenset[int]:
    """Those of the sharded arrays of the state, which is the first argument, whole and of one layer."""
    leaves = [leaf for leaf in jax.tree.leaves(arguments[0]) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    shapes = [leaf.shape for leaf in leaves if not leaf.sharding.is_fully_replicated]
    return frozenset(math.prod(each) for shape in shapes for each in (shape, shape[1:]))


def in_loops(collectives: Iterable[Collective], elements: frozenset[int]) -> list[str]:
    """All-gathers in loops of arrays that may be parameters."""
    gathers = [each for each in collectives if each.kind == "all-gather" and each.depth]
    arrays = [(each, array) for each in gathers for array in each.arrays if array.bytes > SMALL]
    return [f"{each.op_name}: {array}" for each, array in arrays if array.elements in elements]


def gathered(step: Any, arguments: Any, **options: Any) -> tuple[list[str], str]:
    lowered = paropt.jit(step, passes=ONCE, **options).lower(*arguments)
    compiled = lowered.compile()
    return in_loops(census(compiled.as_text() or ""), elements_of(arguments)), str(paropt.remarks(lowered))


@pytest.mark.parametrize("name", [*LAYERS, *SHARDED])
def test_of_the_catalog_none_is_gathered_in_a_loop(name: str) -> None:
    """Examples of a micro-batch have other sizes than layers do."""
    available(TARGET)
    program = {**LAYERS, **MATRIX}[name](Sizes(examples=24), devices=get(TARGET).devices)
    assert gathered(program.step, program.args)[0] == []


@pytest.mark.parametrize("name", [name for name in STEPS if name.endswith("-fsdp")])
def test_of_libraries_none_is_without_a_remark(name: str) -> None:
    """Of few tokens XLA moves activations, which are fewer bytes than parameters: then it does so with the policy, too."""
    available(TARGET)
    step, arguments, options = STEPS[name](get(TARGET).devices)
    found, said = gathered(step, arguments, **options)
    assert not found or AT_USE in said


def test_a_gather_in_a_loop_is_found() -> None:
    available(TARGET)
    program = LAYERS["blocks_p17"](Sizes(examples=24), devices=get(TARGET).devices)
    compiled = jax.jit(program.step).lower(*program.args).compile()
    assert in_loops(census(compiled.as_text() or ""), elements_of(program.args))
