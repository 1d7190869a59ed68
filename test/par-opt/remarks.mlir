// What passes did goes to stderr in program order, whichever pass said it first; the output is not mixed with it.
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes='probe-remark{text=late backwards},probe-remark{verdict=missed text=early}' --remarks 2>&1 >/dev/null | FileCheck %s
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-remark --remarks 2>/dev/null | FileCheck %s --check-prefix=OUTPUT
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-remark -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-remark --remarks-filter=other -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-remark --remarks-filter='^probe-r' -o /dev/null 2>&1 | FileCheck %s --check-prefix=FILTER
// The same remark of the same pass is printed once.
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-remark,probe-remark --remarks -o /dev/null 2>&1 | FileCheck %s --check-prefix=FILTER

// CHECK:      remarks.mlir:[[LINE:[0-9]+]]:8: remark: [probe-remark] stablehlo.add applied: late 0
// CHECK-NEXT: {{.*}}remarks.mlir:[[LINE]]:8: remark: [probe-remark] stablehlo.add missed: early 0
// CHECK-NEXT: {{.*}}remarks.mlir:[[NEXT:[0-9]+]]:8: remark: [probe-remark] stablehlo.add applied: late 0
// CHECK-NEXT: {{.*}}remarks.mlir:[[NEXT]]:8: remark: [probe-remark] stablehlo.add missed: early 0
// CHECK-NOT:  remark
// OUTPUT-NOT: remark
// OUTPUT:     func.func @f
// OUTPUT-NOT: remark
// NONE-NOT:   {{.}}
// FILTER:      remark: [probe-remark] stablehlo.add applied: seen 0
// FILTER-NEXT: remark: [probe-remark] stablehlo.add applied: seen 0
// FILTER-NOT:  remark
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
