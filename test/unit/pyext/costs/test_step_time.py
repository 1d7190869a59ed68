"""Costs: figures of machines, times of collectives, FLOPs against closed forms, and overlap in a schedule."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from paropt.clusters import targets
from paropt.costs import CostError, Estimate, cluster_of, collective_seconds, estimate, read_table
from paropt.costs.clusters import Cluster, Step, Unit
from paropt.costs.collective_times import collective_seconds as seconds_of
from paropt.costs.machines import TYPES, Link, Machine, parse

TABLE = read_table()
FAST = Link("fast", "host", 100.0, 1.0, 10.0, ("ring",), "test")
SLOW = Link("slow", "cluster", 10.0, 2.0, 20.0, ("ring",), "test")
# 2 hosts of 4 devices; one FLOP and one byte take a second each, so that tests can count.
MACHINE = Machine("test", {"f32": 1.0}, 1.0, 0.0, (FAST, SLOW), "test")
CLUSTER = Cluster("test", MACHINE, tuple(Unit(position // 4, 0) for position in range(8)))

GOOD = """
[mine]
memory_bandwidth = 1e12
op_start = 0.0
source = "measured"
flops = { f32 = 1e12 }
links = [{ name = "wire", within = "cluster", bandwidth = 1e9, latency = 1e-6, start = 0.0, algorithms = ["ring"], source = "measured" }]
"""


def test_a_file_of_ones_own_adds_and_replaces(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(GOOD + GOOD.replace("[mine]", "[h100]"))
    table = read_table(tmp_path / "own.toml")
    assert table["mine"].links[0].name == table["h100"].links[0].name == "wire"
    assert table["h200"] == TABLE["h200"]


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("[mine]", "[mine", "Expected"),
        ('source = "measured"\nflops', "flops", "own.toml, mine: `source` is missing"),
        ("op_start", "op_strat", "own.toml, mine: unknown key `op_strat`; did you mean `op_start`?"),
        ("f32 = 1e12", "fp32 = 1e12", "own.toml, mine, flops: unknown type `fp32`; did you mean `f32`?"),
        ("{ f32 = 1e12 }", "{}", "own.toml, mine, flops: expected a figure by type"),
        ("bandwidth = 1e9", "bandwidth = 0", "own.toml, mine, link 1, bandwidth: expected a number above 0, found `0`"),
        ("bandwidth = 1e9", 'bandwidth = "1GB"', "link 1, bandwidth: expected a number, found `1GB`"),
        ("bandwidth = 1e9", "bandwidth = nan", "link 1, bandwidth: expected a number, found `nan`"),
        ("latency = 1e-6", "latency = -1", "link 1, latency: expected seconds, 0 or more, found `-1`"),
        ('within = "cluster"', 'within = "rack"', "within: expected one of host, slice, cluster, found `rack`"),
        ('["ring"]', '["star"]', "algorithms: expected one of ring, tree, found `star`"),
        ('["ring"]', "[]", "algorithms: expected some of ring, tree"),
        ("links = [{", "links = 3 #[{", "links: expected a list of links"),
    ],
)
def test_errors_are_one_line_that_says_where(wrong: str, right: str, message: str) -> None:
    assert wrong in GOOD
    with pytest.raises(CostError) as error:
        parse(GOOD.replace(wrong, right), "own.toml")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_links_stand_inner_first() -> None:
    line = next(line for line in GOOD.splitlines() if line.startswith("links"))
    link = line.removeprefix("links = [").removesuffix("]")
    with pytest.raises(CostError, match="expected inner links first"):
        parse(GOOD.replace(line, f"links = [{link}, {link.replace('cluster', 'host')}]"), "own.toml")


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(CostError, match=r"cannot read '.*none.toml': No such file"):
        read_table(tmp_path / "none.toml")


def test_types_without_figures_take_those_of_the_next_wider_one() -> None:
    h100, a100 = TABLE["h100"], TABLE["a100"]
    assert h100.flops_of("f8e4m3fn") == h100.flops["f8"]
    assert a100.flops_of("f8e4m3fn") == a100.flops_of("bf16")
    assert TABLE["v5e"].flops_of("f16") == TABLE["v5e"].flops_of("bf16")
    assert h100.flops_of("s32") == h100.flops_of("f64")
    assert set(TYPES) >= set(h100.flops)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ([0, 1, 2, 3], [("NVLink", 4)]),
        ([0, 8], [("InfiniBand", 2)]),
        (range(16), [("NVLink", 8), ("InfiniBand", 2)]),
        ([0, 1, 8], [("NVLink", 2), ("InfiniBand", 2)]),
        ([5], []),
    ],
)
def test_the_links_that_a_group_spans(group: list[int], expected: list[tuple[str, int]]) -> None:
    route = cluster_of("gpu:h100:1x2x8", TABLE).route([group])
    assert [(step.link.name, step.members) for step in route] == expected


def test_the_group_that_spans_most_counts() -> None:
    cluster = cluster_of("gpu:h100:1x2x8", TABLE)
    assert [step.link.name for step in cluster.route([[0, 1], [7, 8]])] == ["InfiniBand"]


def test_slices_of_tpus_are_joined_by_the_data_center_network() -> None:
    target = targets.get("tpu:v5e:2x4:2")
    target.require_compiler()
    route = cluster_of(target, TABLE).route([range(16)])
    assert [(step.link.name, step.members) for step in route] == [("ICI", 8), ("DCN", 2)]


def test_an_unknown_machine_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.txtpb").write_text("")
    with pytest.raises(CostError, match=r"the table of costs has no machine `mine`; .*a file of your own may add it"):
        cluster_of(f"gpu:{tmp_path}/mine.txtpb:1x1x8", TABLE)
    own = parse(GOOD, "own.toml")
    assert cluster_of(f"gpu:{tmp_path}/mine.txtpb:1x1x8", own).machine == own["mine"]


ONE, OUTER = (Step(FAST, 4),), (Step(SLOW, 2),)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [
        ("all-reduce", 10 + 2 * 3 * 1 + 2 * 3 / 4 * 8),
        ("all-gather", 10 + 3 * 1 + 3 / 4 * 8),
        ("reduce-scatter", 10 + 3 * 1 + 3 / 4 * 8),
        ("all-to-all", 10 + 3 * 1 + 3 / 4 * 8),
        ("ragged-all-to-all", 10 + 3 * 1 + 3 / 4 * 8),
        ("collective-permute", 10 + 1 + 8),
        ("send", 10 + 1 + 8),
        ("collective-broadcast", 10 + 3 * 1 + 8),
    ],
)
def test_seconds_of_each_kind_on_one_level(kind: str, seconds: float) -> None:
    """4 devices, 800 bytes at 100 bytes per second, 1 second per hop, 10 to start."""
    assert collective_seconds(kind, 800, ONE) == pytest.approx(seconds)


def test_a_group_over_two_levels_is_hierarchical() -> None:
    inside = 3 * 1 + 3 / 4 * 8  # a reduce-scatter, and an all-gather
    outside = 2 * 1 * 2 + 2 * 1 / 2 * 200 / 10  # a quarter of the bytes
    assert collective_seconds("all-reduce", 800, ONE + OUTER) == pytest.approx(20 + 2 * inside + outside)
    gathered = 1 * 2 + 1 / 2 * 200 / 10
    assert collective_seconds("all-gather", 800, ONE + OUTER) == pytest.approx(20 + inside + gathered)
    assert collective_seconds("collective-permute", 800, ONE + OUTER) == pytest.approx(20 + 2 + 80)


def test_the_faster_algorithm_is_taken() -> None:
    both = Link("fast", "host", 100.0, 1.0, 10.0, ("ring", "tree"), "test")
    small, large = (seconds_of("all-reduce", size, (Step(both, 8),)) for size in (8, 80_000))
    assert small == pytest.approx(10 + 2 * math.log2(8) * 1 + 2 * 8 / 100)
    assert large == pytest.approx(10 + 2 * 7 * 1 + 2 * 7 / 8 * 800)


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all-reduce", lambda n: 2 * (n - 1) / n),
        ("all-gather", lambda n: (n - 1) / n),
        ("reduce-scatter", lambda n: (n - 1) / n),
        ("all-to-all", lambda n: (n - 1) / n),
        ("collective-broadcast", lambda n: 1),
    ],
)
def test_bytes_count_with_the_factors_of_the_bus_bandwidth_of_nccl(kind: str, factor: Any, n: int) -> None:
    link = Link("wire", "host", 100.0, 0.0, 0.0, ("ring",), "test")
    assert seconds_of(kind, 100, (Step(link, n),)) == pytest.approx(factor(n))


RING = Link("ici", "slice", 100.0, 1.0, 0.0, ("ring",), "test", topology="ring")  # two links of 50 leave a device


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_an_all_to_all_on_a_ring_of_links_takes_as_long_as_its_busiest_link(n: int) -> None:
    """Counted: each device sends each other one 1/n of 800 bytes the shorter way round, to the opposite one both ways."""
    ways = [step for step in range(-n // 2, n // 2 + 1) if step]
    to_the_right = sum(step * (0.5 if step == n // 2 else 1) for step in ways if step > 0)
    seconds = to_the_right * 800 / n / 50
    assert seconds_of("all-to-all", 800, (Step(RING, n),)) == pytest.approx(n // 2 + max(seconds, (n - 1) / n * 8))


def test_on_a_ring_of_links_data_comes_half_way_round_from_both_sides() -> None:
    """jax-ml/scaling-book, sharding.md, question 3: 256 bytes among 4 chips in two hops, of 1 us each."""
    ici = TABLE["v5p"].links[0]
    assert seconds_of("all-gather", 256, (Step(ici, 4),)) == pytest.approx(2e-6, rel=0.01)
    for kind in ("all-gather", "reduce-scatter"):
        assert seconds_of(kind, 800, (Step(RING, 5),)) == pytest.approx(2 + 4 / 5 * 8)
    assert seconds_of("all-reduce", 800, (Step(RING, 5),)) == pytest.approx(2 * (2 + 4 / 5 * 8))


def test_a_permutation_on_a_ring_of_links_has_one_of_the_two() -> None:
    assert seconds_of("collective-permute", 800, (Step(RING, 8),)) == pytest.approx(1 + 800 / 50)


def test_a_broadcast_is_no_tree() -> None:
    """NCCL makes rings only of it, and its data passes as a stream."""
    both = Link("fast", "host", 100.0, 1.0, 0.0, ("ring", "tree"), "test")
    assert seconds_of("collective-broadcast", 1, (Step(both, 64),)) == pytest.approx(63 + 0.01)


def test_one_device_does_not_communicate() -> None:
    assert collective_seconds("all-reduce", 800, ()) == 0


def of_function(function: Any, *shapes: Any) -> Estimate:
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    text = jax.jit(function).lower(*arguments).compile().as_text()
    return estimate(text, cluster_of("cpu:1", TABLE))


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (lambda a, b: a @ b, [(32, 64), (64, 16)], 2 * 32 * 64 * 16),
        (lambda a, b: jnp.einsum("bij,bjk->bik", a, b), [(4, 8, 16), (4, 16, 32)], 2 * 4 * 8 * 16 * 32),
        (lambda a, b: jnp.tanh(a @ b) @ b.T, [(8, 16), (16, 4)], 2 * 2 * 8 * 16 * 4),
        (
            lambda a, b: jax.lax.conv_general_dilated(a, b, (1, 1), "VALID"),
            [(2, 3, 10, 10), (5, 3, 3, 3)],
            2 * 2 * 5 * 8 * 8 * 3 * 3 * 3,
        ),
        (
            lambda a, b: jax.lax.fori_loop(0, 7, lambda _, x: x @ b, a),
            [(8, 16), (16, 16)],
            7 * 2 * 8 * 16 * 16,
        ),
        (lambda a: a + 1, [(8, 16)], 0),
    ],
    ids=["dot", "batched", "chain", "convolution", "loop", "elementwise"],
)
def test_flops_of_products_are_those_of_the_closed_form(function: Any, shapes: Any, flops: int) -> None:
    assert of_function(function, *shapes).flops == flops


HEAD = """HloModule test, is_scheduled=true, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}
"""
GROUPS = "channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true, to_apply=%sum"


def scheduled(*lines: str, before: str = "") -> Estimate:
    """Of an entry with x: f32[200] (800 bytes) and y: f32[2] (8 bytes)."""
    text = "\n  ".join(lines)
    entry = f"ENTRY %main (x: f32[200], y: f32[2]) -> f32[200] {{\n  %x = f32[200] parameter(0)\n  %y = f32[2] parameter(1)\n  {text}\n}}\n"
    return estimate(f"{HEAD}{before}\n{entry}", CLUSTER)


REDUCE = 10 + 2 * 3 * 1 + 2 * 3 / 4 * 8  # 800 bytes among 4 devices: 28 seconds


def test_a_collective_of_one_instruction_is_not_hidden() -> None:
    found = scheduled(f"ROOT %r = f32[200] all-reduce(%x), {GROUPS}")
    assert (found.seconds, found.communication, found.hidden) == pytest.approx((REDUCE, REDUCE, 0))


@pytest.mark.parametrize("op_start", [i * 1e-4 for i in range(1, 10)])
def test_what_is_not_hidden_is_0_and_not_nearly_0(op_start: float) -> None:
    """Times with no exact binary form: an op of 16 bytes, then a collective."""
    link = replace(FAST, bandwidth=3e8, latency=1e-6, start=1e-5)
    cluster = Cluster("test", replace(MACHINE, memory_bandwidth=1e9, op_start=op_start, links=(link,)), CLUSTER.units)
    lines = ["%x = f32[2] parameter(0)", "%n = f32[2] negate(%x)", f"ROOT %r = f32[2] all-reduce(%n), {GROUPS}"]
    text = f"{HEAD}\nENTRY %main (x: f32[2]) -> f32[2] {{\n  " + "\n  ".join(lines) + "\n}\n"
    assert estimate(text, cluster).hidden == 0


@pytest.mark.parametrize(("ops", "hidden"), [(0, 0), (1, 16), (2, REDUCE)], ids=["none", "a part", "all"])
def test_what_runs_between_start_and_done_hides_the_collective(ops: int, hidden: float) -> None:
    """Each negation of y reads and writes 8 bytes, at one byte per second."""
    between = [f"%n{i} = f32[2] negate(%y)" for i in range(ops)]
    found = scheduled(
        f"%s = f32[200] all-reduce-start(%x), {GROUPS}", *between, "ROOT %d = f32[200] all-reduce-done(%s)"
    )
    assert found.communication == pytest.approx(REDUCE)
    assert found.hidden == pytest.approx(hidden)
    assert found.seconds == pytest.approx(16 * ops + REDUCE - hidden)


def test_a_pair_that_runs_together_hides_nothing() -> None:
    config = 'backend_config={"collective_backend_config":{"is_sync":true}}'
    found = scheduled(
        f"%s = f32[200] all-reduce-start(%x), {GROUPS}, {config}",
        "%n = f32[2] negate(%y)",
        "ROOT %d = f32[200] all-reduce-done(%s)",
    )
    assert (found.hidden, found.seconds) == pytest.approx((0, 16 + REDUCE))


def test_two_collectives_share_the_links() -> None:
    found = scheduled(
        f"%s = f32[200] all-reduce-start(%x), {GROUPS}",
        f"%t = f32[200] all-reduce-start(%x), {GROUPS}",
        "%d = f32[200] all-reduce-done(%s)",
        "ROOT %e = f32[200] all-reduce-done(%t)",
    )
    assert (found.communication, found.seconds) == pytest.approx((2 * REDUCE, 2 * REDUCE))


def test_the_later_of_two_may_be_awaited_first() -> None:
    found = scheduled(
        f"%s = f32[200] all-reduce-start(%x), {GROUPS}",
        f"%t = f32[200] all-reduce-start(%x), {GROUPS}",
        "%n = f32[2] negate(%y)",
        "%e = f32[200] all-reduce-done(%t)",
        "ROOT %d = f32[200] all-reduce-done(%s)",
    )
    assert (found.hidden, found.seconds) == pytest.approx((16, 2 * REDUCE))


def test_what_is_received_is_waited_for_where_it_is_needed() -> None:
    """A permutation of 800 bytes between two hosts takes 20 + 2 + 80 seconds, an op of y 16."""
    pairs = 'channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs="{{0,4}}"}'
    found = scheduled(
        "%a = token[] after-all()",
        f"%r = (f32[200], u32[], token[]) recv(%a), {pairs}",
        f"%s = (f32[200], u32[], token[]) send(%x, %a), {pairs}",
        "%n = f32[2] negate(%y)",
        "%rd = (f32[200], token[]) recv-done(%r)",
        "%m = f32[2] negate(%y)",
        "%sd = token[] send-done(%s)",
        "ROOT %g = f32[200] get-tuple-element(%rd), index=0",
    )
    assert (found.communication, found.hidden) == pytest.approx((102, 16))


BESIDE = """
%fused (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0)
  ROOT %q = f32[2] negate(%p)
}
"""


@pytest.mark.parametrize(
    ("start", "seconds"),
    [
        ("((f32[2]), f32[2], u32[]) async-start(%y), calls=%fused", 16),
        ("((f32[2]), f32[2], u32[]) fusion-start(%y), kind=kLoop, calls=%fused", 16),
        ("((f32[2]), f32[2], u32[]) call-start(%y), to_apply=%fused", 16),
        ('((f32[2]), f32[2], u32[]) custom-call-start(%y), custom_call_target="mine"', 16),
        ("((f32[2]), f32[2], u32[]) slice-start(%y), slice={[0:2]}", 0),
    ],
    ids=["wrapped", "fusion", "call", "custom call", "early copy"],
)
def test_what_starts_to_run_beside_others_counts_where_it_starts(start: str, seconds: float) -> None:
    """8 bytes read and 8 written; what reads an early copy is counted as if it read the original."""
    done = start.partition("(%y)")[0].rpartition(" ")[2].replace("-start", "-done")
    found = scheduled(f"%s = {start}", f"%d = f32[2] {done}(%s)", "ROOT %n = f32[200] negate(%x)", before=BESIDE)
    assert found.seconds == pytest.approx(1600 + seconds)


LOOP = """
%body (p: f32[2]) -> f32[2] {
  %p = f32[2] parameter(0)
  ROOT %q = f32[2] negate(%p)
}

%condition (p: f32[2]) -> pred[] {
  %p = f32[2] parameter(0)
  ROOT %q = pred[] constant(true)
}
"""


@pytest.mark.parametrize(("known", "times"), [(', backend_config={"known_trip_count":{"n":"5"}}', 5), ("", 1)])
def test_loops_are_multiplied_by_their_trip_counts(known: str, times: int) -> None:
    found = scheduled(
        f"%w = f32[2] while(%y), condition=%condition, body=%body{known}", "ROOT %n = f32[200] negate(%x)", before=LOOP
    )
    assert found.seconds == pytest.approx(16 * times + 1600)
    assert found.at_least == (not known)
    assert {op.name: op.executions for op in found.ops} == {"q": times, "n": 1}


def test_a_call_that_is_not_known_counts_with_its_bytes_and_is_named() -> None:
    found = scheduled('ROOT %r = f32[200] custom-call(%x), custom_call_target="mine"')
    assert (found.seconds, found.unknown) == (1600, ("mine",))


def test_an_executable_for_more_devices_is_an_error_of_one_line() -> None:
    with pytest.raises(CostError, match="test has 2 devices, the executable is for 8"):
        estimate(
            f"{HEAD}\nENTRY %main (x: f32[2]) -> f32[2] {{\n  ROOT %x = f32[2] parameter(0)\n}}\n",
            Cluster("test", MACHINE, CLUSTER.units[:2]),
        )
