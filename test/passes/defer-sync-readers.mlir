// What else reads an accumulator or a reduced value.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Each micro-batch reads what the one before has made of the parameters.
// CHECK-LABEL:   func.func public @optimizer_in_the_loop
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.multiply: a factor is not proven uniform over the replica groups
func.func public @optimizer_in_the_loop(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.multiply %x, %acc : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %eighth = stablehlo.constant dense<0.125> : tensor<4xf32>
    %step = stablehlo.multiply %s, %eighth : tensor<4xf32>
    %n = stablehlo.subtract %acc, %step : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The factor is computed from the reduced value.
// CHECK-LABEL:   func.func public @clipped_by_its_norm
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the reduced value is also read by stablehlo.dot_general
func.func public @clipped_by_its_norm(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %square = stablehlo.dot_general %s, %s, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
    %norm = stablehlo.sqrt %square : tensor<f32>
    %most = stablehlo.constant dense<4.0> : tensor<f32>
    %large = stablehlo.compare GT, %norm, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %full = stablehlo.constant dense<1.0> : tensor<f32>
    %half = stablehlo.constant dense<0.5> : tensor<f32>
    %factor = stablehlo.select %large, %half, %full : tensor<i1>, tensor<f32>
    %factors = stablehlo.broadcast_in_dim %factor, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %c = stablehlo.multiply %factors, %s : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: its condition does not read the accumulator
// CHECK-LABEL:   func.func public @accumulator_read_by_the_condition
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the condition reads the accumulator (stablehlo.slice at
func.func public @accumulator_read_by_the_condition(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %first = stablehlo.slice %acc [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    %head = stablehlo.reshape %first : (tensor<1xf32>) -> tensor<f32>
    %bound = stablehlo.constant dense<20.0> : tensor<f32>
    %below = stablehlo.compare LT, %head, %bound : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %early = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %more = stablehlo.and %below, %early : tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: nothing else in the body reads the accumulator, but for branches with uniform predicates
// CHECK-LABEL:   func.func public @accumulator_read_in_the_body
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.abs
func.func public @accumulator_read_in_the_body(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %m = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %ab = stablehlo.abs %acc : tensor<4xf32>
    %m1 = stablehlo.maximum %m, %ab : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// A branch that runs in one trip of four: what it needs is reduced in there.
// CHECK-LABEL:   func.func public @accumulator_read_in_an_inner_region
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             %[[C:.*]] = "stablehlo.case"
// CHECK-NEXT:          %[[S:.*]] = "stablehlo.all_reduce"
// CHECK:               %[[A:.*]] = stablehlo.add %{{.*}}, %[[S]]
// CHECK-NEXT:          %[[B:.*]] = stablehlo.abs %[[A]]
// CHECK-NEXT:          stablehlo.return %[[B]]
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 4 times in it; 16 bytes are reduced in branches that need them in there
func.func public @accumulator_read_in_an_inner_region(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %c = "stablehlo.case"(%i) ({
      %ab = stablehlo.abs %acc : tensor<4xf32>
      stablehlo.return %ab : tensor<4xf32>
    }, {
      stablehlo.return %x : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %n = stablehlo.add %m, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A flat loop over several steps: an update in every second trip, and gradients from zero again; the sum, which has a start, is read in both branches.
// CHECK-LABEL:   func.func public @update_in_every_second_trip
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             "stablehlo.if"
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 6 times in it; 48 bytes are reduced in branches that need them in there
func.func public @update_in_every_second_trip(%x: tensor<4xf32>, %v: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %w0 = %v, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %i_next = stablehlo.add %i, %one : tensor<i32>
    %mod = stablehlo.remainder %i_next, %two : tensor<i32>
    %emit = stablehlo.compare EQ, %mod, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %g = stablehlo.multiply %x, %w0 : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %u:2 = "stablehlo.if"(%emit) ({
      %d = stablehlo.sign %n : tensor<4xf32>
      %new = stablehlo.subtract %w0, %d : tensor<4xf32>
      stablehlo.return %new, %none : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w0, %n : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    stablehlo.return %i_next, %u#0, %u#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// The branch that needs the sum makes it, in a branch of its own and in one more; the sum is not read after the loop: nothing is reduced there.
// CHECK-LABEL:   func.func public @sum_made_in_the_branch
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             "stablehlo.if"
// CHECK:               %[[N:.*]] = stablehlo.add
// CHECK-NEXT:          %[[S:.*]] = "stablehlo.all_reduce"(%[[N]])
// CHECK:               "stablehlo.if"
// CHECK:                 stablehlo.sign %[[S]]
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return %{{[0-9]+}}#1
func.func public @sum_made_in_the_branch(%x: tensor<4xf32>, %v: tensor<4xf32>, %flag: tensor<i1>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %w0 = %v, %acc = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %i_next = stablehlo.add %i, %one : tensor<i32>
    %mod = stablehlo.remainder %i_next, %two : tensor<i32>
    %emit = stablehlo.compare EQ, %mod, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %g = stablehlo.multiply %x, %w0 : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %u:2 = "stablehlo.if"(%emit) ({
      %n = stablehlo.add %acc, %s : tensor<4xf32>
      %d = "stablehlo.if"(%flag) ({
        %d0 = stablehlo.sign %n : tensor<4xf32>
        stablehlo.return %d0 : tensor<4xf32>
      }, {
        stablehlo.return %n : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      %new = stablehlo.maximum %w0, %d : tensor<4xf32>
      stablehlo.return %new, %n : tensor<4xf32>, tensor<4xf32>
    }, {
      %n = stablehlo.add %acc, %s : tensor<4xf32>
      stablehlo.return %w0, %n : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    stablehlo.return %i_next, %u#0, %u#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// It is not known how often the branch is taken.
// CHECK-LABEL:   func.func public @branch_taken_unknown_times
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             "stablehlo.if"
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16 bytes after the loop and 96 in branches are no fewer than 6 times 16 in it
func.func public @branch_taken_unknown_times(%x: tensor<4xf32>, %v: tensor<4xf32>, %k: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%k) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %flag = stablehlo.compare GT, %most, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %w:3 = stablehlo.while(%i = %zero, %w0 = %v, %acc = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %i_next = stablehlo.add %i, %one : tensor<i32>
    %mod = stablehlo.remainder %i_next, %two : tensor<i32>
    %emit = stablehlo.compare EQ, %mod, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %g = stablehlo.multiply %x, %w0 : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %u = "stablehlo.if"(%flag) ({
      %d = stablehlo.sign %n : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }, {
      stablehlo.return %w0 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    stablehlo.return %i_next, %u, %n : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Each device takes the branch at another time: none may wait for the others in there.
// CHECK-LABEL:   func.func public @branch_taken_apart
// CHECK:           } do {
// CHECK-COUNT-2:     stablehlo.all_reduce
// CHECK:             "stablehlo.if"
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups
func.func public @branch_taken_apart(%x: tensor<4xf32>, %v: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  %number = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %w0 = %v, %acc = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %i_next = stablehlo.add %i, %one : tensor<i32>
    %mod = stablehlo.remainder %i_next, %two : tensor<i32>
    %emit = stablehlo.compare EQ, %mod, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %g = stablehlo.multiply %x, %w0 : tensor<4xf32>
    %is = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %iss = stablehlo.broadcast_in_dim %is, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %i_on = stablehlo.add %x, %iss : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %s2 = "stablehlo.all_reduce"(%i_on) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %both = stablehlo.add %s, %s2 : tensor<4xf32>
    %n = stablehlo.add %acc, %both : tensor<4xf32>
    %mine = stablehlo.compare EQ, %i, %number : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %u = "stablehlo.if"(%mine) ({
      %d = stablehlo.sign %n : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }, {
      stablehlo.return %w0 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    stablehlo.return %i_next, %u, %n : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// What a loop in the body reads from outside is no branch's.
// CHECK-LABEL:   func.func public @read_in_an_inner_loop
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             } do {
// CHECK-NEXT:          stablehlo.sign
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return %{{.*}}#1, %
func.func public @read_in_an_inner_loop(%x: tensor<4xf32>, %v: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %six = stablehlo.constant dense<6> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %w0 = %v, %acc = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %six : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %i_next = stablehlo.add %i, %one : tensor<i32>
    %mod = stablehlo.remainder %i_next, %two : tensor<i32>
    %emit = stablehlo.compare EQ, %mod, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %g = stablehlo.multiply %x, %w0 : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %l:2 = stablehlo.while(%j = %zero, %m = %w0) : tensor<i32>, tensor<4xf32>
    cond {
      %more = stablehlo.compare LT, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %d = stablehlo.sign %n : tensor<4xf32>
      %u = stablehlo.maximum %m, %d : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %u : tensor<i32>, tensor<4xf32>
    }
    stablehlo.return %i_next, %l#1, %n : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Legal when: an inner loop that carries the accumulator computes linear ops of it only
// CHECK-LABEL:   func.func public @inner_not_linear
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.abs does not commute with the reduction
func.func public @inner_not_linear(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
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
      %b = stablehlo.abs %a : tensor<4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %b : tensor<i32>, tensor<4xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// What was accumulated one trip before is a sum, too.
// CHECK-LABEL:   func.func public @accumulator_carried_twice
// CHECK:           %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[D:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[D]]
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           "stablehlo.all_reduce"(%[[W]]#2)
func.func public @accumulator_carried_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %previous = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %acc : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @accumulator_carried_and_read
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also carried to the next trip
func.func public @accumulator_carried_and_read(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %previous = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %m = stablehlo.abs %previous : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %acc : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// What is reduced is added in the next trip.
// CHECK-LABEL:   func.func public @added_one_trip_later
// CHECK:           %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}, %[[D:.*]] = %{{.*}})
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             %[[G:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
// CHECK:             %[[N:.*]] = stablehlo.add %[[A]], %[[D]]
// CHECK:             stablehlo.return %{{.*}}, %[[N]], %[[G]]
// CHECK-COUNT-2:   "stablehlo.all_reduce"
func.func public @added_one_trip_later(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %previous = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %previous : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %s : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// What is the same in each trip, XLA reduces once, before the loop.
// CHECK-LABEL:   func.func public @same_in_each_trip
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 32 bytes after the loop are no fewer than 1 times 16 in it: XLA reduces loop-invariant values once
func.func public @same_in_each_trip(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %previous = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %d = stablehlo.subtract %s, %previous : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %d : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Nothing that it makes could move, so nothing has to be known of the predicate.
// CHECK-LABEL:   func.func public @reduced_in_a_branch_without_results
// CHECK:           } do {
// CHECK:             "stablehlo.case"
// CHECK:               stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK:           "stablehlo.all_reduce"
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: it reaches no accumulator
func.func public @reduced_in_a_branch_without_results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %previous = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    "stablehlo.case"(%i) ({
      %own = "stablehlo.all_reduce"(%ts) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return
    }, {
      stablehlo.return
    }) : (tensor<i32>) -> ()
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %previous : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @sum_reaches_another_value
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator also reaches a value that is not accumulated
func.func public @sum_reaches_another_value(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %m = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %neg = stablehlo.negate %acc : tensor<4xf32>
    %ab = stablehlo.abs %neg : tensor<4xf32>
    %m1 = stablehlo.maximum %m, %ab : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Legal when: nothing else in the body reads the reduced value, but for branches with uniform predicates
// CHECK-LABEL:   func.func public @norm_of_the_reduced_gradient
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the reduced value is also read by stablehlo.abs: stablehlo.abs does not commute with the reduction (stablehlo.abs at
func.func public @norm_of_the_reduced_gradient(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %m = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %ab = stablehlo.abs %s : tensor<4xf32>
    %m1 = stablehlo.maximum %m, %ab : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Legal when: the reduction is in the body of the loop, or in a branch there whose predicate is uniform
// CHECK-LABEL:   func.func public @reduced_in_an_inner_condition
// CHECK:           } do {
// CHECK:           stablehlo.while
// CHECK:           stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the reduction is in a region within the body that is no branch (stablehlo.while at
func.func public @reduced_in_an_inner_condition(%x: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zero) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %v = stablehlo.while(%k = %zero) : tensor<i32>
    cond {
      %c = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
      %last = stablehlo.minimum %c, %four : tensor<i32>
      %again = stablehlo.compare LT, %k, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %again : tensor<i1>
    } do {
      %k_next = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %k_next : tensor<i32>
    }
    %n = stablehlo.add %acc, %v : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// Ops that nobody reads, as in a module that no `cse` has seen, read the sum: XLA drops them, and so does the loop.
// CHECK-LABEL:   func.func public @read_by_what_is_unread
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK-NOT:       stablehlo.negate
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
func.func public @read_by_what_is_unread(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %minus = stablehlo.negate %s : tensor<4xf32>
    %unread = stablehlo.add %minus, %n : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Of two ops that read the sum, one is read.
// CHECK-LABEL:   func.func public @read_by_more_than_what_is_unread
// CHECK:           } do {
// CHECK:           "stablehlo.all_reduce"
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is also read by stablehlo.maximum: stablehlo.maximum does not commute
func.func public @read_by_more_than_what_is_unread(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %most = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %minus = stablehlo.negate %s : tensor<4xf32>
    %unread = stablehlo.add %minus, %n : tensor<4xf32>
    %m = stablehlo.maximum %most, %minus : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}
}
