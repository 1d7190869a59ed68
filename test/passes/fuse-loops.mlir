// RUN: %par-opt %s --passes=fuse-loops | FileCheck %s
// RUN: %par-opt %s --passes=fuse-loops --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 8 : i32} {

// As JAX writes the gradient of a sum of losses: the second loop begins with the last trip of the first. What reads the
// end result of the first loop follows.
// CHECK-LABEL:   func.func public @forward_and_backward
// CHECK-NOT:       tensor<4x2xf32>{{$}}
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[SUM:.*]] = %{{.*}}, %[[ACC:.*]] = %{{.*}}){{.*}} attributes {mhlo.frontend_attributes = {a = "first", b = "second"}}
// CHECK:           } do {
// CHECK:             %[[H:.*]] = stablehlo.multiply
// CHECK-NEXT:        %[[NEXT_SUM:.*]] = stablehlo.add %[[SUM]], %[[H]]
// CHECK-NEXT:        %[[NEXT_I:.*]] = stablehlo.add %[[I]]
// CHECK-NEXT:        %[[G:.*]] = stablehlo.multiply %[[H]], %arg1
// CHECK-NEXT:        %[[NEXT_ACC:.*]] = stablehlo.add %[[ACC]], %[[G]]
// CHECK-NEXT:        stablehlo.return %[[NEXT_I]], %[[NEXT_SUM]], %[[NEXT_ACC]]
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[L:.*]] = stablehlo.negate %[[LOOP]]#1
// CHECK-NEXT:      return %[[L]], %[[LOOP]]#2
// REMARK-DAG: [fuse-loops] stablehlo.while applied: fused with the loop at {{.*}}: 1 arrays of 32 bytes are no longer kept for all 4 trips
func.func public @forward_and_backward(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32> attributes {mhlo.frontend_attributes = {a = "first"}}
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
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32> attributes {mhlo.frontend_attributes = {a = "second", b = "second"}}
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
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// The second loop reads more by its counter: the micro-batch again, and the number of its own trip.
// CHECK-LABEL:   func.func public @counter
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:             %[[J:.*]] = stablehlo.subtract %{{.*}}, %[[I]] : tensor<i32>
// CHECK-NEXT:        %[[AGAIN:.*]] = stablehlo.dynamic_slice %arg0, %[[I]],
// CHECK:             stablehlo.convert %[[J]]
// CHECK:           return %[[LOOP]]#1, %[[LOOP]]#2, %[[LOOP]]#0
func.func public @counter(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<i32>) {
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
    %q = stablehlo.dynamic_slice %xs, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %z = stablehlo.reshape %q : (tensor<1x2xf32>) -> tensor<2xf32>
    %n = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
    %m = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %yz = stablehlo.multiply %y, %z : tensor<2xf32>
    %g = stablehlo.multiply %yz, %m : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3, %b#0 : tensor<2xf32>, tensor<2xf32>, tensor<i32>
}

// In the order of the first loop, the trips of the second may depend on each other.
// CHECK-LABEL:   func.func public @same_order
// CHECK:           stablehlo.while(
// CHECK-NOT:       stablehlo.while(
// CHECK:           return
func.func public @same_order(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
    %r = stablehlo.dynamic_slice %stack, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %half = stablehlo.subtract %y, %acc : tensor<2xf32>
    %next_acc = stablehlo.add %half, %c : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// The second loop reads the array from outside, writes one of its own in reverse, and nothing is carried for nothing.
// CHECK-LABEL:   func.func public @array_of_parts
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[OUT:.*]] = %{{.*}})
// CHECK:             %[[H:.*]] = stablehlo.multiply
// CHECK:             %[[ROW:.*]] = stablehlo.reshape
// CHECK:             stablehlo.dynamic_update_slice %[[OUT]], %{{.*}}, %[[I]], %
// CHECK:           return %[[LOOP]]#1, %[[LOOP]]#2
func.func public @array_of_parts(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<4x2xf32>) {
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
  %b:2 = stablehlo.while(%j = %zero, %out = %xs) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %f#2, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %g = stablehlo.negate %r : tensor<1x2xf32>
    %next_out = stablehlo.dynamic_update_slice %out, %g, %t, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %next_out : tensor<i32>, tensor<4x2xf32>
  }
  return %f#1, %b#1 : tensor<2xf32>, tensor<4x2xf32>
}

// The gradient of a running loss is handed on as it is, by ops that do nothing.
// CHECK-LABEL:   func.func public @running_loss
// CHECK:           %{{.*}}:3 = stablehlo.while(
// CHECK-NOT:       stablehlo.reduce
// CHECK:           return
func.func public @running_loss(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
    %next_c = stablehlo.reduce(%same init: %float_zero) applies stablehlo.add across dimensions = [] : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %next_c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: neither loop has attributes, but for metadata that only hints
// CHECK-LABEL:   func.func public @attributes
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: a loop has attributes of its own: _scheduling_group_id = "1"
func.func public @attributes(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32> attributes {mhlo.frontend_attributes = {_scheduling_group_id = "1"}}
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
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: both loops count from 0 by 1 to the same constant
// CHECK-LABEL:   func.func public @other_count
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the loops do not both count from 0 by 1 to the same constant
func.func public @other_count(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
    %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
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

// Legal when: both loops count from 0 by 1 to the same constant
// CHECK-LABEL:   func.func public @too_many_trips
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the loops make too many trips
func.func public @too_many_trips(%xs: tensor<1025x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<1024> : tensor<i32>
  %four = stablehlo.constant dense<1025> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<1025x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<1025x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<1025x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<1025x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1025x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<1025x2xf32>
  }
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<1025x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<1025x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<1025x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: both loops count from 0 by 1 to the same constant
// CHECK-LABEL:   func.func public @other_counter
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the loops count in different types
func.func public @other_counter(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %wide_zero = stablehlo.constant dense<0> : tensor<i64>
  %wide_one = stablehlo.constant dense<1> : tensor<i64>
  %wide_four = stablehlo.constant dense<4> : tensor<i64>
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
  %b:4 = stablehlo.while(%j = %wide_zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i64>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %wide_four : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %stack, %j, %wide_zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i64>, tensor<i64>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %half = stablehlo.subtract %y, %acc : tensor<2xf32>
    %next_acc = stablehlo.add %half, %c : tensor<2xf32>
    %next_j = stablehlo.add %j, %wide_one : tensor<i64>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i64>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %f#1, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @end_result
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop needs result 1 of the first, which the whole first loop computes
func.func public @end_result(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %f#1, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
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

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @one_row
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: a trip of the first loop does not write a part of its own
func.func public @one_row(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %three, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
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

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @read_before
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop needs result 2 of the first, which the whole first loop computes
func.func public @read_before(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
    %k = stablehlo.dynamic_slice %kept, %one, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %kx = stablehlo.reshape %k : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.subtract %x, %kx : tensor<2xf32>
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
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @overlapping_parts
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: a trip of the first loop does not write a part of its own
func.func public @overlapping_parts(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<5x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<5x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dynamic_slice %xs, %i, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %x = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
    %h = stablehlo.multiply %x, %w : tensor<2xf32>
    %next_sum = stablehlo.add %sum, %h : tensor<2xf32>
    %row = stablehlo.broadcast_in_dim %h, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<5x2xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<5x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<5x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<5x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.subtract %three, %j : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [2, 2] : (tensor<5x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
    %y2 = stablehlo.slice %r [1:2, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %y2 : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<5x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @beyond_the_end
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: a trip of the first loop does not write a part of its own
func.func public @beyond_the_end(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %far = stablehlo.constant dense<2> : tensor<i32>
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
    %at = stablehlo.add %i, %far : tensor<i32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %at, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next_sum, %next_kept : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }
  %l = stablehlo.negate %f#1 : tensor<2xf32>
  %b:4 = stablehlo.while(%j = %zero, %stack = %f#2, %c = %w, %acc = %none) : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %u = stablehlo.subtract %three, %j : tensor<i32>
    %t = stablehlo.add %u, %far : tensor<i32>
    %r = stablehlo.dynamic_slice %stack, %t, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %y = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %g = stablehlo.multiply %y, %c : tensor<2xf32>
    %next_acc = stablehlo.add %acc, %g : tensor<2xf32>
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @read_after
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop needs result 2 of the first, which the whole first loop computes
func.func public @read_after(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
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
    %row = stablehlo.reshape %h : (tensor<2xf32>) -> tensor<1x2xf32>
    %next_kept = stablehlo.dynamic_update_slice %kept, %row, %i, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %k = stablehlo.slice %next_kept [3:4, 0:2] : (tensor<4x2xf32>) -> tensor<1x2xf32>
    %kx = stablehlo.reshape %k : (tensor<1x2xf32>) -> tensor<2xf32>
    %next_sum = stablehlo.add %sum, %kx : tensor<2xf32>
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
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}

// Legal when: the second loop takes from the first only arrays into which each iteration writes a part of its own
// CHECK-LABEL:   func.func public @read_by_the_condition
// CHECK:           stablehlo.while(
// CHECK:           stablehlo.while(
// REMARK-DAG: [fuse-loops] stablehlo.while missed: the second loop needs result 2 of the first, which the whole first loop computes
func.func public @read_by_the_condition(%xs: tensor<4x2xf32>, %w: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f:3 = stablehlo.while(%i = %zero, %sum = %none, %kept = %zeros) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {
    %k = stablehlo.negate %kept : tensor<4x2xf32>
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
    %next_j = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %next_j, %stack, %c, %next_acc : tensor<i32>, tensor<4x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
  return %l, %b#3 : tensor<2xf32>, tensor<2xf32>
}
}
