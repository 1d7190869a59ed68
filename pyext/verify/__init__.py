"""Verification of modules with unreduced values, and of the reductions in their executables."""
