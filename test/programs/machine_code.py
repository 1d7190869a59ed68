"""Machine code that LLVM does not optimize: XLA:CPU compiles in 60 % of the time, to the same HLO in the same memory.

test/unit/programs/test_machine_code.py compares. It does for whole numbers, which are exact in any order, for what is the same
within a bound, and for what executables communicate and take; not for bits of what is rounded.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def unoptimized() -> Iterator[None]:
    """Within the block, for what this process compiles for its own devices."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
