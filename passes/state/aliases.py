"""Pairs of a result and an argument that it may overwrite."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.ir.signature import ALIAS, Signature, Slot
from paropt.passes.ir.types import bytes_of, tensor_of
from paropt.passes.sharding.collectives import partition_count
from paropt.passes.sharding.distributions import Distribution, distribution_of
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.sharding.shardings import GSPMD_SHARDING, SHARDING
from paropt.passes.state.updates import distances, reader_after
from paropt.passes.support.remarks import Declined, require
from paropt.passes.support.traversal import module_of

_SHARED = ("jax.token", "jax.const", "jax.global_constant")
_MEMORY, _LAYOUT = "mhlo.memory_kind", "mhlo.layout_mode"


class Overwrite(NamedTuple):
    """A result that may be written over an argument."""

    argument: int
    result: int
    is_certain: bool  # each device has as many bytes of the one as of the other; else XLA decides
    is_update: bool  # the result is computed from the argument through values of its type


class Aliases:
    """The results of one function, and the arguments that they may overwrite. Holds live values: use it at once."""

    def __init__(self, signature: Signature, *, types_only: bool = False) -> None:
        """`types_only`: whatever the memory, the layout and the sharding of a result."""
        self.signature = signature
        self._types_only = types_only
        module = module_of(signature.function)
        self._meshes = meshes_of(module)
        self.is_whole = partition_count(module) <= 1 and all(len(m.device_ids) == 1 for m in self._meshes.values())
        self._distances = [distances(signature, slot.number) for slot in signature.results]
        self._by_type: dict[ir.Type, list[Slot]] = {}
        for slot in signature.results:
            self._by_type.setdefault(slot.type, []).append(slot)
        self._distributions = {
            (slot.kind, slot.number): distribution_of(slot.notes[SHARDING], self._meshes)
            for slot in (*signature.arguments, *signature.results)
            if SHARDING in slot.notes
        }
        self._fitting: dict[int, list[Slot] | Declined] = {}

    def fitting(self, argument: Slot) -> list[Slot]:
        """The results that could be written over the argument, if it is their turn. Raises Declined for none."""
        if argument.number not in self._fitting:
            try:
                self._fitting[argument.number] = self._found_fitting(argument)
            except Declined as declined:
                self._fitting[argument.number] = declined
        found = self._fitting[argument.number]
        if isinstance(found, Declined):
            raise found
        return found

    def _found_fitting(self, argument: Slot) -> list[Slot]:
        is_own = _is_array(argument.value) and not any(name in argument.notes for name in _SHARED)
        require(is_own, "it is no array of its own, but a token, or a constant that calls share")
        found = self._by_type.get(argument.type, [])
        require(bool(found), f"no result has its type, {argument.type}")
        if self._types_only:
            return found
        other = found[0]
        found = [slot for slot in found if _told(slot, _MEMORY) == _told(argument, _MEMORY)]
        require(bool(found), f"{other} is in other memory: {_told(other, _MEMORY)}, and not {_told(argument, _MEMORY)}")
        other = found[0]
        found = [slot for slot in found if _told(slot, _LAYOUT) == _told(argument, _LAYOUT)]
        require(bool(found), f"{other} has another layout: {_told(other, _LAYOUT)}, and not {_told(argument, _LAYOUT)}")
        other = found[0]
        found = [slot for slot in found if self._may_lie_alike(argument, slot)]
        there, here = self.distribution(other), self.distribution(argument)
        require(bool(found), f"{other} is sharded otherwise: {there}, and not {here}")
        return found

    def pairs(self, arguments: Iterable[Slot], taken: Iterable[int] = ()) -> dict[int, Overwrite]:
        """Of the arguments, the result to write over each: first a new value of it, the nearest first.

        Results in `taken` are not used. Nothing is paired with an argument that is read after the result is written.
        """
        left = set(range(len(self.signature.results))).difference(taken)
        choices = {slot.number: self._numbers_fitting(slot) for slot in arguments}
        found: dict[int, Overwrite] = {}
        near = [
            (distance, not self._is_alias(argument, result), argument, result)
            for result in sorted(left)
            for argument, distance in self._distances[result].items()
            if result in choices.get(argument, ())
        ]
        self._choose(sorted(near), left, found, is_update=True)
        # Those that are no new value of anything: as the module has them already, as they are called, as they come.
        others = [
            (not self._is_alias(argument, result), not self._has_name_of(argument, result), argument, result)
            for argument, results in choices.items()
            for result in (sorted(left.intersection(results)) if argument not in found else ())
        ]
        self._choose(sorted(others), left, found, is_update=False)
        return found

    def _choose(
        self,
        candidates: list[tuple[int, bool, int, int]],
        left: set[int],
        found: dict[int, Overwrite],
        *,
        is_update: bool,
    ) -> None:
        """Takes the candidates in order; each argument and each result once."""
        for _, _, argument, result in candidates:
            if argument in found or result not in left:
                continue
            if reader_after(self.signature, argument, result) is None:
                found[argument] = Overwrite(argument, result, self._is_certain(argument, result), is_update)
                left.discard(result)

    def is_update(self, argument: int, result: int) -> bool:
        """Whether the result could be a new value of the argument: it fits, and is computed from it."""
        computed = argument in self._distances[result]
        return computed and result in self._numbers_fitting(self.signature.arguments[argument])

    def distribution(self, slot: Slot) -> Distribution | None:
        """How the value is sharded; None when nothing says so."""
        return self._distributions.get((slot.kind, slot.number))

    def bytes_per_device(self, slot: Slot) -> int:
        """Of the value; of the whole of it, when its sharding is not known."""
        distribution = self.distribution(slot)
        return bytes_of(ir.RankedTensorType(slot.type)) // (distribution.shards if distribution else 1)

    def is_size_known(self, slot: Slot) -> bool:
        return self.is_whole or self.distribution(slot) is not None

    def _numbers_fitting(self, argument: Slot) -> frozenset[int]:
        try:
            return frozenset(slot.number for slot in self.fitting(argument))
        except Declined:
            return frozenset()

    def _is_alias(self, argument: int, result: int) -> bool:
        return alias_of(self.signature.arguments[argument]) == result

    def _has_name_of(self, argument: int, result: int) -> bool:
        """Whether both have the same place in trees of the same structure, as `state['w']` and `result[0]['w']`."""
        place = place_of(self.signature.arguments[argument])
        return bool(place) and self.signature.results[result].path.endswith(place)

    def _is_certain(self, argument: int, result: int) -> bool:
        one, other = self.signature.arguments[argument], self.signature.results[result]
        return self.is_whole or self._lie_alike(one, other) is True

    def _may_lie_alike(self, argument: Slot, result: Slot) -> bool:
        return self.is_whole or self._lie_alike(argument, result) is not False

    def _lie_alike(self, argument: Slot, result: Slot) -> bool | None:
        """Whether both are cut in the same way over the devices; None when that cannot be known before XLA decides."""
        if GSPMD_SHARDING in argument.notes and GSPMD_SHARDING in result.notes:
            return True if argument.notes[GSPMD_SHARDING] == result.notes[GSPMD_SHARDING] else None
        one, other = self.distribution(argument), self.distribution(result)
        if one and other and one.is_whole and other.is_whole and one.is_closed and other.is_closed:
            return True
        if one is None or other is None or one.mesh != other.mesh or not (one.is_closed and other.is_closed):
            return None
        return one == other


def place_of(argument: Slot) -> str:
    """Where the array is in its argument: `['w']` of `state['w']`."""
    return re.sub(r"^\w+", "", argument.path)


def alias_of(argument: Slot) -> int | None:
    """The result that the module says is written over the argument."""
    return ir.IntegerAttr(argument.notes[ALIAS]).value if ALIAS in argument.notes else None


def _is_array(value: ir.Value) -> bool:
    """Whether it is a tensor of a known size in bytes."""
    tensor = tensor_of(value)
    return tensor is not None and isinstance(tensor.element_type, ir.IntegerType | ir.FloatType | ir.ComplexType)


def _told(slot: Slot, note: str) -> str:
    return ir.StringAttr(slot.notes[note]).value if note in slot.notes else "the default"
