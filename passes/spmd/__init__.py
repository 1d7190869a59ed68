"""Reductions in global-view programs (plain `jax.jit`), where the partitioner adds them."""
