// A module in which a pass says of some values only that they are not reduced is not written: status 1, and one line.
// RUN: not env PYTHONPATH=%S/Inputs %par-opt %s --load-pass-plugin=losing_plugin --passes=grad-sync,lose-tag -o %t.mlir 2> %t.stderr
// RUN: FileCheck %s < %t.stderr
// RUN: test ! -e %t.mlir
// RUN: %par-opt %s --passes=grad-sync | FileCheck %s --check-prefix=WHOLE
// The form between two passes is another: what a pass of another run completes.
// RUN: %par-opt %s --passes=expose-all-reduces,defer-sync | %par-opt --passes=annotate-unreduced | FileCheck %s --check-prefix=WHOLE
// Nor with --audit, whose report says it.
// RUN: not env PYTHONPATH=%S/Inputs %par-opt %s --load-pass-plugin=losing_plugin --passes=grad-sync,lose-tag --audit --target=cpu:4 -o %t.mlir > %t.txt 2> %t.stderr
// RUN: test ! -e %t.mlir

// CHECK:      par-opt: error: {{.*}}gaps.mlir: the passes leave it half marked, and it is not written: stablehlo.add at {{.*}}gaps.mlir:{{[0-9]+}}:{{[0-9]+}}: its result is declared unreduced, and its addends are not
// CHECK-NOT:  {{.}}

// WHOLE: stablehlo.dot_general
// WHOLE: sdy.sharding_constraint {{.*}}unreduced={"data"}

module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4]>
  func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %zeros = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %l:2 = stablehlo.while(%i = %zero, %sum = %zeros) : tensor<i32>, tensor<8x8xf32>
    cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %p = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.add %i, %one : tensor<i32>
      %scale = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
      %scales = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
      %y = stablehlo.multiply %x, %scales : tensor<16x8xf32>
      %d = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %a = stablehlo.add %sum, %d : tensor<8x8xf32>
      stablehlo.return %n, %a : tensor<i32>, tensor<8x8xf32>
    }
    return %l#1 : tensor<8x8xf32>
  }
}
