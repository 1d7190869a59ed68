// The worked example of docs/writing-a-pass.md; test/numeric/test_plugin.py runs this file on 8 devices.
// RUN: %par-opt %s --load-pass-plugin=shrink_plugin --passes=shrink-all-reduces | FileCheck %s
// RUN: %par-opt %s --load-pass-plugin=shrink_plugin --passes=shrink-all-reduces --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK-LABEL: func.func public @slice_of_a_quotient
// CHECK-NEXT:    %[[EIGHT:.*]] = stablehlo.constant
// CHECK-NEXT:    %[[Q:.*]] = stablehlo.divide %arg0, %[[EIGHT]]
// CHECK-NEXT:    %[[S:.*]] = stablehlo.slice %[[Q]]
// CHECK-NEXT:    "stablehlo.all_reduce"(%[[S]])
// CHECK-NOT:     stablehlo.slice
// REMARK:      [shrink-all-reduces] stablehlo.all_reduce applied: 4 bytes per device are reduced, not 16
func.func public @slice_of_a_quotient(%x: tensor<4xf32>) -> tensor<1xf32> {
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.divide %a, %eight : tensor<4xf32>
  %s = stablehlo.slice %d [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  return %s : tensor<1xf32>
}

// What is added to it is not reduced again.
// CHECK-LABEL: func.func public @slice_of_a_sum
// CHECK-NEXT:    %[[P:.*]] = stablehlo.slice %arg0
// CHECK-NEXT:    %[[R:.*]] = stablehlo.slice %arg1
// CHECK-NEXT:    %[[A:.*]] = "stablehlo.all_reduce"(%[[P]])
// CHECK:         stablehlo.add %[[R]], %[[A]]
// REMARK-NEXT: [shrink-all-reduces] stablehlo.all_reduce applied: 4 bytes per device are reduced, not 16
func.func public @slice_of_a_sum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<1xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.add %a, %y : tensor<4xf32>
  %s = stablehlo.slice %d [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  return %s : tensor<1xf32>
}

// Legal when: the ops between them are linear, with uniform factors, predicates and indices
// CHECK-LABEL: func.func public @varying_index
// CHECK-NEXT:    "stablehlo.all_reduce"(%arg0)
// REMARK-NEXT: [shrink-all-reduces] stablehlo.all_reduce missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @varying_index(%x: tensor<4xf32>) -> tensor<1xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %i = stablehlo.replica_id : tensor<ui32>
  %s = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<4xf32>, tensor<ui32>) -> tensor<1xf32>
  return %s : tensor<1xf32>
}

// Worth it when: fewer bytes are reduced
// CHECK-LABEL: func.func public @as_many_bytes
// CHECK-NEXT:    "stablehlo.all_reduce"(%arg0)
func.func public @as_many_bytes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.negate %a : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Worth it when: nothing else reads what is reduced
// CHECK-LABEL: func.func public @two_readers
// CHECK-NEXT:    "stablehlo.all_reduce"(%arg0)
func.func public @two_readers(%x: tensor<4xf32>) -> (tensor<1xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.slice %a [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  return %s, %a : tensor<1xf32>, tensor<4xf32>
}

}
