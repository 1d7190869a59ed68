"""Training steps cut into stages: phases, and what crosses the boundaries, before anything is compiled."""

import re
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir
from modules import parsed
from programs.framework_models import framework_program
from programs.layered_steps import TOKENS, WIDTH, Program, program

from paropt.modules.module_io import Optimized, optimize
from paropt.passes.ir.signature import signatures
from paropt.passes.pipelining.op_costs import flops_of
from paropt.passes.pipelining.stage_manifest import StageManifest, read_stages
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.traversal import ops_of

MICRO_BATCHES = 4


def cut(made: Program, stages: int, cuts: str = "names", weights: str = "with", recompute: str = "true") -> Optimized:
    lowered = jax.jit(made.step).lower(made.state, made.batch)
    options = f"stages={stages} cuts={cuts} flops-per-byte=10 recompute={recompute}"
    text = f"inline-calls,canonicalize,cse,cut-stages{{{options}}},outline-stages{{weights={weights}}}"
    return optimize(lowered, text)


def manifest(found: Optimized) -> StageManifest:
    made = read_stages(ir.SymbolTable(found.module.operation)["main"].operation)
    assert made is not None, found.remarks
    return made


def sent(found: Optimized, *kinds: str) -> Counter[tuple[int, int]]:
    """The bytes that functions of these kinds send, per micro-batch, from stage to stage."""
    made, symbols = manifest(found), ir.SymbolTable(found.module.operation)
    bytes_sent: Counter[tuple[int, int]] = Counter()
    for maker in made.programs:
        types = ir.FunctionType(ir.TypeAttr(symbols[maker.symbol].attributes["function_type"]).value).results
        for name, type_ in zip(maker.results, types, strict=True):
            for stage in made.stages_of(name) if maker.kind in kinds else ():
                if stage != maker.stage and not name.startswith("carried"):
                    bytes_sent[maker.stage, stage] += 4 * prod(ir.RankedTensorType(type_).shape)
    return bytes_sent


ACTIVATION = {"mlp": 64 // MICRO_BATCHES * WIDTH * 4, "transformer": 32 // MICRO_BATCHES * TOKENS * WIDTH * 4}


@pytest.mark.parametrize("weights", ["with", "apart"])
@pytest.mark.parametrize("cuts", ["names", "costs"])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("name", list(ACTIVATION))
def test_one_activation_and_one_cotangent_cross_each_boundary(name: str, stages: int, cuts: str, weights: str) -> None:
    found = cut(program(name, microbatches=MICRO_BATCHES, named=cuts == "names"), stages, cuts, weights)
    neighbours = [(stage, stage + 1) for stage in range(stages - 1)]
    assert sent(found, "forward") == dict.fromkeys(neighbours, ACTIVATION[name])
    assert sent(found, "backward", "weights") == dict.fromkeys([(b, a) for a, b in neighbours], ACTIVATION[name])


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("library", ["flax", "equinox"])
def test_keys_of_dropout_are_computed_where_they_are_read(library: str, stages: int) -> None:
    """In each stage, instead of being sent beside the activation; a remark says what is sent."""
    made = framework_program(library, microbatches=MICRO_BATCHES)
    neighbours = [(stage, stage + 1) for stage in range(stages - 1)]
    found = cut(made, stages)
    assert sent(found, "forward") == dict.fromkeys(neighbours, ACTIVATION["transformer"])
    assert sent(found, "backward") == dict.fromkeys([(b, a) for a, b in neighbours], ACTIVATION["transformer"])
    remarks = [each.text for each in found.remarks if "sends" in each.text]
    said = [re.findall(r"sends (\d+) bytes to stage (\d+)", text) for text in remarks]
    assert [{int(to) for _, to in each} for each in said] == [{s - 1, s + 1} & {*range(stages)} for s in range(stages)]
    assert {int(size) for each in said for size, _ in each} == {ACTIVATION["transformer"]}
    assert sent(cut(made, stages, recompute="false"), "forward").total() > sent(found, "forward").total()


def test_updates_send_scalars_only() -> None:
    """Clipping by the global norm; the gradient of the tied embedding is a sum of two stages."""
    assert sent(cut(program("mlp", microbatches=4), 4), "update").total() == 4 * 3 * 2
    made = manifest(cut(program("transformer", microbatches=4), 2))
    (embedding,) = (name for name, path in made.paths.items() if path == "state['embedding']")
    assert made.stages_of(embedding) == [0, 1]
    assert [p.stage for p in made.programs if p.kind == "init"] == [0, 1]


def test_a_state_is_where_its_layer_is() -> None:
    made = manifest(cut(program("mlp", microbatches=4), 2))
    layers = {path: made.stages_of(name) for name, path in made.paths.items() if path.startswith("state")}
    assert layers == {f"state[{i}]['{leaf}']": [i // 2] for i in range(4) for leaf in "bw"}


def test_a_norm_of_gradients_is_no_loss() -> None:
    """A metric that is taken of gradients, in the loop, does not make the backward pass forward."""
    plain = program("mlp", microbatches=4)
    found = cut(Program(_with_norm, plain.state, plain.batch), 2)
    symbols = ir.SymbolTable(found.module.operation)
    forward = [symbols[each.symbol].operation for each in manifest(found).programs if each.kind == "forward"]
    assert [len(ops_of(function, "stablehlo.dot_general")) for function in forward] == [2, 2]


def _with_norm(state: Any, batch: Any) -> Any:
    parts = jax.tree.map(lambda leaf: leaf.reshape(4, -1, *leaf.shape[1:]), batch)

    def loss(state: Any, part: Any) -> jax.Array:
        x = part[0]
        for layer in state:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.mean((x - part[1]) ** 2)

    def trip(carry: Any, part: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(state, part)
        norm = sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(gradient))
        return (jax.tree.map(jnp.add, carry[0], gradient), carry[1] + value, carry[2] + norm), None

    zeros = (jax.tree.map(jnp.zeros_like, state), jnp.float32(0), jnp.float32(0))
    (total, value, norm), _ = jax.lax.scan(trip, zeros, parts)
    return jax.tree.map(lambda old, leaf: old - leaf, state, total), value, norm


def test_a_step_without_a_loss_is_refused() -> None:
    plain = program("mlp", microbatches=4)
    found = cut(Program(lambda state, batch: plain.step(state, batch)[0], plain.state, plain.batch), 2)
    assert any("adds up no loss" in remark.text for remark in found.remarks)


def test_keys_that_depend_on_the_order_are_refused() -> None:
    """By the place where the key of the next micro-batch is made."""

    def step(state: Any, batch: Any) -> Any:
        def trip(carry: Any, part: Any) -> Any:
            key, total, value = carry
            key, own = jax.random.split(key)
            noise = jax.random.bernoulli(own, 0.5, part.shape)
            lost, gradient = jax.value_and_grad(lambda w: jnp.mean(((part * noise) @ w) ** 2))(state)
            return (key, total + gradient, value + lost), None

        start = (jax.random.key(0), jnp.zeros_like(state), jnp.float32(0))
        (_, total, value), _ = jax.lax.scan(trip, start, batch)
        return state - total, value

    found = cut(Program(step, np.ones((4, 4), np.float32), np.ones((4, 2, 4), np.float32)), 2)
    (missed,) = (remark for remark in found.remarks if remark.pass_name == "cut-stages")
    assert "goes from one micro-batch to the next and is no sum" in missed.text
    assert Path(__file__).name in missed.text


def test_too_many_stages_are_one_line() -> None:
    found = cut(program("mlp", microbatches=4), 99)
    assert any("forward ops are too few for 99 stages" in remark.text for remark in found.remarks)


def test_costs_of_ops() -> None:
    module = parsed(_COSTS).operation
    (function,) = (signature.function for signature in signatures(module))
    costs = [flops_of(op) for op in ops_of(function, "stablehlo.dot_general", "stablehlo.reduce", "stablehlo.while")]
    assert costs == [2 * 2 * 3 * 4, 6, 5 * (6 + 1)]


_COSTS = """
func.func @main(%a: tensor<2x4xf32>, %b: tensor<4x3xf32>, %z: tensor<f32>) -> tensor<f32> {
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %l:2 = stablehlo.while(%i = %zero, %d = %c) : tensor<i32>, tensor<2x3xf32>
  cond {
    %t = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %e = stablehlo.negate %d : tensor<2x3xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %e : tensor<i32>, tensor<2x3xf32>
  }
  return %r : tensor<f32>
}
"""


@pytest.mark.parametrize("passes", ["cut-stages{stages=0}", "split-layer-loop{stages=-1}"])
def test_no_stage_is_a_mistake(passes: str) -> None:
    with pytest.raises(
        PipelineError, match=r"\{stages=(0|-1)\}: a (step has one stage|loop becomes one loop) or more$"
    ):
        optimize("func.func @main() { return }", passes)
