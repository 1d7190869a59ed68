// Accumulators that a trip resets: where that was the last one, nothing is reduced after the loop.
// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK-NOT: Traceback

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// The caller says how many trips there were before.
// REMARK-DAG: [defer-sync] stablehlo.while applied: 16 bytes are reduced after the loop only if its last trip has not reset them
// CHECK-LABEL:   func.func public @by_a_count_of_the_caller(
// CHECK:           %[[L:.*]]:6 = stablehlo.while({{.*}}, %[[WAS:[a-zA-Z0-9_]*]] = %{{[a-z0-9_]*}}) : {{.*}}, tensor<i1>
// CHECK:             "stablehlo.if"
// CHECK-SAME:          (%[[RESET:.*]]) ({
// CHECK:             stablehlo.return {{.*}}, %[[RESET]] : {{.*}}, tensor<i1>
// CHECK:           %[[SUM:.*]] = "stablehlo.if"(%[[L]]#5) ({
// CHECK-NEXT:        %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:        stablehlo.return %[[ZEROS]]
// CHECK-NEXT:      }, {
// CHECK-NEXT:        "stablehlo.all_reduce"(%[[L]]#2)
// CHECK:           stablehlo.add %[[L]]#4, %[[SUM]]
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @by_a_count_of_the_caller(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %most) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b:2 = "stablehlo.if"(%last) ({
      %step = stablehlo.sign %a : tensor<4xf32>
      %new = stablehlo.subtract %w, %step : tensor<4xf32>
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// A case of three: the first branch adds, the second resets, and the last, for all other indices, leaves it as it is.
// CHECK-LABEL:   func.func public @of_three_branches(
// CHECK:           %[[L:.*]]:6 = stablehlo.while({{.*}}, %[[WAS:[a-zA-Z0-9_]*]] = %{{[a-z0-9_]*}}) : {{.*}}, tensor<i1>
// CHECK:             "stablehlo.case"
// CHECK:             %[[FIRST:.*]] = stablehlo.compare EQ, %{{.*}}
// CHECK:             %[[LEFT:.*]] = stablehlo.constant dense<false> : tensor<i1>
// CHECK:             %[[SO:.*]] = stablehlo.select %[[FIRST]], %[[LEFT]], %[[WAS]]
// CHECK:             %[[SECOND:.*]] = stablehlo.compare EQ, %{{.*}}
// CHECK:             %[[YES:.*]] = stablehlo.constant dense<true> : tensor<i1>
// CHECK:             %[[RESET:.*]] = stablehlo.select %[[SECOND]], %[[YES]], %[[SO]]
// CHECK:             stablehlo.return {{.*}}, %[[RESET]] : {{.*}}, tensor<i1>
// CHECK:           %[[SUM:.*]] = "stablehlo.if"(%[[L]]#5) ({
// CHECK-NEXT:        %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:        stablehlo.return %[[ZEROS]]
// CHECK-NEXT:      }, {
// CHECK-NEXT:        "stablehlo.all_reduce"(%[[L]]#2)
// CHECK:           stablehlo.add %[[L]]#4, %[[SUM]]
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @of_three_branches(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %most) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %m = stablehlo.remainder %j, %five : tensor<i32>
    %index = stablehlo.subtract %m, %one : tensor<i32>
    %b:2 = "stablehlo.case"(%index) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      %step = stablehlo.sign %a : tensor<4xf32>
      %new = stablehlo.subtract %w, %step : tensor<4xf32>
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %acc : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// The loop counts from 0, and its eighth trip resets it.
// REMARK-DAG: [defer-sync] stablehlo.while applied: 16 bytes are not reduced after the loop: its last trip has reset them
// CHECK-LABEL:   func.func public @known_to_be_reset(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.if"
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.if"
// CHECK-NOT:       "stablehlo.all_reduce"
// CHECK:           return
func.func public @known_to_be_reset(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %zero) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b:2 = "stablehlo.if"(%last) ({
      %step = stablehlo.sign %a : tensor<4xf32>
      %new = stablehlo.subtract %w, %step : tensor<4xf32>
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// The eighth trip adds to it.
// CHECK-LABEL:   func.func public @known_not_to_be_reset(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.if"
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.if"
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @known_not_to_be_reset(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %one) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b:2 = "stablehlo.if"(%last) ({
      %step = stablehlo.sign %a : tensor<4xf32>
      %new = stablehlo.subtract %w, %step : tensor<4xf32>
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// As the last trips leave it as it is, that before them decides.
// CHECK-LABEL:   func.func public @reset_three_trips_before(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.if"
// CHECK-NOT:       "stablehlo.all_reduce"
// CHECK:           return
func.func public @reset_three_trips_before(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %three) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %m = stablehlo.remainder %j, %five : tensor<i32>
    %index = stablehlo.subtract %m, %one : tensor<i32>
    %b:2 = "stablehlo.case"(%index) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      %step = stablehlo.sign %a : tensor<4xf32>
      %new = stablehlo.subtract %w, %step : tensor<4xf32>
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %acc : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// One that is larger than what a collective costs is not reduced beside another.
// REMARK-DAG: [defer-sync] stablehlo.while applied: 8192 bytes are reduced after the loop only if its last trip has not reset them
// CHECK-LABEL:   func.func public @large_beside_another(
// CHECK:           stablehlo.while(
// CHECK:           } do {
// CHECK:             "stablehlo.if"
// CHECK:           "stablehlo.if"
// CHECK:             "stablehlo.all_reduce"
// CHECK:           })
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @large_beside_another(%v: tensor<2048xf32>, %x: tensor<2048xf32>, %start: tensor<2048xf32>, %c: tensor<i32>) -> (tensor<2048xf32>, tensor<2048xf32>, tensor<2048xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2048xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:5 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %most, %kept = %start) : tensor<i32>, tensor<2048xf32>, tensor<2048xf32>, tensor<i32>, tensor<2048xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %g = stablehlo.add %v, %ts : tensor<2048xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2048xf32>) -> tensor<2048xf32>
    %a = stablehlo.add %acc, %s : tensor<2048xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b:2 = "stablehlo.if"(%last) ({
      %step = stablehlo.sign %a : tensor<2048xf32>
      %new = stablehlo.subtract %w, %step : tensor<2048xf32>
      stablehlo.return %new, %zeros : tensor<2048xf32>, tensor<2048xf32>
    }, {
      stablehlo.return %w, %a : tensor<2048xf32>, tensor<2048xf32>
    }) : (tensor<i1>) -> (tensor<2048xf32>, tensor<2048xf32>)
    %kept2 = stablehlo.add %kept, %s : tensor<2048xf32>
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2, %kept2 : tensor<i32>, tensor<2048xf32>, tensor<2048xf32>, tensor<i32>, tensor<2048xf32>
  }
  return %l#1, %l#2, %l#4 : tensor<2048xf32>, tensor<2048xf32>, tensor<2048xf32>
}

}
