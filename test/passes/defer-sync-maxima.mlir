// RUN: %par-opt %s --passes=defer-sync | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Maxima and minima that a loop puts together: what is not reduced has the neutral element where something else is.

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// As a scan returns them: of the start, what the loop does not write is left, however large it is.
// CHECK-LABEL:   func.func public @stacked_maxima
// CHECK-SAME:      (%{{.*}}: tensor<f32>, %[[START:.*]]: tensor<6xf32>)
// CHECK:           %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[P:.*]] = %{{.*}}, %[[Q:.*]] = %[[START]])
// CHECK:             stablehlo.dynamic_update_slice %[[P]],
// CHECK-NEXT:        %[[INF:.*]] = stablehlo.constant dense<0xFF800000> : tensor<1xf32>
// CHECK-NEXT:        stablehlo.dynamic_update_slice %[[Q]], %[[INF]],
// CHECK:             stablehlo.return
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           %[[R:.*]] = stablehlo.maximum %[[W]]#2, %[[S]]
// CHECK-NEXT:      return %[[R]]
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 4 bytes per device, now reduced after the loop and not 6 times in it
func.func public @stacked_maxima(%x: tensor<f32>, %start: tensor<6xf32>) -> tensor<6xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<6xf32>
  cond {
    %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %g = stablehlo.add %x, %t : tensor<f32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %row = stablehlo.reshape %s : (tensor<f32>) -> tensor<1xf32>
    %n = stablehlo.dynamic_update_slice %acc, %row, %i : (tensor<6xf32>, tensor<1xf32>, tensor<i32>) -> tensor<6xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<6xf32>
  }
  return %w#1 : tensor<6xf32>
}

// Each row is written twice, and two of them never: the last one counts.
// CHECK-LABEL:   func.func public @twice_written
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       "stablehlo.all_reduce"(
func.func public @twice_written(%x: tensor<f32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %eight = stablehlo.constant dense<8> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %g = stablehlo.add %x, %t : tensor<f32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.minimum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %row = stablehlo.reshape %s : (tensor<f32>) -> tensor<1xf32>
    %half = stablehlo.divide %i, %two : tensor<i32>
    %n = stablehlo.dynamic_update_slice %acc, %row, %half : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// In every second trip, what is taken is no maximum over the devices.
// CHECK-LABEL:   func.func public @either_a_maximum
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       "stablehlo.all_reduce"(
func.func public @either_a_maximum(%x: tensor<i32>, %start: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.add %x, %i : tensor<i32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %odd = stablehlo.remainder %i, %two : tensor<i32>
    %is_odd = stablehlo.compare EQ, %odd, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %chosen = stablehlo.select %is_odd, %s, %four : tensor<i1>, tensor<i32>
    %n = stablehlo.maximum %acc, %chosen : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// The largest of what is stacked is no stack of largest rows: it needs the stack reduced.
// CHECK-LABEL:   func.func public @largest_of_rows
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"(
// CHECK-NOT:       "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.subtract is linear for sums only
func.func public @largest_of_rows(%x: tensor<f32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %g = stablehlo.add %x, %t : tensor<f32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %row = stablehlo.reshape %s : (tensor<f32>) -> tensor<1xf32>
    %m = stablehlo.dynamic_update_slice %acc, %row, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    %most = stablehlo.reduce(%m init: %x) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %mosts = stablehlo.broadcast_in_dim %most, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %n = stablehlo.subtract %m, %mosts : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @row_of_each_device
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"(
// CHECK-NOT:       "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: an index is not proven uniform over the replica groups
func.func public @row_of_each_device(%x: tensor<f32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %g = stablehlo.add %x, %t : tensor<f32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %row = stablehlo.reshape %s : (tensor<f32>) -> tensor<1xf32>
    %own = stablehlo.convert %x : (tensor<f32>) -> tensor<i32>
    %n = stablehlo.dynamic_update_slice %acc, %row, %own : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

}
