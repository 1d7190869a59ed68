"""Reports: which remark explains which collective, what counts as kept, and the words of the text."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from programs.catalog import MATRIX
from programs.program import Sizes, data_mesh
from unit.reports import FILE, LOOP, MOVED, READ, UNKNOWN, S, V, W, collective, comparison, example, remark

from paropt.audit import AuditComparison, AuditReport, audit
from paropt.hlo.census import SYNC_KINDS, Loop
from paropt.hlo.origins import Origin
from paropt.hlo.parser import Array
from paropt.passes.support.remarks import Remark, Saved
from paropt.reports.reasons import Explanations, combined_names
from paropt.reports.report_text import NOBODY_LOOKED, NOBODY_SAYS

NEXT_LOOP = Loop("jit(step)/while/body/closed_call/while", 3)


@pytest.mark.parametrize(
    "said, is_joined",
    [
        (remark("same line, same name"), True),
        (remark("same line, another collective", scope="while/body/psum_invariant"), True),
        (remark("same line, made from the same primitive", op="dot_general"), True),
        (remark("same line, another op", op="add", scope="while/body/add"), False),
        (remark("same line of a text, where no op has a name", op="add", scope=""), True),
        (remark("another line", line=42), False),
        (remark("another file", file="/elsewhere/loss.py"), False),
        (remark("no position, same name", file="", line=0), True),
        (remark("no position, the end of a word", file="", line=0, scope="sum"), False),
        (remark("no position, no name", file="", line=0, scope=""), False),
    ],
    ids=lambda value: value.text if not isinstance(value, bool) else "",
)
def test_remarks_are_joined_by_place(said: Remark, is_joined: bool) -> None:
    assert list(Explanations([said]).of(collective())) == [said] * is_joined


@pytest.mark.parametrize(
    ("pass_name", "op", "kinds"),
    [
        ("defer-sync", "stablehlo.while", {"all-reduce", "reduce-scatter"}),
        ("hoist-gathers", "stablehlo.while", {"all-gather"}),
        ("my-pass", "stablehlo.while", {"all-reduce", "reduce-scatter", "all-gather", "all-to-all"}),
        ("my-pass", "stablehlo.all_reduce", {"all-reduce", "reduce-scatter"}),
        ("my-pass", "sdy.all_gather", {"all-gather"}),
    ],
)
def test_a_collective_is_explained_by_what_is_said_of_its_kind(pass_name: str, op: str, kinds: set[str]) -> None:
    """One line of Python gathers a parameter and reduces its gradient."""
    said = dataclasses.replace(remark("said"), pass_name=pass_name, op=op)
    found = Explanations([said])
    all_kinds = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")
    assert {kind for kind in all_kinds if list(found.of(collective(kind=kind)))} == kinds


def test_parameters_that_are_gathered_in_loops_are_so_by_the_policy() -> None:
    gather, reason = collective(kind="all-gather"), "by this policy, parameters are gathered where they are read"
    offer = dataclasses.replace(remark("stays in loops: 1 parameter gathered (1 kB per step); ..."), pass_name="policy")
    assert reason in str(comparison([gather], [gather], offer))
    assert "no pass looked at it" in str(comparison([gather], [gather]))


def offer(gathered: int) -> Remark:
    said = dataclasses.replace(remark("stays in loops: 1 parameter gathered (1 kB per step); ..."), pass_name="policy")
    return dataclasses.replace(said, saved=Saved(1, gathered, 1, 1, gathered))


@pytest.mark.parametrize(
    ("shapes", "loops", "reason"),
    [
        ([(64, 64)], 1, ""),
        ([(8, 8, 64)], 1, ""),  # with a dimension for the devices
        ([(16, 256)], 1, "no array has the shape of an argument: XLA gathers activations"),  # as many elements
        ([(64, 64), (16, 256)], 1, "; 1 of 2 arrays are none: activations"),
        ([(1, 64, 32)], 2, ""),  # a layer of stacked ones
        ([(64, 32)], 1, "no array has the shape of an argument: XLA gathers activations"),
    ],
)
def test_activations_that_are_gathered_are_no_parameters(shapes: Any, loops: int, reason: str) -> None:
    arrays = [Array("f32", shape) for shape in shapes]
    gather = collective(*arrays, kind="all-gather", loops=(LOOP, NEXT_LOOP)[:loops])
    made = dataclasses.replace(comparison([gather], [gather], offer(1)), arguments=frozenset({(64, 64), (3, 32, 64)}))
    said = next(line for line in str(made).splitlines() if line.startswith("all-gather") and ": kept, " in line)
    parameters = "by this policy, parameters are gathered where they are read (policy=once: once, before the loop)"
    _, _, why = said.partition(": kept, ")
    assert why.startswith(reason) if reason.startswith("no array") else why == f"{parameters}{reason}"


@pytest.mark.parametrize(
    ("counted", "is_told"), [(W.bytes * 8, False), (W.bytes * 8 * 21 // 20, False), (W.bytes, True)]
)
def test_an_offer_that_the_executable_does_not_confirm_is_told(counted: int, is_told: bool) -> None:
    gather = collective(kind="all-gather")
    said = str(comparison([gather], [gather], offer(counted)))
    assert ("the executable gathers 131 kB per step in loops, not 16.4 kB" in said) == is_told


@pytest.mark.parametrize("pass_name", ["expose-all-reduces", "separate-reductions"])
def test_a_reduction_behind_its_sum_is_explained_by_its_line(pass_name: str) -> None:
    """XLA reduces what a transpose makes of the sum."""
    said = remark("its sum is sharded", op="dot_general", scope="while/body/transpose(jvp())/dot_general")
    said = dataclasses.replace(said, pass_name=pass_name)
    scatter = collective(kind="reduce-scatter", op_name="jit(step)/while/body/transpose(jvp())/transpose")
    assert list(Explanations([said]).of(scatter)) == [said]
    assert not list(Explanations([said]).of(dataclasses.replace(scatter, kind="all-gather")))
    assert not list(Explanations([said]).of(dataclasses.replace(scatter, op_name="jit(step)/while/body/transpose")))


def test_a_sum_of_an_outlined_function_is_explained_by_its_bytes() -> None:
    """jax outlines a block under shard_map that a scan calls: names in it do not tell of the loop."""
    left: Any = object()  # a certificate, which is not read
    said = remark(f"{W.bytes} bytes are reduced after the loop", applied=True, scope="psum")
    said = dataclasses.replace(said, certificate=left)
    behind = collective(loops=(), op_name="jit(step)/while", line=50)
    assert Explanations([said]).of_new_sums([behind]) == [said]
    stays = remark(f"{W.bytes} bytes are reduced here", applied=True, scope="jit(step)/psum", line=43)
    assert Explanations([said, stays]).of_new_sums([behind]) == [said], "the other one has left no loop"
    other = dataclasses.replace(said, source=said.source._replace(line=42))
    assert not Explanations([said, other]).of_new_sums([behind]), "which of both it is, nothing tells"


def test_a_collective_is_explained_by_what_is_said_of_its_arrays() -> None:
    own, other, any_ = remark(f"{W.bytes} bytes are reduced"), remark("4 bytes are reduced"), remark("it stays")
    assert list(Explanations([own, other, any_]).of(collective())) == [own, any_]
    assert list(Explanations([other, any_]).of(collective())) == [other, any_]  # XLA may have changed the array


@pytest.mark.parametrize(
    "op_name, names",
    [
        ("jit(step)/while/body/psum", ["jit(step)/while/body/psum"]),
        ("while/(a/psum:transpose(jvp(f))/psum)", ["while/a/psum", "while/transpose(jvp(f))/psum"]),
        ("a/psum:b/psum", ["a/psum", "b/psum"]),
        ("while/(a:b/(c:d))/psum", ["while/a/psum", "while/b/c/psum", "while/b/d/psum"]),
        ("psum:", ["psum:"]),
        ("", [""]),
    ],
)
def test_names_that_xla_combines(op_name: str, names: list[str]) -> None:
    assert combined_names(op_name) == names


def test_what_xla_combines_is_explained_by_name_whatever_the_line() -> None:
    """It has the line of one of them."""
    said = [remark(text, line=line, scope=text) for line, text in ((1, "f/psum"), (2, "g/psum"), (3, "h/psum"))]
    combined = collective(op_name="jit(step)/while/body/(f/psum:g/psum)")
    assert list(Explanations(said).of(combined)) == said[:2]
    assert list(Explanations(said).of(collective(op_name="jit(step)/while/body/f/psum"))) == []


def test_what_is_new_after_a_loop_is_explained_by_what_left_the_loop() -> None:
    """XLA gives it the label of the loop."""
    left = remark("moved", line=1, applied=True, scope="while/body/closed_call/psum")
    inner = remark("moved, too", line=2, applied=True, scope="jit(step)/while/body/while/body/psum")
    others = [
        remark("stays", line=1, scope="while/body/psum"),
        remark("no collective", line=1, applied=True, op="add", scope="while/body/add"),
        remark("after the loop", line=1, applied=True, scope="jit(step)/psum"),
    ]
    after = collective(loops=(), line=9, op_name="jit(step)/while")
    assert list(Explanations([left, inner, *others]).of(after, is_new=True)) == [inner, left]
    assert list(Explanations([left, inner, *others]).of(after)) == []
    reduced = [collective()], [collective(loops=(), line=9, op_name="jit(step)/while")]
    (_, new) = comparison(*reduced, left).rows
    assert new.verdict == "new" and [reason.text for reason in new.reasons] == ["moved"]
    (kept,) = comparison(reduced[1], reduced[1], left).rows
    assert not kept.reasons


@pytest.mark.parametrize("kind", ["plain", "explicit"])
def test_reductions_that_moved_have_a_reason_whatever_xla_combines(kind: str) -> None:
    program = MATRIX[f"{kind}_mlp_p0"](Sizes(layers=2))
    found = audit(program.step, *program.args, passes="grad-sync")
    assert isinstance(found, AuditComparison)
    assert {row.verdict for row in found.rows if row.place.kind in SYNC_KINDS} >= {"removed", "new"}
    assert all(row.reasons for row in found.rows), str(found)


def test_a_remark_is_shown_in_one_line() -> None:
    assert repr((MOVED,)) == f"(<{MOVED}>,)"
    assert str(MOVED).startswith(f"{FILE}:41:9 (while/body/psum): remark: [defer-sync] stablehlo.all_reduce applied: ")


def verdicts(before: list, after: list) -> list[tuple[int, str]]:
    return [(row.place.source_line, row.verdict) for row in comparison(before, after).rows]


def test_rows_pair_what_is_at_the_same_place() -> None:
    assert verdicts([collective()], [collective()]) == [(41, "kept")]
    assert verdicts([collective()], []) == [(41, "removed")]
    assert verdicts([], [collective()]) == [(41, "new")]
    assert verdicts([collective()], [collective(loops=())]) == [(41, "removed"), (41, "new")]
    assert verdicts([collective(W, V)], [collective(W)]) == [(41, "1 of 2 arrays removed")]
    assert verdicts([collective(W)], [collective(V)]) == [(41, "1 of 1 arrays removed, 1 of 1 arrays new")]


def test_what_xla_combines_under_another_place_is_kept() -> None:
    apart = [collective(W, line=41), collective(V, line=42)]
    assert verdicts(apart, [collective(W, V, line=41)]) == [(41, "kept"), (42, "kept")]
    assert verdicts([collective(V, W, line=42)], apart) == [(42, "kept"), (41, "kept")]
    # Each array counts once, and those of the same place come first.
    assert verdicts([collective(W), collective(W, line=42)], [collective(W)]) == [(41, "kept"), (42, "removed")]
    assert verdicts([collective(W, line=42), collective(W)], [collective(W)]) == [(42, "removed"), (41, "kept")]
    # Another loop, kind or group is another collective.
    assert verdicts([collective(line=41)], [collective(line=42, loops=(NEXT_LOOP,))]) == [(41, "removed"), (42, "new")]
    assert verdicts([collective(line=41)], [collective(line=42, group=4)]) == [(41, "removed"), (42, "new")]


def test_numbered_names_of_xla_do_not_keep_loops_apart() -> None:
    before = collective(loops=(Loop("while.5", 8),), op_name="all-reduce.2")
    after = collective(loops=(Loop("while.9", 8),), op_name="all-reduce.7")
    assert verdicts([before], [after]) == [(41, "kept")]


def test_reasons_stand_once_and_those_against_come_first() -> None:
    rows = comparison([collective()], [collective()], MOVED, remark("no"), remark("no"), remark("not that")).rows
    assert [reason.text for reason in rows[0].reasons] == ["no", "not that", MOVED.text]
    rows = comparison([collective()], [], remark("no"), MOVED).rows
    assert [reason.text for reason in rows[0].reasons] == [MOVED.text]


def test_text_of_the_example() -> None:
    assert str(example()) == TEXT


TEXT = """\
cpu:8, passes grad-sync

per device and step      before    after
all-reduce               8 runs   9 runs
  payload in loops       262 kB   131 kB
  payload outside loops     0 B  16.4 kB
all-gather                1 run    1 run
  payload in loops          0 B      0 B
  payload outside loops   128 B    128 B
sync payload             262 kB   147 kB
sync sent on the wire    459 kB   258 kB
scalars                  0 runs   0 runs
peak memory                1 kB     1 kB

collective  arrays               loops  group  axes  source                      before        after
all-reduce  2 arrays f32[64,64]  8          8  data  loss.py:41 psum        8 x 32.8 kB     combined  \
1 of 2 arrays removed
all-gather  bf16[64]             -          8  -     loss.py:50 all_gather    1 x 128 B    1 x 128 B                   kept
all-reduce  f32[64,64]           8          8  data  loss.py:42 psum           combined  8 x 16.4 kB                   kept
all-reduce  f32[64,64]           -          8  data  loss.py:41 psum                  -  1 x 16.4 kB                    new

all-reduce 2 arrays f32[64,64] x 8 in loop `while`, over data, loss.py:41 psum, 262 kB per step: 1 of 2 arrays removed, \
16384 bytes per device, now reduced after the loop and not 8 times in it [defer-sync]
all-gather bf16[64] outside loops, loss.py:50 all_gather, 128 B per step: kept, outside loops already, so once per step
all-reduce f32[64,64] x 8 in loop `while`, over data, loss.py:42 psum, 131 kB per step: kept, the reduced value is also \
read by stablehlo.sqrt (stablehlo.sqrt at loss.py:43:11) [defer-sync]
all-reduce f32[64,64] outside loops, over data, loss.py:41 psum, 16.4 kB per step: new, 16384 bytes per device, now \
reduced after the loop and not 8 times in it [defer-sync]"""


def fused(arrays: int, left: int) -> Remark:
    """A sum of reduced arrays of the type of W, away from what reduces them."""
    saved = Saved(arrays, arrays * W.bytes, 1, left, left * W.bytes)
    return dataclasses.replace(
        remark("fewer", line=99, applied=True, op="add"), pass_name="fuse-all-reduces", saved=saved
    )


def test_sums_that_are_fewer_are_known_by_their_number_and_bytes() -> None:
    one_loop: dict[str, Any] = {"loops": ()}
    before, after = [collective(W, W, W, W, **one_loop)], [collective(W, **one_loop)]
    assert "3 of 4 arrays removed, fewer [fuse-all-reduces]" in str(comparison(before, after, fused(4, 1)))
    both = comparison(before, after, fused(2, 1), dataclasses.replace(fused(2, 1), text="fewer, too"))
    assert "3 of 4 arrays removed\n  fewer [fuse-all-reduces]\n  fewer, too [fuse-all-reduces]" in str(both)
    assert f"3 of 4 arrays removed, {NOBODY_SAYS}" in str(comparison(before, after, fused(3, 1)))
    inside = dataclasses.replace(fused(2, 1), source=fused(2, 1).source._replace(scope="jit(step)/while/body/add"))
    assert "removed, fewer [fuse-all-reduces]" in str(comparison([collective(W)], [], inside))
    assert f"removed, {NOBODY_SAYS}" in str(comparison([collective(V)], [], inside))  # of another size
    outside = dataclasses.replace(inside, source=inside.source._replace(scope="jit(step)/add"))
    assert f"removed, {NOBODY_SAYS}" in str(comparison([collective(W)], [], outside))


def test_gathers_of_a_loop_that_are_gone_or_new_are_those_before_it() -> None:
    moved = dataclasses.replace(
        remark("gathered before", line=99, applied=True, op="while", scope="while"), pass_name="hoist-gathers"
    )
    inside = collective(kind="all-gather", loops=(LOOP, NEXT_LOOP), line=50)
    outside = collective(kind="all-gather", loops=(), line=50, op_name="jit(step)/while/body/all_gather")
    text = str(comparison([inside], [outside], moved))
    assert "removed, gathered before [hoist-gathers]" in text
    assert "new, gathered before [hoist-gathers]" in text
    by_sum = dataclasses.replace(inside, kind="all-reduce", joined=(True,))
    assert "removed, gathered before [hoist-gathers]" in str(comparison([by_sum], [], moved))
    elsewhere = dataclasses.replace(moved, source=moved.source._replace(scope="other/while"))
    assert text.replace("gathered before [hoist-gathers]", NOBODY_SAYS) == str(
        comparison([inside], [outside], elsewhere)
    )
    assert NOBODY_LOOKED in str(comparison([inside], [inside], moved))


@pytest.mark.parametrize("name", ["jit(step)/while", "jit(step)/while/body/add"])
def test_sums_that_xla_had_behind_the_loop_are_those_that_left_it(name: str) -> None:
    behind = collective(loops=(), line=99, op_name=name)
    text = str(comparison([behind], [], MOVED))
    assert "removed, 16384 bytes per device, now reduced after the loop and not 8 times in it [defer-sync]" in text
    origin = dataclasses.replace(behind, op_name="", origins=(Origin(name, FILE, 99),))
    assert str(comparison([origin], [], MOVED)).endswith(text.rpartition("removed, ")[2])
    elsewhere = dataclasses.replace(behind, op_name=name.replace("while", "other"))
    assert f"removed, {NOBODY_SAYS}" in str(comparison([elsewhere], [], MOVED))


def test_what_stays_and_no_pass_moves_says_so() -> None:
    def sentence(kind: str, **fields: Any) -> str:
        same = [collective(kind=kind, **fields)]
        return str(comparison(same, same)).rpartition("kept, ")[2]

    assert sentence("all-to-all") == "passes move reductions and all-gathers, and no all-to-all"
    assert sentence("all-gather", loops=()) == "outside loops already, so once per step"
    assert sentence("all-gather") == NOBODY_LOOKED
    assert sentence("all-reduce") == NOBODY_LOOKED  # passes that reduce nothing


def test_a_reduction_of_which_passes_of_sums_say_nothing_is_one_of_xla() -> None:
    text = str(comparison([collective()], [collective()], remark("of another", line=99)))
    assert "kept, no sum of the program is reduced here: XLA made it" in text


def test_reasons_that_differ_in_bytes_only_are_one_line() -> None:
    said = [remark(f"{size} bytes per device, moved", applied=True) for size in (512, 4, 16384)]
    text = str(comparison([collective(W, V, S)], [], *said, remark("2 bytes less")))
    assert text.endswith("removed, 4 to 16384 bytes per device, moved [defer-sync]")


def test_nested_and_unknown_loops() -> None:
    nested = collective(loops=(LOOP, NEXT_LOOP))
    text = str(comparison([nested], [collective(loops=(UNKNOWN,))]))
    assert (
        "x 8 x 3 in 2 nested loops `while/body/closed_call/while`, over data, loss.py:41 psum, 393 kB per step: removed"
        in text
    )
    assert "x ? in loop `while`, over data, loss.py:41 psum, unknown bytes per step: new, no pass says why" in text
    assert "unknown x 16.4 kB" in text
    assert ">= 0 B" in text


def test_collectives_that_xla_does_not_label() -> None:
    concatenated = collective(op_name="", source_file="", line=0, loops=())
    said = (
        "all-reduce f32[64,64] outside loops, over data, 16.4 kB per step: kept, XLA does not say where it comes from"
    )
    assert str(comparison([concatenated], [concatenated], MOVED)).endswith(said)


def test_collectives_that_come_from_several_places() -> None:
    origins = tuple(Origin("jit(step)/psum", FILE, line) for line in (41, 42, 43, 44))
    reduce = collective(op_name="", source_file="", line=0, loops=(), origins=origins)
    text = str(comparison([reduce], [reduce], READ, remark("also here", line=44)))
    assert "over data, loss.py:41 psum, loss.py:42 psum, loss.py:43 psum, ..., 16.4 kB per step: kept" in text
    assert [line.strip() for line in text.splitlines()[-2:]] == [
        "the reduced value is also read by stablehlo.sqrt (stablehlo.sqrt at loss.py:43:11) [defer-sync]",
        "also here [defer-sync]",
    ]
    deeper = dataclasses.replace(reduce, origins=tuple(o._replace(op_name="jit(step)/while/psum") for o in origins))
    assert verdicts([reduce], [deeper]) == [(0, "kept")]
    elsewhere = dataclasses.replace(reduce, origins=origins[:1])
    assert verdicts([reduce], [elsewhere]) == [(0, "kept"), (0, "kept")]


def test_groups_over_other_axes_are_other_collectives() -> None:
    assert verdicts([collective()], [collective(axes=("model",))]) == [(41, "removed"), (41, "new")]


def test_a_program_without_collectives() -> None:
    assert str(comparison([], [])).endswith("no collectives")


def test_reports_find_targets_by_name() -> None:
    found = example()
    assert found["cpu:8"] is found.comparisons[0]
    with pytest.raises(KeyError, match="no audit for target `cpu:4`; there are: cpu:8"):
        found["cpu:4"]


# ---- programs


def step(w: jax.Array, xs: jax.Array) -> tuple[jax.Array, ...]:
    def body(carried: Any, x: jax.Array) -> tuple[Any, None]:
        total, other, norm = carried
        moves = lax.psum(x.T @ x, "data")
        stays = lax.psum(x.T @ (x @ w), "data")
        return (total + moves, other + stays, norm + jnp.sum(jnp.sqrt(stays * stays))), None

    return lax.scan(body, (w * 0, w * 0, jnp.float32(0)), xs)[0]


def program() -> tuple[jax.stages.Wrapped, tuple[jax.ShapeDtypeStruct, ...]]:
    specs = PartitionSpec(), PartitionSpec(None, "data")
    mapped = jax.shard_map(step, mesh=data_mesh(), in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
    return jax.jit(mapped), (jax.ShapeDtypeStruct((16, 16), "float32"), jax.ShapeDtypeStruct((8, 32, 16), "float32"))


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def assert_explains(found: AuditComparison) -> None:
    """The report on `step` says that one sync stayed in the loop, where, and why."""
    kept = [row for row in found.rows if row.verdict == "kept" and row.place.loops]
    assert [(row.place.source_line, row.place.source_file) for row in kept] == [(line_of("stays = lax"), __file__)]
    (reason,) = kept[0].reasons
    assert not reason.applied
    assert f"{__file__}:{line_of('norm + jnp.sum')}" in reason.text
    assert (found.before.sync_in_loop, found.after.sync_in_loop) == (8 * 2 * 1024, 8 * 1024)


def test_comparison_of_a_function() -> None:
    fun, args = program()
    found = audit(fun, *args, passes="grad-sync")
    assert isinstance(found, AuditComparison)
    assert (found.target, found.passes) == ("", "grad-sync")
    assert_explains(found)


def test_comparison_of_a_lowered_program() -> None:
    fun, args = program()
    lowered = fun.lower(*args)
    text = lowered.as_text()
    found = audit(lowered, passes="grad-sync")
    assert isinstance(found, AuditComparison)
    assert_explains(found)
    assert lowered.as_text() == text, "the program keeps its own module"


def test_report_for_targets() -> None:
    fun, args = program()
    found = audit(fun, *args, passes="grad-sync", targets=["cpu:8"])
    assert isinstance(found, AuditReport)
    assert_explains(found["cpu:8"])
    assert found["cpu:8"].after.peak_memory is not None
    alone = audit(fun.lower(*args), targets="cpu:8")  # one name will do
    assert isinstance(alone, AuditReport)
    assert alone["cpu:8"].before is alone["cpu:8"].after
    assert alone["cpu:8"].after.collectives == found["cpu:8"].before.collectives


def test_what_is_compiled_takes_no_passes_and_no_targets() -> None:
    compiled = jax.jit(lambda x: x + 1).lower(1.0).compile()
    mistakes: list[dict[str, Any]] = [{"passes": "grad-sync"}, {"targets": ["cpu:8"]}]
    for options in mistakes:
        with pytest.raises(TypeError, match="for programs that are not compiled yet"):
            audit(compiled, **options)


def test_gathers_that_stay_name_the_parameters_and_why() -> None:
    """Each trip changes the parameter: it can't be gathered once."""
    mesh = data_mesh()
    over = [jax.sharding.NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("data",), (None, "data"))]
    state = {"up": jax.ShapeDtypeStruct((64, 128), jnp.float32, sharding=over[0])}
    batches = jax.ShapeDtypeStruct((4, 16, 64), jnp.float32, sharding=over[1])

    def step(state: Any, batches: jax.Array) -> Any:
        def one(state: Any, x: jax.Array) -> tuple[Any, None]:
            def loss(state: Any) -> jax.Array:
                return (lax.with_sharding_constraint(jnp.tanh(x @ state["up"]), over[0]) ** 2).sum()

            return jax.tree.map(lambda p, g: p - 0.1 * g, state, jax.grad(loss)(state)), None

        return lax.scan(one, state, batches)[0]

    found = audit(step, state, batches, passes="grad-sync{policy=once}")
    gathers = [row for row in found.rows if row.place.kind == "all-gather" and row.after]
    said = [reason.text for row in gathers for reason in row.reasons]
    assert gathers and said == [
        f"the loop changes the parameter (state['up']); at use, state['up'] takes {4 * 64 * 128 * 4} bytes in a step"
    ]
