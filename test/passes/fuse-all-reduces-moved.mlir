// What is reduced, and then moved in the same way in all terms of a sum, each device perhaps in a way of its own.
// RUN: %par-opt %s --passes=fuse-all-reduces | FileCheck %s
// RUN: %par-opt %s --passes=fuse-all-reduces --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Each device adds up its own slices, scaled, to what it has: the sum is reduced, and then cut.
// CHECK-LABEL: func.func public @own_slices
// CHECK-SAME:    (%[[X:.*]]: tensor<8x4xf32>, %[[Y:.*]]: tensor<8x4xf32>, %[[Z:.*]]: tensor<8x4xf32>, %[[START:.*]]: tensor<1x4xf32>)
// CHECK:         %[[I:.*]] = stablehlo.convert
// CHECK-NOT:     stablehlo.all_reduce
// CHECK:         %[[HALF:.*]] = stablehlo.multiply %[[Y]], %{{.*}} : tensor<8x4xf32>
// CHECK-NEXT:    %[[XY:.*]] = stablehlo.add %[[X]], %[[HALF]] : tensor<8x4xf32>
// CHECK-NEXT:    %[[XYZ:.*]] = stablehlo.subtract %[[XY]], %[[Z]] : tensor<8x4xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_reduce"(%[[XYZ]])
// CHECK:         %[[CUT:.*]] = stablehlo.dynamic_slice %[[R]], %[[I]], %{{.*}}, sizes = [1, 4]
// CHECK-NEXT:    %[[S:.*]] = stablehlo.add %[[START]], %[[CUT]]
// CHECK-NEXT:    return %[[S]]
// REMARK: [fuse-all-reduces] stablehlo.subtract applied: 3 reduced arrays (384 bytes per device) became 1 reduced array (128 bytes per device)
func.func public @own_slices(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %z: tensor<8x4xf32>, %start: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<1x4xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %start, %c : tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %e = stablehlo.multiply %d, %half : tensor<1x4xf32>
  %t = stablehlo.add %s, %e : tensor<1x4xf32>
  %f = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %g = stablehlo.dynamic_slice %f, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %u = stablehlo.subtract %t, %g : tensor<1x4xf32>
  return %u : tensor<1x4xf32>
}

// Means, at an index that each step computes anew; the whole gradient has a term that is not reduced.
// CHECK-LABEL: func.func public @means
// CHECK-COUNT-1: "stablehlo.all_reduce"
// CHECK-NOT:     "stablehlo.all_reduce"
// CHECK:         return
// REMARK-NEXT: [fuse-all-reduces] stablehlo.add applied: 2 reduced arrays (256 bytes per device) became 1 reduced array (128 bytes per device)
func.func public @means(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %z: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %eight = stablehlo.constant dense<8.0> : tensor<8x4xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %m = stablehlo.divide %a, %eight : tensor<8x4xf32>
  %o = stablehlo.add %m, %z : tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %o, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %other = stablehlo.replica_id : tensor<ui32>
  %j = stablehlo.convert %other : (tensor<ui32>) -> tensor<i32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %n = stablehlo.divide %b, %eight : tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %n, %j, %none, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// Slices that are not of one size: the last ones begin before the end, where they still fit, as in each term.
// CHECK-LABEL: func.func public @uneven_slices
// CHECK-COUNT-1: "stablehlo.all_reduce"
// CHECK-NOT:     "stablehlo.all_reduce"
// CHECK:         return
// REMARK-NEXT: applied: 2 reduced arrays
func.func public @uneven_slices(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<3x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %k = stablehlo.multiply %i, %three : tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %k, %zero, sizes = [3, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %k, %zero, sizes = [3, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
  %s = stablehlo.add %c, %d : tensor<3x4xf32>
  return %s : tensor<3x4xf32>
}

// Shards that are transposed, of a reduce_scatter along the dimension that it has before.
// CHECK-LABEL: func.func public @transposed_shards
// CHECK-SAME:    (%[[X:.*]]: tensor<8x4xf32>, %[[Y:.*]]: tensor<8x4xf32>)
// CHECK:         %[[S:.*]] = stablehlo.add %[[X]], %[[Y]]
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.reduce_scatter"(%[[S]]) <{replica_groups = {{.*}}, scatter_dimension = 0 : i64}>
// CHECK:         %[[T:.*]] = stablehlo.transpose %[[R]], dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:    return %[[T]]
// REMARK-NEXT: applied: 2 reduced arrays (32 bytes per device) became 1 reduced array (16 bytes per device)
func.func public @transposed_shards(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<4x1xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %c = stablehlo.transpose %a, dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %d = stablehlo.transpose %b, dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
  %s = stablehlo.add %c, %d : tensor<4x1xf32>
  return %s : tensor<4x1xf32>
}

// Cut, negated and transposed.
// CHECK-LABEL: func.func public @moved_twice
// CHECK:         %[[R:.*]] = "stablehlo.all_reduce"
// CHECK:         %[[CUT:.*]] = stablehlo.dynamic_slice %[[R]]
// CHECK-NEXT:    %[[T:.*]] = stablehlo.transpose %[[CUT]]
// CHECK-NEXT:    return %[[T]]
// REMARK-NEXT: applied: 2 reduced arrays (256 bytes per device) became 1 reduced array (128 bytes per device)
func.func public @moved_twice(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<4x1xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %n = stablehlo.negate %c : tensor<1x4xf32>
  %e = stablehlo.transpose %n, dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %f = stablehlo.transpose %d, dims = [1, 0] : (tensor<1x4xf32>) -> tensor<4x1xf32>
  %s = stablehlo.add %e, %f : tensor<4x1xf32>
  return %s : tensor<4x1xf32>
}

// Maxima, too.
// CHECK-LABEL: func.func public @maxima
// CHECK-COUNT-1: "stablehlo.all_reduce"
// CHECK-NOT:     "stablehlo.all_reduce"
// CHECK:         return
// REMARK-NEXT: [fuse-all-reduces] stablehlo.maximum applied: 2 reduced arrays (256 bytes per device) became 1
func.func public @maxima(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.maximum %c, %d : tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}

// Slices that are added in a wider type are added in that before they are cut.
// CHECK-LABEL: func.func public @widened_slices
// CHECK:         %[[XY:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<8x4xf32>
// CHECK:         %[[S:.*]] = stablehlo.add %[[XY]], %{{.*}} : tensor<8x4xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_reduce"(%[[S]])
// CHECK:         %[[CUT:.*]] = stablehlo.dynamic_slice %[[R]], {{.*}} -> tensor<1x4xf32>
// CHECK-NEXT:    return %[[CUT]]
// REMARK-NEXT: applied: 3 reduced arrays (192 bytes per device) became 1 reduced array (128 bytes per device)
func.func public @widened_slices(%x: tensor<8x4xbf16>, %y: tensor<8x4xbf16>, %z: tensor<8x4xbf16>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x4xbf16>
  %d = stablehlo.convert %c : (tensor<1x4xbf16>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %e = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x4xbf16>
  %f = stablehlo.convert %e : (tensor<1x4xbf16>) -> tensor<1x4xf32>
  %t = stablehlo.add %d, %f : tensor<1x4xf32>
  %g = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<8x4xbf16>) -> tensor<8x4xbf16>
  %h = stablehlo.dynamic_slice %g, %i, %zero, sizes = [1, 4] : (tensor<8x4xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x4xbf16>
  %k = stablehlo.convert %h : (tensor<1x4xbf16>) -> tensor<1x4xf32>
  %u = stablehlo.add %t, %k : tensor<1x4xf32>
  return %u : tensor<1x4xf32>
}

// The shards are read one by one as well: they stay.
// CHECK-LABEL: func.func public @shards_are_read
// CHECK-COUNT-2: "stablehlo.all_reduce"
// REMARK-NEXT: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
// REMARK-NOT: remark
func.func public @shards_are_read(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %id = stablehlo.replica_id : tensor<ui32>
  %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %s = stablehlo.add %c, %d : tensor<1x4xf32>
  return %s, %c, %d : tensor<1x4xf32>, tensor<1x4xf32>, tensor<1x4xf32>
}
}
