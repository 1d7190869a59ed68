// Losses of activations whose features are sharded over the devices that share the examples.

// RUN: %par-opt %s --passes=expose-all-reduces,defer-sync,annotate-unreduced | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces,defer-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=8]>

// Worth it when: in a global-view program, a scalar is not computed from sums over the same devices that stay: there XLA shards features of activations, and a constraint on the scalar may have it move others
// CHECK-LABEL:   func.func public @of_sharded_features
// CHECK-NOT:       unreduced
// REMARK: [defer-sync] sdy.all_reduce missed: it is computed from sums over the same devices, which stay in the loop
func.func public @of_sharded_features(%x: tensor<4x16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}, %w: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<f32> {jax.result_info = "result"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 64] : (tensor<4x16x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x64xf32>
    %examples = stablehlo.reshape %row : (tensor<1x16x64xf32>) -> tensor<16x64xf32>
    %y = stablehlo.dot_general %examples, %w, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x8xf32>) -> tensor<16x8xf32>
    %t = stablehlo.tanh %y : tensor<16x8xf32>
    %mine = sdy.sharding_constraint %t <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
    %loss = stablehlo.reduce(%mine init: %none) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
    %next = stablehlo.add %acc, %loss : tensor<f32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %next : tensor<i32>, tensor<f32>
  }
  return %r#1 : tensor<f32>
}
