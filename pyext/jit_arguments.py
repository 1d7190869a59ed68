"""What `paropt.jit` hands on."""

from collections.abc import Sequence
from typing import Any, TypedDict

import jax


class JitArguments(TypedDict, total=False):
    """The keyword arguments of `jax.jit`."""

    in_shardings: Any
    out_shardings: Any
    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Sequence[str] | None
    keep_unused: bool
    device: jax.Device | None
    backend: str | None
    inline: Any
    compiler_options: dict[str, Any] | None
