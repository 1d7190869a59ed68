// RUN: %par-opt %s --passes=merge-repeated-ops --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=merge-repeated-ops --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=8]>

// A model that is called twice: also what lies between its products is merged, constants included, and a constraint.
// CHECK-LABEL: func.func @twice
// CHECK:         %[[A:.*]] = stablehlo.dot_general %arg0, %arg1
// CHECK-NEXT:    %[[C:.*]] = sdy.sharding_constraint %[[A]]
// CHECK-NEXT:    %[[ONE:.*]] = stablehlo.constant
// CHECK-NEXT:    %[[ONES:.*]] = stablehlo.broadcast_in_dim %[[ONE]]
// CHECK-NEXT:    %[[H:.*]] = stablehlo.maximum %[[C]], %[[ONES]]
// CHECK-NEXT:    %[[Y:.*]] = stablehlo.dot_general %[[H]], %arg2
// CHECK-NEXT:    %[[R:.*]] = stablehlo.multiply %[[Y]], %[[Y]]
// CHECK-NEXT:    return %[[R]]
// REMARK:      [merge-repeated-ops] stablehlo.dot_general applied: an equivalent op precedes it
// REMARK-NEXT: [merge-repeated-ops] stablehlo.dot_general applied: an equivalent op precedes it
func.func @twice(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %v: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<16x4xf32> {
  %a = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %ca = sdy.sharding_constraint %a <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
  %h = stablehlo.maximum %ca, %ones : tensor<16x8xf32>
  %y = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %b = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %cb = sdy.sharding_constraint %b <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
  %one2 = stablehlo.constant dense<1.0> : tensor<f32>
  %ones2 = stablehlo.broadcast_in_dim %one2, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
  %g = stablehlo.maximum %cb, %ones2 : tensor<16x8xf32>
  %z = stablehlo.dot_general %g, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %r = stablehlo.multiply %y, %z : tensor<16x4xf32>
  return %r : tensor<16x4xf32>
}

// Legal when: both are the same op on the same values, in one block, with the same regions and attributes (hints aside)
// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: stablehlo.dot_general
// CHECK:         stablehlo.while
// CHECK:           stablehlo.dot_general
func.func @others(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %same = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {mhlo.frontend_attributes = {hint = "b"}} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %elsewhere = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {mhlo.frontend_attributes = {combiner_key = "b"}} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %l:2 = stablehlo.while(%i = %zero, %acc = %a) : tensor<i32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %e = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %e : tensor<8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n : tensor<i32>, tensor<8x8xf32>
  }
  %0 = stablehlo.add %same, %elsewhere : tensor<8x8xf32>
  %1 = stablehlo.add %0, %b : tensor<8x8xf32>
  %2 = stablehlo.add %c, %d : tensor<8x8xf32>
  %3 = stablehlo.add %1, %2 : tensor<8x8xf32>
  %4 = stablehlo.add %3, %l#1 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

// Legal when: the op has no side effects, and is no barrier (`jax.checkpoint` recomputes behind barriers)
// CHECK-LABEL: func.func @again
// CHECK:         stablehlo.dot_general %arg0, %arg1
// CHECK:         stablehlo.optimization_barrier
// CHECK:         stablehlo.dot_general
// CHECK:         stablehlo.optimization_barrier
// CHECK:         stablehlo.dot_general
func.func @again(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8xf32>) -> tensor<16x8xf32> {
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %same = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %x1 = stablehlo.optimization_barrier %x : tensor<16x4xf32>
  %b = stablehlo.dot_general %x1, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %x2 = stablehlo.optimization_barrier %x : tensor<16x4xf32>
  %c = stablehlo.dot_general %x2, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %1 = stablehlo.add %a, %same : tensor<16x8xf32>
  %2 = stablehlo.add %1, %b : tensor<16x8xf32>
  %3 = stablehlo.add %2, %c : tensor<16x8xf32>
  return %3 : tensor<16x8xf32>
}

// Legal when: no constraint says of it, or of an equivalent op, that it is unreduced (XLA aborts where these share zeros)
// CHECK-LABEL: func.func @not_reduced
// CHECK:         %[[A:.*]] = stablehlo.dot_general
// CHECK-NEXT:    %[[U:.*]] = sdy.sharding_constraint %[[A]]
// CHECK:         %[[B:.*]] = stablehlo.dot_general
// CHECK-NEXT:    %[[V:.*]] = sdy.sharding_constraint %[[B]]
// CHECK-COUNT-2: stablehlo.constant
// REMARK: [merge-repeated-ops] stablehlo.dot_general missed: a constraint says that it is unreduced
func.func @not_reduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %a <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %b = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %v = sdy.sharding_constraint %b <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %z = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %zero2 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %z2 = sdy.sharding_constraint %zero2 <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %s = stablehlo.add %u, %z : tensor<4x4xf32>
  %s1 = sdy.sharding_constraint %s <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %s2 = sdy.sharding_constraint %s1 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %t = stablehlo.add %v, %z2 : tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %t <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %t1 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %s2, %t2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Legal when: nothing pads it along a sharded dimension (XLA:CPU does that once, for windows and pads with other values, too)
// CHECK-LABEL: func.func @windows
// CHECK:         %[[A:.*]] = stablehlo.dot_general %arg0, %arg1
// CHECK:         "stablehlo.reduce_window"(%[[A]],
// CHECK:         %[[B:.*]] = stablehlo.dot_general %arg0, %arg1
// CHECK:         "stablehlo.reduce_window"(%[[B]],
// REMARK: [merge-repeated-ops] stablehlo.dot_general missed: it is padded along a sharded dimension, which XLA does once
func.func @windows(%x: tensor<4x4xf32>, %w: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %sums = "stablehlo.reduce_window"(%a, %zero) ({
  ^bb0(%i: tensor<f32>, %j: tensor<f32>):
    %k = stablehlo.add %i, %j : tensor<f32>
    stablehlo.return %k : tensor<f32>
  }) {window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %largest = "stablehlo.reduce_window"(%b, %least) ({
  ^bb0(%i: tensor<f32>, %j: tensor<f32>):
    %k = stablehlo.maximum %i, %j : tensor<f32>
    stablehlo.return %k : tensor<f32>
  }) {window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
  return %sums, %largest : tensor<4x16xf32>, tensor<4x16xf32>
}

// The first product counts, too, and so do pads.
// CHECK-LABEL: func.func @pads
// CHECK-COUNT-2: stablehlo.dot_general
func.func @pads(%x: tensor<4x4xf32>, %w: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<4x18xf32>, tensor<4x16xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %p = stablehlo.pad %a, %one, low = [0, 1], high = [0, 1], interior = [0, 0] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x18xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %n = stablehlo.negate %b : tensor<4x16xf32>
  return %p, %n : tensor<4x18xf32>, tensor<4x16xf32>
}

// Worth it when: Shardy shards both alike (XLA does not merge others)
// CHECK-LABEL: func.func @split_otherwise
// CHECK-COUNT-4: stablehlo.dot_general
// REMARK: [merge-repeated-ops] stablehlo.dot_general missed: it is sharded differently than the first
// REMARK: [merge-repeated-ops] stablehlo.dot_general missed: its operands are sharded differently than those of the first
func.func @split_otherwise(%x: tensor<16x8xf32>, %w: tensor<8x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %ca = sdy.sharding_constraint %a <@mesh, [{"data"}, {}]> : tensor<16x8xf32>
  %ya = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %r = stablehlo.add %ca, %ya : tensor<16x8xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %cb = sdy.sharding_constraint %b <@mesh, [{}, {"data"}]> : tensor<16x8xf32>
  %yb = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = stablehlo.add %cb, %yb : tensor<16x8xf32>
  return %r, %s : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

// Worth it when: the program has a mesh of Shardy's, and computes a contraction twice
// CHECK-LABEL: func.func @no_mesh
// CHECK-COUNT-2: stablehlo.dot_general
func.func @no_mesh(%x: tensor<16x4xf32>, %w: tensor<4x8xf32>) -> tensor<16x8xf32> {
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
  %r = stablehlo.add %a, %b : tensor<16x8xf32>
  return %r : tensor<16x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Ops on elements alone are left to XLA.
// CHECK-LABEL: func.func @no_products
// CHECK-COUNT-2: stablehlo.sine
func.func @no_products(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %a = stablehlo.sine %x : tensor<16x4xf32>
  %b = stablehlo.sine %x : tensor<16x4xf32>
  %r = stablehlo.add %a, %b : tensor<16x4xf32>
  return %r : tensor<16x4xf32>
}
