"""Meshes, shardings, collectives, and Shardy's propagation of them, run on a copy."""
