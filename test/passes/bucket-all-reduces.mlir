// RUN: %par-opt %s --passes='bucket-all-reduces{max-bytes=64}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='bucket-all-reduces{max-bytes=64}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='bucket-all-reduces{max-bytes=64 form=variadic}' --split-input-file | FileCheck %s --check-prefix=VARIADIC
// RUN: %par-opt %s --passes='bucket-all-reduces{max-bytes=64 flat}' --split-input-file | FileCheck %s --check-prefix=SUMS
// RUN: %par-opt %s --passes='bucket-all-reduces{max-bytes=64 flat}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=SUMS-REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK-LABEL:   func.func public @two_arrays
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<2x3xf32>)
// CHECK-NEXT:      %[[FLAT:.*]] = stablehlo.reshape %[[Y]] : (tensor<2x3xf32>) -> tensor<6xf32>
// CHECK-NEXT:      %[[ALL:.*]] = stablehlo.concatenate %[[X]], %[[FLAT]], dim = 0
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.all_reduce"(%[[ALL]])
// CHECK:           %[[A:.*]] = stablehlo.slice %[[R]] [0:4]
// CHECK-NEXT:      %[[S:.*]] = stablehlo.slice %[[R]] [4:10]
// CHECK-NEXT:      %[[B:.*]] = stablehlo.reshape %[[S]] : (tensor<6xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:      return %[[A]], %[[B]]
// REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce applied: 2 arrays (40 bytes per device) are reduced at once
// VARIADIC-LABEL:  func.func public @two_arrays
// VARIADIC-SAME:     (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<2x3xf32>)
// VARIADIC-NEXT:     %[[R:.*]]:2 = "stablehlo.all_reduce"(%[[X]], %[[Y]])
// VARIADIC:          return %[[R]]#0, %[[R]]#1
func.func public @two_arrays(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b : tensor<4xf32>, tensor<2x3xf32>
}

// What reads the first array goes behind the bucket; what the second one needs stays before it.
// CHECK-LABEL:   func.func public @readers_move_behind
// CHECK:           %[[D:.*]] = stablehlo.abs
// CHECK:           stablehlo.all_reduce
// CHECK:           %[[A:.*]] = stablehlo.slice
// CHECK-NEXT:      %[[B:.*]] = stablehlo.slice
// CHECK-NEXT:      %[[C:.*]] = stablehlo.negate %[[A]]
// CHECK-NEXT:      return %[[C]], %[[B]]
func.func public @readers_move_behind(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.negate %a : tensor<4xf32>
  %d = stablehlo.abs %y : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%d) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %c, %b : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @several_arrays_in_one_op
// CHECK:           stablehlo.concatenate
// CHECK-NEXT:      stablehlo.all_reduce
// VARIADIC-LABEL:  func.func public @several_arrays_in_one_op
// VARIADIC-NOT:      stablehlo.concatenate
// VARIADIC:          return
func.func public @several_arrays_in_one_op(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %a:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
  return %a#0, %a#1 : tensor<4xf32>, tensor<2xf32>
}

// CHECK-LABEL:   func.func public @reduce_scatters
// CHECK-SAME:      (%[[X:.*]]: tensor<3x4xf32>, %[[Y:.*]]: tensor<2x2xf32>)
// CHECK-NEXT:      %[[APART:.*]] = stablehlo.reshape %[[X]] : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
// CHECK-NEXT:      %[[PARTS:.*]] = stablehlo.transpose %[[APART]], dims = [1, 0, 2]
// CHECK-NEXT:      %[[ROWS:.*]] = stablehlo.reshape %[[PARTS]] : (tensor<2x3x2xf32>) -> tensor<2x6xf32>
// CHECK:           %[[ALL:.*]] = stablehlo.concatenate %[[ROWS]], %{{.*}}, dim = 1 : (tensor<2x6xf32>, tensor<2x2xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.reduce_scatter"(%[[ALL]]) <{{{.*}}scatter_dimension = 0
// CHECK:           %[[S:.*]] = stablehlo.slice %[[R]] [0:1, 0:6]
// CHECK-NEXT:      stablehlo.reshape %[[S]] : (tensor<1x6xf32>) -> tensor<3x2xf32>
func.func public @reduce_scatters(%x: tensor<3x4xf32>, %y: tensor<2x2xf32>) -> (tensor<3x2xf32>, tensor<2x1xf32>) {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x1xf32>
  return %a, %b : tensor<3x2xf32>, tensor<2x1xf32>
}

// Legal when: they are of one kind, with the same reducer, replica groups, channel mode and other attributes
// CHECK-LABEL:   func.func public @different_groups
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
func.func public @different_groups(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Legal when: they are of one kind, with the same reducer, replica groups, channel mode and other attributes
// CHECK-LABEL:   func.func public @different_reducers
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
func.func public @different_reducers(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Legal when: they have the same element type
// CHECK-LABEL:   func.func public @different_element_types
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
func.func public @different_element_types(%x: tensor<4xf32>, %y: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  return %a, %b : tensor<4xf32>, tensor<4xi32>
}

// Legal when: they are in one block
// CHECK-LABEL:   func.func public @in_a_branch
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
func.func public @in_a_branch(%x: tensor<4xf32>, %y: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.if"(%c) ({ %i = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32> stablehlo.return %i : tensor<4xf32> }, { stablehlo.return %y : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Legal when: none is computed from another one
// CHECK-LABEL:   func.func public @one_after_the_other
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
// REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: it is computed from another reduction of the bucket (stablehlo.all_reduce at 
func.func public @one_after_the_other(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %m = stablehlo.maximum %a, %y : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%m) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Legal when: ops that have to move behind the bucket have no side effects
// NUMERIC: skip (XLA has no such custom_call)
// CHECK-LABEL:   func.func public @reader_with_a_side_effect
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
// REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: stablehlo.custom_call, which reads the bucket, may have side effects (stablehlo.custom_call at 
func.func public @reader_with_a_side_effect(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %m = stablehlo.custom_call @count(%a) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %m : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Legal when: each can be moved: its reducer is one op, its groups are known, its shape is static
// NUMERIC: skip (XLA compiles no reducer of two ops)
// CHECK-LABEL:   func.func public @reducer_of_two_ops
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
// REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: the reducer is not one add, multiply, maximum, minimum, and, or of its arguments
func.func public @reducer_of_two_ops(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> %r = stablehlo.abs %s : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Worth it when: the bucket stays within max-bytes
// CHECK-LABEL:   func.func public @large_bucket
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
// REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: the bucket would grow to 68 bytes (option max-bytes) (stablehlo.all_reduce at 
func.func public @large_bucket(%x: tensor<8xf32>, %y: tensor<9xf32>) -> (tensor<8xf32>, tensor<9xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8xf32>) -> tensor<8xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<9xf32>) -> tensor<9xf32>
  return %a, %b : tensor<8xf32>, tensor<9xf32>
}

// Worth it when: there are at least two arrays, or with `form=variadic`, two all_reduces
// CHECK-LABEL:   func.func public @one_array
// CHECK-NEXT:      stablehlo.all_reduce
// CHECK-NOT:       stablehlo.reshape
// CHECK:           return
func.func public @one_array(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// The loop adds up one array, too.
// SUMS-LABEL:    func.func public @flat(
// SUMS:            %[[L:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %{{.*}}) : tensor<i32>, tensor<10xf32>
// SUMS:            do {
// SUMS:              %[[T:.*]] = stablehlo.concatenate %arg0, %{{.*}}, dim = 0
// SUMS-NEXT:         %[[N:.*]] = stablehlo.add %[[SUM]], %[[T]] : tensor<10xf32>
// SUMS:            "stablehlo.all_reduce"(%[[L]]#1)
// SUMS-COUNT-2:    stablehlo.slice
// CHECK-LABEL:   func.func public @flat(
// CHECK:           stablehlo.concatenate %{{.*}}#0,
func.func public @flat(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %s0 = stablehlo.constant dense<0.0> : tensor<4xf32>
  %t0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %l:3 = stablehlo.while(%s = %s0, %i = %zero, %t = %t0) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %u = stablehlo.add %s, %x : tensor<4xf32>
    %v = stablehlo.add %y, %t : tensor<2x3xf32>
    stablehlo.return %u, %n, %v : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  }
  %a = "stablehlo.all_reduce"(%l#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%l#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b : tensor<4xf32>, tensor<2x3xf32>
}

// Legal when: with `flat`, one loop accumulates arrays of the bucket, from zero, and nothing else reads these sums
// SUMS-LABEL:    func.func public @flat_from_ones
// SUMS:            stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
// SUMS-REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: a sum does not start from zero (stablehlo.while at
func.func public @flat_from_ones(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %s0 = stablehlo.constant dense<1.0> : tensor<4xf32>
  %t0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %l:3 = stablehlo.while(%s = %s0, %i = %zero, %t = %t0) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %u = stablehlo.add %s, %x : tensor<4xf32>
    %v = stablehlo.add %y, %t : tensor<2x3xf32>
    stablehlo.return %u, %n, %v : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  }
  %a = "stablehlo.all_reduce"(%l#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%l#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b : tensor<4xf32>, tensor<2x3xf32>
}

// SUMS-LABEL:    func.func public @flat_twice
// SUMS:            stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
// SUMS-REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: a sum is also read by something else (stablehlo.while at
func.func public @flat_twice(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %s0 = stablehlo.constant dense<0.0> : tensor<4xf32>
  %t0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %l:3 = stablehlo.while(%s = %s0, %i = %zero, %t = %t0) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %u = stablehlo.add %s, %x : tensor<4xf32>
    %v = stablehlo.add %y, %t : tensor<2x3xf32>
    stablehlo.return %u, %n, %v : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  }
  %a = "stablehlo.all_reduce"(%l#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%l#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %w = stablehlo.tanh %l#0 : tensor<4xf32>
  return %a, %b, %w : tensor<4xf32>, tensor<2x3xf32>, tensor<4xf32>
}

// SUMS-LABEL:    func.func public @flat_read_in_the_loop
// SUMS:            stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
// SUMS-REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: the loop does more with a sum than add to it (stablehlo.while at
func.func public @flat_read_in_the_loop(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<4xf32>, tensor<2x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %s0 = stablehlo.constant dense<0.0> : tensor<4xf32>
  %t0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %l:3 = stablehlo.while(%s = %s0, %i = %zero, %t = %t0) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %m = stablehlo.multiply %s, %x : tensor<4xf32>
    %u = stablehlo.add %s, %m : tensor<4xf32>
    %v = stablehlo.add %y, %t : tensor<2x3xf32>
    stablehlo.return %u, %n, %v : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  }
  %a = "stablehlo.all_reduce"(%l#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%l#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %a, %b : tensor<4xf32>, tensor<2x3xf32>
}

// SUMS-LABEL:    func.func public @flat_without_a_loop
// SUMS:            stablehlo.concatenate
// SUMS-REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: the values of the bucket are not accumulated by one loop
func.func public @flat_without_a_loop(%x: tensor<4xf32>, %y: tensor<3xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3xf32>) -> tensor<3xf32>
  return %a, %b : tensor<4xf32>, tensor<3xf32>
}

// What one device gets of each array is side by side in the sum already.
// SUMS-LABEL:    func.func public @flat_scattered
// SUMS:            stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<2x5xf32>
// SUMS:            "stablehlo.reduce_scatter"(%{{.*}}#1)
// SUMS:            (tensor<2x5xf32>) -> tensor<1x5xf32>
func.func public @flat_scattered(%x: tensor<4xf32>, %y: tensor<2x3xf32>) -> (tensor<2xf32>, tensor<1x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %s0 = stablehlo.constant dense<0.0> : tensor<4xf32>
  %t0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  %l:3 = stablehlo.while(%s = %s0, %i = %zero, %t = %t0) : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %u = stablehlo.add %s, %x : tensor<4xf32>
    %v = stablehlo.add %y, %t : tensor<2x3xf32>
    stablehlo.return %u, %n, %v : tensor<4xf32>, tensor<i32>, tensor<2x3xf32>
  }
  %a = "stablehlo.reduce_scatter"(%l#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<4xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%l#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  return %a, %b : tensor<2xf32>, tensor<1x3xf32>
}

}

// -----

// Legal when: no mesh axis is left to the partitioner around the one array (it may have sharded the arrays differently)
// CHECK-LABEL:   func.func public @axis_left_to_the_partitioner
// CHECK-COUNT-2: "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         return
// REMARK-DAG: [bucket-all-reduces] stablehlo.all_reduce missed: a mesh axis is left to the partitioner here (sdy.manual_computation at
module attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func public @axis_left_to_the_partitioner(%x: tensor<8x4xf32>, %y: tensor<8x2xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>) {
  %0:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data"} (%i: tensor<2x4xf32>, %j: tensor<2x2xf32>) {
    %a = "stablehlo.all_reduce"(%i) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = "stablehlo.all_reduce"(%j) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    sdy.return %a, %b : tensor<2x4xf32>, tensor<2x2xf32>
  } : (tensor<8x4xf32>, tensor<8x2xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2x4xf32>, tensor<2x2xf32>
}

// Legal when: an all_reduce of several arrays is outside of manual computations (XLA does not compile one there)
// CHECK-LABEL:   func.func public @all_axes_manual
// CHECK:           stablehlo.concatenate
// CHECK-NEXT:      stablehlo.all_reduce
// VARIADIC-LABEL:   func.func public @all_axes_manual
// VARIADIC-COUNT-2: "stablehlo.all_reduce"(
func.func public @all_axes_manual(%x: tensor<8x4xf32>, %y: tensor<8x2xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>) {
  %0:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%i: tensor<2x4xf32>, %j: tensor<2x2xf32>) {
    %a = "stablehlo.all_reduce"(%i) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %b = "stablehlo.all_reduce"(%j) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    sdy.return %a, %b : tensor<2x4xf32>, tensor<2x2xf32>
  } : (tensor<8x4xf32>, tensor<8x2xf32>) -> (tensor<2x4xf32>, tensor<2x2xf32>)
  return %0#0, %0#1 : tensor<2x4xf32>, tensor<2x2xf32>
}
}
