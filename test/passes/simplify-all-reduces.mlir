// RUN: %par-opt %s --passes=simplify-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=simplify-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>
#across = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>
#uneven = dense<[[0, 1, 2, -1], [4, 5, 6, 7], [3, -1, -1, -1]]> : tensor<3x4xi64>
#everyone = dense<> : tensor<0x0xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// A gradient that automatic differentiation has summed, averaged once more, and what is made of that once again.
// CHECK-LABEL: func.func public @twice
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[A:.*]] = "stablehlo.all_reduce"(%[[X]])
// CHECK:         %[[N:.*]] = stablehlo.negate %[[A]]
// CHECK-NEXT:    %[[EIGHT:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[B:.*]] = stablehlo.multiply %[[N]], %[[EIGHT]]
// CHECK-NEXT:    %[[AGAIN:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[C:.*]] = stablehlo.multiply %[[B]], %[[AGAIN]]
// CHECK-NEXT:    return %[[C]]
// REMARK-COUNT-2: [simplify-all-reduces] stablehlo.all_reduce applied: all devices of a group have the same: it is that, 8 times
func.func public @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %n = stablehlo.negate %a : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%n) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// Groups of four and pairs within what was reduced, several arrays, a maximum, and integers; in a loop, of what is reduced before it.
// CHECK-LABEL: func.func public @within
// CHECK-NEXT:    %[[A:.*]]:2 = "stablehlo.all_reduce"
// CHECK:         stablehlo.while
// CHECK-NOT:     all_reduce
// CHECK:           %[[TWO:.*]] = stablehlo.constant dense<2> : tensor<4xi32>
// CHECK-NEXT:      %[[B0:.*]] = stablehlo.multiply %[[A]]#0, %[[TWO]]
// CHECK-NEXT:      %[[SECOND:.*]] = stablehlo.constant dense<2> : tensor<4xi32>
// CHECK-NEXT:      %[[B1:.*]] = stablehlo.multiply %[[A]]#1, %[[SECOND]]
// CHECK-NEXT:      %[[S:.*]] = stablehlo.add %[[B0]], %[[B1]]
// CHECK-NOT:     all_reduce
// CHECK:         return %{{.*}}#1, %[[A]]#0
func.func public @within(%x: tensor<4xi32>, %y: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %a:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xi32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %b:2 = "stablehlo.all_reduce"(%a#0, %a#1) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #pairs} : (tensor<4xi32>, tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>)
    %s = stablehlo.add %b#0, %b#1 : tensor<4xi32>
    %t = stablehlo.add %acc, %s : tensor<4xi32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %t : tensor<i32>, tensor<4xi32>
  }
  %m = "stablehlo.all_reduce"(%a#0) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #halves} : (tensor<4xi32>) -> tensor<4xi32>
  return %w#1, %m : tensor<4xi32>, tensor<4xi32>
}

// Over halves of what was reduced, and then over all again: what the first leaves is what all devices have.
// CHECK-LABEL: func.func public @in_turn
// CHECK-SAME:    (%[[X:.*]]: tensor<4xi32>)
// CHECK-NEXT:    %[[A:.*]] = "stablehlo.all_reduce"(%[[X]])
// CHECK-NOT:     all_reduce
// CHECK:         %[[FOUR:.*]] = stablehlo.constant dense<4> : tensor<4xi32>
// CHECK-NEXT:    %[[B:.*]] = stablehlo.multiply %[[A]], %[[FOUR]]
// CHECK-NEXT:    %[[EIGHT:.*]] = stablehlo.constant dense<8> : tensor<4xi32>
// CHECK-NEXT:    %[[C:.*]] = stablehlo.multiply %[[B]], %[[EIGHT]]
// CHECK-NEXT:    return %[[C]]
func.func public @in_turn(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #halves} : (tensor<4xi32>) -> tensor<4xi32>
  %c = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  return %c : tensor<4xi32>
}

// Legal when: what it reduces is uniform over its replica groups
// CHECK-LABEL:   func.func public @factor_of_each_device
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: what it reduces is not proven uniform over the replica groups: stablehlo.replica_id may give each device another result
func.func public @factor_of_each_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.replica_id : tensor<ui32>
  %e = stablehlo.convert %d : (tensor<ui32>) -> tensor<f32>
  %s = stablehlo.broadcast_in_dim %e, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %n = stablehlo.multiply %a, %s : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%n) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: it is one that can be moved: one op as its reducer, known groups, static shapes
// CHECK-LABEL:   func.func public @other_reducer
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: the reducer is not one add
// NUMERIC: skip (XLA:CPU has no such reducer)
func.func public @other_reducer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> %r = stablehlo.add %s, %s : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: it adds, or takes the maximum, minimum, and, or
// CHECK-LABEL:   func.func public @product
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: the reducer is stablehlo.multiply
func.func public @product(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.multiply %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  return %b : tensor<4xi32>
}

// Legal when: all its replica groups are of one size, and list devices (with a channel but no global ids, each is many devices)
// CHECK-LABEL:   func.func public @groups_of_several_sizes
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: its replica groups are of several sizes, or not known
// NUMERIC: skip (jax runs groups of one size only)
func.func public @groups_of_several_sizes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #uneven} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @replicas_of_many_partitions
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: each number in its replica groups is many devices
func.func public @replicas_of_many_partitions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: its element type is of numbers, and has the number of devices, not a rounded one
// CHECK-LABEL:   func.func public @complex
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: complex<f32> has no 8
func.func public @complex(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.complex %x, %x : tensor<4xcomplex<f32>>
  %a = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %r = stablehlo.real %b : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @small_integers
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: i4 has no 8
// NUMERIC: skip (the oracle has no data of type i4)
func.func public @small_integers(%x: tensor<4xi4>) -> tensor<4xi4> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i4>, %q: tensor<i4>): %r = stablehlo.add %p, %q : tensor<i4> stablehlo.return %r : tensor<i4> }) {replica_groups = #all} : (tensor<4xi4>) -> tensor<4xi4>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<i4>, %q: tensor<i4>): %r = stablehlo.add %p, %q : tensor<i4> stablehlo.return %r : tensor<i4> }) {replica_groups = #all} : (tensor<4xi4>) -> tensor<4xi4>
  return %b : tensor<4xi4>
}

// Worth it when: it reduces what ops on elements make of reductions over the same devices, constants and scalars
// CHECK-LABEL:   func.func public @over_other_devices
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK-NOT: missed
func.func public @over_other_devices(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @only_in_part
// CHECK-COUNT-2: stablehlo.all_reduce
func.func public @only_in_part(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %n = stablehlo.add %a, %x : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%n) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @sum_of_constants
// CHECK:         stablehlo.all_reduce
func.func public @sum_of_constants() -> tensor<4xf32> {
  %x = stablehlo.constant dense<1.0> : tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
}
