// RUN: %par-opt %s --passes=annotate-contract --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-contract --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='annotate-contract{gradients=false}' --split-input-file | FileCheck %s --check-prefix=STATE

sdy.mesh @mesh = <["data"=8]>

// The gradient of a sharded parameter, from its first value to the last, and the new parameter.
// CHECK-LABEL: func.func public @parameter_and_gradient
// CHECK-SAME:    -> (tensor<8x8xf32> {jax.result_info = "result[0]['w']", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<f32> {jax.result_info = "result[1]"})
// CHECK:         %[[START:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK-NEXT:    %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[START]],
// CHECK:         } do {
// CHECK:           %[[NEXT:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      stablehlo.return %{{.*}}, %[[NEXT]], %{{.*}}
// CHECK:         %[[SUM:.*]] = sdy.sharding_constraint %[[LOOP]]#1 <@mesh, [{"data"}, {}]>
// CHECK-NEXT:    stablehlo.subtract %{{.*}}, %[[SUM]]
// REMARK: [annotate-contract] func.func applied: result 0 (result[0]['w']) is sharded as argument 0 (state['w']), which it replaces: [{data}, {}]
// REMARK: [annotate-contract] stablehlo.while applied: carried value 1 is sharded as argument 0 (state['w']), whose gradient it is: [{data}, {}]
// STATE-LABEL: func.func public @parameter_and_gradient
// STATE-SAME:    sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<f32>
// STATE-NOT:     sdy.sharding_constraint
// STATE-LABEL: func.func public @sum_sharded_otherwise
func.func public @parameter_and_gradient(%w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc("state['w']"), %x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} loc("batch")) -> (tensor<8x8xf32> {jax.result_info = "result[0]['w']"}, tensor<f32> {jax.result_info = "result[1]"}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %f0 = stablehlo.constant dense<0.0> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %sum = %zero, %v = %w) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %x, %i, %c0, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %y = stablehlo.dot_general %row, %v, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
    %g = stablehlo.dot_general %row, %y, contracting_dims = [0] x [0] : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
    %next = stablehlo.add %sum, %g : tensor<8x8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next, %v : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  %new = stablehlo.subtract %w, %r#1 : tensor<8x8xf32>
  return %new, %f0 : tensor<8x8xf32>, tensor<f32>
}

// Legal when: the sum has no different sharding already
// CHECK-LABEL: func.func public @sum_sharded_otherwise
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %cst{{.*}},
// REMARK: [annotate-contract] stablehlo.while missed: argument 0 (state['w']) is sharded [{data}, {}], and carried value 1, its gradient, [{}, {data}]
func.func public @sum_sharded_otherwise(%w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc("state['w']"), %x: tensor<8x8xf32> loc("batch")) -> (tensor<8x8xf32> {jax.result_info = "result['w']"}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:2 = stablehlo.while(%i = %c0, %sum = %zero) : tensor<i32>, tensor<8x8xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %next = stablehlo.add %sum, %g : tensor<8x8xf32>
    %there = sdy.sharding_constraint %next <@mesh, [{}, {"data"}]> : tensor<8x8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %there : tensor<i32>, tensor<8x8xf32>
  }
  %new = stablehlo.subtract %w, %r#1 : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}

// Legal when: the result has no different sharding already
// CHECK-LABEL: func.func public @result_sharded_otherwise
// CHECK-SAME:    -> (tensor<8xf32> {jax.result_info = "result['w']", sdy.sharding = #sdy.sharding<@mesh, [{}]>})
// REMARK: [annotate-contract] func.func missed: result 0 (result['w']) is sharded [{}], and argument 0 (state['w']), which it replaces, [{data}]
func.func public @result_sharded_otherwise(%w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>} loc("state['w']")) -> (tensor<8xf32> {jax.result_info = "result['w']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %new = stablehlo.negate %w : tensor<8xf32>
  return %new : tensor<8xf32>
}

// Worth it when: the sharding of the argument is closed in all dimensions
// CHECK-LABEL: func.func public @open_argument
// CHECK-SAME:    -> (tensor<8xf32> {jax.result_info = "result['w']"})
// REMARK: [annotate-contract] func.func missed: argument 0 (state['w']) has a sharding that leaves dimensions open: result 0 (result['w']) keeps its own
func.func public @open_argument(%w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", ?}]>} loc("state['w']")) -> (tensor<8xf32> {jax.result_info = "result['w']"}) {
  %new = stablehlo.negate %w : tensor<8xf32>
  return %new : tensor<8xf32>
}

// CHECK-LABEL: func.func public @open_parameter
// CHECK-NOT:     sdy.sharding_constraint
// REMARK: [annotate-contract] stablehlo.while missed: argument 0 (state['w']) has a sharding that leaves dimensions open: its gradient keeps its own
// CHECK-LABEL: func.func public @momentum
func.func public @open_parameter(%w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}]>} loc("state['w']")) -> (tensor<8xf32> {jax.result_info = "result['w']"}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
  %r:2 = stablehlo.while(%i = %c0, %sum = %zero) : tensor<i32>, tensor<8xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %next = stablehlo.add %sum, %w : tensor<8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<8xf32>
  }
  %new = stablehlo.subtract %w, %r#1 : tensor<8xf32>
  return %new : tensor<8xf32>
}

// A momentum is added up like a gradient, but the loop does not read it: it may be sharded in its own way.
// CHECK:         %[[LOOP:.*]]:2 = stablehlo.while
// CHECK:         sdy.sharding_constraint %[[LOOP]]#1 <@mesh, [{}]>
// REMARK: result 1 (result['w']) is sharded as argument 0 (state['w']), which it replaces: [{}]
// REMARK: result 0 (result['m']) is sharded as argument 1 (state['m']), which it replaces: [{data}]
// REMARK: carried value 1 is sharded as argument 0 (state['w']), whose gradient it is: [{}]
func.func public @momentum(%w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("state['w']"), %m: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>} loc("state['m']")) -> (tensor<8xf32> {jax.result_info = "result['m']"}, tensor<8xf32> {jax.result_info = "result['w']"}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
  %r:2 = stablehlo.while(%i = %c0, %sum = %zero) : tensor<i32>, tensor<8xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %next = stablehlo.add %sum, %w : tensor<8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<8xf32>
  }
  %new_m = stablehlo.add %m, %r#1 : tensor<8xf32>
  %new_w = stablehlo.subtract %w, %new_m : tensor<8xf32>
  return %new_m, %new_w : tensor<8xf32>, tensor<8xf32>
}

// -----

// Without shardings there is nothing to say.
// CHECK-LABEL: func.func public @no_mesh
// CHECK-SAME:    -> (tensor<8xf32> {jax.result_info = "result['w']"})
func.func public @no_mesh(%w: tensor<8xf32> loc("state['w']")) -> (tensor<8xf32> {jax.result_info = "result['w']"}) {
  %new = stablehlo.negate %w : tensor<8xf32>
  return %new : tensor<8xf32>
}
