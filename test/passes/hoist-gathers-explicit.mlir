// Per-device programs: all_gathers.

// RUN: %par-opt %s --passes=hoist-gathers --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=hoist-gathers --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='hoist-gathers{policy=keep-shards}' --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: %par-opt %s --passes='hoist-gathers{gather-dtype=f32}' --split-input-file | FileCheck %s --check-prefix=F32

// All-gathers that the program has itself, as under `shard_map`.
#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// What the loop carries stays: only what is read changes.
// CHECK-LABEL:   func.func public @in_each_trip
// CHECK:           %[[G:.*]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %[[W:.*]] = %arg0,
// CHECK-NOT:         stablehlo.all_gather
// CHECK:             stablehlo.dot_general %arg1, %[[G]],
// CHECK:             stablehlo.return %{{.*}}, %[[W]],
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered before the loop, not in each of 4 trips; 256 bytes are held
func.func public @in_each_trip(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// All layers are gathered, and each trip of the loop over layers reads its slice.
// CHECK-LABEL:   func.func public @stacked_layers
// CHECK:           %[[G:.*]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 1 : i64, {{.*}} : (tensor<3x2x16xf32>) -> tensor<3x16x16xf32>
// CHECK-NEXT:      stablehlo.while
// CHECK:             stablehlo.while
// CHECK:               %[[D:.*]] = stablehlo.dynamic_slice %[[G]], {{.*}}, sizes = [1, 16, 16] : (tensor<3x16x16xf32>, {{.*}} -> tensor<1x16x16xf32>
// CHECK-NEXT:          %[[E:.*]] = stablehlo.reshape %[[D]] : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
// CHECK:               stablehlo.dot_general %{{.*}}, %[[E]],
// CHECK-NOT:           stablehlo.all_gather
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered before the loop, not in each of 4 trips; 3072 bytes are held
func.func public @stacked_layers(%p: tensor<3x2x16xf32>, %x: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x16xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m:3 = stablehlo.while(%l = %c0, %v = %w, %h = %x) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 2, 16] : (tensor<3x2x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16xf32>
      %e = stablehlo.reshape %d : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
      %g = "stablehlo.all_gather"(%e) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xf32>) -> tensor<16x16xf32>
      %o = stablehlo.dot_general %h, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xf32>) -> tensor<3x16xf32>
      stablehlo.return %k, %v, %o : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
    }
    %y = stablehlo.add %m#2, %m#2 : tensor<3x16xf32>
    %n = stablehlo.add %acc, %y : tensor<3x16xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  }
  return %r#2 : tensor<3x16xf32>
}

// Converted first, behind a barrier, as where layers are computed again: one for both, and half the bytes.
// CHECK-LABEL:   func.func public @computed_again
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<3x2x16xf32>) -> tensor<3x2x16xbf16>
// CHECK-NEXT:      %[[G:.*]] = "stablehlo.all_gather"(%[[K]]) <{all_gather_dim = 1 : i64, {{.*}} -> tensor<3x16x16xbf16>
// CHECK-NEXT:      stablehlo.while
// CHECK:               %[[D:.*]] = stablehlo.dynamic_slice %[[G]],
// CHECK-NEXT:          %[[E:.*]] = stablehlo.reshape %[[D]] : (tensor<1x16x16xbf16>) -> tensor<16x16xbf16>
// CHECK-NEXT:          stablehlo.dot_general %{{.*}}, %[[E]],
// CHECK-NEXT:          %[[F:.*]] = stablehlo.optimization_barrier %[[E]] : tensor<16x16xbf16>
// CHECK-NEXT:          stablehlo.optimization_barrier %{{[^,]*}} : tensor<3x16xf32>
// CHECK-NOT:           stablehlo.all_gather
// CHECK:               stablehlo.dot_general %{{.*}}, %[[F]],
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered before the loop, not in each of 4 trips; 1536 bytes are held
// F32-LABEL:     func.func public @computed_again
// F32:             "stablehlo.all_gather"(%arg0) {{.*}} -> tensor<3x16x16xf32>
func.func public @computed_again(%p: tensor<3x2x16xf32>, %x: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x16xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %m:3 = stablehlo.while(%l = %c0, %v = %w, %h = %x) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 2, 16] : (tensor<3x2x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16xf32>
      %e = stablehlo.reshape %d : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
      %u = stablehlo.convert %e : (tensor<2x16xf32>) -> tensor<2x16xbf16>
      %g = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xbf16>) -> tensor<16x16xbf16>
      %a = stablehlo.dot_general %h, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xbf16>) -> tensor<3x16xf32>
      %f, %b = stablehlo.optimization_barrier %e, %h : tensor<2x16xf32>, tensor<3x16xf32>
      %s = stablehlo.convert %f : (tensor<2x16xf32>) -> tensor<2x16xbf16>
      %z = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xbf16>) -> tensor<16x16xbf16>
      %c = stablehlo.dot_general %b, %z, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xbf16>) -> tensor<3x16xf32>
      %o = stablehlo.add %a, %c : tensor<3x16xf32>
      stablehlo.return %k, %v, %o : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
    }
    %y = stablehlo.add %m#2, %m#2 : tensor<3x16xf32>
    %n = stablehlo.add %acc, %y : tensor<3x16xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  }
  return %r#2 : tensor<3x16xf32>
}

// What reads it converts it: the same.
// CHECK-LABEL:   func.func public @converted_after
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<2x4xf32>) -> tensor<2x4xbf16>
// CHECK-NEXT:      %[[G:.*]] = "stablehlo.all_gather"(%[[K]])
// CHECK-NEXT:      stablehlo.while
// CHECK-NOT:         stablehlo.convert
// CHECK:             stablehlo.dot_general %arg1, %[[G]],
func.func public @converted_after(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %g = stablehlo.convert %f : (tensor<16x4xf32>) -> tensor<16x4xbf16>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xbf16>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// One reader needs all of its bits.
// CHECK-LABEL:   func.func public @read_in_two_types
// CHECK:           %[[G:.*]] = "stablehlo.all_gather"(%arg0)
// CHECK-NEXT:      stablehlo.while
// CHECK:             %[[K:.*]] = stablehlo.convert %[[G]]
// CHECK:             stablehlo.dot_general %arg1, %[[K]],
// CHECK:             stablehlo.dot_general %arg1, %[[G]],
func.func public @read_in_two_types(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %g = stablehlo.convert %f : (tensor<16x4xf32>) -> tensor<16x4xbf16>
    %a = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xbf16>) -> tensor<3x4xf32>
    %b = stablehlo.dot_general %x, %f, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %y = stablehlo.add %a, %b : tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Turned, cut along another dimension, and reshaped first.
// CHECK-LABEL:   func.func public @copied_first
// CHECK:           %[[G:.*]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}} -> tensor<16x4xf32>
// CHECK-NEXT:      stablehlo.while
// CHECK:             %[[S:.*]] = stablehlo.slice %[[G]] [0:16, 1:3] : (tensor<16x4xf32>) -> tensor<16x2xf32>
// CHECK-NEXT:        %[[T:.*]] = stablehlo.transpose %[[S]], dims = [1, 0] : (tensor<16x2xf32>) -> tensor<2x16xf32>
// CHECK-NEXT:        %[[F:.*]] = stablehlo.reshape %[[T]] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
// CHECK:             stablehlo.multiply %[[F]], %arg1
func.func public @copied_first(%p: tensor<2x4xf32>, %x: tensor<2x16x1xf32>) -> tensor<2x16x1xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x16x1xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<2x16x1xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.slice %w [0:2, 1:3] : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %u = stablehlo.transpose %s, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %f = stablehlo.reshape %u : (tensor<2x2xf32>) -> tensor<2x2x1xf32>
    %g = "stablehlo.all_gather"(%f) {all_gather_dim = 1 : i64, replica_groups = #all} : (tensor<2x2x1xf32>) -> tensor<2x16x1xf32>
    %y = stablehlo.multiply %g, %x : tensor<2x16x1xf32>
    %n = stablehlo.add %acc, %y : tensor<2x16x1xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<2x16x1xf32>
  }
  return %r#2 : tensor<2x16x1xf32>
}

// One reshape in place of two dimensions: each device's elements stay together.
// CHECK-LABEL:   func.func public @flattened_first
// CHECK:           %[[G:.*]] = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, {{.*}} -> tensor<16x4xf32>
// CHECK-NEXT:      stablehlo.while
// CHECK:             %[[F:.*]] = stablehlo.reshape %[[G]] : (tensor<16x4xf32>) -> tensor<64xf32>
// CHECK:             stablehlo.multiply %[[F]], %arg1
func.func public @flattened_first(%p: tensor<2x4xf32>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<64xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<64xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f = stablehlo.reshape %w : (tensor<2x4xf32>) -> tensor<8xf32>
    %g = "stablehlo.all_gather"(%f) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<8xf32>) -> tensor<64xf32>
    %y = stablehlo.multiply %g, %x : tensor<64xf32>
    %n = stablehlo.add %acc, %y : tensor<64xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<64xf32>
  }
  return %r#2 : tensor<64xf32>
}

// In two steps, over groups of two and of four: both.
// CHECK-LABEL:   func.func public @in_two_steps
// CHECK:           %[[A:.*]] = "stablehlo.all_gather"(%arg0) {{.*}} -> tensor<4x4xf32>
// CHECK-NEXT:      %[[G:.*]] = "stablehlo.all_gather"(%[[A]]) {{.*}} -> tensor<16x4xf32>
// CHECK-NEXT:      stablehlo.while
// CHECK-NOT:         stablehlo.all_gather
// CHECK:             stablehlo.dot_general %arg1, %[[G]],
func.func public @in_two_steps(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>} : (tensor<2x4xf32>) -> tensor<4x4xf32>
    %g = "stablehlo.all_gather"(%f) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>} : (tensor<4x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Legal when: the loop passes the parameter through
// CHECK-LABEL:   func.func public @changed
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.all_gather missed: the loop changes the parameter
func.func public @changed(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %w2 = stablehlo.add %w, %w : tensor<2x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w2, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Legal when: copies of which an all_gather gathers one have all of the dimension that is gathered
// CHECK-LABEL:   func.func public @a_part
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.all_gather missed: a slice takes a part of the dimension that is gathered
func.func public @a_part(%p: tensor<4x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<4x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.slice %w [0:2, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %g = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<4x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Each device's elements are not together, in what is reshaped.
// CHECK-LABEL:   func.func public @mixed
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.all_gather missed: a reshape mixes the dimension that is gathered with others
func.func public @mixed(%p: tensor<2x4xf32>, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.reshape %w : (tensor<2x4xf32>) -> tensor<8x1xf32>
    %g = "stablehlo.all_gather"(%s) {all_gather_dim = 1 : i64, replica_groups = #all} : (tensor<8x1xf32>) -> tensor<8x8xf32>
    %y = stablehlo.multiply %g, %x : tensor<8x8xf32>
    %n = stablehlo.add %acc, %y : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Legal when: an index of such a copy is uniform over the replica groups
// CHECK-LABEL:   func.func public @its_own_slice
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.all_gather missed: an index is not proven uniform over the replica groups
func.func public @its_own_slice(%p: tensor<3x2x16xf32>, %x: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x16xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %one = stablehlo.slice %x [0:1, 0:1] : (tensor<3x16xf32>) -> tensor<1x1xf32>
    %number = stablehlo.reshape %one : (tensor<1x1xf32>) -> tensor<f32>
    %own = stablehlo.convert %number : (tensor<f32>) -> tensor<i32>
    %d = stablehlo.dynamic_slice %w, %own, %c0, %c0, sizes = [1, 2, 16] : (tensor<3x2x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16xf32>
    %e = stablehlo.reshape %d : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
    %g = "stablehlo.all_gather"(%e) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xf32>) -> tensor<16x16xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xf32>) -> tensor<3x16xf32>
    %n = stablehlo.add %acc, %y : tensor<3x16xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  }
  return %r#2 : tensor<3x16xf32>
}

// Legal when: an all_gather gathers one array, and no metadata binds it to other ops
// CHECK-LABEL:   func.func public @two_arrays
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// REMARK: [hoist-gathers] stablehlo.all_gather missed: it gathers several arrays
func.func public @two_arrays(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f, %g = "stablehlo.all_gather"(%w, %w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<16x4xf32>, tensor<16x4xf32>)
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Nothing is gathered of empty arrays.
// CHECK-LABEL:   func.func public @empty_arrays
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// REMARK: [hoist-gathers] stablehlo.all_gather missed: it gathers arrays of no fixed size
func.func public @empty_arrays(%p: tensor<2x0xf32>, %x: tensor<3x16xf32>) -> tensor<3x0xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x0xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x0xf32>, tensor<3x0xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x0xf32>) -> tensor<16x0xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x0xf32>) -> tensor<3x0xf32>
    %n = stablehlo.add %acc, %y : tensor<3x0xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x0xf32>, tensor<3x0xf32>
  }
  return %r#2 : tensor<3x0xf32>
}

// So does a scheduling group.
// CHECK-LABEL:   func.func public @scheduled_with_others
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.all_gather missed: its metadata binds it to other ops of its block: _scheduling_group_id = "1"
func.func public @scheduled_with_others(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {mhlo.frontend_attributes = {_scheduling_group_id = "1"}, all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Worth it when: the loop makes more than one iteration
// CHECK-LABEL:   func.func public @one_trip
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.all_gather missed: the loop makes no more than one trip
func.func public @one_trip(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Worth it when: it is not done before the loop already
// CHECK-LABEL:   func.func public @done_before
// CHECK:           "stablehlo.all_gather"
// CHECK-NEXT:      stablehlo.while
// REMARK: [hoist-gathers] stablehlo.all_gather missed: it is done before the loop already
func.func public @done_before(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %g = "stablehlo.all_gather"(%p) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Worth it when: the loop gathers the same in each iteration, or another loop the same slices: as loops over layers do for a forward and a backward pass, or for micro-batches that Python unrolls
// CHECK-LABEL:   func.func public @another_slice_in_each_trip
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// CHECK:           return
func.func public @another_slice_in_each_trip(%p: tensor<4x2x16xf32>, %x: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x16xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<4x2x16xf32>, tensor<3x16xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %d = stablehlo.dynamic_slice %w, %i, %c0, %c0, sizes = [1, 2, 16] : (tensor<4x2x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16xf32>
    %e = stablehlo.reshape %d : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
    %g = "stablehlo.all_gather"(%e) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xf32>) -> tensor<16x16xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xf32>) -> tensor<3x16xf32>
    %n = stablehlo.add %acc, %y : tensor<3x16xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<4x2x16xf32>, tensor<3x16xf32>
  }
  return %r#2 : tensor<3x16xf32>
}

// Worth it when: `policy` allows the memory
// KEPT-LABEL:    func.func public @not_allowed
// KEPT:            stablehlo.while
// KEPT:              stablehlo.all_gather
func.func public @not_allowed(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}

// Two loops read the slices of what is gathered in front of the first.
// CHECK-LABEL:   func.func public @the_same_slices_in_two_loops
// CHECK:           %[[G:.*]] = "stablehlo.all_gather"(%arg0) {{.*}} -> tensor<3x16x16xf32>
// CHECK-NEXT:      stablehlo.while
// CHECK:             stablehlo.dynamic_slice %[[G]],
// CHECK-NOT:       stablehlo.all_gather
// CHECK:           stablehlo.while
// CHECK:             stablehlo.dynamic_slice %[[G]],
// CHECK-NOT:       stablehlo.all_gather
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered before the loop, not slice by slice in 2 loops; 3072 bytes are held
func.func public @the_same_slices_in_two_loops(%p: tensor<3x2x16xf32>, %x: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %m1:3 = stablehlo.while(%l = %c0, %v = %p, %h = %x) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  cond {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %k = stablehlo.add %l, %c1 : tensor<i32>
    %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 2, 16] : (tensor<3x2x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16xf32>
    %e = stablehlo.reshape %d : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
    %g = "stablehlo.all_gather"(%e) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xf32>) -> tensor<16x16xf32>
    %o = stablehlo.dot_general %h, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xf32>) -> tensor<3x16xf32>
    stablehlo.return %k, %v, %o : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  }
  %m2:3 = stablehlo.while(%l = %c0, %v = %p, %h = %m1#2) : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  cond {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %k = stablehlo.add %l, %c1 : tensor<i32>
    %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 2, 16] : (tensor<3x2x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16xf32>
    %e = stablehlo.reshape %d : (tensor<1x2x16xf32>) -> tensor<2x16xf32>
    %g = "stablehlo.all_gather"(%e) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x16xf32>) -> tensor<16x16xf32>
    %o = stablehlo.dot_general %h, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x16xf32>) -> tensor<3x16xf32>
    stablehlo.return %k, %v, %o : tensor<i32>, tensor<3x2x16xf32>, tensor<3x16xf32>
  }
  return %m2#2 : tensor<3x16xf32>
}
}

// -----

#half = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data", sub_axis_info = (1)2>]>
module attributes {mhlo.num_replicas = 8 : i32} {
sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Groups in a notation that is not read here.
// CHECK-LABEL:   func.func public @half_an_axis
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_gather"
// REMARK: [hoist-gathers] stablehlo.all_gather missed: the replica groups are not known
func.func public @half_an_axis(%p: tensor<2x4xf32>, %x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #half} : (tensor<2x4xf32>) -> tensor<4x4xf32>
    %y = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}
}
