"""Modules for tests, from text and from jax: one context serves many, since making one takes 5 ms."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import jax
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from paropt.passes.support.context import make_context

_MODULES = 500  # types and constants of a context stay as long as it does
_contexts: list[ir.Context] = []
_number = count()


def parsed(text: str | bytes) -> ir.Module:
    """The module of `text`, or of bytecode. Raises ir.MLIRError."""
    if next(_number) % _MODULES == 0:
        _contexts[:] = [make_context()]
    return ir.Module.parse(text, _contexts[0])


@contextmanager
def contexts_serve_several() -> Iterator[None]:
    """Within the block, ten programs in a row that a thread lowers are in one context, as by jax 0.12 anyway."""
    if jax.__version_info__ >= (0, 12):
        yield
        return
    make, kept = mlir.make_ir_context, threading.local()

    def context() -> ir.Context:
        number = getattr(kept, "number", 0)
        if number % 10 == 0:
            kept.context = make()
        kept.number = number + 1
        found: ir.Context = kept.context
        return found

    mlir.make_ir_context = context
    try:
        yield
    finally:
        mlir.make_ir_context = make
