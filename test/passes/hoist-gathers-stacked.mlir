// RUN: %par-opt %s --passes=hoist-gathers | FileCheck %s
// RUN: %par-opt %s --passes=hoist-gathers --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// What a loop over layers keeps of each layer's parameters for the backward pass, in a stack.

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Each row is transposed anew, of what is gathered; in the backward loop, the last one first.
// CHECK-LABEL:   func.func public @transposed
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while
// CHECK:               stablehlo.dynamic_slice %[[G]], %{{.*}}
// CHECK:             stablehlo.while
// CHECK:               %[[I:.*]] = stablehlo.subtract
// CHECK:               %[[D:.*]] = stablehlo.dynamic_slice %[[G]], %[[I]], %{{.*}}, sizes = [1, 8, 8]
// CHECK-NEXT:          %[[E:.*]] = stablehlo.reshape %[[D]]
// CHECK-NEXT:          %[[T:.*]] = stablehlo.transpose %[[E]], dims = [1, 0]
// CHECK-NEXT:          %[[R:.*]] = stablehlo.broadcast_in_dim %[[T]], dims = [1, 2]
// CHECK-NEXT:          stablehlo.reshape %[[R]]
// CHECK:           return
// REMARK: gathered over data before the loop, not in each of 4 trips; 768 bytes are held, and 5376 fewer are gathered
func.func public @transposed(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.transpose %e, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %l, %c0, %c0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// All readers convert it, those of the stack as well.
// CHECK-LABEL:   func.func public @converted_in_the_layer
// CHECK:           %[[K:.*]] = stablehlo.convert %arg0 : (tensor<3x8x8xf32>) -> tensor<3x8x8xbf16>
// CHECK-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{}, {"data"}, {}]>
// CHECK-NEXT:      %[[G:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}]>
// CHECK:             stablehlo.while
// CHECK:               stablehlo.dynamic_slice %[[G]], %{{.*}} -> tensor<1x8x8xbf16>
// CHECK:             stablehlo.while
// CHECK:               stablehlo.dynamic_slice %[[G]], %{{.*}} -> tensor<1x8x8xbf16>
// CHECK:           return
// REMARK: gathered over data before the loop, not in each of 4 trips; 384 bytes are held, and 2688 fewer are gathered
func.func public @converted_in_the_layer(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xbf16>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xbf16>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.convert %e : (tensor<8x8xf32>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %h : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %t, contracting_dims = [1] x [1] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xbf16>) -> tensor<1x8x8xbf16>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %l, %c0, %c0 : (tensor<3x8x8xbf16>, tensor<1x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xbf16>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xbf16>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xbf16>
      %e = stablehlo.reshape %d : (tensor<1x8x8xbf16>) -> tensor<8x8xbf16>
      %a = stablehlo.convert %h : (tensor<16x8xf32>) -> tensor<16x8xbf16>
      %o = stablehlo.dot_general %a, %e, contracting_dims = [1] x [1] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xbf16>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// A row of the stack has another rank than a row of the parameter.
// CHECK-LABEL:   func.func public @another_rank
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while
// CHECK:             stablehlo.while
// CHECK:               stablehlo.dynamic_slice %[[G]], %{{.*}}, sizes = [1, 8, 8]
// CHECK:           return
func.func public @another_rank(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x64xf32>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x64xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.reshape %e : (tensor<8x8xf32>) -> tensor<64xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.reshape %t : (tensor<64xf32>) -> tensor<1x64xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %l, %c0 : (tensor<3x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<3x64xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x64xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x64xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, sizes = [1, 64] : (tensor<3x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
      %e = stablehlo.reshape %d : (tensor<1x64xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x64xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// The forward loop goes from the last row to the first, as `scan(reverse=True)`.
// CHECK-LABEL:   func.func public @the_last_row_first
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {}]>
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while
// CHECK:             stablehlo.while
// CHECK:               stablehlo.dynamic_slice %[[G]], %{{.*}}, sizes = [1, 8, 8]
// CHECK:           return
func.func public @the_last_row_first(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.transpose %e, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %u, %c0, %c0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// Row i is made of row 2 - i of the parameter: other rows than those that a slice of it would have.
// CHECK-LABEL:   func.func public @other_rows
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: a reader in the loop keeps the parameter ({{.*}}) sharded (stablehlo.dynamic_update_slice
func.func public @other_rows(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.transpose %e, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %l, %c0, %c0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// Legal when: each row of a stack that a loop writes is made of that row of the parameter, and only rows of it are read
// The first row stays as it was before.
// CHECK-LABEL:   func.func public @not_all_rows
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: a reader in the loop keeps the parameter ({{.*}}) sharded (stablehlo.dynamic_update_slice
func.func public @not_all_rows(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
    %m:4 = stablehlo.while(%l = %c1, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.transpose %e, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %l, %c0, %c0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// A later trip reads what an earlier one wrote.
// CHECK-LABEL:   func.func public @read_in_the_loop
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: a reader in the loop keeps the parameter ({{.*}}) sharded
func.func public @read_in_the_loop(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.transpose %e, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %old = stablehlo.dynamic_slice %keep, %c0, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %sum = stablehlo.add %row, %old : tensor<1x8x8xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %sum, %l, %c0, %c0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    }
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %y = stablehlo.negate %y2#2 : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}

// The stack is read as one array, too.
// CHECK-LABEL:   func.func public @read_whole
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: a reader in the loop keeps the parameter ({{.*}}) sharded (stablehlo.dynamic_update_slice
func.func public @read_whole(%p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
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
    %st = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
    %m:4 = stablehlo.while(%l = %c0, %v = %w, %h = %b, %keep = %st) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %l, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %t = stablehlo.transpose %e, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      %row = stablehlo.broadcast_in_dim %t, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %kept = stablehlo.dynamic_update_slice %keep, %row, %l, %c0, %c0 : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      stablehlo.return %k, %v, %z, %kept : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>, tensor<3x8x8xf32>
    }
    %f0 = stablehlo.constant dense<0.0> : tensor<f32>
    %y2:3 = stablehlo.while(%l = %c0, %v = %m#3, %h = %m#2) : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %two = stablehlo.constant dense<2> : tensor<i32>
      %u = stablehlo.subtract %two, %l : tensor<i32>
      %d = stablehlo.dynamic_slice %v, %u, %c0, %c0, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %e = stablehlo.reshape %d : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %o = stablehlo.dot_general %h, %e, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %z = sdy.sharding_constraint %o <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
      stablehlo.return %k, %v, %z : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
    }
    %all = stablehlo.reduce(%m#3 init: %f0) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<3x8x8xf32>, tensor<f32>) -> tensor<f32>
    %every = stablehlo.broadcast_in_dim %all, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %y = stablehlo.add %y2#2, %every : tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<3x8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}
