// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64 order=any}' | FileCheck %s --check-prefix=ANY

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

// Terms that are put into one array for nothing but a reduce are added up one by one.
// CHECK-LABEL:   func.func public @rows_that_a_reduce_adds_up
// CHECK-DAG:       %[[MOST:.*]] = stablehlo.constant dense<0xFF800000> : tensor<4xf32>
// CHECK-DAG:       %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %[[ZERO]], %[[LARGEST:.*]] = %[[MOST]])
// CHECK:             %[[N:.*]] = stablehlo.negate
// CHECK-NOT:         stablehlo.broadcast_in_dim
// CHECK:             %[[A:.*]] = stablehlo.add %[[SUM]], %[[N]]
// CHECK-NEXT:        %[[M:.*]] = stablehlo.maximum %[[LARGEST]], %[[N]]
// CHECK-NEXT:        stablehlo.return %{{.*}}, %[[A]], %[[M]]
// CHECK-NOT:       stablehlo.concatenate
// CHECK:           return %[[LOOP]]#1, %[[LOOP]]#2
// REMARK-DAG: [roll-accumulation] stablehlo.reduce applied: 4 copies of 4 ops became the body of a loop
func.func public @rows_that_a_reduce_adds_up(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.broadcast_in_dim %n0, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %f0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<4x1xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.broadcast_in_dim %n1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %f1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<4x1xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.broadcast_in_dim %n2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %f2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<4x1xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.broadcast_in_dim %n3, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %f3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<4x1xf32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %columns = stablehlo.concatenate %f0, %f1, %f2, %f3, dim = 1 : (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  %largest = stablehlo.reduce(%columns init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %sum, %largest : tensor<4xf32>, tensor<4xf32>
}

// They are converted one by one, too, and added up in the type of the reduce.
// CHECK-LABEL:   func.func public @rows_that_are_converted
// CHECK:           %[[SEVEN:.*]] = stablehlo.constant dense<7.000000e+00> : tensor<4xf64>
// CHECK:           %[[LOOP:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %[[SEVEN]])
// CHECK:             %[[WIDE:.*]] = stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xf64>
// CHECK-NEXT:        stablehlo.add %[[SUM]], %[[WIDE]] : tensor<4xf64>
// CHECK:           return %[[LOOP]]#1
func.func public @rows_that_are_converted(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf64> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.broadcast_in_dim %n0, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.broadcast_in_dim %n1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.broadcast_in_dim %n2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.broadcast_in_dim %n3, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %wide = stablehlo.convert %rows : (tensor<4x4xf32>) -> tensor<4x4xf64>
  %seven = stablehlo.constant dense<7.0> : tensor<f64>
  %sum = stablehlo.reduce(%wide init: %seven) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf64>, tensor<f64>) -> tensor<4xf64>
  return %sum : tensor<4xf64>
}

// An array that something else reads too is made in any case: its sum does not tell that there are copies.
// CHECK-LABEL: func.func public @rows_that_are_read_elsewhere
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @rows_that_are_read_elsewhere(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.broadcast_in_dim %n0, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.broadcast_in_dim %n1, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.broadcast_in_dim %n2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.broadcast_in_dim %n3, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %sum, %rows : tensor<4xf32>, tensor<4x4xf32>
}

// The sum is of what is inside of the rows.
// CHECK-LABEL: func.func public @sum_inside_of_rows
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @sum_inside_of_rows(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<1x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// The rows are transposed on the way.
// CHECK-LABEL: func.func public @transposed_rows
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @transposed_rows(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<2x2xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e0 = stablehlo.broadcast_in_dim %q0, dims = [2, 1] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e1 = stablehlo.broadcast_in_dim %q1, dims = [2, 1] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e2 = stablehlo.broadcast_in_dim %q2, dims = [2, 1] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e3 = stablehlo.broadcast_in_dim %q3, dims = [2, 1] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<4x2x2xf32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  return %sum : tensor<2x2xf32>
}

// The rows have another shape than the terms.
// CHECK-LABEL: func.func public @flat_rows
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @flat_rows(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e0 = stablehlo.reshape %q0 : (tensor<2x2xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e1 = stablehlo.reshape %q1 : (tensor<2x2xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e2 = stablehlo.reshape %q2 : (tensor<2x2xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<2x2xf32>
  %e3 = stablehlo.reshape %q3 : (tensor<2x2xf32>) -> tensor<1x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// The last part of the array is no row.
// CHECK-LABEL: func.func public @some_rows
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @some_rows(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<1x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, %x, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// The number that the reduce starts from is not known.
// CHECK-LABEL: func.func public @rows_from_an_argument
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @rows_from_an_argument(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %start: tensor<f32>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<1x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %sum = stablehlo.reduce(%rows init: %start) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// The reduce is in a branch.
// CHECK-LABEL: func.func public @rows_in_a_branch
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @rows_in_a_branch(%x: tensor<4x4xf32>, %w: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.reshape %n0 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.reshape %n1 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.reshape %n2 : (tensor<4xf32>) -> tensor<1x4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.reshape %n3 : (tensor<4xf32>) -> tensor<1x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rows = stablehlo.concatenate %e0, %e1, %e2, %e3, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<4x4xf32>
  %sum = "stablehlo.if"(%p) ({
    %in = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    stablehlo.return %in : tensor<4xf32>
  }, {
    stablehlo.return %n0 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %sum : tensor<4xf32>
}

// Legal when: they apply the same ops to the same types
// CHECK-LABEL: func.func public @other_type
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 3 of 4 differs: stablehlo.negate has other types than in the first (stablehlo.negate at 
func.func public @other_type(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.convert %r0 : (tensor<4xf32>) -> tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0 = stablehlo.convert %n0 : (tensor<4xf32>) -> tensor<4xf32>
  %q0 = stablehlo.abs %p0 : tensor<4xf32>
  %u0 = stablehlo.multiply %q0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %u0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.convert %r1 : (tensor<4xf32>) -> tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p1 = stablehlo.convert %n1 : (tensor<4xf32>) -> tensor<4xf32>
  %q1 = stablehlo.abs %p1 : tensor<4xf32>
  %u1 = stablehlo.multiply %q1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %u1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.convert %r2 : (tensor<4xf32>) -> tensor<4xbf16>
  %n2 = stablehlo.negate %m2 : tensor<4xbf16>
  %p2 = stablehlo.convert %n2 : (tensor<4xbf16>) -> tensor<4xf32>
  %q2 = stablehlo.abs %p2 : tensor<4xf32>
  %u2 = stablehlo.multiply %q2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %u2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.convert %r3 : (tensor<4xf32>) -> tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %p3 = stablehlo.convert %n3 : (tensor<4xf32>) -> tensor<4xf32>
  %q3 = stablehlo.abs %p3 : tensor<4xf32>
  %u3 = stablehlo.multiply %q3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %u3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: their attributes are equal, other than starts of slices, constants and channel ids
// CHECK-LABEL: func.func public @other_attribute
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 3 of 4 differs: attribute permutation of stablehlo.transpose is another than in the first (stablehlo.transpose at 
func.func public @other_attribute(%x: tensor<4x2x2xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:2, 0:2] : (tensor<4x2x2xf32>) -> tensor<1x2x2xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
  %m0 = stablehlo.transpose %r0, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %n0 = stablehlo.reshape %m0 : (tensor<2x2xf32>) -> tensor<4xf32>
  %q0 = stablehlo.abs %n0 : tensor<4xf32>
  %u0 = stablehlo.multiply %q0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %u0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:2, 0:2] : (tensor<4x2x2xf32>) -> tensor<1x2x2xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
  %m1 = stablehlo.transpose %r1, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %n1 = stablehlo.reshape %m1 : (tensor<2x2xf32>) -> tensor<4xf32>
  %q1 = stablehlo.abs %n1 : tensor<4xf32>
  %u1 = stablehlo.multiply %q1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %u1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:2, 0:2] : (tensor<4x2x2xf32>) -> tensor<1x2x2xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
  %m2 = stablehlo.transpose %r2, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %n2 = stablehlo.reshape %m2 : (tensor<2x2xf32>) -> tensor<4xf32>
  %q2 = stablehlo.abs %n2 : tensor<4xf32>
  %u2 = stablehlo.multiply %q2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %u2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:2, 0:2] : (tensor<4x2x2xf32>) -> tensor<1x2x2xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
  %m3 = stablehlo.transpose %r3, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %n3 = stablehlo.reshape %m3 : (tensor<2x2xf32>) -> tensor<4xf32>
  %q3 = stablehlo.abs %n3 : tensor<4xf32>
  %u3 = stablehlo.multiply %q3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %u3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: the regions of their ops are equal
// CHECK-LABEL: func.func public @other_region
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 3 of 4 differs: the region of stablehlo.reduce is another than in the first (stablehlo.reduce at 
func.func public @other_region(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %g0 = stablehlo.reduce(%n0 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %d0 = stablehlo.broadcast_in_dim %g0, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q0 = stablehlo.multiply %d0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %g1 = stablehlo.reduce(%n1 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %d1 = stablehlo.broadcast_in_dim %g1, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q1 = stablehlo.multiply %d1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %g2 = stablehlo.reduce(%n2 init: %none) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %d2 = stablehlo.broadcast_in_dim %g2, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q2 = stablehlo.multiply %d2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %g3 = stablehlo.reduce(%n3 init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %d3 = stablehlo.broadcast_in_dim %g3, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %q3 = stablehlo.multiply %d3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: a value that differs from copy to copy is a constant, a slice, an argument, or computed by the previous copy
// CHECK-LABEL: func.func public @other_values
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 2 of 4 differs: stablehlo.add, which is stablehlo.abs in the first (stablehlo.add at 
func.func public @other_values(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %y0 = stablehlo.abs %w : tensor<4xf32>
  %y1 = stablehlo.add %w, %w : tensor<4xf32>
  %y2 = stablehlo.multiply %w, %w : tensor<4xf32>
  %y3 = stablehlo.negate %w : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %y0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %y1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %y2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %y3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}
// Legal when: they apply the same ops to the same types
// CHECK-LABEL: func.func public @other_op
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 3 of 4 differs: stablehlo.abs, which is stablehlo.negate in the first (stablehlo.abs at 
func.func public @other_op(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %p0 = stablehlo.negate %n0 : tensor<4xf32>
  %u0 = stablehlo.multiply %p0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %u0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %p1 = stablehlo.negate %n1 : tensor<4xf32>
  %u1 = stablehlo.multiply %p1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %u1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %p2 = stablehlo.abs %n2 : tensor<4xf32>
  %u2 = stablehlo.multiply %p2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %u2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %p3 = stablehlo.negate %n3 : tensor<4xf32>
  %u3 = stablehlo.multiply %p3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %u3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: a value that differs from copy to copy is a constant, a slice, an argument, or computed by the previous copy
// CHECK-LABEL: func.func public @argument_and_value
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 3 of 4 differs: stablehlo.abs, which is an argument in the first
func.func public @argument_and_value(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %y = stablehlo.abs %w : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %y : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: a value that differs from copy to copy is a constant, a slice, an argument, or computed by the previous copy
// CHECK-LABEL: func.func public @arguments_of_other_types
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: copy 2 of 4 differs: it reads another argument than the first
func.func public @arguments_of_other_types(%x0: tensor<4xi64>, %x1: tensor<4xi64>, %x2: tensor<4xi32>, %x3: tensor<4xi64>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %i0 = stablehlo.convert %x0 : (tensor<4xi64>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %i0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %w : tensor<4xf32>
  %h0 = stablehlo.abs %q0 : tensor<4xf32>
  %u0 = stablehlo.multiply %h0, %w : tensor<4xf32>
  %a0 = stablehlo.add %zero, %u0 : tensor<4xf32>
  %i1 = stablehlo.convert %x1 : (tensor<4xi64>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %i1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %w : tensor<4xf32>
  %h1 = stablehlo.abs %q1 : tensor<4xf32>
  %u1 = stablehlo.multiply %h1, %w : tensor<4xf32>
  %a1 = stablehlo.add %a0, %u1 : tensor<4xf32>
  %i2 = stablehlo.convert %x2 : (tensor<4xi32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %i2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %w : tensor<4xf32>
  %h2 = stablehlo.abs %q2 : tensor<4xf32>
  %u2 = stablehlo.multiply %h2, %w : tensor<4xf32>
  %a2 = stablehlo.add %a1, %u2 : tensor<4xf32>
  %i3 = stablehlo.convert %x3 : (tensor<4xi64>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %i3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %w : tensor<4xf32>
  %h3 = stablehlo.abs %q3 : tensor<4xf32>
  %u3 = stablehlo.multiply %h3, %w : tensor<4xf32>
  %a3 = stablehlo.add %a2, %u3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: an op belongs to one copy only
// CHECK-LABEL: func.func public @value_of_another_copy
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a value is of one copy here and of another there (stablehlo.negate at 
func.func public @value_of_another_copy(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %n0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %n1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n1, %n2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %n3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: an op belongs to one copy only
// CHECK-LABEL: func.func public @value_of_an_earlier_copy
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a copy reads a value of another one, which is not the one before (stablehlo.negate at 
func.func public @value_of_an_earlier_copy(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %w, %n0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n0, %n1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n0, %n2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n2, %n3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: an op belongs to one copy only
// CHECK-LABEL: func.func public @op_of_another_copy
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: an op would be in two copies (stablehlo.negate at 
func.func public @op_of_another_copy(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %y0 = stablehlo.negate %w : tensor<4xf32>
  %y1 = stablehlo.negate %y0 : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %y0, %n0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %q0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %y1, %n1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %q1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n1, %n2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %q2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %q3 = stablehlo.multiply %n3, %n3 : tensor<4xf32>
  %a3 = stablehlo.add %a2, %q3 : tensor<4xf32>
  return %a3 : tensor<4xf32>
}

// Legal when: they apply the same ops to the same types
// CHECK-LABEL: func.func public @state_of_another_type
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a value changes its type from copy to copy (stablehlo.add at 
func.func public @state_of_another_type(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %key: tensor<4xbf16>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %h0 = stablehlo.convert %key : (tensor<4xbf16>) -> tensor<4xf32>
  %k0 = stablehlo.add %h0, %w : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %k0 : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %q0 = stablehlo.multiply %n0, %w : tensor<4xf32>
  %e0 = stablehlo.abs %q0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %e0 : tensor<4xf32>
  %h1 = stablehlo.convert %k0 : (tensor<4xf32>) -> tensor<4xf32>
  %k1 = stablehlo.add %h1, %w : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %k1 : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %q1 = stablehlo.multiply %n1, %w : tensor<4xf32>
  %e1 = stablehlo.abs %q1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %e1 : tensor<4xf32>
  %h2 = stablehlo.convert %k1 : (tensor<4xf32>) -> tensor<4xf32>
  %k2 = stablehlo.add %h2, %w : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %k2 : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %q2 = stablehlo.multiply %n2, %w : tensor<4xf32>
  %e2 = stablehlo.abs %q2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %e2 : tensor<4xf32>
  return %a2, %k2 : tensor<4xf32>, tensor<4xf32>
}

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

// Worth it when: a copy has at least min-ops ops
// CHECK-LABEL: func.func public @small_copies
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a copy has only 3 ops (option min-ops)
func.func public @small_copies(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a0 = stablehlo.add %zero, %r0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a1 = stablehlo.add %a0, %r1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a2 = stablehlo.add %a1, %r2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a3 = stablehlo.add %a2, %r3 : tensor<4xf32>
  %s4 = stablehlo.slice %x [4:5, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r4 = stablehlo.reshape %s4 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a4 = stablehlo.add %a3, %r4 : tensor<4xf32>
  %s5 = stablehlo.slice %x [5:6, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r5 = stablehlo.reshape %s5 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a5 = stablehlo.add %a4, %r5 : tensor<4xf32>
  %s6 = stablehlo.slice %x [6:7, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r6 = stablehlo.reshape %s6 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a6 = stablehlo.add %a5, %r6 : tensor<4xf32>
  %s7 = stablehlo.slice %x [7:8, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %r7 = stablehlo.reshape %s7 : (tensor<1x4xf32>) -> tensor<4xf32>
  %a7 = stablehlo.add %a6, %r7 : tensor<4xf32>
  return %a7 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @adds_arguments
// CHECK-NOT:     stablehlo.while
// CHECK:         return
func.func public @adds_arguments(%x0: tensor<4xf32>, %x1: tensor<4xf32>, %x2: tensor<4xf32>, %x3: tensor<4xf32>) -> tensor<4xf32> {
  %a0 = stablehlo.add %x0, %x1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %x2 : tensor<4xf32>
  %a2 = stablehlo.add %a1, %x3 : tensor<4xf32>
  return %a2 : tensor<4xf32>
}

// Worth it when: the copies together have at least min-share of the ops around them (else they may be attention heads or experts)
// CHECK-LABEL: func.func public @few_of_the_ops
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: the copies have only 20 of the 92 ops around them (option min-share)
func.func public @few_of_the_ops(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
  %o0 = stablehlo.negate %w : tensor<4xf32>
  %o1 = stablehlo.negate %o0 : tensor<4xf32>
  %o2 = stablehlo.negate %o1 : tensor<4xf32>
  %o3 = stablehlo.negate %o2 : tensor<4xf32>
  %o4 = stablehlo.negate %o3 : tensor<4xf32>
  %o5 = stablehlo.negate %o4 : tensor<4xf32>
  %o6 = stablehlo.negate %o5 : tensor<4xf32>
  %o7 = stablehlo.negate %o6 : tensor<4xf32>
  %o8 = stablehlo.negate %o7 : tensor<4xf32>
  %o9 = stablehlo.negate %o8 : tensor<4xf32>
  %o10 = stablehlo.negate %o9 : tensor<4xf32>
  %o11 = stablehlo.negate %o10 : tensor<4xf32>
  %o12 = stablehlo.negate %o11 : tensor<4xf32>
  %o13 = stablehlo.negate %o12 : tensor<4xf32>
  %o14 = stablehlo.negate %o13 : tensor<4xf32>
  %o15 = stablehlo.negate %o14 : tensor<4xf32>
  %o16 = stablehlo.negate %o15 : tensor<4xf32>
  %o17 = stablehlo.negate %o16 : tensor<4xf32>
  %o18 = stablehlo.negate %o17 : tensor<4xf32>
  %o19 = stablehlo.negate %o18 : tensor<4xf32>
  %o20 = stablehlo.negate %o19 : tensor<4xf32>
  %o21 = stablehlo.negate %o20 : tensor<4xf32>
  %o22 = stablehlo.negate %o21 : tensor<4xf32>
  %o23 = stablehlo.negate %o22 : tensor<4xf32>
  %o24 = stablehlo.negate %o23 : tensor<4xf32>
  %o25 = stablehlo.negate %o24 : tensor<4xf32>
  %o26 = stablehlo.negate %o25 : tensor<4xf32>
  %o27 = stablehlo.negate %o26 : tensor<4xf32>
  %o28 = stablehlo.negate %o27 : tensor<4xf32>
  %o29 = stablehlo.negate %o28 : tensor<4xf32>
  %o30 = stablehlo.negate %o29 : tensor<4xf32>
  %o31 = stablehlo.negate %o30 : tensor<4xf32>
  %o32 = stablehlo.negate %o31 : tensor<4xf32>
  %o33 = stablehlo.negate %o32 : tensor<4xf32>
  %o34 = stablehlo.negate %o33 : tensor<4xf32>
  %o35 = stablehlo.negate %o34 : tensor<4xf32>
  %o36 = stablehlo.negate %o35 : tensor<4xf32>
  %o37 = stablehlo.negate %o36 : tensor<4xf32>
  %o38 = stablehlo.negate %o37 : tensor<4xf32>
  %o39 = stablehlo.negate %o38 : tensor<4xf32>
  %o40 = stablehlo.negate %o39 : tensor<4xf32>
  %o41 = stablehlo.negate %o40 : tensor<4xf32>
  %o42 = stablehlo.negate %o41 : tensor<4xf32>
  %o43 = stablehlo.negate %o42 : tensor<4xf32>
  %o44 = stablehlo.negate %o43 : tensor<4xf32>
  %o45 = stablehlo.negate %o44 : tensor<4xf32>
  %o46 = stablehlo.negate %o45 : tensor<4xf32>
  %o47 = stablehlo.negate %o46 : tensor<4xf32>
  %o48 = stablehlo.negate %o47 : tensor<4xf32>
  %o49 = stablehlo.negate %o48 : tensor<4xf32>
  %o50 = stablehlo.negate %o49 : tensor<4xf32>
  %o51 = stablehlo.negate %o50 : tensor<4xf32>
  %o52 = stablehlo.negate %o51 : tensor<4xf32>
  %o53 = stablehlo.negate %o52 : tensor<4xf32>
  %o54 = stablehlo.negate %o53 : tensor<4xf32>
  %o55 = stablehlo.negate %o54 : tensor<4xf32>
  %o56 = stablehlo.negate %o55 : tensor<4xf32>
  %o57 = stablehlo.negate %o56 : tensor<4xf32>
  %o58 = stablehlo.negate %o57 : tensor<4xf32>
  %o59 = stablehlo.negate %o58 : tensor<4xf32>
  %o60 = stablehlo.negate %o59 : tensor<4xf32>
  %o61 = stablehlo.negate %o60 : tensor<4xf32>
  %o62 = stablehlo.negate %o61 : tensor<4xf32>
  %o63 = stablehlo.negate %o62 : tensor<4xf32>
  %o64 = stablehlo.negate %o63 : tensor<4xf32>
  %o65 = stablehlo.negate %o64 : tensor<4xf32>
  %o66 = stablehlo.negate %o65 : tensor<4xf32>
  %o67 = stablehlo.negate %o66 : tensor<4xf32>
  %o68 = stablehlo.negate %o67 : tensor<4xf32>
  %o69 = stablehlo.negate %o68 : tensor<4xf32>
  return %a3, %o69 : tensor<4xf32>, tensor<4xf32>
}

// Worth it when: the program gets shorter
// CHECK-LABEL: func.func public @no_shorter
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: the loop would have about 14 ops, the copies have 10
func.func public @no_shorter(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  return %a1 : tensor<4xf32>
}

// Worth it when: arrays that are stacked for the loop only have at most max-stack-bytes bytes
// CHECK-LABEL: func.func public @large_stack
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: 128 bytes would be stacked (option max-stack-bytes) (stablehlo.concatenate at 
func.func public @large_stack(%x: tensor<4x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<32xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %w : tensor<4xf32>
  %n0 = stablehlo.negate %m0 : tensor<4xf32>
  %e0 = stablehlo.concatenate %n0, %n0, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %a0 = stablehlo.add %zero, %n0 : tensor<4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %w : tensor<4xf32>
  %n1 = stablehlo.negate %m1 : tensor<4xf32>
  %e1 = stablehlo.concatenate %n1, %n1, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %a1 = stablehlo.add %a0, %n1 : tensor<4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.multiply %r2, %w : tensor<4xf32>
  %n2 = stablehlo.negate %m2 : tensor<4xf32>
  %e2 = stablehlo.concatenate %n2, %n2, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %a2 = stablehlo.add %a1, %n2 : tensor<4xf32>
  %s3 = stablehlo.slice %x [3:4, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
  %r3 = stablehlo.reshape %s3 : (tensor<1x4xf32>) -> tensor<4xf32>
  %m3 = stablehlo.multiply %r3, %w : tensor<4xf32>
  %n3 = stablehlo.negate %m3 : tensor<4xf32>
  %e3 = stablehlo.concatenate %n3, %n3, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %a3 = stablehlo.add %a2, %n3 : tensor<4xf32>
  %all = stablehlo.concatenate %e1, %e0, %e2, %e3, dim = 0 : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<32xf32>
  return %a3, %all : tensor<4xf32>, tensor<32xf32>
}

// -----

sdy.mesh @mesh = <["x"=8]>

// Legal when: they are carried behind the constraint that says so, from an init operand that says so or is zero
// CHECK-LABEL: func.func public @unreduced
// CHECK:         %[[START:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:         %[[LOOP:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %[[START]])
// CHECK:           %[[DOT:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[TERM:.*]] = sdy.sharding_constraint %[[DOT]] <@mesh, [{}, {}], unreduced={"x"}>
// CHECK-NEXT:      %[[ADD:.*]] = stablehlo.add %[[SUM]], %[[TERM]]
// CHECK-NEXT:      %[[NEXT:.*]] = sdy.sharding_constraint %[[ADD]] <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:           stablehlo.return %{{.*}}, %[[NEXT]]
// CHECK:         %[[SAID:.*]] = sdy.sharding_constraint %[[LOOP]]#1 <@mesh, [{}, {}], unreduced={"x"}>
// CHECK-NEXT:    %[[REDUCED:.*]] = sdy.sharding_constraint %[[SAID]] <@mesh, [{}, {}]>
// CHECK-NEXT:    return %[[REDUCED]]
func.func public @unreduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Also: a start that is zero, and the last term, which is read after the loop, say so then.
// CHECK-LABEL: func.func public @unreduced_from_zero
// CHECK-COUNT-2: %{{.*}} = sdy.sharding_constraint %cst{{.*}} <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:         %[[LOOP:.*]]:3 = stablehlo.while
// CHECK:         sdy.sharding_constraint %[[LOOP]]#1 <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:         sdy.sharding_constraint %[[LOOP]]#2 <@mesh, [{}, {}], unreduced={"x"}>
func.func public @unreduced_from_zero(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %zero, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %last = sdy.sharding_constraint %t2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum, %last : tensor<4x4xf32>, tensor<4x4xf32>
}

// Legal when: they are carried behind the constraint that says so, from an init operand that says so or is zero
// CHECK-LABEL: func.func public @start_is_not_said
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a loop-carried value is unreduced, and its init operand does not say so (sdy.sharding_constraint at
func.func public @start_is_not_said(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %w, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Legal when: they are carried behind the constraint that says so, from an init operand that says so or is zero
// CHECK-LABEL: func.func public @said_of_an_array
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a loop would carry a value before the constraint that says that it is unreduced (stablehlo.reshape at
func.func public @said_of_an_array(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32>, tensor<3x4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %w0 = stablehlo.reshape %t0 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %w1 = stablehlo.reshape %t1 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %w2 = stablehlo.reshape %t2 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %rows = stablehlo.concatenate %w0, %w1, %w2, dim = 0 : (tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<3x4x4xf32>
  %said = sdy.sharding_constraint %rows <@mesh, [{}, {}, {}], unreduced={"x"}> : tensor<3x4x4xf32>
  %all = sdy.sharding_constraint %said <@mesh, [{}, {}, {}]> : tensor<3x4x4xf32>
  return %sum, %all : tensor<4x4xf32>, tensor<3x4x4xf32>
}

// Legal when: the copies share none, and none is stacked
// CHECK-LABEL: func.func public @shares_unreduced
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: an unreduced value would be a live-in of the loop (sdy.sharding_constraint at
func.func public @shares_unreduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %product = stablehlo.dot_general %x, %x, contracting_dims = [0, 1] x [0, 1] : (tensor<3x8x4xf32>, tensor<3x8x4xf32>) -> tensor<4x4xf32>
  %shared = sdy.sharding_constraint %product <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e0 = stablehlo.add %t0, %shared : tensor<4x4xf32>
  %f0 = sdy.sharding_constraint %e0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %f0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e1 = stablehlo.add %t1, %shared : tensor<4x4xf32>
  %f1 = sdy.sharding_constraint %e1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %f1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e2 = stablehlo.add %t2, %shared : tensor<4x4xf32>
  %f2 = sdy.sharding_constraint %e2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %f2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Legal when: the copies share none, and none is stacked
// CHECK-LABEL: func.func public @kept_unreduced
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a sum or an array of unreduced values would not say so (sdy.sharding_constraint at
func.func public @kept_unreduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %first = sdy.sharding_constraint %t0 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum, %first : tensor<4x4xf32>, tensor<4x4xf32>
}

// NUMERIC: skip (jax places no argument that is not reduced)
// Legal when: the copies share none, and none is stacked
// CHECK-LABEL: func.func public @arguments_that_are_not_reduced
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: unreduced arguments would be stacked
func.func public @arguments_that_are_not_reduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %g0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}, %g1: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}, %g2: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e0 = stablehlo.add %t0, %g0 : tensor<4x4xf32>
  %f0 = sdy.sharding_constraint %e0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %f0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e1 = stablehlo.add %t1, %g1 : tensor<4x4xf32>
  %f1 = sdy.sharding_constraint %e1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %f1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e2 = stablehlo.add %t2, %g2 : tensor<4x4xf32>
  %f2 = sdy.sharding_constraint %e2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %f2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// What two of three copies read is made alike around the loop that the copies are in: it is no part of these.
// CHECK-LABEL:   func.func public @made_outside
// CHECK-COUNT-2:   stablehlo.while
// CHECK-NOT:       stablehlo.while
// CHECK:           return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: live-ins of some copies are computed outside of their block (stablehlo.constant
func.func public @made_outside(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.add %x, %x : tensor<4xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %c0 = stablehlo.constant dense<3> : tensor<4xi32>
  %outer:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xi32>
  cond {
    %m = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<3> : tensor<4xi32>
    %inner:2 = stablehlo.while(%j = %zero, %b = %a) : tensor<i32>, tensor<4xi32>
    cond {
      %m = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %m : tensor<i1>
    } do {
      %p0 = stablehlo.abs %y : tensor<4xi32>
      %q0 = stablehlo.negate %p0 : tensor<4xi32>
      %p1 = stablehlo.abs %c0 : tensor<4xi32>
      %q1 = stablehlo.negate %p1 : tensor<4xi32>
      %s1 = stablehlo.add %q0, %q1 : tensor<4xi32>
      %p2 = stablehlo.abs %c1 : tensor<4xi32>
      %q2 = stablehlo.negate %p2 : tensor<4xi32>
      %s2 = stablehlo.add %s1, %q2 : tensor<4xi32>
      %s3 = stablehlo.add %b, %s2 : tensor<4xi32>
      %next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next, %s3 : tensor<i32>, tensor<4xi32>
    }
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %inner#1 : tensor<i32>, tensor<4xi32>
  }
  return %outer#1 : tensor<4xi32>
}
