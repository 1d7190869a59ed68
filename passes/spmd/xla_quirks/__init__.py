"""Measured behaviour of XLA and Shardy, worked around or modelled: one file each.

A test tells when a new version no longer needs a file: the table is in docs/design.md.
"""
