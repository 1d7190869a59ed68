"""Where an op comes from: positions and names, read from MLIR's locations."""

from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.support.locations import is_call_site, is_fused, is_name, is_position


class Source(NamedTuple):
    """Where an op comes from: a position in the user's program or in the module's text."""

    file: str  # "-" for text from stdin, "" when the op has no position
    line: int
    column: int
    scope: str  # JAX's name stack (`jit(step)/while/body/psum`), "" for text

    def __str__(self) -> str:
        position = f"{self.file}:{self.line}:{self.column}" if self.file else "<unknown location>"
        return f"{position} ({self.scope})" if self.scope else position


def source_of(location: Any) -> Source:
    """The innermost position of `location` (an `ir.Location`), and the names around it.

    JAX wraps positions in names (its name stack), call sites (callee first) and fused lists (first one counts).
    """
    scope = ""
    while True:
        if is_position(location):
            return Source(location.filename, location.start_line, location.start_col, scope)
        if is_name(location):
            # The outermost name is JAX's name stack (`psum:` only repeats its end); the next one is only the Python
            # function's name.
            if not location.name_str.endswith(":"):
                scope = scope or location.name_str
            location = location.child_loc
        elif is_call_site(location):
            location = location.callee
        elif is_fused(location) and location.locations:
            location = location.locations[0]
        else:
            return Source("", 0, 0, scope)


def nearest_source(op: ir.Operation) -> Source:
    """The position of `op`; without one, as a module of jax is, that of the first op in it which has one.

    Of that op's name stack only the program is left: what is said is about all of it.
    """
    own = source_of(op.location)
    if own.file or op.name != "builtin.module":
        return own
    first = _first_position(op)
    return own if first is None else first._replace(scope=first.scope.partition("/")[0])


def _first_position(op: ir.Operation) -> Source | None:
    for inner in (inner.operation for region in op.regions for block in region for inner in block):
        found = source_of(inner.location)
        within = found if found.file else _first_position(inner)
        if within is not None:
            return within
    return None
