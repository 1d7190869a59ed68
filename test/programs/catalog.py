"""Every training program, by name.

A builder makes the program anew. Those of MATRIX take `sizes` and `devices`, for tests, audits and benchmarks;
the others have sizes of their own. All need 8 devices.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from programs import explicit, large, models, plain
from programs.models import half
from programs.patterns import (
    ADDED,
    ADDED_IN_F32,
    AVERAGED,
    CLIPPED,
    RUNNING_MEAN,
    UNROLLED,
    WEIGHTED,
    WITH_NORMS,
    Pattern,
)
from programs.program import Program
from programs.transformer import Config, adam, program

Builder = Callable[..., Program]

# What the number in a name says; docs/benchmarks.md has this table.
NUMBERS: dict[int, str] = {
    0: "gradients are added up in `lax.scan` over micro-batches, layers are unrolled",
    1: "the same with `lax.scan` over layers",
    2: "an average: each gradient is divided before it is added",
    3: "a running mean, as `optax.MultiSteps` has it by default",
    4: "gradients in bf16, added up in f32",
    5: "a weight that is used twice: `w` and `w.T`",
    6: "fully sharded: parameters and sums of gradients are sharded over `data`, parameters are gathered at use",
    7: "hybrid sharding: the same, replicated over `replica`",
    8: "micro-batches are unrolled in Python",
    9: "an embedding table, whose gradient is a scatter",
    10: "micro-batches are weighted by a number that is known at run time only",
    11: "ZeRO-1: the optimizer's state is sharded over `data`, parameters are replicated",
    12: "the norm of each micro-batch's summed gradient is returned: its sum has to stay",
    13: "the gradient of each micro-batch is clipped by its norm: its sum has to stay",
    14: "tensor parallel: layers are sharded over `model`, examples over `data`",
    15: "expert parallel: experts are sharded over `expert`, examples over both axes",
    16: "any of those above by `jax.shard_map`: named `explicit_`, with the number of its `plain_` form",
    17: "scanned layers whose parameters, sharded over `data`, are gathered layer by layer",
    18: "the same, replicated over `replica`",
    19: "P17 with a tensor axis: blocks of Llama, sharded over `data` and `model`",
    20: "P17 with an expert axis: a mixture of experts",
    21: "adapters (LoRA) on a frozen base that is sharded over `data`",
}

# Parameters on all devices: what is trained, and how gradients are accumulated.
_REPLICATED: dict[str, tuple[Callable[..., models.Model], Pattern]] = {
    "mlp_p0": (models.mlp, ADDED),
    "mlp_p1": (models.stacked_mlp, ADDED),
    "mlp_p2": (models.mlp, AVERAGED),
    "mlp_p3": (models.mlp, RUNNING_MEAN),
    "mlp_p4": (half(models.mlp), ADDED_IN_F32),
    "mlp_p5": (models.tied, ADDED),
    "mlp_p8": (models.mlp, UNROLLED),
    "mlp_p9": (models.embedding, ADDED),
    "mlp_p10": (models.mlp, WEIGHTED),
    "mlp_p12": (models.mlp, WITH_NORMS),
    "mlp_p13": (models.mlp, CLIPPED),
    "transformer_p0": (models.transformer, ADDED),
    "transformer_p1": (models.scanned_transformer, ADDED),
    "transformer_p4": (half(models.transformer), ADDED_IN_F32),
    "transformer_p5": (models.tied_transformer, ADDED),
}

# Parameters or optimizer state split over devices: the functions in explicit.py and plain.py, and what they train.
_SPLIT: dict[str, tuple[str, Callable[..., models.Model]]] = {
    "mlp_p6": ("fully_sharded", models.mlp),
    "mlp_p7": ("hybrid_sharded", models.mlp),
    "mlp_p11": ("zero1", models.mlp),
    "mlp_p14": ("tensor_parallel", models.split_mlp),
    "mlp_p15": ("expert_parallel", models.experts),
    "transformer_p6": ("fully_sharded", models.transformer),
    "transformer_p11": ("zero1", models.transformer),
    "transformer_p14": ("tensor_parallel", models.transformer),
}

# Scanned layers, their parameters gathered at use: by XLA, or as the program says. They take `sizes` and `devices`, too.
LAYERS: dict[str, Builder] = {
    "blocks_p17": partial(plain.sharded_layers, models.blocks),
    "blocks_p18": partial(plain.hybrid_sharded_layers, models.blocks),
    "half_blocks_p17": partial(plain.sharded_layers, half(models.blocks)),
    "half_blocks_p18": partial(plain.hybrid_sharded_layers, half(models.blocks)),
    "explicit_blocks_p17": partial(explicit.sharded_layers, models.blocks),
    "explicit_blocks_p18": partial(explicit.hybrid_sharded_layers, models.blocks),
    "explicit_half_blocks_p17": partial(explicit.sharded_layers, half(models.blocks)),
    "explicit_half_blocks_p18": partial(explicit.hybrid_sharded_layers, half(models.blocks)),
    "llama_p19": large.fully_sharded_tensor_parallel,
    "experts_p20": large.expert_fully_sharded,
    "adapters_p21": large.adapted,
}

# How users of shard_map sum gradients, where it is not by a psum of the tree.
_SYNC: dict[str, dict[str, Any]] = {
    "mlp_p1": {"check_vma": True},
    "mlp_p2": {"sync": explicit.pmean},
    "mlp_p5": {"check_vma": True},
    "transformer_p1": {"check_vma": True},
    "transformer_p5": {"check_vma": True},
}


def _number(name: str) -> tuple[str, int]:
    model, _, pattern = name.partition("_p")
    return model, int(pattern)


def _sorted(builders: dict[str, Builder]) -> dict[str, Builder]:
    return {name: builders[name] for name in sorted(builders, key=_number)}


# jax.jit with shardings.
PLAIN: dict[str, Builder] = _sorted(
    {name: partial(plain.data_parallel, *of) for name, of in _REPLICATED.items()}
    | {name: partial(getattr(plain, form), build) for name, (form, build) in _SPLIT.items()}
)

# The same with jax.shard_map.
EXPLICIT: dict[str, Builder] = _sorted(
    {name: partial(explicit.data_parallel, *of, **_SYNC.get(name, {})) for name, of in _REPLICATED.items()}
    | {name: partial(getattr(explicit, form), build) for name, (form, build) in _SPLIT.items()}
)

MATRIX: dict[str, Builder] = {f"plain_{name}": build for name, build in PLAIN.items()} | {
    f"explicit_{name}": build for name, build in EXPLICIT.items()
}

TRANSFORMERS: dict[str, Builder] = {
    "transformer_p0": lambda: program(Config(is_tied=False)),
    # Its gradients are rounded by some 3e-8: with an epsilon of 1e-4, 3e-4 of the largest update where one is near 0.
    "transformer_p0_adam": lambda: program(Config(is_tied=False), optimizer=adam(rate=1e-2, epsilon=1e-2)),
    "transformer_p0_checked": lambda: program(Config(is_tied=False), check_vma=True),
    "transformer_p1": lambda: program(Config(is_tied=False, is_scanned=True)),
    "transformer_p1_checked": lambda: program(Config(is_tied=False, is_scanned=True), check_vma=True),
    "transformer_p0_bf16": lambda: program(Config(is_tied=False, compute_dtype=jnp.bfloat16)),
    "transformer_p5_checked": lambda: program(Config(is_tied=True), check_vma=True),
}

MLPS: dict[str, Builder] = {
    name: build for name, build in EXPLICIT.items() if name in _REPLICATED and name.startswith("mlp")
}

# Bit-equal however their sums are ordered, except where `tolerance` says otherwise. A running mean divides by 3.
INTEGER_MLPS: dict[str, Builder] = {
    f"{name}_integers": partial(build, integers=True) for name, build in MLPS.items() if name != "mlp_p3"
}

# Explicit, data-parallel, with all parameters on all devices.
PROGRAMS: dict[str, Builder] = TRANSFORMERS | MLPS | INTEGER_MLPS
