// Every option is listed in its group, and no option is without help.
// RUN: %par-opt --help | FileCheck %s
// RUN: %par-opt -help | FileCheck %s

// CHECK:      usage: par-opt [options] [FILE]
// CHECK:      input and output:
// CHECK:      FILE
// CHECK-SAME: MLIR text or bytecode
// CHECK:      -o FILE
// CHECK:      --split-input-file [=MARKER]
// CHECK:      --emit-bytecode
// CHECK:      --allow-unregistered-dialect
// CHECK:      --no-implicit-module
// CHECK:      passes:
// CHECK: -p{{( PIPELINE)?}}, --passes{{( PIPELINE)?}}, --pass-pipeline PIPELINE
// CHECK:      --load-pass-plugin MODULE
// CHECK:      --list-passes
// CHECK:      --dump-pass-pipeline
// CHECK:      --verify-each [=0|1]
// CHECK:      --show-dialects
// CHECK:      --version
// CHECK:      --completion SHELL
// CHECK:      remarks and diagnostics:
// CHECK:      --remarks
// CHECK:      --remarks-filter REGEX
// CHECK:      --check
// CHECK:      --certificate FILE
// CHECK:      --verify-diagnostics
// CHECK:      form of the output
// CHECK:      --mlir-print-debuginfo
// CHECK:      --mlir-print-op-generic
// CHECK:      --mlir-print-local-scope
// CHECK:      --mlir-elide-elementsattrs-if-larger N
// CHECK:      IR dumps and timing
// CHECK:      --mlir-print-ir-before PASS,...
// CHECK:      --mlir-print-ir-before-all
// CHECK:      --mlir-print-ir-after PASS,...
// CHECK:      --mlir-print-ir-after-all
// CHECK:      --mlir-print-ir-after-change
// CHECK:      --mlir-print-ir-after-failure
// CHECK:      --mlir-print-ir-module-scope
// CHECK:      --mlir-print-ir-tree-dir DIR
// CHECK:      --mlir-timing
// CHECK:      --mlir-pass-statistics
// CHECK:      --mlir-disable-threading
// CHECK:      when something fails:
// CHECK:      --mlir-pass-pipeline-crash-reproducer FILE
// CHECK:      --mlir-generate-reproducer FILE
// CHECK:      --run-reproducer
// CHECK:      --debug
// CHECK:      Named pipelines:
// CHECK:      grad-sync
// CHECK:      = inline-calls,
// CHECK:      hsdp
// CHECK:      Example: par-opt step.mlir --passes=
// CHECK:      Exit status: 0, or 1 for any failure
