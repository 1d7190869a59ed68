// Parameters that are sharded over two axes, gathered once over one of them.

// RUN: %par-opt %s --passes='hoist-gathers{axes=replica}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='hoist-gathers{axes=replica}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=100 link-cost=replica:8}' --split-input-file | FileCheck %s --check-prefix=SLOW
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=128 link-cost=replica:8}' --split-input-file | FileCheck %s --check-prefix=ALL
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=100}' --split-input-file | FileCheck %s --check-prefix=NONE

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Over the other axis it stays sharded, and XLA gathers it at use.
// CHECK-LABEL:   func.func public @over_both
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %[[W:.*]] = %arg0,
// CHECK:             stablehlo.dot_general %{{.*}}, %[[G]],
// CHECK:             stablehlo.return %{{.*}}, %[[W]],
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over replica before the loop, not in each of 4 trips; 32 bytes are held
// A plan takes the slow axis first, and the other one where there is room for all of it.
// SLOW-LABEL:    func.func public @over_both
// SLOW:            sdy.sharding_constraint %arg0 <@mesh, [{"data"}, {}]>
// ALL-LABEL:     func.func public @over_both
// ALL:             sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// NONE-LABEL:    func.func public @over_both
// NONE-NOT:        sharding_constraint
// NONE:            return
func.func public @over_both(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "replica"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"replica", "data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// CHECK-LABEL:   func.func public @over_the_other_one
// CHECK-NOT:       sharding_constraint
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: it is gathered over data, and option axes is replica
func.func public @over_the_other_one(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"replica", "data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// -----

#replica = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>
#data = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_partitions = 8 : i32} {

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Of the two that the program writes, the one over the axis that is asked for.
// CHECK-LABEL:   func.func public @written
// CHECK:           "stablehlo.all_gather"(%arg0) {{.*}} : (tensor<1x4xf32>) -> tensor<2x4xf32>
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"({{.*}} : (tensor<2x4xf32>) -> tensor<8x4xf32>
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over replica before the loop, not in each of 4 trips; 32 bytes are held
// REMARK: [hoist-gathers] stablehlo.all_gather missed: it is over data, and option axes is replica
func.func public @written(%p: tensor<1x4xf32>, %x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<1x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %h = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #replica, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %g = "stablehlo.all_gather"(%h) {all_gather_dim = 0 : i64, replica_groups = #data, use_global_device_ids, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<1x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}
}
