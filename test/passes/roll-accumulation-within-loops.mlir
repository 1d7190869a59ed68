// Copies in the body of a loop: layers that each add to a loss are no micro-batches (option within-loops).

// RUN: %par-opt %s --passes='roll-accumulation{min-ops=2}' | FileCheck %s
// RUN: %par-opt %s --passes='roll-accumulation{min-ops=2 within-loops=false}' | FileCheck %s --check-prefix=OUTER

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
// CHECK: stablehlo.while
// CHECK-COUNT-1: stablehlo.tanh
// CHECK-NOT: stablehlo.tanh

// OUTER-LABEL: func.func @main
// OUTER: stablehlo.while
// OUTER-NOT: stablehlo.while
// OUTER-COUNT-4: stablehlo.tanh
func.func @main(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<8xf32>
  %0:2 = stablehlo.while(%i = %zero, %sum = %start) : tensor<i32>, tensor<8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %a0 = stablehlo.slice %x [0:1, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %b0 = stablehlo.reshape %a0 : (tensor<1x8xf32>) -> tensor<8xf32>
    %c0 = stablehlo.tanh %b0 : tensor<8xf32>
    %s0 = stablehlo.add %sum, %c0 : tensor<8xf32>
    %a1 = stablehlo.slice %x [1:2, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %b1 = stablehlo.reshape %a1 : (tensor<1x8xf32>) -> tensor<8xf32>
    %c1 = stablehlo.tanh %b1 : tensor<8xf32>
    %s1 = stablehlo.add %s0, %c1 : tensor<8xf32>
    %a2 = stablehlo.slice %x [2:3, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %b2 = stablehlo.reshape %a2 : (tensor<1x8xf32>) -> tensor<8xf32>
    %c2 = stablehlo.tanh %b2 : tensor<8xf32>
    %s2 = stablehlo.add %s1, %c2 : tensor<8xf32>
    %a3 = stablehlo.slice %x [3:4, 0:8] : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %b3 = stablehlo.reshape %a3 : (tensor<1x8xf32>) -> tensor<8xf32>
    %c3 = stablehlo.tanh %b3 : tensor<8xf32>
    %s3 = stablehlo.add %s2, %c3 : tensor<8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s3 : tensor<i32>, tensor<8xf32>
  }
  return %0#1 : tensor<8xf32>
}
