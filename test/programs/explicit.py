"""The training programs with `jax.shard_map`: reductions of gradients are in the program that XLA gets.

With `check_vma=False` the user sums the gradients. With `check_vma=True` jax does: it knows over which axes a parameter
is the same, and puts a psum where the backward pass meets each use of one; another psum would count them twice.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.sharding import PartitionSpec
from programs import steps
from programs.models import Model, Step, same
from programs.patterns import ADDED, Gradient, Pattern, Result
from programs.program import DEFAULT, Devices, Program, Sizes, Tree, mesh_of, replicated, split, split_dimension
from programs.steps import Layout

Build = Callable[..., Model]

DEFERRED = "one reduction of every gradient, and of what else the loop sums over devices, after the loop"
REFUSED = "refused: the summed gradient of a micro-batch is read in the loop"
SCATTERED = "left as it is: a reduce_scatter leaves a loop only by an option"


def psum(tree: Tree) -> Tree:
    return lax.psum(tree, "data")


def pmean(tree: Tree) -> Tree:
    return lax.pmean(tree, "data")


def data_parallel(
    build: Build,
    pattern: Pattern,
    sizes: Sizes = DEFAULT,
    devices: Devices = None,
    *,
    sync: Step = psum,
    check_vma: bool = False,
    integers: bool = False,
) -> Program:
    """Parameters on all devices: P0 to P5, P8 to P10, P12 and P13; `sync` sums the gradients of a micro-batch."""
    model = build(sizes, integers) if integers else build(sizes)
    layout = steps.data_parallel(model, mesh_of(devices, data=-1))
    scale = 1 / layout.mesh.size if sync is pmean else 1.0
    gradient = _gradient(model.loss, layout, same if check_vma else sync)
    return steps.program(
        _mapped(_plain_update(gradient, pattern), model, pattern, layout, check_vma),
        model,
        pattern,
        layout,
        expected=REFUSED if pattern.must_stay else DEFERRED,
        is_deferrable=not pattern.must_stay,
        reference=steps.definition(model, pattern, scale),
    )


def fully_sharded(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P6: parameters split over `data` and gathered at use; jax turns the gather into a psum_scatter of gradients."""
    model, mesh = build(sizes), mesh_of(devices, data=-1)
    specs = split(model.parameters, "data", mesh.size)
    layout = Layout(mesh, ("data",), specs, replicated(specs), frozenset({mesh.size}))
    return _gathering(model, layout, same)


def hybrid_sharded(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P7: split over `data`, replicated over `replica`; the user sums over the replicas."""
    model, mesh = build(sizes), mesh_of(devices, replica=2, data=-1)
    specs = split(model.parameters, "data", mesh.shape["data"])
    groups = frozenset({2, mesh.shape["data"], mesh.size})
    layout = Layout(mesh, ("replica", "data"), specs, replicated(specs), groups)
    return _gathering(model, layout, lambda gradients: lax.psum(gradients, "replica"))


def sharded_layers(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P17: stacked parameters split over `data`; each block gathers its layer, again in the backward pass."""
    mesh = mesh_of(devices, data=-1)
    specs = split(build(sizes).parameters, "data", mesh.size)
    layout = Layout(mesh, ("data",), specs, replicated(specs), frozenset({mesh.size}))
    return _gathering_layers(build, sizes, layout, same)


def hybrid_sharded_layers(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P18: the same over `data`, replicated over `replica`; the user sums over the replicas."""
    mesh = mesh_of(devices, replica=2, data=-1)
    specs = split(build(sizes).parameters, "data", mesh.shape["data"])
    groups = frozenset({2, mesh.shape["data"], mesh.size})
    layout = Layout(mesh, ("replica", "data"), specs, replicated(specs), groups)
    return _gathering_layers(build, sizes, layout, lambda gradients: lax.psum(gradients, "replica"))


def _gathering_layers(build: Build, sizes: Sizes, layout: Layout, sync: Step) -> Program:
    of_layer = jax.tree.map(lambda spec: PartitionSpec(*spec[1:]), layout.parameters)
    model = build(sizes, on_layer=lambda layer: _gathered(layer, of_layer))
    step = _plain_update(_gradient(model.loss, layout, sync), ADDED)
    mapped = _mapped(step, model, ADDED, layout, check_vma=False)
    reference = steps.definition(build(sizes), ADDED)
    return steps.program(
        mapped, model, ADDED, layout, expected=SCATTERED, is_deferrable=False, reference=reference
    )  # fmt: skip


def _gathering(model: Model, layout: Layout, sync: Step) -> Program:
    def loss(shards: Tree, *micro_batch: jax.Array) -> jax.Array:
        return model.loss(_gathered(shards, layout.parameters), *micro_batch)

    step = _plain_update(_gradient(loss, layout, sync), ADDED)
    mapped = _mapped(step, model, ADDED, layout, check_vma=False)
    return steps.program(mapped, model, ADDED, layout, expected=SCATTERED, is_deferrable=False)


def zero1(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P11: each device keeps and updates its part of the momentum, then the parameters are gathered."""
    model, mesh = build(sizes), mesh_of(devices, data=-1)
    layout = steps.data_parallel(model, mesh)
    shards = split(model.parameters, "data", mesh.size)
    gradient = _gradient(model.loss, layout, psum)

    def step(state: Tree, *batches: jax.Array) -> Result:
        parameters, momentum = state
        gradients, losses = ADDED.accumulate(gradient, parameters, batches)
        momentum = steps.decayed(momentum, _own_part(gradients, shards, mesh.size))
        parameters = steps.updated(_own_part(parameters, shards, mesh.size), momentum)
        return (_gathered(parameters, shards), momentum), losses

    state_specs = (layout.parameters, shards)
    mapped = jax.shard_map(
        step,
        mesh=mesh,
        in_specs=(state_specs, *steps.batch_specs(layout, model, ADDED)),
        out_specs=(state_specs, PartitionSpec()),
        check_vma=False,
    )
    state = (model.parameters, steps.initial_momentum(model.parameters))
    return steps.program(
        mapped,
        model,
        ADDED,
        layout,
        expected=DEFERRED,
        is_deferrable=True,
        state=(state, state_specs),
        reference=steps.momentum_definition(model, ADDED),
    )


def tensor_parallel(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P14: blocks split over `model`, examples over `data`; reductions of activations have to stay."""
    mesh = mesh_of(devices, data=-1, model=2)
    model = build(sizes, reduce=lambda x: lax.psum(x, "model"))
    layout = Layout(mesh, ("data",), model.specs, model.specs, frozenset({mesh.shape["data"], mesh.size}))
    return _checked(model, layout, build(sizes))


def expert_parallel(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P15: experts split over `expert`, tokens sent to them and back; examples split over both axes."""
    mesh = mesh_of(devices, replica=-1, expert=2)
    model = build(
        sizes,
        to_experts=lambda x: lax.all_to_all(x, "expert", split_axis=0, concat_axis=1, tiled=True),
        to_examples=lambda x: lax.all_to_all(x, "expert", split_axis=1, concat_axis=0, tiled=True),
    )
    groups = frozenset({mesh.shape["replica"], mesh.size})
    layout = Layout(mesh, ("replica", "expert"), model.specs, model.specs, groups)
    return _checked(model, layout, build(sizes))


def _checked(model: Model, layout: Layout, whole: Model) -> Program:
    step = _plain_update(_gradient(model.loss, layout, same), ADDED)
    return steps.program(
        _mapped(step, model, ADDED, layout, check_vma=True),
        model,
        ADDED,
        layout,
        expected=DEFERRED,
        is_deferrable=True,
        reference=steps.definition(whole, ADDED),
    )


def _gradient(loss: Callable[..., jax.Array], layout: Layout, sync: Step) -> Gradient:
    """Of the examples on this device, then summed over devices by `sync`."""

    def gradient(parameters: Tree, *micro_batch: jax.Array) -> tuple[jax.Array, Tree]:
        value, gradients = jax.value_and_grad(loss)(parameters, *micro_batch)
        return lax.psum(value, layout.data), sync(gradients)

    return gradient


def _plain_update(gradient: Gradient, pattern: Pattern) -> Callable[..., Result]:
    def step(parameters: Tree, *batches: jax.Array) -> Result:
        gradients, extra = pattern.accumulate(gradient, parameters, batches)
        return steps.updated(parameters, gradients), extra

    return step


def _mapped(step: Callable[..., Any], model: Model, pattern: Pattern, layout: Layout, check_vma: bool) -> Any:
    return jax.shard_map(
        step,
        mesh=layout.mesh,
        in_specs=(layout.parameters, *steps.batch_specs(layout, model, pattern)),
        out_specs=(layout.parameters, PartitionSpec()),
        check_vma=check_vma,
    )


def _gathered(shards: Tree, specs: Tree) -> Tree:
    """The whole of a tree that is split over `data`."""

    def gathered(leaf: jax.Array, spec: PartitionSpec) -> jax.Array:
        dimension = split_dimension(spec)
        return leaf if dimension is None else lax.all_gather(leaf, "data", axis=dimension, tiled=True)

    return jax.tree.map(gathered, shards, specs)


def _own_part(tree: Tree, specs: Tree, parts: int) -> Tree:
    """This device's part of a tree, as `specs` split it over `data`."""

    def own(leaf: jax.Array, spec: PartitionSpec) -> jax.Array:
        dimension = split_dimension(spec)
        if dimension is None:
            return leaf
        size = leaf.shape[dimension] // parts
        return lax.dynamic_slice_in_dim(leaf, lax.axis_index("data") * size, size, dimension)

    return jax.tree.map(own, tree, specs)
