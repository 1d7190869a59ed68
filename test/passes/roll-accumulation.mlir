// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

// A slice that begins one later in each copy begins at the counter; values that all copies share stay outside.
// CHECK-LABEL:   func.func public @four_batches
// CHECK-SAME:      (%[[X:[a-z0-9]+]]: tensor<4x4xf32>, %[[W:[a-z0-9]+]]: tensor<4xf32>)
// CHECK:           %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:      %[[FIRST:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:      %[[LOOP:.*]]:2 = stablehlo.while(%[[I:.*]] = %[[FIRST]], %[[ACC:.*]] = %[[ZERO]])
// CHECK:             %[[COUNT:.*]] = stablehlo.constant dense<4> : tensor<i32>
// CHECK-NEXT:        stablehlo.compare LT, %[[I]], %[[COUNT]], SIGNED
// CHECK:           } do {
// CHECK-NEXT:        %[[C:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:        %[[S:.*]] = stablehlo.dynamic_slice %[[X]], %[[I]], %[[C]], sizes = [1, 4]
// CHECK-NEXT:        %[[R:.*]] = stablehlo.reshape %[[S]]
// CHECK-NEXT:        %[[M:.*]] = stablehlo.multiply %[[R]], %[[W]]
// CHECK-NEXT:        %[[N:.*]] = stablehlo.negate %[[M]]
// CHECK-NEXT:        %[[A:.*]] = stablehlo.add %[[ACC]], %[[N]]
// CHECK-NEXT:        %[[ONE:.*]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT:        %[[NEXT:.*]] = stablehlo.add %[[I]], %[[ONE]]
// CHECK-NEXT:        stablehlo.return %[[NEXT]], %[[A]]
// CHECK:           return %[[LOOP]]#1
// REMARK-DAG: [roll-accumulation] stablehlo.add applied: 4 copies of 5 ops became the body of a loop
func.func public @four_batches(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
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
  return %a3 : tensor<4xf32>
}

// The sum begins with its first term: -0.0 changes no term, 0.0 would change -0.0.
// CHECK-LABEL:   func.func public @from_the_first_term
// CHECK:           %[[NOTHING:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<4xf32>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %[[NOTHING]])
// CHECK:             %[[N:.*]] = stablehlo.negate
// CHECK:             stablehlo.add %[[ACC]], %[[N]]
func.func public @from_the_first_term(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %a1 = stablehlo.add %n0, %n1 : tensor<4xf32>
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
  return %a3 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @sums_and_a_maximum
// CHECK:           %[[LOOP:.*]]:4 = stablehlo.while(%{{.*}} = %{{.*}}, %[[B:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}, %[[A:.*]] = %{{.*}})
// CHECK:             %[[BN:.*]] = stablehlo.add %[[B]],
// CHECK:             %[[CN:.*]] = stablehlo.maximum %[[C]],
// CHECK:             %[[AN:.*]] = stablehlo.add %[[A]],
// CHECK:             stablehlo.return %{{.*}}, %[[BN]], %[[CN]], %[[AN]]
// CHECK:           return %[[LOOP]]#3, %[[LOOP]]#1, %[[LOOP]]#2
func.func public @sums_and_a_maximum(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %n0 : tensor<4xf32>
  %b0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %h0 = stablehlo.abs %n0 : tensor<4xf32>
  %c0 = stablehlo.maximum %zero, %h0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %n1 : tensor<4xf32>
  %b1 = stablehlo.add %b0, %q1 : tensor<4xf32>
  %h1 = stablehlo.abs %n1 : tensor<4xf32>
  %c1 = stablehlo.maximum %c0, %h1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %n2 : tensor<4xf32>
  %b2 = stablehlo.add %b1, %q2 : tensor<4xf32>
  %h2 = stablehlo.abs %n2 : tensor<4xf32>
  %c2 = stablehlo.maximum %c1, %h2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %n3 : tensor<4xf32>
  %b3 = stablehlo.add %b2, %q3 : tensor<4xf32>
  %h3 = stablehlo.abs %n3 : tensor<4xf32>
  %c3 = stablehlo.maximum %c2, %h3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  return %a3, %b3, %c3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @maximum_from_the_first_term
// CHECK:           %[[LEAST:.*]] = stablehlo.constant dense<0xFF800000> : tensor<4xf32>
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}, %[[C:.*]] = %[[LEAST]])
// CHECK:             %[[N:.*]] = stablehlo.maximum %[[C]],
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[N]]
// CHECK:           return %[[LOOP]]#1, %[[LOOP]]#2
func.func public @maximum_from_the_first_term(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %h0 = stablehlo.abs %n0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %h1 = stablehlo.abs %n1 : tensor<4xf32>
  %c1 = stablehlo.maximum %h0, %h1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %h2 = stablehlo.abs %n2 : tensor<4xf32>
  %c2 = stablehlo.maximum %c1, %h2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %h3 = stablehlo.abs %n3 : tensor<4xf32>
  %c3 = stablehlo.maximum %c2, %h3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  return %a3, %c3 : tensor<4xf32>, tensor<4xf32>
}

// What a copy hands to the next is carried: keys of random numbers, running statistics.
// CHECK-LABEL:   func.func public @state_handed_on
// CHECK-SAME:      %[[KEY:[a-z0-9]+]]: tensor<4xf32>) ->
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[K:.*]] = %[[KEY]], %[[A:.*]] = %{{.*}})
// CHECK:             %[[H:.*]] = stablehlo.negate %[[K]]
// CHECK:             %[[NEXT:.*]] = stablehlo.add %[[H]], %{{.*}}
// CHECK:             stablehlo.multiply %{{.*}}, %[[K]]
// CHECK:             stablehlo.return %{{.*}}, %[[NEXT]], %
// CHECK:           return %[[LOOP]]#2, %[[LOOP]]#1
func.func public @state_handed_on(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %key: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %h0 = stablehlo.negate %key : tensor<4xf32>
  %k0 = stablehlo.add %h0, %w : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %key : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %h1 = stablehlo.negate %k0 : tensor<4xf32>
  %k1 = stablehlo.add %h1, %w : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %k0 : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %h2 = stablehlo.negate %k1 : tensor<4xf32>
  %k2 = stablehlo.add %h2, %w : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %k1 : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %h3 = stablehlo.negate %k2 : tensor<4xf32>
  %k3 = stablehlo.add %h3, %w : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %k2 : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  return %a3, %k3 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @state_the_last_copy_does_not_compute
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[K:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:             %[[H:.*]] = stablehlo.negate %[[K]]
// CHECK-NEXT:        %[[NEXT:.*]] = stablehlo.add %[[H]], %{{.*}}
// CHECK:             stablehlo.return %{{.*}}, %[[NEXT]], %
func.func public @state_the_last_copy_does_not_compute(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %key: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %h0 = stablehlo.negate %key : tensor<4xf32>
  %k0 = stablehlo.add %h0, %w : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %key : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %h1 = stablehlo.negate %k0 : tensor<4xf32>
  %k1 = stablehlo.add %h1, %w : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %k0 : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %h2 = stablehlo.negate %k1 : tensor<4xf32>
  %k2 = stablehlo.add %h2, %w : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %k1 : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %k2 : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// What is read of every copy is written into one array: the one that a concatenate made.
// CHECK-LABEL:   func.func public @stacked_metrics
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[ALL:.*]] = %{{.*}})
// CHECK:             %[[E:.*]] = stablehlo.broadcast_in_dim
// CHECK:             %[[U:.*]] = stablehlo.dynamic_update_slice %[[ALL]], %[[E]], %[[I]], %{{.*}}
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[U]]
// CHECK-NOT:       stablehlo.concatenate
// CHECK:           return %[[LOOP]]#1, %[[LOOP]]#2
func.func public @stacked_metrics(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.broadcast_in_dim %n0, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.broadcast_in_dim %n1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.broadcast_in_dim %n2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.broadcast_in_dim %n3, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  %all = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  return %a3, %all : tensor<4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @joined_side_by_side
// CHECK:             %[[STEP:.*]] = stablehlo.constant dense<4> : tensor<i32>
// CHECK:           } do {
// CHECK:             %[[FOUR:.*]] = stablehlo.constant dense<4> : tensor<i32>
// CHECK-NEXT:        %[[AT:.*]] = stablehlo.multiply %{{.*}}, %[[FOUR]]
// CHECK:             stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, %[[AT]] :
// CHECK-NOT:       stablehlo.concatenate
func.func public @joined_side_by_side(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<16xf32>) {
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
  %all = stablehlo.concatenate %n0, %n1, %n2, %n3, dim = 0 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<16xf32>
  return %a3, %all : tensor<4xf32>, tensor<16xf32>
}

// CHECK-LABEL:   func.func public @kept_for_other_uses
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(
// CHECK:             stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4x4xf32>, tensor<1x4xf32>
// CHECK:           %[[S0:.*]] = stablehlo.slice %[[LOOP]]#2 [0:1, 0:4]
// CHECK-NEXT:      %[[V0:.*]] = stablehlo.reshape %[[S0]]
// CHECK:           %[[S1:.*]] = stablehlo.slice %[[LOOP]]#2 [1:2, 0:4]
// CHECK-NEXT:      %[[V1:.*]] = stablehlo.reshape %[[S1]]
// CHECK:           %[[S3:.*]] = stablehlo.slice %[[LOOP]]#2 [3:4, 0:4]
// CHECK-NEXT:      %[[V3:.*]] = stablehlo.reshape %[[S3]]
// CHECK:           stablehlo.concatenate %[[V3]], %[[V0]], %[[V1]]
func.func public @kept_for_other_uses(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<12xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0 = stablehlo.abs %n0 : tensor<4xf32>
  %q0 = stablehlo.multiply %p0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p1 = stablehlo.abs %n1 : tensor<4xf32>
  %q1 = stablehlo.multiply %p1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %p2 = stablehlo.abs %n2 : tensor<4xf32>
  %q2 = stablehlo.multiply %p2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %p3 = stablehlo.abs %n3 : tensor<4xf32>
  %q3 = stablehlo.multiply %p3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  %all = stablehlo.concatenate %n3, %n0, %n1, dim = 0 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<12xf32>
  return %a3, %all : tensor<4xf32>, tensor<12xf32>
}

// CHECK-LABEL:   func.func public @last_value
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:             %[[N:.*]] = stablehlo.negate
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[N]]
// CHECK:           return %[[LOOP]]#1, %[[LOOP]]#2
func.func public @last_value(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
  return %a3, %n3 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @constants_looked_up
// CHECK:           } do {
// CHECK:             %[[TABLE:.*]] = stablehlo.constant dense<[1.000000e+00, 4.000000e+00, 2.000000e+00, -3.000000e+00]> : tensor<4xf32>
// CHECK-NEXT:        %[[ROW:.*]] = stablehlo.dynamic_slice %[[TABLE]], %{{.*}}, sizes = [1]
// CHECK-NEXT:        %[[C:.*]] = stablehlo.reshape %[[ROW]] : (tensor<1xf32>) -> tensor<f32>
// CHECK-NEXT:        stablehlo.broadcast_in_dim %[[C]]
func.func public @constants_looked_up(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %c0 = stablehlo.constant dense<1.0> : tensor<f32>
  %d0 = stablehlo.broadcast_in_dim %c0, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %d0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %c1 = stablehlo.constant dense<4.0> : tensor<f32>
  %d1 = stablehlo.broadcast_in_dim %c1, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %d1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %c2 = stablehlo.constant dense<2.0> : tensor<f32>
  %d2 = stablehlo.broadcast_in_dim %c2, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %d2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %c3 = stablehlo.constant dense<-3.0> : tensor<f32>
  %d3 = stablehlo.broadcast_in_dim %c3, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %d3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @constants_counted
// CHECK:           stablehlo.while(%[[I:.*]] = %{{.*}}, %
// CHECK:           } do {
// CHECK:             %[[U:.*]] = stablehlo.convert %[[I]] : (tensor<i32>) -> tensor<ui32>
// CHECK-NEXT:        %[[STEP:.*]] = stablehlo.constant dense<4294967294> : tensor<ui32>
// CHECK-NEXT:        %[[PART:.*]] = stablehlo.multiply %[[U]], %[[STEP]]
// CHECK-NEXT:        %[[SEVEN:.*]] = stablehlo.constant dense<7> : tensor<ui32>
// CHECK-NEXT:        %[[C:.*]] = stablehlo.add %[[PART]], %[[SEVEN]]
// CHECK-NEXT:        stablehlo.convert %[[C]]
func.func public @constants_counted(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %c0 = stablehlo.constant dense<7> : tensor<ui32>
  %f0 = stablehlo.convert %c0 : (tensor<ui32>) -> tensor<f32>
  %d0 = stablehlo.broadcast_in_dim %f0, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %d0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %c1 = stablehlo.constant dense<5> : tensor<ui32>
  %f1 = stablehlo.convert %c1 : (tensor<ui32>) -> tensor<f32>
  %d1 = stablehlo.broadcast_in_dim %f1, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %d1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %c2 = stablehlo.constant dense<3> : tensor<ui32>
  %f2 = stablehlo.convert %c2 : (tensor<ui32>) -> tensor<f32>
  %d2 = stablehlo.broadcast_in_dim %f2, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %d2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %c3 = stablehlo.constant dense<1> : tensor<ui32>
  %f3 = stablehlo.convert %c3 : (tensor<ui32>) -> tensor<f32>
  %d3 = stablehlo.broadcast_in_dim %f3, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %d3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @whole_constants
// CHECK:           } do {
// CHECK:             %[[STACK:.*]] = stablehlo.constant dense<{{.*}}> : tensor<4x4xf32>
// CHECK-NEXT:        %[[ROW:.*]] = stablehlo.dynamic_slice %[[STACK]], %{{.*}}, %{{.*}}, sizes = [1, 4]
// CHECK-NEXT:        %[[C:.*]] = stablehlo.reshape %[[ROW]]
// CHECK-NEXT:        stablehlo.multiply %{{.*}}, %[[C]]
func.func public @whole_constants(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %c0 = stablehlo.constant dense<[0.0, 2.0, 0.0, 1.0]> : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %c0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %c1 = stablehlo.constant dense<[1.0, 2.0, 3.0, 1.0]> : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %c1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %c2 = stablehlo.constant dense<[2.0, 2.0, 1.0, 1.0]> : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %c2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %c3 = stablehlo.constant dense<[3.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %c3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @constants_put_together
// CHECK:           %[[STACK:.*]] = stablehlo.concatenate %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, dim = 0 : {{.*}} -> tensor<4x4xbf16>
// CHECK:           } do {
// CHECK:             stablehlo.dynamic_slice %[[STACK]], %{{.*}}, %{{.*}}, sizes = [1, 4]
func.func public @constants_put_together(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %c0 = stablehlo.constant dense<[0.0, 2.0, 0.0, 1.0]> : tensor<4xbf16>
  %d0 = stablehlo.convert %c0 : (tensor<4xbf16>) -> tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %d0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %c1 = stablehlo.constant dense<[1.0, 2.0, 3.0, 1.0]> : tensor<4xbf16>
  %d1 = stablehlo.convert %c1 : (tensor<4xbf16>) -> tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %d1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %c2 = stablehlo.constant dense<[2.0, 2.0, 1.0, 1.0]> : tensor<4xbf16>
  %d2 = stablehlo.convert %c2 : (tensor<4xbf16>) -> tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %d2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %c3 = stablehlo.constant dense<[3.0, 2.0, 4.0, 1.0]> : tensor<4xbf16>
  %d3 = stablehlo.convert %c3 : (tensor<4xbf16>) -> tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %d3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @interleaved_batches
// CHECK:             %[[WINDOW:.*]] = stablehlo.dynamic_slice %{{.*}}, %{{.*}}, sizes = [13] : (tensor<16xf32>, tensor<i32>) -> tensor<13xf32>
// CHECK-NEXT:        stablehlo.slice %[[WINDOW]] [0:13:4] : (tensor<13xf32>) -> tensor<4xf32>
func.func public @interleaved_batches(%x: tensor<16xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:16:4] : (tensor<16xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %s0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:16:4] : (tensor<16xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %s1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:16:4] : (tensor<16xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %s2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:16:4] : (tensor<16xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %s3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}
