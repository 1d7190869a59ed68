// RUN: %par-opt %s --passes=defer-sync | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// What an optimization_barrier holds may be partial: the barrier then holds the addend, and all else that it held.

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {
sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @gradient_and_activation
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>)
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK:             %[[Y:.*]] = stablehlo.multiply %[[X]], %[[X]]
// CHECK-NEXT:        %[[B:.*]]:2 = stablehlo.optimization_barrier %[[Y]], %[[X]]
// CHECK-NEXT:        stablehlo.add %{{.*}}, %[[B]]#1
// CHECK-NEXT:        stablehlo.tanh %[[B]]#0
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           return %[[S]], %[[W]]#2
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 4 times in it
func.func public @gradient_and_activation(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %last = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %y = stablehlo.multiply %x, %x : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b:2 = stablehlo.optimization_barrier %y, %g : tensor<4xf32>, tensor<4xf32>
    %n = stablehlo.add %acc, %b#1 : tensor<4xf32>
    %t = stablehlo.tanh %b#0 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %t : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// What decays from a start that is no zero is carried beside the sum, and held beside it.
// CHECK-LABEL:   func.func public @held_in_two_parts
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[START:.*]]: tensor<4xf32>)
// CHECK:           %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[D:.*]] = %{{.*}}, %[[R:.*]] = %[[START]])
// CHECK:             %[[E:.*]] = stablehlo.multiply %[[D]],
// CHECK-NEXT:        %[[F:.*]] = stablehlo.multiply %[[R]],
// CHECK:             %[[B:.*]]:3 = stablehlo.optimization_barrier %[[E]], %[[X]], %[[F]]
// CHECK-NEXT:        %[[N:.*]] = stablehlo.add %[[B]]#0, %[[B]]#1
// CHECK:             stablehlo.return %{{.*}}, %[[N]], %[[B]]#2
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           %[[T:.*]] = stablehlo.add %[[W]]#2, %[[S]]
// CHECK-NEXT:      return %[[T]]
func.func public @held_in_two_parts(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.multiply %acc, %half : tensor<4xf32>
    %b:2 = stablehlo.optimization_barrier %d, %g : tensor<4xf32>, tensor<4xf32>
    %n = stablehlo.add %b#0, %b#1 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A barrier holds what is reduced in different ways, and twice the same.
// CHECK-LABEL:   func.func public @sum_and_maxima
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>)
// CHECK:           %[[W:.*]]:4 = stablehlo.while
// CHECK:             %[[N:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT:        %[[B:.*]]:3 = stablehlo.optimization_barrier %[[X]], %[[X]], %[[N]]
// CHECK:             stablehlo.return
// CHECK-COUNT-3:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
func.func public @sum_and_maxima(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:4 = stablehlo.while(%i = %zero, %acc = %none, %most = %x, %least = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %neg = stablehlo.negate %x : tensor<4xf32>
    %k = "stablehlo.all_reduce"(%neg) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b:3 = stablehlo.optimization_barrier %g, %m, %k : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    %n = stablehlo.add %acc, %b#0 : tensor<4xf32>
    %h = stablehlo.maximum %most, %b#1 : tensor<4xf32>
    %l = stablehlo.maximum %least, %b#2 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %h, %l : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2, %w#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Each result is the operand in its place, and no other: the factor is uniform, what is held beside it is not.
// CHECK-LABEL:   func.func public @factor_beside_what_differs
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device
func.func public @factor_beside_what_differs(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %own = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %b:2 = stablehlo.optimization_barrier %half, %x : tensor<4xf32>, tensor<4xf32>
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %h = stablehlo.multiply %g, %b#0 : tensor<4xf32>
    %n = stablehlo.add %acc, %h : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %b#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @factor_of_each_device
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_reduce"
// CHECK:             stablehlo.optimization_barrier
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices
func.func public @factor_of_each_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b:2 = stablehlo.optimization_barrier %g, %x : tensor<4xf32>, tensor<4xf32>
    %h = stablehlo.multiply %b#0, %b#1 : tensor<4xf32>
    %n = stablehlo.add %acc, %h : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// One of two that are held is read in the body: it stays, and the other leaves.
// CHECK-LABEL:   func.func public @held_and_read
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK:             %[[G:.*]] = "stablehlo.all_reduce"
// CHECK:             %[[B:.*]]:2 = stablehlo.optimization_barrier %[[G]], %{{.*}} :
// CHECK-NEXT:        stablehlo.multiply %[[B]]#0, %[[B]]#0
// CHECK:             stablehlo.return
// CHECK:           "stablehlo.all_reduce"(%[[W]]#2)
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is also read by stablehlo.multiply
func.func public @held_and_read(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %other = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %y = stablehlo.negate %x : tensor<4xf32>
    %h = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b:2 = stablehlo.optimization_barrier %g, %h : tensor<4xf32>, tensor<4xf32>
    %s = stablehlo.multiply %b#0, %b#0 : tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %m = stablehlo.add %other, %b#1 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @barrier_with_shardings
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the barrier says how its results are sharded (stablehlo.optimization_barrier at
func.func public @barrier_with_shardings(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} %g : tensor<4xf32>
    %n = stablehlo.add %acc, %b : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

}
