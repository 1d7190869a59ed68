// The table of decisions: by default that of grad-sync, which does not run on the module that is written.

// RUN: %par-opt %s --decisions 2>%t.table | FileCheck %s --check-prefix=SAME
// RUN: FileCheck %s --input-file=%t.table
// RUN: %par-opt %s --decisions --passes='grad-sync{policy=once}' -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONCE
// RUN: not %par-opt %s --decisions --passes=inline-calls -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: {{^}}           array {{.*}} in loops  once     held more  decided   reason
// CHECK-NEXT: parameter {{.*}} 65.5 kB   16.4 kB  16.4 kB    in loops  the policy gathers parameters where they are read, and holds none
// CHECK-NEXT: sum        dot_general {{.*}} 65.5 kB   16.4 kB  14.3 kB    in loops  option policy=defer replicates it: its sum is sharded over `data`, and stays so

// ONCE: parameter {{.*}} 65.5 kB   16.4 kB  16.4 kB    once
// ONCE-NEXT: sum {{.*}} 65.5 kB   16.4 kB  14.3 kB    once

// NONE: error: {{.*}}decisions.mlir: decisions: no pass of `inline-calls` gathers or reduces once; `grad-sync` has such passes

// SAME: stablehlo.while
// SAME-NOT: unreduced

module @jit_step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=8]> {stablehlo.mesh = {axes = [{name = "data", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg1: tensor<4x16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> (tensor<64x64xf32> {jax.result_info = "result[0]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:4 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %arg0, %iterArg_1 = %c, %iterArg_2 = %0) : tensor<4x16x64xf32>, tensor<64x64xf32>, tensor<i32>, tensor<64x64xf32>
    cond {
      %c_3 = stablehlo.constant dense<4> : tensor<i32>
      %3 = stablehlo.compare LT, %iterArg_1, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_1) : (tensor<4x16x64xf32>, tensor<i32>) -> tensor<16x64xf32>
      %4 = func.call @closed_call(%iterArg_0, %iterArg_2, %3) : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
      %c_3 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_1, %c_3 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_0, %5, %4 : tensor<4x16x64xf32>, tensor<64x64xf32>, tensor<i32>, tensor<64x64xf32>
    }
    %2 = stablehlo.subtract %arg0, %1#3 : tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x16x64xf32>, %arg1: tensor<i32>) -> tensor<16x64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 64] : (tensor<4x16x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x64xf32>) -> tensor<16x64xf32>
    return %1 : tensor<16x64xf32>
  }
  func.func private @closed_call(%arg0: tensor<64x64xf32>, %arg1: tensor<64x64xf32>, %arg2: tensor<16x64xf32>) -> tensor<64x64xf32> {
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<64x64xf32>) -> tensor<16x64xf32>
    %1 = stablehlo.tanh %0 : tensor<16x64xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<16x64xf32>
    %4 = sdy.sharding_constraint %1 <@mesh, [{"data"}, {}]> : tensor<16x64xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %6 = stablehlo.multiply %5, %4 : tensor<16x64xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %8 = stablehlo.multiply %7, %6 : tensor<16x64xf32>
    %9 = sdy.sharding_constraint %8 <@mesh, [{"data"}, {}]> : tensor<16x64xf32>
    %10 = stablehlo.multiply %9, %3 : tensor<16x64xf32>
    %11 = stablehlo.multiply %10, %1 : tensor<16x64xf32>
    %12 = stablehlo.add %10, %11 : tensor<16x64xf32>
    %13 = stablehlo.dot_general %12, %arg2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %14 = stablehlo.transpose %13, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %15 = stablehlo.add %arg1, %14 : tensor<64x64xf32>
    return %15 : tensor<64x64xf32>
  }
}
