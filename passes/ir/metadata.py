"""Metadata for XLA on ops and calls (`mhlo.frontend_attributes`): keys that only hint, and keys that bind.

`jax.experimental.xla_metadata`, `compute_on` and scheduling groups write it. It changes no value. XLA inlines a call
whatever its keys are, but for those below; so a key that is not in the table is a hint, and goes where its op goes.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.gradient_marks import ATTRIBUTES as METADATA
from paropt.passes.ir.op_table import drops_metadata

# Shardings as Shardy writes them into a module that is sent on, and our own marks.
_PREFIXES = ("xla.sdy.", "paropt.")


class _Binding(NamedTuple):
    """The things that a key binds. Keys that bind nothing have no row."""

    key: str
    calls: bool = False  # a call with it stays: the function is one unit for XLA, or for its scheduler
    places: bool = False  # a reduction with it stays in its block: it belongs to a group of ops there
    equals: bool = False  # two reductions become one only if they have the same value
    source: str = ""


_BINDINGS = (
    _Binding("inlineable", calls=True, source="XLA CallInliner and ImportUninlineableFuncCalls leave the call"),
    _Binding("backend_config", calls=True, equals=True, source="ImportUninlineableFuncCalls; options of compute_on"),
    _Binding("_xla_compute_type", calls=True, equals=True, source="jax compute_on: the device that runs it"),
    _Binding("_xla_stream_annotation", calls=True, equals=True, source="jax compute_on: the GPU stream of the call"),
    _Binding("_scheduling_group_id", calls=True, places=True, source="XLA LegalizeSchedulingAnnotations"),
    _Binding("scheduling_group", calls=True, places=True, source="jax.experimental.scheduling_groups"),
    _Binding("compilation_unit", calls=True, source="XLA HloModuleSplitter makes a module of the call"),
    _Binding("MUST_FUSE", calls=True, source="jax must_fuse_call: XLA fails when it cannot fuse all of the ops"),
    _Binding("MAXIMAL_FUSE", calls=True, source="XLA side_effect_util.h: every op is in a fusion, or XLA fails"),
    _Binding("mosaic_fusion_group", calls=True, source="XLA CallInliner puts it on the ops of the group"),
    _Binding("collective_group_key", equals=True, source="XLA side_effect_util.h: never combined across keys"),
    _Binding("combiner_key", equals=True, source="XLA side_effect_util.h: partitions what may be combined"),
)
_ALL = frozenset(row.key for row in _BINDINGS)
_OF_CALLS = frozenset(row.key for row in _BINDINGS if row.calls)
_OF_PLACES = frozenset(row.key for row in _BINDINGS if row.places)
_OF_EQUALS = frozenset(row.key for row in _BINDINGS if row.equals)
# Written on the calls themselves, and of no meaning for an op.
_ONLY_OF_CALLS = frozenset({"inlineable"})


def metadata_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The metadata of `op`, by key."""
    given = op.attributes.get(METADATA)
    pairs: Any = given if isinstance(given, ir.DictAttr) else ()  # no dialect verifies that it is one
    return {named.name: named.attr for named in pairs}


def unit_of_call(call: ir.Operation) -> str:
    """The metadata that make `call` a unit, as `key = value`, for a message; "" when all its metadata are hints."""
    given = metadata_of(call)
    return spelled({key: value for key, value in given.items() if _keeps_call(key, value)})


def group_of(op: ir.Operation) -> str:
    """The metadata that bind `op` to others of its block, as `key = value`, for a message; "" when nothing does."""
    return spelled({key: value for key, value in metadata_of(op).items() if key in _OF_PLACES})


def told_apart_by(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The metadata of the reduction `op` that one it is merged with must have, too."""
    return {key: value for key, value in metadata_of(op).items() if key in _OF_EQUALS or key.startswith(_PREFIXES)}


def bindings_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The metadata of `op` that more than hints."""
    return {key: value for key, value in metadata_of(op).items() if key in _ALL or key.startswith(_PREFIXES)}


def others_than_hints(op: ir.Operation) -> str:
    """The discardable attributes of `op`, a loop or branch, that more than hint, for a message; "" when none does."""
    return spelled({name: op.attributes[name] for name in op.attributes if name != METADATA} | bindings_of(op))


def hints_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The metadata of `op`, of which all only hints, that goes on to the ops that replace it."""
    return {key: value for key, value in metadata_of(op).items() if key not in _ONLY_OF_CALLS}


def add_hints(ops: Iterable[ir.Operation], hints: Mapping[str, ir.Attribute]) -> None:
    """Puts `hints` on `ops`; an op's own metadata take precedence, as in JAX and in XLA's `CallInliner`."""
    for op in ops:
        if hints and not drops_metadata(op) and not op.name.startswith("sdy."):
            op.attributes[METADATA] = ir.DictAttr.get({**hints, **metadata_of(op)}, op.context)


def spelled(attributes: Mapping[str, ir.Attribute]) -> str:
    """`key = value` of each, for a message."""
    return ", ".join(f"{key} = {_short(str(value))}" for key, value in sorted(attributes.items()))


def _keeps_call(key: str, value: ir.Attribute) -> bool:
    if key == "inlineable":
        return not isinstance(value, ir.StringAttr) or value.value != "true"
    return key in _OF_CALLS or key.startswith(_PREFIXES)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
