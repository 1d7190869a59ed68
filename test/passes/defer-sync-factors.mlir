// Updates that are multiplied by 0 or 1.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='defer-sync{finite=true}' --split-input-file | FileCheck %s --check-prefix=FINITE

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// A mask may leave as it is.

// CHECK-LABEL:   func.func public @mask(
// CHECK-NOT:         stablehlo.case
// CHECK:             stablehlo.select
// CHECK-NOT:         stablehlo.case
// CHECK:           "stablehlo.all_reduce"
// CHECK:           return
func.func public @mask(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %k = stablehlo.remainder %i, %four : tensor<i32>
    %last = stablehlo.compare EQ, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %h = stablehlo.select %last, %s, %zeros : tensor<i1>, tensor<4xf32>
    %acc2 = stablehlo.add %acc, %h : tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %w, %acc2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %l#1, %l#2 : tensor<4xf32>, tensor<4xf32>
}

// An update that is multiplied by 0 or 1, as optax.MultiSteps does. One remark says what the option would bring.
// REMARK: [defer-sync] stablehlo.multiply missed: its factor is 0 or 1, and 1 in at most 2 of 8 trips: since 0 times infinity is not 0, each trip needs the sum. passes="grad-sync{finite=true}" takes all values for finite: then 1 array, 16 bytes in a trip, are reduced in these trips and after the loop only. Or paropt.accumulate(compute_grad=..., apply_grad=...) calls the optimizer once, without such factors
// REMARK-NOT: its factor is 0 or 1
// FINITE-LABEL:  func.func public @factors(
// FINITE:           stablehlo.while(
// FINITE-NOT:         stablehlo.all_reduce
// FINITE:             stablehlo.case
// FINITE:             }, {
// FINITE-NEXT:          "stablehlo.all_reduce"
// FINITE:               stablehlo.sign
// FINITE-NOT:         "stablehlo.all_reduce"
// FINITE:           return
// CHECK-LABEL:   func.func public @factors(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @factors(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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

// Not by 0 or 1: the option would bring nothing.
// FINITE-LABEL:  func.func public @factor_of_two(
// FINITE-NOT:      stablehlo.case
// CHECK-LABEL:   func.func public @factor_of_two(
// CHECK:           stablehlo.while(
// CHECK:             stablehlo.all_reduce
// CHECK-NOT:         stablehlo.case
// CHECK:           return
func.func public @factor_of_two(%v: tensor<4xf32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
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
    %kf = stablehlo.convert %k : (tensor<i32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %kf, dims = [] : (tensor<f32>) -> tensor<4xf32>
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
}
