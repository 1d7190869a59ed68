"""The programs of an outlined step: compiled, checked, and run for each micro-batch."""

import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy
from jaxlib.mlir.passmanager import PassManager

from paropt.clusters.targets import lowered_for
from paropt.hlo.census import census
from paropt.hlo.participants import Layout
from paropt.hook.fallback import VerificationError
from paropt.hook.module_call import Function, shape_of
from paropt.modules.module_io import bytecode_of
from paropt.passes.outline.functions import ACCUMULATE, ACCUMULATE_AND_SYNC, APPLY, MICRO_BATCH, START, SYNC
from paropt.passes.outline.manifest import Manifest
from paropt.passes.sharding.meshes import meshes_of
from paropt.passes.support.remarks import Remark
from paropt.verify.tags import tags_of
from paropt.verify.verification import mismatches, prediction


class AccumulateError(ValueError):
    """The step cannot be cut into programs, or they are called with something else than they were made for."""


@dataclass
class Stream:
    """Micro-batches as they come."""

    first: Any
    others: Iterator[Any]
    count: int

    def __iter__(self) -> Iterator[list[Any]]:
        tree: Any = jax.tree.structure(self.first)
        yield jax.tree.leaves(self.first)
        for number in range(1, self.count):
            following = next(self.others, None)
            if following is None:
                raise AccumulateError(f"the iterator ended after {number} of {self.count} micro-batches")
            if jax.tree.structure(following) != tree:
                raise AccumulateError(f"micro-batch {number} has another structure than the first")
            yield jax.tree.leaves(following)


class Programs:
    """The compiled functions of one step, for arguments of one kind."""

    def __init__(
        self,
        module: ir.Module,
        found: Manifest,
        remarks: list[Remark],
        lowered: jax.stages.Lowered,
        mesh: Mesh | None,
        *,
        donated: Sequence[bool] | None,
    ) -> None:
        self.manifest = found
        self.remarks = remarks
        self._out_tree = jax.tree.structure(lowered.out_info)
        self._mesh = mesh
        self._shapes: dict[str, jax.ShapeDtypeStruct] = {}
        functions = ir.SymbolTable(module.operation)
        kinds = {
            name: ir.FunctionType(ir.TypeAttr(functions[stage.symbol].attributes["function_type"]).value)
            for name, stage in found.stages.items()
        }
        for name, stage in found.stages.items():
            self._shapes |= dict(zip(stage.arguments, map(shape_of, kinds[name].inputs), strict=True))
            self._shapes |= dict(zip(stage.results, map(shape_of, kinds[name].results), strict=True))
        for i, leaf in enumerate(jax.tree.leaves(lowered.out_info)):
            self._shapes[f"result{i}"] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        # jax lowers with meshes spelled out, and names them itself.
        PassManager.parse("builtin.module(sdy-inline-meshes)", module.context).run(module.operation)
        bytecode = bytecode_of(module)
        self._jitted = {name: self._compiled(name, bytecode, donated) for name in found.stages}
        self._verified: set[str] = set()

    def _compiled(self, name: str, bytecode: bytes, donated: Sequence[bool] | None) -> Any:
        stage = self.manifest.stages[name]
        function = Function(bytecode, stage.symbol, tuple(self._shapes[result] for result in stage.results))

        def called(*arguments: Any) -> list[Any]:
            return function(*arguments)

        called.__name__ = called.__qualname__ = name
        given = self._given_away(name, donated)
        return jax.jit(
            called,
            out_shardings=[self._sharding(result, name) for result in stage.results],
            donate_argnums=given,
            keep_unused=True,
        )

    def _given_away(self, name: str, donated: Sequence[bool] | None) -> list[int]:
        """The arguments that nothing needs after the function; of those of the step, the ones that its caller
        donates."""
        taken = self.manifest.stages[name].arguments
        if name == APPLY and donated is not None:
            kept = {f"argument{i}" for i, may_go in enumerate(donated) if not may_go}
            return [i for i, _ in self.manifest.aliases(name) if taken[i] not in kept]
        later = self.manifest.stages[APPLY].arguments if name == SYNC else []
        return [i for i, value in enumerate(taken) if value.startswith(("carried", "synced")) and value not in later]

    def _lowered(self, name: str, arguments: list[Any]) -> jax.stages.Lowered:
        with warnings.catch_warnings():  # donated arrays are ours, and some programs have no use for all of them
            warnings.filterwarnings("ignore", "Some donated buffers were not usable")
            return self._jitted[name].lower(*arguments)

    def _sharding(self, value: str, stage: str) -> NamedSharding | None:
        """How a value is split; None when XLA chooses."""
        if self._mesh is None:
            return None
        attribute = self.manifest.shardings.get(value)
        if attribute is not None:
            spec = spec_of(attribute)
            if spec is not None:
                return NamedSharding(self._mesh, spec)
        # Nothing else tells jax which devices the first program is for.
        return NamedSharding(self._mesh, PartitionSpec()) if stage == START else None

    @functools.cached_property
    def trips(self) -> list[Any]:
        """The number of each trip, on the devices, which are there when programs run."""
        start, _, step = self.manifest.counting
        if "trip" not in self._shapes:
            return [None] * self.manifest.counting.trips
        numbers = [
            np.asarray(start + i * step, self._shapes["trip"].dtype) for i in range(self.manifest.counting.trips)
        ]
        return [jax.device_put(number, self._everywhere()) for number in numbers]

    def _everywhere(self) -> NamedSharding | None:
        return NamedSharding(self._mesh, PartitionSpec()) if self._mesh is not None else None

    def run(self, leaves: list[Any], stream: Stream | None) -> Any:
        """One step. With a stream, `leaves` are those of the state."""
        values = {f"argument{i}": leaf for i, leaf in enumerate(leaves)}
        stages = self.manifest.stages
        self.call(START, values)
        coming = iter(stream) if stream is not None else None
        for i, trip in enumerate(self.trips):
            values["trip"] = trip
            if coming is not None:
                values |= self._rows(next(coming), len(leaves))
            elif MICRO_BATCH in stages:
                self.call(MICRO_BATCH, values)
            is_last = i == len(self.trips) - 1 and ACCUMULATE_AND_SYNC in stages
            self.call(ACCUMULATE_AND_SYNC if is_last else ACCUMULATE, values)
        if SYNC in stages and ACCUMULATE_AND_SYNC not in stages:
            self.call(SYNC, values)
        self.call(APPLY, values)
        results = [values[name] for name in stages[APPLY].results]
        return jax.tree.unflatten(self._out_tree, results)

    def _rows(self, leaves: list[Any], first: int) -> dict[str, Any]:
        """The parts of a micro-batch; `first` is the number of the step's first argument that is of the batch."""
        found = {}
        for name, source in self.manifest.rows.items():
            shape = self._shapes[name]
            leaf = leaves[int(source.removeprefix("argument")) - first]
            if np.size(leaf) != np.prod(shape.shape, dtype=int) or jnp.result_type(leaf) != shape.dtype:
                other = f"{jnp.result_type(leaf)}{list(np.shape(leaf))}"
                raise AccumulateError(f"a micro-batch has {other} where the first has {shape.dtype}{list(shape.shape)}")
            found[name] = leaf if np.shape(leaf) == shape.shape else jnp.reshape(leaf, shape.shape)
        return found

    def call(self, name: str, values: dict[str, Any]) -> None:
        stage = self.manifest.stages[name]
        arguments = [values[argument] for argument in stage.arguments]
        if name not in self._verified:
            _verify(name, self._lowered(name, arguments))
            self._verified.add(name)
        made = self._jitted[name](*arguments)
        values.update(zip(stage.results, made, strict=True))

    def lowered(self, leaves: list[Any]) -> dict[str, jax.stages.Lowered]:
        values: dict[str, Any] = {f"argument{i}": leaf for i, leaf in enumerate(leaves)}
        if "trip" in self._shapes:
            shape = self._shapes["trip"]
            values["trip"] = jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=self._everywhere())
        found = {}
        for name in (each for each in _ORDER if each in self._jitted):
            stage = self.manifest.stages[name]
            found[name] = self._lowered(name, [values[argument] for argument in stage.arguments])
            # The next program is compiled for the shardings that XLA chooses for results.
            shardings = found[name].compile().output_shardings
            for result, sharding in zip(stage.results, shardings, strict=True):
                shape = self._shapes[result]
                values[result] = jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding)
        return found


def _verify(name: str, lowered: jax.stages.Lowered) -> None:
    """Raises VerificationError when the executable's reductions differ from the program's."""
    module: Any = lowered.compiler_ir()
    if tags_of(module.operation):
        predicted, layout = prediction(module.operation), Layout.of_module(module)
        text = lowered.compile().as_text()  # jax compiles a program once
        wrong = mismatches(predicted, census(text, layout)) if text is not None else []
        if wrong:
            raise VerificationError(f"XLA lost what {name} says of its sums: {wrong[0]}")


_ORDER = (START, MICRO_BATCH, ACCUMULATE, ACCUMULATE_AND_SYNC, SYNC, APPLY)


def mesh_of(module: ir.Module, lowered: jax.stages.Lowered, leaves: list[Any]) -> Mesh | None:
    """The mesh of the module, of the devices that it was lowered for: that of an argument, if it is one."""
    devices = lowered_for(lowered)
    given: list[Any] = [
        leaf.sharding.mesh for leaf in leaves if isinstance(getattr(leaf, "sharding", None), NamedSharding)
    ]
    for mesh in meshes_of(module.operation).values():
        if len(mesh.device_ids) == len(devices) > 1:
            placed = np.array([devices[i] for i in mesh.device_ids]).reshape([size for _, size in mesh.axes])
            made = Mesh(placed, mesh.names)
            return next((m for m in given if m.shape == made.shape and (m.devices == placed).all()), made)
    return None


def spec_of(attribute: ir.Attribute) -> PartitionSpec | None:
    """The sharding in jax's terms; None where it leaves something open, or jax has no such terms."""
    sharding = sdy.TensorShardingAttr(attribute)
    dimensions = [sdy.DimensionShardingAttr(dimension) for dimension in sharding.dimension_shardings]
    axes = [[sdy.AxisRefAttr(axis) for axis in dimension.axes] for dimension in dimensions]
    parts = any(axis.sub_axis_info is not None for each in axes for axis in each)
    if parts or sharding.unreduced_axes or not all(dimension.is_closed for dimension in dimensions):
        return None
    names = [tuple(axis.name for axis in each) for each in axes]
    return trimmed([each[0] if len(each) == 1 else each or None for each in names])


def trimmed(spec: Any) -> PartitionSpec:
    """The spec without its last dimensions that no axis shards: others write it so."""
    axes = list(spec)
    while axes and axes[-1] is None:
        axes.pop()
    return PartitionSpec(*axes)
