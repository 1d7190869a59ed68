// Noted ops, and readers of sharded tables.

// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// What a loop carries is held where it is made, and where the loop starts.
// CHECK-LABEL:   func.func public @held_in_a_loop
// CHECK:           %[[S:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {"data"}]> :
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[S]])
// CHECK:             %[[H:.*]] = stablehlo.negate
// CHECK-NEXT:        %[[C:.*]] = sdy.sharding_constraint %[[H]] <@mesh, [{}, {"data"}]> :
// CHECK:             stablehlo.return %{{.*}}, %[[C]] :
// CHECK-NOT:       paropt.alone
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.negate applied: its result keeps the sharding that XLA would infer
module attributes {paropt.noted = ["stablehlo.dot_general", "stablehlo.negate"]} {

  sdy.mesh @mesh = <["data"=8]>
  func.func public @held_in_a_loop(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x8xf32>, tensor<16x8xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%k = %i, %h = %x) : tensor<i32>, tensor<16x8xf32>
    cond {
      %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %m = stablehlo.negate %h {paropt.alone = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : tensor<16x8xf32>
      %l = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %l, %m : tensor<i32>, tensor<16x8xf32>
    }
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<8x8xf32>
    %t = stablehlo.negate %u : tensor<8x8xf32>
    %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
    return %v, %r#1 : tensor<8x8xf32>, tensor<16x8xf32>
  }
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// A gather: XLA adds up what the devices find along a dimension that is split, and once more what is not reduced.
// CHECK-LABEL:   func.func public @looked_up_where_split
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.gather missed: a gather contracts, or looks up along, a sharded dimension
func.func public @looked_up_where_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<2x1xi32>) -> tensor<4x2xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 4, 1>, indices_are_sorted = false}> {paropt.read = [#sdy.sharding<@mesh, [{}, {"model"}]>, unit]} : (tensor<4x4xf32>, tensor<2x1xi32>) -> tensor<4x2xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x2xf32>
  return %v : tensor<4x2xf32>
}

// Indices that are split over the axis of the sum: XLA has each device look up for its own indices only.
// CHECK-LABEL:   func.func public @looked_up_by_split_indices
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.gather missed: another operand of the gather is sharded over the same axes, and would be all-gathered
func.func public @looked_up_by_split_indices(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<4x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> {paropt.read = [unit, #sdy.sharding<@mesh, [{"data"}, {}]>]} : (tensor<4x4xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// Whole rows of what is split by columns: each device looks up its part.
// CHECK-LABEL:   func.func public @looked_up_beside_the_split
// CHECK:           %[[T:.*]] = "stablehlo.gather"
// CHECK:           sdy.sharding_constraint %[[T]] <@mesh, [{}, {"model"}], unreduced={"data"}>
func.func public @looked_up_beside_the_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<2x1xi32>) -> tensor<2x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> {paropt.read = [#sdy.sharding<@mesh, [{}, {"model"}]>, unit], paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<4x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// The state splits the columns of the weights, in the loop too: to split examples for a number moves all of these.
// Worth it when: more than scalars have left a loop, or XLA alone shards the reduced values alike
// CHECK-LABEL:   func.func public @number_of_a_loop_that_splits_columns
// CHECK-NOT:       sharding_constraint
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.sharding_constraint missed: only scalars have moved, and XLA would infer other shardings for the reduced values
func.func public @number_of_a_loop_that_splits_columns(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %weight: tensor<8x64xf32>, %state: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<f32>, tensor<8x64xf32>, tensor<8x64xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<8x64xf32>
  %w:4 = stablehlo.while(%i = %zero, %p = %weight, %loss = %none, %sum = %nones) : tensor<i32>, tensor<8x64xf32>, tensor<f32>, tensor<8x64xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %start = stablehlo.constant dense<0.0> : tensor<f32>
    %h = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %l = stablehlo.reduce(%h init: %start) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<f32>
    %u = sdy.sharding_constraint %l <@mesh, [], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<f32>
    %loss_next = stablehlo.add %loss, %u : tensor<f32>
    %g = stablehlo.dot_general %x, %h, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %decayed = stablehlo.add %g, %p : tensor<8x64xf32>
    %sum_next = stablehlo.add %sum, %decayed : tensor<8x64xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %p, %loss_next, %sum_next : tensor<i32>, tensor<8x64xf32>, tensor<f32>, tensor<8x64xf32>
  }
  %v = sdy.all_reduce {"data"} %w#2 out_sharding=<@mesh, []> : tensor<f32>
  %n = stablehlo.add %state, %w#3 : tensor<8x64xf32>
  %d = stablehlo.subtract %weight, %n : tensor<8x64xf32>
  return %v, %d, %n : tensor<f32>, tensor<8x64xf32>, tensor<8x64xf32>
}
