// Accumulators that branches, nested loops and the last iteration carry or read.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Out of both loops; the start value passes through both.
// CHECK-LABEL:   func.func public @nested_loops
// CHECK:           stablehlo.while
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           }
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.add %arg1, %[[S]]
func.func public @nested_loops(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
      %v:2 = stablehlo.while(%j = %zero, %sum = %acc) : tensor<i32>, tensor<4xf32>
      cond {
        %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
        %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
        %g = stablehlo.add %x, %ts : tensor<4xf32>
        %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
        %m = stablehlo.add %sum, %s : tensor<4xf32>
        %j_n = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %j_n, %m : tensor<i32>, tensor<4xf32>
      }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// All devices take the branch; what the other branch returns is kept apart.
// CHECK-LABEL:   func.func public @in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 3 times in it
func.func public @in_a_branch(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.if"(%p3) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %y : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A micro-batch that is left out.
// CHECK-LABEL:   func.func public @accumulated_in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 4 times in it
func.func public @accumulated_in_a_branch(%skip: tensor<i1>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %bit = stablehlo.convert %skip : (tensor<i1>) -> tensor<i32>
  %most = "stablehlo.all_reduce"(%bit) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %use = stablehlo.compare EQ, %most, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %n = "stablehlo.if"(%use) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %sum = stablehlo.add %acc, %c : tensor<4xf32>
      stablehlo.return %sum : tensor<4xf32>
    }, {
      stablehlo.return %acc : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_before_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @reduced_before_a_branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.if"(%p3) ({
      %two = stablehlo.constant dense<2.0> : tensor<4xf32>
      %d = stablehlo.multiply %c, %two : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %c : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @branch_in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @branch_in_a_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.case"(%i) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %e = "stablehlo.if"(%p3) ({
        %f = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
        %h = stablehlo.add %f, %g : tensor<4xf32>
        stablehlo.return %h : tensor<4xf32>
      }, {
        stablehlo.return %none : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      stablehlo.return %e : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// What jnp.diagonal and other functions of a mode make: a case of a single branch, whose result is made in there.
// CHECK-LABEL:   func.func public @only_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:             %[[S:.*]] = "stablehlo.case"(%{{.*}}) ({
// CHECK:               stablehlo.negate
// CHECK:             stablehlo.add %{{.*}}, %[[S]] : tensor<4xf32>
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @only_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %s = "stablehlo.case"(%i) ({
      %e = stablehlo.negate %c : tensor<4xf32>
      stablehlo.return %e : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @maximum_in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @maximum_in_a_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.if"(%p3) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %x : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.maximum %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @one_result_of_a_branch
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.abs does not commute with the reduction (stablehlo.abs at
func.func public @one_result_of_a_branch(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %m = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s:2 = "stablehlo.if"(%p3) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %d = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c, %d : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %none, %none : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %acc, %s#0 : tensor<4xf32>
    %ab = stablehlo.abs %s#1 : tensor<4xf32>
    %m1 = stablehlo.maximum %m, %ab : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// The user syncs once: not in a loop, the sync can meet others.
// CHECK-LABEL:   func.func public @sync_in_the_last_trip
// CHECK:           } do {
// CHECK-NOT:       stablehlo.if
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: taken in the last trip only, the branch now follows the loop
func.func public @sync_in_the_last_trip(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
      %mean = stablehlo.divide %c, %eight : tensor<4xf32>
      stablehlo.return %mean : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// After two of four trips.
// CHECK-LABEL:   func.func public @sync_in_a_later_trip
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is reduced again, in a trip that is not proven to be the last only
func.func public @sync_in_a_later_trip(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @sync_in_the_last_of_some_trips
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @sync_in_the_last_of_some_trips(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %count = "stablehlo.all_reduce"(%trips) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_trip_read_in_the_loop
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the loop reads the result of the branch by stablehlo.abs
func.func public @last_trip_read_in_the_loop(%x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %start, %m = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %m1 = stablehlo.abs %n : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @other_trips_do_something
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: in the other trips the branch does something, too
func.func public @other_trips_do_something(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %a : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_trip_reads_what_is_not_carried
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the branch reads a value of the last trip that the loop does not carry
func.func public @last_trip_reads_what_is_not_carried(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %d = stablehlo.subtract %c, %g : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_trip_read_by_the_condition
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the condition reads the result of the branch
func.func public @last_trip_read_by_the_condition(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %seen = stablehlo.abs %acc : tensor<4xf32>
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @result_that_nothing_reads
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: it reaches no accumulator
func.func public @result_that_nothing_reads(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %n = stablehlo.add %acc, %g : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// One reduction leaves, the other is read by an op that is not linear.
// CHECK-LABEL:   func.func public @one_stays
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.sqrt does not commute with the reduction (stablehlo.sqrt at
func.func public @one_stays(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %sq = stablehlo.multiply %g, %g : tensor<4xf32>
    %s2 = "stablehlo.all_reduce"(%sq) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %r = stablehlo.sqrt %s2 : tensor<4xf32>
    %n2 = stablehlo.add %acc2, %r : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %n2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}
}
