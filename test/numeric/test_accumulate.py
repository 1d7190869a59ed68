"""`paropt.accumulate`: programs per micro-batch compute what the whole step computes, and reduce gradients once."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numeric.test_training_programs import LOSS_BYTES, assert_close
from programs import models
from programs.catalog import INTEGER_MLPS, MATRIX
from programs.program import DEFAULT, Program, data_mesh
from programs.whole_batch import whole_batch
from unit.scripts import ROOT

import paropt
from paropt.hlo.census import SYNC_KINDS
from paropt.hook.fallback import VerificationError

COUNT = 4
MESH = data_mesh()


def driven(program: Program, **options: Any) -> Any:
    return paropt.accumulate(lambda state, batch: program.step(state, *batch), microbatches=COUNT, **options)


def arguments(program: Program) -> tuple[Any, Any]:
    return program.args[0], tuple(program.args[1:])


def reduced(train: Any, state: Any, batch: Any) -> dict[str, int]:
    """The bytes that each program reduces over devices; none has a loop over micro-batches."""
    found = {name: paropt.audit(lowered) for name, lowered in train.lower(state, batch).items()}
    collectives = {name: [c for c in audit.collectives if c.kind in SYNC_KINDS] for name, audit in found.items()}
    return {name: sum(c.payload * (c.executions or 1) for c in there) for name, there in collectives.items() if there}


@pytest.mark.parametrize("name", INTEGER_MLPS)
def test_integers_are_equal_bit_for_bit(name: str) -> None:
    program = INTEGER_MLPS[name]()
    want = jax.jit(program.step)(*program.args)
    assert_close(want, driven(program, donate=None)(*arguments(program)), program.tolerance)


DEFERRED = ["plain_mlp_p1", "plain_mlp_p3", "plain_mlp_p8", "plain_mlp_p15", "explicit_mlp_p0"]


@pytest.mark.parametrize("name", [*DEFERRED, "explicit_mlp_p9", "plain_transformer_p0", "explicit_transformer_p5"])
def test_gradients_are_reduced_once_and_not_per_micro_batch(name: str) -> None:
    program = MATRIX[name]()
    train = driven(program, donate=None)
    assert_close(jax.jit(program.step)(*program.args), train(*arguments(program)), program.tolerance)
    found = reduced(train, *arguments(program))
    assert list(found) == ["sync_grad"]
    assert found["sync_grad"] - program.gradient_bytes in (0, LOSS_BYTES)


@pytest.mark.parametrize("build", [models.mlp, models.transformer])
def test_a_step_of_the_whole_batch(build: Callable[..., models.Model]) -> None:
    program = whole_batch(build, DEFAULT)
    train = paropt.accumulate(lambda state, batch: program.step(state, *batch), microbatches=COUNT, donate=None)
    args = program.args[0], tuple(program.args[1:])
    assert_close(jax.jit(program.step)(*program.args), train(*args), program.tolerance or 1e-4)
    found = reduced(train, *args)
    assert list(found) == ["sync_grad"]
    assert found["sync_grad"] - program.gradient_bytes in (0, 4)


def test_tensor_parallel_activations_are_reduced_per_micro_batch_and_gradients_once() -> None:
    program = MATRIX["plain_mlp_p14"]()
    train = driven(program, donate=None)
    assert_close(jax.jit(program.step)(*program.args), train(*arguments(program)), program.tolerance)
    lowered = train.lower(*arguments(program))
    assert {c.axes for c in paropt.audit(lowered["accumulate_grad"]).collectives} == {("model",)}
    assert {c.axes for c in paropt.audit(lowered["sync_grad"]).collectives} == {("data",)}


@pytest.mark.parametrize("name", ["plain_mlp_p6", "plain_mlp_p7", "explicit_mlp_p12"])
def test_what_is_reduced_in_the_loop_is_reduced_per_micro_batch(name: str) -> None:
    program = MATRIX[name]()
    train = driven(program, donate=None)
    assert_close(jax.jit(program.step)(*program.args), train(*arguments(program)), program.tolerance)
    assert reduced(train, *arguments(program))["accumulate_grad"] == program.gradient_bytes


@pytest.mark.parametrize("name", ["plain_mlp_p0", "explicit_mlp_p0"])
@pytest.mark.parametrize(
    ("sync", "where"),
    [
        ("apart", ["sync_grad"]),
        ("last", ["accumulate_grad_and_sync"]),
        ("apply", ["apply_grad"]),
        ("every", ["accumulate_grad"]),
    ],
)
def test_where_gradients_are_reduced(name: str, sync: str, where: list[str]) -> None:
    program = MATRIX[name]()
    train = driven(program, sync=sync, donate=None)
    assert list(reduced(train, *arguments(program))) == where
    assert_close(jax.jit(program.step)(*program.args), train(*arguments(program)), program.tolerance)


# ---- two functions


def put(array: Any, *spec: Any) -> jax.Array:
    return jax.device_put(np.asarray(array, np.float32), NamedSharding(MESH, PartitionSpec(*spec)))


def data() -> tuple[Any, Any]:
    """State and micro-batches of small integers: sums are exact."""
    rng = np.random.default_rng(0)
    state = {
        "w": put(rng.integers(-3, 4, (4, 8))),
        "step": jax.device_put(jnp.int32(0), NamedSharding(MESH, PartitionSpec())),
    }
    batch = [put(rng.integers(-3, 4, (COUNT, 16, width)), None, "data") for width in (4, 8)]
    return state, tuple(batch)


def forward(parameters: Any, micro_batch: Any) -> jax.Array:
    x, y = micro_batch
    return jnp.sum((x @ parameters - y) ** 2)


def compute_grad(state: Any, micro_batch: Any) -> Any:
    return jax.grad(forward)(state["w"], micro_batch)


def apply_grad(state: Any, gradients: Any) -> Any:
    return {"w": state["w"] - 0.5 * gradients, "step": state["step"] + 1}


def whole(state: Any, batch: Any, average: bool = True) -> tuple[Any, jax.Array]:
    """The same as one program, unrolled, in the same order."""
    losses, total = [], jnp.zeros_like(state["w"])
    for i in range(COUNT):
        loss, gradients = jax.value_and_grad(forward)(state["w"], jax.tree.map(lambda leaf: leaf[i], batch))  # noqa: B023
        losses.append(loss)
        total = total + gradients
    return apply_grad(state, total / COUNT if average else total), jnp.stack(losses)


def assert_equal(want: Any, got: Any) -> None:
    assert_close(want, got, 0.0)


def test_forward_and_apply_grad() -> None:
    state, batch = data()
    want = jax.jit(whole)(state, batch)
    train = paropt.accumulate(
        forward=forward, apply_grad=apply_grad, parameters=lambda state: state["w"], microbatches=COUNT
    )
    gradient_bytes = state["w"].nbytes
    assert reduced(train, state, batch) == {"sync_grad": gradient_bytes + COUNT * 4}
    assert_equal(want, train(state, batch))
    assert state["w"].is_deleted() and state["step"].is_deleted() and not batch[0].is_deleted()


def test_compute_grad_and_apply_grad() -> None:
    state, batch = data()
    want, _ = jax.jit(whole, static_argnums=2)(state, batch, False)
    train = paropt.accumulate(
        compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT, average=False, donate=None
    )
    got, aux = train(state, batch)
    assert aux is None
    assert_equal(want, got)
    assert_equal(want, train(state, batch)[0])
    assert reduced(train, state, batch) == {"sync_grad": state["w"].nbytes}


def test_aux_is_stacked() -> None:
    state, batch = data()
    train = paropt.accumulate(
        compute_grad=lambda state, rows: (compute_grad(state, rows), rows[0].sum()),
        apply_grad=apply_grad,
        microbatches=COUNT,
        has_aux=True,
    )
    want = np.asarray(batch[0]).sum((1, 2))
    np.testing.assert_array_equal(train(state, batch)[1], want)


def test_state_goes_round() -> None:
    """Programs are compiled for the first step, and the state keeps its sharding."""
    train = paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT, donate="state")
    state, batch = data()
    want, _ = jax.jit(whole)(*data())
    want, _ = jax.jit(whole)(want, batch)
    sharding = state["w"].sharding
    for _ in range(2):
        state, _ = train(state, batch)
    assert state["w"].sharding.is_equivalent_to(sharding, 2)
    assert len(train._programs) == 1
    assert_equal(want, state)


def micro_batches(batch: Any, count: int = COUNT) -> Iterator[Any]:
    return (jax.tree.map(lambda leaf: leaf[i], batch) for i in range(count))  # noqa: B023


@pytest.mark.parametrize("on_host", [False, True])
def test_micro_batches_as_they_come(on_host: bool) -> None:
    state, batch = data()
    want = jax.jit(whole)(state, batch)
    train = paropt.accumulate(
        forward=lambda p, rows: forward(p["w"], rows),
        parameters=lambda state: {"w": state["w"]},
        apply_grad=lambda state, g: apply_grad(state, g["w"]),
        microbatches=COUNT,
    )
    given = jax.tree.map(np.asarray, batch) if on_host else batch
    assert_equal(want, train(state, micro_batches(given)))


def test_old_gradients_are_donated() -> None:
    state, batch = data()
    train = paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT)
    programs = train._of((state, batch), {})
    stages = programs.manifest.stages
    values = dict(
        zip(("argument0", "argument1", "argument2", "argument3"), jax.tree.leaves((state, batch)), strict=True)
    )
    programs.call("start_grad", values)
    old = values["carried0"]
    values["trip"] = programs.trips[0]
    programs.call("micro_batch", values)
    programs.call("accumulate_grad", values)
    assert stages["accumulate_grad"].results == ["carried0"]
    assert old.is_deleted() and not state["w"].is_deleted()
    new = values["carried0"]
    assert new.shape == (8, 4, 8) and new.sharding.spec[0] == "data", "one sum per device"
    programs.call("sync_grad", values)
    assert new.is_deleted() and not values["synced0"].is_deleted()
    programs.call("apply_grad", values)
    assert state["w"].is_deleted()
    aliased = train.lower(*data())["accumulate_grad"].compile().memory_analysis().alias_size_in_bytes
    assert aliased == state["w"].nbytes


def test_random_keys_and_other_state_are_carried() -> None:
    """What the loop carries besides gradients goes from program to program, typed keys of random numbers too."""
    state, batch = data()
    key = jax.device_put(jax.random.key(0), NamedSharding(MESH, PartitionSpec()))

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        def trip(carried: Any, rows: Any) -> tuple[Any, Any]:
            total, key = carried
            key, own = jax.random.split(key)
            noise = jax.random.randint(own, (), 0, 4).astype(jnp.float32)
            return (total + noise * jax.grad(forward)(state["w"], rows), key), noise

        (total, key), noises = jax.lax.scan(trip, (jnp.zeros_like(state["w"]), state["key"]), batch)
        return {"w": state["w"] - total, "key": key}, noises

    state = {"w": state["w"], "key": key}
    want, noises = jax.jit(step)(state, batch)
    got, ours = paropt.accumulate(step, microbatches=COUNT, donate=None)(state, batch)
    assert_equal((want["w"], noises), (got["w"], ours))
    assert got["key"].dtype == key.dtype
    np.testing.assert_array_equal(jax.random.key_data(want["key"]), jax.random.key_data(got["key"]))


def test_explicit_axes() -> None:
    """On such a mesh, JAX constrains every value, the number of the trip too."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
    state, batch = data()
    want = jax.jit(whole)(state, batch)
    specs = jax.tree.map(lambda leaf: leaf.sharding.spec, (state, batch))
    placed = jax.tree.map(
        lambda leaf, spec: jax.device_put(np.asarray(leaf), NamedSharding(mesh, spec)), (state, batch), specs
    )
    train = paropt.accumulate(
        forward=forward, apply_grad=apply_grad, parameters=lambda state: state["w"], microbatches=COUNT, donate=None
    )
    with jax.set_mesh(mesh):
        got = train(*placed)
        assert reduced(train, *placed) == {"sync_grad": state["w"].nbytes + COUNT * 4}
        train(got[0], placed[1])
    assert_equal(want, got)
    assert got[0]["w"].sharding.mesh == mesh


def test_one_device() -> None:
    state, batch = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), data())
    want = jax.jit(whole)(state, batch)
    train = paropt.accumulate(whole, microbatches=COUNT)
    assert reduced(train, state, batch) == {}
    assert_equal(want, train(state, batch))


def test_manifest() -> None:
    state, batch = data()
    train = paropt.accumulate(forward=forward, apply_grad=lambda w, g: w - g, microbatches=COUNT, sync="last")
    found = train.manifest(state["w"], batch)
    assert set(found.stages) == {
        "start_grad", "micro_batch", "accumulate_grad", "accumulate_grad_and_sync", "apply_grad"
    }  # fmt: skip
    assert found.aliases("accumulate_grad") == [(3, 0), (4, 1)]
    assert found.aliases("apply_grad") == [(0, 0)]
    assert found.rows == {"micro_batch0": "argument1", "micro_batch1": "argument2"}
    assert found.paths["argument1"] == "batch[0]"
    assert found.counting.trips == COUNT
    lowered = paropt.jit(whole, passes="inline-calls,roll-accumulation,grad-sync,outline-accumulation").lower(
        state, batch
    )
    assert "accumulate_grad" in paropt.manifest(lowered).stages
    assert paropt.manifest(lowered.compiler_ir()) == paropt.manifest(lowered)


def test_examples_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "accumulation.md").read_text().partition("## One program per micro-batch")[2]
    blocks = re.findall(r"^```python\n(.*?)^```", page.partition("\n## ")[0], re.M | re.S)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/accumulation.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "last accumulate_grad_and_sync [('all-reduce', 144)]" in printed
    assert "apart accumulate_grad []" in printed
    want, losses = jax.jit(names["step"])(names["fresh"](), names["batch"])
    assert_equal((want, losses), (names["state"], names["losses"]))


def test_what_xla_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paropt.hook.step_programs.census", lambda *_: ())
    state, batch = data()
    train = paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT)
    with pytest.raises(VerificationError, match="XLA lost what sync_grad says of its sums: a reduction of 32 elements"):
        train(state, batch)


# ---- mistakes

Wrong = Callable[[], Any]


def given(**options: Any) -> Any:
    state, batch = data()
    return paropt.accumulate(
        **dict[str, Any](compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT) | options
    )(state, batch)


def of_step(step: Any, **options: Any) -> Any:
    return paropt.accumulate(step, **{"microbatches": COUNT} | options)(*data())


def with_print(state: Any, batch: Any) -> Any:
    jax.debug.print("{x}", x=state["step"])
    return whole(state, batch)


def with_callback(state: Any, batch: Any) -> Any:
    new, losses = whole(state, batch)
    return new, jax.pure_callback(np.asarray, losses, losses)


def two_loops(state: Any, batch: Any) -> Any:
    def trip(total: Any, row: Any) -> tuple[Any, None]:
        return total + row.sum() * state["w"], None

    total, _ = jax.lax.scan(trip, jnp.zeros_like(state["w"]), batch[0])
    total, _ = jax.lax.scan(trip, total, batch[1])
    return total, None


@functools.partial(jax.lax.composite, name="test.twice")
def twice(x: Any) -> Any:
    return 2 * x


def with_composite(state: Any, batch: Any) -> Any:
    new, losses = whole(state, batch)
    return new, twice(losses)


def on_host() -> None:
    state, batch = data()
    state["w"] = jax.device_put(state["w"], state["w"].sharding.with_memory_kind("unpinned_host"))
    paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT)(state, batch)


def used_twice() -> None:
    state, batch = data()
    train = paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT)
    train(state, batch)
    train(state, batch)


def too_few() -> None:
    state, batch = data()
    train = paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT)
    train(state, micro_batches(batch, 3))


def other_sizes() -> None:
    state, batch = data()
    train = paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT)
    first, *others = micro_batches(batch)
    train(state, iter([first, *(jax.tree.map(lambda leaf: leaf[:8], each) for each in others)]))


def batch_norm(state: Any, batch: Any) -> Any:
    """A step of the whole batch that looks at all examples at once."""

    def loss_of(w: jax.Array) -> jax.Array:
        x, y = (part.reshape(-1, part.shape[-1]) for part in batch)
        made = x @ w
        return jnp.sum(((made - made.mean(0)) / (made.var(0) + 1) - y) ** 2)

    return jax.tree.map(jnp.subtract, state, {**state, "w": jax.grad(loss_of)(state["w"])}), None


def inside_jit() -> None:
    jax.jit(paropt.accumulate(compute_grad=compute_grad, apply_grad=apply_grad, microbatches=COUNT))(*data())


MISTAKES: list[tuple[Wrong, str]] = [
    (lambda: given(microbatches=0), "microbatches: expected a positive integer, got 0"),
    (lambda: given(sync="never"), "sync: expected one of apart, last, apply, every, got 'never'"),
    (lambda: given(donate="all"), "donate: expected 'state' or None, got 'all'"),
    (
        lambda: given(forward=forward),
        "expected one of a step, compute_grad= and forward=, got compute_grad and forward",
    ),
    (lambda: given(compute_grad=None), "expected one of a step, compute_grad= and forward=, got none"),
    (lambda: given(apply_grad=None), "compute_grad needs apply_grad="),
    (lambda: of_step(whole, apply_grad=apply_grad), "a step has its own update: it takes no apply_grad="),
    (lambda: given(microbatches=3), "batch[0]: expected 3 micro-batches in dimension 0, got shape (4, 16, 4)"),
    (lambda: of_step(whole, microbatches=8), "microbatches: expected 4, the trips of the step's loop, got 8"),
    (
        lambda: of_step(lambda state, batch: (state, batch)),
        "the step cannot be cut into programs: no argument has examples",
    ),
    (lambda: of_step(batch_norm), "the step cannot be cut into programs: "),
    (lambda: of_step(two_loops), "2 loops add up (mark the gradients)"),
    (lambda: of_step(with_print), "the step has effects, which would be lost between programs"),
    (lambda: of_step(with_callback), "the step calls back into Python at "),
    (lambda: of_step(with_composite), "the step calls @test.twice, which is not inlined, at "),
    (on_host, "the step has arguments or results in other memory than the device's"),
    (used_twice, "array 0 of the state or the batch was donated by an earlier call"),
    (too_few, "the iterator ended after 3 of 4 micro-batches"),
    (other_sizes, "a micro-batch has float32[8, 4] where the first has float32[16, 4]"),
    (inside_jit, "call it outside of jax.jit"),
    (
        lambda: of_step(whole, in_shardings=None),
        "accumulate: no argument in_shardings; of those of jax.jit it takes static",
    ),
    (lambda: given(donate_argnums=0), "accumulate: donate_argnums is for a whole step, not for compute_grad"),
    (lambda: of_step(equinox.filter_jit(whole)), "accumulate: the function is compiled by equinox already; give"),
    (lambda: paropt.manifest(jax.jit(whole).lower(*data())), "manifest: the module has none"),
]


@pytest.mark.parametrize(("wrong", "words"), MISTAKES, ids=[words[:30] for _, words in MISTAKES])
def test_mistakes_are_told_in_one_line(wrong: Wrong, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        wrong()
    assert "\n" not in str(raised.value)
