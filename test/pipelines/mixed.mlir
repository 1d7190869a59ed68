// Passes of ours and of MLIR run in the order in which they are written, in one pipeline or in a named one.
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes='probe-remark{text=before},cse,probe-remark{text=after}' --remarks 2>&1 | FileCheck %s
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --pass-pipeline='builtin.module(probe-remark{text=before},func.func(cse),probe-remark{text=after})' --remarks 2>&1 | FileCheck %s
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=cse,probe-pipeline --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPANDED

// CHECK:     applied: before 0
// CHECK:     applied: after 0
// CHECK:     applied: before 0
// CHECK-NOT: remark
// CHECK:     stablehlo.add
// CHECK-NOT: stablehlo.add
// EXPANDED:  builtin.module(cse,probe-remark{text=one},cse,probe-remark{text='two words'})
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %x, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
