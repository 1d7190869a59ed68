"""MaxText: `train_step`, which scans over micro-batches, its models, configuration, optimizer and sharding rules."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import maxtext
import numpy as np
from flax import nnx
from flax.core.spmd import logical_axis_rules
from jax.sharding import AxisType, Mesh
from maxtext.common.train_state_nnx import TrainStateNNX
from maxtext.configs import pyconfig
from maxtext.optimizers import optimizers
from maxtext.trainers.pre_train import train, train_compile
from maxtext.utils import maxtext_utils, model_creation_utils, sharding

from gallery_programs.program import BATCH, HEADS, LAYERS, MICRO_BATCHES, SEQUENCE, VOCABULARY, Program, counted, tokens

DEVICES = 8
# The second dimension of their parameters: along the first one, XLA:TPU scatters nothing if that has fewer than a tile.
SCANNED_LAYERS = 8
LAYOUTS = {
    "dp": {"data": 8, "fsdp": 1},
    "fsdp": {"fsdp": 8},
    "hsdp": {"data": 2, "fsdp": 4},
    "fsdp_tp": {"fsdp": 4, "tensor": 2},
    "fsdp_ep": {"fsdp": 4, "expert": 2},
}
BATCH_AXES = ("data", "fsdp")
EXPERTS = {
    "decoder_block": "mixtral",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "sparse_matmul": False,
    "megablox": False,
    "capacity_factor": 1.0,
}


def language_model(
    layout: str, width: int, *, experts: bool = False, scanned: bool = True, dtype: str = "bfloat16"
) -> Program:
    """A Llama, or a Mixtral of few small experts. As by MaxText's defaults it computes in bfloat16, and layers are
    computed again in the backward pass; `scanned`: layers are a scan."""
    config = pyconfig.initialize(
        ["", str(Path(maxtext.__file__).parent / "configs" / "base.yml")],
        **_options(layout, width, experts, scanned),
        dtype=dtype,
    )
    devices = maxtext_utils.create_device_mesh(config, jax.devices())
    mesh = Mesh(devices, config.mesh_axes, axis_types=(AxisType.Auto,) * devices.ndim)
    steps: dict[str, Any] = {}

    @contextlib.contextmanager
    def within(mesh: Mesh) -> Iterator[None]:
        """As MaxText traces its step; that of a mesh has the shardings of all parameters in it."""
        steps["now"], _ = _step(config, mesh)
        with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
            yield

    def step(state: Any, batch: Any) -> Any:
        state, metrics = steps["now"](state, batch)
        return state, metrics["scalar"]

    with within(mesh):
        _, shardings = _step(config, mesh)
        state = jax.jit(lambda: nnx.state(_trained(config, mesh)), out_shardings=shardings)()
    ids = tokens(MICRO_BATCHES).reshape(-1, SEQUENCE)
    whole = np.broadcast_to(np.arange(SEQUENCE, dtype=np.int32), ids.shape)
    batch = {"inputs": ids, "targets": np.roll(ids, -1, axis=1)} | {
        f"{name}_{what}": array
        for name in ("inputs", "targets")
        for what, array in (("position", whole), ("segmentation", np.ones_like(ids)))
    }
    batch = jax.device_put(batch, sharding.get_input_data_sharding(config, mesh))
    counts = counted(nnx.filter_state(state["model"], nnx.Param), BATCH_AXES, layout)
    return Program(step, (state, batch), **counts, within=within)


def _options(layout: str, width: int, experts: bool, scanned: bool) -> dict[str, Any]:
    return {
        "run_name": "gallery",
        "skip_jax_distributed_system": True,
        "enable_checkpointing": False,
        "jax_cache_dir": "",
        "dataset_type": "synthetic",
        "attention": "dot_product",
        "base_emb_dim": width,
        "base_mlp_dim": 4 * width,
        "base_num_decoder_layers": SCANNED_LAYERS if scanned else LAYERS,
        "base_num_query_heads": HEADS,
        "base_num_kv_heads": HEADS // 2,
        "head_dim": width // HEADS,
        "vocab_size": VOCABULARY,
        "max_target_length": SEQUENCE,
        "per_device_batch_size": BATCH // DEVICES,
        "gradient_accumulation_steps": MICRO_BATCHES,
        "scan_layers": scanned,
        **{f"ici_{axis}_parallelism": size for axis, size in LAYOUTS[layout].items()},
        **(EXPERTS | {"base_mlp_dim": 2 * width, "base_moe_mlp_dim": 2 * width} if experts else {}),
    }


def _step(config: Any, mesh: Mesh) -> tuple[Any, Any]:
    """What MaxText compiles for this mesh, and the shardings of its state."""
    _, _, shardings, _, graph = train_compile.get_shaped_inputs(mesh, config)
    parameters, shardings = sharding.maybe_update_params_sharding_with_opt(config, shardings)
    return functools.partial(train.train_step, graph, config, shardings, parameters), shardings


def _trained(config: Any, mesh: Mesh) -> TrainStateNNX:
    create, model = model_creation_utils.create_nnx_abstract_model(config, mesh)
    schedule = maxtext_utils.create_learning_rate_schedule(config)
    model = create()
    return TrainStateNNX(
        model, nnx.Optimizer(model, optimizers.get_optimizer(config, schedule, model, mesh=mesh), wrt=nnx.Param)
    )
