// Elements that are moved before they are added.

// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 8 : i32} {

  sdy.mesh @mesh = <["data"=4, "model"=2]>

// XLA adds before it gathers: after the sum is left unreduced, both terms would be gathered.
// CHECK-LABEL:   func.func public @gathered_twice
// CHECK:           %[[A:.*]] = sdy.all_reduce {"model"}
// CHECK-NEXT:      stablehlo.add %[[A]],
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @gathered_twice(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %w: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"model"}> {paropt.operands = [#sdy.sharding<@mesh, [{?}, {"model"}]>, #sdy.sharding<@mesh, [{"model"}, {?}]>]} : tensor<16x4xf32>
  %a = sdy.all_reduce {"model"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<16x4xf32>
  %b = stablehlo.add %a, %y {paropt.shardings = [#sdy.sharding<@mesh, [{}, {}]>]} : tensor<16x4xf32>
  %s = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// What reads the sum is split, the sum is not: it stays where it is, and the pass comes to an end.
// CHECK-LABEL:   func.func public @split_behind_it
// CHECK:           %[[A:.*]] = sdy.all_reduce {"model"}
// CHECK-NEXT:      stablehlo.add %[[A]],
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @split_behind_it(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %w: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<16x4xf32>, tensor<8x4xf32>) {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {}]>]} : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"model"}> {paropt.operands = [#sdy.sharding<@mesh, [{?}, {"model"}]>, #sdy.sharding<@mesh, [{"model"}, {?}]>]} : tensor<16x4xf32>
  %a = sdy.all_reduce {"model"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<16x4xf32>
  %b = stablehlo.add %a, %y {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<16x4xf32>
  %s = stablehlo.sine %b : tensor<16x4xf32>
  %z = stablehlo.slice %b [0:8, 0:4] : (tensor<16x4xf32>) -> tensor<8x4xf32>
  return %s, %z : tensor<16x4xf32>, tensor<8x4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Legal when: ops that move elements differently on each device, or after a reduce_scatter, are the same op in each term, on one type, with the same attributes and other operands
// CHECK-LABEL:   func.func public @other_index
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @other_index(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one : tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %j, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// CHECK-LABEL:   func.func public @other_array
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @other_array(%x: tensor<8x4xf32>, %y: tensor<16x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<16x4xf32>) -> tensor<16x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<16x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// CHECK-LABEL:   func.func public @other_groups
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @other_groups(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// CHECK-LABEL:   func.func public @other_ops
// CHECK-COUNT-2:   "stablehlo.reduce_scatter"
// CHECK-NOT:       "stablehlo.reduce_scatter"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduce_scatter may not cross stablehlo.transpose, which moves elements
func.func public @other_ops(%x: tensor<16x2xf32>, %y: tensor<16x2xf32>) -> tensor<2x2xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16x2xf32>) -> tensor<2x2xf32>
  %c = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16x2xf32>) -> tensor<2x2xf32>
  %d = stablehlo.reverse %b, dims = [0] : tensor<2x2xf32>
  %s = stablehlo.add %c, %d : tensor<2x2xf32>
  return %s : tensor<2x2xf32>
}

// CHECK-LABEL:   func.func public @other_scatter_dimension
// CHECK-COUNT-2:   "stablehlo.reduce_scatter"
// CHECK-NOT:       "stablehlo.reduce_scatter"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: stablehlo.reshape is not elementwise: it may not precede the op that moves the reduced elements
func.func public @other_scatter_dimension(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<16xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x16xf32>) -> tensor<1x16xf32>
  %c = stablehlo.slice %a [0:1, 0:16] : (tensor<1x16xf32>) -> tensor<1x16xf32>
  %e = stablehlo.reshape %c : (tensor<1x16xf32>) -> tensor<16xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 1 : i64} : (tensor<8x16xf32>) -> tensor<8x2xf32>
  %d = stablehlo.reshape %b : (tensor<8x2xf32>) -> tensor<16xf32>
  %s = stablehlo.add %e, %d : tensor<16xf32>
  return %s : tensor<16xf32>
}

// CHECK-LABEL:   func.func public @cut_and_whole_rows
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @cut_and_whole_rows(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.slice %b [0:1, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// Legal when: moved elements cross elementwise ops only, with scalar factors
// CHECK-LABEL:   func.func public @masked_slices
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a factor of moved elements is not one scalar
func.func public @masked_slices(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %mask = stablehlo.constant dense<[[1.0, 0.0, 1.0, 1.0]]> : tensor<1x4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %e = stablehlo.multiply %c, %mask : tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %f = stablehlo.multiply %d, %mask : tensor<1x4xf32>
  %s = stablehlo.add %e, %f : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// CHECK-LABEL:   func.func public @slices_scaled_on_each_device
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a factor is not proven uniform over the replica groups
func.func public @slices_scaled_on_each_device(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %w = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
  %v = stablehlo.broadcast_in_dim %w, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %e = stablehlo.multiply %c, %v : tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %f = stablehlo.multiply %d, %v : tensor<1x4xf32>
  %s = stablehlo.add %e, %f : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// CHECK-LABEL:   func.func public @reversed_slices
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: stablehlo.reverse is not elementwise: it may not precede the op that moves the reduced elements
func.func public @reversed_slices(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %e = stablehlo.reverse %c, dims = [1] : tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %e, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// CHECK-LABEL:   func.func public @sums_along_slices
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: stablehlo.reduce is not elementwise: it may not precede the op that moves the reduced elements
func.func public @sums_along_slices(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %e = stablehlo.reduce(%c init: %none) applies stablehlo.add across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %f = stablehlo.reduce(%d init: %none) applies stablehlo.add across dimensions = [1] : (tensor<1x4xf32>, tensor<f32>) -> tensor<1xf32>
  %s = stablehlo.add %e, %f : tensor<1xf32>
  return %s : tensor<1xf32>
}

// Worth it when: nothing else reads a moved value, nor its operand, and it is no larger than the values reduced for it
// CHECK-LABEL:   func.func public @whole_is_read
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @whole_is_read(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s, %a, %b : tensor<1x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL:   func.func public @repeated_rows
// CHECK-COUNT-2:   "stablehlo.all_reduce"
// CHECK-NOT:       "stablehlo.all_reduce"
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @repeated_rows(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %k = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %k, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %l = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %l, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}
}
