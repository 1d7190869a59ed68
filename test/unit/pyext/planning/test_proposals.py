"""What the linear program proposes is what the compiler makes of it: what its rules have to say for that."""

import re

import jax
import numpy as np
import pytest
from jaxlib.mlir import ir
from programs.program import Sizes
from programs.unplaced import BUILDERS, SIZES, shapes_of, unplaced

import paropt
from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.costs.machines import read_table
from paropt.hlo.traffic import traffic
from paropt.passes.state.role_rules import parse
from paropt.plan import Plan
from paropt.planning.candidates import Candidate, templates
from paropt.planning.proposals import choices_of, proposals
from paropt.planning.sharded_programs import lowered_without_mesh

TARGET = targets.get("cpu:8")


def proposed(name: str) -> tuple[ir.Module, list[Candidate]]:
    made = shapes_of(name, SIZES)
    module = lowered_without_mesh(made.step, made.args, TARGET).compiler_ir()
    return module, proposals(choices_of(module), cluster_of(TARGET, read_table()))


@pytest.fixture(scope="module")
def transformer() -> list[Candidate]:
    return proposed("transformer")[1]


def test_few_are_proposed_and_their_rules_can_be_read(transformer: list[Candidate]) -> None:
    assert 1 <= len({each.rules for each in transformer}) <= 4
    for each in transformer:
        assert parse(each.rules, "proposal").rules
        assert ("once" in {c.policy for c in transformer if c.rules == each.rules}) == ("gather = " in each.rules)


def test_examples_are_sharded_over_all_axes_or_the_first(transformer: list[Candidate]) -> None:
    """Where compute is dear: batches that are whole are computed whole by XLA, whatever the model thinks."""
    for each in transformer:
        (batch,) = re.findall(r'path = "batches/\*"\nrole = "any"\nshard = \["", "(\w+)"', each.rules)
        assert batch in ("data", "data_model")


def test_what_is_gathered_is_said_so_that_xla_moves_no_activations(transformer: list[Candidate]) -> None:
    """Parameters that are sharded in memory only; a tied embedding, which one reader could keep sharded, too."""
    made = shapes_of("transformer", SIZES)
    stored = next(each for each in transformer if "gather = " in each.rules and each.policy == "keep-shards")
    fsdp = next(each for each in templates(8) if each.name == "fsdp")
    found = paropt.plan(made.step, *made.args, target=TARGET, candidates=[stored, fsdp])
    sent = {each.candidate.name: traffic(each.audit.collectives).known for each in found.ranking if each.audit}
    assert sent["ilp"] < 1.1 * sent["fsdp"]


def test_a_wide_embedding_is_not_reduced_whole() -> None:
    """Of the table's gradient each device makes the columns that it has: templates send rows or all of it."""
    made = shapes_of("wide_embedding", SIZES)
    module = lowered_without_mesh(made.step, made.args, TARGET).compiler_ir()
    first = proposals(choices_of(module), cluster_of(TARGET, read_table()))[0]
    fsdp = next(each for each in templates(8) if each.name == "fsdp")
    found = paropt.plan(made.step, *made.args, target=TARGET, candidates=[first, fsdp])
    assert found.candidate == first
    own, template = (traffic(each.audit.collectives).known for each in found.ranking if each.audit is not None)
    assert own < template / 2


@pytest.mark.parametrize("name", list(BUILDERS))
def test_a_step_as_proposed_computes_the_same(name: str) -> None:
    """Of the first proposal, on 8 devices: losses, and the moments of AdamW, whose division makes small gradients large."""
    sizes = Sizes(width=32, layers=1, micro_batches=2, examples=16, vocabulary=64, heads=8)
    made = unplaced(name, sizes)
    module = lowered_without_mesh(made.step, made.args, TARGET).compiler_ir()
    candidate = proposals(choices_of(module), cluster_of(TARGET, read_table()))[0]
    (_, (want, *_)), losses = jax.jit(made.step)(*made.args)
    (_, (got, *_)), own = Plan("cpu:8", candidate).jit(made.step)(*made.args)
    np.testing.assert_allclose(np.asarray(own), np.asarray(losses), rtol=1e-5)
    # The gradient of a key's bias is 0 but for rounding: as much of it as of the largest one.
    largest = max(float(np.abs(right).max()) for right in jax.tree.leaves(want.mu))
    for mine, right in zip(jax.tree.leaves(got.mu), jax.tree.leaves(want.mu), strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(right), rtol=1e-3, atol=1e-5 * largest)
