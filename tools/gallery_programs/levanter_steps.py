"""Levanter's trainer, optimizer, mesh and models, with tokens made here in place of a data set."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

os.environ["HF_HUB_OFFLINE"] = "1"

import equinox as eqx
import haliax as hax
import jax
from haliax.partitioning import set_mesh
from jax.sharding import Mesh
from levanter.models.gpt2 import Gpt2Config
from levanter.models.llama import LlamaConfig
from levanter.models.lm_model import LmExample
from levanter.optim.config import AdamConfig
from levanter.tracker.tracker import NoopConfig
from levanter.trainer import Trainer, TrainerConfig
from levanter.utils.mesh import MeshConfig

from gallery_programs.program import BATCH, HEADS, LAYERS, MICRO_BATCHES, SEQUENCE, VOCABULARY, WIDTH, Program, tokens

SIZES = {"max_seq_len": SEQUENCE, "num_layers": LAYERS, "num_heads": HEADS}
MODELS = {
    "gpt2": lambda width: Gpt2Config(hidden_dim=width, **SIZES),
    "llama": lambda width: LlamaConfig(hidden_dim=width, num_kv_heads=HEADS // 2, intermediate_dim=4 * width, **SIZES),
}
STEPS = 100

# Devices that are only described belong to several processes, with which newer versions would agree on a kernel.
PROCESSES = "levanter.kernels.pallas.fused_cross_entropy_loss.api._autotune_process_ids"


def language_model(name: str, *, sharded: bool = False, width: int = WIDTH) -> Program:
    """`Trainer.train_step`, which accumulates over micro-batches in a loop.

    `sharded`: as Levanter's default has it, `embed` is split over the devices.
    """
    model = MODELS[name](width)
    config = TrainerConfig(
        id="gallery",
        tracker=NoopConfig(),
        mesh=MeshConfig() if sharded else MeshConfig(param_mapping={}),
        train_batch_size=MICRO_BATCHES * BATCH,
        per_device_parallelism=BATCH // jax.device_count(),
        num_train_steps=STEPS,
    )

    def loss(model: Any, example: LmExample, *, key: Any = None) -> Any:
        return model.compute_next_token_loss(example, key=key)

    trainer = Trainer(config, AdamConfig().build(STEPS), loss, add_default_hooks=False)
    vocabulary = hax.Axis("vocab", VOCABULARY)
    with trainer:
        state = trainer.initial_state(
            jax.random.PRNGKey(0), model_init=lambda: model.build(vocabulary, key=jax.random.PRNGKey(1))
        )
        ids = hax.named(tokens(MICRO_BATCHES).reshape(-1, SEQUENCE), (config.TrainBatch, model.max_Pos))
        batch = hax.shard(hax.vmap(LmExample.causal, config.TrainBatch)(ids), config.compute_axis_mapping)
    (state, batch), static = eqx.partition((state, batch), eqx.is_array)

    def step(state: Any, batch: Any) -> Any:
        state, batch = eqx.combine((state, batch), static)
        result = trainer._jit_train_step_fn_no_hook(state, (batch,), {})  # what `Trainer.train_step` calls
        return eqx.filter((result.new_state, result.loss), eqx.is_array)

    @contextlib.contextmanager
    def within(mesh: Mesh) -> Iterator[None]:
        """As the trainer is inside `with trainer`, with a mesh of other devices."""
        alone = mock.patch(PROCESSES, lambda *_: (0,), create=True)
        with alone, set_mesh(mesh), hax.axis_mapping(trainer.parameter_axis_mapping):
            yield

    return Program(step, (state, batch), None if sharded else state.trainable_model, within=within)
