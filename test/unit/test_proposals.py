"""What the linear program proposes is what the compiler makes of it: what its rules have to say for that."""

import re

import jax
import pytest
from jaxlib.mlir import ir
from programs.unplaced import SIZES, shapes_of

import paropt
from paropt.clusters import targets
from paropt.costs.clusters import cluster_of
from paropt.costs.machines import read_table
from paropt.hlo.traffic import traffic
from paropt.passes.state.role_rules import parse
from paropt.planning.candidates import Candidate, templates
from paropt.planning.proposals import proposals
from paropt.planning.sharded_programs import lowered_without_mesh

TARGET = targets.get("cpu:8")


def proposed(name: str) -> tuple[ir.Module, list[Candidate]]:
    made = shapes_of(name, SIZES)
    module = lowered_without_mesh(made.step, made.args, TARGET).compiler_ir()
    return module, proposals(module, cluster_of(TARGET, read_table()))


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
        (batch,) = re.findall(r"regex = '\^\(batches/0\)\$'\nrole = \"any\"\nshard = \[\"\", \"(\w+)\"", each.rules)
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
    first = proposals(module, cluster_of(TARGET, read_table()))[0]
    table = jax.eval_shape(lambda: made.args[0][0]["table"]).size * 4
    fsdp = next(each for each in templates(8) if each.name == "fsdp")
    found = paropt.plan(made.step, *made.args, target=TARGET, candidates=[first, fsdp])
    assert found.candidate == first and found.ranking[0].audit is not None
    assert traffic(found.ranking[0].audit.collectives).known < table / 2
