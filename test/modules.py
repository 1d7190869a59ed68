"""Modules from text, for tests: one context serves many, since making one takes 5 ms."""

from itertools import count

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
