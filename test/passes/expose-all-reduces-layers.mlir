// Loops over layers.

// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The optimizer is not to tell how a loop over layers splits its activations.
// CHECK-LABEL:   func.func public @layers(
// CHECK:           do {
// CHECK-NOT:         paropt.alone
// CHECK:             stablehlo.return
func.func public @layers(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32>, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %loop:4 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Unless XLA gathers most of their parameters: what follows are more layers. A loss is added up, too.
// CHECK-LABEL:   func.func public @sharded_layers(
// CHECK:             stablehlo.dot_general {{.*}}paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {"model"}]>]
func.func public @sharded_layers(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<8x8xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %own_loss = stablehlo.constant dense<2.0> : tensor<f32>
  %loop:5 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b, %loss = %none) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %losses = stablehlo.add %loss, %own_loss : tensor<f32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases, %losses : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<f32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u, %loop#4 : tensor<8x8xf32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Biases are few of the bytes that the loop reads.
// CHECK-LABEL:   func.func public @layers_with_sharded_biases(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         {"model"}
// CHECK:             stablehlo.return
func.func public @layers_with_sharded_biases(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32>, %b: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %loop:4 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Of micro-batches, which hand on a state, the loop adds up a gradient.
// CHECK-LABEL:   func.func public @sharded_layers_beside_a_sum(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         {"model"}
// CHECK:             stablehlo.return
func.func public @sharded_layers_beside_a_sum(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %loop:5 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b, %acc = %none) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %s = stablehlo.dot_general %h, %h, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %sum = stablehlo.add %acc, %s : tensor<8x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases, %sum : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u, %loop#4 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Layers within a loop over micro-batches: what follows that is the optimizer.
// CHECK-LABEL:   func.func public @sharded_layers_in_a_loop(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         {"model"}
// CHECK:             stablehlo.return
func.func public @sharded_layers_in_a_loop(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %sums:2 = stablehlo.while(%k = %zero, %acc = %none) : tensor<i32>, tensor<8x8xf32>
  cond {
    %again = stablehlo.compare LT, %k, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %loop:4 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
      %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
      %n = stablehlo.add %p, %each : tensor<16x8xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %all, %biases : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
    }
    %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %sum = stablehlo.add %acc, %g : tensor<8x8xf32>
    %k_next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %k_next, %sum : tensor<i32>, tensor<8x8xf32>
  }
  %u = stablehlo.add %sums#1, %m : tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}
