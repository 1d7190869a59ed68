"""The census: rows counted by hand, for real text and for lines as XLA:GPU and XLA:TPU print them."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from programs.catalog import INTEGER_MLPS, MLPS, PROGRAMS, TRANSFORMERS
from programs.program import Sizes, data_mesh

from paropt.audit import Audit, AuditComparison, audit, size_text
from paropt.hlo.census import Collective, Loop, census
from paropt.hlo.parser import HloError
from paropt.hlo.traffic import traffic

SAVED = Path(__file__).parent / "saved"

MAIN = """HloModule test{header}

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}
{computations}
ENTRY %main (x: f32[8,4], y: bf16[6], z: f32[]) -> f32[] {{
  %x = f32[8,4]{{1,0}} parameter(0)
  %y = bf16[6]{{0}} parameter(1)
  %z = f32[] parameter(2)
  {lines}
  ROOT %end = f32[] custom-call()
}}
"""


def rows_of(*lines: str, computations: str = "", header: str = ", num_partitions=8") -> tuple[Collective, ...]:
    """The census of a module whose entry has these lines, beside x: f32[8,4], y: bf16[6] and z: f32[]."""
    return census(MAIN.format(lines="\n  ".join(lines), computations=computations, header=header))


def facts(row: Collective) -> tuple[object, ...]:
    return row.kind, row.executions, row.depth, row.payload, row.group, row.at_most, row.asynchronous


@pytest.mark.parametrize("version", ["0.10.2", "0.12.0"])
def test_rows_of_real_cpu_text(version: str) -> None:
    """`every_kind` in saved/generate.py: w is f32[8,4] on a mesh of data=4 and model=2."""
    rows = census((SAVED / f"cpu-jax-{version}.txt").read_text())
    found = sorted((row.source_line, *facts(row)) for row in rows)
    w = 8 * 4 * 4
    assert found == [
        (29, "all-reduce", 15, 2, w, 4, False, False),
        (32, "all-gather", 5, 1, 2 * w, 2, False, False),
        (33, "all-reduce", 5, 1, 4, 4, False, False),
        (33, "all-reduce", 5, 1, w, 8, False, False),
        (36, "reduce-scatter", 1, 0, w, 4, False, False),
        (37, "collective-permute", 1, 0, w // 4, 8, False, False),
        (38, "all-to-all", 1, 0, w, 4, False, False),
        (39, "all-reduce", 1, 0, w, 4, True, False),
        (40, "all-reduce", 1, 0, w + w // 2, 4, False, False),  # XLA:CPU sums bf16[4,4] in f32
    ]
    assert {row.source_file for row in rows} == {"generate.py"}
    inner = next(row for row in rows if row.depth == 2)
    assert [loop.trip_count for loop in inner.loops] == [5, 3]
    assert all(loop.name.startswith("jit(every_kind)") and loop.name.endswith("while") for loop in inner.loops)
    assert inner.op_name.endswith("psum")


def test_totals_of_real_cpu_text() -> None:
    result = audit((SAVED / "cpu-jax-0.10.2.txt").read_text())
    total = result.total("all-reduce")
    assert (total.ops, total.arrays, total.executions) == (4, 5, 15 + 5 + 1 + 1)
    assert (total.in_loops, total.outside) == (20 * 128, 128 + 192)
    assert total.wire == 15 * 128 * 2 * 3 / 4 + 5 * 128 * 2 * 7 / 8 + (128 + 192) * 2 * 3 / 4
    assert total.at_most and not total.at_least
    assert result.sync_bytes == total.bytes + 128
    assert result.sync_in_loop == 20 * 128
    assert (result.scalars.ops, result.scalars.executions, result.scalars.bytes) == (1, 5, 20)
    assert result.total("all-gather").wire == 5 * 256 / 2
    assert result.peak_memory is None


def test_rows_of_real_tpu_text() -> None:
    """`async_gather` in saved/generate.py: XLA:TPU prints the asynchronous all-gather three times."""
    text = (SAVED / "tpu-v5e-jax-0.10.2.txt").read_text()
    assert text.count(" all-gather(") == 3
    w = 256 * 256 * 4
    assert sorted(map(facts, census(text))) == [
        ("all-gather", 5, 1, 2 * w, 2, False, True),
        ("all-reduce", 5, 1, w, 8, False, False),
        ("all-reduce", 15, 2, w, 4, False, False),
    ]


def test_rows_of_real_gpu_text() -> None:
    """The same for XLA:GPU: pairs of start and done, of which the inner one runs together."""
    text = (SAVED / "gpu-h100-jax-0.10.2.txt").read_text()
    w = 256 * 256 * 4
    assert sorted(map(facts, census(text))) == [
        ("all-gather", 5, 1, 2 * w, 2, False, True),
        ("all-reduce", 5, 1, w, 8, False, True),
        ("all-reduce", 15, 2, w, 4, False, False),
    ]


def test_rows_of_real_gpu_text_with_concatenated_arrays() -> None:
    """`concatenated` in saved/generate.py: three sums as one, which has no label; what it is split into has."""
    (row,) = census((SAVED / "gpu-h100-concatenated-jax-0.10.2.txt").read_text())
    assert facts(row) == ("all-reduce", 5, 1, (256 + 16 + 1) * 4, 8, False, False)
    assert (row.op_name, row.source_file, row.source_line) == ("", "", 0)
    assert [(o.op_name.rpartition("/")[2], o.source_file, o.source_line) for o in row.origins] == [
        ("psum", "generate.py", 78),
        ("psum", "generate.py", 79),
        ("psum", "generate.py", 80),
    ]


@pytest.mark.parametrize(
    "attributes, header, group",
    [
        ("replica_groups={{0,1},{2,3}}", ", replica_count=4", 2),
        ("replica_groups={}", ", replica_count=4", 4),
        ("", ", replica_count=4", 4),
        ("channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true", ", num_partitions=8", 4),
        ("channel_id=1, replica_groups=[2,4]<=[8], use_global_device_ids=true", ", num_partitions=8", 4),
        ("channel_id=1, replica_groups=[4,2]<=[2,4]T(1,0), use_global_device_ids=true", ", num_partitions=8", 2),
        (
            "channel_id=1, replica_groups=mesh['axis_0'=8,'axis_1'=1] {'axis_0'}, use_global_device_ids=true",
            ", num_partitions=8",
            8,
        ),
        ("channel_id=1, replica_groups={}, use_global_device_ids=true", ", replica_count=2, num_partitions=4", 8),
        # Without the flag, groups list replicas, and all their partitions take part.
        ("channel_id=1, replica_groups={{0,1}}", ", replica_count=2, num_partitions=4", 8),
        ("channel_id=1, replica_groups={{0},{1}}", ", replica_count=2, num_partitions=4", 4),
        ("channel_id=1, replica_groups={}", ", replica_count=2, num_partitions=4", 8),
    ],
)
def test_devices_that_take_part(attributes: str, header: str, group: int) -> None:
    line = f"%r = f32[8,4]{{1,0}} all-reduce(%x), to_apply=%sum{', ' if attributes else ''}{attributes}"
    (row,) = rows_of(line, header=header)
    assert row.group == group


def test_all_to_all_groups_list_partitions() -> None:
    line = "%r = f32[8,4]{1,0} all-to-all(%x), channel_id=1, replica_groups={}, dimensions={0}"
    (row,) = rows_of(line, header=", replica_count=2, num_partitions=4")
    assert (row.group, row.payload, row.wire_bytes) == (4, 128, 96.0)


GROUPS = "channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true"


def test_combined_all_reduce_with_a_scalar() -> None:
    (row,) = rows_of(
        f"%r = (f32[8,4]{{1,0}}, f32[], bf16[6]{{0}}) all-reduce(%x, %z, %y), {GROUPS}, to_apply=%sum",
    )
    assert row.payload == 128 + 4 + 12
    result = Audit((row,), None)
    assert (result.total("all-reduce").arrays, result.sync_bytes) == (2, 140)
    assert (result.scalars.arrays, result.scalars.bytes) == (1, 4)
    assert row.wire_bytes == 144 * 2 * 7 / 8


def test_asynchronous_pairs_count_once() -> None:
    rows = rows_of(
        f"%s = (f32[8,4]{{1,0}}, bf16[6]{{0}}) all-reduce-start(%x, %y), {GROUPS}, to_apply=%sum, "
        'backend_config={"collective_backend_config":{"is_sync":false,"backend":"DEFAULT"}}',
        "%d = (f32[8,4]{1,0}, bf16[6]{0}) all-reduce-done(%s)",
        f"%g = (f32[8,4]{{1,0}}, f32[64,4]{{1,0}}) all-gather-start(%x), {GROUPS}, dimensions={{0}}",
        "%h = f32[64,4]{1,0} all-gather-done(%g)",
        "%p = (f32[8,4]{1,0:T(8,128)}, f32[8,4]{1,0:T(8,128)}, u32[]{:S(2)}, u32[]{:S(2)}) "
        "collective-permute-start(%x), channel_id=2, source_target_pairs={{0,1},{1,2},{2,0}}",
        "%q = f32[8,4]{1,0:T(8,128)} collective-permute-done(%p)",
    )
    assert [facts(row) for row in rows] == [
        ("all-reduce", 1, 0, 140, 8, False, True),
        ("all-gather", 1, 0, 1024, 8, False, True),
        ("collective-permute", 1, 0, 128, 3, False, True),
    ]


def test_a_pair_that_runs_together_is_not_asynchronous() -> None:
    together = 'backend_config={"collective_backend_config":{"is_sync":true}}'
    (wrapped,) = rows_of(
        f"%s = ((f32[8,4]{{1,0}}), f32[1,4]{{1,0}}) async-start(%x), calls=%wrapped, {together}", computations=WRAPPED
    )
    assert not wrapped.asynchronous
    (row,) = rows_of(
        f"%s = f32[8,4]{{1,0}} all-reduce-start(%x), {GROUPS}, to_apply=%sum, {together}",
        "%d = f32[8,4]{1,0} all-reduce-done(%s)",
    )
    assert not row.asynchronous


WRAPPED = f"""
%wrapped (p: f32[8,4]) -> f32[1,4] {{
  %p = f32[8,4]{{1,0}} parameter(0)
  ROOT %s = f32[1,4]{{1,0}} reduce-scatter(%p), {GROUPS}, dimensions={{0}}, to_apply=%sum
}}
"""


@pytest.mark.parametrize(
    "start",
    [
        "async-start(%x), calls=%wrapped",
        "reduce-scatter-start(%x), calls=%wrapped",
        f"reduce-scatter-start(%x), {GROUPS}, dimensions={{0}}, to_apply=%sum",
    ],
)
def test_asynchronous_wrappers_count_once(start: str) -> None:
    rows = rows_of(
        f"%s = ((f32[8,4]{{1,0}}), f32[1,4]{{1,0}}, u32[]) {start}",
        "%u = ((f32[8,4]{1,0}), f32[1,4]{1,0}, u32[]) async-update(%s), calls=%wrapped",
        "%d = f32[1,4]{1,0} async-done(%u), calls=%wrapped",
        computations=WRAPPED,
    )
    assert [facts(row) for row in rows] == [("reduce-scatter", 1, 0, 128, 8, False, True)]


SCATTERED = f"""
%all-reduce-scatter (p: f32[8,4], q: bf16[6]) -> (f32[1,4], bf16[1]) {{
  %p = f32[8,4]{{1,0}} parameter(0)
  %q = bf16[6]{{0}} parameter(1)
  %z = bf16[] constant(0)
  %pad = bf16[8]{{0}} pad(%q, %z), padding=0_2
  %r = (f32[8,4]{{1,0}}, bf16[8]{{0}}) all-reduce(%p, %pad), {GROUPS}, to_apply=%sum
  %g = f32[8,4]{{1,0}} get-tuple-element(%r), index=0
  %h = bf16[8]{{0}} get-tuple-element(%r), index=1
  %i = u32[] partition-id()
  %o = u32[] constant(0)
  %s = f32[1,4]{{1,0}} dynamic-slice(%g, %i, %o), dynamic_slice_sizes={{1,4}}
  %t = bf16[1]{{0}} dynamic-slice(%h, %i), dynamic_slice_sizes={{1}}
  ROOT %u = (f32[1,4]{{1,0}}, bf16[1]{{0}}) tuple(%s, %t)
}}
"""


@pytest.mark.parametrize(
    "old, new, kind, payload",
    [
        ("", "", "reduce-scatter", 128 + 12),
        ("dynamic-slice(%h, %i), dynamic_slice_sizes={1}", "slice(%h), slice={[0:1]}", "all-reduce", 128 + 16),
        ("tuple(%s, %t)", "tuple(%g, %t)", "all-reduce", 128 + 16),
    ],
)
def test_a_reduce_scatter_that_xla_tpu_writes_as_a_sum_of_which_it_cuts_a_part(
    old: str, new: str, kind: str, payload: int
) -> None:
    called = "%f = (f32[1,4]{1,0}, bf16[1]{0}) fusion(%x, %y), kind=kCustom, calls=%all-reduce-scatter"
    (row,) = rows_of(called, computations=SCATTERED.replace(old, new))
    assert (row.kind, row.payload) == (kind, payload)


def test_a_sum_that_is_cut_elsewhere_is_no_reduce_scatter() -> None:
    """XLA:CPU reduces the whole, and each device keeps its part."""
    (row,) = rows_of(
        f"%r = f32[8,4]{{1,0}} all-reduce(%x), {GROUPS}, to_apply=%sum",
        "%i = u32[] partition-id()",
        "%o = u32[] constant(0)",
        "%s = f32[1,4]{1,0} dynamic-slice(%r, %i, %o), dynamic_slice_sizes={1,4}",
    )
    assert row.kind == "all-reduce"


LOOP = f"""
%fused (p: f32[8,4]) -> f32[8,4] {{
  %p = f32[8,4]{{1,0}} parameter(0)
  ROOT %r = f32[8,4]{{1,0}} all-reduce(%p), {GROUPS}, to_apply=%sum
}}

%body (p: f32[8,4]) -> f32[8,4] {{
  %p = f32[8,4]{{1,0}} parameter(0)
  ROOT %f = f32[8,4]{{1,0}} fusion(%p), kind=kCustom, calls=%fused
}}

%condition (p: f32[8,4]) -> pred[] {{
  %p = f32[8,4]{{1,0}} parameter(0)
  %n = f32[] custom-call(%p)
  %m = f32[] all-reduce(%n), {GROUPS}, to_apply=%sum
  %zero = f32[] constant(0)
  ROOT %c = pred[] compare(%m, %zero), direction=GT
}}
"""
WHILE = "%w = f32[8,4]{1,0} while(%x), condition=%condition, body=%body"


def test_unknown_trip_counts_are_not_guessed() -> None:
    rows = rows_of(WHILE, f"%r = bf16[6]{{0}} all-reduce(%y), {GROUPS}, to_apply=%sum", computations=LOOP)
    assert [(row.executions, row.depth) for row in rows] == [(None, 1), (None, 1), (1, 0)]
    result = Audit(rows, None)
    total = result.total("all-reduce")
    assert (total.ops, total.executions, total.bytes, total.at_least) == (2, 1, 12, True)
    table = str(result)
    assert "unknown" in table and ">= 12 B" in table and " ?" in table


def test_traffic_per_iteration_counts_first() -> None:
    after = [f"%r{i} = bf16[6]{{0}} all-reduce(%y), {GROUPS}, to_apply=%sum" for i in range(20)]
    inside, outside = traffic(rows_of(WHILE, computations=LOOP)), traffic(rows_of(*after))
    per_iteration = sum(2 * 7 / 8 * size for size in (4, 128))  # the condition's and the body's
    assert inside == (per_iteration, 0) and outside == (0, 20 * 2 * 7 / 8 * 12)
    assert outside < inside
    assert str(inside).endswith("0 bytes per device and step and 231 per iteration of loops with unknown trip counts")
    assert str(outside) == "420 bytes per device and step"


def test_a_condition_runs_once_more_than_the_body() -> None:
    line = WHILE + ', backend_config={"known_trip_count":{"n":"6"}}'
    assert [(row.payload, row.executions) for row in rows_of(line, computations=LOOP)] == [(4, 7), (128, 6)]


def test_branches_are_upper_bounds() -> None:
    branches = LOOP.replace("%body", "%left").replace("%condition", "%right")
    (left, right) = rows_of(
        "%p = pred[] custom-call()",
        "%b = f32[8,4]{1,0} conditional(%p, %x, %x), true_computation=%left, false_computation=%right",
        computations=branches,
    )
    assert (left.executions, left.at_most) == (right.executions, right.at_most) == (1, True)
    assert "<= 128 B" in str(Audit((left,), None))


def test_what_a_custom_call_runs_has_an_unknown_count() -> None:
    (row,) = rows_of("%b = f32[8,4]{1,0} custom-call(%x), called_computations={%fused}", computations=LOOP)
    assert row.executions is None


def test_transfers_to_the_host_are_not_counted() -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}'
    rows = rows_of(
        "%t = token[] after-all()",
        f"%s = (f32[8,4]{{1,0}}, u32[], token[]) send(%x, %t), channel_id=1, {pairs}",
        "%h = (f32[8,4]{1,0}, u32[], token[]) send(%x, %t), channel_id=2, is_host_transfer=true",
    )
    assert [facts(row) for row in rows] == [("send", 1, 0, 128, 3, False, False)]


def test_operands_that_are_no_payload() -> None:
    rows = rows_of(
        "%i = s64[8]{0} iota()",
        f"%r = f32[8,4]{{1,0}} ragged-all-to-all(%x, %x, %i, %i, %i, %i), {GROUPS}",
        "%o = (s32[], s32[]) custom-call()",
        "%p = f32[8,4]{1,0} collective-permute(%x, %x, %o, %o), channel_id=1, source_target_pairs={{0,1},{1,0}}, "
        "slice_sizes={{4,4}}",
    )
    assert [(row.kind, row.payload) for row in rows] == [("ragged-all-to-all", 128), ("collective-permute", 128)]


def test_a_loop_that_never_runs_is_known() -> None:
    (row, *_) = rows_of(f"%r = f32[8,4]{{1,0}} all-reduce(%x), {GROUPS}, to_apply=%sum")
    loops = (Loop("outer", 0), Loop("inner", None))
    assert dataclasses.replace(row, loops=loops).executions == 0
    assert dataclasses.replace(row, loops=loops[1:]).executions is None


@pytest.mark.parametrize(
    "line, message",
    [
        ("%r = f32[8,4] all-reduce(%x), replica_groups=[x], to_apply=%sum", "line 13: cannot read replica groups"),
        ("%r = f32[8,4] fusion(%x), kind=kLoop", "line 13: fusion has no attribute `calls`"),
        ("%r = f32[8,4] call(%x), to_apply=%none", "line 13: no computation is called `none`"),
        ("%r = f32[8,4] while(%x), condition=%sum, body=%sum, backend_config={1}", "line 13: backend_config is not"),
        ("%r = f32[8,4] call(%x), to_apply=%main", "`main` calls itself"),
    ],
)
def test_text_it_cannot_follow_is_refused(line: str, message: str) -> None:
    with pytest.raises(HloError, match=message):
        rows_of(line)


def sharded_sum() -> jax.stages.Wrapped:
    def mean_square(x: jax.Array) -> jax.Array:
        return lax.psum(x * x, "data")

    spec = PartitionSpec("data")
    return jax.jit(jax.shard_map(mean_square, mesh=data_mesh(), in_specs=spec, out_specs=PartitionSpec()))


X = np.ones((16, 4), np.float32)


def test_targets_of_audit_agree() -> None:
    jitted: Any = sharded_sum()
    lowered = jitted.lower(X)
    compiled = lowered.compile()
    results = [audit(jitted, X), audit(lowered), audit(compiled), audit(jitted.__wrapped__, X)]
    assert len({result.collectives[0].payload for result in results}) == 1
    assert results[0].sync_bytes == 2 * 4 * 4
    assert audit(compiled.as_text()).collectives == results[2].collectives


def test_peak_memory_counts_shared_outputs_once() -> None:
    def step(x: jax.Array) -> jax.Array:
        return x + 1

    x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    assert audit(jax.jit(step), x).peak_memory == 8000  # an argument and a result of 4000 bytes
    assert audit(jax.jit(step, donate_argnums=0), x).peak_memory == 4000


def test_wrong_targets_are_refused() -> None:
    lowered = sharded_sum().lower(X)
    with pytest.raises(TypeError, match="expected a function, Lowered, Compiled or HLO text, not int"):
        audit(3)
    with pytest.raises(TypeError, match="arguments are for functions"):
        audit(lowered, X)
    with pytest.raises(TypeError, match="arguments, passes and targets are for programs that are not compiled yet"):
        audit(lowered.compile(), X)
    with pytest.raises(ValueError, match="no kind of collective is called `allreduce`; there are: all-reduce"):
        audit(lowered).total("allreduce")


def test_passes_give_a_comparison() -> None:
    program = PROGRAMS["mlp_p8"]()
    comparison = audit(program.step, *program.args, passes="grad-sync")
    assert isinstance(comparison, AuditComparison)
    assert comparison.before.sync_bytes == 4 * program.gradient_bytes
    assert comparison.after.sync_bytes == program.gradient_bytes
    lines = str(comparison).splitlines()
    (sync,) = [line for line in lines if line.startswith("sync payload")]
    assert sync.split() == ["sync", "payload", "12.3", "kB", "3.07", "kB"]


def test_a_function_with_passes_is_refused_for_a_comparison() -> None:
    import paropt

    program = PROGRAMS["mlp_p8"]()
    with pytest.raises(TypeError, match="this has passes already"):
        audit(paropt.jit(program.step), *program.args, passes="grad-sync")


def test_no_collectives() -> None:
    assert str(audit(lambda x: x + 1, X)).startswith("no collectives")


@pytest.mark.parametrize(
    "size, text", [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (4194304, "4.19 MB"), (2.5e9, "2.5 GB")]
)
def test_sizes_in_words(size: float, text: str) -> None:
    assert size_text(size) == text


# What XLA:CPU alone makes of the programs, in multiples of the gradient bytes.
IN_LOOP = dict.fromkeys([*TRANSFORMERS, *MLPS], 4) | {"mlp_p8": 0, "mlp_p5": 8}
OUTSIDE = {"mlp_p8": 4}
DEPTH = {"mlp_p1": 2, "transformer_p1_checked": 2}


@pytest.mark.parametrize("name", [*TRANSFORMERS, *MLPS])
def test_census_of_the_programs(name: str) -> None:
    program = PROGRAMS[name]()
    result = audit(program.step, *program.args)
    total = result.total("all-reduce")
    if name == "transformer_p5_checked":  # one psum per use of the tied embedding
        embedding = program.args[0][0]["embedding"]
        assert total.in_loops == 4 * (program.gradient_bytes + embedding.size * 4)
    else:
        assert total.in_loops == IN_LOOP[name] * program.gradient_bytes
    assert total.outside == OUTSIDE.get(name, 0) * program.gradient_bytes
    assert max(c.depth for c in result.collectives) == DEPTH.get(name, 0 if name == "mlp_p8" else 1)
    assert {c.kind for c in result.collectives} == {"all-reduce"}
    assert {c.group for c in result.collectives} == {8}


@pytest.mark.parametrize("name", [name for name in INTEGER_MLPS if name != "mlp_p4_integers"])  # p4 rounds to bf16
def test_integer_programs_are_exact(name: str) -> None:
    """Sums of gradients do not depend on which device holds which examples."""
    program = PROGRAMS[name]()
    assert program.tolerance == 0.0
    parameters, *batches = program.args
    moved = [jnp.roll(b, 6, axis=1) if b.shape[:2] == (Sizes.micro_batches, Sizes.examples) else b for b in batches]
    step = jax.jit(program.step)
    for want, got in zip(jax.tree.leaves(step(*program.args)), jax.tree.leaves(step(parameters, *moved)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_both_forms_of_the_transformer_train_alike() -> None:
    """The user's pmean of the gradients and jax's psum per parameter give the same step."""
    steps = {name: PROGRAMS[name]() for name in ("transformer_p0", "transformer_p0_checked")}
    results = [jax.tree.leaves(jax.jit(program.step)(*program.args)) for program in steps.values()]
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_audits_are_values() -> None:
    result = audit((SAVED / "cpu-jax-0.10.2.txt").read_text())
    assert hash(result) == hash(dataclasses.replace(result))
