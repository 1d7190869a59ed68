"""Micro-batches written as a Python loop: isomorphic subgraphs, and the loop made of them."""
