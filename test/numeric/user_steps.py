"""Training steps as users write them: what several test files make them of, and compare."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from programs.program import Tree, data_mesh

import paropt
from paropt.audit import Audit

MICRO_BATCHES, EXAMPLES, WIDTH, CLASSES = 4, 16, 8, 4
BYTES = 4 * WIDTH * CLASSES  # of the weight, and of its gradient
MESH = data_mesh()
OTHER_KINDS = ("all-gather", "all-to-all", "collective-permute")


def integers(*shape: int, seed: int | str) -> np.ndarray:
    """Small integers, whose sums are exact: a function of shape and seed, whatever was drawn before."""
    return np.random.default_rng([*str(seed).encode(), *shape]).integers(-2, 3, shape).astype(np.float32)


def placed(tree: Tree, *spec: Any, mesh: Mesh = MESH) -> Tree:
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec(*spec)))


def accumulated(gradient: Callable[[Any, Any], Any], parameters: Any, batches: Any) -> Any:
    def body(total: Any, batch: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, gradient(parameters, batch)), None

    return lax.scan(body, jax.tree.map(jnp.zeros_like, parameters), batches)[0]


class Case(NamedTuple):
    step: Callable[..., Any]
    args: tuple[Any, ...]
    after: int = BYTES  # reduced once, per device
    within: int = 0  # in the loop
    tolerance: float = 0.0
    mesh: Mesh | None = None  # that of the context: in JAX's explicit mode
    not_to_grow: tuple[str, ...] = OTHER_KINDS  # of collectives
    passes: str = "grad-sync"


# Reduce_scatters of all sizes are written, as for other targets: XLA:CPU is left those of little bytes.
SCATTERS_WRITTEN = "grad-sync{scatters=written}"


def reduced_once(case: Case) -> tuple[Audit, Audit]:
    """The audits without and with the passes, when what is reduced after the loop no longer is in each trip."""
    before, after, _ = compared(case)
    assert after.sync_bytes - after.sync_in_loop == case.after
    assert before.sync_in_loop - after.sync_in_loop >= MICRO_BATCHES * case.after
    return before, after


def compared(case: Case) -> tuple[Audit, Audit, Iterator[str]]:
    """The audits without and with the passes, when the results are the same and no kind of `not_to_grow` grows; and
    why sums stay, which takes as long as a rewrite, if it is asked for."""
    with jax.set_mesh(case.mesh) if case.mesh is not None else nullcontext():
        alone, ours = (
            jax.jit(case.step).lower(*case.args),
            paropt.jit(case.step, passes=case.passes, strict=True).lower(*case.args),
        )
    compiled = alone.compile(), ours.compile()
    for want, got in zip(*(jax.tree.leaves(program(*case.args)) for program in compiled), strict=True):
        whole = np.asarray(want)
        for shard in got.addressable_shards:  # copies on other devices too
            scale = case.tolerance * float(np.abs(whole).max(initial=1))
            np.testing.assert_allclose(np.asarray(shard.data), whole[shard.index], rtol=0, atol=scale)
    before, after = map(paropt.audit, compiled)
    for kind in case.not_to_grow:
        assert after.total(kind).bytes <= before.total(kind).bytes, kind
    return before, after, _missed(ours)


def _missed(lowered: Any) -> Iterator[str]:
    yield from (str(remark) for remark in paropt.remarks(lowered) if not remark.applied)
