"""Reductions that stand beside each other: sums of moved sums, uniform terms, buckets."""
