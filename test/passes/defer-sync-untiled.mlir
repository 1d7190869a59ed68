// Untiled, regrouped and stacked reduce_scatters.

// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file | FileCheck %s --check-prefix=DEFER
// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %par-opt %s --passes=defer-sync{policy=every} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes=defer-sync{policy=hierarchical} --split-input-file | FileCheck %s --check-prefix=EVERY

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// As JAX writes a reduce_scatter of one row for each device: its dimension is dropped. A row of all is joined to the next.
// DEFER-LABEL:   func.func public @untiled
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<24xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
// EVERY-LABEL:   func.func public @untiled
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter applied: 96 bytes per device, now reduced after the loop and not 4 times in it; 288 bytes fewer are reduced, 84 more are held
func.func public @untiled(%x: tensor<8x3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
    %g = stablehlo.add %x, %ts : tensor<8x3xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    %row = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
    %n = stablehlo.add %acc, %row : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// From a start of its own, decaying, scaled by one scalar, with a term that is not reduced, for any number of trips.
// DEFER-LABEL:   func.func public @untiled_start_and_scale
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<24xf32>, tensor<3xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_start_and_scale(%x: tensor<8x3xf32>, %c: tensor<3xf32>, %start: tensor<3xf32>, %trips: tensor<i32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %same = "stablehlo.all_reduce"(%trips) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %same : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
    %g = stablehlo.add %x, %ts : tensor<8x3xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    %two = stablehlo.constant dense<2.0> : tensor<1x3xf32>
    %f = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %half = stablehlo.constant dense<0.5> : tensor<3xf32>
    %double = stablehlo.multiply %s, %two : tensor<1x3xf32>
    %row = stablehlo.reshape %double : (tensor<1x3xf32>) -> tensor<3xf32>
    %m = stablehlo.multiply %row, %f : tensor<3xf32>
    %d = stablehlo.multiply %acc, %half : tensor<3xf32>
    %o = stablehlo.subtract %d, %m : tensor<3xf32>
    %n = stablehlo.add %o, %c : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// DEFER-LABEL:   func.func public @untiled_converted
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<24xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_converted(%x: tensor<8x3xbf16>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<bf16>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<bf16>) -> tensor<8x3xbf16>
    %g = stablehlo.add %x, %ts : tensor<8x3xbf16>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xbf16>) -> tensor<1x3xbf16>
    %row = stablehlo.reshape %s : (tensor<1x3xbf16>) -> tensor<3xbf16>
    %wide = stablehlo.convert %row : (tensor<3xbf16>) -> tensor<3xf32>
    %n = stablehlo.add %acc, %wide : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// The dimension before it stays, those behind are joined, and split again.
// DEFER-LABEL:   func.func public @untiled_between_others
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x16x3xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_between_others(%x: tensor<2x8x6xf32>) -> tensor<2x2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2x2x3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2x2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2x8x6xf32>
    %g = stablehlo.add %x, %ts : tensor<2x8x6xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 1 : i64} : (tensor<2x8x6xf32>) -> tensor<2x1x6xf32>
    %row = stablehlo.reshape %s : (tensor<2x1x6xf32>) -> tensor<2x6xf32>
    %split = stablehlo.reshape %row : (tensor<2x6xf32>) -> tensor<2x2x3xf32>
    %n = stablehlo.add %acc, %split : tensor<2x2x3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2x2x3xf32>
  }
  return %w#1 : tensor<2x2x3xf32>
}

// DEFER-LABEL:   func.func public @one_more_dimension
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<8x2x3xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @one_more_dimension(%x: tensor<16x3xf32>) -> tensor<1x2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<1x2x3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16x3xf32>
    %g = stablehlo.add %x, %ts : tensor<16x3xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16x3xf32>) -> tensor<2x3xf32>
    %more = stablehlo.reshape %s : (tensor<2x3xf32>) -> tensor<1x2x3xf32>
    %n = stablehlo.add %acc, %more : tensor<1x2x3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<1x2x3xf32>
  }
  return %w#1 : tensor<1x2x3xf32>
}

// One after the loop is that of both.
// DEFER-LABEL:   func.func public @untiled_and_tiled
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<24xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_and_tiled(%x: tensor<8x3xf32>, %y: tensor<24xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
    %g = stablehlo.add %x, %ts : tensor<8x3xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    %row = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
    %tiled = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<24xf32>) -> tensor<3xf32>
    %m = stablehlo.subtract %row, %tiled : tensor<3xf32>
    %n = stablehlo.add %acc, %m : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// DEFER-LABEL:   func.func public @untiled_in_a_branch
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<24xf32>, tensor<3xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_in_a_branch(%x: tensor<8x3xf32>, %start: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<3.0> : tensor<3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
    %g = stablehlo.add %x, %ts : tensor<8x3xf32>
    %row = "stablehlo.case"(%i) ({
      stablehlo.return %none : tensor<3xf32>
    }, {
      %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xf32>) -> tensor<1x3xf32>
      %b = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
      stablehlo.return %b : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    %n = stablehlo.add %acc, %row : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// DEFER-LABEL:   func.func public @untiled_and_read
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter missed: the reduced value is also read by stablehlo.abs: stablehlo.abs does not commute with the reduction
func.func public @untiled_and_read(%x: tensor<8x3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8x3xf32>
    %g = stablehlo.add %x, %ts : tensor<8x3xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xf32>) -> tensor<1x3xf32>
    %row = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
    %size = stablehlo.abs %s : tensor<1x3xf32>
    %flat = stablehlo.reshape %size : (tensor<1x3xf32>) -> tensor<3xf32>
    %m = stablehlo.add %row, %flat : tensor<3xf32>
    %n = stablehlo.add %acc, %m : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// There is no dimension along which a device would get every eighth element.
// DEFER-LABEL:   func.func public @untiled_last
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter missed: a reduce_scatter may not cross stablehlo.reshape, which moves elements
func.func public @untiled_last(%x: tensor<3x8xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %g = stablehlo.add %x, %ts : tensor<3x8xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
    %row = stablehlo.reshape %s : (tensor<3x1xf32>) -> tensor<3xf32>
    %n = stablehlo.add %acc, %row : tensor<3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3xf32>
  }
  return %w#1 : tensor<3xf32>
}

// DEFER-LABEL:   func.func public @untiled_to_a_scalar
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_to_a_scalar(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %g = stablehlo.add %x, %ts : tensor<8xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8xf32>) -> tensor<1xf32>
    %row = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
    %n = stablehlo.add %acc, %row : tensor<f32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<f32>
  }
  return %w#1 : tensor<f32>
}

// The second dimension of the result has elements of both rows of the shard.
// DEFER-LABEL:   func.func public @regrouped
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @regrouped(%x: tensor<2x24xf32>) -> tensor<3x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2x24xf32>
    %g = stablehlo.add %x, %ts : tensor<2x24xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 1 : i64} : (tensor<2x24xf32>) -> tensor<2x3xf32>
    %row = stablehlo.reshape %s : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %n = stablehlo.add %acc, %row : tensor<3x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x2xf32>
  }
  return %w#1 : tensor<3x2xf32>
}

// DEFER-LABEL:   func.func public @untiled_of_nothing
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @untiled_of_nothing(%x: tensor<8x0xf32>) -> tensor<0xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<0xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<0xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x0xf32>) -> tensor<1x0xf32>
    %row = stablehlo.reshape %s : (tensor<1x0xf32>) -> tensor<0xf32>
    %n = stablehlo.add %acc, %row : tensor<0xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<0xf32>
  }
  return %w#1 : tensor<0xf32>
}

// A loop over layers stacks what it scatters, in a wider type: it stacks whole gradients, and the loop around it sums them.
// DEFER-LABEL:   func.func public @stacked_shards
// DEFER:           %[[W:.*]]:2 = stablehlo.while({{.*}}) : tensor<i32>, tensor<3x16x5xf32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:             stablehlo.while({{.*}}) : tensor<i32>, tensor<3x16x5xf32>
// DEFER:               %[[B:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = [1, 2] : (tensor<16x5xbf16>) -> tensor<1x16x5xbf16>
// DEFER:               %[[C:.*]] = stablehlo.convert %[[B]] : (tensor<1x16x5xbf16>) -> tensor<1x16x5xf32>
// DEFER:               stablehlo.dynamic_update_slice %{{.*}}, %[[C]], %{{.*}} : (tensor<3x16x5xf32>, tensor<1x16x5xf32>
// DEFER:           "stablehlo.reduce_scatter"(%[[W]]#1) <{{.*}}scatter_dimension = 1 : i64
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
// EVERY-LABEL:   func.func public @stacked_shards
// EVERY:             %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}) <{{.*}}scatter_dimension = 0 : i64
// EVERY:             stablehlo.dynamic_update_slice
func.func public @stacked_shards(%x: tensor<16x5xbf16>) -> tensor<3x2x5xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x2x5xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x2x5xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %v:2 = stablehlo.while(%j = %zero, %stack = %none) : tensor<i32>, tensor<3x2x5xf32>
    cond {
      %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %ij = stablehlo.add %i, %j : tensor<i32>
      %t = stablehlo.convert %ij : (tensor<i32>) -> tensor<bf16>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<bf16>) -> tensor<16x5xbf16>
      %g = stablehlo.add %x, %ts : tensor<16x5xbf16>
      %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16x5xbf16>) -> tensor<2x5xbf16>
      %c = stablehlo.convert %s : (tensor<2x5xbf16>) -> tensor<2x5xf32>
      %b = stablehlo.broadcast_in_dim %c, dims = [1, 2] : (tensor<2x5xf32>) -> tensor<1x2x5xf32>
      %u = stablehlo.dynamic_update_slice %stack, %b, %j, %zero, %zero : (tensor<3x2x5xf32>, tensor<1x2x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x2x5xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %u : tensor<i32>, tensor<3x2x5xf32>
    }
    %n = stablehlo.add %acc, %v#1 : tensor<3x2x5xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x2x5xf32>
  }
  return %w#1 : tensor<3x2x5xf32>
}

// What is not scattered is kept apart: the start, and rows that are written whole.
// DEFER-LABEL:   func.func public @written_beside
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<3x16xf32>, tensor<3x2xf32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:             stablehlo.dynamic_update_slice {{.*}} : (tensor<3x16xf32>, tensor<1x16xf32>,
// DEFER:             stablehlo.dynamic_update_slice {{.*}} : (tensor<3x2xf32>, tensor<1x2xf32>,
// DEFER:           "stablehlo.reduce_scatter"({{.*}}scatter_dimension = 1 : i64
func.func public @written_beside(%x: tensor<16xf32>, %own: tensor<3x2xf32>, %start: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<3x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %u = stablehlo.dynamic_update_slice %own, %b, %one, %zero : (tensor<3x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x2xf32>
    %n = stablehlo.add %acc, %u : tensor<3x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x2xf32>
  }
  return %w#1 : tensor<3x2xf32>
}

// A part of the scattered dimension is another part of the whole.
// DEFER-LABEL:   func.func public @written_to_a_part
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter missed: a reduce_scatter may not cross stablehlo.dynamic_update_slice, which moves elements
func.func public @written_to_a_part(%x: tensor<16xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %u = stablehlo.dynamic_update_slice %none, %s, %one : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %u : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}
}

// -----

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["replica"=4, "model"=2]>

// The partitioner may split the rows over `model`: joined, they would be moved.
// DEFER-LABEL:   func.func public @rows_that_are_split
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter missed: a reduce_scatter may not cross stablehlo.reshape where a mesh axis is left to the partitioner
func.func public @rows_that_are_split(%x: tensor<16x8xf32>) -> tensor<32xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica"}, {"model"}]>] out_shardings=[<@mesh, [{"replica"}]>] manual_axes={"replica"} (%g: tensor<4x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<8xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4x8xf32>) -> tensor<1x8xf32>
      %row = stablehlo.reshape %s : (tensor<1x8xf32>) -> tensor<8xf32>
      %n = stablehlo.add %acc, %row : tensor<8xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<8xf32>
    }
    sdy.return %w#1 : tensor<8xf32>
  } : (tensor<16x8xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}
}
