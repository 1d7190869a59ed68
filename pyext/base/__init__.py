"""Helpers without knowledge of par-opt: wording of numbers, grids of devices, element types."""
