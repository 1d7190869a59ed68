"""Templates for mixtures of experts: which parameters are experts, over which meshes, and what they compute."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.program import Sizes
from programs.unplaced import shapes_of, unplaced

import paropt
from paropt.clusters import targets
from paropt.passes.state.role_rules import parse
from paropt.plan import Plan
from paropt.planning.candidates import templates
from paropt.planning.experts import expert_templates
from paropt.planning.proposals import choices_of
from paropt.planning.ranking import sent
from paropt.planning.sharded_programs import lowered_without_mesh
from paropt.planning.strategies import Choices

TARGET = targets.get("cpu:8")
SMALL = Sizes(width=32, layers=1, micro_batches=2, examples=16, vocabulary=64, sequence=8, heads=8)


def choices(step: Any, *args: Any) -> Choices:
    return choices_of(lowered_without_mesh(step, args, TARGET).compiler_ir())


def experts(found: Choices) -> dict[str, list[int]]:
    """The arguments that have a dimension of experts, and which these are."""
    dimensions = {a.path: [i for i, each in enumerate(a.classes) if each in found.experts] for a in found.arguments}
    return {path: numbers for path, numbers in dimensions.items() if numbers}


def trained(forward: Any, weights: dict[str, jax.ShapeDtypeStruct], x: jax.ShapeDtypeStruct) -> Choices:
    def step(state: Any, x: jax.Array) -> Any:
        gradients = jax.grad(lambda state: forward(state, x).sum())(state)
        return jax.tree.map(lambda p, g: p - g, state, gradients)

    return choices(step, weights, x)


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def test_experts_of_a_transformer_and_the_moments_of_them() -> None:
    made = shapes_of("moe_transformer", SMALL)
    found = experts(choices(made.step, *made.args))
    assert {path.rpartition("[")[2] for path in found} == {"'up']", "'down']"}
    assert len(found) == 6 and all(numbers == [0] for numbers in found.values())


def test_experts_are_found_by_what_is_done_with_them() -> None:
    """Cast, transposed, and chosen by another name; a bias of experts is added, and the gate has no batching dimension."""

    def forward(state: Any, x: jax.Array) -> jax.Array:
        gate = jax.nn.softmax(x @ state["b"])
        sent = jnp.einsum("ge,gd->egd", gate, x)
        weights = state["a"].astype(jnp.bfloat16).astype(jnp.float32)
        return jnp.einsum("egd,fed->egf", sent, weights) + state["c"][:, None]

    found = trained(forward, {"a": floats(16, 8, 32), "b": floats(32, 8), "c": floats(8, 16)}, floats(64, 32))
    assert experts(found) == {"state['a']": [1]}


def test_scanned_layers_are_no_experts_and_hide_none() -> None:
    def forward(state: Any, x: jax.Array) -> jax.Array:
        def layer(x: jax.Array, w: jax.Array) -> Any:
            return jnp.tanh(jnp.einsum("egd,edf->egf", x, w)), None

        return jax.lax.scan(layer, jnp.stack([x] * 8), state)[0]

    found = trained(lambda s, x: forward(s["w"], x), {"w": floats(4, 8, 32, 32)}, floats(64, 32))
    assert experts(found) == {"state['w']": [1]}


@pytest.mark.parametrize("name", ["mlp", "transformer", "flax_gpt", "wide_embedding"])
def test_steps_without_experts_have_none(name: str) -> None:
    """Attention has batching dimensions: of heads, with biases of heads in flax."""
    made = shapes_of(name, SMALL)
    found = choices(made.step, *made.args)
    assert found.experts == () and expert_templates(found, 8) == []


def test_a_product_of_a_gradient_with_itself_makes_no_experts() -> None:
    """Optimizers that orthogonalize the gradients of stacked layers do so."""

    def step(state: Any, x: jax.Array) -> Any:
        gradient = jax.grad(lambda w: jnp.tanh(jnp.einsum("gd,ldf->lgf", x, w)).sum())(state)
        return state - jnp.einsum("lab,lcb,lcd->lad", gradient, gradient, gradient)

    assert experts(choices(step, floats(4, 32, 32), floats(64, 32))) == {}


def test_templates_shard_experts_over_what_divides_them() -> None:
    made = shapes_of("moe_transformer", SMALL)  # of 8 experts
    found = expert_templates(choices(made.step, *made.args), 16)
    assert {(each.name, str(each.mesh)) for each in found} == {
        (name, f"data={16 // size} x expert={size}") for name in ("ep", "fsdp x ep") for size in (2, 4, 8)
    }
    assert all(parse(each.rules, each.name).rules for each in found)
    names = [each.name for each in found if each.policy == "keep-shards"]
    assert [each.name for each in found[: len(names)]] == names, "the default policy of all comes first"


@pytest.mark.parametrize(("name", "data"), [("ep", 1), ("ep", 4), ("fsdp x ep", 1), ("fsdp x ep", 2)])
def test_a_step_with_sharded_experts_computes_the_same(name: str, data: int) -> None:
    made = unplaced("moe_transformer", SMALL)
    candidates = expert_templates(choices(made.step, *made.args), 8)
    candidate = next(c for c in candidates if c.name == name and dict(c.mesh.axes)["data"] == data)
    plan = Plan("cpu:8", candidate)
    specs = plan.shardings(made.step, *made.args)[0][0]["layers"][0]
    assert specs["up"].spec[0] == specs["down"].spec[0] == "expert"
    (_, (want, *_)), losses = jax.jit(made.step)(*made.args)
    (_, (got, *_)), own = plan.jit(made.step)(*made.args)
    np.testing.assert_allclose(np.asarray(own), np.asarray(losses), rtol=1e-5)
    for mine, right in zip(jax.tree.leaves(got.mu), jax.tree.leaves(want.mu), strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(right), rtol=1e-3, atol=1e-6)


def test_experts_stay_where_they_are_and_tokens_are_exchanged() -> None:
    """So a step takes less memory than data parallelism, and sends less: no weights of experts, and no sums of them."""
    made = shapes_of("moe_transformer", replace(SMALL, width=64))
    step_choices = choices(made.step, *made.args)
    candidates = [*templates(8)[:1], *expert_templates(step_choices, 8)]
    dp, ep = (next(c for c in candidates if c.name == name and c.mesh.axes[-1][1] == 8) for name in ("dp", "ep"))
    found = paropt.plan(made.step, *made.args, target=TARGET, candidates=[dp, ep])
    judged = {each.candidate.name: each for each in found.ranking}
    held = [a.bytes for a in step_choices.arguments if set(a.classes) & set(step_choices.experts)]
    assert judged["ep"].peak_memory < judged["dp"].peak_memory - sum(held) * 7 / 8 * 0.9
    assert sent(judged["ep"]) < sent(judged["dp"]) / 2
    audit = judged["ep"].audit
    assert audit is not None
    gathered = [array.bytes for c in audit.collectives if c.kind == "all-gather" for array in c.arrays]
    assert max(gathered, default=0) < min(held) and any(c.kind == "all-to-all" for c in audit.collectives)


def with_capacity(state: Any, batches: jax.Array) -> Any:
    """Each token goes to one expert, and each expert takes twice its share of a group's tokens at most."""
    experts, capacity = state["up"].shape[0], 2 * batches.shape[2] // state["up"].shape[0]

    def loss(state: Any, x: jax.Array) -> jax.Array:
        x = jnp.tanh(x @ state["in"])
        gate = jax.nn.softmax(x @ state["gate"])
        chosen = jax.nn.one_hot(jnp.argmax(gate, -1), experts)
        place = ((jnp.cumsum(chosen, axis=1) - 1) * chosen).astype(jnp.int32)
        dispatch = chosen[..., None] * jax.nn.one_hot(place, capacity)
        sent = jnp.einsum("gsec,gsd->egcd", dispatch, x)
        hidden = jnp.tanh(jnp.einsum("egcd,edf->egcf", sent, state["up"]))
        made = jnp.einsum("egcf,efd->egcd", hidden, state["down"])
        combine = dispatch * jnp.sum(gate * chosen, -1)[..., None, None]
        return jnp.mean((x + jnp.einsum("gsec,egcd->gsd", combine, made)) ** 2)

    def body(total: Any, x: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(state, x)
        return jax.tree.map(jnp.add, total, gradients), value

    total, losses = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, state), batches)
    return jax.tree.map(lambda p, g: p - 0.1 * g, state, total), losses


WEIGHTS = {"in": floats(32, 32), "gate": floats(32, 8), "up": floats(8, 32, 64), "down": floats(8, 64, 32)}
TOKENS = floats(2, 16, 32, 32)  # micro-batches, groups, tokens of each, width


@pytest.mark.parametrize("data", [1, 2])
def test_tokens_are_exchanged_four_times_in_each_micro_batch(data: int) -> None:
    """To experts and back, forward and backward; nothing else crosses devices in the loop."""
    candidates = expert_templates(choices(with_capacity, WEIGHTS, TOKENS), 8)
    ep = next(c for c in candidates if c.name == "ep" and dict(c.mesh.axes)["data"] == data)
    (judged,) = paropt.plan(with_capacity, WEIGHTS, TOKENS, target=TARGET, candidates=[ep]).ranking
    assert judged.audit is not None
    sent = 8 * 16 * 8 * 32 * 4 // 8  # experts, groups, their capacity, width, bytes; devices
    in_loop = [c for c in judged.audit.collectives if c.loops]
    assert [(c.kind, c.payload) for c in in_loop] == [("all-to-all", sent)] * 4


def test_a_step_whose_tokens_are_exchanged_computes_the_same() -> None:
    rng = np.random.default_rng(0)
    state, batches = jax.tree.map(lambda s: rng.normal(size=s.shape).astype(np.float32) / 4, (WEIGHTS, TOKENS))
    candidates = expert_templates(choices(with_capacity, WEIGHTS, TOKENS), 8)
    ep = next(c for c in candidates if c.name == "ep" and dict(c.mesh.axes)["data"] == 2)
    want, losses = jax.jit(with_capacity)(state, batches)
    got, own = Plan("cpu:8", ep).jit(with_capacity)(state, batches)
    np.testing.assert_allclose(np.asarray(own), np.asarray(losses), rtol=1e-5)
    for mine, right in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(right), rtol=1e-4, atol=1e-6)
