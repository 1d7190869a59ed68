// What costs memory, and over which axes: with each policy, and with `axes`.
// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file | FileCheck %s --check-prefix=DEFER
// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %par-opt %s --passes=defer-sync{policy=every} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes=defer-sync{policy=hierarchical} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes=defer-sync{policy=every} --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OWN
// RUN: %par-opt %s --passes='defer-sync{policy=auto memory-budget=130}' --split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: %par-opt %s --passes='defer-sync{policy=auto memory-budget=130}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=BUDGET
// RUN: %par-opt %s --passes='defer-sync{policy=defer axes=replica}' --split-input-file | FileCheck %s --check-prefix=AXES
// RUN: %par-opt %s --passes='defer-sync{policy=defer axes=replica}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OVER
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=KEPT
// RUN: not %par-opt %s --passes=defer-sync{axes=replic} --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN
// RUN: not %par-opt %s --passes=expose-all-reduces{axes=pod} --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=FAR

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

// -----

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["replica"=4, "data"=2]>

// Scattered over `data` in each trip, summed over `replica` once, on the shard.
// EVERY-LABEL:   func.func public @hierarchical
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY-NOT:       stablehlo.all_reduce
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// EVERY:           "stablehlo.all_reduce"(%{{.*}}#1)
// DEFER-LABEL:   func.func public @hierarchical
// DEFER:           } do {
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER-NOT:       stablehlo.all_reduce
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}#1)
// DEFER:           "stablehlo.all_reduce"(%[[S]])
// AXES-LABEL:   func.func public @hierarchical
// AXES:           } do {
// AXES:           stablehlo.reduce_scatter
// AXES-NOT:       stablehlo.all_reduce
// AXES:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AXES:           "stablehlo.all_reduce"(%{{.*}}#1)
// OVER-DAG: [defer-sync] stablehlo.reduce_scatter missed: it reduces over data, and option axes is replica
// UNKNOWN: {{^}}par-opt: error: axes=replic: no mesh of the module has an axis `replic`; did you mean `replica`? The axes are replica, data{{$}}
// FAR: {{^}}par-opt: error: axes=pod: no mesh of the module has an axis `pod`; the axes are replica, data{{$}}
func.func public @hierarchical(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, scatter_dimension = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %r = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[4, 0, 2, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %r : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// AXES-LABEL:   func.func public @over_both_axes
// AXES:           } do {
// AXES:           stablehlo.all_reduce
// AXES:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// OVER-DAG: [defer-sync] stablehlo.all_reduce missed: it reduces over replica and data, and option axes is replica
func.func public @over_both_axes(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %h = stablehlo.slice %g [0:1, 0:4] : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %r = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %r : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// AXES-LABEL:   func.func public @over_no_axes
// AXES:           } do {
// AXES:           stablehlo.all_reduce
// AXES:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// OVER-DAG: [defer-sync] stablehlo.all_reduce missed: its replica groups are not those of mesh axes, which option axes asks for
func.func public @over_no_axes(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %h = stablehlo.slice %g [0:1, 0:4] : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %r = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %r : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Each device reads its shard only: half the bytes are sent.
// EVERY-LABEL:   func.func public @own_shard
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY-SAME:        replica_groups = dense<{{\[\[}}0, 1], [2, 3], [4, 5], [6, 7]]>
// EVERY-NOT:       stablehlo.dynamic_slice
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// EVERY-NOT:       stablehlo.all_reduce
// EVERY:           return
// OWN-DAG: [defer-sync] stablehlo.all_reduce applied: each device reads one shard: scattered over 2 devices
// KEPT-DAG: [defer-sync] stablehlo.all_reduce missed: each device reads one shard: its accumulator would have to be unscattered (option policy=defer allows it)
// DEFER-LABEL:   func.func public @own_shard
// DEFER:           } do {
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.all_reduce
// DEFER:           return
// AUTO-LABEL:   func.func public @own_shard
// AUTO:           } do {
// AUTO-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// AUTO:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO:           "stablehlo.reduce_scatter"(
// AUTO-NOT:       stablehlo.all_reduce
// AUTO:           return
// AXES-LABEL:   func.func public @own_shard
// AXES:           } do {
// AXES:           stablehlo.reduce_scatter
// AXES-NOT:       stablehlo.dynamic_slice
// AXES:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AXES-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// AXES:           return
// WHY-DAG: [defer-sync] stablehlo.all_reduce applied: each device reads one shard: scattered over 2 devices
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter applied: 32 bytes per device, now reduced after the loop and not 4 times in it; 96 bytes fewer are reduced, 16 more are held
func.func public @own_shard(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// The shards, of which four devices have the same, are summed once.
// EVERY-LABEL:   func.func public @own_shard_of_both_axes
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY-SAME:        replica_groups = dense<{{\[\[}}0, 1], [2, 3], [4, 5], [6, 7]]>
// EVERY-NOT:       stablehlo.all_reduce
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// EVERY:           "stablehlo.all_reduce"(%{{.*}}#1)
// EVERY-SAME:        replica_groups = dense<{{\[\[}}0, 2, 4, 6], [1, 3, 5, 7]]>
// OWN-DAG: [defer-sync] stablehlo.all_reduce applied: each device reads one shard: scattered over 2 devices, and the shards summed over 4
// DEFER-LABEL:   func.func public @own_shard_of_both_axes
// DEFER:           } do {
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}#1)
// DEFER:           "stablehlo.all_reduce"(%[[S]])
func.func public @own_shard_of_both_axes(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// EVERY-LABEL:   func.func public @own_shard_of_a_maximum
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: only sums are scattered
func.func public @own_shard_of_a_maximum(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// EVERY-LABEL:   func.func public @own_shard_of_two_dimensions
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: a shard is cut in several dimensions
func.func public @own_shard_of_two_dimensions(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %gg = stablehlo.concatenate %g, %g, dim = 0 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<2x8xf32>
      %r = "stablehlo.all_reduce"(%gg) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x8xf32>) -> tensor<2x8xf32>
      %h = stablehlo.dynamic_slice %r, %place, %at, sizes = [1, 4] : (tensor<2x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// EVERY-LABEL:   func.func public @own_shard_of_odd_size
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: shards are not of one size
func.func public @own_shard_of_odd_size(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %one_more = stablehlo.constant dense<0.0> : tensor<1x1xf32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 3] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x3xf32>
      %h2 = stablehlo.concatenate %h, %one_more, dim = 1 : (tensor<1x3xf32>, tensor<1x1xf32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h2 : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Another shard in each trip: which one is uniform, so the sum itself may leave.
// KEPT-DAG: [defer-sync] stablehlo.all_reduce missed: an index is not proven uniform over the replica groups
// EVERY-LABEL:   func.func public @shard_of_an_unknown_device
// EVERY:           } do {
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           return
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: it is not known which shard each device reads
func.func public @shard_of_an_unknown_device(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %at = stablehlo.multiply %i, %four : tensor<i32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %zero, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// All devices read the same shard, so that the slice may come first.
// EVERY-LABEL:   func.func public @shard_of_one_device
// EVERY:           } do {
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           return
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: shards are not read equally often
func.func public @shard_of_one_device(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %at = stablehlo.convert %four : (tensor<i32>) -> tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// The whole of it is read, too.
// EVERY-LABEL:   func.func public @own_shard_and_another_use
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
func.func public @own_shard_and_another_use(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %o = stablehlo.slice %r [0:1, 0:4] : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %ab = stablehlo.abs %o : tensor<1x4xf32>
      %sum = stablehlo.add %acc, %ab : tensor<1x4xf32>
      %n = stablehlo.add %sum, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// EVERY-LABEL:   func.func public @own_shard_of_replicas
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: its replica groups do not name partitions
func.func public @own_shard_of_replicas(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %id = stablehlo.partition_id : tensor<ui32>
      %n_data = stablehlo.constant dense<2> : tensor<ui32>
      %place = stablehlo.remainder %id, %n_data : tensor<ui32>
      %size = stablehlo.constant dense<4> : tensor<ui32>
      %at = stablehlo.multiply %place, %size : tensor<ui32>
      %first = stablehlo.constant dense<0> : tensor<ui32>
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Which shard it is, the loop carries as it is.
// EVERY-LABEL:   func.func public @own_shard_at_a_carried_place
// EVERY:           } do {
// EVERY:           stablehlo.reduce_scatter
// EVERY-NOT:       stablehlo.dynamic_slice
// EVERY:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// EVERY-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// EVERY:           return
// DEFER-LABEL:   func.func public @own_shard_at_a_carried_place
// DEFER:           } do {
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.all_reduce
// DEFER:           return
func.func public @own_shard_at_a_carried_place(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %at = stablehlo.multiply %place, %size : tensor<ui32>
    %w:3 = stablehlo.while(%i = %zero, %acc = %none, %where = %at) : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %where, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %where : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// EVERY-LABEL:   func.func public @own_shard_at_another_place_in_each_trip
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           return
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: it is not known which shard each device reads
// DEFER-LABEL:   func.func public @own_shard_at_another_place_in_each_trip
// DEFER:           } do {
// DEFER:           stablehlo.all_reduce
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @own_shard_at_another_place_in_each_trip(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %at = stablehlo.multiply %place, %size : tensor<ui32>
    %w:3 = stablehlo.while(%i = %zero, %acc = %none, %where = %at) : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %where, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %other = stablehlo.xor %where, %size : tensor<ui32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %other : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Where it can't leave, the loop scatters: that sends half, and holds no more.
// DEFER-LABEL:   func.func public @own_shard_that_is_needed
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER-NOT:       stablehlo.dynamic_slice
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           return
// AUTO-LABEL:   func.func public @own_shard_that_is_needed
// AUTO:           } do {
// AUTO:           stablehlo.reduce_scatter
// AUTO-NOT:       stablehlo.dynamic_slice
// AUTO:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// AUTO:           return
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter missed: stablehlo.abs does not commute with the reduction
func.func public @own_shard_that_is_needed(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %at = stablehlo.multiply %place, %size : tensor<ui32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %size_of = stablehlo.abs %h : tensor<1x4xf32>
      %n = stablehlo.add %acc, %size_of : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// DEFER-LABEL:   func.func public @own_shard_once
// DEFER:           } do {
// DEFER:           stablehlo.reduce_scatter
// DEFER-NOT:       stablehlo.dynamic_slice
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           return
// WHY-DAG: [defer-sync] stablehlo.reduce_scatter missed: 32 bytes after the loop are no fewer than 1 times 32 in it
func.func public @own_shard_once(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %at = stablehlo.multiply %place, %size : tensor<ui32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// XLA reduces it once for both, so that a reduce_scatter would come on top.
// EVERY-LABEL:   func.func public @own_shard_of_what_is_reduced_for_others
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           return
// OWN-DAG: [defer-sync] stablehlo.all_reduce missed: its operand is reduced for another reader, too
func.func public @own_shard_of_what_is_reduced_for_others(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %at = stablehlo.multiply %place, %size : tensor<ui32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %e = stablehlo.add %p, %q : tensor<f32> stablehlo.return %e : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %o = stablehlo.slice %s [0:1, 0:4] : (tensor<1x8xf32>) -> tensor<1x4xf32>
      %size_of = stablehlo.abs %o : tensor<1x4xf32>
      %m = stablehlo.add %acc, %size_of : tensor<1x4xf32>
      %n = stablehlo.add %m, %h : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

}

// -----

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["replica"=4, "data"=2]>

// Which shard it is, both loops carry as it is: the outer one gets it back from the inner.
// EVERY-LABEL:   func.func public @own_shard_in_a_nest
// EVERY:           } do {
// EVERY:             } do {
// EVERY:             stablehlo.reduce_scatter
// EVERY-NOT:         stablehlo.all_reduce
// EVERY:           return
// DEFER-LABEL:   func.func public @own_shard_in_a_nest
// DEFER:           } do {
// DEFER:             } do {
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
// DEFER:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// DEFER:           "stablehlo.reduce_scatter"(
// DEFER-NOT:       stablehlo.all_reduce
// DEFER:           return
func.func public @own_shard_in_a_nest(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %w:3 = stablehlo.while(%i = %zero, %acc = %none, %where = %place) : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %v:3 = stablehlo.while(%j = %zero, %inner = %acc, %there = %where) : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
      cond {
        %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %at = stablehlo.multiply %there, %size : tensor<ui32>
        %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
        %h = stablehlo.dynamic_slice %r, %first, %at, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
        %n = stablehlo.add %inner, %h : tensor<1x4xf32>
        %j_next = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %j_next, %n, %there : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
      }
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %v#1, %v#2 : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// EVERY-LABEL:   func.func public @own_shard_at_a_place_that_an_inner_loop_changes
// EVERY:           } do {
// EVERY:           stablehlo.all_reduce
// EVERY-NOT:       stablehlo.reduce_scatter
// EVERY:           return
// DEFER-LABEL:   func.func public @own_shard_at_a_place_that_an_inner_loop_changes
// DEFER:           } do {
// DEFER:           stablehlo.all_reduce
// DEFER-NOT:       stablehlo.reduce_scatter
// DEFER:           return
func.func public @own_shard_at_a_place_that_an_inner_loop_changes(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%g: tensor<1x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %id = stablehlo.partition_id : tensor<ui32>
    %n_data = stablehlo.constant dense<2> : tensor<ui32>
    %place = stablehlo.remainder %id, %n_data : tensor<ui32>
    %size = stablehlo.constant dense<4> : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %at = stablehlo.multiply %place, %size : tensor<ui32>
    %w:3 = stablehlo.while(%i = %zero, %acc = %none, %where = %at) : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x8xf32>) -> tensor<1x8xf32>
      %h = stablehlo.dynamic_slice %r, %first, %where, sizes = [1, 4] : (tensor<1x8xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %h : tensor<1x4xf32>
      %v:2 = stablehlo.while(%j = %zero, %there = %where) : tensor<i32>, tensor<ui32>
      cond {
        %more = stablehlo.compare LT, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %other = stablehlo.xor %there, %size : tensor<ui32>
        %j_next = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %j_next, %other : tensor<i32>, tensor<ui32>
      }
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %v#1 : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

}

// -----

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
