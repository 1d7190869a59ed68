// RUN: %par-opt %s --passes=grad-sync | FileCheck %s
// RUN: %par-opt %s --passes=grad-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#across = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// A tied weight, accumulated in a scan whose body JAX outlined, in two accumulators that are added after the loop: the
// body is inlined, both reductions leave the loop, and become one.
// CHECK-LABEL: func.func public @tied_weight
// CHECK:         } do {
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         stablehlo.return %{{.*}}, %
// CHECK:         "stablehlo.all_reduce"(
// CHECK-NOT:     stablehlo.all_reduce
// CHECK-NOT:     func.func private
// REMARK-DAG: grad-sync.mlir: remark: 5 of 5 reduced arrays leave the loop: 288 B x 4 -> 288 B x 1; 4 reduced arrays become 3: 192 B -> 96 B
// REMARK-NOT: [inline-calls]
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: 64 bytes per device, now reduced after the loop and not 4 times in it
// REMARK-DAG: [fuse-all-reduces] stablehlo.add applied: 2 reduced arrays (128 bytes per device) became 1 reduced array (64 bytes per device)
func.func public @tied_weight(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t0 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %xs = stablehlo.multiply %x, %ts : tensor<4x4xf32>
    %ys = stablehlo.multiply %y, %ts : tensor<4x4xf32>
    %n:2 = func.call @closed_call(%acc, %acc2, %xs, %ys) : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n#0, %n#1 : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %t = stablehlo.transpose %w#2, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.add %w#1, %t : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

func.func private @closed_call(%acc: tensor<4x4xf32>, %acc2: tensor<4x4xf32>, %x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = stablehlo.add %acc, %a : tensor<4x4xf32>
  %n2 = stablehlo.add %acc2, %b : tensor<4x4xf32>
  return %n, %n2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Scattered in each half, summed between them and gathered, in each trip: once in the same steps, after the loop.
// CHECK-LABEL: func.func public @hierarchy
// CHECK:         } do {
// CHECK-NOT:     stablehlo.reduce_scatter
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         stablehlo.return %{{.*}}, %
// CHECK:         "stablehlo.reduce_scatter"({{.*}}[0, 1, 2, 3], [4, 5, 6, 7]
// CHECK:         "stablehlo.all_reduce"({{.*}}[0, 4], [1, 5], [2, 6], [3, 7]
// CHECK:         "stablehlo.all_gather"({{.*}}[0, 1, 2, 3], [4, 5, 6, 7]
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return
// REMARK-DAG: [compose-all-reduces] stablehlo.all_gather applied: 3 steps are one all_reduce over 8 devices
// REMARK-DAG: [decompose-all-reduces] stablehlo.all_reduce applied: scattered over 4 devices, and gathered, as in the program
func.func public @hierarchy(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t0 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %xs = stablehlo.multiply %x, %ts : tensor<4x4xf32>
    %a = "stablehlo.reduce_scatter"(%xs) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x1xf32>
    %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %c = "stablehlo.all_gather"(%b) {all_gather_dim = 1 : i64, replica_groups = #halves} : (tensor<4x1xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Shards are summed twice: what is summed already is multiplied, and then the steps are one reduction, in the same run.
// CHECK-LABEL: func.func public @shards_summed_twice
// CHECK:         } do {
// CHECK-NOT:     stablehlo.reduce_scatter
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         stablehlo.return %{{.*}}, %
// CHECK:         "stablehlo.reduce_scatter"({{.*}}[0, 1, 2, 3], [4, 5, 6, 7]
// CHECK:         "stablehlo.all_reduce"({{.*}}[0, 4], [1, 5], [2, 6], [3, 7]
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return
func.func public @shards_summed_twice(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t0 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t0, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %xs = stablehlo.multiply %x, %ts : tensor<4x4xf32>
    %a = "stablehlo.reduce_scatter"(%xs) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x1xf32>
    %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %b2 = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4x1xf32>) -> tensor<4x1xf32>
    %c = "stablehlo.all_gather"(%b2) {all_gather_dim = 1 : i64, replica_groups = #halves} : (tensor<4x1xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// What a loop sums is summed again, and half of it is read. Both reductions come to stand before the sum of the halves: only
// there one follows the other, and is a multiplication. A second run finds nothing to do.
// CHECK-LABEL: func.func public @summed_again
// CHECK:         } do {
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         stablehlo.slice
// CHECK:         %[[HALVES:.*]] = stablehlo.add
// CHECK:         %[[SUM:.*]] = "stablehlo.all_reduce"(%[[HALVES]])
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         %[[COUNT:.*]] = stablehlo.constant dense<8>
// CHECK:         stablehlo.multiply %[[SUM]], %[[COUNT]]
// CHECK:         return
func.func public @summed_again(%x: tensor<8xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<8xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8xi32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<8xi32>) -> tensor<8xi32>
    %n = stablehlo.add %acc, %g : tensor<8xi32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n : tensor<i32>, tensor<8xi32>
  }
  %s = "stablehlo.all_reduce"(%w#1) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<8xi32>) -> tensor<8xi32>
  %low = stablehlo.slice %s [0:4] : (tensor<8xi32>) -> tensor<4xi32>
  %high = stablehlo.slice %s [4:8] : (tensor<8xi32>) -> tensor<4xi32>
  %h = stablehlo.add %low, %high : tensor<4xi32>
  return %h : tensor<4xi32>
}

}
