"""What is given away, what becomes of it, and what is said about the rest: `annotate-aliases` inside `paropt.jit`."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from programs.catalog import PROGRAMS
from unit.clusters import available

import paropt
from paropt.clusters import compiled, targets
from paropt.jit import rewritten
from paropt.passes.support.pipeline import Pipeline

PASSES = "inline-calls,annotate-aliases"
NAME = "annotate-aliases"


def memory(lowered: jax.stages.Lowered) -> compiled.Memory:
    planned = targets.memory_of(lowered.compile().memory_analysis())
    assert planned is not None
    return planned


def told(lowered: jax.stages.Lowered) -> list[str]:
    """What the pass says, without the name of the function."""
    return [remark.text for remark in paropt.remarks(lowered) if remark.pass_name == NAME]


def data(*shape: int, seed: int = 0) -> jax.Array:
    """Made by XLA: numpy's memory is lent to jax, and cannot be overwritten."""
    return jax.random.randint(jax.random.key(seed), shape, -8, 9).astype(jnp.float32)


def momentum(w: Any, m: Any, x: Any) -> Any:
    """The new momentum comes first: jax matches by type, in order, and crosses the two."""
    m = 0.5 * m + x.astype(jnp.float32)
    return m, w - 0.5 * m


WIDE, NARROW = (jax.ShapeDtypeStruct((256, 256), dtype) for dtype in (jnp.float32, jnp.int8))
BYTES = 256 * 256 * 4


# ---- what may be overwritten


def test_what_is_donated_is_overwritten_by_its_own_new_value() -> None:
    plain = jax.jit(momentum, donate_argnums=(0, 1)).lower(WIDE, WIDE, NARROW)
    lowered = paropt.jit(momentum, passes=PASSES, donate_argnums=(0, 1), strict=True).lower(WIDE, WIDE, NARROW)
    crossed, ours = memory(plain), memory(lowered)
    assert crossed.alias == ours.alias == 2 * BYTES
    assert (crossed.temp, ours.temp) == (2 * BYTES, 0), "what jax crosses, XLA has to copy"
    assert told(lowered) == [
        f"argument 0 (w) is overwritten by result 1 (result[1]), which saves {BYTES} bytes per device",
        f"argument 1 (m) is overwritten by result 0 (result[0]), which saves {BYTES} bytes per device",
    ]


def test_the_arrays_are_the_same_memory_and_the_values_are_right() -> None:
    w, m, x = data(8, 8), data(8, 8, seed=1), data(8, 8, seed=2).astype(jnp.int8)
    expected = [np.asarray(v) for v in jax.jit(momentum)(w, m, x)]
    places = [m.unsafe_buffer_pointer(), w.unsafe_buffer_pointer()]
    results = paropt.jit(momentum, passes=PASSES, donate_argnums=(0, 1), strict=True)(w, m, x)
    assert w.is_deleted() and m.is_deleted() and not x.is_deleted()
    assert [result.unsafe_buffer_pointer() for result in results] == places
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_what_is_not_donated_is_a_candidate_and_lives() -> None:
    w, m, x = data(8, 8), data(8, 8), data(8, 8).astype(jnp.int8)
    step = paropt.jit(momentum, passes=PASSES, strict=True)
    step(w, m, x)
    assert not (w.is_deleted() or m.is_deleted() or x.is_deleted())
    assert told(step.lower(w, m, x)) == [
        "argument 0 (w) stays: it is not given away; result 1 (result[1]) could overwrite it and save 256 bytes per "
        "device",
        "argument 1 (m) stays: it is not given away; result 0 (result[0]) could overwrite it and save 256 bytes per "
        "device",
    ]


def test_the_marks_of_the_hook_do_not_stay() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax warns of what it cannot use
        lowered = paropt.jit(lambda x: x.sum(), passes=PASSES, donate_argnums=0, strict=True).lower(data(4))
    assert "paropt" not in lowered.as_text()
    assert told(lowered) == ["argument 0 (x) stays: no result has its type, tensor<4xf32>"]


def test_arguments_that_jit_drops_shift_nothing() -> None:
    def f(unused: Any, w: Any, also_unused: Any, x: Any) -> Any:
        return x - w

    w, x = data(4), data(4)
    step = paropt.jit(f, passes=PASSES, donate_argnums=1, strict=True)
    assert told(step.lower(data(2), w, data(3), x)) == [
        "argument 0 (w) is overwritten by result 0 (result), which saves 16 bytes per device"
    ]
    step(data(2), w, data(3), x)
    assert w.is_deleted() and not x.is_deleted()


def test_tokens_come_before_what_the_flags_are_about() -> None:
    def f(x: Any, y: Any) -> Any:
        jax.debug.print("{}", y.sum(), ordered=True)
        return x + 1

    lowered = paropt.jit(f, passes=PASSES, donate_argnums=1, strict=True).lower(data(4), data(4))
    assert told(lowered)[-1].startswith("argument 2 (y) is overwritten by result 1 (result)")


# ---- donate="state"


def test_state_is_what_comes_back() -> None:
    program = PROGRAMS["transformer_p0_adam"]()
    state, tokens = program.args
    state_bytes = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    kept = paropt.jit(program.step, strict=True)
    given = paropt.jit(program.step, donate="state", strict=True)
    before, after = memory(kept.lower(state, tokens)), memory(given.lower(state, tokens))
    assert (before.alias, after.alias) == (0, state_bytes)
    assert after.peak < before.peak - state_bytes / 8
    assert memory(paropt.jit(program.step, donate_argnums=0).lower(state, tokens)) == after

    expected = jax.tree.map(np.asarray, kept(state, tokens))
    results = given(state, tokens)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state)) and not tokens.is_deleted()
    for got, want in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_state_goes_to_a_pass_that_is_there_and_else_to_the_end() -> None:
    def spelt(passes: str) -> str:
        return str(paropt.jit(momentum, passes=passes, donate="state")._spec.pipeline)

    assert spelt("inline-calls") == "inline-calls,annotate-aliases{donate=state}"
    assert spelt("annotate-aliases{donate=allowed},cse") == "annotate-aliases{donate=state},cse"
    assert spelt("") == "annotate-aliases{donate=state}"
    assert str(paropt.jit(momentum, passes=Pipeline.parse("cse"))._spec.pipeline) == "cse"


def test_another_word_is_refused_with_what_would_be_right() -> None:
    with pytest.raises(ValueError, match=r"^donate: expected 'state' or None, got 'w'; .* donate_argnums or"):
        paropt.jit(momentum, donate="w")  # type: ignore[call-overload]  # the mistake


def test_what_could_be_state_or_not_is_kept() -> None:
    def f(mean: Any, gradient: Any) -> Any:
        return 0.5 * mean + gradient

    lowered = paropt.jit(f, donate="state", strict=True).lower(data(4), data(4))
    assert "stays: it is not given away; result 0 (result) could overwrite it" in told(lowered)[0]


def test_a_batch_of_the_type_of_a_result_is_no_state() -> None:
    def f(state: Any, batch: Any) -> Any:
        return {"w": state["w"] - batch.sum()}, {"x": jnp.zeros(4)}

    state, batch = {"w": data(4)}, data(4)
    paropt.jit(f, donate="state", strict=True)(state, batch)
    assert state["w"].is_deleted() and not batch.is_deleted()


# ---- given away in vain: each reason


def mesh() -> Mesh:
    return jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))


def reason(f: Callable[..., Any], *args: Any, **jit: Any) -> str:
    """Why the first argument stays, which is donated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = paropt.jit(f, passes=PASSES, donate_argnums=0, strict=True, **jit).lower(*args)
    (text,) = [text for text in told(lowered) if text.startswith("argument 0 (x) stays: ")]
    return text.removeprefix("argument 0 (x) stays: ")


def test_reason_type() -> None:
    assert reason(lambda x: x.astype(jnp.int32), data(4)) == "no result has its type, tensor<4xf32>"


def test_reason_sharding() -> None:
    split, whole = NamedSharding(mesh(), PartitionSpec("data")), NamedSharding(mesh(), PartitionSpec())
    text = reason(lambda x: -x, data(8), in_shardings=split, out_shardings=whole)
    assert text == "result 0 (result) is sharded otherwise: [{}], and not [{data}]"


def test_reason_read_after_write() -> None:
    def f(x: Any, y: Any) -> Any:
        new = jnp.cos(y)
        return new, new @ x

    text = reason(f, data(4), data(4), keep_unused=True)
    assert text.startswith("it is read after result 0 (result[0]) is computed (stablehlo.dot_general at ")
    assert "test_donation.py" in text, "with the line of the program"


def test_reason_memory_kind() -> None:
    device = jax.devices()[0]
    kinds = [memory.kind for memory in device.addressable_memories()]
    if len(kinds) < 2:
        pytest.skip("this backend has one memory")
    here, there = (jax.sharding.SingleDeviceSharding(device, memory_kind=kind) for kind in ("device", "pinned_host"))
    text = reason(lambda x: jax.device_put(x, there), data(4), in_shardings=here, out_shardings=there)
    assert text == "result 0 (result) is in other memory: pinned_host, and not device"


def test_reason_another_takes_the_result() -> None:
    def f(x: Any, y: Any) -> Any:
        return y - x.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = paropt.jit(f, passes=PASSES, donate_argnums=(0, 1), strict=True).lower(data(4), data(4))
    assert told(lowered)[0] == "argument 0 (x) stays: each result that could overwrite it overwrites another argument"


# ---- ways to lower


def test_a_copy_of_a_lowered_program_knows_what_was_donated() -> None:
    def f(unused: Any, x: Any, y: Any) -> Any:
        return y.sum() + x.sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = jax.jit(f, donate_argnums=2).lower(data(2), data(4), data(4))
    copied, remarks = rewritten(lowered, PASSES)
    assert [remark.text for remark in remarks] == ["argument 1 (y) stays: no result has its type, tensor<4xf32>"]
    assert "paropt" not in copied.as_text()


@pytest.mark.parametrize("name", ["cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_state_is_overwritten_on_each_kind_of_cluster(name: str) -> None:
    target = available(name)
    split = NamedSharding(target.mesh({"data": 8}), PartitionSpec("data"))
    shape, narrow = (jax.ShapeDtypeStruct((2048, 512), dtype) for dtype in (jnp.float32, jnp.int8))

    def planned(**jit: Any) -> compiled.Memory:
        step = paropt.jit(momentum, passes=PASSES, in_shardings=split, out_shardings=split, strict=True, **jit)
        memory = target.compile(step.lower(shape, shape, narrow)).memory
        assert memory is not None
        return memory

    kept, given = planned(), planned(donate="state")
    assert given.alias == 2 * 2048 * 512 * 4 // 8
    assert given.peak <= kept.peak - given.alias


def test_the_accumulator_of_a_loop_is_updated_in_place() -> None:
    def f(acc: Any, w: Any, xs: Any) -> Any:
        return jax.lax.scan(lambda a, x: (a + jnp.tanh(x @ w).T @ x, None), acc, xs)[0]

    shapes = (WIDE, WIDE, jax.ShapeDtypeStruct((4, 256, 256), jnp.float32))
    kept = paropt.jit(f, passes=PASSES, strict=True).lower(*shapes).compile()
    given = paropt.jit(f, passes="inline-calls", donate="state", strict=True).lower(*shapes).compile()
    assert given.memory_analysis().alias_size_in_bytes == BYTES
    assert given.as_text().count(" copy(") < kept.as_text().count(" copy("), "the start value is not copied any more"
