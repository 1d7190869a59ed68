// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @moved
// CHECK-SAME:      (%[[X:.*]]: tensor<16x4xf32>
// CHECK-NEXT:      %[[L:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      %[[R:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      %[[P:.*]] = stablehlo.dot_general %[[L]], %[[R]],
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[T:.*]] = stablehlo.negate %[[U]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[V]]
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce applied: 64 bytes per device are reduced here, over data, and not before
func.func public @moved(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @not_moved
// CHECK-NEXT:      %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      return %[[P]]
func.func public @not_moved(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @sum
// CHECK:           stablehlo.add
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[V]]
func.func public @sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %p2 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u2 = sdy.sharding_constraint %p2 <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u2, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.add %u, %t : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %s out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// The zero that the loop starts from gets a constant of its own: whole, then not reduced. The loop gets no sharding.
// CHECK-LABEL:   func.func public @loop
// CHECK:           %[[OLD:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:      %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %[[B]])
// CHECK-NOT:       attributes
// CHECK:           } do {
// CHECK:           %[[S:.*]] = stablehlo.add %[[ACC]],
// CHECK-NEXT:      %[[N:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:           stablehlo.return %{{.*}}, %[[N]]
// CHECK:           %[[D:.*]] = sdy.sharding_constraint %[[W]]#1 <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[D]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[V]]
func.func public @loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %n = stablehlo.add %acc, %u : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// XLA aborts at whole zeros that become unreduced over a part of an axis.
// CHECK-LABEL:   func.func public @loop_over_a_part_of_an_axis
// CHECK:           %[[L:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data":(2)4}]> : tensor<4xf32>
// CHECK:           %[[R:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data":(2)4}, {}, {}]> : tensor<4x4x4xf32>
// CHECK-NEXT:      %[[Z:.*]] = stablehlo.dot_general %[[L]], %[[R]], contracting_dims = [0] x [0]
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}], unreduced={"data":(2)4}> :
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[B]])
func.func public @loop_over_a_part_of_an_axis(%x: tensor<2x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(1)2}, {"data":(2)4}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x4xf32> cond {
    %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 4] : (tensor<2x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
    %r = stablehlo.reshape %s : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
    %p = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data":(2)4}> {paropt.operands = [#sdy.sharding<@mesh, [{"data":(2)4, ?}, {?}]>, #sdy.sharding<@mesh, [{"data":(2)4, ?}, {?}]>]} : tensor<4x4xf32>
    %n = stablehlo.add %acc, %u : tensor<4x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %v = sdy.all_reduce {"data":(2)4} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// A broadcast that only adds dimensions becomes a reshape, which XLA follows.
// CHECK-LABEL:   func.func public @stacked
// CHECK:           } do {
// CHECK-NOT:       stablehlo.broadcast_in_dim
// CHECK:           stablehlo.reshape
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {}], unreduced={"data"}> :
// CHECK:           stablehlo.dynamic_update_slice
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {}], unreduced={"data"}> :
// CHECK:           stablehlo.return
func.func public @stacked(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4x4xf32>
  cond {
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %g = stablehlo.broadcast_in_dim %u, dims = [1, 2] : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %n = stablehlo.dynamic_update_slice %acc, %g, %i, %zero, %zero : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4x4xf32>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}, {?}]> : tensor<4x4x4xf32>
  return %v : tensor<4x4x4xf32>
}

// CHECK-LABEL:   func.func public @zero_term
// CHECK:           %[[SHARED:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
// CHECK:           %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      stablehlo.concatenate %{{.*}}, %[[B]], dim = 0
// CHECK:           stablehlo.tanh %[[SHARED]]
func.func public @zero_term(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<6x4xf32>, tensor<2x4xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %s = stablehlo.concatenate %u, %none, dim = 0 : (tensor<4x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  %v = sdy.all_reduce {"data"} %s out_sharding=<@mesh, [{?}, {?}]> : tensor<6x4xf32>
  %o = stablehlo.tanh %none : tensor<2x4xf32>
  return %v, %o : tensor<6x4xf32>, tensor<2x4xf32>
}

// Rows, parts and running sums of what is not reduced.
// CHECK-LABEL:   func.func public @parts
// CHECK:           stablehlo.dynamic_slice
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:           "stablehlo.gather"
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:           "stablehlo.reduce_window"
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
func.func public @parts(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<2x1xui8>) -> tensor<2x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %c = stablehlo.constant dense<1> : tensor<i32>
  %s = stablehlo.dynamic_slice %u, %c, %c, sizes = [3, 4] : (tensor<4x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
  %g = "stablehlo.gather"(%s, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> {paropt.read = [unit, unit]} : (tensor<3x4xf32>, tensor<2x1xui8>) -> tensor<2x4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %w = "stablehlo.reduce_window"(%g, %z) <{padding = dense<[[0, 0], [3, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 4>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %q = stablehlo.add %a, %b : tensor<f32> stablehlo.return %q : tensor<f32> }) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %w out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// The user's own constraint, without the axis over which the value is not reduced.
// CHECK-LABEL:   func.func public @users_constraint
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      stablehlo.negate
func.func public @users_constraint(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  %t = stablehlo.negate %c : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: each op between the op that reduces and the all_reduce is linear
// CHECK-LABEL:   func.func public @square
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.sqrt missed: stablehlo.sqrt does not commute with the reduction
func.func public @square(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.sqrt %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// The other factor is pinned to where Shardy found it.
// CHECK-LABEL:   func.func public @product_of_unreduced(
// CHECK-SAME:      , %[[M:.*]]: tensor<4x4xf32>
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[F:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{}, {"model"}]> :
// CHECK-NEXT:      %[[T:.*]] = stablehlo.dot_general %[[U]], %[[F]], contracting_dims = [1] x [0] :
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {"model"}], unreduced={"data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {"model"}]> :
// CHECK-NEXT:      return %[[V]]
func.func public @product_of_unreduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %m, contracting_dims = [1] x [0] {paropt.read = [unit, #sdy.sharding<@mesh, [{}, {"model"}]>], paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}
}

// -----

module attributes {paropt.noted = ["stablehlo.scatter"]} {
sdy.mesh @mesh = <["data"=8]>

// The zeros that rows are added to say that they are not reduced; where the rows go is pinned.
// CHECK-LABEL:   func.func public @rows_of_unreduced(
// CHECK-SAME:      , %[[I:.*]]: tensor<4x1xi32>
// CHECK-DAG:       %[[J:.*]] = sdy.sharding_constraint %[[I]] <@mesh, [{}, {}]> :
// CHECK-DAG:       %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-DAG:       %[[Z:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<9x4xf32>
// CHECK:           %[[T:.*]] = "stablehlo.scatter"(%[[Z]], %[[J]], %[[U]])
// CHECK:           sdy.sharding_constraint %[[T]] <@mesh, [{}, {}], unreduced={"data"}> :
func.func public @rows_of_unreduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<4x1xi32>) -> tensor<9x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.scatter"(%none, %i, %u) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) {paropt.read = [unit, unit, unit]} : (tensor<9x4xf32>, tensor<4x1xi32>, tensor<4x4xf32>) -> tensor<9x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<9x4xf32>
  return %v : tensor<9x4xf32>
}
}

// -----

module attributes {paropt.noted = ["stablehlo.scatter"]} {
sdy.mesh @mesh = <["data"=8]>

// What is written at one index is written as slices, on each device to what it has not reduced; outside, nothing is.
// CHECK-LABEL:   func.func public @written_at_one_index(
// CHECK-NOT:       stablehlo.scatter
// CHECK-DAG:       %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-DAG:       %[[Z:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}, {}], unreduced={"data"}> : tensor<9x4x4xf32>
// CHECK:           %[[I:.*]] = stablehlo.convert %{{.*}} : (tensor<i32>) -> tensor<i64>
// CHECK:           %[[S:.*]] = stablehlo.dynamic_slice %[[Z]], %[[I]], %{{.*}}, %{{.*}}, sizes = [1, 4, 4]
// CHECK-NEXT:      %[[OLD:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[R:.*]] = stablehlo.reshape %[[U]]
// CHECK-NEXT:      %[[NEW:.*]] = sdy.sharding_constraint %[[R]] <@mesh, [{}, {}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[A:.*]] = stablehlo.add %[[OLD]], %[[NEW]]
// CHECK-NEXT:      %[[SUM:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}, {}], unreduced={"data"}>
// CHECK:           %[[FROM:.*]] = stablehlo.compare GE, %[[I]],
// CHECK-NEXT:      %[[T:.*]] = stablehlo.select %[[FROM]], %[[SUM]], %[[OLD]]
// CHECK-NEXT:      %[[IN:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {}, {}], unreduced={"data"}>
// CHECK:           %[[C:.*]] = stablehlo.constant dense<8> : tensor<i64>
// CHECK-NEXT:      %[[TO:.*]] = stablehlo.compare LE, %[[I]], %[[C]]
// CHECK-NEXT:      %[[V:.*]] = stablehlo.select %[[TO]], %[[IN]], %[[OLD]]
// CHECK-NEXT:      %[[FIT:.*]] = sdy.sharding_constraint %[[V]] <@mesh, [{}, {}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[W:.*]] = stablehlo.dynamic_update_slice %[[Z]], %[[FIT]], %[[I]],
// CHECK-NEXT:      sdy.sharding_constraint %[[W]] <@mesh, [{}, {}, {}], unreduced={"data"}> :
func.func public @written_at_one_index(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<1xi32>) -> tensor<9x4x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<9x4x4xf32>
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.scatter"(%none, %i, %u) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) {paropt.read = [unit, unit, unit]} : (tensor<9x4x4xf32>, tensor<1xi32>, tensor<4x4xf32>) -> tensor<9x4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}, {?}]> : tensor<9x4x4xf32>
  return %v : tensor<9x4x4xf32>
}
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general", "stablehlo.gather"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// What is read at one index is read as a slice, which is split as the result is.
// CHECK-LABEL:   func.func public @read_at_one_index(
// CHECK-NOT:       stablehlo.gather
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"model"}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK:           %[[I:.*]] = stablehlo.convert %{{.*}} : (tensor<ui8>) -> tensor<i64>
// CHECK:           %[[S:.*]] = stablehlo.dynamic_slice %[[U]], %[[I]], %{{.*}}, sizes = [1, 4]
// CHECK-NEXT:      %[[T:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {"model"}], unreduced={"data"}>
// CHECK-NEXT:      %[[R:.*]] = stablehlo.reshape %[[T]] : (tensor<1x4xf32>) -> tensor<4xf32>
// CHECK-NEXT:      sdy.sharding_constraint %[[R]] <@mesh, [{"model"}], unreduced={"data"}> :
func.func public @read_at_one_index(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<1xui8>) -> tensor<4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> {paropt.read = [#sdy.sharding<@mesh, [{}, {"model"}]>, unit], paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<4x4xf32>, tensor<1xui8>) -> tensor<4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}]> : tensor<4xf32>
  return %v : tensor<4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: the shardings of the operands of a contraction, scatter or gather are annotated
// CHECK-LABEL:   func.func public @not_noted(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general missed: the shardings of the operands of a dot_general are not annotated
func.func public @not_noted(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %m, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: their other operands are not sharded over the unreduced axes (XLA would all-gather them)
// CHECK-LABEL:   func.func public @split_factor(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general missed: another operand of the dot_general is sharded over the same axes, and would be all-gathered
func.func public @split_factor(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %m, contracting_dims = [1] x [0] {paropt.read = [unit, #sdy.sharding<@mesh, [{}, {"data"}]>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: no sharded dimension is contracted, or looked up along
// CHECK-LABEL:   func.func public @split_contraction(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general missed: a dot_general contracts, or looks up along, a sharded dimension
func.func public @split_contraction(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %m, contracting_dims = [1] x [0] {paropt.read = [#sdy.sharding<@mesh, [{}, {"model"}]>, #sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The indices of a scatter.
// CHECK-LABEL:   func.func public @split_indices(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.scatter missed: a scatter contracts, or looks up along, a sharded dimension
func.func public @split_indices(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<4x1xi32>) -> tensor<9x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %t = "stablehlo.scatter"(%none, %i, %u) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) {paropt.read = [unit, #sdy.sharding<@mesh, [{"model"}, {}]>, #sdy.sharding<@mesh, [{}, {}]>]} : (tensor<9x4xf32>, tensor<4x1xi32>, tensor<4x4xf32>) -> tensor<9x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<9x4xf32>
  return %v : tensor<9x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: their results are not sharded over the unreduced axes
// CHECK-LABEL:   func.func public @split_result(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general missed: the result of a dot_general is sharded over the same axes
func.func public @split_result(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %m, contracting_dims = [1] x [0] {paropt.read = [unit, unit], paropt.shardings = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: no result is sharded over unreduced axes in place of axes that shard the operand (XLA would all-gather that)
// CHECK-LABEL:   func.func public @split_otherwise(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.transpose missed: its operand, sharded over model, would be all-gathered
func.func public @split_otherwise(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The same shards, further split: nothing is gathered. What the constraint leaves open is split as noted.
// CHECK-LABEL:   func.func public @split_further(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"model"}], unreduced={"data"}>
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"model"}], unreduced={"data"}>
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{"model"}, {}], unreduced={"data"}>
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{"model", "data"}, {}]>
func.func public @split_further(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{?}, {?}]> {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %c, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model", "data"}, {}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// What all readers share is constrained for all of them, once: XLA would gather it for each that is not.
// CHECK-LABEL:   func.func public @shared_operand(
// CHECK:           %[[Y:.*]] = stablehlo.negate
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      stablehlo.abs %[[C]]
// CHECK-NEXT:      stablehlo.dot_general %[[C]], %[[C]]
func.func public @shared_operand(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<16x4xf32>, tensor<4x4xf32>) {
  %y = stablehlo.negate %x : tensor<16x4xf32>
  %a = stablehlo.abs %y : tensor<16x4xf32>
  %p = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>], paropt.shared = array<i64: 0, 1>} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %a, %v : tensor<16x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: no convolution has groups (XLA reduces it itself)
// CHECK-LABEL:   func.func public @convolution_in_groups(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.convolution missed: XLA reduces a grouped convolution itself, whatever the constraints
func.func public @convolution_in_groups(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<1x7x4xf32>) -> tensor<1x4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %k = stablehlo.reshape %u : (tensor<4x4xf32>) -> tensor<4x1x4xf32>
  %t = stablehlo.convolution(%m, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, paropt.read = [unit, unit]} : (tensor<1x7x4xf32>, tensor<4x1x4xf32>) -> tensor<1x4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}, {?}]> : tensor<1x4x4xf32>
  return %v : tensor<1x4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: a dot_general contracts a dimension (XLA:TPU and XLA:GPU make broadcasts of others)
// CHECK-LABEL:   func.func public @outer_product(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general missed: XLA:TPU and XLA:GPU make a product of broadcasts of a dot_general without contracting dimensions
func.func public @outer_product(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<3xf32>) -> tensor<4x4x3xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %m, contracting_dims = [] x [] {paropt.read = [unit, unit]} : (tensor<4x4xf32>, tensor<3xf32>) -> tensor<4x4x3xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}, {?}]> : tensor<4x4x3xf32>
  return %v : tensor<4x4x3xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: no reduce_window slides along the only dimension (XLA:TPU reduces it itself)
// CHECK-LABEL:   func.func public @running_sum(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.reduce_window missed: XLA:TPU reduces a window along the only dimension itself, whatever the constraints
func.func public @running_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %r = stablehlo.reshape %u : (tensor<4x4xf32>) -> tensor<16xf32>
  %t = "stablehlo.reduce_window"(%r, %zero) <{window_dimensions = array<i64: 16>, padding = dense<[[15, 0]]> : tensor<1x2xi64>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }) : (tensor<16xf32>, tensor<f32>) -> tensor<16xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}]> : tensor<16xf32>
  return %v : tensor<16xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A pad that cuts pads first, and is cut as a slice.
// CHECK-LABEL:   func.func public @pad_that_cuts(
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK:           %[[P:.*]] = stablehlo.pad %[[U]], %{{.*}}, low = [0, 2], high = [0, 0], interior = [1, 0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<7x6xf32>
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[S:.*]] = stablehlo.slice %[[W]] [2:7, 0:5] : (tensor<7x6xf32>) -> tensor<5x5xf32>
// CHECK-NEXT:      sdy.sharding_constraint %[[S]] <@mesh, [{}, {}], unreduced={"data"}>
func.func public @pad_that_cuts(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<5x5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.pad %u, %zero, low = [-2, 2], high = [0, -1], interior = [1, 0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<5x5xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<5x5xf32>
  return %v : tensor<5x5xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: no division of complex numbers, and no reduction within an array of them (XLA:TPU does not track these)
// CHECK-LABEL:   func.func public @complex_quotient(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.divide missed: XLA:TPU reduces a complex division itself, whatever the constraints
func.func public @complex_quotient(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<4x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %c = stablehlo.complex %u, %u : tensor<4x4xcomplex<f32>>
  %t = stablehlo.divide %c, %m : tensor<4x4xcomplex<f32>>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xcomplex<f32>>
  return %v : tensor<4x4xcomplex<f32>>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A sum within an array.
// CHECK-LABEL:   func.func public @complex_sum(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.reduce missed: XLA:TPU aborts at an unreduced sum within arrays of complex numbers
func.func public @complex_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xcomplex<f32>> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %zero = stablehlo.constant dense<(0.0,0.0)> : tensor<complex<f32>>
  %c = stablehlo.complex %u, %u : tensor<4x4xcomplex<f32>>
  %t = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}]> : tensor<4xcomplex<f32>>
  return %v : tensor<4xcomplex<f32>>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A product of complex numbers: four of real ones, each not reduced.
// CHECK-LABEL:   func.func public @complex_product(
// CHECK-SAME:      %[[X:.*]]: tensor<16x4xcomplex<f32>>
// CHECK:           %[[L:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data", ?}, {?}]>
// CHECK:           %[[R:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      %[[LR:.*]] = stablehlo.real %[[L]]
// CHECK-NEXT:      %[[LI:.*]] = stablehlo.imag %[[L]]
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[LR]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[LI]] <@mesh, [{"data", ?}, {?}]>
// CHECK-COUNT-2:   sdy.sharding_constraint %{{.*}} <@mesh, [{"data", ?}, {?}]>
// CHECK:           stablehlo.dot_general %[[A]],
// CHECK-NEXT:      %[[RR:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-NEXT:      stablehlo.dot_general %[[A]],
// CHECK-NEXT:      %[[RI:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-NEXT:      stablehlo.dot_general %[[B]],
// CHECK-NEXT:      %[[IR:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-NEXT:      stablehlo.dot_general %[[B]],
// CHECK-NEXT:      %[[II:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-NEXT:      %[[D:.*]] = stablehlo.subtract %[[RR]], %[[II]]
// CHECK-NEXT:      %[[DU:.*]] = sdy.sharding_constraint %[[D]] <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-NEXT:      %[[S:.*]] = stablehlo.add %[[RI]], %[[IR]]
// CHECK-NEXT:      %[[SU:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// CHECK-NEXT:      %[[C:.*]] = stablehlo.complex %[[DU]], %[[SU]]
// CHECK-NEXT:      sdy.sharding_constraint %[[C]] <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xcomplex<f32>>
// CHECK:           return
func.func public @complex_product(%x: tensor<16x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xcomplex<f32>> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xcomplex<f32>>, tensor<16x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xcomplex<f32>>
  %t = stablehlo.negate %u : tensor<4x4xcomplex<f32>>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xcomplex<f32>>
  return %v : tensor<4x4xcomplex<f32>>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Complex numbers: the zeros that a loop starts from are made of parts, and parts are reduced.
// CHECK-LABEL:   func.func public @complex_numbers(
// CHECK:           %[[N:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[N]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      %[[Z:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[C:.*]] = stablehlo.complex %[[Z]], %[[Z]]
// CHECK-NEXT:      sdy.sharding_constraint %[[C]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:           stablehlo.while
// CHECK:           %[[S:.*]] = sdy.sharding_constraint %{{.*}}#1 <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[R:.*]] = stablehlo.real %[[S]]
// CHECK-NEXT:      %[[I:.*]] = stablehlo.imag %[[S]]
// CHECK-DAG:       %[[B:.*]] = sdy.sharding_constraint %[[R]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-DAG:       %[[D:.*]] = sdy.sharding_constraint %[[I]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-DAG:       %[[E:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{}, {}]> :
// CHECK-DAG:       %[[F:.*]] = sdy.sharding_constraint %[[D]] <@mesh, [{}, {}]> :
// CHECK:           %[[G:.*]] = stablehlo.complex %[[E]], %[[F]]
// CHECK-NEXT:      return %[[G]]
func.func public @complex_numbers(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xcomplex<f32>> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<(0.0,0.0)> : tensor<4x4xcomplex<f32>>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xcomplex<f32>>
  cond {
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %c = stablehlo.complex %u, %u : tensor<4x4xcomplex<f32>>
    %n = stablehlo.add %acc, %c : tensor<4x4xcomplex<f32>>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xcomplex<f32>>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xcomplex<f32>>
  return %v : tensor<4x4xcomplex<f32>>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @both_factors
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.multiply missed: stablehlo.multiply is not linear in an unreduced value
func.func public @both_factors(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.multiply %u, %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @read_unreduced
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] func.return missed: func.return does not commute with the reduction
func.func public @read_unreduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %t : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: unreduced values are added to unreduced values and zeros only
// CHECK-LABEL:   func.func public @added_to_reduced
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.add missed: a sum of an unreduced value and a reduced one
func.func public @added_to_reduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %c = stablehlo.constant dense<1.0> : tensor<4x4xf32>
  %t = stablehlo.add %u, %c : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @start_is_reduced
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.while missed: a sum of an unreduced value and a reduced one
func.func public @start_is_reduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x4xf32>
  cond {
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %n = stablehlo.add %acc, %u : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: no broadcast repeats elements (XLA would take its result for reduced)
// CHECK-LABEL:   func.func public @repeats
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.broadcast_in_dim missed: XLA does not track unreduced values through a broadcast that repeats elements
func.func public @repeats(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4x2xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.broadcast_in_dim %u, dims = [0, 1] : (tensor<4x4xf32>) -> tensor<4x4x2xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}, {?}]> : tensor<4x4x2xf32>
  return %v : tensor<4x4x2xf32>
}
