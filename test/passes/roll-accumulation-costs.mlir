// Length of the program and size of stacks.

// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

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
