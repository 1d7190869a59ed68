"""Whatever a pass or pipeline does to a random program: same results, no more communication, a fixed point."""

import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from math import prod
from typing import Any

import pytest
import store
from hypothesis import given, note, settings
from hypothesis.strategies import SearchStrategy, booleans
from jaxlib.mlir import ir
from modules import parsed
from numeric.oracle import assert_same, optimized, optimized_hlo
from numeric.structure import assert_no_costlier
from property.global_programs import global_programs
from property.layer_stacks import layer_stacks
from property.loop_pairs import loop_pairs
from property.programs import programs

import paropt.passes  # noqa: F401  registers every pass
from paropt.audit import SYNC_KINDS
from paropt.hlo.census import census
from paropt.passes.support.registry import PASSES, PIPELINES
from paropt.passes.support.traversal import all_ops_of, is_used, op_of, ops_of, users_of

# Passes that do nothing in the generator's programs without an option.
OPTIONS = {
    "annotate-aliases": "donate=any",
    "annotate-shardings": "preset=dp",
    "split-mesh-axis": "axis=data into=replica:2,data:4",
    "split-microbatches": "count=2",
}
SPELT = [f"{name}{{{OPTIONS[name]}}}" if name in OPTIONS else name for name in PASSES]
PIPELINES_SPELT = [{"split": "split{count=2}"}.get(name, name) for name in PIPELINES]
EVERY = [*SPELT, *PIPELINES_SPELT, "defer-sync{policy=defer accumulate-dtype=f32}"]
SEEDS = range(3)
NOT_IDEMPOTENT = ("peel-last-sync",)  # each run takes one more trip out of the loop

REPEATABLE = settings.get_profile("repeatable")
# For each pipeline, and of programs for all devices. By night more: see conftest.py.
EXPLICIT, GLOBAL, PARTLY_MANUAL = 60, 150, 60


@functools.cache
def samples(count: int, generator: Callable[[], SearchStrategy[Any]] = programs) -> list[Any]:
    """The first programs that the generator makes."""
    found: list[Any] = []

    @settings(REPEATABLE, max_examples=count)
    @given(generator())
    def collect(text: Any) -> None:
        found.append(text)

    collect()
    return found


@pytest.mark.random_programs(EXPLICIT * len(EVERY))
@pytest.mark.parametrize("passes", EVERY)
def test_program_keeps_its_values_and_costs_no_more(passes: str) -> None:
    if store.BY_NIGHT:

        @settings(max_examples=EXPLICIT)
        @given(programs())
        def check(text: str) -> None:
            keeps_values_and_costs_no_more(passes, text)

        return check()
    for text in samples(EXPLICIT):  # the same for all passes: they are made once
        try:
            keeps_values_and_costs_no_more(passes, text)
        except Exception as error:  # whatever it is, it says of which program
            error.add_note(text)
            raise


def keeps_values_and_costs_no_more(passes: str, text: str) -> None:
    before = str(parsed(text))  # as printed, so that an unchanged module compares equal
    after, _ = optimized(before, passes)
    assert_no_costlier(before, after)
    again, _ = optimized(after, passes)
    assert passes in NOT_IDEMPOTENT or again == after, "running it twice changes the module again"
    assert_same(before, after, SEEDS)


@pytest.mark.random_programs(GLOBAL)
@settings(max_examples=GLOBAL)
@given(text=global_programs(), is_pruned=booleans())
def test_program_for_all_devices_keeps_its_values(text: str, is_pruned: bool) -> None:
    note(text)
    module = parsed(text)
    if is_pruned:
        erase_unread(module)
    before = str(module)
    after, _ = optimized(before, "grad-sync")
    note(f"after:\n{after}")
    again, _ = optimized(after, "grad-sync")
    assert again == after, "running it twice changes the module again"
    if is_pruned:
        was, now = (sent_bytes(optimized_hlo(text)) for text in (before, after))
        assert now <= was, f"{now:.0f} bytes per device and step are sent to reduce, before {was:.0f}"
    assert_same(before, after, SEEDS)


@pytest.mark.random_programs(PARTLY_MANUAL)
@settings(max_examples=PARTLY_MANUAL)
@given(text=global_programs(is_partly_manual=True))
def test_program_with_partly_manual_blocks_keeps_its_values(text: str) -> None:
    note(text)
    before = str(parsed(text))
    for passes in ("separate-reductions", "grad-sync"):
        after, _ = optimized(before, passes)
        note(f"after {passes}:\n{after}")
        again, _ = optimized(after, passes)
        assert again == after, "running it twice changes the module again"
        assert_same(before, after, SEEDS)


def erase_unread(module: ir.Module) -> None:
    """jax writes nothing that nobody reads, and XLA drops it before it looks how values are split."""
    while unread := next((op for op in reversed(all_ops_of(module.operation)) if _is_unread(op)), None):
        unread.erase()


def _is_unread(op: ir.Operation) -> bool:
    return len(op.results) > 0 and not is_used(op)


def sent_bytes(hlo: str) -> float:
    """Per device and step, by reductions: to scatter over some axes first, and then reduce over others, sends less.

    A loop whose trip count is not known counts as two trips.
    """
    reductions = [c for c in census(hlo) if c.kind in SYNC_KINDS]
    return sum(prod(2 if x.trip_count is None else x.trip_count for x in c.loops) * c.wire_bytes for c in reductions)


DIGESTS = """
import hashlib, json, sys
import paropt.passes
from jaxlib.mlir import ir
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline

digests = []
for text, passes in json.load(sys.stdin):
    module = ir.Module.parse(text, make_context())
    remarks = Pipeline.parse(passes).run(module.operation)
    digests.append(hashlib.sha256(f"{module}{remarks}".encode()).hexdigest())
json.dump(digests, sys.stdout)
"""


def test_every_process_makes_the_same_module() -> None:
    work = [(text, passes) for text in samples(20) for passes in EVERY]
    expected = []
    for text, passes in work:
        after, remarks = optimized(text, passes)
        expected.append(hashlib.sha256(f"{after}{remarks}".encode()).hexdigest())
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", DIGESTS]
        ran = subprocess.run(command, input=json.dumps(work), env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout) == expected, f"PYTHONHASHSEED={seed} changes the result"


def _is(value: ir.Value, kind: str) -> bool:
    return isinstance(value, ir.OpResult) and value.owner.operation.name == kind


def _adds_two_all_reduces(module: ir.Operation) -> bool:
    """Over the same groups, with the same reducer and element type."""
    for add in ops_of(module, "stablehlo.add"):
        if all(_is(operand, "stablehlo.all_reduce") for operand in add.operands):
            x, y = (op_of(operand).operation for operand in add.operands)
            same_groups = x.attributes["replica_groups"] == y.attributes["replica_groups"]
            if same_groups and x != y and str(x.regions[0].blocks[0]) == str(y.regions[0].blocks[0]):
                return True
    return False


def _shares_an_all_reduce(module: ir.Operation) -> bool:
    return any(len(list(users_of(op))) > 1 for op in ops_of(module, "stablehlo.all_reduce"))


def _accumulates_an_all_reduce(module: ir.Operation) -> bool:
    for loop in ops_of(module, "stablehlo.while"):
        body = loop.regions[1].blocks[0]
        *_, end = body.operations
        for add in (v.owner.operation for v in end.operands if _is(v, "stablehlo.add")):
            sides = list(add.operands)
            if any(v in list(body.arguments) for v in sides) and any(_is(v, "stablehlo.all_reduce") for v in sides):
                return True
    return False


@pytest.mark.parametrize(
    ("has", "at_least"),
    [
        (_adds_two_all_reduces, 20),
        (_shares_an_all_reduce, 30),
        (_accumulates_an_all_reduce, 10),
    ],
)
def test_generator_makes_the_shapes_that_matter(has: Callable[[ir.Operation], bool], at_least: int) -> None:
    modules = [parsed(text) for text in samples(200)]
    assert sum(has(module.operation) for module in modules) >= at_least


# The generator makes no meshes: test_meshes.py does.
# What it does is told by the pass that ends it, in a pipeline of both, for programs of another generator.
FOR_ALL_DEVICES = {
    "annotate-unreduced": "grad-sync",
    "merge-repeated-ops": "merge-repeated-ops",
    "separate-reductions": "separate-reductions",
}
AFTER = {"decompose-all-reduces": "compose-all-reduces,decompose-all-reduces"}
OWN_GENERATOR = {"accumulate-in-place": layer_stacks, "fuse-loops": loop_pairs}
# Nor whole batches: test_whole_batch.py does; nor sharded parameters: test_sharded_models.py does; nor training steps
# with layers: test_stage_cuts.py does.
ELSEWHERE = (
    "expose-all-reduces",
    "annotate-contract",
    "annotate-shardings",
    "cut-stages",
    "hoist-gathers",
    "outline-stages",
    "pipeline-layer-loop",
    "split-layer-loop",
    "split-mesh-axis",
    "split-microbatches",
)


@pytest.mark.parametrize("passes", [passes for passes in SPELT if not passes.startswith(ELSEWHERE)])
def test_every_pass_finds_something_to_do(passes: str) -> None:
    generator = OWN_GENERATOR.get(passes, global_programs if passes in FOR_ALL_DEVICES else programs)
    pipeline = (FOR_ALL_DEVICES | AFTER).get(passes, passes)
    own = passes.partition("{")[0]

    def is_applied(text: str) -> bool:
        return any(remark.applied for remark in optimized(text, pipeline)[1] if remark.pass_name == own)

    wanted = 10
    assert len(list(islice(filter(is_applied, samples(500, generator)), wanted))) == wanted
