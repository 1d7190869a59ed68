// Copies that are not isomorphic.

// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

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
