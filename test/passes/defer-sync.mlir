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

// Out of both loops; the start value passes through both.
// CHECK-LABEL:   func.func public @nested_loops
// CHECK:           stablehlo.while
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           }
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.add %arg1, %[[S]]
func.func public @nested_loops(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
      %v:2 = stablehlo.while(%j = %zero, %sum = %acc) : tensor<i32>, tensor<4xf32>
      cond {
        %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
        %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
        %g = stablehlo.add %x, %ts : tensor<4xf32>
        %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
        %m = stablehlo.add %sum, %s : tensor<4xf32>
        %j_n = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %j_n, %m : tensor<i32>, tensor<4xf32>
      }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// All devices take the branch; what the other branch returns is kept apart.
// CHECK-LABEL:   func.func public @in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 3 times in it
func.func public @in_a_branch(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.if"(%p3) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %y : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A micro-batch that is left out.
// CHECK-LABEL:   func.func public @accumulated_in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not in every trip in it
func.func public @accumulated_in_a_branch(%skip: tensor<i1>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %bit = stablehlo.convert %skip : (tensor<i1>) -> tensor<i32>
  %most = "stablehlo.all_reduce"(%bit) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %use = stablehlo.compare EQ, %most, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %n = "stablehlo.if"(%use) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %sum = stablehlo.add %acc, %c : tensor<4xf32>
      stablehlo.return %sum : tensor<4xf32>
    }, {
      stablehlo.return %acc : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_before_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @reduced_before_a_branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.if"(%p3) ({
      %two = stablehlo.constant dense<2.0> : tensor<4xf32>
      %d = stablehlo.multiply %c, %two : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %c : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @branch_in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @branch_in_a_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.case"(%i) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %e = "stablehlo.if"(%p3) ({
        %f = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
        %h = stablehlo.add %f, %g : tensor<4xf32>
        stablehlo.return %h : tensor<4xf32>
      }, {
        stablehlo.return %none : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      stablehlo.return %e : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// What jnp.diagonal and other functions of a mode make: a case of a single branch, whose result is made in there.
// CHECK-LABEL:   func.func public @only_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:             %[[S:.*]] = "stablehlo.case"(%{{.*}}) ({
// CHECK:               stablehlo.negate
// CHECK:             stablehlo.add %{{.*}}, %[[S]] : tensor<4xf32>
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @only_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
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
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %s = "stablehlo.case"(%i) ({
      %e = stablehlo.negate %c : tensor<4xf32>
      stablehlo.return %e : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @maximum_in_a_branch
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
func.func public @maximum_in_a_branch(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = "stablehlo.if"(%p3) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %x : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.maximum %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @one_result_of_a_branch
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.abs does not commute with the reduction (stablehlo.abs at
func.func public @one_result_of_a_branch(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %m = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %p3 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s:2 = "stablehlo.if"(%p3) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %d = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c, %d : tensor<4xf32>, tensor<4xf32>
    }, {
      stablehlo.return %none, %none : tensor<4xf32>, tensor<4xf32>
    }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
    %n = stablehlo.add %acc, %s#0 : tensor<4xf32>
    %ab = stablehlo.abs %s#1 : tensor<4xf32>
    %m1 = stablehlo.maximum %m, %ab : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// The user syncs once: not in a loop, the sync can meet others.
// CHECK-LABEL:   func.func public @sync_in_the_last_trip
// CHECK:           } do {
// CHECK-NOT:       stablehlo.if
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: taken in the last trip only, the branch now follows the loop
func.func public @sync_in_the_last_trip(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %eight = stablehlo.constant dense<8.0> : tensor<4xf32>
      %mean = stablehlo.divide %c, %eight : tensor<4xf32>
      stablehlo.return %mean : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// After two of four trips.
// CHECK-LABEL:   func.func public @sync_in_a_later_trip
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a sum of reduced values is reduced again, in a trip that is not proven to be the last only
func.func public @sync_in_a_later_trip(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @sync_in_the_last_of_some_trips
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @sync_in_the_last_of_some_trips(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %count = "stablehlo.all_reduce"(%trips) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_trip_read_in_the_loop
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the loop reads the result of the branch by stablehlo.abs
func.func public @last_trip_read_in_the_loop(%x: tensor<4xf32>, %start: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %start, %m = %start) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %m1 = stablehlo.abs %n : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL:   func.func public @other_trips_do_something
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: in the other trips the branch does something, too
func.func public @other_trips_do_something(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      %neg = stablehlo.negate %a : tensor<4xf32>
      stablehlo.return %neg : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_trip_reads_what_is_not_carried
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the branch reads a value of the last trip that the loop does not carry
func.func public @last_trip_reads_what_is_not_carried(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %d = stablehlo.subtract %c, %g : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @last_trip_read_by_the_condition
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the condition reads the result of the branch
func.func public @last_trip_read_by_the_condition(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %seen = stablehlo.abs %acc : tensor<4xf32>
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %a = stablehlo.add %acc, %g : tensor<4xf32>
    %last = stablehlo.compare EQ, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%last) ({
      %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %a : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @result_that_nothing_reads
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: it reaches no accumulator
func.func public @result_that_nothing_reads(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %n = stablehlo.add %acc, %g : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// One reduction leaves, the other is read by an op that is not linear.
// CHECK-LABEL:   func.func public @one_stays
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.sqrt does not commute with the reduction (stablehlo.sqrt at
func.func public @one_stays(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %sq = stablehlo.multiply %g, %g : tensor<4xf32>
    %s2 = "stablehlo.all_reduce"(%sq) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %r = stablehlo.sqrt %s2 : tensor<4xf32>
    %n2 = stablehlo.add %acc2, %r : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %n2 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Worth it when: the accumulator keeps its shard, unless `policy` allows more memory: one before a reduce_scatter is unsharded
// CHECK-LABEL:   func.func public @reduce_scatter
// CHECK:           } do {
// CHECK:           stablehlo.reduce_scatter
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.reduce_scatter missed: a reduce_scatter stays: its accumulator would have to be unsharded
func.func public @reduce_scatter(%x: tensor<16xf32>) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
    %n = stablehlo.add %acc, %s : tensor<2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xf32>
  }
  return %w#1 : tensor<2xf32>
}

// A maximum starts from minus infinity; the start value takes part once, after the loop.
// CHECK-LABEL:   func.func public @maximum
// CHECK:           %[[INF:.*]] = stablehlo.constant dense<0xFF800000> : tensor<4xf32>
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[INF]])
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.maximum %arg1, %[[S]]
func.func public @maximum(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.maximum %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @maximum_of_no_trips
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1)
func.func public @maximum_of_no_trips(%trips: tensor<i32>, %x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
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
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.maximum %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @minimum
// CHECK:           %[[MOST:.*]] = stablehlo.constant dense<127> : tensor<4xi8>
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[MOST]])
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// CHECK:           stablehlo.minimum %arg1, %[[S]]
func.func public @minimum(%x: tensor<4xi8>, %start: tensor<4xi8>) -> tensor<4xi8> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<4xi8>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xi8>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<i8>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<i8>) -> tensor<4xi8>
    %g = stablehlo.add %x, %ts : tensor<4xi8>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.minimum %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
    %n = stablehlo.minimum %acc, %s : tensor<4xi8>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xi8>
  }
  return %w#1 : tensor<4xi8>
}

// What is taken at a place that is a sum itself may stay partial where that sum may not.
// CHECK-LABEL:   func.func public @part_at_a_sum
// CHECK:           %[[W:.*]]:3 = stablehlo.while(
// CHECK:           } do {
// CHECK:           %[[D:.*]] = stablehlo.dynamic_slice %{{.*}}, %[[AT:.*]], sizes = [1] : (tensor<8xi32>,
// CHECK-NOT:       -> tensor<8xi32>
// CHECK:           -> tensor<i32>
// CHECK:           stablehlo.return %{{.*}}, %[[D]], %
// CHECK:           "stablehlo.all_reduce"(%[[W]]#1)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.dynamic_slice: an index is not linear
func.func public @part_at_a_sum(%x: tensor<8xi32>, %y: tensor<i32>) -> tensor<1xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<1xi32>
  %w:3 = stablehlo.while(%i = %zero, %part = %none, %at = %zero) : tensor<i32>, tensor<1xi32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<8xi32>) -> tensor<8xi32>
    %n = stablehlo.dynamic_slice %s, %at, sizes = [1] : (tensor<8xi32>, tensor<i32>) -> tensor<1xi32>
    %t = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %at_next = stablehlo.add %at, %t : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %at_next : tensor<i32>, tensor<1xi32>, tensor<i32>
  }
  return %w#1 : tensor<1xi32>
}

// Legal when: the reduction has an identity element to start from: it is a sum, a maximum or a minimum
// CHECK-LABEL:   func.func public @product
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: no identity element is known for a stablehlo.multiply of f32
func.func public @product(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.multiply %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.multiply %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: each op between the reduction and the accumulator is linear
// CHECK-LABEL:   func.func public @clipped_gradient
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: stablehlo.clamp does not commute with the reduction (stablehlo.clamp at
func.func public @clipped_gradient(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %two = stablehlo.constant dense<2.0> : tensor<4xf32>
    %c = stablehlo.clamp %none, %s, %two : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @product_with_accumulator
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the accumulator is also read by stablehlo.multiply
func.func public @product_with_accumulator(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %ones = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %ones) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %sq = stablehlo.multiply %acc, %acc : tensor<4xf32>
    %n = stablehlo.add %sq, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The product is linear in either, not in both.
// CHECK-LABEL:   func.func public @product_with_reduced_value
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @product_with_reduced_value(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<1.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.multiply %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @accumulator_is_an_index
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @accumulator_is_an_index(%x: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %table = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zero) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.add %x, %i : tensor<i32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %t = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %u = stablehlo.add %t, %table : tensor<4xi32>
    %v = stablehlo.dynamic_slice %u, %acc, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %v : (tensor<1xi32>) -> tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// Legal when: factors are uniform
// CHECK-LABEL:   func.func public @factor_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @factor_of_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
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
    %c = stablehlo.multiply %y, %s : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Uniform at the start, but the loop makes it vary.
// CHECK-LABEL:   func.func public @factor_carried_from_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform
func.func public @factor_carried_from_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %f = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.multiply %f, %s : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %f1 = stablehlo.add %f, %y : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %f1 : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Legal when: predicates are uniform
// CHECK-LABEL:   func.func public @predicate_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups
func.func public @predicate_of_each_device(%x: tensor<4xf32>, %pred: tensor<4xi1>) -> tensor<4xf32> {
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
    %c = stablehlo.select %pred, %s, %none : tensor<4xi1>, tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// It could hang if devices took different branches; reduced after the loop, it would take part where it did not.
// CHECK-LABEL:   func.func public @branch_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.if at
func.func public @branch_of_each_device(%own: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
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
    %s = "stablehlo.if"(%own) ({
      %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_value_in_a_branch_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @reduced_value_in_a_branch_of_each_device(%x: tensor<4xf32>) -> tensor<4xf32> {
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
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %id = stablehlo.replica_id : tensor<ui32>
    %own = stablehlo.convert %id : (tensor<ui32>) -> tensor<i1>
    %s = "stablehlo.if"(%own) ({
      stablehlo.return %c : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @accumulator_chooses_the_branch
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
func.func public @accumulator_chooses_the_branch(%x: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zero) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.add %x, %i : tensor<i32>
    %c = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
    %s = "stablehlo.case"(%acc) ({
      stablehlo.return %c : tensor<i32>
    }, {
      %m = stablehlo.multiply %c, %four : tensor<i32>
      stablehlo.return %m : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    %n = stablehlo.add %acc, %s : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// The factor is equal in each half, not on all devices: the sum over all stays, and the factor's own sum leaves.
// CHECK-LABEL:   func.func public @factor_reduced_over_smaller_groups
// CHECK:           } do {
// CHECK:           {{"stablehlo.all_reduce".*}}dense<{{\[\[}}0, 1, 2, 3, 4, 5, 6, 7]]>
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           {{"stablehlo.all_reduce".*}}dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]>
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @factor_reduced_over_smaller_groups(%x: tensor<4xf32>, %weight: tensor<4xf32>) -> tensor<4xf32> {
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
    %f = "stablehlo.all_reduce"(%weight) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.multiply %s, %f : tensor<4xf32>
    %n = stablehlo.add %acc, %c : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A sum of bytes wraps; a sum of integers of them would not.
// CHECK-LABEL:   func.func public @narrow_integers
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert of integers may wrap or round
func.func public @narrow_integers(%x: tensor<4xi8>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<4xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xi32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.add %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
    %c = stablehlo.convert %s : (tensor<4xi8>) -> tensor<4xi32>
    %n = stablehlo.add %acc, %c : tensor<4xi32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xi32>
  }
  return %w#1 : tensor<4xi32>
}

// Legal when: indices are uniform
// CHECK-LABEL:   func.func public @index_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @index_of_each_device(%x: tensor<4xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %id = stablehlo.replica_id : tensor<ui32>
    %n = stablehlo.dynamic_update_slice %acc, %s, %id : (tensor<8xf32>, tensor<4xf32>, tensor<ui32>) -> tensor<8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<8xf32>
  }
  return %w#1 : tensor<8xf32>
}

// Legal when: the trip count of the loop is uniform
// CHECK-LABEL:   func.func public @trips_of_each_device
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the trip count is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.while at
func.func public @trips_of_each_device(%trips: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.if"(%yes) ({
      %v = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %v : tensor<4xf32>
    }, {
      stablehlo.return %none : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %ni = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %ni : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// A collective in each trip is no proof: XLA takes one out of the loop that is the same in each, and then a device may make
// other trips than others.
// CHECK-LABEL:   func.func public @collective_in_each_trip
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @collective_in_each_trip(%trips: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %h = stablehlo.multiply %s, %ts : tensor<4xf32>
    %ni = stablehlo.add %acc, %h : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %ni : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// JAX carries the bound of a while_loop that is a part of its state: a loop that hands it on as it is counts to it.
// CHECK-LABEL:   func.func public @carries_its_bound
// CHECK:           %[[W:.*]]:3 = stablehlo.while
// CHECK:           "stablehlo.all_reduce"(%[[W]]#2)
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 16 bytes per device, now reduced after the loop and not 2 times in it
func.func public @carries_its_bound(%trips: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %bound = %two, %acc = %none) : tensor<i32>, tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %ni = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %bound, %ni : tensor<i32>, tensor<i32>, tensor<4xf32>
  }
  return %w#2 : tensor<4xf32>
}

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

// What reads the second sum needs it in each trip, and it is the first sum: XLA would reduce it once for both.
// CHECK-LABEL:   func.func public @computed_twice
// CHECK:           } do {
// CHECK:             %[[S:.*]] = "stablehlo.all_reduce"
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.add %{{.*}}, %[[S]]
// CHECK:             stablehlo.multiply %[[S]], %[[S]]
// CHECK:             return
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: equivalent values are reduced once, where the first is computed
func.func public @computed_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<2.0> : tensor<4xf32>
    %d1 = stablehlo.multiply %x, %c1 : tensor<4xf32>
    %g = stablehlo.add %d1, %x : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c2 = stablehlo.constant dense<2.0> : tensor<4xf32>
    %d2 = stablehlo.multiply %x, %c2 : tensor<4xf32>
    %h = stablehlo.add %d2, %x : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Of other reductions that the second one depends on, too.
// CHECK-LABEL:   func.func public @computed_twice_of_sums
// CHECK:           } do {
// CHECK-COUNT-2:     stablehlo.all_reduce
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           stablehlo.all_reduce
func.func public @computed_twice_of_sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:4 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none, %acc3 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %gg = stablehlo.multiply %g, %g : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%gg) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %h = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %hh = stablehlo.multiply %h, %h : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%hh) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %u = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %o = stablehlo.add %acc3, %u : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m, %o : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2, %w#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A constant is another one.
// CHECK-LABEL:   func.func public @computed_almost_twice
// CHECK:           } do {
// CHECK-COUNT-1:     stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           stablehlo.all_reduce
func.func public @computed_almost_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<2.0> : tensor<4xf32>
    %d1 = stablehlo.multiply %x, %c1 : tensor<4xf32>
    %g = stablehlo.add %d1, %x : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c2 = stablehlo.constant dense<3.0> : tensor<4xf32>
    %d2 = stablehlo.multiply %x, %c2 : tensor<4xf32>
    %h = stablehlo.add %d2, %x : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// What is behind a barrier is to be done again.
// CHECK-LABEL:   func.func public @computed_again
// CHECK:           } do {
// CHECK-COUNT-1:     stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           stablehlo.all_reduce
func.func public @computed_again(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %y = stablehlo.optimization_barrier %x : tensor<4xf32>
    %g = stablehlo.multiply %y, %y : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %z = stablehlo.optimization_barrier %x : tensor<4xf32>
    %h = stablehlo.multiply %z, %z : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

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

// -----

#data = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data">]>

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["replica"=2, "data"=4]>

// In a shard_map: replicated arguments (the number of trips, a loss scale) are uniform, sharded ones are not.
// CHECK-LABEL:   func.func public @manual_computation
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, {{.*}}, use_global_device_ids}>
// CHECK-NOT:       stablehlo.all_reduce
func.func public @manual_computation(%trips: tensor<i32>, %x: tensor<8x4xf32>, %scale: tensor<2x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%trips, %x, %scale, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%n: tensor<i32>, %g: tensor<1x4xf32>, %f: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %scaled = stablehlo.multiply %f, %r : tensor<1x4xf32>
      %next = stablehlo.add %acc, %scaled : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %next : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i32>, tensor<8x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL:   func.func public @branch_with_shardings
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the stablehlo.if says how its results are sharded (stablehlo.if at
func.func public @branch_with_shardings(%skip: tensor<i1>, %x: tensor<8x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%skip, %x, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%p: tensor<i1>, %g: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %c = "stablehlo.if"(%p) ({
        stablehlo.return %g : tensor<1x4xf32>
      }, {
        %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p1: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p1, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
        stablehlo.return %r : tensor<1x4xf32>
      }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : (tensor<i1>) -> tensor<1x4xf32>
      %next = stablehlo.add %acc, %c : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %next : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i1>, tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// Legal when: it has no shardings of its own (they are one per loop-carried value)
// CHECK-LABEL:   func.func public @loop_with_shardings
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the loop says how its values are sharded (stablehlo.while at
func.func public @loop_with_shardings(%trips: tensor<i32>, %x: tensor<8x4xf32>, %scale: tensor<2x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%trips, %x, %scale, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%n: tensor<i32>, %g: tensor<1x4xf32>, %f: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {}]>]>}
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %scaled = stablehlo.multiply %f, %r : tensor<1x4xf32>
      %next = stablehlo.add %acc, %scaled : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %next : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i32>, tensor<8x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL:   func.func public @inner_loop_with_shardings
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the loop says how its values are sharded (stablehlo.while at
func.func public @inner_loop_with_shardings(%trips: tensor<i32>, %x: tensor<8x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%trips, %x, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%n: tensor<i32>, %g: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.add %acc, %r : tensor<1x4xf32>
      %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<1x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {}]>]>}
      cond {
        %more = stablehlo.compare LT, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %b = stablehlo.negate %a : tensor<1x4xf32>
        %j_next = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %j_next, %b : tensor<i32>, tensor<1x4xf32>
      }
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i32>, tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The sum would be carried beside what is not reduced, and each put together from parts that XLA moves.
// Worth it when: duplicating ops costs less than the communication saved; 1,000 multiplications count as one byte
// CHECK-LABEL:   func.func public @joined_twice
// CHECK-NOT:       stablehlo.while({{.*}}, {{.*}}, {{.*}})
// CHECK:           } do {
// CHECK:             sdy.all_reduce
// CHECK:             return
// CHECK-NOT:         sdy.all_reduce
// REMARK-DAG: [defer-sync] sdy.all_reduce missed: 1024 bytes more are moved in the loop, to gather sharded values for duplicated ops
func.func public @joined_twice(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<64xf32>) -> tensor<128xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<128xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<128xf32> attributes {paropt.shardings = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"model"}]>]}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %xv = stablehlo.add %x, %xb : tensor<16x8xf32>
    %p = stablehlo.dot_general %xv, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<8x8xf32>
    %s = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
    %f = stablehlo.reshape %s {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %c = stablehlo.concatenate %f, %z, dim = 0 {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    %n = stablehlo.add %acc, %c {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : tensor<128xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<128xf32>
  }
  return %w#1 : tensor<128xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Here what is moved more, 4 times 1152 bytes, is less than what is sent less: twice 4 times 1024 bytes less 1152.
// CHECK-LABEL:   func.func public @joined_twice_for_more
// CHECK:           } do {
// CHECK-COUNT-2:     stablehlo.concatenate
// CHECK:             return
// CHECK:           sdy.all_reduce
func.func public @joined_twice_for_more(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<64xf32>) -> tensor<576xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<576xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<576xf32> attributes {paropt.shardings = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"model"}]>]}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %xv = stablehlo.add %x, %xb : tensor<16x64xf32>
    %p = stablehlo.dot_general %xv, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x64xf32>, tensor<16x8xf32>) -> tensor<64x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<64x8xf32>
    %s = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<64x8xf32>
    %f = stablehlo.reshape %s {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<64x8xf32>) -> tensor<512xf32>
    %c = stablehlo.concatenate %f, %z, dim = 0 {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<512xf32>, tensor<64xf32>) -> tensor<576xf32>
    %n = stablehlo.add %acc, %c {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : tensor<576xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<576xf32>
  }
  return %w#1 : tensor<576xf32>
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// 16,777,216 multiplications take as long as to send 16,777 bytes; 4 times 1024 bytes less 16 are sent twice less.
// CHECK-LABEL:   func.func public @multiplied_twice(
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         stablehlo.dot_general
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16777216 more multiplications run in the loop, in duplicated ops
func.func public @multiplied_twice(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %m = stablehlo.iota dim = 0 : tensor<64x16384xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %g = stablehlo.add %x, %ts : tensor<4x64xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %h = stablehlo.add %s, %y : tensor<4x64xf32>
    %c = stablehlo.dot_general %h, %m, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x16384xf32>) -> tensor<4x16384xf32>
    %o = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x16384xf32>, tensor<f32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %o : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @multiplied_twice_at_little_cost
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-COUNT-2:     stablehlo.dot_general
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"
func.func public @multiplied_twice_at_little_cost(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %m = stablehlo.iota dim = 0 : tensor<64x64xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %g = stablehlo.add %x, %ts : tensor<4x64xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %h = stablehlo.add %s, %y : tensor<4x64xf32>
    %c = stablehlo.dot_general %h, %m, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %o = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %o : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

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
