// Side effects, shapes, and the order of ops and additions.

// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64 order=any}' | FileCheck %s --check-prefix=ANY

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

// Legal when: their ops have no side effects
// NUMERIC: skip (XLA has no such custom_call)
// CHECK-LABEL: func.func public @side_effect
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: stablehlo.custom_call may have side effects (stablehlo.custom_call at 
func.func public @side_effect(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.custom_call @count(%n0) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.custom_call @count(%n1) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.custom_call @count(%n2) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.custom_call @count(%n3) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: their ops have no side effects
// NUMERIC: skip (XLA has no such custom_call)
// CHECK-LABEL: func.func public @side_effect_in_a_region
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: stablehlo.custom_call may have side effects (stablehlo.custom_call at 
func.func public @side_effect_in_a_region(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = "stablehlo.if"(%p) ({ %y0 = stablehlo.custom_call @count(%n0) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32> stablehlo.return %y0 : tensor<4xf32> }, { stablehlo.return %n0 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = "stablehlo.if"(%p) ({ %y1 = stablehlo.custom_call @count(%n1) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32> stablehlo.return %y1 : tensor<4xf32> }, { stablehlo.return %n1 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = "stablehlo.if"(%p) ({ %y2 = stablehlo.custom_call @count(%n2) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32> stablehlo.return %y2 : tensor<4xf32> }, { stablehlo.return %n2 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = "stablehlo.if"(%p) ({ %y3 = stablehlo.custom_call @count(%n3) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32> stablehlo.return %y3 : tensor<4xf32> }, { stablehlo.return %n3 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: shapes are static
// NUMERIC: skip (XLA needs static shapes)
// CHECK-LABEL: func.func public @dynamic_shape
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a shape is dynamic (stablehlo.negate at 
func.func public @dynamic_shape(%x0: tensor<?xf32>, %x1: tensor<?xf32>, %x2: tensor<?xf32>, %x3: tensor<?xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %m0 = stablehlo.negate %x0 : tensor<?xf32>
  %g0 = stablehlo.reduce(%m0 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  %d0 = stablehlo.broadcast_in_dim %g0, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q0 = stablehlo.multiply %d0, %w : tensor<4xf32>
  %e0 = stablehlo.abs %q0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %e0 : tensor<4xf32>
  %m1 = stablehlo.negate %x1 : tensor<?xf32>
  %g1 = stablehlo.reduce(%m1 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  %d1 = stablehlo.broadcast_in_dim %g1, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q1 = stablehlo.multiply %d1, %w : tensor<4xf32>
  %e1 = stablehlo.abs %q1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %e1 : tensor<4xf32>
  %m2 = stablehlo.negate %x2 : tensor<?xf32>
  %g2 = stablehlo.reduce(%m2 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  %d2 = stablehlo.broadcast_in_dim %g2, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q2 = stablehlo.multiply %d2, %w : tensor<4xf32>
  %e2 = stablehlo.abs %q2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %e2 : tensor<4xf32>
  %m3 = stablehlo.negate %x3 : tensor<?xf32>
  %g3 = stablehlo.reduce(%m3 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  %d3 = stablehlo.broadcast_in_dim %g3, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q3 = stablehlo.multiply %d3, %w : tensor<4xf32>
  %e3 = stablehlo.abs %q3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %e3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: no copy reads a value that is computed outside from another copy
// CHECK-LABEL: func.func public @reads_what_follows_a_copy
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a copy reads a value that depends on another copy (stablehlo.abs at 
func.func public @reads_what_follows_a_copy(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %z = stablehlo.abs %n1 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %z : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %z : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %z : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %z : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: no copy reads a value that is computed outside from another copy
// CHECK-LABEL: func.func public @reads_a_copy
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a copy reads a value that depends on another copy (stablehlo.negate at 
func.func public @reads_a_copy(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %n1 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %n1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %n1 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %n1 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: an op that the last copy lacks is no collective (the loop runs it once more)
// CHECK-LABEL: func.func public @last_copy_lacks_a_reduction
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: the last copy lacks a collective of the others (stablehlo.all_reduce at 
func.func public @last_copy_lacks_a_reduction(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %key: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %h0 = stablehlo.negate %key : tensor<4xf32>
  %k0 = "stablehlo.all_reduce"(%h0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %key : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0_0 = stablehlo.multiply %n0, %w : tensor<4xf32>
  %p1_0 = stablehlo.multiply %p0_0, %w : tensor<4xf32>
  %p2_0 = stablehlo.multiply %p1_0, %w : tensor<4xf32>
  %p3_0 = stablehlo.multiply %p2_0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %p3_0 : tensor<4xf32>
  %h1 = stablehlo.negate %k0 : tensor<4xf32>
  %k1 = "stablehlo.all_reduce"(%h1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %k0 : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p0_1 = stablehlo.multiply %n1, %w : tensor<4xf32>
  %p1_1 = stablehlo.multiply %p0_1, %w : tensor<4xf32>
  %p2_1 = stablehlo.multiply %p1_1, %w : tensor<4xf32>
  %p3_1 = stablehlo.multiply %p2_1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %p3_1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %k1 : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %p0_2 = stablehlo.multiply %n2, %w : tensor<4xf32>
  %p1_2 = stablehlo.multiply %p0_2, %w : tensor<4xf32>
  %p2_2 = stablehlo.multiply %p1_2, %w : tensor<4xf32>
  %p3_2 = stablehlo.multiply %p2_2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %p3_2 : tensor<4xf32>
  return %a2 : tensor<4xf32>
}

// Legal when: the terms are added in the order of a loop, by a reduce (whose order is open), or `order=any`
// CHECK-LABEL: func.func public @added_in_pairs
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: the terms are added in pairs (order=any allows it)
// ANY-LABEL:   func.func public @added_in_pairs
// ANY:           %[[LOOP:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// ANY:             stablehlo.add %[[ACC]],
// ANY:           return %[[LOOP]]#1
func.func public @added_in_pairs(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %a0 = stablehlo.add %n0, %n1 : tensor<4xf32>
  %a1 = stablehlo.add %n2, %n3 : tensor<4xf32>
  %a2 = stablehlo.add %a0, %a1 : tensor<4xf32>
  return %a2 : tensor<4xf32>
}

// Legal when: the terms are added in the order of a loop, by a reduce (whose order is open), or `order=any`
// A sum that is rolled takes no other one along, which is added in pairs.
// CHECK-LABEL:   func.func public @added_in_pairs_beside_a_sum
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}}, %[[ACC:.*]] = %{{.*}}, %[[ROWS:.*]] = %{{.*}})
// CHECK:             stablehlo.add %[[ACC]],
// CHECK:             stablehlo.dynamic_update_slice %[[ROWS]],
// CHECK:           stablehlo.slice %[[LOOP]]#2 [0:1, 0:4]
// CHECK:           %[[A:.*]] = stablehlo.add
// CHECK-NEXT:      %[[B:.*]] = stablehlo.add
// CHECK-NEXT:      %[[SUM:.*]] = stablehlo.add %[[A]], %[[B]]
// CHECK-NEXT:      return %[[LOOP]]#1, %[[SUM]]
// ANY-LABEL:     func.func public @added_in_pairs_beside_a_sum
// ANY:             %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}}, %[[ACC:.*]] = %{{.*}}, %[[PAIRS:.*]] = %{{.*}})
// ANY:               stablehlo.add %[[ACC]],
// ANY:               stablehlo.add %[[PAIRS]],
// ANY:             return %[[LOOP]]#1, %[[LOOP]]#2
func.func public @added_in_pairs_beside_a_sum(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %p0 = stablehlo.multiply %m0, %w : tensor<4xf32>
  %q0 = stablehlo.multiply %p0, %w : tensor<4xf32>
  %u0 = stablehlo.multiply %q0, %w : tensor<4xf32>
  %v0 = stablehlo.multiply %u0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %v0 : tensor<4xf32>
  %c0 = stablehlo.add %start, %v0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %p1 = stablehlo.multiply %m1, %w : tensor<4xf32>
  %q1 = stablehlo.multiply %p1, %w : tensor<4xf32>
  %u1 = stablehlo.multiply %q1, %w : tensor<4xf32>
  %v1 = stablehlo.multiply %u1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %v1 : tensor<4xf32>
  %c1 = stablehlo.add %c0, %v1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %p2 = stablehlo.multiply %m2, %w : tensor<4xf32>
  %q2 = stablehlo.multiply %p2, %w : tensor<4xf32>
  %u2 = stablehlo.multiply %q2, %w : tensor<4xf32>
  %v2 = stablehlo.multiply %u2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %v2 : tensor<4xf32>
  %c2 = stablehlo.add %c1, %v2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %p3 = stablehlo.multiply %m3, %w : tensor<4xf32>
  %q3 = stablehlo.multiply %p3, %w : tensor<4xf32>
  %u3 = stablehlo.multiply %q3, %w : tensor<4xf32>
  %v3 = stablehlo.multiply %u3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %v3 : tensor<4xf32>
  %c3 = stablehlo.add %c2, %v3 : tensor<4xf32>
  %a0 = stablehlo.add %n0, %n1 : tensor<4xf32>
  %a1 = stablehlo.add %n2, %n3 : tensor<4xf32>
  %a2 = stablehlo.add %a0, %a1 : tensor<4xf32>
  return %c3, %a2 : tensor<4xf32>, tensor<4xf32>
}

// What is added in pairs is rolled as a whole or not at all: three of these four terms would fit in max-stack-bytes.
// CHECK-LABEL: func.func public @part_of_what_is_added_in_pairs
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// ANY-LABEL:   func.func public @part_of_what_is_added_in_pairs
// ANY-NOT:       stablehlo.while
// ANY:           return
func.func public @part_of_what_is_added_in_pairs(%x0: tensor<5xf32>, %x1: tensor<5xf32>, %x2: tensor<5xf32>, %x3: tensor<5xf32>, %w: tensor<5xf32>) -> tensor<5xf32> {
  %a0 = stablehlo.multiply %x0, %w : tensor<5xf32>
  %b0 = stablehlo.multiply %a0, %w : tensor<5xf32>
  %c0 = stablehlo.multiply %b0, %w : tensor<5xf32>
  %d0 = stablehlo.multiply %c0, %w : tensor<5xf32>
  %e0 = stablehlo.multiply %d0, %w : tensor<5xf32>
  %f0 = stablehlo.multiply %e0, %w : tensor<5xf32>
  %g0 = stablehlo.multiply %f0, %w : tensor<5xf32>
  %h0 = stablehlo.multiply %g0, %w : tensor<5xf32>
  %i0 = stablehlo.multiply %h0, %w : tensor<5xf32>
  %j0 = stablehlo.multiply %i0, %w : tensor<5xf32>
  %k0 = stablehlo.multiply %j0, %w : tensor<5xf32>
  %l0 = stablehlo.multiply %k0, %w : tensor<5xf32>
  %m0 = stablehlo.multiply %l0, %w : tensor<5xf32>
  %n0 = stablehlo.multiply %m0, %w : tensor<5xf32>
  %a1 = stablehlo.multiply %x1, %w : tensor<5xf32>
  %b1 = stablehlo.multiply %a1, %w : tensor<5xf32>
  %c1 = stablehlo.multiply %b1, %w : tensor<5xf32>
  %d1 = stablehlo.multiply %c1, %w : tensor<5xf32>
  %e1 = stablehlo.multiply %d1, %w : tensor<5xf32>
  %f1 = stablehlo.multiply %e1, %w : tensor<5xf32>
  %g1 = stablehlo.multiply %f1, %w : tensor<5xf32>
  %h1 = stablehlo.multiply %g1, %w : tensor<5xf32>
  %i1 = stablehlo.multiply %h1, %w : tensor<5xf32>
  %j1 = stablehlo.multiply %i1, %w : tensor<5xf32>
  %k1 = stablehlo.multiply %j1, %w : tensor<5xf32>
  %l1 = stablehlo.multiply %k1, %w : tensor<5xf32>
  %m1 = stablehlo.multiply %l1, %w : tensor<5xf32>
  %n1 = stablehlo.multiply %m1, %w : tensor<5xf32>
  %a2 = stablehlo.multiply %x2, %w : tensor<5xf32>
  %b2 = stablehlo.multiply %a2, %w : tensor<5xf32>
  %c2 = stablehlo.multiply %b2, %w : tensor<5xf32>
  %d2 = stablehlo.multiply %c2, %w : tensor<5xf32>
  %e2 = stablehlo.multiply %d2, %w : tensor<5xf32>
  %f2 = stablehlo.multiply %e2, %w : tensor<5xf32>
  %g2 = stablehlo.multiply %f2, %w : tensor<5xf32>
  %h2 = stablehlo.multiply %g2, %w : tensor<5xf32>
  %i2 = stablehlo.multiply %h2, %w : tensor<5xf32>
  %j2 = stablehlo.multiply %i2, %w : tensor<5xf32>
  %k2 = stablehlo.multiply %j2, %w : tensor<5xf32>
  %l2 = stablehlo.multiply %k2, %w : tensor<5xf32>
  %m2 = stablehlo.multiply %l2, %w : tensor<5xf32>
  %n2 = stablehlo.multiply %m2, %w : tensor<5xf32>
  %a3 = stablehlo.multiply %x3, %w : tensor<5xf32>
  %b3 = stablehlo.multiply %a3, %w : tensor<5xf32>
  %c3 = stablehlo.multiply %b3, %w : tensor<5xf32>
  %d3 = stablehlo.multiply %c3, %w : tensor<5xf32>
  %e3 = stablehlo.multiply %d3, %w : tensor<5xf32>
  %f3 = stablehlo.multiply %e3, %w : tensor<5xf32>
  %g3 = stablehlo.multiply %f3, %w : tensor<5xf32>
  %h3 = stablehlo.multiply %g3, %w : tensor<5xf32>
  %i3 = stablehlo.multiply %h3, %w : tensor<5xf32>
  %j3 = stablehlo.multiply %i3, %w : tensor<5xf32>
  %k3 = stablehlo.multiply %j3, %w : tensor<5xf32>
  %l3 = stablehlo.multiply %k3, %w : tensor<5xf32>
  %m3 = stablehlo.multiply %l3, %w : tensor<5xf32>
  %n3 = stablehlo.multiply %m3, %w : tensor<5xf32>
  %t0 = stablehlo.add %n0, %n1 : tensor<5xf32>
  %t1 = stablehlo.add %n2, %n3 : tensor<5xf32>
  %t2 = stablehlo.add %t0, %t1 : tensor<5xf32>
  return %t2 : tensor<5xf32>
}

// Legal when: a sum that begins with its first term has an identity element
// CHECK-LABEL: func.func public @complex_from_the_first_term
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: no identity element is known for a stablehlo.add of complex<f32> (stablehlo.add at 
func.func public @complex_from_the_first_term(%x: tensor<3x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0_0 = stablehlo.multiply %n0, %w : tensor<4xf32>
  %p1_0 = stablehlo.multiply %p0_0, %w : tensor<4xf32>
  %p2_0 = stablehlo.multiply %p1_0, %w : tensor<4xf32>
  %p3_0 = stablehlo.multiply %p2_0, %w : tensor<4xf32>
  %c0 = stablehlo.complex %n0, %p3_0 : tensor<4xcomplex<f32>>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p0_1 = stablehlo.multiply %n1, %w : tensor<4xf32>
  %p1_1 = stablehlo.multiply %p0_1, %w : tensor<4xf32>
  %p2_1 = stablehlo.multiply %p1_1, %w : tensor<4xf32>
  %p3_1 = stablehlo.multiply %p2_1, %w : tensor<4xf32>
  %c1 = stablehlo.complex %n1, %p3_1 : tensor<4xcomplex<f32>>
  %a1 = stablehlo.add %c0, %c1 : tensor<4xcomplex<f32>>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %p0_2 = stablehlo.multiply %n2, %w : tensor<4xf32>
  %p1_2 = stablehlo.multiply %p0_2, %w : tensor<4xf32>
  %p2_2 = stablehlo.multiply %p1_2, %w : tensor<4xf32>
  %p3_2 = stablehlo.multiply %p2_2, %w : tensor<4xf32>
  %c2 = stablehlo.complex %n2, %p3_2 : tensor<4xcomplex<f32>>
  %a2 = stablehlo.add %a1, %c2 : tensor<4xcomplex<f32>>
  %b = stablehlo.imag %a2 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
