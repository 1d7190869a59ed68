"""Every program of the matrix computes on 8 devices what its definition says, as it is and with par-opt."""

import dataclasses
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import xla_client
from numeric.oracle import optimized
from programs import explicit, models
from programs.catalog import MATRIX, PLAIN, TRANSFORMERS
from programs.compare import difference, difference_from_definition, tolerance_of
from programs.models import same
from programs.patterns import ADDED
from programs.program import Program, Sizes

import paropt
from paropt.audit import SYNC_KINDS, Audit
from paropt.passes.support.registry import PIPELINES

SMALL = Sizes(layers=2, sequence=4)
GRAD_SYNC = PIPELINES["grad-sync"].stages
# P0 to P5: each parameter is whole on every device, and so is what its gradients are added up in.
WHOLE = [name for name in MATRIX if int(name.rpartition("_p")[2]) <= 5]
LOSSES = 4 * Sizes.micro_batches  # bytes; a scalar per micro-batch becomes an array of them after the loop


def gradient_sync(audit: Audit, program: Program) -> tuple[int, int]:
    """Bytes per step of reductions over the groups of the program's gradients: all of them, and those in loops."""
    rows = [c for c in audit.collectives if c.kind in SYNC_KINDS and c.group in program.sync_groups]
    sizes = [(c.executions or 0) * sum(a.bytes for a in c.arrays if a.elements > 1) for c in rows]
    return sum(sizes), sum(size for c, size in zip(rows, sizes, strict=True) if c.loops)


def reduced_wire_bytes(audit: Audit) -> float:
    """Bytes per step that reductions of arrays send: fewer for groups of fewer devices."""
    rows = [c for c in audit.collectives if c.kind in SYNC_KINDS and any(a.elements > 1 for a in c.arrays)]
    return sum((c.executions or 0) * c.wire_bytes for c in rows)


def other_bytes(audit: Audit) -> Counter[str]:
    """Bytes per step of each kind of collective that does not reduce."""
    found: Counter[str] = Counter()
    for c in audit.collectives:
        if c.kind not in SYNC_KINDS:
            found[c.kind] += (c.executions or 0) * c.payload
    return found


@pytest.mark.parametrize("name", MATRIX)
def test_program_is_as_defined_and_as_declared(name: str) -> None:
    program = MATRIX[name](SMALL)
    # Sums that the state shards, too, which takes more memory than XLA alone: by default they stay sharded.
    passes = "grad-sync{inferred=whole}" if name.endswith("p11") else "grad-sync"
    plain, ours = jax.jit(program.step), paropt.jit(program.step, passes=passes, strict=True, compare=False)
    before, after = plain.lower(*program.args).compile(), ours.lower(*program.args).compile()
    for compiled in (before, after):
        assert difference_from_definition(program, compiled(*program.args)) <= tolerance_of(name)

    was, now = paropt.audit(before), paropt.audit(after)
    reduced, in_loop = gradient_sync(now, program)
    if program.is_deferrable:
        assert in_loop == 0, "a gradient is still synchronised in the loop"
        assert reduced - program.ideal_bytes in (0, LOSSES), "each gradient is reduced once"
    else:
        assert reduced_wire_bytes(now) <= reduced_wire_bytes(was) + 2 * LOSSES
    assert other_bytes(now) <= other_bytes(was), "another kind of communication grew"
    if name in WHOLE:
        assert now.peak_memory <= was.peak_memory, "more memory than XLA alone"


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_left_to_defer(name: str) -> None:
    """Where parameters are on all devices, all is deferred that `policy=defer` would; it takes no more memory."""
    program = MATRIX[name](SMALL)
    lowered = jax.jit(program.step).lower(*program.args).as_text()
    stages = GRAD_SYNC.replace("expose-all-reduces", "expose-all-reduces{policy=defer}")
    by_default, deferred = (
        optimized(lowered, passes)[0]
        for passes in ("grad-sync", stages.replace("defer-sync", "defer-sync{policy=defer}"))
    )
    assert by_default == deferred != lowered


def test_plain_programs_have_no_reductions_before_xla() -> None:
    """They have to be found, not moved."""
    for name in ("mlp_p0", "mlp_p11", "transformer_p1"):
        program = PLAIN[name]()
        assert "stablehlo.all_reduce" not in jax.jit(program.step).lower(*program.args).as_text()


def reduced_by_group(audit: Audit) -> dict[tuple[int, bool], int]:
    """Bytes per step of reductions of arrays: by the number of devices that take part, and whether in a loop."""
    found: Counter[tuple[int, bool]] = Counter()
    for c in audit.collectives:
        if c.kind in SYNC_KINDS:
            size = sum(a.bytes for a in c.arrays if a.elements > 1)
            found[c.group, bool(c.loops)] += (c.executions or 0) * size
    return {key: size for key, size in found.items() if size}


@pytest.mark.parametrize(
    "policy, expected",
    [
        # Per step, in gradients: {(devices that take part, in the loop): how often}. Four micro-batches.
        ("hierarchical", {(4, True): 4, (2, False): 1 / 4}),
        ("every", {(4, True): 4, (2, True): 1}),
        ("defer", {(4, False): 1, (2, False): 1 / 4}),
    ],
)
def test_policies_of_hybrid_sharding(policy: str, expected: dict[tuple[int, bool], float]) -> None:
    program = PLAIN["mlp_p7"](SMALL)
    passes = GRAD_SYNC.replace("expose-all-reduces", f"expose-all-reduces{{policy={policy} scatters=written}}")
    lowered = paropt.jit(program.step, passes=passes, strict=True).lower(*program.args)
    was, now = paropt.audit(jax.jit(program.step).lower(*program.args)), paropt.audit(lowered)
    losses = {(8, False): LOSSES}
    found = {key: size - losses.get(key, 0) for key, size in reduced_by_group(now).items() if size != LOSSES}
    assert found == {key: times * program.gradient_bytes for key, times in expected.items()}
    assert other_bytes(now) <= other_bytes(was)
    assert difference_from_definition(program, lowered.compile()(*program.args)) <= tolerance_of("plain_mlp_p7")


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_are_as_defined(name: str) -> None:
    program = TRANSFORMERS[name]()
    assert difference_from_definition(program, jax.jit(program.step)(*program.args)) <= tolerance_of(name)


def test_a_wrong_program_is_noticed() -> None:
    """Gradients that are not summed, or summed twice, differ by more than what is allowed."""
    for sync in (same, lambda tree: explicit.psum(explicit.psum(tree))):
        program = explicit.data_parallel(models.mlp, ADDED, sync=sync)
        assert difference_from_definition(program, jax.jit(program.step)(*program.args)) > 0.5


def test_difference_is_relative_to_the_change() -> None:
    start, want = np.full(3, 1000.0), np.array([1000.0, 1001.0, 1002.0])
    assert difference([want], [want + 0.5], [start]) == 0.25
    assert difference([want], [want + 0.5], []) == 0.5 / 1002  # not of the state: relative to the value
    assert difference([want], [want], [want]) == 0
    assert np.isnan(difference([want], [want * np.nan], [start]))


@pytest.mark.parametrize(
    "name", ["plain_mlp_p0", "plain_transformer_p6", "plain_mlp_p15", "explicit_mlp_p11", "explicit_transformer_p14"]
)
def test_sizes_and_dtype_are_parameters(name: str) -> None:
    sizes = Sizes(width=32, layers=2, micro_batches=2, examples=8, sequence=4)
    texts = {}
    for dtype in (jnp.float32, jnp.bfloat16):
        program = MATRIX[name](dataclasses.replace(sizes, dtype=dtype))
        assert program.args[1].shape[:2] == (2, 8)
        texts[dtype] = jax.jit(program.step).lower(*program.args).as_text()
    assert "bf16" in texts[jnp.bfloat16] and "bf16" not in texts[jnp.float32]


@pytest.mark.parametrize("name", ["plain_mlp_p6", "explicit_mlp_p7", "plain_transformer_p14", "explicit_mlp_p0"])
def test_programs_of_other_devices_are_shapes(name: str) -> None:
    """Devices without hardware, as those of a target: the program is lowered for them, nothing is put there."""
    client: Any = xla_client.make_cpu_client(num_devices=8)
    others = client.devices()
    program = MATRIX[name](devices=others)
    assert set(program.mesh.devices.flat) == set(others)
    assert {type(leaf) for leaf in jax.tree.leaves(program.args)} == {jax.ShapeDtypeStruct}
    here = MATRIX[name]()
    texts = [jax.jit(p.step).lower(*p.args).as_text() for p in (program, here)]
    assert texts[0] == texts[1]
