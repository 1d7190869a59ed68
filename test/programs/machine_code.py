"""Machine code that LLVM does not optimize: XLA:CPU compiles in 60 % of the time, to the same HLO in the same memory.

All tests run it, but those that ask for the fixture `optimized_code`: whole numbers are exact in any order, and what
executables communicate and take is the same (test/unit/test_machine_code.py); bits of what is rounded may differ.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def machine_code(*, is_optimized: bool) -> Iterator[None]:
    """Within the block, for what this process compiles for its own devices."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", not is_optimized)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
