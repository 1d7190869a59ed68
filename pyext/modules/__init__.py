"""Modules read, rewritten and written, and what is said of that."""
