"""The fenced blocks of README.md and docs/*.md, and what the snippets in them take for given: models, steps, files."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import paropt

ROOT = Path(__file__).parents[2]
MICRO_BATCHES, EXAMPLES, WIDTH, CLASSES = 8, 16, 16, 4


class Block(NamedTuple):
    page: str  # README.md, docs/jit.md
    line: int  # of its first line
    language: str  # "" when the page gives none
    text: str
    section: str  # the heading before it, of the second level: "" above the first

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> list[Block]:
    found = []
    for path in pages():
        text = path.read_text()
        for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
            line = text[: fence.start(2)].count("\n") + 1
            headings = re.findall(r"^## (.*)$", text[: fence.start()], re.M)
            section = headings[-1] if headings else ""
            found.append(Block(str(path.relative_to(ROOT)), line, fence[1], fence[2], section))
    return found


class Flax(nn.Module):
    """Calls: a norm, an activation that is a function of its own, layers under `nn.remat`."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.remat(nn.Dense)(WIDTH)(nn.LayerNorm()(x))
        return nn.Dense(CLASSES)(nn.gelu(x) + nn.relu(x))


class Equinox(eqx.Module):
    layers: list[eqx.nn.Linear]

    def __init__(self, key: jax.Array) -> None:
        self.layers = [eqx.nn.Linear(WIDTH, WIDTH, key=key), eqx.nn.Linear(WIDTH, CLASSES, key=key)]

    def __call__(self, x: jax.Array) -> jax.Array:
        return jax.vmap(self.layers[1])(jax.nn.silu(jax.vmap(self.layers[0])(x)))


class Training:
    """A model of a library, its state on a mesh, and the forms in which its step is written."""

    def __init__(self, library: str, axes: dict[str, int]) -> None:
        self.mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
        self._over = tuple(axes)
        self.optimizer = optax.sgd(1e-2, momentum=0.9)
        rng = np.random.default_rng(0)
        x = rng.standard_normal((MICRO_BATCHES, EXAMPLES, WIDTH), np.float32)
        y = rng.integers(0, CLASSES, (MICRO_BATCHES, EXAMPLES)).astype(np.int32)
        self.batches = self._placed((x, y), None, self._over)
        self.whole = self._placed((x.reshape(-1, WIDTH), y.reshape(-1)), self._over)
        self.parameters, self.apply = self._model(library, x[0])
        self.state = self._placed((self.parameters, self.optimizer.init(self.parameters)))

    def _placed(self, tree: Any, *spec: Any) -> Any:
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec(*spec)))

    def _model(self, library: str, x: np.ndarray) -> tuple[Any, Any]:
        if library == "flax":
            model = Flax()
            return self._placed(model.init(jax.random.key(0), x)), model.apply
        arrays, rest = eqx.partition(Equinox(jax.random.key(0)), eqx.is_array)
        return self._placed(arrays), lambda parameters, x: eqx.combine(parameters, rest)(x)

    def loss(self, parameters: Any, batch: Any) -> jax.Array:
        x, y = batch
        return optax.softmax_cross_entropy_with_integer_labels(self.apply(parameters, x), y).mean()

    def update(self, state: Any, gradients: Any) -> Any:
        parameters, optimizer_state = state
        updates, optimizer_state = self.optimizer.update(gradients, optimizer_state, parameters)
        return optax.apply_updates(parameters, updates), optimizer_state

    def scanned(self, state: Any, batches: Any) -> Any:
        def trip(total: Any, batch: Any) -> Any:
            value, gradients = jax.value_and_grad(self.loss)(state[0], batch)
            return jax.tree.map(jnp.add, total, gradients), value

        total, values = lax.scan(trip, jax.tree.map(jnp.zeros_like, state[0]), batches)
        return self.update(state, jax.tree.map(lambda g: g / MICRO_BATCHES, total)), values.mean()

    def unrolled(self, state: Any, batches: Any) -> Any:
        total, (x, y) = jax.tree.map(jnp.zeros_like, state[0]), batches
        for i in range(MICRO_BATCHES):
            gradients = jax.grad(self.loss)(state[0], (x[i], y[i]))
            total = jax.tree.map(jnp.add, total, gradients)
        return self.update(state, total)

    def summed_loss(self, state: Any, batches: Any) -> Any:
        def total(parameters: Any) -> jax.Array:
            return jnp.mean(lax.map(lambda batch: self.loss(parameters, batch), batches))

        return self.update(state, jax.grad(total)(state[0]))

    def of_the_batch(self, state: Any, batch: Any) -> Any:
        return self.update(state, jax.grad(self.loss)(state[0], batch))

    def names(self, page: str, form: str) -> dict[str, Any]:
        """What the snippets of `page` find defined, with the step in this form."""
        step, data = getattr(self, form), self.whole if form == "of_the_batch" else self.batches
        return {
            "paropt": paropt,
            "jax": jax,
            "jnp": jnp,
            "lax": lax,
            "Path": Path,
            "step": step,
            "train_step": step,
            "jax_jitted_step": lambda state, batch: jax.jit(step)(state, batch)[0],
            "state": self.state,
            "batch": data,
            "batches": (data,) if page in ("docs/sharded-training.md", "docs/sharding-rules.md") else data,
            "micro_batches": data,
            "micro_loss": self.loss,
            "parameters": self.parameters,
            "gradients": self.parameters,
            "optimizer": SimpleNamespace(update=self.update),
            "shapes": jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (self.state, data)),
        }

    def module(self) -> str:
        """The text of step.mlir, with which the command lines work."""
        return jax.jit(self.scanned).lower(self.state, self.batches).as_text(debug_info=True)
