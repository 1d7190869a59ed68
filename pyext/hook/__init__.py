"""The hook between `jax.jit` and the passes. Here and in jit.py, private names of jax are used."""
