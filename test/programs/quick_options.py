"""Options with which XLA:CPU compiles quickly: see machine_code.py. Imports no jax: test/conftest.py sets some before."""

from importlib.metadata import version
from typing import Any

# Fusions are written without MLIR; newer versions of jaxlib always write them with it, and end on the flag.
_PLAIN_FUSIONS = version("jaxlib").startswith("0.10.")
# Those of the CPU alone, for all processes that tests start.
OF_THE_CPU: dict[str, Any] = {
    "xla_cpu_parallel_codegen_split_count": 1,
    **({"xla_cpu_use_fusion_emitters": False} if _PLAIN_FUSIONS else {}),
}
QUICK: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    **OF_THE_CPU,
}
# XLA's defaults in place of those for all processes.
AS_USERS_DO: dict[str, Any] = {
    "xla_cpu_parallel_codegen_split_count": 32,
    **({"xla_cpu_use_fusion_emitters": True} if _PLAIN_FUSIONS else {}),
}
FLAGS = " ".join(f"--{name}={str(value).lower()}" for name, value in OF_THE_CPU.items())
