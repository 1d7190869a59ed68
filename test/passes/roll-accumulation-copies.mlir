// Copies that differ, and ops between them.

// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

// CHECK-LABEL:   func.func public @arguments_are_stacked
// CHECK:           %[[STACK:.*]] = stablehlo.concatenate %{{.*}} -> tensor<6x2xf32>
// CHECK:           } do {
// CHECK:             stablehlo.dynamic_slice %[[STACK]], %{{.*}}, %{{.*}}, sizes = [1, 2]
func.func public @arguments_are_stacked(%x0: tensor<2xf32>, %x1: tensor<2xf32>, %x2: tensor<2xf32>, %x3: tensor<2xf32>, %x4: tensor<2xf32>, %x5: tensor<2xf32>, %w: tensor<2xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %m0 = stablehlo.multiply %x0, %w : tensor<2xf32>
  %n0 = stablehlo.negate %m0 : tensor<2xf32>
  %q0 = stablehlo.multiply %n0, %w : tensor<2xf32>
  %h0 = stablehlo.abs %q0 : tensor<2xf32>
  %a0 = stablehlo.add %zero, %h0 : tensor<2xf32>
  %m1 = stablehlo.multiply %x1, %w : tensor<2xf32>
  %n1 = stablehlo.negate %m1 : tensor<2xf32>
  %q1 = stablehlo.multiply %n1, %w : tensor<2xf32>
  %h1 = stablehlo.abs %q1 : tensor<2xf32>
  %a1 = stablehlo.add %a0, %h1 : tensor<2xf32>
  %m2 = stablehlo.multiply %x2, %w : tensor<2xf32>
  %n2 = stablehlo.negate %m2 : tensor<2xf32>
  %q2 = stablehlo.multiply %n2, %w : tensor<2xf32>
  %h2 = stablehlo.abs %q2 : tensor<2xf32>
  %a2 = stablehlo.add %a1, %h2 : tensor<2xf32>
  %m3 = stablehlo.multiply %x3, %w : tensor<2xf32>
  %n3 = stablehlo.negate %m3 : tensor<2xf32>
  %q3 = stablehlo.multiply %n3, %w : tensor<2xf32>
  %h3 = stablehlo.abs %q3 : tensor<2xf32>
  %a3 = stablehlo.add %a2, %h3 : tensor<2xf32>
  %m4 = stablehlo.multiply %x4, %w : tensor<2xf32>
  %n4 = stablehlo.negate %m4 : tensor<2xf32>
  %q4 = stablehlo.multiply %n4, %w : tensor<2xf32>
  %h4 = stablehlo.abs %q4 : tensor<2xf32>
  %a4 = stablehlo.add %a3, %h4 : tensor<2xf32>
  %m5 = stablehlo.multiply %x5, %w : tensor<2xf32>
  %n5 = stablehlo.negate %m5 : tensor<2xf32>
  %q5 = stablehlo.multiply %n5, %w : tensor<2xf32>
  %h5 = stablehlo.abs %q5 : tensor<2xf32>
  %a5 = stablehlo.add %a4, %h5 : tensor<2xf32>
  return %a5 : tensor<2xf32>
}

// CHECK-LABEL:   func.func public @first_copy_differs
// CHECK:           stablehlo.abs
// CHECK:           %[[START:.*]] = stablehlo.add
// CHECK:           stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %[[START]])
// CHECK:             stablehlo.constant dense<4> : tensor<i32>
// CHECK:           } do {
// CHECK:             %[[AT:.*]] = stablehlo.add %[[I]], %
// CHECK:             stablehlo.dynamic_slice %{{.*}}, %[[AT]], %
// REMARK-DAG: [roll-accumulation] stablehlo.add applied: 4 copies of 6 ops became the body of a loop
func.func public @first_copy_differs(%x: tensor<5x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0 = stablehlo.abs %n0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %p0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p1 = stablehlo.negate %n1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %p1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %p2 = stablehlo.negate %n2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %p2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %p3 = stablehlo.negate %n3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %p3 : tensor<4xf32>
  %s4 = stablehlo.slice %x [4:5, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r4 = stablehlo.reshape %s4 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m4 = stablehlo.multiply %r4, %w : tensor<4xf32>
  %n4 = stablehlo.negate %m4 : tensor<4xf32>
  %p4 = stablehlo.negate %n4 : tensor<4xf32>
  %a4 = stablehlo.add %a3, %p4 : tensor<4xf32>
  return %a4 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_copy_differs
// CHECK:           %[[LOOP:.*]]:2 = stablehlo.while(
// CHECK:           %[[LAST:.*]] = stablehlo.abs
// CHECK-NEXT:      stablehlo.add %[[LOOP]]#1, %[[LAST]]
func.func public @last_copy_differs(%x: tensor<5x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0 = stablehlo.negate %n0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %p0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p1 = stablehlo.negate %n1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %p1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %p2 = stablehlo.negate %n2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %p2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %p3 = stablehlo.negate %n3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %p3 : tensor<4xf32>
  %s4 = stablehlo.slice %x [4:5, 0:4] : (tensor<5x4xf32>) -> tensor<1x4xf32>
  %r4 = stablehlo.reshape %s4 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m4 = stablehlo.multiply %r4, %w : tensor<4xf32>
  %n4 = stablehlo.negate %m4 : tensor<4xf32>
  %p4 = stablehlo.abs %n4 : tensor<4xf32>
  %a4 = stablehlo.add %a3, %p4 : tensor<4xf32>
  return %a4 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @barriers_between
// CHECK:           %[[LOOP:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:             %[[A:.*]] = stablehlo.add %[[ACC]],
// CHECK-NEXT:        %[[O:.*]] = stablehlo.optimization_barrier %[[A]]
// CHECK:             stablehlo.return %{{.*}}, %[[O]]
// CHECK:           return %[[LOOP]]#1
func.func public @barriers_between(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %o0 = stablehlo.optimization_barrier %a0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %a1 = stablehlo.add %o0, %n1 : tensor<4xf32>
  %o1 = stablehlo.optimization_barrier %a1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %a2 = stablehlo.add %o1, %n2 : tensor<4xf32>
  %o2 = stablehlo.optimization_barrier %a2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %a3 = stablehlo.add %o2, %n3 : tensor<4xf32>
  %o3 = stablehlo.optimization_barrier %a3 : tensor<4xf32>
  return %o3 : tensor<4xf32>
}

// Reductions of the copies are done in the loop, as often as before.
// CHECK-LABEL:   func.func public @reductions_in_copies
// CHECK:           } do {
// CHECK-COUNT-1:     stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
func.func public @reductions_in_copies(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %g0 = "stablehlo.all_reduce"(%n0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %a0 = stablehlo.add %zero, %g0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %g1 = "stablehlo.all_reduce"(%n1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = stablehlo.add %a0, %g1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %g2 = "stablehlo.all_reduce"(%n2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %a2 = stablehlo.add %a1, %g2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %g3 = "stablehlo.all_reduce"(%n3) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>} : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = stablehlo.add %a2, %g3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @regions_that_read_copies
// CHECK-SAME:      %[[W:[a-z0-9]+]]: tensor<4xf32>, %[[P:[a-z0-9]+]]: tensor<i1>)
// CHECK:           } do {
// CHECK:             %[[N:.*]] = stablehlo.negate
// CHECK-NEXT:        "stablehlo.if"(%[[P]]) ({
// CHECK-NEXT:          stablehlo.add %[[N]], %[[W]]
// CHECK:             }, {
// CHECK-NEXT:          stablehlo.return %[[N]]
func.func public @regions_that_read_copies(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %g0 = "stablehlo.if"(%p) ({ %y0 = stablehlo.add %n0, %w : tensor<4xf32> stablehlo.return %y0 : tensor<4xf32> }, { stablehlo.return %n0 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a0 = stablehlo.add %zero, %g0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %g1 = "stablehlo.if"(%p) ({ %y1 = stablehlo.add %n1, %w : tensor<4xf32> stablehlo.return %y1 : tensor<4xf32> }, { stablehlo.return %n1 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a1 = stablehlo.add %a0, %g1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %g2 = "stablehlo.if"(%p) ({ %y2 = stablehlo.add %n2, %w : tensor<4xf32> stablehlo.return %y2 : tensor<4xf32> }, { stablehlo.return %n2 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a2 = stablehlo.add %a1, %g2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %g3 = "stablehlo.if"(%p) ({ %y3 = stablehlo.add %n3, %w : tensor<4xf32> stablehlo.return %y3 : tensor<4xf32> }, { stablehlo.return %n3 : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  %a3 = stablehlo.add %a2, %g3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// What stands between the copies goes before the loop, or after it when it reads a copy.
// CHECK-LABEL:   func.func public @ops_in_between
// CHECK-SAME:      %[[W:[a-z0-9]+]]: tensor<4xf32>)
// CHECK:           %[[EARLY:.*]] = stablehlo.abs %[[W]]
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(
// CHECK:           %[[S:.*]] = stablehlo.slice %[[LOOP]]#2 [1:2, 0:4]
// CHECK-NEXT:      %[[V:.*]] = stablehlo.reshape %[[S]]
// CHECK-NEXT:      %[[LATE:.*]] = stablehlo.abs %[[V]]
// CHECK-NEXT:      return %[[LOOP]]#1, %[[LATE]], %[[EARLY]]
func.func public @ops_in_between(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %late = stablehlo.abs %n1 : tensor<4xf32>
  %early = stablehlo.abs %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  return %a3, %late, %early : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
