// Bytes that are reduced after the loop beside those in it.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Of scanned layers, 32 bytes of f32 are more than 2 times 8 of bf16, but they are reduced once, and those in 4 trips.
// CHECK-LABEL:   func.func public @wider_stack_in_a_loop
// CHECK:           %[[W:.*]]:2 = stablehlo.while
// CHECK:             stablehlo.while
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 8 bytes per device, now reduced after the loop and not 2 times in it
func.func public @wider_stack_in_a_loop(%x: tensor<4xbf16>) -> tensor<2x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2x4xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %layers:2 = stablehlo.while(%j = %zero, %stack = %none) : tensor<i32>, tensor<2x4xf32>
    cond {
      %m = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %m : tensor<i1>
    } do {
      %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
      %f = stablehlo.convert %s : (tensor<4xbf16>) -> tensor<4xf32>
      %row = stablehlo.reshape %f : (tensor<4xf32>) -> tensor<1x4xf32>
      %all = stablehlo.dynamic_update_slice %stack, %row, %j, %zero : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %all : tensor<i32>, tensor<2x4xf32>
    }
    %n = stablehlo.add %acc, %layers#1 : tensor<2x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2x4xf32>
  }
  return %w#1 : tensor<2x4xf32>
}

// The loop around it reads what they add up to: it would reduce 4 times 16 kB.
// CHECK-LABEL:   func.func public @wider_stack_that_is_read
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while
// CHECK:               "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16384 bytes after the loop are no fewer than 2 times 4096 in it
func.func public @wider_stack_that_is_read(%x: tensor<2048xbf16>) -> tensor<2x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2x2048xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2x2048xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %layers:2 = stablehlo.while(%j = %zero, %stack = %none) : tensor<i32>, tensor<2x2048xf32>
    cond {
      %m = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %m : tensor<i1>
    } do {
      %xi = stablehlo.convert %j : (tensor<i32>) -> tensor<bf16>
      %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<bf16>) -> tensor<2048xbf16>
      %xv = stablehlo.add %x, %xb : tensor<2048xbf16>
      %s = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<2048xbf16>) -> tensor<2048xbf16>
      %f = stablehlo.convert %s : (tensor<2048xbf16>) -> tensor<2048xf32>
      %row = stablehlo.reshape %f : (tensor<2048xf32>) -> tensor<1x2048xf32>
      %all = stablehlo.dynamic_update_slice %stack, %row, %j, %zero : (tensor<2x2048xf32>, tensor<1x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2048xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %all : tensor<i32>, tensor<2x2048xf32>
    }
    %h = stablehlo.tanh %layers#1 : tensor<2x2048xf32>
    %n = stablehlo.add %acc, %h : tensor<2x2048xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2x2048xf32>
  }
  return %w#1 : tensor<2x2048xf32>
}

// The optimizer in the last trip reads the sum: it follows the loop, and so does the reduction before it.
// CHECK-LABEL:   func.func public @update_in_the_last_trip
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK-NOT:         stablehlo.if
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.tanh
// REMARK-DAG: [defer-sync] stablehlo.if applied: taken in the last trip only, the branch now follows the loop
func.func public @update_in_the_last_trip(%x: tensor<4xf32>, %p: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %p) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %g = stablehlo.multiply %x, %q : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %r = stablehlo.add %a, %b : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %is_last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %u = "stablehlo.if"(%is_last) ({
      %t = stablehlo.tanh %n : tensor<4xf32>
      %new = stablehlo.subtract %q, %t : tensor<4xf32>
      stablehlo.return %new : tensor<4xf32>
    }, {
      stablehlo.return %q : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %u : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#2 : tensor<4xf32>
}

// What calls something stays where it is, but what it calls it for is reduced there: a branch with a reduction follows.
// NUMERIC: skip (nothing is called like that)
// CHECK-LABEL:   func.func public @call_in_the_last_trip
// CHECK:           stablehlo.while
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-NOT:         custom_call
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"
// CHECK:           stablehlo.custom_call @print(%[[S]])
func.func public @call_in_the_last_trip(%x: tensor<4xf32>, %p: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %p) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %m = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %g = stablehlo.multiply %x, %q : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %r = stablehlo.add %a, %b : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %is_last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %u = "stablehlo.if"(%is_last) ({
      %t = stablehlo.custom_call @print(%n) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %t : tensor<4xf32>
    }, {
      stablehlo.return %q : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %u : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#2 : tensor<4xf32>
}

// Of two terms of one accumulator the body needs one reduced, itself or negated: the other leaves the loop.
// CHECK-LABEL:   func.func public @one_term_is_read
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"(%[[X]])
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is also read by stablehlo.tanh: stablehlo.tanh does not commute with the reduction
func.func public @one_term_is_read(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %v = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.negate %s : tensor<4xf32>
    %h = stablehlo.tanh %n : tensor<4xf32>
    %yh = stablehlo.multiply %y, %y : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%yh) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %st = stablehlo.add %s, %t : tensor<4xf32>
    %m = stablehlo.add %acc, %st : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %m, %h : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// The same of a variadic all_reduce, and an accumulator that does not start from zero: the other array leaves it.
// CHECK-LABEL:   func.func public @one_array_is_read
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"(%[[X]])
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
func.func public @one_array_is_read(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %y, %v = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    %h = stablehlo.tanh %s#0 : tensor<4xf32>
    %st = stablehlo.add %s#0, %s#1 : tensor<4xf32>
    %m = stablehlo.add %acc, %st : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %m, %h : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Zeros that the loop carries unchanged, as those that a branch or a select takes from outside, add nothing.
// CHECK-LABEL:   func.func public @zeros_from_outside
// CHECK:           %{{.*}}:3 = stablehlo.while(
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{[^,]*}} :
// CHECK:           stablehlo.all_reduce
func.func public @zeros_from_outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %z = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %is_first = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %t = stablehlo.select %is_first, %z, %s : tensor<i1>, tensor<4xf32>
    %n = stablehlo.add %acc, %t : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %z : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The update of each layer where its gradient is made: after the loop, the gradients of all layers would be held.
// Worth it when: bytes are saved, or at most 4 kB more are held for each collective fewer
// CHECK-LABEL:   func.func public @update_in_the_loop_over_layers
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 65536 bytes more would be held, and as many are reduced after the loop as in it, in fewer arrays
func.func public @update_in_the_loop_over_layers(%w: tensor<8x2048xf32>, %gs: tensor<8x2048xf32>) -> tensor<8x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %eight = stablehlo.constant dense<8> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x2048xf32>
  %l:2 = stablehlo.while(%i = %zero, %new = %none) : tensor<i32>, tensor<8x2048xf32>
  cond {
    %m = stablehlo.compare LT, %i, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %w, %i, %zero, sizes = [1, 2048] : (tensor<8x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2048xf32>
    %g = stablehlo.dynamic_slice %gs, %i, %zero, sizes = [1, 2048] : (tensor<8x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2048xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<1x2048xf32>) -> tensor<1x2048xf32>
    %u = stablehlo.subtract %row, %s : tensor<1x2048xf32>
    %n = stablehlo.dynamic_update_slice %new, %u, %i, %zero : (tensor<8x2048xf32>, tensor<1x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2048xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<8x2048xf32>
  }
  return %l#1 : tensor<8x2048xf32>
}

// Gradients alone are no more bytes than the stack that the loop carries: one collective in place of eight.
// CHECK-LABEL:   func.func public @gradients_of_layers
// CHECK:           stablehlo.while
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(
func.func public @gradients_of_layers(%gs: tensor<8x2048xf32>) -> tensor<8x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %eight = stablehlo.constant dense<8> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x2048xf32>
  %l:2 = stablehlo.while(%i = %zero, %new = %none) : tensor<i32>, tensor<8x2048xf32>
  cond {
    %m = stablehlo.compare LT, %i, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %g = stablehlo.dynamic_slice %gs, %i, %zero, sizes = [1, 2048] : (tensor<8x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2048xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<1x2048xf32>) -> tensor<1x2048xf32>
    %n = stablehlo.dynamic_update_slice %new, %s, %i, %zero : (tensor<8x2048xf32>, tensor<1x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<8x2048xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<8x2048xf32>
  }
  return %l#1 : tensor<8x2048xf32>
}

// Worth it when: fewer bytes are reduced after the loop, and in branches that read the sum, than in all iterations (of a loop around it, too, if they leave that), or as many in fewer arrays; loop-invariant values count once, as XLA hoists them, and a branch as often as it can be taken; or nothing is left to reduce in an iteration, for at most 4 kB more for each collective fewer
// CHECK-LABEL:   func.func public @one_trip
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16 bytes after the loop are no fewer than 1 times 16 in it
func.func public @one_trip(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
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

// XLA takes two sums of the same value for one, which the loop needs.
// CHECK-LABEL:   func.func public @reduced_for_others
// CHECK:           } do {
// CHECK-COUNT-2:     stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16 bytes after the loop are no fewer than 4 times 16 in it, of values that are reduced there for others, too
func.func public @reduced_for_others(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %xv = stablehlo.add %x, %xb : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %t = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Once per trip for both sums, and once for each of them after two trips: as many bytes, in one collective and not two.
// CHECK-LABEL:   func.func public @reduced_for_two
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-COUNT-2:   stablehlo.all_reduce
func.func public @reduced_for_two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %xv = stablehlo.add %x, %xb : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %t = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %m = stablehlo.add %acc2, %t : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Rows of metrics, one of which is not reduced: 16 bytes more, in one collective and not four.
// CHECK-LABEL:   func.func public @metrics_beside_a_constant
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK:           "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 8 bytes per device, now reduced after the loop and not 4 times in it; 8 bytes in a trip are 48 after them
func.func public @metrics_beside_a_constant(%x: tensor<2xf32>, %start: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %own = stablehlo.constant dense<7.0> : tensor<1xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %w:3 = stablehlo.while(%i = %zero, %rows = %start, %last = %none) : tensor<i32>, tensor<4x3xf32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %g = stablehlo.add %x, %ts : tensor<2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
    %all = stablehlo.concatenate %s, %own, dim = 0 : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
    %row = stablehlo.reshape %all : (tensor<3xf32>) -> tensor<1x3xf32>
    %n = stablehlo.dynamic_update_slice %rows, %row, %i, %zero : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %last : tensor<i32>, tensor<4x3xf32>, tensor<f32>
  }
  return %w#1 : tensor<4x3xf32>
}

// 16 kB more are too much for three collectives fewer.
// CHECK-LABEL:   func.func public @much_beside_metrics
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"(
// CHECK-NOT:       "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16416 bytes after the loop are no fewer than 4 times 8 in it
func.func public @much_beside_metrics(%x: tensor<2xf32>, %start: tensor<4x1026xf32>) -> tensor<4x1026xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %own = stablehlo.constant dense<7.0> : tensor<1024xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %w:3 = stablehlo.while(%i = %zero, %rows = %start, %last = %none) : tensor<i32>, tensor<4x1026xf32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %g = stablehlo.add %x, %ts : tensor<2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
    %all = stablehlo.concatenate %s, %own, dim = 0 : (tensor<2xf32>, tensor<1024xf32>) -> tensor<1026xf32>
    %row = stablehlo.reshape %all : (tensor<1026xf32>) -> tensor<1x1026xf32>
    %n = stablehlo.dynamic_update_slice %rows, %row, %i, %zero : (tensor<4x1026xf32>, tensor<1x1026xf32>, tensor<i32>, tensor<i32>) -> tensor<4x1026xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %last : tensor<i32>, tensor<4x1026xf32>, tensor<f32>
  }
  return %w#1 : tensor<4x1026xf32>
}

// Each trip reduces something else as well, in one collective with them.
// CHECK-LABEL:   func.func public @metrics_beside_what_stays
// CHECK:           } do {
// CHECK-COUNT-2:     "stablehlo.all_reduce"(
// CHECK-NOT:       "stablehlo.all_reduce"(
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 48 bytes after the loop are no fewer than 4 times 8 in it
func.func public @metrics_beside_what_stays(%x: tensor<2xf32>, %start: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %own = stablehlo.constant dense<7.0> : tensor<1xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %w:3 = stablehlo.while(%i = %zero, %rows = %start, %last = %none) : tensor<i32>, tensor<4x3xf32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %g = stablehlo.add %x, %ts : tensor<2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
    %all = stablehlo.concatenate %s, %own, dim = 0 : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
    %row = stablehlo.reshape %all : (tensor<3xf32>) -> tensor<1x3xf32>
    %n = stablehlo.dynamic_update_slice %rows, %row, %i, %zero : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %u = "stablehlo.all_reduce"(%last) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
    %v = stablehlo.add %u, %t : tensor<f32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %v : tensor<i32>, tensor<4x3xf32>, tensor<f32>
  }
  return %w#1, %w#2 : tensor<4x3xf32>, tensor<f32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// After four trips that is less.
// CHECK-LABEL:   func.func public @reduced_for_two_longer
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK-COUNT-2:   stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 4 times in it
func.func public @reduced_for_two_longer(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %xv = stablehlo.add %x, %xb : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %t = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %m = stablehlo.add %acc2, %t : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// The branch is taken in the first trip only.
// CHECK-LABEL:   func.func public @in_a_branch_taken_once
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16 bytes after the loop are no fewer than 1 times 16 in it
func.func public @in_a_branch_taken_once(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %s = "stablehlo.case"(%i) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @small_part_of_a_large_accumulator
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16000 bytes after the loop are no fewer than 4 times 16 in it
func.func public @small_part_of_a_large_accumulator(%x: tensor<4xf32>) -> tensor<4000xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4000xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4000xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.dynamic_update_slice %acc, %s, %i : (tensor<4000xf32>, tensor<4xf32>, tensor<i32>) -> tensor<4000xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4000xf32>
  }
  return %w#1 : tensor<4000xf32>
}
}
