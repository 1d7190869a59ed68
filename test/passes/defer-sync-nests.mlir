// Inner loops that carry on what an outer one accumulates.
// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='defer-sync{accumulate-dtype=f64}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=WIDE

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK-LABEL:   func.func public @inner_decay
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[START:.*]]: tensor<4xf32>)
// CHECK:           %[[H:.*]] = stablehlo.constant dense<5.000000e-01>
// CHECK:           %[[Z:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK:           %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[D:.*]] = %[[Z]], %[[R:.*]] = %[[START]])
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             %[[G:.*]] = stablehlo.add %[[X]],
// CHECK:             %[[M:.*]] = stablehlo.add %[[D]], %[[G]]
// CHECK:             %[[V:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %[[M]], %[[B:.*]] = %[[R]])
// CHECK:               %[[AN:.*]] = stablehlo.multiply %[[A]], %[[H]]
// CHECK:               %[[BN:.*]] = stablehlo.multiply %[[B]], %[[H]]
// CHECK:               stablehlo.return %{{.*}}, %[[AN]], %[[BN]]
// CHECK:             stablehlo.return %{{.*}}, %[[V]]#1, %[[V]]#2
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           %[[N:.*]] = stablehlo.add %[[W]]#2, %[[S]]
// CHECK:           return %[[N]]
// WIDE: [defer-sync] stablehlo.all_reduce missed: an inner loop carries it on, in a type that would change
func.func public @inner_decay(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.multiply %a, %half : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// What the inner loop adds is kept apart, and so starts from zero.
// CHECK-LABEL:   func.func public @inner_term
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>)
// CHECK:           %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[D:.*]] = %{{.*}}, %[[R:.*]] = %{{.*}})
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             %[[V:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}, %[[B:.*]] = %[[R]])
// CHECK:               %[[BN:.*]] = stablehlo.add %[[B]], %{{.*}}
// CHECK:               stablehlo.return %{{.*}}, %[[A]], %[[BN]]
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
func.func public @inner_term(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %half) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.add %a, %half : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Of two carried values that a branch makes, each has its own part of that branch.
// CHECK-LABEL:   func.func public @inner_branch
// CHECK:             stablehlo.while
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:               "stablehlo.case"
// CHECK:           "stablehlo.all_reduce"
func.func public @inner_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:3 = stablehlo.while(%j = %zero, %a = %m, %c = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b, %d = "stablehlo.case"(%j) ({
        %h = stablehlo.multiply %a, %half : tensor<4xf32>
        stablehlo.return %h, %x : tensor<4xf32>, tensor<4xf32>
      }, {
        stablehlo.return %a, %c : tensor<4xf32>, tensor<4xf32>
      }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b, %d : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_read
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: an inner loop reads it in stablehlo.add, too
func.func public @inner_read(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:3 = stablehlo.while(%j = %zero, %a = %m, %c = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.negate %a : tensor<4xf32>
      %d = stablehlo.add %c, %a : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b, %d : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_read_by_another_op
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.abs does not commute with the reduction
func.func public @inner_read_by_another_op(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:3 = stablehlo.while(%j = %zero, %a = %m, %c = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.negate %a : tensor<4xf32>
      %k = stablehlo.abs %a : tensor<4xf32>
      %d = stablehlo.add %c, %k : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b, %d : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_other
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: an inner loop carries on another value
func.func public @inner_other(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.negate %x : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_swap
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: an inner loop carries on another value
func.func public @inner_swap(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:3 = stablehlo.while(%j = %zero, %a = %m, %c = %acc) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %c, %a : tensor<i32>, tensor<4xf32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_condition
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the condition reads the accumulator
func.func public @inner_condition(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %half) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<4xf32>
    cond {
      %f = stablehlo.slice %a [0:1] : (tensor<4xf32>) -> tensor<1xf32>
      %e = stablehlo.reshape %f : (tensor<1xf32>) -> tensor<f32>
      %k = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
      %l = stablehlo.compare LT, %e, %k : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %u = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %more = stablehlo.and %l, %u : tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.multiply %a, %half : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_trips_of_each_device
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the trip count is not proven uniform over the replica groups
func.func public @inner_trips_of_each_device(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.multiply %a, %half : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @inner_factor_of_each_device
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups
func.func public @inner_factor_of_each_device(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %b = stablehlo.multiply %a, %x : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// What a branch returns beside what it accumulates is reduced behind it, and added as well.
// CHECK-LABEL:   func.func public @branch_returns_what_is_reduced
// CHECK:             %[[C:.*]]:2 = "stablehlo.case"
// CHECK:             stablehlo.add
// CHECK:             stablehlo.return
// CHECK:           "stablehlo.all_reduce"
func.func public @branch_returns_what_is_reduced(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %a, %y = "stablehlo.case"(%i) ({
      %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %m = stablehlo.add %acc, %s : tensor<4xf32>
      %z = stablehlo.add %x, %x : tensor<4xf32>
      stablehlo.return %m, %z : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %acc, %x : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %t = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %a, %t : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

}
