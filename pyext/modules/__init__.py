"""Modules: reading, rewriting, writing, and summaries of their remarks."""
