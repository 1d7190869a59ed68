"""The hook between `jax.jit` and the passes. The private names of jax are in here, each in one file."""
