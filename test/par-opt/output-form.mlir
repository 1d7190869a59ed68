// The form of the output.
// RUN: %par-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=DEBUGINFO
// RUN: %par-opt %s --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LOCAL
// RUN: %par-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: %par-opt %s --mlir-elide-elementsattrs-if-larger=4 | FileCheck %s --check-prefix=ELIDED
// RUN: %par-opt %s --mlir-elide-elementsattrs-if-larger 5 | FileCheck %s --check-prefix=WHOLE
// Bytecode is read back as it was, with its locations.
// RUN: %par-opt %s --emit-bytecode -o %t.bc
// RUN: %par-opt %s --mlir-print-debuginfo > %t.mlir
// RUN: %par-opt %t.bc --mlir-print-debuginfo | cmp %t.mlir -
// RUN: %par-opt --emit-bytecode < %t.bc | %par-opt --mlir-print-debuginfo | cmp %t.mlir -
// RUN: not grep -q stablehlo.constant %t.bc

// DEBUGINFO:  stablehlo.constant {{.*}} loc(#[[LOC:loc[0-9]+]])
// DEBUGINFO:  #[[LOC]] = loc("{{.*}}output-form.mlir":{{[0-9]+}}:8)
// LOCAL:      stablehlo.constant {{.*}} loc("{{.*}}output-form.mlir":{{[0-9]+}}:8)
// GENERIC:    "func.func"() <{
// GENERIC:    "stablehlo.constant"()
// ELIDED:     dense_resource<__elided__>
// WHOLE:      dense<[1, 2, 3, 4, 5]>
func.func @f() -> tensor<5xi32> {
  %0 = stablehlo.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  return %0 : tensor<5xi32>
}
