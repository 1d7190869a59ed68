// What a loop selects by its counter becomes a branch that reduces the sum for itself.
// REMARK-NOT: Traceback

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// An update in every fourth trip, and gradients from zero again.
// REMARK-DAG: [defer-sync] stablehlo.case applied: what the loop selects by its counter is a branch of it now, which alone reads the sum
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 8 times in it; 32 bytes are reduced in branches that need them in there
// CHECK-LABEL:   func.func public @selected_update(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.case
// CHECK:             }, {
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK-NOT:         stablehlo.select
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @selected_update(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// A branch that returns what the body has computed for it: the branch computes it.
// REMARK-DAG: [defer-sync] stablehlo.case applied: a branch computes what it alone reads, and alone reads the sum
// CHECK-LABEL:   func.func public @computed_before(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-NOT:         stablehlo.sign
// CHECK:             stablehlo.case
// CHECK:             }, {
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK:               stablehlo.subtract
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @computed_before(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Each trip reads the sum otherwise, too: what the branch would have computed is where it was.
// CHECK-LABEL:   func.func public @computed_for_nothing(
// CHECK:             %[[S:.*]] = "stablehlo.all_reduce"
// CHECK:             stablehlo.add %{{.*}}, %[[S]]
// CHECK-NEXT:        stablehlo.sign
// CHECK-NEXT:        stablehlo.remainder
// CHECK-NEXT:        stablehlo.compare
// CHECK-NEXT:        stablehlo.subtract
// CHECK-NEXT:        stablehlo.tanh %[[S]]
// CHECK-NEXT:        stablehlo.convert
// CHECK-NEXT:        stablehlo.case
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @computed_for_nothing(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %hs = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %step = stablehlo.sign %a : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %h = stablehlo.tanh %s : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %h : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Where another branch keeps what it computes, the ops that go back are right before theirs.
// CHECK-LABEL:   func.func public @computed_for_something_and_for_nothing(
// CHECK:             stablehlo.case
// CHECK:               "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK:             stablehlo.tanh
// CHECK-NEXT:        stablehlo.sign
// CHECK-NEXT:        stablehlo.subtract
// CHECK-NEXT:        stablehlo.case
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @computed_for_something_and_for_nothing(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:6 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %u = %x, %bcc = %start, %hs = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %f = stablehlo.multiply %v, %ts : tensor<4xf32>
    %r = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %d = stablehlo.add %bcc, %r : tensor<4xf32>
    %move = stablehlo.sign %d : tensor<4xf32>
    %other = stablehlo.subtract %u, %move : tensor<4xf32>
    %h = stablehlo.tanh %r : tensor<4xf32>
    %c:2 = "stablehlo.case"(%number) ({
      stablehlo.return %u, %d : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %other, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %c#0, %c#1, %h : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3, %l#4, %l#5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// In the last trip only: the branch follows the loop, with what it computes.
// CHECK-LABEL:   func.func public @computed_before_the_end(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.return %{{.*}} : tensor<i32>, tensor<4xf32>, tensor<4xf32>
// CHECK:           "stablehlo.all_reduce"
// CHECK:           stablehlo.sign %{{[0-9]+}} : tensor<4xf32>
// CHECK-NEXT:      stablehlo.subtract %{{.*}} : tensor<4xf32>
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @computed_before_the_end(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %seven = stablehlo.constant dense<7> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %seven : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// What both branches read of it stays where it is, and so does the sum.
// CHECK-LABEL:   func.func public @for_both(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.sign
// CHECK:             stablehlo.subtract
// CHECK:             stablehlo.case
// CHECK-NOT:         stablehlo.sign
// CHECK:           return
func.func public @for_both(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %step, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Each device would take it when it likes: what it would compute is where it was.
// CHECK-LABEL:   func.func public @taken_by_each(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.sign
// CHECK:             stablehlo.subtract
// CHECK:             stablehlo.case
// CHECK-NOT:         stablehlo.sign
// CHECK:           return
func.func public @taken_by_each(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %mine: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %mine : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %zeros : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// By predicates that hold in the same trips, and in the others.
// CHECK-LABEL:   func.func public @other_predicates(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.case
// CHECK:             }, {
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK-NOT:         stablehlo.select
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @other_predicates(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %not = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %all_not = stablehlo.broadcast_in_dim %not, dims = [] : (tensor<i1>) -> tensor<4xi1>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %all_not, %a, %zeros : tensor<4xi1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// The counter starts from a number of the caller.
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 8 times in it; at most 32 bytes are reduced in branches that need them in there
// CHECK-LABEL:   func.func public @from_any_number(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.case
// CHECK:             }, {
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK-NOT:         stablehlo.select
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @from_any_number(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i32>) {
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
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<i32>
}

// Each device has a number of its own, and would take the branch when it likes.
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups: an argument of the function may differ between devices
// CHECK-LABEL:   func.func public @from_its_own_number(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @from_its_own_number(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %c) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<i32>
}

// Which has a part in both; nothing is computed on either side.
// CHECK-LABEL:   func.func public @kept_sum(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.case
// CHECK:             }, {
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK-NOT:         stablehlo.select
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @kept_sum(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %size = stablehlo.abs %w : tensor<4xf32>
    %w2 = stablehlo.select %last, %a, %size : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Both sides are the same, as of an update that does nothing: the sum is read in each trip as it was.
// CHECK-LABEL:   func.func public @same_on_both_sides(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:           return
func.func public @same_on_both_sides(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %size = stablehlo.abs %a : tensor<4xf32>
    %seen = stablehlo.add %w, %size : tensor<4xf32>
    %w2 = stablehlo.select %last, %seen, %seen : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %a, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// What reads a selected value before others are selected follows the branch.
// CHECK-LABEL:   func.func public @read_in_between(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-NOT:         stablehlo.abs
// CHECK:             stablehlo.case
// CHECK:             }, {
// CHECK-NEXT:          "stablehlo.all_reduce"
// CHECK:               stablehlo.sign
// CHECK-NOT:         stablehlo.select
// CHECK:             stablehlo.abs
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @read_in_between(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %m = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %seen = stablehlo.abs %w2 : tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2, %seen : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @by_elements(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @by_elements(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %which = stablehlo.compare GT, %w, %zeros : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %w2 = stablehlo.select %which, %new, %w : tensor<4xi1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// NUMERIC: skip (nothing is called like that)
// CHECK-LABEL:   func.func public @with_an_effect(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @with_an_effect(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.custom_call @callback(%a) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// A product of what the caller counts may be any number.
// CHECK-LABEL:   func.func public @unknown_count(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @unknown_count(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %j = stablehlo.multiply %i, %most : tensor<i32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// In all trips.
// CHECK-LABEL:   func.func public @always_taken(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @always_taken(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:3 = stablehlo.while(%i = %zero, %w = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %v, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %a = stablehlo.add %acc, %s : tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare LE, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}
}
