"""Equal modules are compiled once in each file of tests: what XLA makes of one follows from its text and options.

Executables end with their file: XLA:CPU maps the code of each kernel apart, a process may have 65,530 mappings, and one
without any left ends.

Locations count as far as executables show them: the innermost line of each op, and its name. Callers differ from test
to test.
"""

import gc
import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax._src import compiler
from jaxlib.mlir import ir

KEPT = 200  # executables of a file, those that were asked for last
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)\n", re.M)
_CALLSITE = re.compile(r"callsite\((#loc\d*) at #loc\d*\)")
_REFERENCE = re.compile(r"#loc\d*\b")


_compile_and_load = compiler.backend_compile_and_load


@contextmanager
def compilations(*, once: bool) -> Iterator[OrderedDict[bytes, Any]]:
    """Within the block; yields the executables that are kept, by the hash of all that they depend on.

    By a private name of jax: `jit` keeps executables by its arguments, and its cache on disk does not serve (store.py).
    """
    kept: OrderedDict[bytes, Any] = OrderedDict()

    def look_up(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Any) -> Any:
        key = _key(module, backend, devices, options)
        if key not in kept:
            kept[key] = _compile_and_load(backend, module, devices, options, host_callbacks)
        kept.move_to_end(key)
        while len(kept) > KEPT:
            kept.popitem(last=False)
        return kept[key]

    def compile_and_load(backend: Any, module: Any, devices: Any, options: Any, host_callbacks: Any) -> Any:
        # What is called back is no part of the module.
        chosen = look_up if once and not host_callbacks else _compile_and_load
        return chosen(backend, module, devices, options, host_callbacks)

    before = compiler.backend_compile_and_load
    compiler.backend_compile_and_load = compile_and_load
    try:
        yield kept
    finally:
        compiler.backend_compile_and_load = before


@contextmanager
def of_a_file() -> Iterator[None]:
    """Within the block equal modules are compiled once; after it, only executables that a test still holds are left."""
    with compilations(once=True):
        yield
    jax.clear_caches()
    gc.collect()  # of cycles, such as jitted functions within their own closures


def _key(module: ir.Module, backend: Any, devices: Any, options: Any) -> bytes:
    named = f"{backend.platform_version} {[(device.id, device.device_kind) for device in devices]}"
    parts = (named.encode(), options.SerializeAsString(), text_of(module).encode())
    return hashlib.sha256(b"\0".join(parts)).digest()


def text_of(module: ir.Module) -> str:
    """The module's text with the innermost location of each op in place of the stack of its callers."""
    text = str(module.operation.get_asm(enable_debug_info=True, large_elements_limit=None))
    written = dict(_ALIAS.findall(text))
    resolved: dict[str, str] = {}

    def resolve(alias: str) -> str:
        if alias not in resolved:
            inner = _CALLSITE.sub(r"\1", written.get(alias, "unknown"))
            resolved[alias] = _REFERENCE.sub(lambda found: resolve(found[0]), inner)
        return resolved[alias]

    return _REFERENCE.sub(lambda found: resolve(found[0]), _ALIAS.sub("", text))
