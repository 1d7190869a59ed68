"""Accumulators that loops over layers add to: stacks of rows, and the additions that they are made for."""
