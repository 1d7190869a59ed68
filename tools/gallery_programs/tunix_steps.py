"""Tunix's trainer for supervised fine-tuning and its Llama. Micro-batches are added up by `optax.MultiSteps`, which is
what the trainer's option `gradient_accumulation_steps` puts around the optimizer."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from tunix.models.llama3 import model as llama
from tunix.rl import algo_core
from tunix.rl.grpo.grpo_learner import GRPOConfig, TrainExample
from tunix.sft import utils
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig, TrainingInput

from gallery_programs.program import HEADS, LAYERS, MICRO_BATCHES, VOCABULARY, Program, counted, tokens

# The mesh, and the axes that split a batch. By Tunix's defaults `fsdp` and `tp` split parameters.
LAYOUTS: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "dp": ({"data": 8, "fsdp": 1, "tp": 1}, ("data", "fsdp")),
    "fsdp": ({"fsdp": 8, "tp": 1}, ("fsdp",)),
    "hsdp": ({"data": 2, "fsdp": 4, "tp": 1}, ("data", "fsdp")),
    "fsdp_tp": ({"fsdp": 4, "tp": 2}, ("fsdp",)),
}


def calls(layout: str, width: int) -> Program:
    """`PeftTrainer._train_step`, which the trainer calls once per micro-batch."""
    one, state, batch, counted = _prepared(layout, width)
    first = jax.tree.map(lambda part: part[0], batch)
    return Program(one, (state, first), **counted, calls=MICRO_BATCHES, within=_within)


def scanned(layout: str, width: int, *, policy: bool = False) -> Program:
    """The same in a scan over micro-batches, of which only the losses are kept, not the norms of their gradients.

    `policy`: with the loss of GRPO, of completions with advantages, in place of that of supervised fine-tuning.
    """
    one, state, batch, counted = _prepared(layout, width, policy)

    def step(state: Any, batch: Any) -> Any:
        def body(state: Any, micro_batch: Any) -> Any:
            state, (loss, _, _) = one(state, micro_batch)
            return state, loss

        return jax.lax.scan(body, state, batch)

    return Program(step, (state, batch), **counted, within=_within)


def _prepared(layout: str, width: int, policy: bool = False) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The trainer's step, the state, micro-batches, and what is counted."""
    sizes, split = LAYOUTS[layout]
    mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))
    config = llama.ModelConfig(
        num_layers=LAYERS,
        vocab_size=VOCABULARY,
        embed_dim=width,
        hidden_dim=4 * width,
        num_heads=HEADS,
        head_dim=width // HEADS,
        num_kv_heads=HEADS // 2,
        rope_theta=10_000,
        norm_eps=1e-5,
        shd_config=_sharding(split),
    )
    training = TrainingConfig(
        eval_every_n_steps=100, gradient_accumulation_steps=MICRO_BATCHES, data_sharding_axis=split
    )
    trainer = PeftTrainer(llama.Llama3(config, rngs=nnx.Rngs(0)), optax.adamw(1e-3), training)
    if policy:
        settings = GRPOConfig()
        settings.temperature = 1.0  # by the learner, of its rollouts
        trainer.with_loss_fn(_policy_loss, has_aux=True)
        trainer.with_gen_model_input_fn(lambda example: {"train_example": example, "algo_config": settings})
    else:
        trainer.with_gen_model_input_fn(_model_input)
    graph, state = nnx.split((trainer.model, trainer.optimizer))

    def one(state: Any, inputs: TrainingInput) -> Any:
        model, optimizer = nnx.merge(graph, state)
        results = trainer._train_step(model, optimizer, inputs)
        return nnx.state((model, optimizer)), results

    specs = nnx.get_partition_spec(state)
    state = jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), state, specs)
    ids = tokens(MICRO_BATCHES)
    batch = _completions(ids) if policy else TrainingInput(input_tokens=ids, input_mask=np.ones_like(ids, bool))
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, split)))
    parameters = nnx.filter_state(state[0], nnx.Param)
    return one, state, batch, counted(parameters, split, layout)


def _completions(ids: np.ndarray) -> TrainExample:
    """The second halves of sequences, as completions of the first ones."""
    prompts, completions = np.split(ids, 2, axis=-1)
    random = np.random.default_rng(1)
    likely = -random.random(completions.shape, dtype=np.float32)
    return TrainExample(
        prompt_ids=prompts,
        prompt_mask=np.ones_like(prompts),
        completion_ids=completions,
        completion_mask=np.ones_like(completions),
        advantages=random.standard_normal(ids.shape[:-1], dtype=np.float32),
        ref_per_token_logps=likely,
        old_per_token_logps=likely,
    )


def _policy_loss(model: Any, train_example: TrainExample, algo_config: GRPOConfig) -> Any:
    """As `GRPOLearner` makes it; no token stands for padding or for an end."""
    return algo_core.grpo_loss_fn(model, train_example, algo_config, pad_id=VOCABULARY, eos_id=VOCABULARY)


def _sharding(split: tuple[str, ...]) -> llama.ShardingConfig:
    """Tunix's, with activations split by the axes of the batch."""
    default = llama.ShardingConfig.get_default_sharding()
    names = ("act_btd", "act_btf", "act_btnh")
    return dataclasses.replace(default, **{name: (split, *getattr(default, name)[1:]) for name in names})


def _model_input(inputs: TrainingInput) -> dict[str, Any]:
    return {
        "input_tokens": inputs.input_tokens,
        "input_mask": inputs.input_mask,
        "positions": utils.build_positions_from_mask(inputs.input_mask),
        "attention_mask": utils.make_causal_attn_mask(inputs.input_mask),
    }


@contextlib.contextmanager
def _within(mesh: Mesh) -> Iterator[None]:
    """As in the trainer's `with mesh`. Tunix leaves activations alone where the process has CPUs: here it does not."""

    def shard(x: jax.Array, spec: tuple[Any, ...]) -> jax.Array:
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*spec)))

    with mesh, mock.patch.object(llama, "shard", shard):
        yield
