// Ifs and cases that take their branches by the same counter, with an update in between, as in Keras: they become one.
// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK-NOT: Traceback

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Gradients are added up, or averaged with those before; the update is computed in each trip, and one in four is kept.
// REMARK-DAG: [defer-sync] stablehlo.case applied: what the loop selects by its counter is a branch of it now, which alone reads the sum
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 8 times in it; 32 bytes are reduced in branches that need them in there
// CHECK-LABEL:   func.func public @as_in_keras(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             "stablehlo.case"
// CHECK-NOT:           stablehlo.all_reduce
// CHECK:             }, {
// CHECK:               "stablehlo.all_reduce"
// CHECK:               stablehlo.divide
// CHECK:               stablehlo.subtract
// CHECK-NOT:         stablehlo.case
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @as_in_keras(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// An if, a case, and a case that takes its branches the other way round.
// CHECK-LABEL:   func.func public @by_the_opposite(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-NOT:         stablehlo.if
// CHECK:             "stablehlo.case"
// CHECK:               stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:        }, {
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:         stablehlo.case
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @by_the_opposite(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %k3 = stablehlo.compare NE, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %other = stablehlo.convert %k3 : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.if"(%last) ({
      stablehlo.return %zeros : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%other) ({
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What is kept is selected.
// CHECK-LABEL:   func.func public @with_selects(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             "stablehlo.case"
// CHECK:             }, {
// CHECK:               "stablehlo.all_reduce"
// CHECK-NOT:         stablehlo.select
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @with_selects(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %w2 = stablehlo.select %last, %new, %w : tensor<i1>, tensor<4xf32>
    %m3 = stablehlo.select %last, %m2, %m : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w2, %m3, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A metric of the average in each trip: the sum is needed there, and nothing is computed more often than before.
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16 bytes after the loop and 160 in branches are no fewer than 8 times 16 in it
// CHECK-LABEL:   func.func public @read_in_each_trip(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.all_reduce"
// CHECK:             "stablehlo.case"
// CHECK:             }, {
// CHECK:               stablehlo.divide
// CHECK:               stablehlo.subtract
// CHECK-NOT:       paropt_
// CHECK:           return
func.func public @read_in_each_trip(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:5 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start, %hs = %zeros) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %u = stablehlo.tanh %h : tensor<4xf32>
    %hs2 = stablehlo.add %hs, %u : tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2, %hs2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3, %l#4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// The update is kept in other trips than the average: the one is no part of the other.
// CHECK-LABEL:   func.func public @in_other_trips(
// CHECK:           stablehlo.while(
// CHECK-COUNT-3:     "stablehlo.case"
// CHECK:           return
func.func public @in_other_trips(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %penultimate = stablehlo.compare EQ, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %number2 = stablehlo.convert %penultimate : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%number2) ({
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// One that does more than compute stays where it is.
// NUMERIC: skip (custom call)
// CHECK-LABEL:   func.func public @with_an_effect(
// CHECK:           stablehlo.while(
// CHECK:             "stablehlo.all_reduce"
// CHECK-COUNT-3:     "stablehlo.case"
// CHECK:           return
func.func public @with_an_effect(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.custom_call @told(%g) {has_side_effect = true} : (tensor<4xf32>) -> ()
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// What the user says of one is kept, and so is that one.
// CHECK-LABEL:   func.func public @with_a_note_of_the_user(
// CHECK:           stablehlo.while(
// CHECK-COUNT-3:     "stablehlo.case"
// CHECK:             }) {mhlo.frontend_attributes = {kept = "so"}}
// CHECK:           return
func.func public @with_a_note_of_the_user(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) {mhlo.frontend_attributes = {kept = "so"}} : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Two that need nothing of each other stay two.
// CHECK-LABEL:   func.func public @nothing_in_between(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             "stablehlo.case"
// CHECK:             "stablehlo.case"
// CHECK:               "stablehlo.all_reduce"
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @nothing_in_between(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %step = stablehlo.sign %a : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.add %g, %acc : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %b = "stablehlo.case"(%number) ({
      stablehlo.return %w : tensor<4xf32>
    }, {
      stablehlo.return %new : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// What both branches compute is computed before them, but not if it only looks so.
// CHECK-LABEL:   func.func public @not_quite_the_same(
// CHECK:           stablehlo.while(
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             "stablehlo.case"
// CHECK-NEXT:          stablehlo.subtract
// CHECK:             }, {
// CHECK:               "stablehlo.all_reduce"
// CHECK:               stablehlo.subtract
// CHECK:               stablehlo.divide
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           return
func.func public @not_quite_the_same(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %end = stablehlo.constant dense<8> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %l:4 = stablehlo.while(%i = %zero, %w = %x, %m = %x, %acc = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %f = stablehlo.add %v, %ts : tensor<4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %fours = stablehlo.constant dense<4.0> : tensor<4xf32>
    %number = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
    %acc2 = "stablehlo.case"(%number) ({
      %s = stablehlo.subtract %acc, %g : tensor<4xf32>
      stablehlo.return %s : tensor<4xf32>
    }, {
      stablehlo.return %zeros : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %h = "stablehlo.case"(%number) ({
      stablehlo.return %g : tensor<4xf32>
    }, {
      %s = stablehlo.subtract %g, %acc : tensor<4xf32>
      %d = stablehlo.divide %s, %fours : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %m2 = stablehlo.add %m, %h : tensor<4xf32>
    %square = stablehlo.multiply %h, %h : tensor<4xf32>
    %step = stablehlo.add %m2, %square : tensor<4xf32>
    %new = stablehlo.subtract %w, %step : tensor<4xf32>
    %b:2 = "stablehlo.case"(%number) ({
      stablehlo.return %w, %m : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %new, %m2 : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %b#0, %b#1, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2, %l#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

}
