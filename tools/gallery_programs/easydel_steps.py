"""EasyDeL's training step, which scans over micro-batches, its Llama, its mesh and its sharding rules."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

os.environ["EASYDEL_AUTO"] = "false"  # options for compilers, some of which newer ones do not know

import easydel as ed
import jax
import jax.numpy as jnp
import optax
from easydel.trainers.trainer._fn import training_step
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gallery_programs.program import HEADS, LAYERS, MICRO_BATCHES, SEQUENCE, VOCABULARY, Program, counted, tokens

LAYOUTS = {"dp": (8, 1, 1, 1, 1), "fsdp": (1, 8, 1, 1, 1), "hsdp": (2, 4, 1, 1, 1), "fsdp_tp": (1, 4, 1, 2, 1)}


def language_model(layout: str, width: int) -> Program:
    """`training_step`, which `Trainer` calls; as there, the batch comes whole, and rules shard the state."""
    config = ed.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        max_position_embeddings=SEQUENCE,
        attn_mechanism="vanilla",
        sharding_axis_dims=LAYOUTS[layout],
    )
    model = ed.LlamaForCausalLM(config=config, dtype=jnp.float32, param_dtype=jnp.float32, rngs=nnx.Rngs(0))
    state = model.shard_model().to_state().init_tx(optax.adamw(1e-3)).shard_state()
    ids = tokens(MICRO_BATCHES).reshape(-1, SEQUENCE)
    batch = {"input_ids": ids, "attention_mask": jnp.ones_like(ids), "labels": ids}
    specs = jax.tree.map(lambda leaf: leaf.sharding.spec, state)

    def step(state: Any, batch: Any) -> Any:
        state, metrics = training_step(state, batch, ed.LossConfig(), gradient_accumulation_steps=MICRO_BATCHES)
        shardings = jax.tree.map(lambda spec: NamedSharding(config.mesh, spec), specs)
        return jax.lax.with_sharding_constraint(state, shardings), metrics.loss

    @contextlib.contextmanager
    def within(mesh: Mesh) -> Iterator[None]:
        """As the trainer is inside `with model.mesh`, with a mesh of other devices."""
        config.set_model_mesh(mesh)
        with mesh:
            yield

    whole = NamedSharding(config.mesh, PartitionSpec())
    counts = counted(state.graphstate, ("dp", "fsdp"), layout)
    return Program(step, (state, jax.device_put(batch, whole)), **counts, within=within)
