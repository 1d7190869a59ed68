// Input from a file, `-` or nothing; output to stdout, `-` or a file, which is only touched on success.
// RUN: %par-opt %s | FileCheck %s
// RUN: %par-opt - < %s | FileCheck %s
// RUN: %par-opt < %s -o - | FileCheck %s
// RUN: %par-opt %s -o %t.mlir | FileCheck %s --check-prefix=SILENT --allow-empty
// RUN: FileCheck %s < %t.mlir
// RUN: %par-opt %s --passes= | cmp %t.mlir -
// An input can be its own output.
// RUN: %par-opt %t.mlir -passes=cse -o %t.mlir && FileCheck %s --check-prefix=CSE < %t.mlir

// A failure leaves the file as it was, also when a later module fails or the output is the input.
// RUN: echo kept > %t.kept
// RUN: not %par-opt %S/Inputs/invalid.mlir -o %t.kept
// RUN: not %par-opt %S/Inputs/second-invalid.mlir --split-input-file -o %t.kept
// RUN: not %par-opt %s --passes=nope -o %t.kept
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-break --mlir-pass-pipeline-crash-reproducer=%t.repro -o %t.kept 2>&1 | FileCheck %s --check-prefix=BREAK
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-crash --mlir-pass-pipeline-crash-reproducer=%t.repro -o %t.kept 2>&1 | FileCheck %s --check-prefix=CRASH
// RUN: echo kept | cmp %t.kept -
// Nothing is printed either.
// RUN: not %par-opt %S/Inputs/second-invalid.mlir --split-input-file 2>/dev/null | FileCheck %s --check-prefix=SILENT --allow-empty
// No temporary file stays behind.
// RUN: ls -a %S/Output | FileCheck %s --check-prefix=LEFT --allow-empty

// CHECK:      module {
// CHECK-NEXT:   func.func @f(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:     %[[A:.*]] = stablehlo.add %[[X]], %[[X]]
// CHECK-NEXT:     %[[B:.*]] = stablehlo.add %[[X]], %[[X]]
// CHECK-NEXT:     return %[[A]], %[[B]]
// CSE:            stablehlo.add
// CSE-NOT:        stablehlo.add
// SILENT-NOT:     {{.}}
// BREAK:          internal error in probe-break
// CRASH:          MLIR crashed (SIGSEGV)
// LEFT-NOT:       partial
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %x, %x : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
