// RUN: %par-opt %s -p 'annotate-shardings{rules=%S/Inputs/exchange-examples.toml}' | FileCheck %s

sdy.mesh @mesh = <["data"=2, "expert"=4]>

// The axis of experts shards examples, too: tokens are collected, and added up again, on the devices of their examples.
// Between the two products of experts nothing is exchanged.
// CHECK-LABEL: func.func public @there_and_back
// CHECK-SAME:    %arg2: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "expert"}, {}]>}
// CHECK:         %[[TOKENS:.*]] = stablehlo.broadcast_in_dim %arg2
// CHECK-NEXT:    %[[HERE:.*]] = sdy.sharding_constraint %[[TOKENS]] <@mesh, [{}, {?}, {?}]>
// CHECK-NEXT:    %[[SENT:.*]] = sdy.sharding_constraint %[[HERE]] <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK-NEXT:    %[[UP:.*]] = stablehlo.dot_general %[[SENT]], %arg0
// CHECK-NEXT:    %[[HIDDEN:.*]] = sdy.sharding_constraint %[[UP]] <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK-NEXT:    %[[TANH:.*]] = stablehlo.tanh %[[HIDDEN]]
// CHECK-NEXT:    %[[STAYS:.*]] = sdy.sharding_constraint %[[TANH]] <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK-NEXT:    %[[DOWN:.*]] = stablehlo.dot_general %[[STAYS]], %arg1
// CHECK-NEXT:    %[[MADE:.*]] = sdy.sharding_constraint %[[DOWN]] <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK-NEXT:    %[[BACK:.*]] = sdy.sharding_constraint %[[MADE]] <@mesh, [{}, {?}, {?}]>
// CHECK-NEXT:    stablehlo.reduce(%[[BACK]]
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/pyext/planning/test_experts.py runs a step)
func.func public @there_and_back(%up: tensor<4x16x32xf32> loc("state['up']"), %down: tensor<4x32x16xf32> loc("state['down']"), %x: tensor<8x16xf32> loc("batch")) -> (tensor<8x16xf32>, tensor<4x16x32xf32> {jax.result_info = "result[0]['up']"}, tensor<4x32x16xf32> {jax.result_info = "result[0]['down']"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %tokens = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<8x16xf32>) -> tensor<4x8x16xf32>
  %u = stablehlo.dot_general %tokens, %up, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>
  %t = stablehlo.tanh %u : tensor<4x8x32xf32>
  %d = stablehlo.dot_general %t, %down, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x8x32xf32>, tensor<4x32x16xf32>) -> tensor<4x8x16xf32>
  %sum = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
  return %sum, %up, %down : tensor<8x16xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>
}
