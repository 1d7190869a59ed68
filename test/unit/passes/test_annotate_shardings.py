"""Sharding rules on programs that jax lowers, and what wrong rules say."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from numeric import oracle
from numeric.corpus import LIT, Case, cases
from numeric.global_results import whole_results
from programs.program import mesh_of
from unit.clusters import available

import paropt
from paropt.clusters.compiled import memory_of
from paropt.modules.contract_check import broken
from paropt.passes.state.role_rules import RuleError, load, parse
from paropt.passes.state.rule_presets import PRESETS
from paropt.passes.support.pipeline import PipelineError

GPU = "gpu:h100:1x1x8"
WIDTH, HIDDEN, MICRO_BATCHES, EXAMPLES = 64, 256, 4, 16
PARAMETERS = 2 * WIDTH * HIDDEN * 4  # bytes
BATCH = MICRO_BATCHES * EXAMPLES * WIDTH * 4


def step(state: Any, batch: Any) -> Any:
    """Two matrices with a momentum each, and the gradients of several micro-batches added up."""

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ params["up"]["kernel"]) @ params["down"]["kernel"] - x) ** 2)

    def body(total: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(state["params"], x)
        return jax.tree.map(jnp.add, total, gradients), value

    total, losses = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, state["params"]), batch)
    momentum = jax.tree.map(lambda m, g: 0.5 * m + g, state["momentum"], total)
    params = jax.tree.map(lambda p, m: p - 0.1 * m, state["params"], momentum)
    return {"params": params, "momentum": momentum, "count": state["count"] + 1}, losses


def arguments(mesh: jax.sharding.Mesh) -> tuple[Any, jax.Array]:
    """The state is nowhere yet; the batch brings the mesh."""
    rng = np.random.default_rng(0)
    shapes = {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
    params = {name: {"kernel": rng.normal(size=shape).astype(np.float32) / 8} for name, shape in shapes.items()}
    state = {"params": params, "momentum": jax.tree.map(np.ones_like, params), "count": np.zeros((), np.int32)}
    batch = rng.normal(size=(MICRO_BATCHES, EXAMPLES, WIDTH)).astype(np.float32)
    rest = [axis for axis in ("replica", "data", "expert") if axis in mesh.shape]
    return state, jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, tuple(rest))))


def spec(array: jax.Array) -> tuple[Any, ...]:
    sharding: Any = array.sharding
    found = tuple(sharding.spec)
    return found + (None,) * (array.ndim - len(found))


D, M = "data", "model"
CASES = {
    # preset: the mesh, the parameters `up` and `down`, their momentum, and into how many parts each is cut
    "dp": ({"data": 8}, (None, None), (None, None), (None, None), (None, None), 1, 1),
    "fsdp": ({"data": 8}, (None, D), (D, None), (None, D), (D, None), 8, 8),
    "hsdp": ({"replica": 2, "data": 4}, (None, D), (D, None), (None, (D, "replica")), ((D, "replica"), None), 4, 8),
    "zero1": ({"data": 8}, (None, None), (None, None), (None, D), (D, None), 1, 8),
    "tp": ({"data": 4, "model": 2}, (None, M), (M, None), (None, M), (M, None), 2, 2),
}


@pytest.mark.parametrize("preset", CASES)
def test_presets(preset: str) -> None:
    axes, up, down, up_momentum, down_momentum, parts, momentum_parts = CASES[preset]
    state, batch = arguments(mesh_of(None, **axes))
    expected = jax.tree.map(np.asarray, jax.jit(step)(state, batch))
    passes = f"inline-calls,annotate-shardings{{preset={preset}}},annotate-contract{{gradients=false}}"
    jitted = paropt.jit(step, passes=passes, strict=True)
    lowered = jitted.lower(state, batch)
    assert all(r.applied for r in paropt.remarks(lowered) if r.pass_name == "annotate-shardings")
    planned = memory_of(lowered.compile().memory_analysis())
    assert planned is not None
    data = int(np.prod([size for axis, size in axes.items() if axis != "model"]))
    assert planned.argument == PARAMETERS // parts + PARAMETERS // momentum_parts + BATCH // data + 4

    for _ in range(2):  # the second time, the state is where the first put it
        results = jitted(state, batch)
        for got, want in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        new = results[0]
        assert spec(new["params"]["up"]["kernel"]) == up
        assert spec(new["params"]["down"]["kernel"]) == down
        assert spec(new["momentum"]["up"]["kernel"]) == up_momentum
        assert spec(new["momentum"]["down"]["kernel"]) == down_momentum
        placed = jax.tree.map(lambda array: array.sharding, new)
        state = jax.device_put(state, placed)


FUNCTIONS = [case for case in cases(LIT / "annotate-shardings.mlir") if case.skip]


@pytest.mark.parametrize("case", FUNCTIONS, ids=str)
def test_functions_of_the_lit_file(case: Case) -> None:
    before = oracle.only(case.module, case.function)
    after, _ = oracle.optimized(before, case.passes)
    for got, want in zip(whole_results(after), whole_results(before), strict=True):
        np.testing.assert_array_equal(got, want)


def test_zero1_keeps_gradients_whole() -> None:
    state, batch = arguments(mesh_of(data=8))
    lowered = paropt.jit(step, passes="inline-calls,annotate-shardings{preset=zero1}", strict=True).lower(state, batch)
    assert broken(lowered.compiler_ir()) == []


def test_moe_splits_experts() -> None:
    def f(state: Any, x: Any) -> Any:
        y = jnp.einsum("ed,edf->ef", x, state["experts"]["up"])
        return {"experts": {"up": state["experts"]["up"] + y.mean()}, "gate": state["gate"] * 2}, y.sum()

    mesh = mesh_of(replica=4, expert=2)
    state = {"experts": {"up": np.ones((4, 8, 16), np.float32)}, "gate": np.ones((8, 4), np.float32)}
    x = jax.device_put(np.ones((4, 8), np.float32), NamedSharding(mesh, PartitionSpec()))
    new, _ = paropt.jit(f, passes="inline-calls,annotate-shardings{preset=moe}", strict=True)(state, x)
    assert spec(new["experts"]["up"]) == ("expert", None, None)
    assert spec(new["gate"]) == (None, None)
    np.testing.assert_array_equal(new["experts"]["up"], np.asarray(jax.jit(f)(state, x)[0]["experts"]["up"]))


def test_rules_of_ones_own_come_before_those_of_the_preset(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\npath = "params/up/*"\nshard = ["rows", ""]\n[axes]\nrows = "data"\n')
    state, batch = arguments(mesh_of(data=8))
    passes = f"inline-calls,annotate-shardings{{rules={rules} preset=fsdp}}"
    new, _ = paropt.jit(step, passes=passes, strict=True)(state, batch)
    assert spec(new["params"]["up"]["kernel"]) == ("data", None)
    assert spec(new["params"]["down"]["kernel"]) == ("data", None)
    assert spec(new["momentum"]["up"]["kernel"]) == (None, "data")


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_fsdp_gathers_one_layer_of_a_stack_at_a_time(dtype: Any) -> None:
    """What constrained FSDP sends: in each trip two gathers of a layer, one of them for the layer computed again.

    Both are in the type to which the layer converts its parameter.
    """
    layers, width, trips = 3, 16, 4

    def step(state: Any, batches: Any) -> Any:
        def loss(stack: jax.Array, x: jax.Array) -> jax.Array:
            layer = jax.checkpoint(lambda x, w: (jnp.tanh(x @ w.astype(dtype)), None))
            return jnp.sum(jax.lax.scan(layer, x, stack)[0].astype(jnp.float32) ** 2)

        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            value, gradient = jax.value_and_grad(loss)(state["stack"], x)
            return total + gradient, value

        total, losses = jax.lax.scan(body, jnp.zeros_like(state["stack"]), batches)
        return {"stack": state["stack"] - total}, losses

    batches = jnp.ones((trips, 8, width), dtype)
    placed = jax.device_put(batches, NamedSharding(mesh_of(data=8), PartitionSpec(None, "data")))
    jitted = paropt.jit(step, passes="inline-calls,annotate-shardings{preset=fsdp}", strict=True)
    state = {"stack": np.ones((layers, width, width), np.float32) / width}
    available(GPU)  # XLA:CPU gathers bf16 as f32
    audit = paropt.audit(jitted.lower(state, placed), targets=[GPU])[GPU].after
    gathers = [each for each in audit.collectives if each.kind == "all-gather"]
    assert {each.payload for each in gathers} == {width * width * jnp.dtype(dtype).itemsize}
    assert sum(each.executions or 0 for each in gathers) <= 2 * layers * trips
    np.testing.assert_allclose(jitted(state, placed)[1], jax.jit(step)(state, batches)[1], rtol=1e-5)


def test_arguments_that_jax_placed_keep_their_shardings() -> None:
    mesh = mesh_of(data=8)
    state, batch = arguments(mesh)
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    jitted = paropt.jit(step, passes="inline-calls,annotate-shardings{preset=fsdp}", strict=True)
    told = [r.text for r in paropt.remarks(jitted.lower(state, batch)) if not r.applied]
    assert len(told) == 4  # the counter is whole, as the rules have it
    assert told[0].endswith("is sharded [{}, {}] by its caller, and preset fsdp, rule 4 says [{data}, {}]")
    jitted(state, batch)


def test_a_mistake_in_the_rules_is_raised_in_one_line(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nrole = "state"\nlargest = "dat"\n')
    state, batch = arguments(mesh_of(data=8))
    with pytest.raises(PipelineError) as raised:
        paropt.jit(step, passes=f"annotate-shardings{{rules={rules}}}")(state, batch)
    assert str(raised.value) == (
        f"annotate-shardings: {rules}, rule 1: the mesh has no axis `dat`; did you mean `data`?"
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_rules(preset: str) -> None:
    assert load("", preset).rules


@pytest.mark.parametrize(
    "text, message",
    [
        ("[[rule", "r: Expected "),
        ("x = 1", "r: unknown key `x`; there are axes, rule"),
        ("rule = 1", "r: expected a table [axes] and tables [[rule]]"),
        ("axes = 1", "r: expected a table [axes] and tables [[rule]]"),
        ("rule = [1]", "r, rule 1: expected a table"),
        ("[[rule]]\nshards = []", "r, rule 1: unknown key `shards`; did you mean `shard`?"),
        ("[[rule]]\npath = 'a'", "r, rule 1: expected one of shard, largest, examples, whole"),
        ("[[rule]]\nwhole = true\nlargest = 'a'", "r, rule 1: expected one of shard, largest, examples, whole"),
        ("[[rule]]\nwhole = false", "r, rule 1: expected whole = true"),
        ("[[rule]]\nlargest = 3", 'r, rule 1: expected the name of an axis, as in largest = "data"'),
        ("[[rule]]\nshard = 3", 'r, rule 1, shard: expected names of axes, as in ["data", ""]'),
        ("[[rule]]\nshard = ['...', '...']", 'r, rule 1, shard: "..." may stand for dimensions once'),
        ("[[rule]]\nrole = 'param'\nwhole = true", "r, rule 1: no role called `param`; did you mean `parameter`?"),
        ("[[rule]]\nregex = '('\nwhole = true", "r, rule 1: `(` is no regular expression: "),
        (
            "[[rule]]\nregex = 'a'\npath = 'a'\nwhole = true",
            "r, rule 1: `path` and `regex` both say which arrays: give one of them",
        ),
        ("[[rule]]\nmin_bytes = '1MB!'\nwhole = true", 'r, rule 1: expected bytes, as in min_bytes = "1MiB"'),
        ("[[rule]]\nmin_rank = '2'\nwhole = true", "r, rule 1: expected an integer, as in min_rank = 2"),
        ("[axes]\nx = 3", 'r, axes.x: expected names of axes, as in ["data", ""]'),
    ],
)
def test_wrong_rules_say_where_and_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(RuleError) as raised:
        parse(text, "r")
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "glob, path, fits",
    [
        ("kernel", "state/params/kernel", True),
        ("kernel", "state/params/subkernel", False),
        ("params/*/kernel", "state/params/0/kernel", True),
        ("params/*/kernel", "state/params/0/1/kernel", False),
        ("params/**/kernel", "state/params/0/1/kernel", True),
        ("params/**/kernel", "state/params/kernel", True),
        ("params/**", "state/params/0/kernel", True),
        ("params/**", "state/params", True),
        ("w?", "w1", True),
        ("a.b", "axb", False),
        ("layers/[0]", "layers/[0]", True),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    for given in (f"'{glob}'", f"['no/such', '{glob}']"):
        (rule,) = parse(f"[[rule]]\npath = {given}\nwhole = true", "r").rules
        assert rule.fits(path, ("state",), 0, 0) == fits


def test_sizes_and_ranks() -> None:
    text = "[[rule]]\npath = 'x'\nmin_bytes = '1MiB'\nmin_rank = 2\nwhole = true"
    (rule,) = parse(text, "r").rules
    assert rule.fits("x", (), 1 << 20, 2)
    assert not rule.fits("x", (), (1 << 20) - 1, 2)
    assert not rule.fits("x", (), 1 << 20, 1)
