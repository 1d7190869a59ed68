// A module that does not say for how many devices it is, is for those of its mesh.
// RUN: %par-opt %s --audit | FileCheck %s
// RUN: not %par-opt %s --audit --target=cpu:4 2>&1 | FileCheck %s --check-prefix=FEW

// CHECK:      cpu:8, no passes
// CHECK:      all-reduce f32[8,8] outside loops, over data, audit-devices.mlir:[[#]] dot_general

// FEW:        cpu:4 has 4 devices, the module is for 8 devices (1 replica x 8 partitions)

module {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}
