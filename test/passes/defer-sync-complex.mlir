// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Floats that become complex numbers are added up as such on each device: the convert is exact, and linear.
// CHECK-LABEL:   func.func public @made_complex
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[START:.*]]: tensor<4xcomplex<f32>>)
// CHECK:           %[[W:.*]]:2 = stablehlo.while
// CHECK:             %[[C:.*]] = stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
// CHECK:             stablehlo.add %{{.*}}, %[[C]]
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.add %[[START]], %[[S]]
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 4 times in it; 16 bytes in a trip are 32 after them
func.func public @made_complex(%x: tensor<4xf32>, %start: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xcomplex<f32>>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
    %n = stablehlo.add %acc, %c : tensor<4xcomplex<f32>>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xcomplex<f32>>
  }
  return %w#1 : tensor<4xcomplex<f32>>
}

// A maximum of floats is no sum of complex numbers.
// CHECK-LABEL:   func.func public @maximum_made_complex
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert to complex numbers is linear for sums only
func.func public @maximum_made_complex(%x: tensor<4xf32>, %start: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xcomplex<f32>>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xcomplex<f32>>
    %n = stablehlo.add %acc, %c : tensor<4xcomplex<f32>>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xcomplex<f32>>
  }
  return %w#1 : tensor<4xcomplex<f32>>
}

}

// -----

#every = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK-LABEL:   func.func public @imaginary_parts_dropped
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert of complex numbers to real ones drops their imaginary parts
// NUMERIC: skip (XLA converts no complex numbers to real ones)
func.func public @imaginary_parts_dropped(%x: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #every} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    %c = stablehlo.convert %s : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

}
