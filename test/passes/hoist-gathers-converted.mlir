// RUN: %par-opt %s --passes=hoist-gathers --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=hoist-gathers --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='hoist-gathers{gather-dtype=f32}' --split-input-file | FileCheck %s --check-prefix=F32

// Parameters that are converted in front of the loops over layers which read them.

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Both loops over layers, also the one that computes them again, behind a barrier, read what is converted and gathered once.
// CHECK-LABEL:   func.func public @before_the_layers
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{}, {"data"}, {}]>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %arg0,
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[G]],
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[G]],
// CHECK-NOT:         stablehlo.convert {{.*}}3x8x8xf32
// CHECK:           return
// REMARK: gathered over data before the loop, not in each of 4 trips; 384 bytes are held, and 2688 fewer are gathered
// F32-LABEL:     func.func public @before_the_layers
// F32:             %[[F:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}, {}]>
// F32:               stablehlo.convert %[[F]] : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
func.func public @before_the_layers(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
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
    %kk = stablehlo.convert %w : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
    %m:3 = stablehlo.while(%l = %c0, %v = %kk, %h = %b) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %h : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %e, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %kk, %h = %m#2) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %f, %g = stablehlo.optimization_barrier %e, %h : tensor<8x8xbf16>, tensor<16x8xf32>
      %a = stablehlo.convert %g : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %f, contracting_dims = [1] x [1] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// Rounded, and read in the wider type again: it is gathered in the narrower one.
// CHECK-LABEL:   func.func public @rounded
// CHECK:           %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"data"}, {}]> : tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[G]],
// CHECK:               stablehlo.convert %{{.*}} : (tensor<8x8xbf16>) -> tensor<8x8xf32>
// CHECK:           return
func.func public @rounded(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
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
    %kk = stablehlo.convert %w : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
    %m:3 = stablehlo.while(%l = %c0, %v = %kk, %h = %b) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %e2 = stablehlo.convert %e : (tensor<8x8xbf16>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e2, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %m#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// What is computed of each element of it is carried into the loop, too.
// CHECK-LABEL:   func.func public @computed_before_the_layers
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while
// CHECK:             stablehlo.add %[[G]], %[[G]]
// CHECK:           return
func.func public @computed_before_the_layers(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
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
    %w2 = stablehlo.add %w, %w : tensor<3x8x8xf32>
    %m:3 = stablehlo.while(%l = %c0, %v = %w2, %h = %b) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %m#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// A constraint that shards what is converted as it is sharded anyway, as jax writes for explicit meshes, is dropped.
// CHECK-LABEL:   func.func public @constrained_behind_the_convert
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{}, {"data"}, {}]>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[G]],
// CHECK:           return
func.func public @constrained_behind_the_convert(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
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
    %k0 = stablehlo.convert %w : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
    %kk = sdy.sharding_constraint %k0 <@mesh, [{}, {"data"}, {}]> : tensor<3x8x8xbf16>
    %m:3 = stablehlo.while(%l = %c0, %v = %kk, %h = %b) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %h : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %e, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %m#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// The loop itself reads another slice of what it converts in each trip: each is gathered once already.
// CHECK-LABEL:   func.func public @a_slice_of_the_converted
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @a_slice_of_the_converted(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<3x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %trips = stablehlo.constant dense<3> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<3x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %kk = stablehlo.convert %w : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
    %d = stablehlo.dynamic_slice %kk, %i, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
    %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
    %h = stablehlo.convert %b : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %y = stablehlo.dot_general %h, %e, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// What squares each element, for weight decay, reads shards; so all that gather it convert it.
// CHECK-LABEL:   func.func public @decayed
// CHECK:           %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"data"}, {}]> : tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[W:.*]] = %arg0,
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[G]],
// CHECK:             stablehlo.multiply %[[W]], %[[W]]
// CHECK:           return
func.func public @decayed(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
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
    %kk = stablehlo.convert %w : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
    %m:3 = stablehlo.while(%l = %c0, %v = %kk, %h = %b) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %h : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %e, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %sq = stablehlo.multiply %w, %w : tensor<3x8x8xf32>
    %f0 = stablehlo.constant dense<0.0> : tensor<f32>
    %all = stablehlo.reduce(%sq init: %f0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x8x8xf32>, tensor<f32>) -> tensor<f32>
    %every = stablehlo.broadcast_in_dim %all, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %y = stablehlo.add %m#2, %every : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// The same of what is converted: each reads its own.
// CHECK-LABEL:   func.func public @decayed_as_converted
// CHECK:           %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"data"}, {}]> : tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[W:.*]] = %arg0,
// CHECK:             %[[K:.*]] = stablehlo.convert %[[W]]
// CHECK:             stablehlo.while
// CHECK:               stablehlo.dynamic_slice %[[G]],
// CHECK:             stablehlo.multiply %[[K]], %[[K]]
// CHECK:           return
func.func public @decayed_as_converted(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
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
    %kk = stablehlo.convert %w : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
    %m:3 = stablehlo.while(%l = %c0, %v = %kk, %h = %b) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %h : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %e, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %s16 = stablehlo.multiply %kk, %kk : tensor<3x8x8xbf16>
    %sq = stablehlo.convert %s16 : (tensor<3x8x8xbf16>) -> tensor<3x8x8xf32>
    %f0 = stablehlo.constant dense<0.0> : tensor<f32>
    %all = stablehlo.reduce(%sq init: %f0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x8x8xf32>, tensor<f32>) -> tensor<f32>
    %every = stablehlo.broadcast_in_dim %all, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %y = stablehlo.add %m#2, %every : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}
