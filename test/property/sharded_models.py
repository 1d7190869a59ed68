"""Random training steps as users write them for plain `jax.jit`: a model of random layers, split over a mesh in random ways.

A plan says everything about a program, so that a failure shows what it is of.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MICRO_BATCHES, EXAMPLES, POSITIONS, WIDTH, HIDDEN, CLASSES, HEADS, EXPERTS = 4, 16, 4, 8, 16, 16, 4, 4
MESHES = (
    (("data", 8),),
    (("data", 4), ("model", 2)),
    (("data", 2), ("model", 4)),
    (("replica", 2), ("data", 2), ("model", 2)),
)
UNCONSTRAINED = PartitionSpec.UNCONSTRAINED
FREE = "?"  # in a plan: a dimension that a constraint leaves to the partitioner

Axes = tuple[str, ...]
Spec = tuple[Axes | str, ...]  # of each dimension
Tree = Any


class Kind(NamedTuple):
    """Of layers: (parameters, activations, classes of the examples) -> activations of the same shape."""

    shapes: dict[str, tuple[int, ...]]
    apply: Callable[[Tree, jax.Array, jax.Array], jax.Array]
    exact: bool = True  # integers stay integers
    along_positions: bool = False


def attention(p: Tree, x: jax.Array, _: jax.Array) -> jax.Array:
    query, key, value = (jnp.einsum("...sd,dhe->...she", x, p[name]) for name in ("query", "key", "value"))
    weights = jax.nn.softmax(jnp.einsum("...she,...the->...hst", query, key) / 2, axis=-1)
    return jnp.einsum("...hst,...the,hed->...sd", weights, value, p["out"])


def attention_of_reshaped(p: Tree, x: jax.Array, _: jax.Array) -> jax.Array:
    query, key, value = jnp.split((x @ p["qkv"]).reshape(*x.shape[:-1], HEADS, -1), 3, axis=-1)
    weights = jax.nn.softmax(jnp.einsum("...she,...the->...hst", query, key) / 2, axis=-1)
    return jnp.einsum("...hst,...the->...she", weights, value).reshape(x.shape) @ p["out"]


def normalised(x: jax.Array, axes: int | tuple[int, ...]) -> jax.Array:
    x = x - jnp.mean(x, axis=axes, keepdims=True)
    return x * lax.rsqrt(jnp.mean(x * x, axis=axes, keepdims=True) + 1)


def mixture(p: Tree, x: jax.Array, _: jax.Array) -> jax.Array:
    hidden = jnp.einsum("...d,edh->...eh", x, p["up"])
    return jnp.einsum("...eh,ehd,...e->...d", hidden, p["down"], x @ p["router"])


def recurrent(p: Tree, x: jax.Array, _: jax.Array) -> jax.Array:
    def cell(state: jax.Array, at: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = at + state @ p["w"]
        return state, state

    return jnp.moveaxis(lax.scan(cell, jnp.zeros_like(x[:, 0]), jnp.moveaxis(x, 1, 0))[1], 0, 1)


def stacked(p: Tree, x: jax.Array, _: jax.Array) -> jax.Array:
    return lax.scan(lambda h, own: (h @ own["w"] + own["b"], None), x, p)[0]


def convolved(p: Tree, x: jax.Array, _: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x, p["kernel"], (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


MATRIX, VECTOR = (WIDTH, WIDTH), (WIDTH,)
UP, DOWN = (WIDTH, HIDDEN), (HIDDEN, WIDTH)
QKV = (WIDTH, HEADS, WIDTH // HEADS)
KINDS = {
    "dense": Kind({"w": MATRIX, "b": VECTOR}, lambda p, x, _: x @ p["w"] + p["b"]),
    "scaled": Kind({"g": VECTOR}, lambda p, x, _: x * p["g"]),
    "squared": Kind({"g": VECTOR}, lambda p, x, _: (x * p["g"]) ** 2),
    "transposed": Kind({"w": MATRIX}, lambda p, x, _: jnp.einsum("...i,oi->...o", x, p["w"])),
    "rectified": Kind(
        {"up": UP, "down": DOWN},  # no value that rounding may move is at the threshold
        lambda p, x, _: jnp.where((h := x @ p["up"]) > 0.3, h, 0) @ p["down"],
    ),
    "gated": Kind({"up": UP, "gate": UP, "down": DOWN}, lambda p, x, _: ((x @ p["up"]) * (x @ p["gate"])) @ p["down"]),
    "halves": Kind({"w": (WIDTH, 2 * WIDTH)}, lambda p, x, _: jnp.multiply(*jnp.split(x @ p["w"], 2, axis=-1))),
    "adapted": Kind(  # LoRA
        {"frozen": MATRIX, "a": (WIDTH, 2), "b": (2, WIDTH)}, lambda p, x, _: x @ p["frozen"] + (x @ p["a"]) @ p["b"]
    ),
    "embedding": Kind({"table": (CLASSES, WIDTH)}, lambda p, x, classes: x + p["table"][classes]),
    "stacked": Kind({"w": (2, *MATRIX), "b": (2, *VECTOR)}, stacked),
    "mixture": Kind({"up": (EXPERTS, *UP), "down": (EXPERTS, *DOWN), "router": (WIDTH, EXPERTS)}, mixture),
    "tanh": Kind({"up": UP, "down": DOWN}, lambda p, x, _: jnp.tanh(x @ p["up"]) @ p["down"], exact=False),
    "layer_norm": Kind({"g": VECTOR, "b": VECTOR}, lambda p, x, _: normalised(x, -1) * p["g"] + p["b"], exact=False),
    "rms_norm": Kind(
        {"g": VECTOR}, lambda p, x, _: x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1) * p["g"], exact=False
    ),
    "batch_norm": Kind({"g": VECTOR}, lambda p, x, _: normalised(x, tuple(range(x.ndim - 1))) * p["g"], exact=False),
    "recurrent": Kind({"w": MATRIX}, recurrent, along_positions=True),
    "convolved": Kind({"kernel": (3, *MATRIX)}, convolved, along_positions=True),
    "attention": Kind(
        {"query": QKV, "key": QKV, "value": QKV, "out": (HEADS, WIDTH // HEADS, WIDTH)},
        attention,
        exact=False,
        along_positions=True,
    ),
    "attention_of_reshaped": Kind(
        {"qkv": (WIDTH, 3 * WIDTH), "out": MATRIX}, attention_of_reshaped, exact=False, along_positions=True
    ),
}


class Layer(NamedTuple):
    kind: str
    residual: bool = False
    remat: bool = False
    constraint: Spec | None = None  # of what it returns


@dataclass(frozen=True)
class Plan:
    mesh: tuple[tuple[str, int], ...]
    batch: Axes  # over which the examples are split
    layers: tuple[Layer, ...]
    positions: bool = False  # examples are sequences
    loss: str = "product"
    mean: bool = False
    weights: str = ""  # of examples: "", summed, normalised in each micro-batch, or by their sum in the end
    loop: str = "scan"
    flat: bool = False  # one array of all examples, which the step reshapes
    rows: str = ""  # of arrays that the loop carries: it adds gradients to one of two, or sets one to each
    scale: str = "sum"
    precision: str = ""  # parameters in bf16: "", cast in the loss, or stored
    start: str = "zeros"
    update: str = ""
    ends: str = "constraint"  # or out_shardings: how results get the specs "result NAME"
    seed: int = 0
    # of arguments, and of what else has one: "gradient NAME", "start NAME", "result NAME"
    specs: Mapping[str, Spec] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """All values are integers, or such divided by powers of two: sums don't depend on their order, as long as f32 holds them."""
        inexact = self.precision or self.loss in ("cross_entropy", "tied") or self.scale == "running"
        divided = self.weights in ("normalised", "total") or self.update == "clipped"
        return not inexact and not divided and all(KINDS[layer.kind].exact for layer in self.layers)

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        own = {f"{i}.{n}": s for i, x in enumerate(self.layers) for n, s in KINDS[x.kind].shapes.items()}
        return own | ({"head": (WIDTH, CLASSES)} if self.loss == "cross_entropy" else {})

    @property
    def examples(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arguments for one micro-batch."""
        lead = (EXAMPLES, POSITIONS) if self.positions else (EXAMPLES,)
        return {"x": (*lead, WIDTH), "y": (*lead, WIDTH), "classes": lead, "weights": (EXAMPLES,)}


def is_trained(name: str) -> bool:
    return not name.endswith("frozen")


# ---- drawing a plan


@st.composite
def plans(draw: Callable[[Any], Any]) -> Plan:
    def one_of(*values: Any) -> Any:
        return draw(st.sampled_from(values))

    mesh = one_of(*MESHES)
    sizes = dict(mesh)
    batch = one_of(*(axes for count in range(1, 1 + len(mesh)) for axes in permutations(sizes, count)))

    def spec(shape: tuple[int, ...], used: Axes = (), *, often: bool = False, other: tuple[Any, ...] = ()) -> Spec:
        """Each dimension over some of the axes that are left, in any order."""
        if not often and not one_of(False, True):
            return ((),) * len(shape)
        found: list[Axes | str] = []
        for length in shape:
            left = [axis for axis in sizes if axis not in used]
            fit = [a for n in (1, 2) for a in permutations(left, n) if length % prod(sizes[x] for x in a) == 0]
            chosen = one_of((), (), *other, *fit)
            found.append(chosen)
            used = (*used, *chosen) if chosen != FREE else used
        return tuple(found)

    def of_examples(shape: tuple[int, ...], *other: str) -> Spec:
        return batch, *spec(shape[1:], batch, other=other)

    positions = one_of(False, True)
    kinds = [name for name, kind in KINDS.items() if positions or not kind.along_positions]
    if one_of(True, False):
        kinds = [name for name in kinds if KINDS[name].exact]
    x = (EXAMPLES, POSITIONS, WIDTH) if positions else (EXAMPLES, WIDTH)
    layers = []
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2)):
        constraint = one_of(None, None, of_examples(x, FREE), spec(x, other=(FREE,)))
        layers.append(Layer(kind, one_of(False, True), one_of(False, False, True), constraint))
    exact = all(KINDS[layer.kind].exact for layer in layers)
    losses = ["product", "square", *([] if exact else ["cross_entropy"] * 2)]
    losses += ["tied"] * 2 * any(layer.kind == "embedding" for layer in layers)
    plan = Plan(
        mesh=mesh,
        batch=batch,
        layers=tuple(layers),
        positions=positions,
        loss=one_of(*losses),
        mean=one_of(False, True),
        weights=one_of("", "", "", "summed", "normalised", "total"),
        loop=one_of("scan", "scan", "fori", "unrolled", "nested", "differentiated"),
        flat=one_of(False, False, True),
        rows=one_of("", "", "", "added", "set"),
        scale=one_of("sum", "each", "after", "running", "decayed", "skipped"),
        precision=one_of("", "", "", "cast", "stored"),
        start=one_of("zeros", "zeros", "constrained", "argument"),
        update=one_of("", "sgd", "momentum", "clipped"),
        ends=one_of("constraint", "out_shardings"),
        seed=draw(st.integers(0, 99)),
    )
    specs = {name: of_examples(shape) for name, shape in plan.examples.items()}
    for name, shape in plan.parameters.items():
        specs[name] = spec(shape)
        others = [specs[name], spec(shape)]
        if is_trained(name):
            specs[f"start {name}"] = one_of(*others)
            if one_of(False, False, True):
                specs[f"gradient {name}"] = one_of(*others)
            if one_of(False, True):
                specs[f"result {name}"] = one_of(*others)
    return Plan(**{**vars(plan), "specs": specs})


# ---- the program of a plan


class Program(NamedTuple):
    step: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]  # of jax.jit


def program_of(plan: Plan, devices: list[Any] | None = None) -> Program:
    """The step for `devices`; its arguments are always on those that there are."""

    def sharding(spec: Spec, devices: list[Any]) -> NamedSharding:
        mesh = Mesh(np.array(devices[:8]).reshape([size for _, size in plan.mesh]), [name for name, _ in plan.mesh])
        return NamedSharding(mesh, PartitionSpec(*(UNCONSTRAINED if axes == FREE else axes or None for axes in spec)))

    def constrained(value: jax.Array, spec: Spec | None) -> jax.Array:
        return value if spec is None else lax.with_sharding_constraint(value, sharding(spec, devices or jax.devices()))

    step = step_of(plan, constrained)
    options = {}
    if plan.ends == "out_shardings":
        specs = {name: plan.specs.get(f"result {name}") for name in plan.parameters if is_trained(name)}
        ends = {n: spec if spec is None else sharding(spec, devices or jax.devices()) for n, spec in specs.items()}
        options["out_shardings"] = (None, ends, ends if plan.update else None)

    rng = np.random.default_rng(plan.seed)

    def placed(spec: Spec, shape: tuple[int, ...], low: int = -1, high: int = 1, kind: Any = np.float32) -> jax.Array:
        value = rng.integers(low, high + 1, shape).astype(kind)
        if not plan.exact and kind != np.int32:
            value = (value / 2).astype(kind)  # softmax and the like are not to saturate
        return jax.device_put(value, sharding(spec, jax.devices()))

    kind = jnp.bfloat16 if plan.precision == "stored" else np.float32
    parameters = {name: placed(plan.specs[name], shape, kind=kind) for name, shape in plan.parameters.items()}
    state = {n: placed(plan.specs[f"start {n}"], plan.parameters[n]) for n in parameters if is_trained(n)}
    batches = {}
    for name, shape in plan.examples.items():
        lead = (MICRO_BATCHES * shape[0],) if plan.flat else (MICRO_BATCHES, shape[0])
        spec = plan.specs[name] if plan.flat else ((), *plan.specs[name])
        others: dict[str, Any] = {
            "classes": {"low": 0, "high": CLASSES - 1, "kind": np.int32},
            "weights": {"low": 1, "high": 2},
        }
        batches[name] = placed(spec, (*lead, *shape[1:]), **others.get(name, {}))
    return Program(step, (parameters, state, batches), options)


def step_of(plan: Plan, constrained: Callable[[jax.Array, Spec | None], jax.Array]) -> Callable[..., Any]:
    def each_constrained(what: str, tree: Tree) -> Tree:
        return {name: constrained(value, plan.specs.get(f"{what} {name}")) for name, value in tree.items()}

    def model(parameters: Tree, x: jax.Array, classes: jax.Array) -> jax.Array:
        for i, layer in enumerate(plan.layers):
            own = {name: parameters[f"{i}.{name}"] for name in KINDS[layer.kind].shapes}
            apply = jax.checkpoint(KINDS[layer.kind].apply) if layer.remat else KINDS[layer.kind].apply
            x = constrained(apply(own, x, classes) + (x if layer.residual else 0), layer.constraint)
        return x

    def loss(trained: Tree, frozen: Tree, batch: Tree) -> jax.Array:
        parameters = trained | frozen
        if plan.precision == "cast":
            parameters = jax.tree.map(lambda p: p.astype(jnp.bfloat16), parameters)
        x = batch["x"].astype(jnp.bfloat16 if plan.precision else jnp.float32)
        h = model(parameters, x, batch["classes"])
        match plan.loss:
            case "product":
                losses = jnp.sum(h * batch["y"], axis=-1)
            case "square":
                losses = jnp.sum((h - batch["y"]) ** 2, axis=-1)
            case _:
                tables = [parameters[f"{i}.table"].T for i, x in enumerate(plan.layers) if x.kind == "embedding"]
                logits = (h @ (tables[0] if plan.loss == "tied" else parameters["head"])).astype(jnp.float32)
                losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), batch["classes"][..., None], axis=-1)[..., 0]
        if plan.weights:
            losses = losses * batch["weights"].reshape(-1, *[1] * (losses.ndim - 1))
        value = jnp.mean(losses) if plan.mean else jnp.sum(losses)
        value = value / jnp.sum(batch["weights"]) if plan.weights == "normalised" else value
        return value / MICRO_BATCHES if plan.scale == "each" else value

    def step(parameters: Tree, state: Tree, batches: Tree) -> Any:
        trained, frozen = ({n: p for n, p in parameters.items() if is_trained(n) == keep} for keep in (True, False))
        if plan.flat:
            batches = {n: b.reshape(MICRO_BATCHES, EXAMPLES, *b.shape[1:]) for n, b in batches.items()}
            batches = {n: constrained(b, ((), *plan.specs[n])) for n, b in batches.items()}

        def trip(
            carry: tuple[jax.Array, Tree], numbered: tuple[jax.Array, Tree]
        ) -> tuple[tuple[jax.Array, Tree], None]:
            number, batch = numbered
            value, gradient = jax.value_and_grad(loss)(trained, frozen, batch)
            gradient = each_constrained("gradient", jax.tree.map(lambda g: g.astype(jnp.float32), gradient))
            if plan.rows:
                written = {"added": lambda t, g: t.at[number % 2].add(g), "set": lambda t, g: t.at[number].set(g)}
                return (carry[0] + value, jax.tree.map(written[plan.rows], carry[1], gradient)), None
            if plan.scale == "running":
                return jax.tree.map(lambda t, g: t + (g - t) / (number + 1), carry, (value, gradient)), None
            if plan.scale == "skipped":  # what was summed before is halved where the micro-batch is left out
                taken = [lambda c, _: jax.tree.map(lambda t: t / 2, c), lambda c, g: jax.tree.map(jnp.add, c, g)]
                return lax.cond(number % 3 != 1, *taken[::-1], carry, (value, gradient)), None
            if plan.scale == "decayed":
                carry = jax.tree.map(lambda t: t / 2, carry)
            return jax.tree.map(jnp.add, carry, (value, gradient)), None

        if plan.loop == "differentiated":

            def whole(trained: Tree) -> jax.Array:
                return repeated("scan", lambda v, n: (v + loss(trained, frozen, n[1]), None), jnp.float32(0), batches)

            value, total = jax.value_and_grad(whole)(trained)
            total = each_constrained("gradient", total)
        else:
            zeros = jax.tree.map(lambda p: jnp.zeros(p.shape), trained)
            start = {"zeros": zeros, "argument": state}.get(plan.start) or each_constrained("start", zeros)
            if plan.rows:
                start = jax.tree.map(lambda s: jnp.zeros((MICRO_BATCHES, *s.shape)).at[0].set(s), start)
            value, total = repeated(plan.loop, trip, (jnp.float32(0), start), batches)
            if plan.rows:
                total = jax.tree.map(lambda rows: jnp.sum(rows, 0), total)
        if plan.scale == "after":
            value, total = jax.tree.map(lambda v: v / MICRO_BATCHES, (value, total))
        if plan.weights == "total":
            value, total = jax.tree.map(lambda v: v / jnp.sum(batches["weights"]), (value, total))
        return value, *updated(trained, state, total)

    def updated(trained: Tree, state: Tree, total: Tree) -> tuple[Tree, Tree | None]:
        if plan.update == "clipped":
            norm = jnp.sqrt(sum(jnp.sum(g * g) for g in total.values()))
            total = jax.tree.map(lambda g: g / jnp.maximum(norm, 1), total)
        if plan.update == "momentum":
            total = state = jax.tree.map(lambda m, g: m / 2 + g, state, total)
        new = jax.tree.map(lambda p, g: (p - g / 8).astype(p.dtype), trained, total) if plan.update else total
        if plan.ends == "constraint":
            new = each_constrained("result", new)
        return new, state if plan.update else None

    return step


def repeated(loop: str, trip: Callable[..., Any], carry: Tree, batches: Tree) -> Tree:
    def picked(i: Any, carry: Tree) -> Tree:
        return trip(carry, (i, jax.tree.map(lambda batch: batch[i], batches)))[0]

    numbers = jnp.arange(MICRO_BATCHES)
    match loop:
        case "scan":
            return lax.scan(trip, carry, (numbers, batches))[0]
        case "nested":
            halves = jax.tree.map(lambda b: b.reshape(2, -1, *b.shape[1:]), (numbers, batches))
            return lax.scan(lambda c, half: lax.scan(trip, c, half), carry, halves)[0]
        case "fori":
            return lax.fori_loop(0, MICRO_BATCHES, picked, carry)
        case _:
            return functools.reduce(lambda carry, i: picked(i, carry), range(MICRO_BATCHES), carry)
