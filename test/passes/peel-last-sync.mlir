// RUN: %par-opt %s --passes=peel-last-sync | FileCheck %s
// RUN: %par-opt %s --passes=peel-last-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Two accumulators: each sum is reduced behind its own last addition. A region reads what the trip computes.
// CHECK-LABEL:   func.func public @two_sums
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(
// CHECK:             %[[THREE:.*]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK-NEXT:        stablehlo.compare LT, %{{.*}}, %[[THREE]]
// CHECK:           } do {
// CHECK:             stablehlo.return
// CHECK:           %[[T:.*]] = stablehlo.convert %[[LOOP]]#0
// CHECK:           %[[G:.*]] = stablehlo.multiply %{{.*}}, %
// CHECK-NEXT:      %[[A:.*]] = stablehlo.add %[[LOOP]]#1, %[[G]]
// CHECK-NEXT:      %[[H:.*]] = "stablehlo.if"
// CHECK-NEXT:        stablehlo.return %[[G]]
// CHECK:           %[[B:.*]] = stablehlo.add %[[LOOP]]#2, %[[H]]
// CHECK:           "stablehlo.all_reduce"(%[[A]])
// CHECK:           "stablehlo.all_reduce"(%[[B]])
// REMARK-DAG: [peel-last-sync] stablehlo.while applied: the last of 4 trips is done after the loop, for 2 reductions
func.func public @two_sums(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %bcc = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.multiply %x, %ts : tensor<4xf32>
    %n = stablehlo.add %acc, %g : tensor<4xf32>
    %h = "stablehlo.if"(%c) ({ stablehlo.return %g : tensor<4xf32> }, { stablehlo.return %x : tensor<4xf32> }) : (tensor<i1>) -> tensor<4xf32>
    %m = stablehlo.add %bcc, %h : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  %r = "stablehlo.all_reduce"(%w#1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %v = "stablehlo.all_reduce"(%w#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %r, %v, %w#0 : tensor<4xf32>, tensor<4xf32>, tensor<i32>
}

// From 3 by 4 to 12 is three trips; one fewer ends at 8. The reduction reads the sum through a reshape.
// CHECK-LABEL:   func.func public @other_counting
// CHECK:           stablehlo.while(
// CHECK:             %[[EIGHT:.*]] = stablehlo.constant dense<8> : tensor<i32>
// CHECK-NEXT:        stablehlo.compare LT, %{{.*}}, %[[EIGHT]]
// REMARK-DAG: [peel-last-sync] stablehlo.while applied: the last of 3 trips is done after the loop, for 1 reductions
func.func public @other_counting(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %start = stablehlo.constant dense<3> : tensor<i32>
  %step = stablehlo.constant dense<4> : tensor<i32>
  %end = stablehlo.constant dense<12> : tensor<i32>
  %w:2 = stablehlo.while(%i = %start, %acc = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %acc, %x : tensor<4xf32>
    %i_next = stablehlo.add %i, %step : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  %y = stablehlo.reshape %w#1 : (tensor<4xf32>) -> tensor<2x2xf32>
  %r = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = #all} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// Legal when: the loop counts from a constant by a constant to a constant
// CHECK-LABEL:   func.func public @unknown_trips
// CHECK:           } do {
// CHECK:           }
// CHECK-NOT:       stablehlo.add
// CHECK:           "stablehlo.all_reduce"(%{{[0-9]+}}#1)
// REMARK-DAG: [peel-last-sync] stablehlo.while missed: the trip count is not known
func.func public @unknown_trips(%x: tensor<4xf32>, %end: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %acc, %x : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  %r = "stablehlo.all_reduce"(%w#1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Worth it when: a reduction reads a value that the last iteration computes
// CHECK-LABEL:   func.func public @no_reduction
// CHECK:           stablehlo.while(
// CHECK:           } do {
// CHECK:           }
// CHECK-NOT:       stablehlo.add
// CHECK:           return
func.func public @no_reduction(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %x, %same = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %acc, %x : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %same : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  %r = "stablehlo.all_reduce"(%w#2) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %w#1, %r : tensor<4xf32>, tensor<4xf32>
}

// Worth it when: there are at least two iterations
// CHECK-LABEL:   func.func public @one_trip
// CHECK:           } do {
// CHECK:           }
// CHECK-NOT:       stablehlo.add %{{[0-9]+}}#1
// CHECK:           "stablehlo.all_reduce"(%{{[0-9]+}}#1)
// REMARK-DAG: [peel-last-sync] stablehlo.while missed: the loop makes 1 trips only
func.func public @one_trip(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %n = stablehlo.add %acc, %x : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  %r = "stablehlo.all_reduce"(%w#1) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %s = stablehlo.add %p, %q : tensor<f32> stablehlo.return %s : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
}
