// Selects that become a branch.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Legal when: they share one scalar predicate, and none depends on another
// REMARK-DAG: [defer-sync] stablehlo.select missed: it depends on another select with the same predicate
// CHECK-LABEL:   func.func public @depends_on_it(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @depends_on_it(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %w1 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %seen = stablehlo.abs %w1 : tensor<4xf32>
    %w2 = stablehlo.add %w1, %seen : tensor<4xf32>
    %acc2 = stablehlo.select %last, %seen, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// What would move into the branch depends on it.
// REMARK-DAG: [defer-sync] stablehlo.select missed: it depends on another select with the same predicate (stablehlo.negate at
// CHECK-LABEL:   func.func public @depends_on_it_by_the_way(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @depends_on_it_by_the_way(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %w1 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %seen = stablehlo.abs %w1 : tensor<4xf32>
    %w2 = stablehlo.add %w1, %seen : tensor<4xf32>
    %less = stablehlo.negate %seen : tensor<4xf32>
    %acc2 = stablehlo.select %last, %less, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Nor does what has an effect of its own come to be behind it.
// NUMERIC: skip (calls what only a caller knows)
// REMARK-DAG: [defer-sync] stablehlo.select missed: stablehlo.custom_call reads a selected value before others are selected
// CHECK-LABEL:   func.func public @told_of_it(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @told_of_it(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %w1 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %seen = stablehlo.custom_call @told(%w1) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
    %w2 = stablehlo.add %w1, %seen : tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Legal when: ops that move into the branch have no side effects and no collectives
// CHECK-LABEL:   func.func public @with_a_collective(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @with_a_collective(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %m = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %new = stablehlo.subtract %w, %m : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Worth it when: a branch made of selects is taken in some iterations only, for any init operand of the counter, and reduces the sum (else it stays)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is also read by stablehlo.sign
// CHECK-LABEL:   func.func public @read_in_each_trip(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @read_in_each_trip(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %old = stablehlo.cosine %a : tensor<4xf32>
    %w1 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %w2 = stablehlo.add %w1, %old : tensor<4xf32>
    %acc2 = stablehlo.select %last, %zeros, %a : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Legal when: a multiplication counts as a select only with the option `finite`, and where its factor is 0 or 1
// CHECK-LABEL:   func.func public @factors_that_may_meet_infinity(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @factors_that_may_meet_infinity(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %f = stablehlo.convert %last : (tensor<i1>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %u = stablehlo.multiply %fs, %step : tensor<4xf32>
    %w2 = stablehlo.add %w, %u : tensor<4xf32>
    %b = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %o = stablehlo.subtract %one, %b : tensor<i32>
    %of = stablehlo.convert %o : (tensor<i32>) -> tensor<f32>
    %ofs = stablehlo.broadcast_in_dim %of, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %acc2 = stablehlo.multiply %a, %ofs : tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Legal when: an accumulator that is not reduced after the loop is the identity element: the last iteration has reset it
// CHECK-LABEL:   func.func public @reset_to_a_gradient(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.if"
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.if"
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @reset_to_a_gradient(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
      stablehlo.return %new, %s : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %a : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// Worth it when: an if after the loop reduces more than scalars, and more than 4 kB where others are reduced beside it
// CHECK-LABEL:   func.func public @reset_number(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.if"
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.if"
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @reset_number(%v: tensor<f32>, %x: tensor<f32>, %start: tensor<f32>, %c: tensor<i32>) -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<f32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %most) : tensor<i32>, tensor<f32>, tensor<f32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %ts = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %g = stablehlo.add %v, %ts : tensor<f32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %a = stablehlo.add %acc, %s : tensor<f32>
    %k = stablehlo.remainder %j, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b:2 = "stablehlo.if"(%last) ({
      %step = stablehlo.sign %a : tensor<f32>
      %new = stablehlo.subtract %w, %step : tensor<f32>
      stablehlo.return %new, %zeros : tensor<f32>, tensor<f32>
    }, {
      stablehlo.return %w, %a : tensor<f32>, tensor<f32>
    }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2 : tensor<i32>, tensor<f32>, tensor<f32>, tensor<i32>
  }
  return %l#1, %l#2 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL:   func.func public @reset_beside_another(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.if"
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.if"
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @reset_beside_another(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %most = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %l:5 = stablehlo.while(%i = %zero, %w = %x, %acc = %start, %j = %most, %kept = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<4xf32>
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
    %kept2 = stablehlo.add %kept, %s : tensor<4xf32>
    %j2 = stablehlo.add %j, %one : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %j2, %kept2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<i32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
}
