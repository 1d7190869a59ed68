"""Machine code that is made quickly: XLA:CPU compiles in a quarter of the time, and what is sent stays as it is.

LLVM optimizes nothing, in one piece, and fusions are written without MLIR, where jaxlib still can. All tests and their
processes run it, but those that ask for the fixture `optimized_code`. Whole numbers are exact in any order, and
executables communicate the same; what they take may differ by a fusion's worth, and bits of what is rounded may, too:
test/unit/programs/test_machine_code.py.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jax._src import compiler
from programs.quick_options import AS_USERS_DO, QUICK


@contextmanager
def machine_code(*, is_optimized: bool) -> Iterator[None]:
    """Within the block, for what this process compiles for its own devices.

    By a private name of jax, since `jit` takes compiler options only when it is called. A user's own options win.
    """
    before = compiler.get_compile_options
    chosen = AS_USERS_DO if is_optimized else QUICK
    compiler.get_compile_options = functools.partial(_with_options, chosen)
    try:
        yield
    finally:
        compiler.get_compile_options = before


_original = compiler.get_compile_options


def _with_options(chosen: dict[str, Any], *arguments: Any, **named: Any) -> Any:
    options = _original(*arguments, **named)
    if named.get("backend") is not None and named["backend"].platform == "cpu":
        options.env_option_overrides = list({**chosen, **dict(options.env_option_overrides)}.items())
    return options
