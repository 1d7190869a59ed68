"""Reasons of rows that XLA makes itself, or labels by another op."""

import dataclasses

from unit.reports import MOVED, V, W, collective, comparison, remark

from paropt.reports.report_text import NOBODY_LOOKED, NOBODY_SAYS


def test_sums_that_are_new_behind_a_loop_and_labelled_by_another_op_of_it_are_known_by_their_bytes() -> None:
    said = collective(W, loops=(), line=99, op_name="jit(step)/while/body/dynamic_update_slice")
    assert "new, 16384 bytes per device, now reduced after the loop" in str(comparison([], [said], MOVED))
    assert f"new, {NOBODY_SAYS}" in str(comparison([], [dataclasses.replace(said, arrays=(V,))], MOVED))
    gathers = dataclasses.replace(said, joined=(True,))
    assert f"new, {NOBODY_SAYS}" in str(comparison([], [gathers], MOVED))


def test_a_new_sum_with_no_label_of_a_loop_is_the_only_one_of_its_bytes_that_left_one() -> None:
    """As where XLA combines it with gathers, and keeps their label."""
    said = collective(V, W, loops=(), line=99, op_name="jit(step)/mul")
    combined = dataclasses.replace(said, joined=(True, False))
    assert "new, 16384 bytes per device, now reduced after the loop" in str(comparison([], [combined], MOVED))
    other = dataclasses.replace(MOVED, source=MOVED.source._replace(line=7))
    assert f"new, {NOBODY_SAYS}" in str(comparison([], [combined], MOVED, other))
    assert f"new, {NOBODY_SAYS}" in str(comparison([], [dataclasses.replace(combined, joined=(False, True))], MOVED))


def test_an_all_reduce_that_gathers_is_no_sum() -> None:
    """Its label may be that of a sum; behind the loop, a sum of as many bytes is another array."""
    inside = collective(W)
    gathers = dataclasses.replace(inside, joined=(True,))
    assert [reason.text for reason in comparison([inside], [], MOVED).rows[0].reasons] == [MOVED.text]
    assert comparison([gathers], [], MOVED).rows[0].reasons == ()
    kept = str(comparison([gathers], [gathers], remark("of another", line=99)))
    assert kept.endswith(
        "kept, XLA gathers a small array, by an all-reduce in which each device adds its part to zeros"
    )
    assert [row.verdict for row in comparison([gathers], [inside]).rows] == ["1 of 1 arrays removed, 1 of 1 arrays new"]


def test_small_arrays_that_are_gathered_before_the_loop_have_the_reason_of_those_in_it() -> None:
    moved = dataclasses.replace(
        remark("gathered before", line=99, applied=True, op="while", scope="while"), pass_name="hoist-gathers"
    )
    inside = dataclasses.replace(collective(V), joined=(True,))
    before = dataclasses.replace(inside, loops=(), op_name="", source_line=110)
    assert "new, gathered before [hoist-gathers]" in str(comparison([inside], [before], moved))
    other = dataclasses.replace(before, arrays=(W,))
    assert f"new, {NOBODY_SAYS}" in str(comparison([inside], [other], moved))


def test_an_all_gather_that_xla_makes_to_partition_an_op_names_the_op_and_tells_of_its_sum() -> None:
    gather = collective(W, kind="all-gather")
    text = str(comparison([gather], [gather], remark("its sum stays")))
    assert text.endswith("kept, XLA makes it where it partitions psum, of whose sum: its sum stays [defer-sync]")
    assert text.endswith("loss.py:41 psum, 131 kB per step: " + text.rpartition("per step: ")[2])
    assert NOBODY_LOOKED in str(comparison([gather], [gather], remark("its sum stays", line=99)))


def test_a_gather_with_the_name_of_an_argument_is_that_before_the_only_loop_that_no_longer_gathers() -> None:
    moved = dataclasses.replace(
        remark("gathered before", line=99, applied=True, op="while", scope="while"), pass_name="hoist-gathers"
    )
    other = dataclasses.replace(moved, source=moved.source._replace(scope="other/while"))
    named = collective(W, kind="all-gather", loops=(), line=0, source_file="", op_name="parameters['w']")
    assert "new, gathered before [hoist-gathers]" in str(comparison([], [named], moved))
    assert f"new, {NOBODY_SAYS}" in str(comparison([], [named], moved, other))
    assert f"new, {NOBODY_SAYS}" in str(comparison([], [dataclasses.replace(named, op_name="step/psum")], moved))
