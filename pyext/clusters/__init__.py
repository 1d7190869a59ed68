"""Clusters to compile for: CPU, TPU and GPU, with their devices or without."""
