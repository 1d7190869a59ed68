"""Memoized attributes: programs have few different ones, on many ops, and MLIR prints and parses slowly."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from jaxlib.mlir import ir

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class Remembered(Generic[Key, Found]):
    """The function `read`, called once with each key: of one context, the last, because attributes keep it alive."""

    def __init__(self, read: Callable[[Key], Found]) -> None:
        self._read = read
        self._context: ir.Context | None = None
        self._found: dict[Key, Found] = {}

    def __call__(self, key: Key, context: ir.Context) -> Found:
        """The result of `read` on `key`, whose attributes are of `context`."""
        if context is not self._context:
            self._context, self._found = context, {}
        if key not in self._found:
            self._found[key] = self._read(key)
        return self._found[key]
