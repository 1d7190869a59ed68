// Ops between reduction and sum.

// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes=fuse-all-reduces{convert=any} --split-input-file | FileCheck %s --check-prefix=ANY

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#halves_permuted = dense<[[7, 6, 5, 4], [1, 0, 2, 3]]> : tensor<2x4xi64>
#everyone = dense<> : tensor<0x0xi64>
#backwards = dense<[[7, 6, 5, 4, 3, 2, 1, 0]]> : tensor<1x8xi64>
#one_by_one = dense<[[0], [1], [2], [3], [4], [5], [6], [7]]> : tensor<8x1xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Legal when: each op is linear, or for a maximum or minimum, only moves data
// CHECK-LABEL:   func.func public @negated_maximum
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.maximum missed: stablehlo.negate is linear for sums only
func.func public @negated_maximum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %n = stablehlo.negate %b : tensor<4xf32>
  %s = stablehlo.maximum %a, %n : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @square
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @square(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %abs = stablehlo.abs %b : tensor<4xf32>
  %s = stablehlo.add %a, %abs : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Where one part is no maximum over devices, minus infinity stands for it, and it takes part by itself.
// CHECK-LABEL:   func.func public @concatenated_maxima
// CHECK-SAME:      (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<2xf32>, %[[O:.*]]: tensor<2xf32>)
// CHECK:           %[[P:.*]] = stablehlo.concatenate %[[Y]], %[[N:.*]], dim = 0
// CHECK:           %[[Q:.*]] = stablehlo.concatenate %[[N2:.*]], %[[O]], dim = 0
// CHECK:           %[[M:.*]] = stablehlo.maximum %[[X]], %[[P]]
// CHECK:           %[[S:.*]] = "stablehlo.all_reduce"(%[[M]])
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.maximum %[[Q]], %[[S]]
func.func public @concatenated_maxima(%x: tensor<4xf32>, %y: tensor<2xf32>, %o: tensor<2xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2xf32>) -> tensor<2xf32>
  %c = stablehlo.concatenate %b, %o, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %s = stablehlo.maximum %a, %c : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @concatenated_truth_values
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.maximum missed: stablehlo.concatenate would need an identity element, which is not known for a stablehlo.maximum of i1
func.func public @concatenated_truth_values(%x: tensor<4xi1>, %y: tensor<2xi1>, %o: tensor<2xi1>) -> tensor<4xi1> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i1>, %q: tensor<i1>): %r = stablehlo.maximum %p, %q : tensor<i1> stablehlo.return %r : tensor<i1> }) {replica_groups = #all} : (tensor<4xi1>) -> tensor<4xi1>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i1>, %q: tensor<i1>): %r = stablehlo.maximum %p, %q : tensor<i1> stablehlo.return %r : tensor<i1> }) {replica_groups = #all} : (tensor<2xi1>) -> tensor<2xi1>
  %c = stablehlo.concatenate %b, %o, dim = 0 : (tensor<2xi1>, tensor<2xi1>) -> tensor<4xi1>
  %s = stablehlo.maximum %a, %c : tensor<4xi1>
  return %s : tensor<4xi1>
}

// Legal when: factors are uniform over the replica groups
// CHECK-LABEL:   func.func public @factor_of_each_device
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices (stablehlo.multiply at
func.func public @factor_of_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.multiply %a, %w : tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @divisor_of_each_device
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @divisor_of_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %id = stablehlo.replica_id : tensor<ui32>
  %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
  %e = stablehlo.exponential %f : tensor<f32>
  %d = stablehlo.broadcast_in_dim %e, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.divide %a, %d : tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// A factor that is uniform over halves only.
// CHECK-LABEL:   func.func public @factor_uniform_over_smaller_groups
// CHECK-COUNT-3:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: stablehlo.add missed: a factor is not proven uniform over the replica groups: an argument of the function may differ between devices
func.func public @factor_uniform_over_smaller_groups(%x: tensor<4xf32>, %y: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %f = "stablehlo.all_reduce"(%w) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.multiply %f, %a : tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// The quotient is not linear in its divisor.
// CHECK-LABEL:   func.func public @reduced_divisor
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a divisor is not linear
func.func public @reduced_divisor(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.divide %one, %a : tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Legal when: predicates are uniform over the replica groups
// CHECK-LABEL:   func.func public @predicate_of_each_device
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a predicate is not proven uniform over the replica groups
func.func public @predicate_of_each_device(%x: tensor<4xf32>, %y: tensor<4xf32>, %o: tensor<4xf32>, %pred: tensor<4xi1>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.select %pred, %a, %o : tensor<4xi1>, tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_predicate
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.or missed: a predicate is not linear
func.func public @reduced_predicate(%x: tensor<4xi1>, %y: tensor<4xi1>, %o: tensor<4xi1>) -> tensor<4xi1> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i1>, %q: tensor<i1>): %r = stablehlo.or %p, %q : tensor<i1> stablehlo.return %r : tensor<i1> }) {replica_groups = #all} : (tensor<4xi1>) -> tensor<4xi1>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i1>, %q: tensor<i1>): %r = stablehlo.or %p, %q : tensor<i1> stablehlo.return %r : tensor<i1> }) {replica_groups = #all} : (tensor<4xi1>) -> tensor<4xi1>
  %c = stablehlo.select %a, %b, %o : tensor<4xi1>, tensor<4xi1>
  %s = stablehlo.or %c, %b : tensor<4xi1>
  return %s : tensor<4xi1>
}

// Legal when: indices are uniform over the replica groups
// CHECK-LABEL:   func.func public @index_of_each_device
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups
func.func public @index_of_each_device(%x: tensor<8xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %id = stablehlo.replica_id : tensor<ui32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8xf32>) -> tensor<8xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.dynamic_slice %a, %id, sizes = [4] : (tensor<8xf32>, tensor<ui32>) -> tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduced_index
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not linear
func.func public @reduced_index(%x: tensor<8xi32>, %i: tensor<i32>) -> tensor<4xi32> {
  %a:2 = "stablehlo.all_reduce"(%x, %i) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<8xi32>, tensor<i32>) -> (tensor<8xi32>, tensor<i32>)
  %b = "stablehlo.all_reduce"(%i) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %c = stablehlo.dynamic_slice %a#0, %a#1, sizes = [4] : (tensor<8xi32>, tensor<i32>) -> tensor<4xi32>
  %bs = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<i32>) -> tensor<4xi32>
  %s = stablehlo.add %c, %bs : tensor<4xi32>
  return %s : tensor<4xi32>
}

// CHECK-LABEL:   func.func public @scatter_index_of_each_device
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices {{.*}}(stablehlo.scatter at
func.func public @scatter_index_of_each_device(%x: tensor<3x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  %own = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %rows = stablehlo.broadcast_in_dim %own, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %c = "stablehlo.scatter"(%z, %rows, %a) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = stablehlo.add %c, %b : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @reduced_scatter_index
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not linear {{.*}}(stablehlo.scatter at
func.func public @reduced_scatter_index(%x: tensor<3x2xi32>, %at: tensor<3x1xi32>, %y: tensor<4x2xi32>) -> tensor<4x2xi32> {
  %z = stablehlo.constant dense<0> : tensor<4x2xi32>
  %a:2 = "stablehlo.all_reduce"(%x, %at) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<3x2xi32>, tensor<3x1xi32>) -> (tensor<3x2xi32>, tensor<3x1xi32>)
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4x2xi32>) -> tensor<4x2xi32>
  %c = "stablehlo.scatter"(%z, %a#1, %a#0) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) : (tensor<4x2xi32>, tensor<3x1xi32>, tensor<3x2xi32>) -> tensor<4x2xi32>
  %s = stablehlo.add %c, %b : tensor<4x2xi32>
  return %s : tensor<4x2xi32>
}

// CHECK-LABEL:   func.func public @gather_index_of_each_device
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an index is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices {{.*}}(stablehlo.gather at
func.func public @gather_index_of_each_device(%x: tensor<4x2xf32>, %y: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %id = stablehlo.replica_id : tensor<ui32>
  %own = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
  %rows = stablehlo.broadcast_in_dim %own, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %c = "stablehlo.gather"(%a, %rows) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : (tensor<4x2xf32>, tensor<3x1xi32>) -> tensor<3x2xf32>
  %s = stablehlo.add %c, %b : tensor<3x2xf32>
  return %s : tensor<3x2xf32>
}

// CHECK-LABEL:   func.func public @scatter_at_reduced_indices
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @scatter_at_reduced_indices(%x: tensor<3x1xi32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %u = stablehlo.constant dense<1.0> : tensor<3x2xf32>
  %rows = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<3x1xi32>) -> tensor<3x1xi32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %c = "stablehlo.scatter"(%z, %rows, %u) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = stablehlo.add %c, %b : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// Legal when: integers are not divided
// CHECK-LABEL:   func.func public @integer_division
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: an integer division rounds
func.func public @integer_division(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %two = stablehlo.constant dense<2> : tensor<4xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %c = stablehlo.divide %a, %two : tensor<4xi32>
  %s = stablehlo.add %c, %b : tensor<4xi32>
  return %s : tensor<4xi32>
}

// Legal when: a convert is to a wider float type, or complex numbers of one, or `convert=any`
// CHECK-LABEL:   func.func public @narrowing_convert
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a convert from f32 to bf16 loses precision (option convert=any allows it)
// ANY-LABEL:     func.func public @narrowing_convert
// ANY:             "stablehlo.all_reduce"(
// ANY:             : (tensor<4xbf16>) -> tensor<4xbf16>
func.func public @narrowing_convert(%x: tensor<4xf32>, %y: tensor<4xbf16>) -> tensor<4xbf16> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
  %c = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xbf16>
  %s = stablehlo.add %c, %b : tensor<4xbf16>
  return %s : tensor<4xbf16>
}

// JAX converts what has its type weakly, such as a count that starts from 0, to that type.
// ANY-LABEL:     func.func public @convert_to_the_same_type
// CHECK-LABEL:   func.func public @convert_to_the_same_type
// CHECK-COUNT-1:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @convert_to_the_same_type(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %c = stablehlo.convert %a : tensor<4xi32>
  %s = stablehlo.add %c, %b : tensor<4xi32>
  return %s : tensor<4xi32>
}

// The sum of i8 wraps where the sum of i32 does not.
// CHECK-LABEL:   func.func public @integer_convert
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a convert of integers may wrap or round
// ANY-LABEL:     func.func public @integer_convert
// ANY-COUNT-2:     stablehlo.all_reduce
// ANY-NOT:         stablehlo.all_reduce
func.func public @integer_convert(%x: tensor<4xi8>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %sixteen = stablehlo.constant dense<16> : tensor<4xi8>
  %big = stablehlo.multiply %x, %sixteen : tensor<4xi8>
  %a = "stablehlo.all_reduce"(%big) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.add %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %c = stablehlo.convert %a : (tensor<4xi8>) -> tensor<4xi32>
  %s = stablehlo.add %c, %b : tensor<4xi32>
  return %s : tensor<4xi32>
}

// The real parts of complex numbers hold the floats.
// CHECK-LABEL:   func.func public @convert_to_complex_numbers
// CHECK-SAME:      (%[[X:.*]]: tensor<4xbf16>, %[[Y:.*]]: tensor<4xcomplex<f32>>)
// CHECK:           %[[C:.*]] = stablehlo.convert %[[X]] : (tensor<4xbf16>) -> tensor<4xcomplex<f32>>
// CHECK:           %[[S:.*]] = stablehlo.add %[[C]], %[[Y]]
// CHECK:           "stablehlo.all_reduce"(%[[S]])
// CHECK-NOT:       stablehlo.all_reduce
// ANY-LABEL:     func.func public @convert_to_complex_numbers
// ANY-COUNT-1:     stablehlo.all_reduce
// ANY-NOT:         stablehlo.all_reduce
func.func public @convert_to_complex_numbers(%x: tensor<4xbf16>, %y: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %c = stablehlo.convert %a : (tensor<4xbf16>) -> tensor<4xcomplex<f32>>
  %s = stablehlo.add %c, %b : tensor<4xcomplex<f32>>
  return %s : tensor<4xcomplex<f32>>
}

// CHECK-LABEL:   func.func public @convert_to_narrower_complex_numbers
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a convert from f64 to f32 loses precision (option convert=any allows it)
// ANY-LABEL:     func.func public @convert_to_narrower_complex_numbers
// ANY-COUNT-1:     stablehlo.all_reduce
// ANY-NOT:         stablehlo.all_reduce
func.func public @convert_to_narrower_complex_numbers(%x: tensor<4xf64>, %y: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f64>, %q: tensor<f64>): %r = stablehlo.add %p, %q : tensor<f64> stablehlo.return %r : tensor<f64> }) {replica_groups = #all} : (tensor<4xf64>) -> tensor<4xf64>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %c = stablehlo.convert %a : (tensor<4xf64>) -> tensor<4xcomplex<f32>>
  %s = stablehlo.add %c, %b : tensor<4xcomplex<f32>>
  return %s : tensor<4xcomplex<f32>>
}

// CHECK-LABEL:   func.func public @integers_to_complex_numbers
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a convert of integers may wrap or round (stablehlo.convert at
// ANY-LABEL:     func.func public @integers_to_complex_numbers
// ANY-COUNT-2:     stablehlo.all_reduce
// ANY-NOT:         stablehlo.all_reduce
func.func public @integers_to_complex_numbers(%x: tensor<4xi32>, %y: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>): %r = stablehlo.add %p, %q : tensor<complex<f32>> stablehlo.return %r : tensor<complex<f32>> }) {replica_groups = #all} : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
  %c = stablehlo.convert %a : (tensor<4xi32>) -> tensor<4xcomplex<f32>>
  %s = stablehlo.add %c, %b : tensor<4xcomplex<f32>>
  return %s : tensor<4xcomplex<f32>>
}

// Legal when: a difference of floats is not of a sum and one of its terms, which tells how the sum was rounded
// ANY-LABEL:     func.func public @compensated
// CHECK-LABEL:   func.func public @compensated
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.subtract missed: a sum less one of its terms tells how the sum was rounded
func.func public @compensated(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.add %a, %b : tensor<4xf32>
  %d = stablehlo.subtract %s, %a : tensor<4xf32>
  %e = stablehlo.subtract %d, %b : tensor<4xf32>
  return %e : tensor<4xf32>
}

// Integers are not rounded.
// ANY-LABEL:     func.func public @difference_of_integers
// CHECK-LABEL:   func.func public @difference_of_integers
// CHECK-COUNT-1:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @difference_of_integers(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %s = stablehlo.add %a, %b : tensor<4xi32>
  %d = stablehlo.subtract %s, %a : tensor<4xi32>
  return %d : tensor<4xi32>
}

// Legal when: a pad adds zeros
// ANY-LABEL:     func.func public @pad_with_ones
// CHECK-LABEL:   func.func public @pad_with_ones
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a pad adds values that are not zero
func.func public @pad_with_ones(%x: tensor<4xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<8xf32>) -> tensor<8xf32>
  %c = stablehlo.pad %a, %one, low = [2], high = [2], interior = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<8xf32>
  %s = stablehlo.add %c, %b : tensor<8xf32>
  return %s : tensor<8xf32>
}

// Legal when: a reduce within a device adds, starting from zero
// CHECK-LABEL:   func.func public @reduce_by_maximum
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduce applies stablehlo.maximum, and only a sum is linear
func.func public @reduce_by_maximum(%x: tensor<2x4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @reduce_from_one
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduce starts from a value that is not zero
func.func public @reduce_from_one(%x: tensor<2x4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.reduce(%a init: %one) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @cumulative_maximum
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduce_window applies stablehlo.maximum, and only a sum is linear
func.func public @cumulative_maximum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<-1.0e9> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = "stablehlo.reduce_window"(%a, %low) <{padding = dense<[[3, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 4>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = stablehlo.add %c, %b : tensor<4xf32>
  return %s : tensor<4xf32>
}

// Legal when: a scatter adds, or writes each element once
// CHECK-LABEL:   func.func public @scatter_by_maximum
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a scatter does more than add, or write each element once (stablehlo.scatter at
func.func public @scatter_by_maximum(%x: tensor<3x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %c = "stablehlo.scatter"(%z, %rows, %a) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.maximum %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = stablehlo.add %c, %b : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @scatter_that_keeps_the_old
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @scatter_that_keeps_the_old(%x: tensor<3x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [1]]> : tensor<3x1xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %c = "stablehlo.scatter"(%z, %rows, %a) <{indices_are_sorted = false, unique_indices = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): stablehlo.return %p : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = stablehlo.add %c, %b : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @scatter_that_may_write_twice
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
func.func public @scatter_that_may_write_twice(%x: tensor<3x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [1]]> : tensor<3x1xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %c = "stablehlo.scatter"(%z, %rows, %a) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): stablehlo.return %q : tensor<f32> }) : (tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %s = stablehlo.add %c, %b : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// NUMERIC: skip (XLA gives this scatter another result in each run)
// CHECK-LABEL:   func.func public @scatter_of_two_arrays
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a scatter of several arrays
func.func public @scatter_of_two_arrays(%x: tensor<3x2xf32>, %y: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %rows = stablehlo.constant dense<[[2], [0], [1]]> : tensor<3x1xi32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %c, %d = "stablehlo.scatter"(%z, %z, %rows, %a, %a) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%p: tensor<f32>, %p2: tensor<f32>, %q: tensor<f32>, %q2: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r, %p2 : tensor<f32>, tensor<f32> }) : (tensor<4x2xf32>, tensor<4x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>)
  %s = stablehlo.add %c, %b : tensor<4x2xf32>
  return %s : tensor<4x2xf32>
}

// Legal when: a contraction has the element type of its operand or a wider float type, or `convert=any`
// CHECK-LABEL:   func.func public @product_of_a_wider_integer_type
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a dot_general from i8 to i32 loses or wraps values (stablehlo.dot_general at
func.func public @product_of_a_wider_integer_type(%x: tensor<4xi8>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %m = stablehlo.constant dense<3> : tensor<4x4xi8>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i8>, %q: tensor<i8>): %r = stablehlo.add %p, %q : tensor<i8> stablehlo.return %r : tensor<i8> }) {replica_groups = #all} : (tensor<4xi8>) -> tensor<4xi8>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
  %c = stablehlo.dot_general %a, %m, contracting_dims = [0] x [0] : (tensor<4xi8>, tensor<4x4xi8>) -> tensor<4xi32>
  %s = stablehlo.add %c, %b : tensor<4xi32>
  return %s : tensor<4xi32>
}

// Legal when: a reduce_scatter crosses elementwise ops only, with scalar factors, and reshapes of each shard alone
// CHECK-LABEL:   func.func public @reversed_shard
// CHECK-COUNT-2:   stablehlo.reduce_scatter
// CHECK-NOT:       stablehlo.reduce_scatter
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduce_scatter may not cross stablehlo.reverse, which moves elements
func.func public @reversed_shard(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<2xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %c = stablehlo.reverse %a, dims = [0] : tensor<2xf32>
  %s = stablehlo.add %c, %b : tensor<2xf32>
  return %s : tensor<2xf32>
}

// CHECK-LABEL:   func.func public @reshaped_shards
// CHECK:           stablehlo.reshape %{{.*}} : (tensor<8x3xf32>) -> tensor<24xf32>
// CHECK:           "stablehlo.reduce_scatter"(
// CHECK:           }) : (tensor<24xf32>) -> tensor<3xf32>
// CHECK-NOT:       stablehlo.reduce_scatter
// CHECK:           return
func.func public @reshaped_shards(%x: tensor<8x3xf32>, %y: tensor<24xf32>) -> tensor<3xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<8x3xf32>) -> tensor<1x3xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<24xf32>) -> tensor<3xf32>
  %c = stablehlo.reshape %a : (tensor<1x3xf32>) -> tensor<3xf32>
  %s = stablehlo.add %c, %b : tensor<3xf32>
  return %s : tensor<3xf32>
}

// CHECK-LABEL:   func.func public @shard_reshaped_across
// CHECK-COUNT-2:   stablehlo.reduce_scatter
// CHECK-NOT:       stablehlo.reduce_scatter
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a reduce_scatter may not cross stablehlo.reshape, which moves elements
func.func public @shard_reshaped_across(%x: tensor<3x8xf32>, %y: tensor<24xf32>) -> tensor<3xf32> {
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x1xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<24xf32>) -> tensor<3xf32>
  %c = stablehlo.reshape %a : (tensor<3x1xf32>) -> tensor<3xf32>
  %s = stablehlo.add %c, %b : tensor<3xf32>
  return %s : tensor<3xf32>
}

// CHECK-LABEL:   func.func public @shard_scaled_elementwise
// CHECK-COUNT-2:   stablehlo.reduce_scatter
// CHECK-NOT:       stablehlo.reduce_scatter
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a factor of a reduce_scatter is not one scalar
func.func public @shard_scaled_elementwise(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<2xf32> {
  %w = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %a = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %b = "stablehlo.reduce_scatter"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xf32>) -> tensor<2xf32>
  %c = stablehlo.multiply %a, %w : tensor<2xf32>
  %s = stablehlo.add %c, %b : tensor<2xf32>
  return %s : tensor<2xf32>
}

// Legal when: shapes are static
// NUMERIC: skip (XLA compiles no dynamic shape)
// CHECK-LABEL:   func.func public @dynamic_shape
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a shape is dynamic
func.func public @dynamic_shape(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<?xf32>) -> tensor<?xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<?xf32>) -> tensor<?xf32>
  %s = stablehlo.add %a, %b : tensor<?xf32>
  return %s : tensor<?xf32>
}

// NUMERIC: skip (XLA compiles no dynamic shape)
// CHECK-LABEL:   func.func public @concatenated_with_a_dynamic_shape
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: stablehlo.concatenate has a dynamic shape
func.func public @concatenated_with_a_dynamic_shape(%x: tensor<4xf32>, %y: tensor<4xf32>, %o: tensor<?xf32>) -> tensor<?xf32> {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %c = stablehlo.concatenate %a, %o, dim = 0 : (tensor<4xf32>, tensor<?xf32>) -> tensor<?xf32>
  %d = stablehlo.concatenate %b, %o, dim = 0 : (tensor<4xf32>, tensor<?xf32>) -> tensor<?xf32>
  %s = stablehlo.add %c, %d : tensor<?xf32>
  return %s : tensor<?xf32>
}
}
