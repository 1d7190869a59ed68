"""The sharded parameters that a loop reads, with the facts by which it is decided where each is gathered.

Tests: test/passes/hoist-gathers.mlir, test/numeric/test_hoisted_all_gathers.py.
"""

from collections.abc import Iterator
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.decisions.parameter_decisions import Level, ParameterRecord
from paropt.passes.deferral.policy import Policy
from paropt.passes.ir.control_flow import MANUAL
from paropt.passes.ir.loops import WHILE, Loop, trip_count
from paropt.passes.ir.types import bytes_of, in_element_type
from paropt.passes.sharding.annotations import shard_bytes
from paropt.passes.sharding.axes import Axes, names_of
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import without
from paropt.passes.spmd.loop_parameters import Parameter, constraint_over, narrowest, sharded_parameters
from paropt.passes.support.sources import source_of
from paropt.passes.support.traversal import is_within


class StepParameter(NamedTuple):
    """A parameter, over those of its axes that option `axes` has; over all, where it has none."""

    parameter: Parameter
    element: ir.Type  # to gather in
    record: ParameterRecord

    def over(self, names: frozenset[str]) -> Parameter:
        """The parameter, to be gathered over those of its axes that have `names`."""
        return self.parameter._replace(axes=_named(self.parameter.axes, names))


def step_parameters(
    loop: Loop, propagated: Propagated, policy: Policy, dtype: ir.Type | None, *, finite: bool
) -> Iterator[StepParameter]:
    """Those that `loop` reads, to be gathered in `dtype`; None: in the narrowest type in which they are read.

    With `finite`, 0 times anything is 0.
    """
    for parameter in list(sharded_parameters(loop, propagated)):
        names = names_of(parameter.axes)
        asked = names.intersection(policy.axes) if policy.axes else names
        over = asked or names
        own = parameter._replace(axes=_named(parameter.axes, over), at_use=_named(parameter.at_use, over))
        element = dtype or narrowest(parameter)
        otherwise = (constraint_over(reading, own, propagated) for reading in own.readings)
        lacks = f"it is gathered over {' and '.join(sorted(names))}, and option axes is {','.join(policy.axes)}"
        record = ParameterRecord(
            name=name_of(own.value),
            held=_bytes(own, own.axes, element),
            at_use=_at_use(own, own.at_use, element),
            levels=tuple(_levels(own, element, policy)),
            trips=trip_count(loop),
            gathers=own.gathers,
            moved=own.moved,
            unknown=own.unknown,
            kept_by=own.kept_by,
            not_allowed=lacks if policy.axes and not asked else "",
            varies=_varies(own, finite),
            renews=own.renewal is not None,
            is_nested=is_within(loop.op, WHILE),
            constrained_by=tuple(op for op in otherwise if op is not None)[:1],
        )
        yield StepParameter(own, element, record)


def _varies(parameter: Parameter, finite: bool) -> str:
    """Why each trip may change it; "" if none does, or if a scalar tells which do."""
    changes, renewal = f"the loop changes the parameter ({name_of(parameter.value)})", parameter.renewal
    if renewal is None:
        return "" if parameter.is_invariant else changes
    told = finite or not renewal.change.by_addend
    return "" if told else f"{changes} by an update times 0 or 1 (option finite=true takes 0 for no change)"


def _levels(parameter: Parameter, element: ir.Type, policy: Policy) -> Iterator[Level]:
    names = frozenset[str]()
    for axes in policy.levels(sorted(names_of(parameter.axes))):
        names |= axes
        held = _bytes(parameter, _named(parameter.axes, names), element)
        yield Level(axes, policy.link(axes), held, _at_use(parameter, _named(parameter.at_use, names), element))


def name_of(value: ir.Value) -> str:
    """As the program calls it, `p['up']`, if it does, also around a manual computation; else where it is made."""
    around = value.owner.owner.operation if isinstance(value.owner, ir.Block) else None
    if around is not None and around.name == MANUAL:
        return name_of(around.operands[ir.BlockArgument(value).arg_number])
    source = source_of(value.location)
    return source.scope or str(source)


def _named(axes: Axes, names: frozenset[str]) -> Axes:
    return tuple(axis for axis in axes if axis.name in names)


def _at_use(parameter: Parameter, axes: Axes, element: ir.Type) -> int:
    """The bytes per device that one gather at use takes over `axes`; none over no axis."""
    return _bytes(parameter, axes, element) if axes else 0


def _bytes(parameter: Parameter, axes: Axes, element: ir.Type) -> int:
    """The bytes of the parameter per device, gathered over `axes`."""
    sharding = parameter.sharding
    left = sharding._replace(dimensions=without(sharding.dimensions, axes))
    own = ir.RankedTensorType(parameter.value.type)
    return shard_bytes(parameter.value, left) * bytes_of(in_element_type(own, element)) // bytes_of(own)
