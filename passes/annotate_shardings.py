"""Shardings of arguments by rules on their names and roles."""

import difflib
from contextlib import suppress
from math import prod
from typing import Annotated, NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.loops import Loop
from paropt.passes.ir.signature import Signature, Slot, signatures
from paropt.passes.ir.signature_edits import Notes, note_arguments, note_results
from paropt.passes.ir.types import bytes_of, tensor_of
from paropt.passes.sharding.distributions import distribution_of
from paropt.passes.sharding.meshes import Mesh, meshes_of
from paropt.passes.sharding.shardings import SHARDING
from paropt.passes.state.alike_shardings import Gradient, Placements, State, differ
from paropt.passes.state.argument_roles import BATCH, Roles, examples_dimension, plain_path
from paropt.passes.state.batched_arguments import rules_of
from paropt.passes.state.placement_edits import constrain_sum, gather_at_uses, sharding_attribute
from paropt.passes.state.role_rules import REST, Rule, RuleError, Rules, load
from paropt.passes.state.token_exchange import Exchange, constrain_exchanges, exchanges_for
from paropt.passes.support.pipeline import PipelineError
from paropt.passes.support.registry import register
from paropt.passes.support.remarks import Declined, Remark, applied, missed, require

NAME = "annotate-shardings"

GRADIENT = "gradient"  # a role of no argument

Axes = tuple[tuple[str, ...], ...]  # of each dimension


@register(inlines=True)
def annotate_shardings(
    module: ir.Operation,
    *,
    rules: Annotated[
        str, "A TOML file of rules, described in docs/sharding-rules.md; it or a preset has to be given."
    ] = "",
    preset: Annotated[str, "Rules that follow those of the file: dp, fsdp, hsdp, zero1, tp or moe."] = "",
) -> list[Remark]:
    """Shard arguments, results and gradients by rules on names, roles and sizes.

    Before:

        sdy.mesh @mesh = <["data"=8]>
        func main(%w loc("state['params']['kernel']")) -> (%new)

    After:

        sdy.mesh @mesh = <["data"=8]>
        func main(%w {sdy.sharding = <@mesh, [{"data"}, {}]>}) -> (%new {sdy.sharding = <@mesh, [{"data"}, {}]>})

    With the rule `{path = "params/**/kernel", shard = ["data", ""]}`. The first rule that matches an array counts.
    State is every argument that comes back as a result; its parameters are those with gradients that loops accumulate,
    or without such loops, those that other results depend on; all other state is optimizer state. All other arguments
    are the batch. Only arrays without a sharding get one: JAX has its own record of the others.

    Wrong rules, and axes that the mesh does not have, are errors. A rule that matches nothing is a remark.

    Legal when:

    - the array has no different sharding already
    - the number of devices along the axes divides the dimension
    - a rule names as many dimensions as the array has

    Sources: logical axis rules of Flax and MaxText, FSDP, ZeRO, Megatron-LM.
    """
    if not rules and not preset:
        raise PipelineError(f"{NAME} needs rules or a preset: {NAME}{{rules=FILE}} or {NAME}{{preset=fsdp}}")
    found = next(((name, mesh) for name, mesh in meshes_of(module).items() if len(mesh.device_ids) > 1), None)
    try:
        known = load(rules, preset)
        if found is None:
            return [missed(NAME, module, Declined("the module has no mesh"))]
        return [r for s in signatures(module) for r in _Annotation(module, s, known, *found).run()]
    except RuleError as error:
        raise PipelineError(f"{NAME}: {error}") from error


class Decision(NamedTuple):
    """The sharding that a rule gives an array."""

    rule: Rule
    sharding: ir.Attribute
    words: str


class _Annotation:
    def __init__(self, module: ir.Operation, signature: Signature, rules: Rules, name: str, mesh: Mesh) -> None:
        self._module = module
        self._signature = signature
        self._rules = rules
        self._mesh_name = name
        self._mesh = mesh
        self._meshes = meshes_of(module)
        self._placements = Placements(module, settled=False)
        self._roles = Roles(signature)
        self._used: set[str] = set()
        self._arguments: dict[int, Notes] = {}  # the annotations to write
        self._results: dict[int, Notes] = {}

    def run(self) -> list[Remark]:
        replaced = {state.old.number: state for state in self._roles.states}
        remarks = [
            remark
            for slot in self._signature.arguments
            if (remark := self._annotate(slot, replaced.get(slot.number))) is not None
        ]
        note_arguments(self._signature.function, self._arguments)
        note_results(self._signature.function, self._results)
        for gradient in self._roles.gradients:
            remarks += [r for r in (self._annotate_gradient(gradient), self._gather(gradient)) if r is not None]
        return remarks + self._exchange_all() + self._unused()

    def _annotate(self, slot: Slot, state: State | None) -> Remark | None:
        rule = self._rule(slot, self._roles.of(slot))
        if rule is None:
            return None
        function = self._signature.function
        try:
            decision = self._decision(rule, slot)
            given = distribution_of(slot.notes[SHARDING], self._meshes) if SHARDING in slot.notes else None
            wanted = distribution_of(decision.sharding, self._meshes)
            is_free = SHARDING not in slot.notes or (given is not None and not differ(given, wanted))
            require(is_free, f"{slot} is sharded {given} by its caller, and {rule.name} says {wanted}")
        except Declined as declined:
            return missed(NAME, function, declined)
        if SHARDING not in slot.notes:
            self._arguments[slot.number] = {SHARDING: decision.sharding}
        if state is not None and SHARDING not in state.new.notes:
            self._results[state.new.number] = {SHARDING: decision.sharding}
        return applied(NAME, function, f"{slot} is sharded {decision.words} by {rule.name}")

    def _annotate_gradient(self, gradient: Gradient) -> Remark | None:
        loop, parameter = Loop(gradient.loop), gradient.parameter
        rule = self._rule(parameter, (GRADIENT,))
        if rule is None:
            return None
        try:
            decision = self._decision(rule, parameter)
            wanted = distribution_of(decision.sharding, self._meshes)
            for given in self._placements.of_carried(loop, gradient.position):
                what = f"the gradient of {parameter} is sharded {given} already"
                require(not differ(given, wanted), f"{what}, and {rule.name} says {wanted}")
        except Declined as declined:
            return missed(NAME, loop.op, declined)
        constrain_sum(loop, gradient.position, decision.sharding, self._placements, also_after=False)
        return applied(NAME, loop.op, f"the gradient of {parameter} is sharded {decision.words} by {rule.name}")

    def _gather(self, gradient: Gradient) -> Remark | None:
        """Makes the loop read the parameter without the cuts that its rule says are for storage only."""
        parameter = gradient.parameter
        rule = self._rule(parameter, self._roles.of(parameter))
        if rule is None or not rule.gather:
            return None
        axes = self._rules.axes(rule.gather, self._mesh.names, rule.name)
        try:
            cut = self._axes(rule, parameter)
        except Declined:
            return None  # a remark says so already
        left = [[axis for axis in names if axis not in axes] for names in cut]
        if not gather_at_uses(parameter.value, left, self._mesh_name):
            return None
        return applied(NAME, gradient.loop, f"{parameter} is gathered over {', '.join(axes)} at use by {rule.name}")

    def _exchange_all(self) -> list[Remark]:
        """Keeps parameters sharded where they are multiplied: the other operand is exchanged instead."""
        found = [(slot, self._rule(slot, self._roles.of(slot))) for slot in self._signature.arguments]
        asked = [(slot, rule) for slot, rule in found if rule is not None and rule.exchange]
        if not asked:
            return []
        rule_of = rules_of(self._module)
        remarks, exchanges = [], list[Exchange]()
        for slot, rule in asked:
            over = self._rules.axes(rule.exchange, self._mesh.names, rule.name)
            try:
                cut = self._axes(rule, slot)
            except Declined:
                continue  # a remark says so already
            kept = {number: names for number, names in enumerate(cut) if names and set(names) <= set(over)}
            made = exchanges_for(self._signature.function, slot.value, kept, rule_of)
            if made:
                exchanges += made
                what = f"{slot} stays over {', '.join(over)} where it is multiplied, by {rule.name}"
                remarks.append(applied(NAME, self._signature.function, what))
        constrain_exchanges(exchanges, self._mesh_name, self._axes_of_examples(), rule_of)
        return remarks

    def _axes_of_examples(self) -> set[str]:
        """The axes by which rules cut examples."""
        rules = [
            (slot, self._rule(slot, roles)) for slot in self._signature.arguments for roles in [self._roles.of(slot)]
        ]
        found = set[str]()
        for slot, rule in rules:
            if rule is not None and BATCH in self._roles.of(slot):
                with suppress(Declined):  # a remark says so already
                    found |= {axis for names in self._axes(rule, slot) for axis in names}
        return found

    def _rule(self, slot: Slot, roles: tuple[str, ...]) -> Rule | None:
        """The first rule that is about the array."""
        tensor = tensor_of(slot.value)
        if tensor is None or not isinstance(tensor.element_type, ir.IntegerType | ir.FloatType | ir.ComplexType):
            return None
        path = plain_path(slot.path)
        for rule in self._rules.rules:
            if (rule.role == GRADIENT) == (GRADIENT in roles) and rule.fits(path, roles, bytes_of(tensor), tensor.rank):
                self._used.add(rule.name)
                return rule
        return None

    def _decision(self, rule: Rule, slot: Slot) -> Decision:
        axes = self._axes(rule, slot)
        words = "[" + ", ".join("{" + ", ".join(names) + "}" for names in axes) + "]"
        context = self._signature.function.context
        return Decision(rule, sharding_attribute(self._mesh_name, axes, context), words)

    def _axes(self, rule: Rule, slot: Slot) -> Axes:
        """By which axes each dimension is cut. Raises Declined, and RuleError for a wrong rule."""
        shape = ir.RankedTensorType(slot.type).shape
        named = [() if name == REST else self._rules.axes(name, self._mesh.names, rule.name) for name in rule.axes]
        match rule.action:
            case "largest":
                return self._cut(shape, self._largest(shape, named[0]), named[0])
            case "examples":
                dimension = examples_dimension(slot)
                return self._cut(shape, dimension if dimension < len(shape) else None, named[0])
            case "shard":
                chosen = _spread(rule, named, slot)
            case _:
                chosen = tuple(() for _ in shape)
        return self._checked(rule, chosen, slot)

    def _largest(self, shape: list[int], axes: tuple[str, ...]) -> int | None:
        """The largest dimension that can be cut, the first of equals; None when there is none."""
        parts = self._parts(axes)
        fitting = [i for i, size in enumerate(shape) if size and size % parts == 0]
        return max(fitting, key=lambda i: (shape[i], -i)) if fitting else None

    def _cut(self, shape: list[int], dimension: int | None, axes: tuple[str, ...]) -> Axes:
        cut = tuple(axes if i == dimension else () for i in range(len(shape)))
        if dimension is not None:
            self._require_divisible(shape, dimension, axes)
        return cut

    def _checked(self, rule: Rule, axes: Axes, slot: Slot) -> Axes:
        used = [axis for names in axes for axis in names]
        twice = next((axis for axis in used if used.count(axis) > 1), None)
        if twice is not None:
            raise RuleError(f"{rule.name}: axis `{twice}` cuts two dimensions")
        shape = ir.RankedTensorType(slot.type).shape
        for dimension, names in enumerate(axes):
            self._require_divisible(shape, dimension, names)
        return axes

    def _require_divisible(self, shape: list[int], dimension: int, axes: tuple[str, ...]) -> None:
        parts = self._parts(axes)
        what = f"dimension {dimension} has size {shape[dimension]}, which {parts} devices along {', '.join(axes)}"
        require(shape[dimension] % parts == 0, f"{what} do not divide")

    def _parts(self, axes: tuple[str, ...]) -> int:
        return prod(dict(self._mesh.axes)[axis] for axis in axes)

    def _unused(self) -> list[Remark]:
        """A remark for each rule of the user's own that is about nothing."""
        paths = [path for slot in self._signature.arguments if (path := plain_path(slot.path))]
        remarks = []
        for rule in self._rules.rules:
            if rule.path and rule.name not in self._used and not rule.name.startswith("preset "):
                near = difflib.get_close_matches(rule.path, paths, n=1, cutoff=0.3)
                hint = f"; the closest is `{near[0]}`" if near else ""
                reason = Declined(f"{rule.name} (`{rule.path}`) is about no argument{hint}")
                remarks.append(missed(NAME, self._signature.function, reason))
        return remarks


def _spread(rule: Rule, named: list[tuple[str, ...]], slot: Slot) -> Axes:
    """The axes of each dimension: `...` stands for as many as there are."""
    rank = ir.RankedTensorType(slot.type).rank
    count = len(named)
    if REST not in rule.axes:
        require(count == rank, f"{slot} has {rank} dimensions, and {rule.name} names {count}")
        return tuple(named)
    require(count - 1 <= rank, f"{slot} has {rank} dimensions, and {rule.name} names {count - 1}")
    at = rule.axes.index(REST)
    return (*named[:at], *[()] * (rank - count + 1), *named[at + 1 :])
