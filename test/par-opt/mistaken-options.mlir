// Options that mean something else, or nothing beside another one: one line, and exit status 1.
// RUN: not %par-opt %s --cse 2>&1 | FileCheck %s --check-prefix=ISPASS
// RUN: not %par-opt %s -grad-sync=x 2>&1 | FileCheck %s --check-prefix=ISPIPELINE
// RUN: not %par-opt %s --passes='grad-sync{policy=deffer}' 2>&1 | FileCheck %s --check-prefix=CHOICE
// RUN: not %par-opt %s -o %t.a -o %t.b 2>&1 | FileCheck %s --check-prefix=OUTPUTS
// RUN: not %par-opt %s -o %t.a --audit --audit-output=%t.a 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not %par-opt %s --load-pass-plugin=os 2>&1 | FileCheck %s --check-prefix=NOPLUGIN
// RUN: not %par-opt %s --audit --target=cpu 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not %par-opt %s --audit --target=cpu:2 --target=CPU:2 2>&1 | FileCheck %s --check-prefix=TARGETS
// RUN: not %par-opt %s --mlir-print-ir-tree-dir=%t 2>&1 | FileCheck %s --check-prefix=TREE
// RUN: not %par-opt %s --mlir-print-ir-tree-dir=%t -p cse --mlir-print-ir-after=cse 2>&1 | FileCheck %s --check-prefix=TREENAMES

// ISPASS:    {{^}}par-opt: error: unknown option '--cse': passes are named in the pipeline, --passes=cse{{$}}
// ISPIPELINE: {{^}}par-opt: error: unknown option '--grad-sync': passes are named in the pipeline, --passes=grad-sync{{$}}
// CHOICE:    {{^}}par-opt: error: grad-sync{policy=deffer}: expected one of {{.*}}; did you mean `defer`?
// OUTPUTS:   {{^}}par-opt: error: -o: it is given twice
// SAME:      {{^}}par-opt: error: -o and --audit-output both write '{{.*}}.a'
// NOPLUGIN:  {{^}}par-opt: error: plug-in `os` registers no pass
// TARGET:    {{^}}par-opt: error: no target `cpu`: expected the number of devices, as in `cpu:8`
// TARGETS:   {{^}}par-opt: error: --target=cpu:2 is given twice
// TREE:      {{^}}par-opt: error: --mlir-print-ir-tree-dir says where to: give --mlir-print-ir-after-all, too
// TREENAMES: {{^}}par-opt: error: --mlir-print-ir-tree-dir numbers the dumps of all passes: leave out the names
