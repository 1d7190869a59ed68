// What costs memory, and over which axes: with each policy, and with `axes`.

// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file | FileCheck %s --check-prefix=DEFER
// RUN: %par-opt %s --passes=defer-sync{policy=every} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes=defer-sync{policy=hierarchical} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes='defer-sync{policy=auto memory-budget=130}' --split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: %par-opt %s --passes='defer-sync{policy=auto memory-budget=130}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=BUDGET
// RUN: %par-opt %s --passes='defer-sync{policy=defer axes=replica}' --split-input-file | FileCheck %s --check-prefix=AXES
// RUN: %par-opt %s --passes='defer-sync{policy=defer axes=replica}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OVER

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// The accumulator is as large as before the reduce_scatter.
// DEFER-LABEL:   func.func public @sharded
// DEFER:           stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<16xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// EVERY-LABEL:   func.func public @sharded
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO-LABEL:   func.func public @sharded
// AUTO:           } do {
// AUTO-NOT:       stablehlo.reduce_scatter
// AUTO:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO:           "stablehlo.reduce_scatter"(
// AXES-LABEL:   func.func public @sharded
// AXES:           } do {
// AXES:           stablehlo.reduce_scatter
// AXES:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// BUDGET-DAG: [defer-sync] stablehlo.reduce_scatter applied: 64 bytes per device, now reduced after the loop and not 4 times in it; 192 bytes fewer are reduced, 56 more are held
// OVER-DAG: [defer-sync] stablehlo.reduce_scatter missed: option axes names axes of a mesh, and the module has none
func.func public @sharded(%x: tensor<16xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %n = stablehlo.add %acc, %s : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}

// Scaled by one scalar, decaying, from a start of its own, with a term that is not reduced.
// DEFER-LABEL:   func.func public @start_and_scale
// DEFER:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>, tensor<2xf32>
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER:           stablehlo.add
// EVERY-LABEL:   func.func public @start_and_scale
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO-LABEL:   func.func public @start_and_scale
// AUTO:           } do {
// AUTO-NOT:       stablehlo.reduce_scatter
// AUTO:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO:           "stablehlo.reduce_scatter"(
func.func public @start_and_scale(%x: tensor<16xf32>, %c: tensor<2xf32>, %start: tensor<2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %half = stablehlo.constant dense<0.5> : tensor<2xf32>
    %m = stablehlo.multiply %s, %half : tensor<2xf32>
    %d = stablehlo.multiply %acc, %half : tensor<2xf32>
    %o = stablehlo.subtract %d, %m : tensor<2xf32>
    %n = stablehlo.add %o, %c : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}

// DEFER-LABEL:   func.func public @converted_shard
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// EVERY-LABEL:   func.func public @converted_shard
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
func.func public @converted_shard(%x: tensor<16xbf16>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<bf16>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<bf16>) -> tensor<16xbf16>
    %xv = stablehlo.add %x, %xb : tensor<16xbf16>
    %s = "stablehlo.reduce_scatter"(%xv) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xbf16>) -> tensor<2xbf16>
    %c = stablehlo.convert %s : (tensor<2xbf16>) -> tensor<2xf32>
    %n = stablehlo.add %acc, %c : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}

// What moves elements of a shard is not the same on the whole.
// DEFER-LABEL:   func.func public @moved_shard
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// EVERY-LABEL:   func.func public @moved_shard
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
func.func public @moved_shard(%x: tensor<16xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %c = stablehlo.reverse %s, dims = [0] : tensor<2xf32>
    %n = stablehlo.add %acc, %c : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}

// DEFER-LABEL:   func.func public @shard_in_a_branch
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
func.func public @shard_in_a_branch(%x: tensor<16xf32>, %start: tensor<2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<3.0> : tensor<2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %s = "stablehlo.case"(%i) ({
      stablehlo.return %none : tensor<2xf32>
    }, {
      %r = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
      stablehlo.return %r : tensor<2xf32>
    }) : (tensor<i32>) -> tensor<2xf32>
    %n = stablehlo.add %acc, %s : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Two fit in what is left: by savings for each byte held. The all_reduce holds nothing.
// AUTO-LABEL:   func.func public @best_of_three
// AUTO:           } do {
// AUTO:           stablehlo.reduce_scatter
// AUTO-NOT:       stablehlo.all_reduce
// AUTO-NOT:       stablehlo.reduce_scatter
// AUTO:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// BUDGET-DAG: [defer-sync] stablehlo.reduce_scatter missed: it would save 768 bytes of reductions and hold 224 more, and 74 are left of a budget of 130
// BUDGET-DAG: [defer-sync] stablehlo.all_reduce applied: 64 bytes per device, now reduced after the loop and not 4 times in it; 192 bytes fewer are reduced, 0 more are held
func.func public @best_of_three(%x: tensor<16xf32>, %h: tensor<64xf32>) -> (tensor<8xf32>, tensor<2xf32>, tensor<16xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %one1 = stablehlo.constant dense<0.0> : tensor<8xf32>
  %all0 = stablehlo.constant dense<0.0> : tensor<16xf32>
  %w:4 = stablehlo.while(%i = %zero, %a = %one1, %b = %none, %c = %all0) : tensor<i32>, tensor<8xf32>, tensor<2xf32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.add %x, %ts : tensor<16xf32>
    %hi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %hb = stablehlo.broadcast_in_dim %hi, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %hv = stablehlo.add %h, %hb : tensor<64xf32>
    %s = "stablehlo.reduce_scatter"(%hv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<64xf32>) -> tensor<8xf32>
    %a1 = stablehlo.add %a, %s : tensor<8xf32>
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %xv = stablehlo.add %x, %xb : tensor<16xf32>
    %s2 = "stablehlo.reduce_scatter"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %s3 = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %b1 = stablehlo.add %b, %s2 : tensor<2xf32>
    %b2 = stablehlo.add %b1, %s3 : tensor<2xf32>
    %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<16xf32>) -> tensor<16xf32>
    %c1 = stablehlo.add %c, %r : tensor<16xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %a1, %b2, %c1 : tensor<i32>, tensor<8xf32>, tensor<2xf32>, tensor<16xf32>
  }
  return %w#1, %w#2, %w#3 : tensor<8xf32>, tensor<2xf32>, tensor<16xf32>
}
}
