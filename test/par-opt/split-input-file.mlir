// Each part between the markers is a module of its own, and positions are those of the whole file.
// RUN: %par-opt %s --split-input-file --passes=cse | FileCheck %s
// RUN: %par-opt %s -split-input-file -passes=cse | FileCheck %s
// RUN: %par-opt %s --split-input-file --mlir-print-debuginfo | FileCheck %s --check-prefix=LOCATION
// RUN: not %par-opt %s 2>&1 | FileCheck %s --check-prefix=WHOLE
// RUN: not %par-opt %S/Inputs/second-invalid.mlir --split-input-file 2>&1 | FileCheck %s --check-prefix=INVALID
// Another marker, on stdin.
// RUN: sed 's|^// -----$|// =====|' %s | %par-opt '--split-input-file=// =====' | FileCheck %s --check-prefix=MARKER
// Text goes through unchanged, so parsing what was printed gives the same.
// RUN: %par-opt %s --split-input-file > %t.mlir && %par-opt %t.mlir --split-input-file | cmp %t.mlir -
// Bytecode holds one module.
// RUN: not %par-opt %s --split-input-file --emit-bytecode -o %t.bc 2>&1 | FileCheck %s --check-prefix=BYTECODE

// CHECK:      module {
// CHECK-NEXT:   func.func @f()
// CHECK:      {{^// -----$}}
// CHECK-NEXT: module {
// CHECK-NEXT:   func.func @f(%{{.*}}: i32)
// CHECK:      {{^// -----$}}
// CHECK-NEXT: module @named {
// CHECK-NOT:  // -----
// LOCATION:   loc("{{.*}}split-input-file.mlir":32:1)
// LOCATION:   loc("{{.*}}split-input-file.mlir":36:1)
// WHOLE:      split-input-file.mlir:{{[0-9]+}}:1: redefinition of symbol named 'f'
// INVALID:    second-invalid.mlir:6:10: use of undeclared SSA value name
// MARKER:     {{^// =====$}}
// BYTECODE:   par-opt: error: --emit-bytecode writes one module, and the input has 3
func.func @f() {
  return
}
// -----
func.func @f(%x: i32) {
  return
}
// -----
module @named {}
