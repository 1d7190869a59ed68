"""par-opt: synchronise gradients once per training step."""
