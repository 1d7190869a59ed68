"""Options with which XLA compiles quickly: see machine_code.py. Imports no jax: test/conftest.py sets them before."""

from importlib.metadata import version
from typing import Any

# Fusions are written without MLIR; newer versions of jaxlib always write them with it, and end on the flag.
_PLAIN_FUSIONS = version("jaxlib").startswith("0.10.")
# For all processes that tests start, and all targets: of GPUs and TPUs they change machine code only.
QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    **({"xla_cpu_use_fusion_emitters": False} if _PLAIN_FUSIONS else {}),
}
# XLA's defaults in place of those.
AS_USERS_DO: dict[str, Any] = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_parallel_codegen_split_count": 32,
    **({"xla_cpu_use_fusion_emitters": True} if _PLAIN_FUSIONS else {}),
}
FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK.items())
