"""Every training program, by name. A builder makes the program anew; mesh and arrays need 8 devices."""

from collections.abc import Callable

import jax.numpy as jnp
from programs import mlp
from programs.program import Program
from programs.transformer import Config, adam, program

Builder = Callable[[], Program]

TRANSFORMERS: dict[str, Builder] = {
    "transformer_p0": lambda: program(Config(is_tied=False)),
    "transformer_p0_adam": lambda: program(Config(is_tied=False), optimizer=adam()),
    "transformer_p0_checked": lambda: program(Config(is_tied=False), check_vma=True),
    "transformer_p1": lambda: program(Config(is_tied=False, is_scanned=True)),
    "transformer_p1_checked": lambda: program(Config(is_tied=False, is_scanned=True), check_vma=True),
    "transformer_p0_bf16": lambda: program(Config(is_tied=False, compute_dtype=jnp.bfloat16)),
    "transformer_p5_checked": lambda: program(Config(is_tied=True), check_vma=True),
}

MLPS: dict[str, Builder] = {f"mlp_{name}": build for name, build in mlp.BUILDERS.items()}

# Bit-equal however their sums are ordered, except where `tolerance` says otherwise.
INTEGER_MLPS: dict[str, Builder] = {
    f"mlp_{name}_integers": (lambda build=build: build(integers=True)) for name, build in mlp.BUILDERS.items()
}

PROGRAMS: dict[str, Builder] = TRANSFORMERS | MLPS | INTEGER_MLPS
