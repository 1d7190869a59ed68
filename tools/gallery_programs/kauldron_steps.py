"""Kauldron's training step with a Gemma. It has no accumulation of its own: `optax.MultiSteps` adds up micro-batches,
one call of the step each."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from gemma import gm
from gemma.gm.nn import _config, _modules
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from kauldron import kd

from gallery_programs.program import HEADS, LAYERS, MICRO_BATCHES, VOCABULARY, Program, counted, tokens

AXIS = "devices"  # of Kauldron's mesh


def calls(layout: str, width: int) -> Program:
    """`TrainStep.step`, which the trainer calls once per micro-batch."""
    one, state, batch, counts, within = _prepared(layout, width)
    first = jax.tree.map(lambda part: part[0], batch)
    return Program(one, (state, first), **counts, calls=MICRO_BATCHES, within=within)


def scanned(layout: str, width: int) -> Program:
    """The same in a scan over micro-batches."""
    one, state, batch, counts, within = _prepared(layout, width)

    def step(state: Any, batch: Any) -> Any:
        return jax.lax.scan(one, state, batch)

    return Program(step, (state, batch), **counts, within=within)


def _prepared(layout: str, width: int) -> tuple[Any, Any, Any, dict[str, Any], Any]:
    """The trainer's step, the state, micro-batches, what is counted, and how the step is traced."""
    steps = {"now": _train_step(layout, width)}
    mesh = kd.sharding.DEVICES_MESH
    ids = tokens(MICRO_BATCHES)
    batch = {"input": ids, "target": np.roll(ids, -1, axis=-1)[..., None], "mask": np.ones_like(ids)[..., None]}
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, AXIS)))
    state = steps["now"].init(jax.tree.map(lambda part: jax.ShapeDtypeStruct(part.shape[1:], part.dtype), batch))

    def one(state: Any, micro_batch: Any) -> Any:
        state, found = steps["now"].step(state, micro_batch, return_losses=True)
        return state, found.loss_states["xent"].compute()

    @contextlib.contextmanager
    def within(mesh: Mesh) -> Iterator[None]:
        """With Kauldron's mesh of other devices; a step has the shardings in it."""
        whole, first = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(AXIS))
        with mock.patch.multiple(kd.sharding, DEVICES_MESH=mesh, REPLICATED=whole, FIRST_DIM=first):
            steps["now"] = _train_step(layout, width)
            yield

    return one, state, batch, counted(state.params, (AXIS,), layout), within


def _train_step(layout: str, width: int) -> kd.train.TrainStep:
    config = _config.TransformerConfig(
        num_embed=VOCABULARY,
        embed_dim=width,
        hidden_dim=4 * width,
        num_heads=HEADS,
        head_dim=width // HEADS,
        num_kv_heads=HEADS // 2,
        final_logit_softcap=None,
        use_post_attn_norm=True,
        use_post_ffw_norm=True,
        use_qk_norm=True,
        attention_types=(_modules.AttentionType.GLOBAL,) * LAYERS,
        transpose_gating_einsum=True,
    )
    loss = kd.losses.SoftmaxCrossEntropyWithIntLabels(logits="preds.logits", labels="batch.target", mask="batch.mask")
    parameters = kd.sharding.FSDPSharding(min_size_to_shard_mb=0) if layout == "fsdp" else kd.sharding.REPLICATED
    return kd.train.TrainStep(
        model=gm.nn.Transformer(config=config, tokens="batch.input", dtype=jnp.float32),
        optimizer=optax.MultiSteps(optax.adamw(1e-3), MICRO_BATCHES).gradient_transformation(),
        rng_streams=kd.train.RngStreams(seed=0),
        sharding=kd.sharding.ShardingStrategy(params=parameters),
        init_transform=kd.ckpts.NoopTransform(),
        aux=kd.train.Auxiliaries(losses={"xent": loss}, metrics={}, summaries={}),
    )
