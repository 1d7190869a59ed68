// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#halves_permuted = dense<[[7, 6, 5, 4], [1, 0, 2, 3]]> : tensor<2x4xi64>
#everyone = dense<> : tensor<0x0xi64>
#backwards = dense<[[7, 6, 5, 4, 3, 2, 1, 0]]> : tensor<1x8xi64>
#one_by_one = dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK-LABEL: func.func public @sum_of_two
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[T:.*]] = stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT:    %[[S:.*]] = "stablehlo.all_reduce"(%[[T]])
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return %[[S]]
// REMARK-DAG: [fuse-all-reduces] stablehlo.add applied: 2 reduced arrays (32 bytes per device) became 1 reduced array (16 bytes per device)
func.func public @sum_of_two(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// A term that is not reduced stays outside, wherever it stands in the sum.
// CHECK-LABEL: func.func public @sum_with_other_terms
// CHECK-SAME:    (%[[ACC:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[T:.*]] = stablehlo.subtract %[[X]], %[[Y]]
// CHECK-NEXT:    %[[S:.*]] = "stablehlo.all_reduce"(%[[T]])
// CHECK:         %[[R:.*]] = stablehlo.add %[[ACC]], %[[S]]
// CHECK-NEXT:    return %[[R]]
func.func public @sum_with_other_terms(%acc: tensor<4xf32>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %acc, %a : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %r = stablehlo.subtract %s, %b : tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @tree_of_five
// CHECK:         "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.all_reduce
func.func public @tree_of_five(%v: tensor<4xf32>, %w: tensor<4xf32>, %x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%v) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%w) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %e = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %ab = stablehlo.add %a, %b : tensor<4xf32>
  %cd = stablehlo.subtract %c, %d : tensor<4xf32>
  %de = stablehlo.negate %e : tensor<4xf32>
  %abcd = stablehlo.add %ab, %cd : tensor<4xf32>
  %s = stablehlo.add %de, %abcd : tensor<4xf32>
  return %s : tensor<4xf32>
}

// A term of two sums: work is done twice because 3 arrays become 2.
// CHECK-LABEL:   func.func public @term_of_two_sums
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>, %[[Z:.*]]: tensor<4xf32>)
// CHECK-NEXT:      %[[XY:.*]] = stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT:      %[[S:.*]] = "stablehlo.all_reduce"(%[[XY]])
// CHECK:           %[[XZ:.*]] = stablehlo.add %[[X]], %[[Z]]
// CHECK-NEXT:      %[[T:.*]] = "stablehlo.all_reduce"(%[[XZ]])
// CHECK:           return %[[S]], %[[T]]
func.func public @term_of_two_sums(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  %t = stablehlo.add %a, %c : tensor<4xf32>
  return %s, %t : tensor<4xf32>, tensor<4xf32>
}

// A shared sum is reduced where it is shared.
// CHECK-LABEL:   func.func public @shared_sum
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT:      %[[XY:.*]] = stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT:      %[[S:.*]] = "stablehlo.all_reduce"(%[[XY]])
// CHECK:           %[[N:.*]] = stablehlo.negate %[[S]]
// CHECK-NEXT:      %[[P:.*]] = stablehlo.multiply %[[S]], %[[S]]
// CHECK-NEXT:      return %[[N]], %[[P]]
func.func public @shared_sum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  %n = stablehlo.negate %s : tensor<4xf32>
  %sq = stablehlo.multiply %s, %s : tensor<4xf32>
  return %n, %sq : tensor<4xf32>, tensor<4xf32>
}

// A reduction moves behind a value, and another behind what is made of that value: three arrays instead of four.
// CHECK-LABEL:   func.func public @sum_with_a_reduced_term
// CHECK-COUNT-3:   "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
func.func public @sum_with_a_reduced_term(%w: tensor<4xf32>, %x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%w) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.negate %a : tensor<4xf32>
  %c = stablehlo.negate %b : tensor<4xf32>
  %d = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %e = stablehlo.add %c, %d : tensor<4xf32>
  %f = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %g = stablehlo.add %e, %f : tensor<4xf32>
  %h = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %i = stablehlo.add %g, %h : tensor<4xf32>
  return %b, %c, %i : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @tied_weight
// CHECK-SAME:      (%[[X:.*]]: tensor<4x2xf32>, %[[Y:.*]]: tensor<2x4xf32>)
// CHECK-NEXT:      %[[U:.*]] = stablehlo.transpose %[[Y]], dims = [1, 0]
// CHECK-NEXT:      %[[V:.*]] = stablehlo.add %[[X]], %[[U]]
// CHECK-NEXT:      %[[S:.*]] = "stablehlo.all_reduce"(%[[V]])
// CHECK-NOT:       stablehlo.all_reduce
func.func public @tied_weight(%x: tensor<4x2xf32>, %y: tensor<2x4xf32>) -> tensor<4x2xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %s = stablehlo.add %a, %t : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// pmean + pmean: division by a constant, and by a scalar that a reduction made uniform.
// CHECK-LABEL:   func.func public @means
// CHECK:           %[[N:.*]] = "stablehlo.all_reduce"(%arg2)
// CHECK:           stablehlo.divide %arg0, %{{.*}} : tensor<4xf32>
// CHECK:           stablehlo.divide %arg1, %{{.*}} : tensor<4xf32>
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @means(%x: tensor<4xf32>, %y: tensor<4xf32>, %count: tensor<f32>) -> tensor<4xf32> {
  %n = "stablehlo.all_reduce"(%count) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %m = stablehlo.multiply %n, %one : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<f32>
  %eights = stablehlo.broadcast_in_dim %eight, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %c = stablehlo.divide %a, %eights : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4xf32>
  %ns = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %d = stablehlo.divide %b, %two : tensor<4xf32>
  %e = stablehlo.multiply %ns, %d : tensor<4xf32>
  %s = stablehlo.add %c, %e : tensor<4xf32>
  return %s : tensor<4xf32>
}

// A factor that is itself reduced: the factor is reduced, the other operand stays partial.
// CHECK-LABEL:   func.func public @scaled_by_a_reduced_scalar
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @scaled_by_a_reduced_scalar(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<f32>) -> tensor<4xf32> {
  %f = "stablehlo.all_reduce"(%w) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
  %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.multiply %fs, %a : tensor<4xf32>
  %d = stablehlo.multiply %b, %fs : tensor<4xf32>
  %s = stablehlo.add %c, %d : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @widening_convert
// CHECK-SAME:      (%[[X:.*]]: tensor<4xbf16>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT:      %[[W:.*]] = stablehlo.convert %[[X]] : (tensor<4xbf16>) -> tensor<4xf32>
// CHECK-NEXT:      %[[V:.*]] = stablehlo.add %[[W]], %[[Y]]
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[V]])
// CHECK-NEXT:      ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>):
// CHECK-NOT:       stablehlo.all_reduce
func.func public @widening_convert(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Each row of the table that moves data, on one side of a sum.
// CHECK-LABEL:   func.func public @moved_elements
// CHECK:           "stablehlo.all_reduce"(%{{.*}})
// CHECK:           : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NOT:       stablehlo.all_reduce
func.func public @moved_elements(%x: tensor<2x1xf32>, %y: tensor<2xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %i = stablehlo.constant dense<1> : tensor<i32>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
  %c = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %a1 = stablehlo.reshape %a : (tensor<2x1xf32>) -> tensor<2xf32>
  %a2 = stablehlo.pad %a1, %zero, low = [1], high = [1], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  %b1 = stablehlo.reverse %b, dims = [0] : tensor<2xf32>
  %b2 = stablehlo.concatenate %b, %b1, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %c1 = stablehlo.dynamic_update_slice %c, %b, %i : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
  %c2 = stablehlo.dynamic_slice %c1, %i, sizes = [2] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
  %c3 = stablehlo.slice %c2 [0:1] : (tensor<2xf32>) -> tensor<1xf32>
  %c4 = stablehlo.broadcast_in_dim %c3, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
  %c5 = stablehlo.select %yes, %c4, %b2 : tensor<i1>, tensor<4xf32>
  %s = stablehlo.add %a2, %b2 : tensor<4xf32>
  %t = stablehlo.add %c5, %c1 : tensor<4xf32>
  %u = stablehlo.subtract %s, %t : tensor<4xf32>
  return %u : tensor<4xf32>
}

// A broadcast makes closing after it dearer, so the sum is closed before.
// CHECK-LABEL:   func.func public @closed_before_a_broadcast
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           : (tensor<f32>) -> tensor<f32>
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.broadcast_in_dim
func.func public @closed_before_a_broadcast(%x: tensor<f32>, %y: tensor<f32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
  %s = stablehlo.add %a, %b : tensor<f32>
  %r = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Elements that nobody reads are not reduced.
// CHECK-LABEL:   func.func public @slices_of_one
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           : (tensor<2xf32>) -> tensor<2xf32>
// CHECK-NOT:       stablehlo.all_reduce
func.func public @slices_of_one(%x: tensor<6xf32>) -> tensor<2xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<6xf32>) -> tensor<6xf32>
  %l = stablehlo.slice %a [0:2] : (tensor<6xf32>) -> tensor<2xf32>
  %h = stablehlo.slice %a [4:6] : (tensor<6xf32>) -> tensor<2xf32>
  %s = stablehlo.add %l, %h : tensor<2xf32>
  return %s : tensor<2xf32>
}

// Only some results of a variadic all_reduce are summed; the others stay.
// CHECK-LABEL:   func.func public @variadic
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<2xf32>, %[[Z:.*]]: tensor<4xf32>)
// CHECK-NEXT:      %[[B:.*]] = "stablehlo.all_reduce"(%[[Y]])
// CHECK:           %[[V:.*]] = stablehlo.add %[[X]], %[[Z]]
// CHECK-NEXT:      %[[S:.*]] = "stablehlo.all_reduce"(%[[V]])
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return %[[S]], %[[B]]
func.func public @variadic(%x: tensor<4xf32>, %y: tensor<2xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %a:3 = "stablehlo.all_reduce"(%x, %y, %z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>)
  %s = stablehlo.add %a#0, %a#2 : tensor<4xf32>
  return %s, %a#1 : tensor<4xf32>, tensor<2xf32>
}

// CHECK-LABEL:   func.func public @reduce_scatters
// CHECK-SAME:      (%[[ACC:.*]]: tensor<2xf32>, %[[X:.*]]: tensor<16xf32>, %[[Y:.*]]: tensor<16xbf16>)
// CHECK:           stablehlo.divide %[[X]], %{{.*}} : tensor<16xf32>
// CHECK:           stablehlo.convert %[[Y]] : (tensor<16xbf16>) -> tensor<16xf32>
// CHECK:           "stablehlo.reduce_scatter"(
// CHECK:           : (tensor<16xf32>) -> tensor<2xf32>
// CHECK-NOT:       stablehlo.reduce_scatter
// CHECK:           stablehlo.add %[[ACC]]
func.func public @reduce_scatters(%acc: tensor<2xf32>, %x: tensor<16xf32>, %y: tensor<16xbf16>) -> tensor<2xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %halves = stablehlo.broadcast_in_dim %half, dims = [] : (tensor<f32>) -> tensor<2xf32>
  %four = stablehlo.constant dense<4.0> : tensor<2xf32>
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xbf16>) -> tensor<2xbf16>
  %a1 = stablehlo.divide %a, %four : tensor<2xf32>
  %b1 = stablehlo.convert %b : (tensor<2xbf16>) -> tensor<2xf32>
  %b2 = stablehlo.multiply %halves, %b1 : tensor<2xf32>
  %s = stablehlo.add %acc, %a1 : tensor<2xf32>
  %t = stablehlo.subtract %s, %b2 : tensor<2xf32>
  return %t : tensor<2xf32>
}

// What an optimization_barrier holds beside it stays as it is; it holds all of what is scattered behind it.
// CHECK-LABEL:   func.func public @held_shards
// CHECK-SAME:      (%[[X:.*]]: tensor<16xf32>, %[[Y:.*]]: tensor<16xf32>, %[[Z:.*]]: tensor<3xi32>)
// CHECK:           %[[B:.*]]:2 = stablehlo.optimization_barrier %[[Z]], %[[X]] : tensor<3xi32>, tensor<16xf32>
// CHECK:           %[[V:.*]] = stablehlo.add %[[B]]#1, %[[Y]]
// CHECK:           %[[S:.*]] = "stablehlo.reduce_scatter"(%[[V]])
// CHECK-NOT:       stablehlo.reduce_scatter
// CHECK:           return %[[S]], %[[B]]#0
func.func public @held_shards(%x: tensor<16xf32>, %y: tensor<16xf32>, %z: tensor<3xi32>) -> (tensor<2xf32>, tensor<3xi32>) {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %held:2 = stablehlo.optimization_barrier %z, %a : tensor<3xi32>, tensor<2xf32>
  %s = stablehlo.add %held#1, %b : tensor<2xf32>
  return %s, %held#0 : tensor<2xf32>, tensor<3xi32>
}

// Two that one barrier holds are added behind it, to what is not reduced, which it holds, too.
// CHECK-LABEL:   func.func public @added_behind_a_barrier
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:           %[[B:.*]]:4 = stablehlo.optimization_barrier %[[X]], %[[Y]], %[[Y]], %[[X]]
// CHECK:           %[[P:.*]] = stablehlo.add %[[B]]#0, %[[B]]#2
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[P]])
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           %[[T:.*]] = stablehlo.add %[[B]]#3, %[[S]]
// CHECK-NEXT:      stablehlo.multiply %[[T]], %[[B]]#1
func.func public @added_behind_a_barrier(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %more = stablehlo.add %a, %x : tensor<4xf32>
  %held:3 = stablehlo.optimization_barrier %more, %y, %b : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  %s = stablehlo.add %held#0, %held#2 : tensor<4xf32>
  %t = stablehlo.multiply %s, %held#1 : tensor<4xf32>
  return %t : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @maxima
// CHECK-SAME:      (%[[ACC:.*]]: tensor<4xf32>, %[[X:.*]]: tensor<2x2xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:           %[[U:.*]] = stablehlo.reshape %[[X]]
// CHECK:           %[[V:.*]] = stablehlo.maximum %[[U]], %[[Y]]
// CHECK:           %[[M:.*]] = "stablehlo.all_reduce"(%[[V]])
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.maximum %[[ACC]], %[[M]]
func.func public @maxima(%acc: tensor<4xf32>, %x: tensor<2x2xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.reshape %a : (tensor<2x2xf32>) -> tensor<4xf32>
  %m = stablehlo.maximum %acc, %c : tensor<4xf32>
  %n = stablehlo.maximum %m, %b : tensor<4xf32>
  return %n : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @integers
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @integers(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xi8> {
  %three = stablehlo.constant dense<3> : tensor<4xi8>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.add %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.add %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
  %c = stablehlo.multiply %three, %b : tensor<4xi8>
  %s = stablehlo.add %a, %c : tensor<4xi8>
  return %s : tensor<4xi8>
}

// The other term of the concatenation is no sum over devices: zeros stand for it.
// CHECK-LABEL:   func.func public @complex_with_zeros
// CHECK:           stablehlo.complex
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @complex_with_zeros(%x: tensor<8xf32>, %y: tensor<7xf32>, %o: tensor<1xf32>) -> tensor<8xf32> {
  %xc = stablehlo.complex %x, %x : tensor<8xcomplex<f32>>
  %yc = stablehlo.complex %y, %y : tensor<7xcomplex<f32>>
  %oc = stablehlo.complex %o, %o : tensor<1xcomplex<f32>>
  %a = "stablehlo.all_reduce"(%xc) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  %b = "stablehlo.all_reduce"(%yc) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<7xcomplex<f32>>) -> tensor<7xcomplex<f32>>
  %c = stablehlo.concatenate %b, %oc, dim = 0 : (tensor<7xcomplex<f32>>, tensor<1xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  %s = stablehlo.add %a, %c : tensor<8xcomplex<f32>>
  %r = stablehlo.real %s : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
  %i = stablehlo.imag %s : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
  %t = stablehlo.subtract %r, %i : tensor<8xf32>
  return %t : tensor<8xf32>
}

// A second kind of reduction, freed by the first: each kind is fused with its own.
// CHECK-LABEL:   func.func public @two_kinds
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @two_kinds(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  %t = stablehlo.add %s, %c : tensor<4xf32>
  %u = stablehlo.add %t, %d : tensor<4xf32>
  return %u : tensor<4xf32>
}

// Legal when: the reductions are of one kind: all_reduce, or reduce_scatter on one dimension
// CHECK-LABEL:   func.func public @all_reduce_and_reduce_scatter
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.reduce_scatter
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: one is an all_reduce, the other a reduce_scatter
func.func public @all_reduce_and_reduce_scatter(%x: tensor<2xf32>, %y: tensor<16xf32>) -> tensor<2xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %s = stablehlo.add %a, %b : tensor<2xf32>
  return %s : tensor<2xf32>
}

// CHECK-LABEL:   func.func public @scattered_on_different_dimensions
// CHECK-COUNT-2:   stablehlo.reduce_scatter
// CHECK-NOT:       stablehlo.reduce_scatter
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reduce_scatters differ in dimension
func.func public @scattered_on_different_dimensions(%x: tensor<16x2xf32>, %y: tensor<2x16xf32>) -> tensor<2x2xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16x2xf32>) -> tensor<2x2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 1 : i64} : (tensor<2x16xf32>) -> tensor<2x2xf32>
  %s = stablehlo.add %a, %b : tensor<2x2xf32>
  return %s : tensor<2x2xf32>
}

// Legal when: they have the same reducer
// CHECK-LABEL:   func.func public @sum_and_maximum
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reductions differ in reducer
func.func public @sum_and_maximum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Legal when: they have the same replica groups, however these are written
// CHECK-LABEL:   func.func public @different_groups
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reductions differ in replica groups
func.func public @different_groups(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @same_groups_written_differently
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @same_groups_written_differently(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves_permuted} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #everyone} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  %t = stablehlo.add %c, %d : tensor<4xf32>
  return %s, %t : tensor<4xf32>, tensor<4xf32>
}

// The order of devices in a group decides which shard each gets.
// CHECK-LABEL:   func.func public @reduce_scatter_groups_in_another_order
// CHECK-COUNT-2:   stablehlo.reduce_scatter
// CHECK-NOT:       stablehlo.reduce_scatter
func.func public @reduce_scatter_groups_in_another_order(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<2xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #backwards, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %s = stablehlo.add %a, %b : tensor<2xf32>
  return %s : tensor<2xf32>
}

// Legal when: they have the same channel mode
// CHECK-LABEL:   func.func public @different_channel_modes
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reductions differ in channel mode
func.func public @different_channel_modes(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @channel_without_global_ids
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @channel_without_global_ids(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Legal when: they carry the same other attributes, but for metadata that only hints
// CHECK-LABEL:   func.func public @different_attributes
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reductions differ in attributes: user.tag="y"
func.func public @different_attributes(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, user.tag = "y"} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Metadata of XLA keeps reductions apart only by keys that mean so; here they hint.
// CHECK-LABEL:   func.func public @different_hints
// CHECK-COUNT-1:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @different_hints(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {note = "x"}} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {other = "y"}} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @different_combiner_keys
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reductions differ in attributes: combiner_key="y"
func.func public @different_combiner_keys(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {combiner_key = "y"}} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Legal when: their metadata does not bind them to other ops of the block, as scheduling groups do
// CHECK-LABEL:   func.func public @scheduling_group
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: its metadata binds the reduction to other ops of its block: _scheduling_group_id = "3"
func.func public @scheduling_group(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {_scheduling_group_id = "3"}} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {_scheduling_group_id = "3"}} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Legal when: the reducer is one op, in the element type of its operand
// NUMERIC: skip (XLA compiles no reducer in another type)
// CHECK-LABEL:   func.func public @reducer_in_another_type
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reducer works in another element type than its operand
func.func public @reducer_in_another_type(%x: tensor<4xbf16>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// NUMERIC: skip (XLA compiles no reducer of two ops)
// CHECK-LABEL:   func.func public @reducer_of_two_ops
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the reducer is not one add, multiply, maximum, minimum, and, or of its arguments
func.func public @reducer_of_two_ops(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> %m = stablehlo.maximum %r, %p : tensor<f32> stablehlo.return %m : tensor<f32> }) {replica_groups = #one_by_one} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %p : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #one_by_one} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// A sum of i1 is an `or`, for which the rows of a sum do not hold.
// CHECK-LABEL:   func.func public @sum_of_truth_values
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a sum of i1 is not linear
func.func public @sum_of_truth_values(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i1>, %q: tensor<i1>): %r = stablehlo.add %p, %q : tensor<i1> stablehlo.return %r : tensor<i1> }) {replica_groups = #all} : (tensor<4xi1>) -> tensor<4xi1>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i1>, %q: tensor<i1>): %r = stablehlo.add %p, %q : tensor<i1> stablehlo.return %r : tensor<i1> }) {replica_groups = #all} : (tensor<4xi1>) -> tensor<4xi1>
  %s = stablehlo.add %a, %b : tensor<4xi1>
  return %s : tensor<4xi1>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#halves_permuted = dense<[[7, 6, 5, 4], [1, 0, 2, 3]]> : tensor<2x4xi64>
#everyone = dense<> : tensor<0x0xi64>
#backwards = dense<[[7, 6, 5, 4, 3, 2, 1, 0]]> : tensor<1x8xi64>
#one_by_one = dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Legal when: everything is in one block (a collective never enters or leaves a loop or a branch)
// CHECK-LABEL:   func.func public @added_in_a_loop
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK:           stablehlo.while
// CHECK-NOT:       stablehlo.all_reduce
func.func public @added_in_a_loop(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %three, %v = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare GT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.subtract %i, %one : tensor<i32>
    %s = stablehlo.add %a, %b : tensor<4xf32>
    stablehlo.return %next, %s : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_in_a_branch
// CHECK:           stablehlo.case
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.all_reduce
func.func public @reduced_in_a_branch(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %w = "stablehlo.case"(%zero) ({
    %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %w, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// In the body of a loop, sums are fused like everywhere.
// CHECK-LABEL:   func.func public @within_a_loop
// CHECK:           stablehlo.while
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @within_a_loop(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %three, %v = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare GT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %next = stablehlo.subtract %i, %one : tensor<i32>
    %a = "stablehlo.all_reduce"(%v) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.add %a, %b : tensor<4xf32>
    stablehlo.return %next, %s : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Worth it when: fewer bytes are reduced, or as many in fewer arrays
// CHECK-LABEL:   func.func public @other_use
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduced term has another use: fusing would not reduce fewer bytes
func.func public @other_use(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  return %s, %a : tensor<4xf32>, tensor<4xf32>
}

// As many bytes, but one array: the concatenation has to be made anyway.
// CHECK-LABEL:   func.func public @concatenated
// CHECK-NEXT:      stablehlo.concatenate
// CHECK-NEXT:      stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @concatenated(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.concatenate %a, %b, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}
}

// -----

module attributes {mhlo.num_replicas = 8 : i32} {

  sdy.mesh @mesh = <["data"=8]>

// What was there before the sums stays as the program constrains it.
// NUMERIC: skip (XLA runs no replicas of a program that has a mesh)
// CHECK-LABEL:   func.func public @what_was_there_stays_constrained
// CHECK-SAME:      tensor<4xf32>, %{{.*}}: tensor<4xf32>, %[[A:.*]]: tensor<4xf32>)
// CHECK:           %[[C:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}]>
// CHECK:           "stablehlo.all_reduce"
// CHECK:           stablehlo.add %[[C]], %
func.func public @what_was_there_stays_constrained(%x: tensor<4xf32>, %y: tensor<4xf32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.add %a, %r : tensor<4xf32>
  %c = sdy.sharding_constraint %b <@mesh, [{}]> : tensor<4xf32>
  %t = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.add %c, %t : tensor<4xf32>
  return %d : tensor<4xf32>
}
}

// -----

module attributes {mhlo.num_replicas = 8 : i32} {

// Worth it when: duplicating ops costs less than the communication saved; 1,000 multiplications count as one byte
// CHECK-LABEL:   func.func public @multiplied_twice
// CHECK:           "stablehlo.all_reduce"(%{{.*}})
// CHECK:           (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK:           stablehlo.dot_general
// CHECK-NOT:       stablehlo.dot_general
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
func.func public @multiplied_twice(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.iota dim = 0 : tensor<64x16384xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = stablehlo.add %a, %y : tensor<4x64xf32>
  %c = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x16384xf32>) -> tensor<4x16384xf32>
  %r = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x16384xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Few multiplications.
// CHECK-LABEL:   func.func public @multiplied_twice_at_little_cost
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.dot_general
// CHECK:           stablehlo.dot_general
// CHECK:           "stablehlo.all_reduce"(%{{.*}})
// CHECK:           (tensor<4xf32>) -> tensor<4xf32>
func.func public @multiplied_twice_at_little_cost(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %w = stablehlo.iota dim = 0 : tensor<64x64xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %b = stablehlo.add %a, %y : tensor<4x64xf32>
  %c = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %r = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
}
