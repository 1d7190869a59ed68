"""What jax lowers collectives to: an alarm for new versions, whose modules the passes may not recognise."""

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
from frontend.filecheck import filecheck
from jax.sharding import AxisType, PartitionSpec
from numeric.oracle import optimized

P = PartitionSpec
Array = jax.Array
OUTLINES_SCAN_BODIES = jax.__version_info__ < (0, 12)


def lowered(f: Callable, *shapes: tuple[int, ...], ins: object, outs: object, check_vma: bool = True) -> str:
    """The module of `f` under shard_map over 8 devices, one axis `data`; f32 arguments of these global shapes."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=check_vma)
    return jax.jit(mapped).lower(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)).as_text()


def test_psum(tmp_path: Path) -> None:
    """
    CHECK:      module @{{.*}} attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}
    CHECK-NEXT: sdy.mesh @mesh = <["data"=8]>
    CHECK:      sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>]
    CHECK-SAME:   out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data"} (%[[X:.*]]: tensor<1x4xf32>) {
    CHECK-NEXT: %[[S:.*]] = "stablehlo.all_reduce"(%[[X]])
    CHECK-SAME:   channel_handle = #stablehlo.channel_handle<handle = {{[0-9]+}}, type = 1>
    CHECK-SAME:   replica_groups = $ALL, use_global_device_ids}>
    CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
    CHECK-NEXT:   %[[R:.*]] = stablehlo.add %[[A]], %[[B]] : tensor<f32>
    CHECK-NEXT:   stablehlo.return %[[R]]
    CHECK-NEXT: }) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    CHECK-NEXT: sdy.return %[[S]]
    """
    filecheck(test_psum, lowered(lambda x: jax.lax.psum(x, "data"), (8, 4), ins=P("data"), outs=P()), tmp_path)


def test_psum_of_a_tree(tmp_path: Path) -> None:
    """
    One all_reduce for each leaf.

    CHECK-COUNT-2: "stablehlo.all_reduce"
    CHECK-NOT:     stablehlo.all_reduce
    """
    text = lowered(lambda x, y: jax.lax.psum((x, y), "data"), (8, 4), (8, 2), ins=P("data"), outs=P())
    filecheck(test_psum_of_a_tree, text, tmp_path)


def test_psum_over_one_of_two_axes(tmp_path: Path) -> None:
    """
    CHECK:      sdy.mesh @mesh = <["replica"=2, "data"=4]>
    CHECK:      manual_axes={"replica", "data"}
    CHECK-NEXT: "stablehlo.all_reduce"
    CHECK-SAME:   replica_groups = $ROWS
    """
    mesh = jax.make_mesh((2, 4), ("replica", "data"), axis_types=(AxisType.Auto,) * 2)
    both = P(("replica", "data"))
    mapped = jax.shard_map(lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=both, out_specs=P("replica"))
    filecheck(test_psum_over_one_of_two_axes, jax.jit(mapped).lower(jnp.ones((8, 4))).as_text(), tmp_path)


def test_pmean(tmp_path: Path) -> None:
    """
    CHECK:      %[[S:.*]] = "stablehlo.all_reduce"
    CHECK:      %[[C:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    CHECK-NEXT: %[[N:.*]] = stablehlo.broadcast_in_dim %[[C]], dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    CHECK-NEXT: stablehlo.divide %[[S]], %[[N]] : tensor<1x4xf32>
    """
    filecheck(test_pmean, lowered(lambda x: jax.lax.pmean(x, "data"), (8, 4), ins=P("data"), outs=P()), tmp_path)


def test_pmax(tmp_path: Path) -> None:
    """
    CHECK:      "stablehlo.all_reduce"
    CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
    CHECK-NEXT:   stablehlo.maximum %[[A]], %[[B]] : tensor<f32>
    """
    filecheck(test_pmax, lowered(lambda x: jax.lax.pmax(x, "data"), (8, 4), ins=P("data"), outs=P()), tmp_path)


def test_psum_scatter(tmp_path: Path) -> None:
    """
    CHECK:      "stablehlo.reduce_scatter"
    CHECK-SAME:   replica_groups = $ALL, scatter_dimension = 1 : i64, use_global_device_ids}>
    CHECK:      }) : (tensor<1x16xf32>) -> tensor<1x2xf32>
    """

    def scatter(x: Array) -> Array:
        return jax.lax.psum_scatter(x, "data", scatter_dimension=1, tiled=True)

    text = lowered(scatter, (8, 16), ins=P("data"), outs=P(None, "data"))
    filecheck(test_psum_scatter, text, tmp_path)


def test_all_gather(tmp_path: Path) -> None:
    """
    CHECK:      "stablehlo.all_gather"(%{{.*}}) <{all_gather_dim = 0 : i64, channel_handle
    CHECK-SAME:   replica_groups = $ALL, use_global_device_ids}> : (tensor<1x4xf32>) -> tensor<8x4xf32>
    """
    text = lowered(
        lambda x: jax.lax.all_gather(x, "data", tiled=True), (8, 4), ins=P("data"), outs=P(), check_vma=False
    )
    filecheck(test_all_gather, text, tmp_path)


def scan_of_psum(x: Array) -> Array:
    return jax.lax.scan(lambda acc, y: (acc + jax.lax.psum(y, "data"), None), jnp.zeros(4), x)[0]


def test_scan_of_psum(tmp_path: Path) -> None:
    """
    After inline-calls, all versions agree: the trip count is a constant, the carried values are the sequence, the
    index and the accumulator.

    CHECK-NOT:  func.call
    CHECK:      %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
    CHECK-NEXT: %[[LOOP:.*]]:3 = stablehlo.while(%[[XS:.*]] = %{{.*}}, %[[I:.*]] = %[[ZERO]], %[[ACC:.*]] = %{{.*}})
    CHECK-NEXT: cond {
    CHECK-NEXT:   %[[TRIPS:.*]] = stablehlo.constant dense<3> : tensor<i32>
    CHECK-NEXT:   stablehlo.compare LT, %[[I]], %[[TRIPS]], SIGNED
    CHECK:      } do {
    CHECK:        %[[S:.*]] = "stablehlo.all_reduce"(%{{.*}})
    CHECK:        %[[NEXT:.*]] = stablehlo.add %[[ACC]], %[[S]] : tensor<4xf32>
    CHECK:        %[[J:.*]] = stablehlo.add %[[I]], %{{.*}} : tensor<i32>
    CHECK-NEXT:   stablehlo.return %[[XS]], %[[J]], %[[NEXT]]
    CHECK:      sdy.return %[[LOOP]]#2
    """
    text = lowered(scan_of_psum, (3, 32), ins=P(None, "data"), outs=P())
    filecheck(test_scan_of_psum, optimized(text, "inline-calls")[0], tmp_path)


def test_scan_bodies_are_outlined_before_0_12_only() -> None:
    text = lowered(scan_of_psum, (3, 32), ins=P(None, "data"), outs=P())
    assert ("func.func private @closed_call" in text) == OUTLINES_SCAN_BODIES


def test_gradient_of_replicated_parameters(tmp_path: Path) -> None:
    """
    With check_vma=True, jax sums the gradient itself: no psum is in the user's program.

    CHECK:      %[[G:.*]] = stablehlo.dot_general
    CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %[[G]], dims = [1, 0]
    CHECK-NEXT: "stablehlo.all_reduce"(%[[T]])
    CHECK-SAME:   replica_groups = $ALL
    CHECK-NOT:  stablehlo.all_reduce
    """
    text = lowered(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x) @ w)), (4, 2), (8, 4), ins=(P(), P("data")), outs=P())
    filecheck(test_gradient_of_replicated_parameters, text, tmp_path)


def test_gradient_without_check_vma(tmp_path: Path) -> None:
    """
    CHECK:     stablehlo.dot_general
    CHECK-NOT: stablehlo.all_reduce
    """
    text = lowered(
        jax.grad(lambda w, x: jnp.sum(x @ w)), (4, 2), (8, 4), ins=(P(), P("data")), outs=P(), check_vma=False
    )
    filecheck(test_gradient_without_check_vma, text, tmp_path)


def test_mixed_precision(tmp_path: Path) -> None:
    """
    CHECK:      %[[N:.*]] = stablehlo.convert %{{.*}} : (tensor<1x4xf32>) -> tensor<1x4xbf16>
    CHECK-NEXT: %[[S:.*]] = "stablehlo.all_reduce"(%[[N]])
    CHECK:        stablehlo.add {{.*}} : tensor<bf16>
    CHECK:      stablehlo.convert %[[S]] : (tensor<1x4xbf16>) -> tensor<1x4xf32>
    """

    def mixed(x: Array) -> Array:
        return jax.lax.psum(x.astype(jnp.bfloat16), "data").astype(jnp.float32)

    filecheck(test_mixed_precision, lowered(mixed, (8, 4), ins=P("data"), outs=P()), tmp_path)
