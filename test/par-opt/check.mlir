// The module runs before and after the passes, on as many devices as its groups name.
// RUN: %par-opt %s --passes=fuse-all-reduces --check -o %t 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: FileCheck %s --check-prefix=WRITTEN < %t
// RUN: %par-opt %s --passes=defer-sync --check -o %t 2>&1 | FileCheck %s --check-prefix=UNCHANGED
// RUN: rm -f %t.wrong
// RUN: not %par-opt %s --load-pass-plugin=plugin_wrong --passes=forget-terms --check -o %t.wrong 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not ls %t.wrong
// RUN: not %par-opt %s --passes=fuse-all-reduces --check --split-input-file 2>&1 | FileCheck %s --check-prefix=SPLIT
// RUN: not %par-opt %S/Inputs/unregistered.mlir --allow-unregistered-dialect --passes=cse --check 2>&1 | FileCheck %s --check-prefix=UNABLE

// SAME: par-opt: check: 1 of 1 result the same, bit for bit, with 3 sets of data on 4 simulated devices
// WRITTEN-COUNT-1: stablehlo.all_reduce
// WRITTEN-NOT: stablehlo.all_reduce
// UNCHANGED: par-opt: check: the passes changed nothing
// WRONG: par-opt: error: check: 1 of 1 result wrong, with 3 sets of data on 4 simulated devices: result 0 (float32[4]): differs by {{.*}} of its largest element, on device {{[0-3]}}; it must be the same, bit for bit
// SPLIT: par-opt: error: --check is for one module: leave --split-input-file out
// UNABLE: par-opt: error: {{.*}}unregistered.mlir: it could not be checked: {{.+}}
func.func public @step(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}
