// Two reduce_scatters in place of one over all devices of the mesh.

// RUN: %par-opt %s --passes='annotate-unreduced{scatter-devices=4}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='annotate-unreduced{scatter-devices=2}' --split-input-file | FileCheck %s --check-prefix=TWO
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s --check-prefix=ONE

sdy.mesh @mesh = <["data"=8]>

// The first one cuts into the largest parts: device 2 i + j keeps part j of part i.
// CHECK-LABEL:   func.func public @eight(
// CHECK:             sdy.manual_computation
// CHECK:             "stablehlo.reduce_scatter"
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>
// CHECK:             (tensor<16x4xf32>) -> tensor<4x4xf32>
// CHECK:             "stablehlo.reduce_scatter"
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>
// CHECK:             (tensor<4x4xf32>) -> tensor<2x4xf32>
// CHECK-NOT:         reduce_scatter
// CHECK:             return
// TWO-LABEL:     func.func public @eight(
// TWO-COUNT-2:       "stablehlo.reduce_scatter"
// TWO-NOT:           reduce_scatter
// TWO:               return
// ONE-LABEL:     func.func public @eight(
// ONE-COUNT-1:       "stablehlo.reduce_scatter"
// ONE-NOT:           reduce_scatter
// ONE:               return
func.func public @eight(%x: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>], paropt.sharding = #sdy.sharding<@mesh, [{}, {}]>} : tensor<16x4xf32>
  %t = stablehlo.negate %u : tensor<16x4xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %t out_sharding=<@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  return %s : tensor<16x4xf32>
}

// Along another dimension.
// TWO-LABEL:     func.func public @columns(
// TWO:               "stablehlo.reduce_scatter"
// TWO-SAME{LITERAL}:   replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>
// TWO-SAME:            scatter_dimension = 1
// TWO:               "stablehlo.reduce_scatter"
// TWO-SAME{LITERAL}:   replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
// TWO-SAME:            scatter_dimension = 1
// TWO-NOT:           reduce_scatter
// TWO:               return
func.func public @columns(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x16xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>], paropt.sharding = #sdy.sharding<@mesh, [{}, {}]>} : tensor<4x16xf32>
  %t = stablehlo.negate %u : tensor<4x16xf32>
  %s = sdy.reduce_scatter [{}, {"data"}] %t out_sharding=<@mesh, [{}, {"data"}]> : tensor<4x16xf32>
  return %s : tensor<4x16xf32>
}

// -----

// Over a part of the devices there is one.
sdy.mesh @mesh = <["replica"=2, "data"=4]>

// TWO-LABEL:     func.func public @four(
// TWO-COUNT-1:       "stablehlo.reduce_scatter"
// TWO-NOT:           reduce_scatter
// TWO:               return
func.func public @four(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>], paropt.sharding = #sdy.sharding<@mesh, [{}, {}]>} : tensor<4x8xf32>
  %t = stablehlo.negate %u : tensor<4x8xf32>
  %s = sdy.reduce_scatter [{}, {"data"}] %t out_sharding=<@mesh, [{}, {"data"}]> : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}
