// Accumulators of which each device reads its own shard.

// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file | FileCheck %s --check-prefix=DEFER
// RUN: %par-opt %s --passes=defer-sync{policy=defer} --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=WHY
// RUN: %par-opt %s --passes=defer-sync{policy=every} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes=defer-sync{policy=hierarchical} --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes=defer-sync{policy=every} --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OWN
// RUN: %par-opt %s --passes='defer-sync{policy=auto memory-budget=130}' --split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: %par-opt %s --passes='defer-sync{policy=defer axes=replica}' --split-input-file | FileCheck %s --check-prefix=AXES
// RUN: %par-opt %s --passes='defer-sync{policy=defer axes=replica}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=OVER
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=KEPT
// RUN: not %par-opt %s --passes=defer-sync{axes=replic} --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN
// RUN: not %par-opt %s --passes=expose-all-reduces{axes=pod} --split-input-file 2>&1 >/dev/null | FileCheck %s --check-prefix=FAR

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
// OVER-DAG: [defer-sync] stablehlo.reduce_scatter missed: it is over data, and option axes is replica
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
// OVER-DAG: [defer-sync] stablehlo.all_reduce missed: it is over replica and data, and option axes is replica
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
// AUTO:           "stablehlo.reduce_scatter"(
// AUTO:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// AUTO-NOT:       stablehlo.{{all_reduce|reduce_scatter}}
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
