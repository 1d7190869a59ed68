// IR dumps go to stderr, with MLIR's headers, around our passes and MLIR's.
// RUN: %par-opt %s --passes=cse,inline-calls --mlir-print-ir-before-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=BEFORE-ALL
// RUN: %par-opt %s --passes=cse,inline-calls --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER-ALL
// RUN: %par-opt %s --passes=cse,inline-calls --mlir-print-ir-before=inline-calls -o /dev/null 2>&1 | FileCheck %s --check-prefix=BEFORE
// RUN: %par-opt %s --passes=inline-calls,cse,canonicalize --mlir-print-ir-after=cse,canonicalize -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER
// RUN: %par-opt %s --passes='func.func(cse,canonicalize)' --mlir-print-ir-after=canonicalize -o /dev/null 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: %par-opt %s --passes='func.func(cse)' --mlir-print-ir-after=cse --mlir-print-ir-module-scope --mlir-disable-threading -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCOPE
// RUN: %par-opt %s --passes=cse,inline-calls,canonicalize --mlir-print-ir-after-change -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHANGE
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=cse,probe-break --mlir-print-ir-after-failure --mlir-pass-pipeline-crash-reproducer=%t -o /dev/null 2>&1 | FileCheck %s --check-prefix=FAILURE
// RUN: %par-opt %s --passes=cse --mlir-print-ir-before-all --mlir-print-op-generic -o /dev/null 2>&1 | FileCheck %s --check-prefix=GENERIC
// RUN: %par-opt %s --passes=cse,inline-calls -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// RUN: %par-opt %s --passes=cse,inline-calls --mlir-timing -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIMING
// RUN: %par-opt %s --passes=inline-calls,inline-calls --mlir-pass-statistics -o /dev/null 2>&1 | FileCheck %s --check-prefix=STATISTICS
// RUN: rm -rf %t.tree && %par-opt %s --passes=cse,inline-calls,cse --mlir-print-ir-after-all --mlir-print-ir-tree-dir=%t.tree -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// RUN: ls %t.tree/builtin_module_no-symbol-name | FileCheck %s --check-prefix=TREE
// RUN: %par-opt %s --passes='builtin.module(cse,func.func( canonicalize ))' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// STATISTICS:      Pass statistics report
// STATISTICS:      'inline-calls'
// STATISTICS-NEXT: (S) [[#]] applied
// STATISTICS-NEXT: (S) [[#]] missed
// STATISTICS-NOT:  'inline-calls'

// TREE:            0_cse.mlir
// TREE-NEXT:       1_inline-calls.mlir
// TREE-NEXT:       2_cse.mlir

// BEFORE-ALL:      IR Dump Before CSEPass: cse
// BEFORE-ALL:      IR Dump Before inline-calls: inline-calls //----- //
// BEFORE-ALL-NOT:  IR Dump

// AFTER-ALL:       IR Dump After CSEPass: cse
// AFTER-ALL:       IR Dump After inline-calls: inline-calls //----- //
// AFTER-ALL-NOT:   IR Dump

// BEFORE-NOT:      CSEPass
// BEFORE:          // -----// IR Dump Before inline-calls: inline-calls //----- //
// BEFORE-NEXT:     module {
// BEFORE-NOT:      IR Dump

// AFTER-NOT:       inline-calls
// AFTER:           IR Dump After CSEPass: cse
// AFTER:           IR Dump After CanonicalizerPass: canonicalize
// AFTER-NOT:       IR Dump

// NESTED-NOT:      CSEPass
// NESTED:          IR Dump After CanonicalizerPass: canonicalize
// NESTED-NEXT:     func.func @f
// NESTED-NOT:      IR Dump

// SCOPE:           IR Dump After CSEPass: cse
// SCOPE-NEXT:      module {

// CHANGE:          IR Dump After CSEPass: cse
// CHANGE-NOT:      IR Dump

// FAILURE-NOT:     IR Dump After CSEPass
// FAILURE:         IR Dump After probe-break Failed
// FAILURE-NOT:     IR Dump

// GENERIC:         IR Dump Before CSEPass: cse
// GENERIC:         "func.func"()

// NONE-NOT:        {{.}}

// TIMING:          Execution time report
// TIMING:          CSEPass
// TIMING-NOT:      Execution time report
// TIMING:          inline-calls
// TIMING-NOT:      Execution time report

// PIPELINE:        {{^}}builtin.module(cse,func.func( canonicalize )){{$}}
// PIPELINE-NOT:    {{.}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %x, %x : tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
