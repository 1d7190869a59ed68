"""Edits that passes share: `v = reduce(partial) + residual`, loops with other operands, dead ops."""
