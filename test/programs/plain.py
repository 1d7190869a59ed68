"""The training programs with `jax.jit` and shardings only, as most users write them.

No reduction of gradients is written in them: XLA adds them when it splits the program over devices.
"""

from collections.abc import Callable

import jax
from jax.sharding import Mesh, PartitionSpec
from programs import steps
from programs.models import Model, Step, same
from programs.patterns import ADDED, Gradient, Pattern, Result
from programs.program import DEFAULT, Devices, Program, Sizes, Tree, constrained, mesh_of, replicated, split
from programs.steps import Layout

Build = Callable[..., Model]

DEFERRED = "each gradient is reduced once, after the loop"
REFUSED = "unchanged: the reduced gradient is read in the loop"
SPLIT = "gradients are scattered in the loop: their sums are split over the axis that they are reduced over"
HIERARCHICAL = "gradients are scattered over `data` in the loop, once over `replica` after it"


def data_parallel(build: Build, pattern: Pattern, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """Parameters on all devices: P0 to P5, P8 to P10, P12 and P13."""
    model = build(sizes)
    return program(model, pattern, steps.data_parallel(model, mesh_of(devices, data=-1)))


def fully_sharded(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P6: parameters and gradient sums split over `data`; parameters are gathered at use."""
    model, mesh = build(sizes), mesh_of(devices, data=-1)
    specs = split(model.parameters, "data", mesh.size)
    layout = Layout(mesh, ("data",), specs, replicated(specs), frozenset({mesh.size}))
    return program(model, ADDED, layout, gather=True, expected=SPLIT)


def hybrid_sharded(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P7: the same over `data`, replicated over `replica`."""
    model, mesh = build(sizes), mesh_of(devices, replica=2, data=-1)
    specs = split(model.parameters, "data", mesh.shape["data"])
    groups = frozenset({2, mesh.shape["data"], mesh.size})
    layout = Layout(mesh, ("replica", "data"), specs, replicated(specs), groups)
    return program(model, ADDED, layout, gather=True, expected=HIERARCHICAL)


def sharded_layers(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P17: stacked parameters and gradient sums split over `data`, activations by examples; XLA gathers at use."""
    mesh = mesh_of(devices, data=-1)
    model = build(sizes, on_batch=lambda x: constrained(x, PartitionSpec("data"), mesh))
    specs = split(model.parameters, "data", mesh.size)
    layout = Layout(mesh, ("data",), specs, replicated(specs), frozenset({mesh.size}))
    return program(model, ADDED, layout, expected=SPLIT, reference=steps.definition(build(sizes), ADDED))


def hybrid_sharded_layers(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P18: the same over `data`, replicated over `replica`."""
    mesh = mesh_of(devices, replica=2, data=-1)
    model = build(sizes, on_batch=lambda x: constrained(x, PartitionSpec(("replica", "data")), mesh))
    specs = split(model.parameters, "data", mesh.shape["data"])
    groups = frozenset({2, mesh.shape["data"], mesh.size})
    layout = Layout(mesh, ("replica", "data"), specs, replicated(specs), groups)
    return program(model, ADDED, layout, expected=HIERARCHICAL, reference=steps.definition(build(sizes), ADDED))


def layers_over_all(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P17 over two axes: state is split over all devices, so that those along `replica` hold parts side by side."""
    mesh, axes = mesh_of(devices, replica=2, data=-1), ("data", "replica")
    model = build(sizes, on_batch=lambda x: constrained(x, PartitionSpec(axes[::-1]), mesh))
    specs = split(model.parameters, axes, mesh.size)
    layout = Layout(mesh, axes[::-1], specs, replicated(specs), frozenset({2, mesh.shape["data"], mesh.size}))
    return program(model, ADDED, layout, expected=SPLIT, reference=steps.definition(build(sizes), ADDED))


def zero1(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P11: the momentum is split over `data`, parameters are on all devices."""
    model, mesh = build(sizes), mesh_of(devices, data=-1)
    layout = steps.data_parallel(model, mesh)
    shards = split(model.parameters, "data", mesh.size)
    gradient = _gradient(model, layout, gather=False)

    def step(state: Tree, *batches: jax.Array) -> Result:
        parameters, momentum = state
        gradients, losses = ADDED.accumulate(gradient, parameters, batches)
        momentum = constrained(steps.decayed(momentum, gradients), shards, mesh)
        return (constrained(steps.updated(parameters, momentum), layout.parameters, mesh), momentum), losses

    state = (model.parameters, steps.initial_momentum(model.parameters))
    return steps.program(
        step,
        model,
        ADDED,
        layout,
        expected=DEFERRED,
        is_deferrable=True,
        state=(state, (layout.parameters, shards)),
        reference=steps.momentum_definition(model, ADDED),
    )


def tensor_parallel(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P14: blocks split over `model`, examples over `data`."""
    model, mesh = build(sizes), mesh_of(devices, data=-1, model=2)
    groups = frozenset({mesh.shape["data"], mesh.size})
    return program(model, ADDED, Layout(mesh, ("data",), model.specs, model.specs, groups))


def expert_parallel(build: Build, sizes: Sizes = DEFAULT, devices: Devices = None) -> Program:
    """P15: experts split over `expert`, examples over both axes."""
    mesh = mesh_of(devices, replica=-1, expert=2)
    model = build(sizes, **exchanges(mesh, "replica"))
    groups = frozenset({mesh.shape["replica"], mesh.size})
    layout = Layout(mesh, ("replica", "expert"), model.specs, model.specs, groups)
    return program(model, ADDED, layout, reference=steps.definition(build(sizes), ADDED))


def exchanges(mesh: Mesh, data: str) -> dict[str, Step]:
    """Of `models.experts`: from devices that have examples, over the axes `data` and `expert`, to experts, and back."""
    by_example, by_expert = PartitionSpec(None, data, "expert"), PartitionSpec("expert", data)

    def exchange(start: PartitionSpec, end: PartitionSpec) -> Step:
        """Between two splits of (experts, examples, ...): one all-to-all, if examples have a dimension per axis."""

        def exchanged(x: jax.Array) -> jax.Array:
            apart = x.reshape(x.shape[0], mesh.shape[data], -1, *x.shape[2:])
            return constrained(constrained(apart, start, mesh), end, mesh).reshape(x.shape)

        return exchanged

    return {"to_experts": exchange(by_example, by_expert), "to_examples": exchange(by_expert, by_example)}


def program(
    model: Model,
    pattern: Pattern,
    layout: Layout,
    *,
    gather: bool = False,
    expected: str = DEFERRED,
    reference: Callable[..., Result] | None = None,
) -> Program:
    gradient = _gradient(model, layout, gather)

    def step(parameters: Tree, *batches: jax.Array) -> Result:
        gradients, extra = pattern.accumulate(gradient, parameters, batches)
        return constrained(steps.updated(parameters, gradients), layout.parameters, layout.mesh), extra

    if pattern.must_stay:
        expected = REFUSED
    return steps.program(
        step, model, pattern, layout, expected=expected, is_deferrable=expected == DEFERRED, reference=reference
    )  # fmt: skip


def _gradient(model: Model, layout: Layout, gather: bool) -> Gradient:
    """With `gather`, parameters are whole where they are used, and gradients are split like the parameters."""
    whole: Step = (lambda tree: constrained(tree, replicated(tree), layout.mesh)) if gather else same
    shared: Step = (lambda tree: constrained(tree, layout.parameters, layout.mesh)) if gather else same

    def gradient(parameters: Tree, *micro_batch: jax.Array) -> tuple[jax.Array, Tree]:
        value, gradients = jax.value_and_grad(lambda p: model.loss(whole(p), *micro_batch))(parameters)
        return value, shared(gradients)

    return gradient
