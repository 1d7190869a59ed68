// Gathers under a memory budget: those that save most for each byte, beside sums that may be held whole.
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=400}' --split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=400}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=BUDGET
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=400},defer-sync{policy=auto memory-budget=400}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=BOTH

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// What saves most for each byte: the second is as large, and gathered in two places. There is no room for the first.
// AUTO-LABEL:    func.func public @within_the_budget
// AUTO:            "stablehlo.all_gather"(%arg0) {{.*}} -> tensor<16x4xf32>
// AUTO-NEXT:       stablehlo.while
// AUTO:              "stablehlo.all_gather"(%arg2)
// AUTO-NOT:        stablehlo.all_gather
// AUTO:            return
// BUDGET: [hoist-gathers] builtin.module applied: 256 bytes of a budget of 400 are held: 256 for 1 parameter gathered once, which saves 1792
// BUDGET: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered before the loop, not in each of 4 trips; 256 bytes are held, and 1792 fewer are gathered
// BUDGET: [hoist-gathers] stablehlo.all_gather missed: it would save 768 bytes of all-gathers and hold 256 more, and 144 are left of a budget of 400
func.func public @within_the_budget(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>, %v: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f = "stablehlo.all_gather"(%v) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %g = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %a = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %h:1 = stablehlo.optimization_barrier %w : tensor<2x4xf32>
    %k = "stablehlo.all_gather"(%h#0) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %b = stablehlo.dot_general %x, %k, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %c = stablehlo.dot_general %x, %f, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %d = stablehlo.add %a, %b : tensor<3x4xf32>
    %y = stablehlo.add %c, %d : tensor<3x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>
  }
  return %r#2 : tensor<3x4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// The sum saves as much as the parameter, and holds less: it comes first, and leaves no room for the parameter.
// AUTO-LABEL:    func.func public @a_sum_is_better
// AUTO:            stablehlo.while
// AUTO:              "stablehlo.all_gather"
// BOTH: [hoist-gathers] builtin.module applied: 224 bytes of a budget of 400 are held: 224 for 1 sum reduced once, which saves 768
// BOTH: [hoist-gathers] stablehlo.all_gather missed: it would save 768 bytes of all-gathers and hold 256 more, and 176 are left of a budget of 400
// BOTH: [defer-sync] stablehlo.reduce_scatter applied: 256 bytes per device, now reduced after the loop and not 4 times in it; 768 bytes fewer are reduced, 224 more are held
func.func public @a_sum_is_better(%p: tensor<2x4xf32>, %x: tensor<3x16xf32>) -> (tensor<3x4xf32>, tensor<2x4xf32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %r:4 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero, %sum = %none) : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %f = "stablehlo.all_gather"(%w) {all_gather_dim = 0 : i64, replica_groups = #all} : (tensor<2x4xf32>) -> tensor<16x4xf32>
    %k = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ks = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<3x16xf32>
    %xi = stablehlo.add %x, %ks : tensor<3x16xf32>
    %y = stablehlo.dot_general %xi, %f, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x4xf32>) -> tensor<3x4xf32>
    %g = stablehlo.dot_general %xi, %y, contracting_dims = [0] x [0] : (tensor<3x16xf32>, tensor<3x4xf32>) -> tensor<16x4xf32>
    %s = "stablehlo.reduce_scatter"(%g) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %c = stablehlo.add %a, %b : tensor<f32> stablehlo.return %c : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16x4xf32>) -> tensor<2x4xf32>
    %n = stablehlo.add %acc, %y : tensor<3x4xf32>
    %m = stablehlo.add %sum, %s : tensor<2x4xf32>
    stablehlo.return %j, %w, %n, %m : tensor<i32>, tensor<2x4xf32>, tensor<3x4xf32>, tensor<2x4xf32>
  }
  return %r#2, %r#3 : tensor<3x4xf32>, tensor<2x4xf32>
}
}
