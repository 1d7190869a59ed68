// A small sum beside a larger one that stays in the loop.

// RUN: %par-opt %s --passes='expose-all-reduces{scatters=outermost}' | FileCheck %s
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=outermost}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=left}' | FileCheck %s --check-prefix=LEFT

sdy.mesh @mesh = <["data"=8]>

// Worth it when: nor is one, of any type, that is less than a thousandth of those beside it (`scatters=outermost`)
// CHECK-LABEL:   func.func public @norm_beside_a_gradient(
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: beside the sums that stay in the loop it is less than a thousandth
// Other compilers start a collective for it.
// LEFT-LABEL:    func.func public @norm_beside_a_gradient(
// LEFT:            sdy.all_reduce
// LEFT:            return
func.func public @norm_beside_a_gradient(%x: tensor<16x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<16x1024xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<2048x512xf32>, tensor<1024xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2048x512xf32>
  %no_norms = stablehlo.constant dense<0.0> : tensor<1024xf32>
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %norms = %no_norms) : tensor<i32>, tensor<2048x512xf32>, tensor<1024xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x2048xf32>, tensor<16x512xf32>) -> tensor<2048x512xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<2048x512xf32>
    %n = stablehlo.add %acc, %c : tensor<2048x512xf32>
    %norm = stablehlo.reduce(%z init: %nothing) applies stablehlo.add across dimensions = [0] : (tensor<16x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %m = stablehlo.add %norms, %norm : tensor<1024xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<2048x512xf32>, tensor<1024xf32>
  }
  return %w#1, %w#2 : tensor<2048x512xf32>, tensor<1024xf32>
}

// More than a thousandth is worth a collective after the loop.
// CHECK-LABEL:   func.func public @more_beside_a_gradient(
// CHECK:           sdy.all_reduce
// CHECK:           return
func.func public @more_beside_a_gradient(%x: tensor<16x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<16x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<2048x512xf32>, tensor<2048xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2048x512xf32>
  %no_norms = stablehlo.constant dense<0.0> : tensor<2048xf32>
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %norms = %no_norms) : tensor<i32>, tensor<2048x512xf32>, tensor<2048xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x2048xf32>, tensor<16x512xf32>) -> tensor<2048x512xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<2048x512xf32>
    %n = stablehlo.add %acc, %c : tensor<2048x512xf32>
    %norm = stablehlo.reduce(%z init: %nothing) applies stablehlo.add across dimensions = [0] : (tensor<16x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %m = stablehlo.add %norms, %norm : tensor<2048xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<2048x512xf32>, tensor<2048xf32>
  }
  return %w#1, %w#2 : tensor<2048x512xf32>, tensor<2048xf32>
}
