// RUN: %par-opt %s --passes=hoist-gathers --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=hoist-gathers --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='hoist-gathers{policy=keep-shards}' --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: %par-opt %s --passes='hoist-gathers{gather-dtype=f32}' --split-input-file | FileCheck %s --check-prefix=F32

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What the loop carries stays sharded: only what is read changes.
// CHECK-LABEL:   func.func public @read_in_each_trip
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %[[W:.*]] = %arg0,
// CHECK:             stablehlo.dot_general %{{.*}}, %[[G]],
// CHECK:             stablehlo.return %{{.*}}, %[[W]],
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data before the loop, not in each of 4 trips; 128 bytes are held
func.func public @read_in_each_trip(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Other axes keep sharding it.
// CHECK-LABEL:   func.func public @tensor_parallel
// CHECK:           sdy.sharding_constraint %arg0 <@mesh, [{}, {"model"}]>
// CHECK-NEXT:      stablehlo.while
// REMARK: gathered over data before the loop, not in each of 4 trips; 64 bytes are held
func.func public @tensor_parallel(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Nothing is gathered: no other dimension is sharded over the same axis.
// CHECK-LABEL:   func.func public @sharded_over_another_axis
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @sharded_over_another_axis(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// There is nothing to gather.
// CHECK-LABEL:   func.func public @replicated
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @replicated(%p: tensor<8x4xf32>, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Half the bytes are sent and held. The first constraint pins the convert in front of the gather.
// CHECK-LABEL:   func.func public @converted_first
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<8x4xf32>) -> tensor<8x4xbf16>
// CHECK-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             stablehlo.dot_general %{{.*}}, %[[G]],
// REMARK: gathered over data before the loop, not in each of 4 trips; 64 bytes are held
// F32-LABEL:     func.func public @converted_first
// F32:             %[[F:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// F32:               stablehlo.convert %[[F]] : (tensor<8x4xf32>) -> tensor<8x4xbf16>
func.func public @converted_first(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %k = stablehlo.convert %w : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %h = stablehlo.convert %b : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %y = stablehlo.dot_general %h, %k, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x4xbf16>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// One reader needs all of its bits.
// CHECK-LABEL:   func.func public @read_in_two_types
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             stablehlo.convert %[[G]]
// CHECK:             stablehlo.dot_general %{{.*}}, %[[G]],
func.func public @read_in_two_types(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %k = stablehlo.convert %w : (tensor<8x4xf32>) -> tensor<8x4xbf16>
    %h = stablehlo.convert %b : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %z = stablehlo.dot_general %h, %k, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x4xbf16>) -> tensor<16x4xf32>
    %v = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %y = stablehlo.add %z, %v : tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Slices of it are converted, in a loop over layers that are computed again: behind a barrier, which stays.
// CHECK-LABEL:   func.func public @stacked_layers
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{}, {"data"}, {}]>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while
// CHECK:               %[[D:.*]] = stablehlo.dynamic_slice %[[G]], %{{.*}} -> tensor<1x8x8xbf16>
// CHECK-NEXT:          %[[E:.*]] = stablehlo.reshape %[[D]] : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
// CHECK-NEXT:          %[[F:.*]] = stablehlo.optimization_barrier %[[E]] : tensor<8x8xbf16>
// CHECK:               stablehlo.dot_general %{{.*}}, %[[F]],
// CHECK-NOT:           stablehlo.convert %{{.*}} : (tensor<8x8xf32>)
// CHECK:           return
// REMARK: gathered over data before the loop, not in each of 4 trips; 384 bytes are held
func.func public @stacked_layers(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %m:3 = stablehlo.while(%l = %c0, %v = %w, %h = %b) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %f, %g = stablehlo.optimization_barrier %e, %h : tensor<8x8xf32>, tensor<16x8xf32>
      %u = stablehlo.convert %f : (tensor<8x8xf32>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %g : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %u, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %x2 = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %x2 : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.add %m#2, %m#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// A loop over layers gathers each once already.
// CHECK-LABEL:   func.func public @a_slice_in_each_trip
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @a_slice_in_each_trip(%p: tensor<4x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<4x8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %d = stablehlo.dynamic_slice %w, %i, %c0, %c0, sizes = [1, 8, 4] : (tensor<4x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>
    %e = stablehlo.reshape %d : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
    %y = stablehlo.dot_general %b, %e, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<4x8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Worth it when: the loop makes more than one iteration
// CHECK-LABEL:   func.func public @one_trip
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop makes no more than one trip
func.func public @one_trip(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Legal when: the loop passes the parameter through
// CHECK-LABEL:   func.func public @changed
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop changes the parameter
func.func public @changed(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %u = stablehlo.add %w, %w : tensor<8x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %u, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Legal when: no constraint in the loop shards the parameter over the same axes otherwise, unless one behind it gathers it (XLA would all-gather it there)
// CHECK-LABEL:   func.func public @constrained_again
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: a constraint in the loop shards the parameter ({{.*}}) over the same axes otherwise (sdy.sharding_constraint
func.func public @constrained_again(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %e = sdy.sharding_constraint %w <@mesh, [{}, {"data"}]> : tensor<8x4xf32>
    %y = stablehlo.dot_general %b, %e, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// A constraint that gathers it is fed by what is gathered already.
// CHECK-LABEL:   func.func public @constrained_whole
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             sdy.sharding_constraint %[[G]] <@mesh, [{}, {}]>
func.func public @constrained_whole(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %e = sdy.sharding_constraint %w <@mesh, [{}, {}]> : tensor<8x4xf32>
    %y = stablehlo.dot_general %b, %e, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Worth it when: `policy` allows the memory
// KEPT-LABEL:    func.func public @not_allowed
// KEPT-NOT:        sdy.sharding_constraint
// KEPT:            return
func.func public @not_allowed(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}

// Worth it when: the loop is in no other loop (XLA would shard the gathered array there, and all-gather it again)
// CHECK-LABEL:   func.func public @in_another_loop
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop changes the parameter
// REMARK: [hoist-gathers] stablehlo.while missed: the loop is in another one, where XLA would shard the gathered array
func.func public @in_another_loop(%p: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %o:2 = stablehlo.while(%k = %c0, %v = %p) : tensor<i32>, tensor<8x4xf32>
  cond {
    %t = stablehlo.compare LT, %k, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %l = stablehlo.add %k, %c1 : tensor<i32>
    %r:3 = stablehlo.while(%i = %c0, %w = %v, %acc = %zero) : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
    cond {
      %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %j = stablehlo.add %i, %c1 : tensor<i32>
      %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
      %n = stablehlo.add %acc, %y : tensor<16x4xf32>
      stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x4xf32>, tensor<16x4xf32>
    }
    %u = stablehlo.reduce(%r#2 init: %none) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x4xf32>, tensor<f32>) -> tensor<f32>
    %g = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
    %n = stablehlo.subtract %v, %g : tensor<8x4xf32>
    stablehlo.return %l, %n : tensor<i32>, tensor<8x4xf32>
  }
  return %o#1 : tensor<8x4xf32>
}

// The examples are the same in each trip, and sharded by example; a gradient is sharded over the same axis by features.
// Worth it when: nothing reads its shards as they are, as contractions read examples, which are no parameters
// CHECK-LABEL:   func.func public @examples
// CHECK-NOT:       sdy.sharding_constraint %arg1
// CHECK:           return
func.func public @examples(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %b = %x) : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %s = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
    %n = stablehlo.subtract %w, %s : tensor<8x8xf32>
    stablehlo.return %j, %n, %b : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// Of a table, rows are looked up: of a sharded one XLA sends these.
// CHECK-LABEL:   func.func public @looked_up
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @looked_up(%p: tensor<64x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> tensor<16x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<64x4xf32>, tensor<16x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, sizes = [1, 16] : (tensor<4x16xi32>, tensor<i32>, tensor<i32>) -> tensor<1x16xi32>
    %b = stablehlo.reshape %s : (tensor<1x16xi32>) -> tensor<16x1xi32>
    %y = "stablehlo.gather"(%w, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<64x4xf32>, tensor<16x1xi32>) -> tensor<16x4xf32>
    %n = stablehlo.add %acc, %y : tensor<16x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<64x4xf32>, tensor<16x4xf32>
  }
  return %r#2 : tensor<16x4xf32>
}
