// RUN: %par-opt %s --passes=simplify-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=simplify-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>
#across = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>
#uneven = dense<[[0, 1, 2, -1], [4, 5, 6, 7], [3, -1, -1, -1]]> : tensor<3x4xi64>
#alone = dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>
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
// REMARK-COUNT-2: [simplify-all-reduces] stablehlo.all_reduce applied: its operand is uniform over the replica groups: it is multiplied by 8
func.func public @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %n = stablehlo.negate %a : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%n) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// A mesh axis of size 1: nothing is sent, and no remark is made.
// CHECK-LABEL: func.func public @one_device_each
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT:    return %[[X]], %[[Y]]
func.func public @one_device_each(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #alone} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %b = "stablehlo.all_reduce"(%a#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.multiply %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #alone} : (tensor<4xf32>) -> tensor<4xf32>
  return %b, %a#1 : tensor<4xf32>, tensor<4xf32>
}

// Ops of CHLO are elementwise, too.
// CHECK-LABEL: func.func public @through_chlo
// CHECK:         %[[S:.*]] = chlo.square %{{.*}}
// CHECK-NEXT:    %[[EIGHT:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %[[B:.*]] = stablehlo.multiply %[[S]], %[[EIGHT]]
// CHECK-NEXT:    return %[[B]]
func.func public @through_chlo(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = chlo.square %a : tensor<4xf32> -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
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

// Legal when: the reduced value is uniform over the replica groups
// CHECK-LABEL:   func.func public @factor_of_each_device
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: its operand is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @factor_of_each_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %d = stablehlo.replica_id : tensor<ui32>
  %e = stablehlo.convert %d : (tensor<ui32>) -> tensor<f32>
  %s = stablehlo.broadcast_in_dim %e, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %n = stablehlo.multiply %a, %s : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%n) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: the reduction can be moved: its reducer is one op, its groups are known, its shape is static
// CHECK-LABEL:   func.func public @other_reducer
// CHECK-COUNT-2: stablehlo.all_reduce
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: the reducer is not one add
// NUMERIC: skip (XLA:CPU has no such reducer)
func.func public @other_reducer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> %r = stablehlo.add %s, %s : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: the reducer is add, maximum, minimum, and, or
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
// REMARK: [simplify-all-reduces] stablehlo.all_reduce missed: each id in its replica groups stands for several devices
func.func public @replicas_of_many_partitions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: the element type is numeric, and represents the number of devices exactly
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

// Worth it when: the reduced value is an elementwise function of reductions over the same devices, constants and scalars
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

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>
#across = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// REMARK-COUNT-9: [simplify-all-reduces] stablehlo.all_reduce applied: a uniform term is added after it
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce applied: its operand is uniform over the replica groups: it is multiplied by 8

// A mean that is carried on: the accumulator is its own mean.
// CHECK-LABEL: func.func public @mean_carried_on
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:         do {
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.all_reduce"(%[[X]])
// CHECK:           %[[M:.*]] = stablehlo.divide %[[R]], %{{.*}}
// CHECK-NEXT:      %[[NEXT:.*]] = stablehlo.add %[[ACC]], %[[M]]
// CHECK:           stablehlo.return %{{.*}}, %[[NEXT]]
func.func public @mean_carried_on(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// No trip is made: the start value stays.
// CHECK-LABEL: func.func public @no_trips
// CHECK:           stablehlo.add %iterArg_{{.*}}, %
func.func public @no_trips(%x: tensor<4xf32>) -> tensor<4xf32> {
  %five = stablehlo.constant dense<5.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %never = stablehlo.constant dense<0> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %five) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %never : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Decayed, less what is multiplied before it is reduced and after that, in pairs; the term comes second, and is subtracted.
// CHECK-LABEL: func.func public @decayed_and_subtracted
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:         do {
// CHECK-NEXT:      %[[DECAYED:.*]] = stablehlo.multiply %[[ACC]], %
// CHECK-NEXT:      %[[H:.*]] = stablehlo.multiply %[[X]], %
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.all_reduce"(%[[H]])
// CHECK:           %[[M:.*]] = stablehlo.multiply %[[R]], %
// CHECK-NEXT:      %[[NEXT:.*]] = stablehlo.subtract %[[M]], %[[DECAYED]]
// CHECK:           stablehlo.return %{{.*}}, %[[NEXT]]
func.func public @decayed_and_subtracted(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4xf32>
  %quarter = stablehlo.constant dense<0.25> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %decayed = stablehlo.multiply %acc, %half : tensor<4xf32>
    %s = stablehlo.subtract %x, %decayed : tensor<4xf32>
    %h = stablehlo.multiply %s, %quarter : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.multiply %sum, %two : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The start of a subtraction, in a sum of several terms.
// CHECK-LABEL: func.func public @less_two_terms
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:         do {
// CHECK-NEXT:      %[[N:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT:      %[[S:.*]] = stablehlo.subtract %[[N]], %[[Y]]
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.all_reduce"(%[[S]])
// CHECK:           %[[M:.*]] = stablehlo.divide %[[R]], %{{.*}}
// CHECK-NEXT:      stablehlo.add %[[ACC]], %[[M]]
func.func public @less_two_terms(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %a = stablehlo.subtract %acc, %x : tensor<4xf32>
    %s = stablehlo.subtract %a, %y : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A maximum needs no factor.
// CHECK-LABEL: func.func public @running_maximum
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:         do {
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.all_reduce"(%[[X]])
// CHECK:           stablehlo.maximum %[[ACC]], %[[R]]
func.func public @running_maximum(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.maximum %acc, %x : tensor<4xf32>
    %next = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Steps one after the other: each mean but the first is of one step alone.
// CHECK-LABEL: func.func public @means_in_steps
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>, %[[Z:.*]]: tensor<4xf32>)
// CHECK:         %[[R0:.*]] = "stablehlo.all_reduce"(%[[X]])
// CHECK:         %[[M0:.*]] = stablehlo.divide %[[R0]]
// CHECK-NEXT:    %[[R1:.*]] = "stablehlo.all_reduce"(%[[Y]])
// CHECK:         %[[M1:.*]] = stablehlo.divide %[[R1]]
// CHECK-NEXT:    %[[S1:.*]] = stablehlo.add %[[M0]], %[[M1]]
// CHECK-NEXT:    %[[R2:.*]] = "stablehlo.all_reduce"(%[[Z]])
// CHECK:         %[[M2:.*]] = stablehlo.divide %[[R2]]
// CHECK-NEXT:    %[[S2:.*]] = stablehlo.add %[[S1]], %[[M2]]
// CHECK-NEXT:    return %[[S2]]
func.func public @means_in_steps(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %r0 = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.divide %r0, %eight : tensor<4xf32>
  %s1 = stablehlo.add %m0, %y : tensor<4xf32>
  %r1 = "stablehlo.all_reduce"(%s1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.divide %r1, %eight : tensor<4xf32>
  %s2 = stablehlo.add %z, %m1 : tensor<4xf32>
  %r2 = "stablehlo.all_reduce"(%s2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %m2 = stablehlo.divide %r2, %eight : tensor<4xf32>
  return %m2 : tensor<4xf32>
}

// The next value has terms that are reduced by themselves, and is multiplied.
// CHECK-LABEL: func.func public @with_other_terms
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:         do {
// CHECK-NEXT:      %[[R:.*]] = "stablehlo.all_reduce"(%[[X]])
// CHECK:           %[[M:.*]] = stablehlo.divide %[[R]], %{{.*}}
// CHECK-NEXT:      stablehlo.add %[[ACC]], %[[M]]
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[Y]])
func.func public @with_other_terms(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.divide %sum, %eight : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.subtract %t, %m : tensor<4xf32>
    %next = stablehlo.divide %n, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A gradient that automatic differentiation has summed: the accumulator is taken out, and what is left is reduced already.
// CHECK-LABEL: func.func public @mean_of_what_is_summed
// CHECK:         do {
// CHECK-COUNT-1:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return
func.func public @mean_of_what_is_summed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %s = stablehlo.add %acc, %g : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: a term that is taken out is uniform over the replica groups
// CHECK-LABEL: func.func public @start_of_each_device
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: a term of its operand is not proven uniform over the replica groups: an argument of the function may differ between devices
func.func public @start_of_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %y) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// It is uniform in pairs: their mean is that itself, the mean over all devices is not.
// CHECK-LABEL: func.func public @uniform_in_smaller_groups
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %{{.*}})
// CHECK:           "stablehlo.all_reduce"(%[[X]])
// CHECK:           %[[M:.*]] = stablehlo.add %[[ACC]], %
// CHECK-NEXT:      %[[S:.*]] = stablehlo.add %[[M]], %[[X]]
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce applied: a uniform term is added after it
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: a term of its operand is not proven uniform over the replica groups: an argument of the function may differ between devices
func.func public @uniform_in_smaller_groups(%x: tensor<4xf32>) -> tensor<4xf32> {
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %start = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.multiply %sum, %half : tensor<4xf32>
    %t = stablehlo.add %m, %x : tensor<4xf32>
    %u = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %u, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: a sum with such a term is multiplied by exactly one over the number of devices; a maximum or minimum, by nothing
// CHECK-LABEL: func.func public @divided_by_another_number
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: a uniform term is not multiplied by one over the number of devices, 8
func.func public @divided_by_another_number(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %four_ = stablehlo.constant dense<4.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %four_ : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @sum_carried_on
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: a uniform term is not multiplied by one over the number of devices, 8
func.func public @sum_carried_on(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %next = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// What multiplies it is not known to be one over the number of devices.
// CHECK-LABEL: func.func public @divided_by_an_argument
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
func.func public @divided_by_an_argument(%x: tensor<4xf32>, %n: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.multiply %sum, %n : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @halved_maximum
// CHECK:           %[[S:.*]] = stablehlo.maximum
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: a multiply does not commute with stablehlo.maximum
func.func public @halved_maximum(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.maximum %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.multiply %sum, %half : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: such a term is combined with others by the op of the reducer
// CHECK-LABEL: func.func public @maximum_of_sums
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: stablehlo.add does not commute with the reduction
func.func public @maximum_of_sums(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %next = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @mean_of_maxima
// CHECK:           %[[S:.*]] = stablehlo.maximum
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: stablehlo.maximum does not commute with the reduction
func.func public @mean_of_maxima(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.maximum %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Worth it when: a term that is taken out is a loop-carried value with the result as its next value, perhaps with other terms, or the result of an all_reduce over the same devices; nothing else reads it
// CHECK-LABEL: func.func public @read_by_others
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
func.func public @read_by_others(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.multiply %acc, %x : tensor<4xf32>
    %s = stablehlo.add %acc, %g : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %eight : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @result_is_changed
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
func.func public @result_is_changed(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.divide %sum, %eight : tensor<4xf32>
    %next = stablehlo.multiply %m, %m : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @sums_over_other_devices
// CHECK:         %[[S:.*]] = stablehlo.add %{{.*}}, %arg1
// CHECK-NEXT:    "stablehlo.all_reduce"(%[[S]])
func.func public @sums_over_other_devices(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %r0 = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %m0 = stablehlo.multiply %r0, %half : tensor<4xf32>
  %s1 = stablehlo.add %m0, %y : tensor<4xf32>
  %r1 = "stablehlo.all_reduce"(%s1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  %m1 = stablehlo.multiply %r1, %half : tensor<4xf32>
  return %m1 : tensor<4xf32>
}
}

// -----

#three = dense<[[0, 1, 2]]> : tensor<1x3xi64>

module attributes {mhlo.num_replicas = 3 : i32} {

// A third of three terms is one of them, as far as a division rounds; a number that is not quite a third is another one.
// CHECK-LABEL: func.func public @divided_by_three
// CHECK:           "stablehlo.all_reduce"(%arg0)
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce applied: a uniform term is added after it
// NUMERIC: skip (the oracle has no three devices)
func.func public @divided_by_three(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %number = stablehlo.constant dense<3.0> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #three} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.divide %sum, %number : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL: func.func public @times_a_rounded_third
// CHECK:           %[[S:.*]] = stablehlo.add
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[S]])
// REMARK-NEXT: [simplify-all-reduces] stablehlo.all_reduce missed: a uniform term is not multiplied by one over the number of devices, 3
// NUMERIC: skip (the oracle has no three devices)
func.func public @times_a_rounded_third(%x: tensor<4xf32>) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %number = stablehlo.constant dense<0.333333343> : tensor<4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.add %acc, %x : tensor<4xf32>
    %sum = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #three} : (tensor<4xf32>) -> tensor<4xf32>
    %next = stablehlo.multiply %sum, %number : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}
// REMARK-NOT: remark
}
