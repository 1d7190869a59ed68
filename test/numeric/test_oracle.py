"""The oracle notices what it is there to notice."""

from pathlib import Path

import numpy as np
import pytest
from numeric.corpus import cases
from numeric.oracle import assert_same, only, optimized, results
from numeric.structure import ASSUMED_TRIPS, assert_no_costlier, collectives
from numeric.test_corpus import SEEDS

SUM = """"stablehlo.all_reduce"(%{}) <{{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}}> ({{
    ^bb0(%p: tensor<{kind}>, %q: tensor<{kind}>):
      %r = stablehlo.add %p, %q : tensor<{kind}>
      stablehlo.return %r : tensor<{kind}>
  }}) : (tensor<4x{kind}>) -> tensor<4x{kind}>"""


def program(body: str, kind: str = "f32") -> str:
    """A module whose `@main` maps `%x` and `%n` (a trip count) to `%y`, which `body` defines."""
    return f"""func.func public @main(%x: tensor<4x{kind}>, %n: tensor<i32>) -> tensor<4x{kind}> {{
  {body}
  return %y : tensor<4x{kind}>
}}"""


def loop(body: str) -> str:
    """`%y` is `%x` after `body` maps `%acc` to `%next`, `%n` times."""
    return f"""%zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %loop:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xf32>
   cond {{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    {body}
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }}
  %y = stablehlo.add %loop#1, %loop#1 : tensor<4xf32>"""


LOCAL = program("%y = stablehlo.add %x, %x : tensor<4xf32>")
REDUCED = program(f"%y = {SUM.format('x', kind='f32')}")
SCATTERED = """func.func public @scattered(%x: tensor<4xf32>) -> tensor<1xf32> {
  %y = "stablehlo.reduce_scatter"(%x) <{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
"""
LOOPED = program(loop(f"%next = {SUM.format('acc', kind='f32')}"))
THREE = "%three = stablehlo.constant dense<3> : tensor<i32>"
COUNTED = LOOPED.replace("%zero = ", f"{THREE}\n  %zero = ").replace("LT, %i, %n", "LT, %i, %three")


def test_different_values_are_noticed() -> None:
    with pytest.raises(AssertionError, match="result 0 differs on device"):
        assert_same(LOCAL, REDUCED)


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "ui16"])
def test_data_differs_between_devices_and_sums_are_exact(kind: str) -> None:
    text = program(f"%y = stablehlo.add %x, %x : tensor<4x{kind}>", kind)
    rows = np.stack(results(text)[0]).astype(np.float64) / 2
    assert len(np.unique(rows, axis=0)) > 4
    (reduced,) = results(program(f"%y = {SUM.format('x', kind=kind)}", kind))
    for row in reduced:
        np.testing.assert_array_equal(row.astype(np.float64), rows.sum(axis=0))


def test_trip_counts_are_uniform_and_zero_for_some_seed_only() -> None:
    text = "func.func public @main(%n: tensor<i32>) -> tensor<i32> { return %n : tensor<i32> }"
    trips = [np.unique(results(text, seed)[0]) for seed in SEEDS]
    assert all(len(t) == 1 for t in trips)
    assert sorted(np.concatenate(trips)) == [0, 1, 3]


def test_sharded_arguments_are_cut_and_others_replicated() -> None:
    text = """module attributes {mhlo.num_partitions = 8 : i32} {
      sdy.mesh @mesh = <["a"=2, "b"=4]>
      func.func public @main(
          %x: tensor<8x6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}]>}, %y: tensor<8xi32>
      ) -> (tensor<8x6xi32>, tensor<8x6xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a"}]>}, tensor<8xi32>) {
        return %x, %x, %y : tensor<8x6xi32>, tensor<8x6xi32>, tensor<8xi32>
      }
    }"""
    whole, cut, replicated = results(text)
    assert whole[0].shape == (8, 6) and cut[0].shape == (2, 3) and replicated[0].shape == (8,)
    np.testing.assert_array_equal(cut[5], whole[0][2:4, 3:])  # device 5 is a=1, b=1
    assert all(np.array_equal(piece, replicated[0]) for piece in replicated)


def test_flattened_ids_run_as_partitions() -> None:
    groups = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups"
    body = program(f"%y = {SUM.format('x', kind='f32').replace('replica_groups', groups)}")
    text = f"module attributes {{mhlo.num_partitions = 8 : i32}} {{ {body} }}"
    assert_same(REDUCED, text)


def test_cost_is_counted_through_loops_branches_and_calls() -> None:
    (once,) = collectives(REDUCED)
    (many,) = collectives(LOOPED)
    assert (once.arrays, once.bytes, once.trips, once.depth) == (1, 16, 1, 0)
    assert (many.arrays, many.bytes, many.trips, many.depth) == (1, 16, ASSUMED_TRIPS, 1)
    (counted,) = collectives(COUNTED)
    assert (counted.arrays, counted.bytes, counted.trips, counted.depth) == (1, 16, 3, 0)
    called = REDUCED.replace("@main", "private @sum").replace("public ", "")
    twice = """%z = func.call @sum(%x, %n) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
      %y = func.call @sum(%z, %n) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>"""
    assert collectives(f"{program(twice)}\n{called}") == [once, once]


def branches(count: int) -> str:
    """A case of that many branches, which all reduce `%x`."""
    branch = f"%s = {SUM.format('x', kind='f32')}\n stablehlo.return %s : tensor<4xf32>"
    each = "}, {".join([branch] * count)
    return program(f'%y = "stablehlo.case"(%n) ({{ {each} }}) : (tensor<i32>) -> tensor<4xf32>')


def test_the_only_branch_runs_as_often_as_its_case() -> None:
    assert collectives(branches(1)) == collectives(REDUCED)
    assert [c.depth for c in collectives(branches(2))] == [1, 1]


def test_an_all_reduce_in_steps_costs_what_these_cost() -> None:
    groups = "replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>"
    between = "replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>"
    mark = f"[{{{groups}}}, {{{between}}}, {{{groups}}}]"
    found = collectives(REDUCED.replace("}) :", f"}}) {{paropt.decomposed = {mark}}} :"))
    sizes = {"stablehlo.reduce_scatter": 16, "stablehlo.all_reduce": 8, "stablehlo.all_gather": 8}
    assert {c.kind: c.bytes for c in found} == sizes


def test_cost_may_only_shrink() -> None:
    assert ASSUMED_TRIPS > 1
    assert_no_costlier(LOOPED, REDUCED)
    with pytest.raises(AssertionError, match="the depth of all_reduce/reduce_scatter grew from 0 to 1"):
        assert_no_costlier(REDUCED, LOOPED)
    with pytest.raises(AssertionError, match=r"the bytes of .* grew from 0 to 16"):
        assert_no_costlier(LOCAL, REDUCED)
    narrow = REDUCED.replace("4xf32", "2xf32")
    with pytest.raises(AssertionError, match=r"the bytes of .* grew from 8 to 16"):
        assert_no_costlier(narrow, REDUCED)
    assert_no_costlier(REDUCED, SCATTERED)  # an all_reduce is a reduce_scatter and an all_gather
    with pytest.raises(AssertionError, match=r"the bytes of .* grew from 32 to 48"):
        assert_no_costlier(REDUCED, SCATTERED + REDUCED.replace("@main", "@other"))
    halves = narrow + narrow.replace("@main", "@other")
    assert_no_costlier(halves, REDUCED)
    with pytest.raises(AssertionError, match=r"the arrays of .* grew from 1 to 2"):
        assert_no_costlier(REDUCED, halves)
    assert_no_costlier(REDUCED.replace("4xf32", "8xf32"), halves)  # bytes decide


def test_bytes_may_grow_only_where_no_reduction_is_left_in_a_loop() -> None:
    few, many = (REDUCED.replace("4xf32", f"{count}xf32") for count in (1000, 1033))
    assert_no_costlier(LOOPED, few)  # 4,000 bytes, for one collective fewer
    with pytest.raises(AssertionError, match=r"the bytes of .* grew from 4128 to 4132"):
        assert_no_costlier(LOOPED, many)
    stays = LOOPED.replace("@main", "@other")
    with pytest.raises(AssertionError, match=r"the bytes of .* grew from 64 to 4032"):
        assert_no_costlier(LOOPED + stays, few + stays)


LIT = """// RUN: %par-opt %s --passes='a{b=1 c=2},d' | FileCheck %s
// RUN: %par-opt %s --passes='a{b=1 c=2},d' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not %par-opt %s --passes=wrong
func.func @main() { return }
// NUMERIC: skip (XLA knows no such op)
// CHECK: something
func.func public @skipped() { return }
func.func private @helper() { return }
// -----
// expected-error@+1 {{wrong}}
func.func public @refused() { return }
"""


def test_cases_of_a_lit_file(tmp_path: Path) -> None:
    path = tmp_path / "some.mlir"
    path.write_text(LIT)
    found = cases(path)
    assert [(c.function, c.line, c.passes, c.skip) for c in found] == [
        ("main", 4, "a{b=1 c=2},d", ""),
        ("skipped", 7, "a{b=1 c=2},d", "XLA knows no such op"),
    ]


def test_a_skip_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "some.mlir"
    path.write_text(LIT.replace("skip (XLA knows no such op)", "skip"))
    with pytest.raises(ValueError, match=r"some.mlir:5: expected `// NUMERIC: skip \(reason\)`"):
        cases(path)


def test_only_keeps_what_the_function_uses() -> None:
    text = """func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
      func.func public @other(%x: tensor<f32>) -> tensor<f32> {
        %0 = call @helper(%x) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32> }
      func.func private @helper(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
      func.func private @unused(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"""
    kept = only(text, "other")
    assert "private @helper" in kept and "public @main" in kept and "call @helper" in kept
    assert "@other" not in kept and "@unused" not in kept


def test_optimized_returns_the_remarks() -> None:
    text = """func.func public @main(%x: tensor<f32>) -> tensor<f32> {
        %0 = call @helper(%x) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32> }
      func.func private @helper(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"""
    after, remarks = optimized(text, "inline-calls")
    assert "call" not in after
    assert [r.message for r in remarks] == ["[inline-calls] func.call applied: inlined @helper"]
