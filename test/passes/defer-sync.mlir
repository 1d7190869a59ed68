// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK-LABEL:   func.func public @accumulate
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>)
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[D:.*]] = %{{.*}})
// CHECK:           %[[G:.*]] = stablehlo.add %[[X]],
// CHECK-NEXT:      %[[N:.*]] = stablehlo.add %[[D]], %[[G]]
// CHECK:           stablehlo.return %{{.*}}, %[[N]]
// A reduction without a channel stays one.
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1) <{replica_groups = dense<{{.*}}> : tensor<1x8xi64>}>
// CHECK:           return %[[S]]
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 4 times in it
func.func public @accumulate(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Metadata that only hints is no obstacle, and stays on the ops.
// CHECK-LABEL:   func.func public @hints
// CHECK:           stablehlo.while({{.*}} attributes {mhlo.frontend_attributes = {a = "loop"}}
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return
// CHECK:           "stablehlo.all_reduce"
// CHECK:           {mhlo.frontend_attributes = {a = "reduction"}}
// CHECK:           return
func.func public @hints(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32> attributes {mhlo.frontend_attributes = {a = "loop"}}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {a = "reduction"}} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s {mhlo.frontend_attributes = {a = "op"}} : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A scheduling group is of ops of one block.
// CHECK-LABEL:   func.func public @scheduling_group
// CHECK:           stablehlo.while
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: its metadata binds the reduction to other ops of its block: _scheduling_group_id = "3"
func.func public @scheduling_group(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32> attributes {mhlo.frontend_attributes = {a = "loop"}}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, mhlo.frontend_attributes = {_scheduling_group_id = "3"}} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s {mhlo.frontend_attributes = {a = "op"}} : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Kahan's sum carries by how much it was rounded.
// CHECK-LABEL:   func.func public @compensated
// CHECK:           stablehlo.while
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is also read by stablehlo.subtract: a sum less one of its terms tells how the sum was rounded
func.func public @compensated(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %sum = %none, %error = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %y = stablehlo.subtract %g, %error : tensor<4xf32>
    %t = stablehlo.add %sum, %y : tensor<4xf32>
    %d = stablehlo.subtract %t, %sum : tensor<4xf32>
    %e = stablehlo.subtract %d, %y : tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %t, %e : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// The start value is not summed over the devices: it is added after the loop, and no longer carried.
// CHECK-LABEL:   func.func public @start_counted_once
// CHECK-SAME:      (%{{.*}}: tensor<4xf32>, %[[START:.*]]: tensor<4xf32>)
// CHECK:           %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[Z]])
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           %[[R:.*]] = stablehlo.add %[[START]], %[[S]]
// CHECK-NEXT:      return %[[R]]
func.func public @start_counted_once(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
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
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %s, %acc : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The number of trips is not known, zero included; a maximum over the devices proves it uniform.
// CHECK-LABEL:   func.func public @dynamic_trips
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           stablehlo.maximum
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not in every trip in it
func.func public @dynamic_trips(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %m = "stablehlo.all_reduce"(%trips) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.subtract %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @zero_trips
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @zero_trips(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %m = "stablehlo.all_reduce"(%trips) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %bound = stablehlo.subtract %m, %m : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
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

// CHECK-LABEL:   func.func public @tied_weight
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @tied_weight(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %sq = stablehlo.multiply %x, %x : tensor<4x4xf32>
    %b = "stablehlo.all_reduce"(%sq) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %bt = stablehlo.transpose %b, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %m = stablehlo.add %acc, %a : tensor<4x4xf32>
    %n = stablehlo.add %m, %bt : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// By a constant, a uniform scalar from outside, and the induction variable.
// CHECK-LABEL:   func.func public @scaled
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @scaled(%x: tensor<4xf32>, %scale: tensor<f32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %m = "stablehlo.all_reduce"(%scale) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<f32>) -> tensor<f32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
    %mean = stablehlo.divide %s, %eight : tensor<4xf32>
    %ms = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %scaled = stablehlo.multiply %ms, %mean : tensor<4xf32>
    %weighted = stablehlo.multiply %scaled, %ts : tensor<4xf32>
    %n = stablehlo.add %acc, %weighted : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// acc + (g - acc) * c: the accumulator is read twice, linearly.
// CHECK-LABEL:   func.func public @running_mean
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @running_mean(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %ones = stablehlo.constant dense<1.0> : tensor<4xf32>
    %half = stablehlo.constant dense<0.5> : tensor<4xf32>
    %more_than_acc = stablehlo.subtract %s, %acc : tensor<4xf32>
    %step = stablehlo.multiply %more_than_acc, %half : tensor<4xf32>
    %n = stablehlo.add %acc, %step : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The loop changes the start value, so that is carried beside the sum.
// CHECK-LABEL:   func.func public @decayed_start
// CHECK:           %[[W:.*]]:3 = stablehlo.while(
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.add %[[W]]#2, %[[S]]
func.func public @decayed_start(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
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
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %half = stablehlo.constant dense<0.5> : tensor<4xf32>
    %d = stablehlo.multiply %half, %acc : tensor<4xf32>
    %n = stablehlo.add %d, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// One reduction, two accumulators; one of them also takes a term that all devices have.
// CHECK-LABEL:   func.func public @term_that_is_not_reduced
// CHECK:           %[[W:.*]]:4 = stablehlo.while(
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.add %[[W]]#3, %[[S]]
// CHECK:           "stablehlo.all_reduce"(%[[W]]#2)
func.func public @term_that_is_not_reduced(%x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %start, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %m = stablehlo.add %acc, %s : tensor<4xf32>
    %n = stablehlo.add %m, %ts : tensor<4xf32>
    %n2 = stablehlo.subtract %acc2, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %n2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Not a sum over the trips, but linear all the same: the start value counts only if there is no trip.
// CHECK-LABEL:   func.func public @last_value
// CHECK:           %[[W:.*]]:3 = stablehlo.while(
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.add %[[W]]#2, %[[S]]
func.func public @last_value(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %last = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %s : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// bf16 gradients, f32 accumulator: reduced in f32.
// CHECK-LABEL:   func.func public @mixed_precision
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK:           : (tensor<4xf32>) -> tensor<4xf32>
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 8 bytes per device, now reduced after the loop and not 4 times in it; 8 bytes in a trip are 16 after them
func.func public @mixed_precision(%x: tensor<4xbf16>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<bf16>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<bf16>) -> tensor<4xbf16>
    %xv = stablehlo.add %x, %xb : tensor<4xbf16>
    %s = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
    %c = stablehlo.convert %s : (tensor<4xbf16>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Two results of three leave the loop; the third stays.
// CHECK-LABEL:   func.func public @variadic
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>
// CHECK:           } do {
// CHECK:           %[[SQ:.*]] = stablehlo.multiply %[[X]]
// CHECK:           "stablehlo.all_reduce"(%[[SQ]])
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#2)
func.func public @variadic(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %none2 = stablehlo.constant dense<0.0> : tensor<2xf32>
  %w:4 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none2, %acc3 = %none) : tensor<i32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %sq = stablehlo.multiply %x, %acc3 : tensor<4xf32>
    %s:3 = "stablehlo.all_reduce"(%x, %y, %sq) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>)
    %n = stablehlo.add %acc, %s#0 : tensor<4xf32>
    %n2 = stablehlo.add %acc2, %s#1 : tensor<2xf32>
    %l = stablehlo.tanh %s#2 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %n2, %l : tensor<i32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>
  }
  return %w#1, %w#2, %w#3 : tensor<4xf32>, tensor<2xf32>, tensor<4xf32>
}

// Linear ops, as jax writes them.
// CHECK-LABEL:   func.func public @cumulative_sum
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @cumulative_sum(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %f0 = stablehlo.constant dense<0.0> : tensor<f32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %g = stablehlo.add %x, %ts : tensor<4x2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %c = "stablehlo.reduce_window"(%s, %f0) <{padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 4, 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<f32>) -> tensor<4x2xf32>
    %n = stablehlo.add %acc, %c : tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @times_a_matrix
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @times_a_matrix(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %m = stablehlo.constant dense<[[1.0, 2.0], [0.5, -1.0]]> : tensor<2x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %g = stablehlo.add %x, %ts : tensor<4x2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %c = stablehlo.dot_general %s, %m, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %n = stablehlo.add %acc, %c : tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// A linear recurrence: the start value takes another way than the sum.
// CHECK-LABEL:   func.func public @accumulator_times_a_matrix
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @accumulator_times_a_matrix(%x: tensor<4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %m = stablehlo.constant dense<[[1.0, 2.0], [0.5, -1.0]]> : tensor<2x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %g = stablehlo.add %x, %ts : tensor<4x2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %c = stablehlo.dot_general %acc, %m, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %n = stablehlo.add %c, %s : tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @matrix_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.dot_general at
func.func public @matrix_of_each_device(%x: tensor<4x2xf32>, %m: tensor<2x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %g = stablehlo.add %x, %ts : tensor<4x2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %c = stablehlo.dot_general %s, %m, contracting_dims = [1] x [0] : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %n = stablehlo.add %acc, %c : tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// Rows added to a table; the table's other rows are not touched.
// CHECK-LABEL:   func.func public @embedding_rows
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @embedding_rows(%x: tensor<3x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %rows = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<3x2xf32>
    %xv = stablehlo.add %x, %xb : tensor<3x2xf32>
    %a = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
    %n = "stablehlo.scatter"(%acc, %rows, %a) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// A table that is not partial yet: each device would add to its own copy, and the sum would count the table 8 times.
// CHECK-LABEL:   func.func public @rows_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator also reaches a value that is not accumulated (stablehlo.scatter at
func.func public @rows_of_each_device(%x: tensor<3x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %u = "stablehlo.scatter"(%acc, %rows, %x) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %n = "stablehlo.all_reduce"(%u) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// One device adds to the table, the others to zeros, and the table is their sum: it is made anew in each trip.
// CHECK-LABEL:   func.func public @rows_and_the_table_of_one_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.select: a predicate is not proven uniform
func.func public @rows_and_the_table_of_one_device(%x: tensor<3x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %id = stablehlo.replica_id : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %is_first = stablehlo.compare EQ, %id, %first : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %own = stablehlo.select %is_first, %acc, %none : tensor<i1>, tensor<4x2xf32>
    %u = "stablehlo.scatter"(%own, %rows, %x) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %n = "stablehlo.all_reduce"(%u) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @some_rows
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @some_rows(%x: tensor<4x2xf32>) -> tensor<3x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %g = stablehlo.add %x, %ts : tensor<4x2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %c = "stablehlo.gather"(%s, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
    %n = stablehlo.add %acc, %c : tensor<3x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x2xf32>
  }
  return %w#1 : tensor<3x2xf32>
}

// The sum starts from zero, but takes a term that is not reduced.
// CHECK-LABEL:   func.func public @other_term_from_a_start_of_zero
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @other_term_from_a_start_of_zero(%x: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
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
    %m = stablehlo.add %acc, %c : tensor<4xf32>
    %n = stablehlo.add %m, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// As many bytes, but one array.
// CHECK-LABEL:   func.func public @stacked_layers
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @stacked_layers(%x: tensor<4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %row = stablehlo.reshape %s : (tensor<4xf32>) -> tensor<1x4xf32>
    %n = stablehlo.dynamic_update_slice %acc, %row, %i, %zero : (tensor<4x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}
}
