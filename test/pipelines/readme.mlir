// RUN: %par-opt %s --passes=grad-sync | FileCheck %s
// RUN: %par-opt %s --passes=grad-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 8 : i32} {

// The example at the head of README.md: test/frontend/test_readme.py compares its figure with this function, before and
// after.
// CHECK-LABEL: func.func public @step
// CHECK:         } do {
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         stablehlo.divide
// CHECK:         stablehlo.return
// CHECK:         "stablehlo.all_reduce"(
// CHECK:         stablehlo.add %arg0
// REMARK: [defer-sync] stablehlo.all_reduce applied: 256 bytes per device, now reduced after the loop and not 4 times in it
func.func public @step(%start: tensor<8x8xf32>, %batches: tensor<4x2x8xf32>) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %eight = stablehlo.constant dense<8.0> : tensor<8x8xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %x = stablehlo.dynamic_slice %batches, %i, %zero, %zero, sizes = [1, 2, 8] : (tensor<4x2x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x8xf32>
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0, 1] x [0, 1] : (tensor<1x2x8xf32>, tensor<1x2x8xf32>) -> tensor<8x8xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %t = stablehlo.add %a, %b : tensor<f32> stablehlo.return %t : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = stablehlo.divide %s, %eight : tensor<8x8xf32>
    %n = stablehlo.add %acc, %m : tensor<8x8xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %n : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

}
