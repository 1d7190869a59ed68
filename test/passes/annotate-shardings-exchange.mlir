// RUN: %par-opt %s -p 'annotate-shardings{rules=%S/Inputs/exchange.toml}' --split-input-file | FileCheck %s
// RUN: %par-opt %s -p 'annotate-shardings{rules=%S/Inputs/exchange.toml}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=2, "expert"=4]>

// Experts are a batching dimension: tokens are exchanged, and so is the product; a cast of the experts changes nothing.
// CHECK-LABEL: func.func public @experts
// CHECK:         %[[CAST:.*]] = stablehlo.convert %arg0
// CHECK-NEXT:    %[[TOKENS:.*]] = stablehlo.broadcast_in_dim %arg1
// CHECK-NEXT:    %[[SENT:.*]] = sdy.sharding_constraint %[[TOKENS]] <@mesh, [{?}, {"expert", ?}, {?}]>
// CHECK-NEXT:    %[[PRODUCT:.*]] = stablehlo.dot_general %[[SENT]], %[[CAST]]
// CHECK-NEXT:    %[[RECEIVED:.*]] = sdy.sharding_constraint %[[PRODUCT]] <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK-NEXT:    stablehlo.reduce(%[[RECEIVED]]
// REMARK: applied: argument 0 (state['w']) is sharded [{expert}, {}, {}] by {{.*}}exchange.toml, rule 1
// REMARK: applied: argument 0 (state['w']) stays over expert where it is multiplied, by {{.*}}exchange.toml, rule 1
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/pyext/planning/test_experts.py runs a step)
func.func public @experts(%w: tensor<4x16x8xbf16> loc("state['w']"), %x: tensor<6x16xf32> loc("batch")) -> (tensor<6x8xf32>, tensor<4x16x8xbf16> {jax.result_info = "result[0]['w']"}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %cast = stablehlo.convert %w : (tensor<4x16x8xbf16>) -> tensor<4x16x8xf32>
  %tokens = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<6x16xf32>) -> tensor<6x4x16xf32>
  %y = stablehlo.dot_general %tokens, %cast, batching_dims = [1] x [0], contracting_dims = [2] x [1] : (tensor<6x4x16xf32>, tensor<4x16x8xf32>) -> tensor<4x6x8xf32>
  %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  return %sum, %w : tensor<6x8xf32>, tensor<4x16x8xbf16>
}

// -----

sdy.mesh @mesh = <["data"=2, "expert"=4]>

// Layers of experts that a loop takes one after the other: the dimension of experts is the second.
// CHECK-LABEL: func.func public @layers_of_experts
// CHECK:         do {
// CHECK:           %[[SENT:.*]] = sdy.sharding_constraint %iterArg{{[_0-9]*}} <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK:           %[[PRODUCT:.*]] = stablehlo.dot_general %[[SENT]], %{{[^ ]+}}, batching_dims
// CHECK:           %[[RECEIVED:.*]] = sdy.sharding_constraint %[[PRODUCT]] <@mesh, [{"expert", ?}, {?}, {?}]>
// CHECK:           stablehlo.return %{{[^ ]+}}, %[[RECEIVED]]
// REMARK: argument 0 (state['v']) stays over expert where it is multiplied, by {{.*}}exchange.toml, rule 2
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/pyext/planning/test_experts.py runs a step)
func.func public @layers_of_experts(%v: tensor<3x4x8x8xf32> loc("state['v']"), %x: tensor<4x6x8xf32> loc("batch")) -> (tensor<4x6x8xf32>, tensor<3x4x8x8xf32> {jax.result_info = "result[0]['v']"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %y = %x, %p = %v) : tensor<i32>, tensor<4x6x8xf32>, tensor<3x4x8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %p, %i, %zero, %zero, %zero, sizes = [1, 4, 8, 8] : (tensor<3x4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8x8xf32>
    %w = stablehlo.reshape %s : (tensor<1x4x8x8xf32>) -> tensor<4x8x8xf32>
    %z = stablehlo.dot_general %y, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x6x8xf32>, tensor<4x8x8xf32>) -> tensor<4x6x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %z, %p : tensor<i32>, tensor<4x6x8xf32>, tensor<3x4x8x8xf32>
  }
  return %r#1, %v : tensor<4x6x8xf32>, tensor<3x4x8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "expert"=4]>

// The sharded dimension is contracted, and so no batching dimension.
// CHECK-LABEL: func.func public @contracted
// CHECK-NOT:     sdy.sharding_constraint
// CHECK:         return
// REMARK-NOT: argument 0 (state['w']) stays
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/pyext/planning/test_experts.py runs a step)
func.func public @contracted(%w: tensor<4x8xf32> loc("state['w']"), %x: tensor<6x4xf32> loc("batch")) -> (tensor<6x8xf32>, tensor<4x8xf32> {jax.result_info = "result[0]['w']"}) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return %y, %w : tensor<6x8xf32>, tensor<4x8xf32>
}
