// The module is compiled as it is and after the passes; the report says what stayed and why. It is written in place of
// the module.
// RUN: %par-opt %s --passes=defer-sync --audit | FileCheck %s --check-prefix=TEXT
// RUN: %par-opt %s --audit=html | FileCheck %s --check-prefix=HTML

// The module goes where -o says; the report to --audit-output.
// RUN: %par-opt %s --passes=defer-sync --audit=json --target=cpu:2 --audit-output=%t.json -o %t.mlir | FileCheck %s --check-prefix=NOTHING --allow-empty
// RUN: FileCheck %s --check-prefix=REPORT < %t.json
// RUN: FileCheck %s --check-prefix=MODULE < %t.mlir

// Budgets judge the module after the passes, and the report is written all the same. Without passes it has one side.
// RUN: not %par-opt %s --audit --fail-if 'sync_in_loop > 127' --fail-if 'all_reduce.executions>8' --fail-if 'all_gather.ops > 0' --audit-output=%t.txt 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: FileCheck %s --check-prefix=ALONE < %t.txt
// RUN: %par-opt %s --passes=defer-sync --audit --fail-if 'sync_in_loop > 0.256kB' --fail-if 'added.collectives > 0' --audit-baseline=%t.json -o /dev/null | FileCheck %s --check-prefix=SAME
// RUN: not %par-opt %s --audit --fail-if 'added.sync_in_loop > 0' --fail-if 'added.collectives > 0' --fail-if 'new.collectives > 0' --audit-baseline=%t.json > %t.changed 2> %t.failed
// RUN: FileCheck %s --check-prefix=CHANGED < %t.changed
// RUN: FileCheck %s --check-prefix=ADDED < %t.failed

// Mistakes take one line, before anything is compiled.
// RUN: not %par-opt %s --audit --fail-if 'sync_inloop > 0' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not %par-opt %s --audit --fail-if 'sync_ops > 1 MB' 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not %par-opt %s --audit --fail-if 'sync_bytes > 1 Mb/s' 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not %par-opt %s --audit --fail-if 'added.sync_ops > 0' 2>&1 | FileCheck %s --check-prefix=NOBASE
// RUN: not %par-opt %s --audit --audit-baseline=%s 2>&1 | FileCheck %s --check-prefix=UNREAD
// RUN: not %par-opt %s --audit --target=cpu:4 --audit-baseline=%t.json 2>&1 | FileCheck %s --check-prefix=NOTARGET
// RUN: not %par-opt %s --target=cpu:2 2>&1 | FileCheck %s --check-prefix=NOAUDIT
// RUN: not %par-opt %s --audit=xml 2>&1 | FileCheck %s --check-prefix=XML
// RUN: not %par-opt %s --audit --target=abacus:2 2>&1 | FileCheck %s --check-prefix=ABACUS
// RUN: not %par-opt %s --audit --split-input-file 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: not %par-opt %s --audit --audit-output=%t.absent/report 2>&1 | FileCheck %s --check-prefix=NODIR

// TEXT:       cpu:2, passes defer-sync
// TEXT:       per device and step {{ *}}before {{ *}}after
// TEXT:         payload in loops {{ *}}512 B {{ *}}256 B
// TEXT-NEXT:    payload outside loops {{ *}}0 B {{ *}}64 B
// TEXT:       peak memory {{ *[0-9]+}} B {{ *[0-9]+}} B
// TEXT:       collective {{ *}}arrays {{ *}}loops {{ *}}group {{ *}}axes {{ *}}source {{ *}}before {{ *}}after
// TEXT:       all-reduce f32[16] x 4 in loop `while`, audit.mlir:[[KEPT:[0-9]+]] all_reduce, 256 B per step: kept, stablehlo.sqrt does not commute with the reduction (stablehlo.sqrt at audit.mlir:{{[0-9]+}}:13) [defer-sync]
// TEXT:       all-reduce f32[16] outside loops, audit.mlir:{{[0-9]+}} all_reduce, 64 B per step: new, 64 bytes per device, now reduced after the loop and not 4 times in it [defer-sync]
// TEXT-NOT:   {{.}}

// REPORT:       "schema": "paropt.audit/1",
// REPORT:       "target": "cpu:2",
// REPORT-NEXT:  "passes": "defer-sync",
// REPORT:       "sync_in_loop": 512,
// REPORT:       "sync_in_loop": 256,
// REPORT:       "changes": null

// HTML:       <!DOCTYPE html>
// HTML:       <svg
// HTML:       </html>

// ALONE-NOT:  before
// ALONE:      cpu:2, no passes
// ALONE:        payload in loops {{ *}}512 B
// ALONE-NOT:  kept
// ALONE:      x 4 in loop `while`

// NOTHING-NOT: {{.}}
// MODULE:     stablehlo.while
// MODULE:     stablehlo.all_reduce
// MODULE:     stablehlo.all_reduce

// BUDGET:      {{^}}par-opt: budget exceeded: cpu:2: sync_in_loop > 127: it is 512 B
// BUDGET-NOT:  {{.}}
// SAME:        compared with the baseline, the collectives are the same
// CHANGED:     this change adds 1 collective:
// CHANGED-NEXT:  all-reduce 2 arrays f32[16] x 4 in loop `while`
// CHANGED:     this change removes 2 collectives:
// ADDED:       {{^}}par-opt: budget exceeded: cpu:2: added.sync_in_loop > 0: it is 256 B
// ADDED-NEXT:  {{^}}par-opt: budget exceeded: cpu:2: new.collectives > 0: it is 1{{$}}
// ADDED-NOT:   {{.}}

// NAME:      {{^}}par-opt: error: `sync_inloop > 0`: no metric is called `sync_inloop`; did you mean `sync_in_loop`?{{$}}
// NAME-NOT:  {{.}}
// COUNT:     {{^}}par-opt: error: `sync_ops > 1 MB`: sync_ops is a count: leave `MB` out{{$}}
// FORM:      {{^}}par-opt: error: `sync_bytes > 1 Mb/s`: expected NAME OP NUMBER[UNIT], such as `sync_in_loop > 0` or `peak_memory > 2GiB`{{$}}
// NOBASE:    {{^}}par-opt: error: `added.sync_ops > 0`: `added.` compares with --audit-baseline, which is not given{{$}}
// UNREAD:    {{^}}par-opt: error: {{.*}}audit.mlir: no JSON: Expecting value: line 1 column 1 (char 0){{$}}
// NOTARGET:  {{^}}par-opt: error: {{.*}}the baseline has no target `cpu:4`; it has: cpu:2{{$}}
// NOAUDIT:   {{^}}par-opt: error: --target says how to audit: give --audit, too{{$}}
// XML:       {{^}}par-opt: error: argument --audit: invalid choice: 'xml'
// ABACUS:    {{^}}par-opt: error: no target `abacus:2`: expected
// SPLIT:     {{^}}par-opt: error: --audit is for one module: leave --split-input-file out{{$}}
// NODIR:     {{^}}par-opt: error: cannot write '{{.*}}report': no directory '{{.*}}.absent'{{$}}
module attributes {mhlo.num_partitions = 2 : i32} {
func.func public @main(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<16xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %first, %a = %zero, %b = %zero) : tensor<i32>, tensor<16xf32>, tensor<16xf32>
  cond {
    %trips = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %g = stablehlo.multiply %x, %fs : tensor<16xf32>
    %moved = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    %a2 = stablehlo.add %a, %moved : tensor<16xf32>
    %y = stablehlo.add %x, %b : tensor<16xf32>
    %kept = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16xf32>) -> tensor<16xf32>
    %root = stablehlo.sqrt %kept : tensor<16xf32>
    stablehlo.return %next, %a2, %root : tensor<i32>, tensor<16xf32>, tensor<16xf32>
  }
  return %r#1, %r#2 : tensor<16xf32>, tensor<16xf32>
}
}
