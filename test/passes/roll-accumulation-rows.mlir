// Rows that are added up together.

// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

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
