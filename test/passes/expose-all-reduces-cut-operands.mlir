// RUN: %par-opt %s --passes=expose-all-reduces | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Contractions of which one operand is sharded along a reduced dimension, and the other one is not.

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL:   func.func public @one_operand_sharded
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>], paropt.shared = array<i64: 0>}
// CHECK-NEXT:      sdy.all_reduce {"data"} %[[U]]
func.func public @one_operand_sharded(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  return %g : tensor<4x2xf32>
}

// What nothing says a sharding of is cut, too.
// CHECK-LABEL:   func.func public @closed_by_a_constraint
// CHECK:           %[[C:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK-NEXT:      %[[P:.*]] = stablehlo.dot_general %[[C]], %{{.*}}
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>], paropt.shared = array<i64: 1>}
// CHECK-NEXT:      sdy.all_reduce {"data"} %[[U]]
func.func public @closed_by_a_constraint(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32>) -> tensor<2x4xf32> {
  %n = stablehlo.negate %y : tensor<16x2xf32>
  %c = sdy.sharding_constraint %n <@mesh, [{}, {}]> : tensor<16x2xf32>
  %g = stablehlo.dot_general %c, %x, contracting_dims = [0] x [0] : (tensor<16x2xf32>, tensor<16x4xf32>) -> tensor<2x4xf32>
  return %g : tensor<2x4xf32>
}

// Keys and values of context parallelism: examples are sharded alike, positions of one operand only.
// CHECK-LABEL:   func.func public @positions
// CHECK:           stablehlo.dot_general
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data", "model"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {"model"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {"model"}, {?}]>], paropt.shared = array<i64: 0>}
// CHECK-NEXT:      sdy.all_reduce {"data", "model"}
func.func public @positions(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  return %g : tensor<4x8xf32>
}

// Legal when: its operands shard the reduced dimensions in the same way, or one of them shards them not
// CHECK-LABEL:   func.func public @by_other_axes
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands are sharded in different ways
func.func public @by_other_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  return %g : tensor<4x2xf32>
}

// XLA all-gathers an operand, as devices would have to exchange parts of the other one to cut that.
// CHECK-LABEL:   func.func public @other_dimension_needs_the_axis
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @other_dimension_needs_the_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %c = sdy.sharding_constraint %y <@mesh, [{}, {"data"}]> : tensor<16x8xf32>
  %g = stablehlo.dot_general %x, %c, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %g : tensor<4x8xf32>
}

// XLA would all-gather the operand that is sharded: the result is sharded over that axis.
// CHECK-LABEL:   func.func public @result_needs_the_axis
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands are sharded in different ways
func.func public @result_needs_the_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{}, {"data"}]> : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// Worth it when: an operand that holds all of a reduced dimension is cut along it as the other one is sharded, where the sum is no larger than the other one (which XLA may all-gather instead)
// CHECK-LABEL:   func.func public @larger_sum
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands are sharded in different ways
func.func public @larger_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x17xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<4x17xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x17xf32>) -> tensor<4x17xf32>
  return %g : tensor<4x17xf32>
}
