"""Whether the parts of an unreduced value stay on their devices.

Where consecutive ops shard a value differently, XLA moves parts of it between devices. It takes a part from any device
that holds it, but each device holds a different addend of an unreduced value: the result is a sum of wrong addends,
silently. Nothing is moved where each device cuts its own part, or where parts are joined within each group of devices
that hold addends of the same sum.

Target: CPU, TPU, GPU.
Measured with: jaxlib 0.10.2 with libtpu 0.0.42; 0.12.0.1 with libtpu 0.0.50 (CPU and TPU).
Reproducer: test/numeric/test_xla_quirks.py::test_xla_still_does_it.
"""

from collections.abc import Callable, Mapping, Sequence

from jaxlib.mlir import ir

from paropt.passes.dataflow.unreduced import Unreduced
from paropt.passes.dataflow.xla_tracking import PARTS_MOVE, UNEQUAL_PARTS
from paropt.passes.sharding.axes import Axes, Axis, whole_axes
from paropt.passes.sharding.op_rules import Factors, ShardingRule, parse_rule
from paropt.passes.sharding.propagation import Propagated
from paropt.passes.sharding.shardings import Sharding, is_even, mesh_behind, units_of, without
from paropt.passes.support.remarks import require
from paropt.passes.support.traversal import module_of, op_of

Split = dict[str, Axes]  # by factors of a sharding rule: parts of prime size, as of `units_of`


def require_in_place(
    found: Unreduced,
    shardings: Mapping[ir.Value, Sharding],
    module: ir.Operation,
    rules: Callable[[], Propagated],
) -> None:
    """Declines where an op makes XLA move an unreduced value, when op results are sharded as `shardings` says.

    `rules` is asked for sharding rules, if any are needed: to find them takes a copy of the module.
    """
    if not any(sharding.axes for sharding in shardings.values()):
        return
    for value, addends in found.addends.items():
        op = op_of(value)
        text = rules().sharding_rule(op)
        rule = parse_rule(text) if text else None
        after = split_by(shardings[value], rule.results[0] if rule else None, rule, module)
        for operand in addends:
            if op.operands[operand] in found.values:
                alike = op.operands[operand].type == value.type
                require(
                    rule is not None or alike,
                    "Shardy has no rule for the parts of an unreduced value",
                    op,
                )
                lies = _lies(op.operands[operand], shardings)
                before = split_by(lies, rule.operands[operand] if rule else None, rule, module)
                require_kept(before, after, op)
    for result, use in found.entries():
        if use.value in found.values:
            before, after = (split_by(_lies(each, shardings), None, None, module) for each in (use.value, result))
            require_kept(before, after, use.op)


def require_kept(before: Split, after: Split, op: ir.Operation) -> None:
    """Declines unless parts are only cut, or only joined."""
    require(_is_kept(before, after), PARTS_MOVE, op)


def require_cut_in_place(
    op: ir.Operation, rule: ShardingRule, lies: Sequence[Sharding | None], left: Sharding, axes: Axes
) -> None:
    """Declines where XLA cuts the result of a product in other places than it is to, and adds wrong parts.

    Where the result, of addends over `axes`, is to be sharded as `left` says and an operand is not, XLA cuts the
    operand over the first axes whose devices have the same, and then moves parts from where these are first to where
    `left` says. Of the devices with addends it remembers no more than the order: one of `axes` that is in between has
    others.
    """
    module = module_of(op)
    mesh = mesh_behind(module, left.mesh)
    cut = split_by(left, rule.results[0], rule, module)
    anew = [
        unit for dims, own in zip(rule.operands, lies, strict=True) for unit in _cut_anew(cut, dims, own, rule, module)
    ]
    if mesh is None or not anew:
        return
    units = units_of(module, left.mesh, whole_axes(mesh.names))
    added = units_of(module, left.mesh, axes)
    used = {*added, *(unit for over in cut.values() for unit in over)}
    same = next((unit for unit in units if unit not in used), None)
    if same is None:
        return
    kept = mesh.is_in_order and used.issubset(units)
    between = units[units.index(same) : max(map(units.index, anew))] if kept else added
    why = f"its result is sharded over `{anew[0].name}`, its operands are not, and nothing is over `{same.name}`"
    require(not {*added} & {*between}, f"{why}: XLA would add wrong parts", op)


def _cut_anew(
    cut: Split, dimensions: tuple[Factors, ...], sharding: Sharding | None, rule: ShardingRule, module: ir.Operation
) -> list[Axis]:
    """The axes over which `cut` splits those factors of an operand that are split otherwise."""
    own = split_by(sharding, dimensions, rule, module) if sharding is not None else {}
    read = [factor for factors in dimensions for factor in factors if own.get(factor) != cut.get(factor)]
    return [unit for factor in read for unit in cut.get(factor, ())]


def _is_kept(before: Split, after: Split) -> bool:
    pairs = [(before.get(factor, ()), after.get(factor, ())) for factor in before | after]
    cut = all(new[: len(old)] == old for old, new in pairs)
    joined = all(old[: len(new)] == new for old, new in pairs)
    return cut or joined


def why_not_in_place(op: ir.Operation, addend: ir.Value, axes: Axes, propagated: Propagated) -> str:
    """Why the result of `op` on `addend`, unreduced over `axes`, can't have the sharding that XLA would infer; "" if it
    can."""
    after = _left(op.results[0], axes, propagated)
    module = module_of(op)
    if after is not None and not is_even(op.results[0], after, module):
        return UNEQUAL_PARTS
    before = _left(addend, axes, propagated) if after is not None else None
    text = propagated.sharding_rule(op) if before is not None and before != after else ""
    if before is None or after is None or not text:
        return ""  # nothing is moved, or nothing is known: `require_in_place` finds out
    rule = parse_rule(text)
    cut = split_by(after, rule.results[0], rule, module)
    lies = [split_by(before, rule.operands[i], rule, module) for i, each in enumerate(op.operands) if each == addend]
    return "" if all(_is_kept(split, cut) for split in lies) else PARTS_MOVE


def _left(value: ir.Value, axes: Axes, propagated: Propagated) -> Sharding | None:
    """The sharding that XLA would infer for `value`, without `axes`; None: replicated, or a block argument."""
    sharding = propagated.sharding_of(value) if isinstance(value, ir.OpResult) else None
    if sharding is None:
        return None
    left = sharding._replace(dimensions=without(sharding.dimensions, axes))
    return left if any(left.dimensions) else None


def _lies(value: ir.Value, shardings: Mapping[ir.Value, Sharding]) -> Sharding:
    """The sharding of `value`; that of a loop-carried value is the loop result's."""
    if isinstance(value.owner, ir.Block):
        return _lies(value.owner.owner.operation.results[ir.BlockArgument(value).arg_number], shardings)
    return shardings[value]


def split_by(
    sharding: Sharding, dimensions: tuple[Factors, ...] | None, rule: ShardingRule | None, module: ir.Operation
) -> Split:
    """The axes that shard each factor; without a rule, each dimension is a factor of its own."""
    if dimensions is None or rule is None:
        cut = enumerate(sharding.dimensions)
        return {f"dimension {number}": units_of(module, sharding.mesh, axes) for number, axes in cut if axes}
    split: Split = {}
    for factors, axes in zip(dimensions, sharding.dimensions, strict=True):
        units = list(units_of(module, sharding.mesh, axes))
        for factor in factors:
            size = rule.sizes[factor]
            while units and size % units[0].part == 0:
                split[factor] = (*split.get(factor, ()), units.pop(0))
                size //= split[factor][-1].part
            if size > 1:
                break  # only where a factor is in single elements, the next one is split
        if units:
            split[" ".join(factors)] = tuple(units)
    return split
