// What the second loop reads of the first.

// RUN: %par-opt %s --passes=fuse-loops | FileCheck %s
// RUN: %par-opt %s --passes=fuse-loops --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 8 : i32} {

// Legal when: each iteration of the second loop reads of them only what one iteration of the first wrote
// CHECK-LABEL:   func.func public @one_row_read
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: a trip of the second loop reads other parts than a trip of the first wrote
func.func public @one_row_read(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %stack, %three, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: each iteration of the second loop reads of them only what one iteration of the first wrote
// CHECK-LABEL:   func.func public @whole_array
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop reads an array of the first in another way than part by part
func.func public @whole_array(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %r = stablehlo.slice %stack [0:1, 0:2] : (tensor<4x2xf32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: each iteration of the second loop reads of them only what one iteration of the first wrote
// CHECK-LABEL:   func.func public @two_trips
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: a trip of the second loop reads parts of different trips of the first
func.func public @two_trips(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %r2 = stablehlo.dynamic_slice %stack, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y2 = stablehlo.reshape %r2 : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %y2 : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: each iteration of the second loop reads of them only what one iteration of the first wrote
// CHECK-LABEL:   func.func public @changed_array
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop changes an array of the first
func.func public @changed_array(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_stack = stablehlo.dynamic_update_slice %stack, %r, %zero, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %next_stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: each iteration of the second loop reads of them only what one iteration of the first wrote
// CHECK-LABEL:   func.func public @handed_on
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop reads an array of the first in another way than part by part (stablehlo.return at
func.func public @handed_on(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:5 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none, %last = %xs) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc, %stack : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>
  }
  return %l, %b#3, %b#4 : tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>
}

// Legal when: each iteration of the second loop reads of them only what one iteration of the first wrote
// CHECK-LABEL:   func.func public @not_read
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop does not read the array
func.func public @not_read(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %xs, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the second loop reads the iterations of the first in their order, or in reverse
// CHECK-LABEL:   func.func public @rotated
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop reads the trips of the first in another order
func.func public @rotated(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %u = stablehlo.add %j, %one : tensor<i32>
    %t = stablehlo.remainder %u, %four : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @recurrence
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop begins with the last trip of the first, and its loop-carried value 3 is neither a sum nor an array of parts: its trips depend on each other (stablehlo.add at
func.func public @recurrence(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %half = stablehlo.subtract %y, %acc : tensor<2xf32>
    %next_acc = stablehlo.add %half, %c : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @read_sum
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop begins with the last trip of the first, and its loop-carried value 3 is neither a sum nor an array of parts: its trips depend on each other (stablehlo.add at
func.func public @read_sum(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %next_acc = stablehlo.add %acc, %acc : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @sum_of_all_but_the_last
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop begins with the last trip of the first, and its loop-carried value 3 is neither
func.func public @sum_of_all_but_the_last(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:5 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none, %last = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3, %b#4 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// Legal when: in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @other_start
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop begins with the last trip of the first, and its loop-carried value 2 is neither
func.func public @other_start(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %same = stablehlo.convert %c : tensor<2xf32>
    %float_zero = stablehlo.constant dense<1.0> : tensor<f32>
    %next_c = stablehlo.reduce(%same init: %float_zero) applies stablehlo.add across dimensions = [] : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %next_c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @clipped
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop begins with the last trip of the first, and its loop-carried value 2 is neither
func.func public @clipped(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %same = stablehlo.convert %c : tensor<2xf32>
    %float_zero = stablehlo.constant dense<0.0> : tensor<f32>
    %next_c = stablehlo.reduce(%same init: %float_zero) applies stablehlo.maximum across dimensions = [] : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %next_c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: in reverse, the second loop carries only sums, and arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @exchanged_sums
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop begins with the last trip of the first, and its loop-carried value 3 is neither
func.func public @exchanged_sums(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:5 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none, %last = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %last, %g : tensor<2xf32>
    %next_last = stablehlo.add %acc, %c : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc, %next_last : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3, %b#4 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// Legal when: no other live-in of the second loop depends on a result of the first
// CHECK-LABEL:   func.func public @scale_of_the_loss
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop needs a value computed from results of the first (stablehlo.negate at
func.func public @scale_of_the_loss(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %l, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the loops, and ops that move with them, have no side effects
// CHECK-LABEL:   func.func public @side_effect
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: stablehlo.custom_call may have side effects
// NUMERIC: skip (nothing is registered under the name of the custom call)
func.func public @side_effect(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.custom_call @log(%x) {has_side_effect = true} : (tensor<2xf32>) -> tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Worth it when: an array that the first loop makes is read in the second loop only
// CHECK-LABEL:   func.func public @returned
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: all arrays that the second loop reads are read elsewhere, too
func.func public @returned(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3, %f#2 : tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>
}

// Worth it when: an array that the first loop makes is read in the second loop only
// CHECK-LABEL:   func.func public @returned_again
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: all arrays that the second loop reads are read elsewhere, too
func.func public @returned_again(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3, %b#1 : tensor<2xf32>, tensor<2xf32>, tensor<4x2xf32>
}
}
