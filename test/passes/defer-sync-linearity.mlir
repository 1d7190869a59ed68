// Reductions, ops between reduction and accumulator, and operands that must be uniform.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Worth it when: the accumulator keeps its shard, unless `policy` allows more memory: one before a reduce_scatter is unsharded
// CHECK-LABEL:   func.func public @reduce_scatter
// CHECK:           } do {
// CHECK:           stablehlo.reduce_scatter
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.reduce_scatter missed: a reduce_scatter stays: its accumulator would have to be unsharded
func.func public @reduce_scatter(%x: tensor<16xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %n = stablehlo.add %acc, %s : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}

// A maximum starts from minus infinity; the start value takes part once, after the loop.
// CHECK-LABEL:   func.func public @maximum
// CHECK:           %[[INF:.*]] = stablehlo.constant dense<0xFF800000> : tensor<4xf32>
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[INF]])
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.maximum %arg1, %[[S]]
func.func public @maximum(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.maximum %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @maximum_of_no_trips
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
func.func public @maximum_of_no_trips(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %m = "stablehlo.all_reduce"(%trips) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %bound = stablehlo.subtract %m, %m : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.maximum %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @minimum
// CHECK:           %[[MOST:.*]] = stablehlo.constant dense<127> : tensor<4xi8>
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[MOST]])
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.minimum %arg1, %[[S]]
func.func public @minimum(%x: tensor<4xi8>, %start: tensor<4xi8>) -> tensor<4xi8> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<4xi8>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xi8>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<i8>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<i8>) -> tensor<4xi8>
    %g = stablehlo.add %x, %ts : tensor<4xi8>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.minimum %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
    %n = stablehlo.minimum %acc, %s : tensor<4xi8>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xi8>
  }
  return %w#1 : tensor<4xi8>
}

// What is taken at a place that is a sum itself may stay partial where that sum may not.
// CHECK-LABEL:   func.func public @part_at_a_sum
// CHECK:           %[[W:.*]]:3 = stablehlo.while(
// CHECK:           } do {
// CHECK:           %[[D:.*]] = stablehlo.dynamic_slice %{{.*}}, %[[AT:.*]], sizes = [1] : (tensor<8xi32>,
// CHECK-NOT:       -> tensor<8xi32>
// CHECK:           -> tensor<i32>
// CHECK:           stablehlo.return %{{.*}}, %[[D]], %
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.dynamic_slice: an index is not linear
func.func public @part_at_a_sum(%x: tensor<8xi32>, %y: tensor<i32>) -> tensor<1xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<1xi32>
  %w:3 = stablehlo.while(%i = %zero, %part = %none, %at = %zero) : tensor<i32>, tensor<1xi32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<8xi32>) -> tensor<8xi32>
    %n = stablehlo.dynamic_slice %s, %at, sizes = [1] : (tensor<8xi32>, tensor<i32>) -> tensor<1xi32>
    %t = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %at_next = stablehlo.add %at, %t : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %at_next : tensor<i32>, tensor<1xi32>, tensor<i32>
  }
  return %w#1 : tensor<1xi32>
}

// Legal when: the reduction has an identity element to start from: it is a sum, a maximum or a minimum
// CHECK-LABEL:   func.func public @product
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: no identity element is known for a stablehlo.multiply of f32
func.func public @product(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.multiply %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.multiply %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: each op between the reduction and the accumulator is linear
// CHECK-LABEL:   func.func public @clipped_gradient
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.clamp does not commute with the reduction (stablehlo.clamp at
func.func public @clipped_gradient(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %two = stablehlo.constant dense<2.0> : tensor<4xf32>
    %c = stablehlo.clamp %none, %s, %two : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @product_with_accumulator
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.multiply
func.func public @product_with_accumulator(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %ones = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %ones) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %sq = stablehlo.multiply %acc, %acc : tensor<4xf32>
    %n = stablehlo.add %sq, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The product is linear in either, not in both.
// CHECK-LABEL:   func.func public @product_with_reduced_value
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @product_with_reduced_value(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.multiply %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @accumulator_is_an_index
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @accumulator_is_an_index(%x: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %table = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zero) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.add %x, %i : tensor<i32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %t = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %u = stablehlo.add %t, %table : tensor<4xi32>
    %v = stablehlo.dynamic_slice %u, %acc, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %v : (tensor<1xi32>) -> tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// Legal when: factors are uniform
// CHECK-LABEL:   func.func public @factor_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @factor_of_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.multiply %y, %s : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Uniform at the start, but the loop makes it vary.
// CHECK-LABEL:   func.func public @factor_carried_from_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform
func.func public @factor_carried_from_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %f = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.multiply %f, %s : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %f1 = stablehlo.add %f, %y : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %f1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: predicates are uniform
// CHECK-LABEL:   func.func public @predicate_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups
func.func public @predicate_of_each_device(%x: tensor<4xf32>, %pred: tensor<4xi1>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.select %pred, %s, %none : tensor<4xi1>, tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// It could hang if devices took different branches; reduced after the loop, it would take part where it did not.
// CHECK-LABEL:   func.func public @branch_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.if at
func.func public @branch_of_each_device(%own: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.if"(%own) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_value_in_a_branch_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @reduced_value_in_a_branch_of_each_device(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %id = stablehlo.replica_id : tensor<ui32>
    %own = stablehlo.convert %id : (tensor<ui32>) -> tensor<i1>
    %s = "stablehlo.if"(%own) ({
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @accumulator_chooses_the_branch
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @accumulator_chooses_the_branch(%x: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zero) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.add %x, %i : tensor<i32>
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %s = "stablehlo.case"(%acc) ({
      stablehlo.return %c : tensor<i32>
    }, {
      %m = stablehlo.multiply %c, %four : tensor<i32>
      stablehlo.return %m : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %n = stablehlo.add %acc, %s : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// The factor is equal in each half, not on all devices: the sum over all stays, and the factor's own sum leaves.
// CHECK-LABEL:   func.func public @factor_reduced_over_smaller_groups
// CHECK:           } do {
// CHECK:           {{"stablehlo.all_reduce".*}}dense<{{\[\[}}0, 1, 2, 3, 4, 5, 6, 7]]>
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           {{"stablehlo.all_reduce".*}}dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]>
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @factor_reduced_over_smaller_groups(%x: tensor<4xf32>, %weight: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %f = "stablehlo.all_reduce"(%weight) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.multiply %s, %f : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A sum of bytes wraps; a sum of integers of them would not.
// CHECK-LABEL:   func.func public @narrow_integers
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert of integers may wrap or round
func.func public @narrow_integers(%x: tensor<4xi8>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<4xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xi32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.add %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
    %c = stablehlo.convert %s : (tensor<4xi8>) -> tensor<4xi32>
    %n = stablehlo.add %acc, %c : tensor<4xi32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xi32>
  }
  return %w#1 : tensor<4xi32>
}

// Legal when: indices are uniform
// CHECK-LABEL:   func.func public @index_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @index_of_each_device(%x: tensor<4xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %id = stablehlo.replica_id : tensor<ui32>
    %n = stablehlo.dynamic_update_slice %acc, %s, %id : (tensor<8xf32>, tensor<4xf32>, tensor<ui32>) -> tensor<8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<8xf32>
  }
  return %w#1 : tensor<8xf32>
}

// Legal when: the trip count of the loop is uniform
// CHECK-LABEL:   func.func public @trips_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the trip count is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.while at
func.func public @trips_of_each_device(%trips: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.if"(%yes) ({
      %v = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %v : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %ni = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %ni : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A collective in each trip is no proof: XLA takes one out of the loop that is the same in each, and then a device may make
// other trips than others.
// CHECK-LABEL:   func.func public @collective_in_each_trip
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @collective_in_each_trip(%trips: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %h = stablehlo.multiply %s, %ts : tensor<4xf32>
    %ni = stablehlo.add %acc, %h : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %ni : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// JAX carries the bound of a while_loop that is a part of its state: a loop that hands it on as it is counts to it.
// CHECK-LABEL:   func.func public @carries_its_bound
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK:           "stablehlo.all_reduce"(%[[W]]#2)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 2 times in it
func.func public @carries_its_bound(%trips: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %bound = %two, %acc = %none) : tensor<i32>, tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %ni = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %bound, %ni : tensor<i32>, tensor<i32>, tensor<4xf32>
  }
  return %w#2 : tensor<4xf32>
}
}
