// A sum that XLA:TPU would hold whole, as it sinks its reduce_scatter out of the loop, beside few arguments.

// RUN: %par-opt %s --passes='expose-all-reduces{scatters=outermost}' | FileCheck %s
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=outermost}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL:   func.func public @too_many_sums(
// CHECK-NOT:       sdy.reduce_scatter
// CHECK:           return
// REMARK: stablehlo.dot_general missed: its sum is sharded over `data`, and stays so
func.func public @too_many_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}
