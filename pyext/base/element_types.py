"""The types of elements that both MLIR and numpy have."""

from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, Any] = {  # by MLIR's name, in lower case
    **{f"f{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i1": np.dtype(bool),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
    "f8e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
