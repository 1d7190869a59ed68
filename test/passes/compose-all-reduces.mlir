// RUN: %par-opt %s --passes=compose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=compose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#turned = dense<[[3, 2, 1, 0], [7, 6, 5, 4]]> : tensor<2x4xi64>
#across = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>
#crosswise = dense<[[0, 5], [1, 4], [2, 6], [3, 7]]> : tensor<4x2xi64>
#pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>
#between_pairs = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>
#unlike = dense<[[0, 2], [1, 5], [4, 6], [3, 7]]> : tensor<4x2xi64>
#overlapping = dense<[[0, 4], [1, 5], [2, -1], [3, -1], [6, -1], [7, -1]]> : tensor<6x2xi64>
#three_and_one = dense<[[0, 2, 4], [1, 3, 5], [6, -1, -1], [7, -1, -1]]> : tensor<4x3xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Scattered in each half, summed between them, and gathered: the sum over all, which says how it was written.
// CHECK-LABEL: func.func public @hierarchy(
// CHECK-SAME:    %[[X:.*]]: tensor<8x4xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_reduce"(%[[X]]) <{replica_groups = dense<{{\[}}[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}>
// CHECK:         }) {paropt.decomposed = [{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 0 : i64, replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]}
// CHECK-NEXT:    return %[[R]]
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 3 steps are one all_reduce over 8 devices
func.func public @hierarchy(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Scattered and gathered, along another dimension.
// CHECK-LABEL: func.func public @no_sums
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 2 steps are one all_reduce over 4 devices
func.func public @no_sums(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 1 : i64} : (tensor<8x4xf32>) -> tensor<8x1xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 1 : i64, replica_groups = #halves} : (tensor<8x1xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Three levels: shards are scattered in their turn.
// CHECK-LABEL: func.func public @levels
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}>
// CHECK:         }) {paropt.decomposed = [{{.*}}paropt.decomposed = [
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 3 steps are one all_reduce over 4 devices
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 3 steps are one all_reduce over 8 devices
func.func public @levels(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.reduce_scatter"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs, scatter_dimension = 0 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %u = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %v = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = #between_pairs} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%v) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Shards summed twice, between other groups; and a maximum.
// CHECK-LABEL: func.func public @two_sums
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}>
// CHECK:         stablehlo.maximum
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 4 steps are one all_reduce over 8 devices
func.func public @two_sums(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Three pairs sum their shards, and the last one has its own.
// CHECK-LABEL: func.func public @of_two_sizes
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3, 4, 5], [6, 7, -1, -1, -1, -1]]> : tensor<2x6xi64>}>
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 3 steps are one all_reduce over 6 devices
func.func public @of_two_sizes(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #three_and_one} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Means: what divides the shards divides the whole, in the same order. A scalar, and a factor on the left, too.
// CHECK-LABEL: func.func public @means
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_reduce"
// CHECK:         %[[FOUR:.*]] = stablehlo.constant dense<4.000000e+00> : tensor<8x4xf32>
// CHECK-NEXT:    %[[A:.*]] = stablehlo.divide %[[R]], %[[FOUR]]
// CHECK-NEXT:    %[[THREE:.*]] = stablehlo.constant dense<3.000000e+00> : tensor<8x4xf32>
// CHECK-NEXT:    %[[B:.*]] = stablehlo.multiply %[[THREE]], %[[A]]
// CHECK-NEXT:    return %[[B]]
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 3 steps are one all_reduce over 8 devices
func.func public @means(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %four = stablehlo.constant dense<4.0> : tensor<f32>
  %fours = stablehlo.broadcast_in_dim %four, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
  %threes = stablehlo.constant dense<3.0> : tensor<2x4xf32>
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.divide %s, %fours : tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%d) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %u = stablehlo.multiply %threes, %t : tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Legal when: shards are gathered in the dimension and the order in which they are scattered
// CHECK-LABEL: func.func public @other_order
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are not gathered as they are scattered
func.func public @other_order(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = #turned} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// The same number of elements, along another dimension.
// CHECK-LABEL: func.func public @other_dimension
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are not gathered as they are scattered
func.func public @other_dimension(%x: tensor<4x4xf32>) -> tensor<2x8xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 1 : i64, replica_groups = #pairs} : (tensor<2x4xf32>) -> tensor<2x8xf32>
  return %r : tensor<2x8xf32>
}

// Of fewer devices.
// CHECK-LABEL: func.func public @fewer
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are not gathered as they are scattered
func.func public @fewer(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// Legal when: a shard is summed with the same shard of other groups, and all shards of a group over the same groups
// CHECK-LABEL: func.func public @crosswise
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are summed with other ones
func.func public @crosswise(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #crosswise} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// The first shards of two pairs, and the second ones of others.
// CHECK-LABEL: func.func public @unlike
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards of a group are summed over unlike groups
func.func public @unlike(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #unlike} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Some devices of a group sum their shard with another group, and some do not.
// CHECK-LABEL: func.func public @overlapping
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards of a group are summed over unlike groups
func.func public @overlapping(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #overlapping} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// A shard is there twice, after it was summed.
// CHECK-LABEL: func.func public @with_itself
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: a shard is summed with itself
func.func public @with_itself(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%u) {all_gather_dim = 0 : i64, replica_groups = #pairs} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Legal when: all reductions have the same reducer, and all steps the same channel mode
// CHECK-LABEL: func.func public @other_reducer
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are reduced in another way
func.func public @other_reducer(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Legal when: shards are multiplied or divided by constant scalars only, and before a sum, by powers of two
// CHECK-LABEL: func.func public @rounds
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are multiplied before they are summed, and that rounds
func.func public @rounds(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %threes = stablehlo.constant dense<3.0> : tensor<2x4xf32>
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.divide %s, %threes : tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%d) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// It may be another number on each device. Nothing is said of it: most of what is gathered was not scattered.
// CHECK-LABEL: func.func public @varies
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
func.func public @varies(%x: tensor<8x4xf32>, %y: tensor<2x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.multiply %s, %y : tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%d) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// A dividend is no factor.
// CHECK-LABEL: func.func public @dividend
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
func.func public @dividend(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %fours = stablehlo.constant dense<4.0> : tensor<2x4xf32>
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.divide %fours, %s : tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%d) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// A maximum of what is multiplied by a negative number is a minimum.
// CHECK-LABEL: func.func public @maximum_scaled
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are multiplied before they are summed, and that rounds
func.func public @maximum_scaled(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %twos = stablehlo.constant dense<-2.0> : tensor<2x4xf32>
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.multiply %s, %twos : tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%d) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Legal when: nothing else reads a shard, and all steps are in one block
// CHECK-LABEL: func.func public @shard_read
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: a shard is also read by another op
func.func public @shard_read(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  %n = stablehlo.multiply %s, %s : tensor<2x4xf32>
  %o = "stablehlo.all_gather"(%n) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  %e = stablehlo.subtract %r, %o : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}

// The sum would be done in each trip of the loop.
// CHECK-LABEL: func.func public @in_a_loop
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: the steps are in several blocks
func.func public @in_a_loop(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<8x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    %n = stablehlo.add %acc, %g : tensor<8x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n : tensor<i32>, tensor<8x4xf32>
  }
  return %w#1 : tensor<8x4xf32>
}

// Legal when: each step has one operand, and lists the devices of its replica groups
// CHECK-LABEL: func.func public @several
// CHECK:         stablehlo.reduce_scatter
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: a step has several operands
func.func public @several(%x: tensor<8x4xf32>, %y: tensor<2x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %r:2 = "stablehlo.all_gather"(%s, %y) {all_gather_dim = 0 : i64, replica_groups = #halves} : (tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  %e = stablehlo.subtract %r#0, %r#1 : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}

}

// -----

// The number of replicas is not said, and so not who everyone is.
// NUMERIC: skip (how many replicas there are is not known)
// CHECK-LABEL: func.func public @everyone
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: its replica groups are not known
func.func public @everyone(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<> : tensor<0x0xi64>, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = dense<> : tensor<0x0xi64>} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Each number is a replica: all of its partitions.
// NUMERIC: skip (XLA runs this for several partitions only)
// CHECK-LABEL: func.func public @many_devices
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: each id in its replica groups stands for several devices
func.func public @many_devices(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<0> : tensor<1x1xi64>, scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%s) {all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Partitions are no replicas.
// NUMERIC: skip (XLA refuses groups of both kinds in one program)
// CHECK-LABEL: func.func public @other_mode
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards are reduced in another channel mode
func.func public @other_mode(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8x4xf32>) -> tensor<2x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// The sum names devices that hold no shard.
// NUMERIC: skip (XLA wants all devices in the groups)
// CHECK-LABEL: func.func public @of_others
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: shards of a group are summed over unlike groups
func.func public @of_others(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = "stablehlo.all_gather"(%t) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>} : (tensor<4x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// As in JAX's explicit mode: shards are constrained on an axis that is left to the partitioner. The whole is, in the same dimensions.
// NUMERIC: skip (test/numeric/test_hierarchical_reductions.py runs it)
// CHECK-LABEL: func.func public @constrained
// CHECK:         %[[R:.*]] = "stablehlo.all_reduce"
// CHECK:         %[[A:.*]] = sdy.sharding_constraint %[[R]] <@mesh, [{}, {"model"}]> : tensor<8x4xf32>
// CHECK-NEXT:    %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{?}, {?}]> : tensor<8x4xf32>
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         sdy.return %[[B]]
// REMARK: [compose-all-reduces] stablehlo.all_gather applied: 2 steps are one all_reduce over 4 devices
func.func public @constrained(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data"} (%a: tensor<8x4xf32>) {
    %s = "stablehlo.reduce_scatter"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8x4xf32>) -> tensor<2x4xf32>
    %c = sdy.sharding_constraint %s <@mesh, [{}, {"model"}]> : tensor<2x4xf32>
    %d = sdy.sharding_constraint %c <@mesh, [{?}, {?}]> : tensor<2x4xf32>
    %r = "stablehlo.all_gather"(%d) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    sdy.return %r : tensor<8x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %m : tensor<8x4xf32>
}

// Legal when: no constraint says that a shard is unreduced
// NUMERIC: skip (XLA refuses it)
// CHECK-LABEL: func.func public @said
// CHECK:         stablehlo.all_gather
// REMARK: [compose-all-reduces] stablehlo.all_gather missed: a constraint says that shards are unreduced
func.func public @said(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data"} (%a: tensor<8x4xf32>) {
    %s = "stablehlo.reduce_scatter"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8x4xf32>) -> tensor<2x4xf32>
    %c = sdy.sharding_constraint %s <@mesh, [{}, {}], unreduced={"model"}> : tensor<2x4xf32>
    %d = sdy.sharding_constraint %c <@mesh, [{?}, {?}]> : tensor<2x4xf32>
    %r = "stablehlo.all_gather"(%d) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<8x4xf32>
    sdy.return %r : tensor<8x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %m : tensor<8x4xf32>
}

// -----

#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#across = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>
#pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>
#between_pairs = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>
#unlike = dense<[[0, 2], [1, 5], [4, 6], [3, 7]]> : tensor<4x2xi64>
#overlapping = dense<[[0, 4], [1, 5], [2, -1], [3, -1], [6, -1], [7, -1]]> : tensor<6x2xi64>
#some = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Over one axis, and then over the other.
// CHECK-LABEL: func.func public @in_turn
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[B:.*]] = "stablehlo.all_reduce"(%[[X]]) <{replica_groups = dense<{{\[}}[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}>
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return %[[B]]
// REMARK: [compose-all-reduces] stablehlo.all_reduce applied: one all_reduce over 8 devices does this and the next one
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: 2 sums in turn are one all_reduce over 8 devices
func.func public @in_turn(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Over two axes of three: the devices in between are not those of one group only.
// CHECK-LABEL: func.func public @in_halves
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: one all_reduce over 4 devices does this and the next one
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: 2 sums in turn are one all_reduce over 4 devices
func.func public @in_halves(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Means over three axes.
// CHECK-LABEL: func.func public @three_means
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         %[[S:.*]] = "stablehlo.all_reduce"(%[[X]]) <{replica_groups = dense<{{\[}}[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}>
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         %[[M:.*]] = stablehlo.divide %[[S]], %
// CHECK:         %[[N:.*]] = stablehlo.multiply %{{.*}}, %[[M]]
// CHECK-NEXT:    %[[O:.*]] = stablehlo.divide %[[N]], %
// CHECK-NEXT:    return %[[O]]
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: one all_reduce over 4 devices does this and the next one
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: 2 sums in turn are one all_reduce over 4 devices
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: one all_reduce over 8 devices does this and the next one
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: 2 sums in turn are one all_reduce over 8 devices
func.func public @three_means(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = stablehlo.constant dense<2.0> : tensor<4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %m = stablehlo.divide %a, %two : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%m) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #between_pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %n = stablehlo.multiply %half, %b : tensor<4xf32>
  %c = "stablehlo.all_reduce"(%n) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  %o = stablehlo.divide %c, %two : tensor<4xf32>
  return %o : tensor<4xf32>
}

// A maximum may be taken of one several times.
// CHECK-LABEL: func.func public @maxima
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: one all_reduce over 4 devices does this and the next one
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: 2 sums in turn are one all_reduce over 4 devices
func.func public @maxima(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Groups of several sizes.
// CHECK-LABEL: func.func public @several_sizes
// CHECK-NEXT:    "stablehlo.all_reduce"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 4, 5], [2, 3, -1, -1], [6, 7, -1, -1]]> : tensor<3x4xi64>}>
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         return
// NUMERIC: skip (jax runs groups of one size only)
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: one all_reduce over 4 devices does this and the next one
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce applied: 2 sums in turn are one all_reduce over 4 devices
func.func public @several_sizes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #overlapping} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: each sum is over other devices, over each once, and the same ones for all devices of a group; a maximum, minimum, and, or may be over devices several times
// CHECK-LABEL:   func.func public @added_to_itself
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: a sum is added to itself
func.func public @added_to_itself(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// The first pair adds what the second has on one device, and what the third has on the other.
// CHECK-LABEL:   func.func public @unlike_others
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the sums of a group's devices are added to unlike others
func.func public @unlike_others(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #unlike} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @unlike_maxima
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the sums of a group's devices are added to unlike others
func.func public @unlike_maxima(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #unlike} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @of_some_devices
// NUMERIC: skip (XLA refuses groups without some of the devices)
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the sums of a group's devices are added to unlike others
func.func public @of_some_devices(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #pairs} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #some} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Legal when: the sums differ in their groups only, and nothing else reads the first one
// CHECK-LABEL:   func.func public @maximum_of_sums
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the reductions differ in reducer
func.func public @maximum_of_sums(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @other_attributes
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the reductions differ in attributes
func.func public @other_attributes(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across, mhlo.frontend_attributes = {combiner_key = "1"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @other_mode
// NUMERIC: skip (with a channel, each number would be a partition)
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the reductions differ in channel mode
func.func public @other_mode(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @first_is_read
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the first sum is also read by another op
func.func public @first_is_read(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.add %a, %c : tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @scaled_by_a_third
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: a sum is multiplied before the next, and that rounds
func.func public @scaled_by_a_third(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = stablehlo.constant dense<3.0> : tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %m = stablehlo.divide %a, %three : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%m) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// A factor is not scaled back by a maximum: it could be negative.
// CHECK-LABEL:   func.func public @scaled_maximum
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: a sum is multiplied before the next, and that rounds
func.func public @scaled_maximum(%x: tensor<4xf32>) -> tensor<4xf32> {
  %less = stablehlo.constant dense<-2.0> : tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %m = stablehlo.multiply %a, %less : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%m) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @several_arrays
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: a sum has several operands
func.func public @several_arrays(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %c = "stablehlo.all_reduce"(%a#0) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.add %a#1, %c : tensor<4xf32>
  return %b : tensor<4xf32>
}

// What comes in between is no constant number, or changes the type: nothing is said.
// CHECK-LABEL:   func.func public @other_ops_between
// CHECK-COUNT-2: "stablehlo.all_reduce"
func.func public @other_ops_between(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %m = stablehlo.multiply %a, %y : tensor<4xf32>
  %b = "stablehlo.all_reduce"(%m) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
// CHECK-LABEL:   func.func public @in_several_blocks
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: the sums are in several blocks
func.func public @in_several_blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #across} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %b : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}
}

// -----

// The number of replicas is not said, and so not who everyone is.
// NUMERIC: skip (how many replicas there are is not known)
// CHECK-LABEL:   func.func public @sums_of_everyone
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: its replica groups do not list devices
func.func public @sums_of_everyone(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<> : tensor<0x0xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<> : tensor<0x0xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// Each number is a replica: all of its partitions.
// NUMERIC: skip (XLA runs this for several partitions only)
// CHECK-LABEL:   func.func public @sums_of_many_devices
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [compose-all-reduces] stablehlo.all_reduce missed: its replica groups do not list devices
func.func public @sums_of_many_devices(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// A sum that is constrained on an axis that is left to the partitioner; and one that is said not to be reduced.
// NUMERIC: skip (XLA refuses constraints of what is not reduced)
// CHECK-LABEL:   func.func public @constrained_sums
// CHECK:         %[[A:.*]] = "stablehlo.all_reduce"(%{{.*}}[0, 2, 4, 6], [1, 3, 5, 7]
// CHECK:         %[[C:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{"model"}]> : tensor<8xf32>
// CHECK-NEXT:    %[[S:.*]] = stablehlo.sine %[[C]]
// CHECK-NEXT:    %[[B:.*]] = "stablehlo.all_reduce"(%[[S]])
// CHECK:         sdy.sharding_constraint %[[B]] <@mesh, [{}], unreduced={"model"}> : tensor<8xf32>
// CHECK-NEXT:    "stablehlo.all_reduce"
// REMARK-NEXT: applied: one all_reduce over 4 devices
// REMARK-NEXT: applied: 2 sums in turn are one all_reduce over 4 devices
// REMARK-NEXT: missed: a constraint says that a sum is unreduced
// REMARK-NOT: remark
func.func public @constrained_sums(%x: tensor<8xf32>) -> tensor<8xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"data"} (%v: tensor<8xf32>) {
    %a = "stablehlo.all_reduce"(%v) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
    %c = sdy.sharding_constraint %a <@mesh, [{"model"}]> : tensor<8xf32>
    %b = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
    %s = stablehlo.sine %b : tensor<8xf32>
    %d = "stablehlo.all_reduce"(%s) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
    %e = sdy.sharding_constraint %d <@mesh, [{}], unreduced={"model"}> : tensor<8xf32>
    %f = "stablehlo.all_reduce"(%e) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
    sdy.return %f : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}
