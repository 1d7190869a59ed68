// Losses beside reductions that stay: XLA combines them, and reduces as often as before.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Worth it when: a scalar, such as a loss, is not reduced beside others that stay: XLA combines all of a kind and element type
// CHECK-LABEL:   func.func public @beside_a_sum_that_stays
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_reduce"(
// CHECK:             "stablehlo.all_reduce"(
// CHECK:             stablehlo.return {{.*}} : tensor<i32>, tensor<f32>, tensor<4xf32>
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:         }
// REMARK: [defer-sync] stablehlo.all_reduce missed: 12 bytes fewer, in one collective more after the loop: XLA combines it with others that stay in the loop
// REMARK: [defer-sync] stablehlo.all_reduce missed: {{.*}}stablehlo.tanh
func.func public @beside_a_sum_that_stays(%losses: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %sum = %none, %acc = %nones) : tensor<i32>, tensor<f32>, tensor<4xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %part = stablehlo.dynamic_slice %losses, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
    %loss = stablehlo.reshape %part : (tensor<1xf32>) -> tensor<f32>
    %l = "stablehlo.all_reduce"(%loss) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %t = stablehlo.tanh %g : tensor<4xf32>
    %s = stablehlo.add %sum, %l : tensor<f32>
    %a = stablehlo.add %acc, %t : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s, %a : tensor<i32>, tensor<f32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<f32>, tensor<4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// XLA can't combine what is reduced from a reduced value with that: one collective fewer runs in each trip.
// CHECK-LABEL:   func.func public @of_a_reduced_value
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK:             "stablehlo.all_reduce"(
// CHECK-NOT:         "stablehlo.all_reduce"(
// CHECK:             stablehlo.return {{.*}} : tensor<i32>, tensor<f32>, tensor<4xf32>
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// REMARK: [defer-sync] stablehlo.all_reduce applied: 4 bytes per device, now reduced after the loop and not 4 times in it
func.func public @of_a_reduced_value(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %sum = %none, %acc = %nones) : tensor<i32>, tensor<f32>, tensor<4xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %t = stablehlo.tanh %g : tensor<4xf32>
    %d = stablehlo.subtract %y, %t : tensor<4xf32>
    %loss = stablehlo.reduce(%d init: %none) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %l = "stablehlo.all_reduce"(%loss) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %s = stablehlo.add %sum, %l : tensor<f32>
    %a = stablehlo.add %acc, %t : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s, %a : tensor<i32>, tensor<f32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<f32>, tensor<4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// XLA combines nothing in a branch with what is reduced around it.
// CHECK-LABEL:   func.func public @beside_one_in_a_branch
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK:             "stablehlo.if"
// CHECK:               "stablehlo.all_reduce"(
// CHECK-NOT:         "stablehlo.all_reduce"(
// CHECK:             stablehlo.return {{.*}} : tensor<i32>, tensor<f32>, tensor<4xf32>
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// REMARK: [defer-sync] stablehlo.all_reduce applied: 4 bytes per device, now reduced after the loop and not 4 times in it
func.func public @beside_one_in_a_branch(%losses: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %sum = %none, %acc = %nones) : tensor<i32>, tensor<f32>, tensor<4xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %part = stablehlo.dynamic_slice %losses, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
    %loss = stablehlo.reshape %part : (tensor<1xf32>) -> tensor<f32>
    %l = "stablehlo.all_reduce"(%loss) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %second = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %t = "stablehlo.if"(%second) ({
      %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %h = stablehlo.tanh %g : tensor<4xf32>
      stablehlo.return %h : tensor<4xf32>
    }, {
      stablehlo.return %acc : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %s = stablehlo.add %sum, %l : tensor<f32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s, %t : tensor<i32>, tensor<f32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<f32>, tensor<4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Each says why it stays itself.
// CHECK-LABEL:   func.func public @beside_a_sum_that_would_send_more
// CHECK:             "stablehlo.all_reduce"(
// CHECK:             "stablehlo.all_reduce"(
// CHECK:             stablehlo.return {{.*}} : tensor<i32>, tensor<f32>, tensor<8192xf32>
// REMARK: [defer-sync] stablehlo.all_reduce missed: 12 bytes fewer, in one collective more after the loop: XLA combines it with others that stay in the loop
// REMARK: [defer-sync] stablehlo.all_reduce missed: 32768 bytes after the loop are no fewer than 4 times 8 in it
func.func public @beside_a_sum_that_would_send_more(%losses: tensor<4xf32>, %x: tensor<4x2xf32>) -> (tensor<f32>, tensor<8192xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<8192xf32>
  %w:3 = stablehlo.while(%i = %zero, %sum = %none, %acc = %nones) : tensor<i32>, tensor<f32>, tensor<8192xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %part = stablehlo.dynamic_slice %losses, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
    %loss = stablehlo.reshape %part : (tensor<1xf32>) -> tensor<f32>
    %l = "stablehlo.all_reduce"(%loss) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %pair = stablehlo.reshape %row : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = "stablehlo.all_reduce"(%pair) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
    %wide = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<2xf32>) -> tensor<4096x2xf32>
    %flat = stablehlo.reshape %wide : (tensor<4096x2xf32>) -> tensor<8192xf32>
    %s = stablehlo.add %sum, %l : tensor<f32>
    %a = stablehlo.add %acc, %flat : tensor<8192xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s, %a : tensor<i32>, tensor<f32>, tensor<8192xf32>
  }
  return %w#1, %w#2 : tensor<f32>, tensor<8192xf32>
}
}
