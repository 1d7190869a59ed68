// A pass that fails is blamed in one line, and leaves a reproducer that fails again.
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=cse,probe-raise --mlir-pass-pipeline-crash-reproducer=%t.raise 2>&1 | FileCheck %s --check-prefix=RAISE
// RUN: not %par-opt --load-pass-plugin=probe_plugin --run-reproducer %t.raise --mlir-pass-pipeline-crash-reproducer=%t.again 2>&1 | FileCheck %s --check-prefix=RAISE
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-raise --mlir-pass-pipeline-crash-reproducer=%t.raise --debug 2>&1 | FileCheck %s --check-prefix=TRACE
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=cse,probe-break --mlir-pass-pipeline-crash-reproducer=%t.break 2>&1 | FileCheck %s --check-prefix=BREAK
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=cse,probe-crash --mlir-pass-pipeline-crash-reproducer=%t.crash 2>&1 | FileCheck %s --check-prefix=CRASH
// RUN: FileCheck %s --check-prefix=REPRODUCER < %t.crash
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-forget --mlir-pass-pipeline-crash-reproducer=%t.forget 2>&1 | FileCheck %s --check-prefix=FORGET
// A temporary file, when none is named.
// RUN: not env TMPDIR=%T %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-raise 2>&1 | FileCheck %s --check-prefix=TEMPORARY
// Without verification between the passes, the invalid module comes out, in generic form.
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-break --verify-each=0 2>/dev/null | FileCheck %s --check-prefix=UNVERIFIED
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-break --verify-each --mlir-pass-pipeline-crash-reproducer=%t.break 2>&1 | FileCheck %s --check-prefix=BREAK
// A reproducer on request, which runs again.
// RUN: %par-opt %s --passes=cse,inline-calls --mlir-generate-reproducer=%t.asked -o %t.mlir
// RUN: %par-opt --run-reproducer %t.asked 2>&1 | cmp %t.mlir -
// RUN: not %par-opt --run-reproducer %t.asked --passes=cse 2>&1 | FileCheck %s --check-prefix=BOTH

// RAISE:       {{^}}par-opt: internal error in probe-raise: KeyError: 'probe' ({{.*}}probe_plugin.py:{{[0-9]+}})
// RAISE-NEXT:  {{^}}par-opt: note: a reproducer was written to {{.*}}defects.mlir.tmp.
// RAISE-NOT: {{par-opt|Traceback|line}}
// TRACE:       Traceback
// BREAK:       {{^}}par-opt: internal error in probe-break: {{.*}}defects.mlir:{{[0-9]+}}:8: 'stablehlo.add' op expected 2 operands, but found 0
// BREAK-NEXT:  {{^}}par-opt: note: a reproducer was written to {{.*}}.break
// BREAK-NOT: {{par-opt|Traceback|line}}
// CRASH:       {{^}}par-opt: error: {{.*}}defects.mlir: MLIR crashed (SIGSEGV) while running probe-crash
// CRASH-NEXT:  {{^}}par-opt: note: a reproducer was written to {{.*}}.crash
// CRASH-NOT: {{par-opt|Traceback|line}}
// FORGET:      {{^}}par-opt: internal error in probe-forget: TypeError: pass `probe-forget` returned NoneType, not its list of remarks
// TEMPORARY:   {{^}}par-opt: note: a reproducer was written to {{.*}}par-opt-{{.*}}.mlir
// UNVERIFIED:  "stablehlo.add"() : () -> tensor<4xf32>
// BOTH:        {{^}}par-opt: error: --run-reproducer takes the pipeline from its file

// REPRODUCER:      // par-opt --load-pass-plugin=probe_plugin --run-reproducer {{.*}}.crash
// REPRODUCER-NEXT: #loc
// REPRODUCER:      loc("{{.*}}defects.mlir":
// REPRODUCER:      pipeline: "builtin.module(cse,probe-crash)"
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
