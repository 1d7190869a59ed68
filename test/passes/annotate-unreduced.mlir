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

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: the condition of a loop does not read an unreduced value
// CHECK-LABEL:   func.func public @condition
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.slice missed: the condition of a loop reads an unreduced value
func.func public @condition(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c = stablehlo.slice %acc [0:1, 0:1] : (tensor<4x4xf32>) -> tensor<1x1xf32>
    %s = stablehlo.reshape %c : (tensor<1x1xf32>) -> tensor<f32>
    %limit = stablehlo.constant dense<1.0e9> : tensor<f32>
    %small = stablehlo.compare LT, %s, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.and %less, %small : tensor<i1>
    stablehlo.return %more : tensor<i1>
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

// Branches return it, or zeros.
// CHECK-LABEL:   func.func public @branch
// CHECK:           %[[B:.*]] = "stablehlo.if"
// CHECK:             stablehlo.negate
// CHECK-NEXT:        %[[M:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:        stablehlo.return %[[M]]
// CHECK:             stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:        %[[Z:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:        %[[W:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}]>
// CHECK-NEXT:        %[[T:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:        stablehlo.return %[[T]]
// CHECK:           %[[R:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:      sdy.sharding_constraint %[[R]] <@mesh, [{}, {}]>
func.func public @branch(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b = "stablehlo.if"(%yes) ({
    %m = stablehlo.negate %u : tensor<4x4xf32>
    stablehlo.return %m : tensor<4x4xf32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none : tensor<4x4xf32>
  }) : (tensor<i1>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %b out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// An if or a case of two has several results, some of them not reduced: a third branch, which is never taken.
// CHECK-LABEL:   func.func public @branch_with_count
// CHECK:           %[[I:.*]] = stablehlo.select %arg1, %[[C0:.*]], %[[C1:.*]] : tensor<i1>, tensor<i32>
// CHECK-NEXT:      %[[B:.*]]:2 = "stablehlo.case"(%[[I]])
// CHECK:             stablehlo.add %arg2, %arg2
// CHECK:             stablehlo.return
// CHECK:             stablehlo.return
// CHECK:             %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:        %[[W:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}]>
// CHECK-NEXT:        %[[T:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:        %[[N:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:        stablehlo.return %[[T]], %[[N]]
// CHECK-NEXT:      }) {mhlo.frontend_attributes = {note = "kept"}}
// CHECK:           sdy.sharding_constraint %[[B]]#0 <@mesh, [{}, {}], unreduced={"data"}>
// CHECK:           return %{{.*}}, %[[B]]#1
func.func public @branch_with_count(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>, %n: tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    %m = stablehlo.add %n, %n : tensor<f32>
    stablehlo.return %u, %m : tensor<4x4xf32>, tensor<f32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %n : tensor<4x4xf32>, tensor<f32>
  }) {mhlo.frontend_attributes = {note = "kept"}} : (tensor<i1>) -> (tensor<4x4xf32>, tensor<f32>)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %b#1 : tensor<4x4xf32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// XLA aborts for GPUs even where none of several results is reduced.
// CHECK-LABEL:   func.func public @branch_with_two_sums
// CHECK-NOT:       stablehlo.if
// CHECK:           "stablehlo.case"
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK-COUNT-2:   unreduced={"data"}
func.func public @branch_with_two_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    %n = stablehlo.negate %u : tensor<4x4xf32>
    stablehlo.return %u, %n : tensor<4x4xf32>, tensor<4x4xf32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %none : tensor<4x4xf32>, tensor<4x4xf32>
  }) : (tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %w = sdy.all_reduce {"data"} %b#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What stands for the number of a case: all but 0 are the last branch.
// CHECK-LABEL:   func.func public @case_with_count
// CHECK:           %[[C0:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:      %[[C1:.*]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT:      %[[FIRST:.*]] = stablehlo.compare EQ, %arg1, %[[C0]]
// CHECK-NEXT:      %[[I:.*]] = stablehlo.select %[[FIRST]], %[[C0]], %[[C1]] : tensor<i1>, tensor<i32>
// CHECK-NEXT:      "stablehlo.case"(%[[I]])
func.func public @case_with_count(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %which: tensor<i32>, %n: tensor<ui8>) -> (tensor<4x4xf32>, tensor<ui8>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.case"(%which) ({
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %n : tensor<4x4xf32>, tensor<ui8>
  }, {
    stablehlo.return %u, %n : tensor<4x4xf32>, tensor<ui8>
  }) : (tensor<i32>) -> (tensor<4x4xf32>, tensor<ui8>)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %b#1 : tensor<4x4xf32>, tensor<ui8>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: an if or case with unreduced results returns plain tensors
// CHECK-LABEL:   func.func public @branch_with_token
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.if missed: stablehlo.if returns both an unreduced value and a !stablehlo.token, which is no plain tensor
func.func public @branch_with_token(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %n = stablehlo.create_token : !stablehlo.token
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    stablehlo.return %u, %n : tensor<4x4xf32>, !stablehlo.token
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %n : tensor<4x4xf32>, !stablehlo.token
  }) : (tensor<i1>) -> (tensor<4x4xf32>, !stablehlo.token)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A branch returns ones: what each device holds of them would be counted once per device.
// CHECK-LABEL:   func.func public @branch_with_ones
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.return missed: a sum of an unreduced value and a reduced one
func.func public @branch_with_ones(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b = "stablehlo.if"(%yes) ({
    stablehlo.return %u : tensor<4x4xf32>
  }, {
    %ones = stablehlo.constant dense<1.0> : tensor<4x4xf32>
    stablehlo.return %ones : tensor<4x4xf32>
  }) : (tensor<i1>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %b out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Legal when: values that are unreduced over different axes do not meet
// CHECK-LABEL:   func.func public @other_axes
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.add missed: values that are unreduced over different axes meet
func.func public @other_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %p2 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u2 = sdy.sharding_constraint %p2 <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.add %u, %u2 : tensor<4x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Legal when: the all_reduce is over the axes over which its operand is unreduced
// CHECK-LABEL:   func.func public @fewer_axes
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce missed: it reduces over other axes than its operand is unreduced over
func.func public @fewer_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.add %u, %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Summed over "data" at once, over "replica" after the negation.
// CHECK-LABEL:   func.func public @one_axis
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica"}> :
// CHECK-NEXT:      stablehlo.negate
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica"}> :
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]> :
func.func public @one_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// Each device keeps a shard of the sum: XLA:CPU and XLA:TPU reduce the whole of it unless a reduce_scatter is written.
// CHECK-LABEL:   func.func public @scattered
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[T:.*]] = stablehlo.negate %[[U]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      sdy.manual_computation(%[[W]]) in_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"replica", "data"} (%[[A:.*]]: tensor<8x4xf32>) {
// CHECK-NEXT:        %[[S:.*]] = "stablehlo.reduce_scatter"(%[[A]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]>
// CHECK-SAME:        scatter_dimension = 0
// CHECK:             }) : (tensor<8x4xf32>) -> tensor<2x4xf32>
// CHECK:             "stablehlo.all_reduce"(%[[S]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]>
// CHECK:             sdy.return
func.func public @scattered(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %t = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica", "data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// Scattered where it is, and summed over the rest of the axes later. The number of a channel is one that nobody has.
// CHECK-LABEL:   func.func public @scattered_first
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[M:.*]] = sdy.manual_computation(%[[U]]) in_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{}, {"data"}], unreduced={"replica"}>]
// CHECK-NEXT:        "stablehlo.reduce_scatter"
// CHECK-SAME:        scatter_dimension = 1
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             sdy.return
// CHECK:           %[[W:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{}, {"data"}], unreduced={"replica"}> :
// CHECK-NEXT:      %[[T:.*]] = stablehlo.negate %[[W]]
// CHECK-NEXT:      %[[R:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {"data"}], unreduced={"replica"}> :
// CHECK-NEXT:      sdy.sharding_constraint %[[R]] <@mesh, [{}, {"data"}]> :
// REMARK-DAG: [annotate-unreduced] sdy.reduce_scatter applied: 128 bytes per device are scattered here, over data
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce applied: 32 bytes per device are reduced here, over replica, and not before
func.func public @scattered_first(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %s = sdy.reduce_scatter [{}, {"data"}] %u out_sharding=<@mesh, [{}, {"data"}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>} : tensor<8x4xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x4xf32>
  %t = stablehlo.negate %r {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// The all_reduce has not moved: what is scattered is summed over all axes at once.
// CHECK-LABEL:   func.func public @scattered_only
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{"data"}, {}]>]
// CHECK-NEXT:        "stablehlo.reduce_scatter"
// CHECK:             "stablehlo.all_reduce"
// CHECK:           return
// CHECK-NOT:       paropt.
func.func public @scattered_only(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x8xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x8xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x8xf32>
  %v = sdy.all_reduce {"replica"} %r out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  return %v : tensor<8x8xf32>
}

// Six rows cannot be cut into four shards of one size: a constraint asks for the sum.
// CHECK-LABEL:   func.func public @unequal_shards
// CHECK-NOT:       sdy.manual_computation
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]> :
func.func public @unequal_shards(%x: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<6x6xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x6xf32>, tensor<16x6xf32>) -> tensor<6x6xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<6x6xf32>
  %t = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<6x6xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<6x6xf32>
  return %v : tensor<6x6xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// The constraint that stood where a reduce_scatter was written comes back.
// CHECK-LABEL:   func.func public @scattering_taken_back
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[T:.*]] = stablehlo.sqrt %[[P]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[W]]
// REMARK-DAG: [annotate-unreduced] stablehlo.sqrt missed: stablehlo.sqrt does not commute with the reduction
func.func public @scattering_taken_back(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<8x8xf32>
  %t = stablehlo.sqrt %u : tensor<8x8xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %t out_sharding=<@mesh, [{"data"}, {}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>} : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// Devices reduce the columns that they have, and exchange them: what is read for these would be gathered else.
// CHECK-LABEL:   func.func public @exchanged
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"model"}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[M:.*]] = sdy.manual_computation(%[[U]]) in_shardings=[<@mesh, [{"model"}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{"data"}, {}], unreduced={"replica"}>] manual_axes={"replica", "data", "model"} (%[[A:.*]]: tensor<4x4xf32>) {
// CHECK-NEXT:        %[[S:.*]] = "stablehlo.all_reduce"(%[[A]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]>
// CHECK:             %[[E:.*]] = "stablehlo.collective_permute"(%[[S]])
// CHECK-SAME{LITERAL}: source_target_pairs = dense<[[0, 0], [1, 2], [2, 1], [3, 3], [4, 4], [5, 6], [6, 5], [7, 7]]>
// CHECK-NEXT:        sdy.return %[[E]] : tensor<4x4xf32>
// CHECK:           sdy.sharding_constraint %[[M]] <@mesh, [{"data"}, {}], unreduced={"replica"}> :
// REMARK-DAG: [annotate-unreduced] sdy.reduce_scatter applied: 64 bytes per device are reduced and exchanged here, over data
func.func public @exchanged(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x4xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x4xf32>
  %t = stablehlo.negate %r {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2], device_ids=[7, 5, 6, 4, 3, 1, 2, 0]>

// Devices are told by their numbers, in whatever order the mesh has them: the second and the third are exchanged.
// CHECK-LABEL:   func.func public @exchanged_in_another_order
// CHECK:           "stablehlo.all_reduce"
// CHECK-SAME{LITERAL}: replica_groups = dense<[[7, 6], [5, 4], [3, 2], [1, 0]]>
// CHECK:           "stablehlo.collective_permute"
// CHECK-SAME{LITERAL}: source_target_pairs = dense<[[7, 7], [5, 6], [6, 5], [4, 4], [3, 3], [1, 2], [2, 1], [0, 0]]>
func.func public @exchanged_in_another_order(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x4xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x4xf32>
  %t = stablehlo.negate %r {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Legal when: a reduce_scatter cuts its operand into equal parts, and none moves to another device, or all are exchanged
// CHECK-LABEL:   func.func public @scattered_unequally
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}]>
// CHECK-NEXT:      return %[[W]]
// REMARK-DAG: [annotate-unreduced] sdy.reduce_scatter missed: no reduce_scatter cuts it like that
func.func public @scattered_unequally(%x: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<6x6xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x6xf32>, tensor<16x6xf32>) -> tensor<6x6xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<6x6xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>} : tensor<6x6xf32>
  return %s : tensor<6x6xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What a manual computation reduced last, it returns unreduced.
// CHECK-LABEL:   func.func public @region
// CHECK:           %[[M:.*]] = sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}], unreduced={"data"}>] manual_axes={"data", "model"}
// CHECK-NEXT:        %[[G:.*]] = stablehlo.dot_general
// CHECK-NEXT:        %[[T:.*]] = stablehlo.transpose %[[G]]
// CHECK-NEXT:        sdy.return %[[T]]
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[N:.*]] = stablehlo.negate %[[U]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[N]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce applied: 64 bytes per device are reduced here, over data, and not before
func.func public @region(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.transpose %h, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// Over the other axis it still reduces.
// CHECK-LABEL:   func.func public @region_over_one_axis
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}], unreduced={"data"}>]
// CHECK-NEXT:        %[[G:.*]] = stablehlo.dot_general
// CHECK-NEXT:        %[[R:.*]] = "stablehlo.all_reduce"(%[[G]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]>
// CHECK:             sdy.return %[[R]]
func.func public @region_over_one_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL:   func.func public @region_not_moved
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
// CHECK:             "stablehlo.all_reduce"
// CHECK:             sdy.return
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @region_not_moved(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: a sum that is exposed behind a manual computation is one that the computation takes
// CHECK-LABEL:   func.func public @region_not_linear
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.manual_computation missed: the manual computation does not take the sum that is exposed
func.func public @region_not_linear(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.abs %h : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL:   func.func public @region_over_another_axis
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.manual_computation missed: the manual computation does not take the sum that is exposed
func.func public @region_over_another_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"model"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"model"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// What XLA gathers for two products is gathered once for both, from how it was. Other ops read it as it was: where the
// constraint of that has no other reader, Shardy makes all ops behind it read what is gathered.
// CHECK-LABEL:   func.func public @gathered
// CHECK-SAME:      (%[[X:.*]]: tensor<16x6x4xf32>
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data"}, {"model"}, {}]>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}, {}]>
// CHECK-NEXT:      %[[N:.*]] = stablehlo.negate %[[B]]
// CHECK-NEXT:      stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [2] x [0] :
// CHECK-NEXT:      %[[R:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data", ?}, {?}, {?}]>
// CHECK-NEXT:      %[[P:.*]] = stablehlo.dot_general %[[A]], %[[R]], contracting_dims = [0, 1] x [0, 1] :
// CHECK-NEXT:      sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NOT:       paropt
func.func public @gathered(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) -> (tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x4xf32>) {
  %n = stablehlo.negate %x : tensor<16x6x4xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<4x8xf32>) -> tensor<16x6x8xf32>
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %t = stablehlo.negate %u : tensor<4x8xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x8xf32>
  return %g, %h, %n : tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: an unreduced value is sharded into equal parts (XLA aborts)
// CHECK-LABEL:   func.func public @unequal_parts
// CHECK-NOT:       unreduced
// REMARK-DAG: [annotate-unreduced] stablehlo.slice missed: an unreduced value is sharded into unequal parts
func.func public @unequal_parts(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<3x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.slice %u [0:3, 0:4] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<4x4xf32>) -> tensor<3x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<3x4xf32>
  return %g : tensor<3x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// An argument that lies like that for all that reads it is constrained for all, but not what a loop returns unchanged.
// CHECK-LABEL:   func.func public @shared_argument
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %[[X:.*]] = %arg0)
// CHECK:           do {
// CHECK-NEXT:        %[[S:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:        %[[P:.*]] = stablehlo.dot_general %[[S]], %[[S]],
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[X]] :
func.func public @shared_argument(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %x) : tensor<i32>, tensor<4x4xf32>, tensor<16x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.dot_general %q, %q, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>], paropt.shared = array<i64: 0, 1>} : tensor<4x4xf32>
    %s = stablehlo.add %acc, %u : tensor<4x4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s, %q : tensor<i32>, tensor<4x4xf32>, tensor<16x4xf32>
  }
  %g = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// The same for two gradients; what is constrained already is not again, what is gathered otherwise reads it as it was.
// CHECK-LABEL:   func.func public @gathered_for_two
// CHECK:           %[[B:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"data"}, {"model"}, {}]>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}, {}]>
// CHECK-NEXT:      stablehlo.dot_general %[[B]], %arg2, contracting_dims = [2] x [0] :
// CHECK:           stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [0, 1] x [0, 1] :
// CHECK:           stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [0, 1] x [0, 1] :
// CHECK:           return
func.func public @gathered_for_two(%x: tensor<16x6x4xf32>, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %w: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<16x6x8xf32>) {
  %b = sdy.sharding_constraint %x <@mesh, [{"data"}, {"model"}, {}]> : tensor<16x6x4xf32>
  %h = stablehlo.dot_general %b, %w, contracting_dims = [2] x [0] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{}, {"model"}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<4x8xf32>) -> tensor<16x6x8xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %q = stablehlo.dot_general %b, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %v = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %t = stablehlo.add %u, %v : tensor<4x8xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x8xf32>
  return %g, %h : tensor<4x8xf32>, tensor<16x6x8xf32>
}
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// A constraint of the program's own that only the product reads: what comes behind is to read what it is of as it was.
// CHECK-LABEL:   func.func public @gathered_as_constrained
// CHECK:           %[[Y:.*]] = stablehlo.abs
// CHECK-NEXT:      %[[E:.*]] = stablehlo.negate %[[Y]]
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {"model"}, {}]>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}, {}]>
// CHECK:           stablehlo.dot_general %[[A]],
// CHECK:           stablehlo.multiply %[[E]], %[[B]]
// CHECK:           return %{{.*}}, %{{.*}}, %[[B]] :
func.func public @gathered_as_constrained(%x: tensor<16x6x4xf32>, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) -> (tensor<4x8xf32>, tensor<16x6x4xf32>, tensor<16x6x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x6x4xf32>
  %e = stablehlo.negate %h : tensor<16x6x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {"model"}, {}]> : tensor<16x6x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %t = stablehlo.negate %u : tensor<4x8xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x8xf32>
  %m = stablehlo.multiply %e, %h : tensor<16x6x4xf32>
  return %g, %m, %h : tensor<4x8xf32>, tensor<16x6x4xf32>, tensor<16x6x4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The same of what is not gathered, but for what is returned as it came. Where two constraints read it, or something else
// reads the first, Shardy has all read it as it is.
// CHECK-LABEL:   func.func public @split_as_constrained
// CHECK:           %[[Y:.*]] = stablehlo.abs
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {}]>
// CHECK:           %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data", ?}, {?}]>
// CHECK:           stablehlo.dot_general %[[A]],
// CHECK:           stablehlo.negate %[[B]]
// CHECK:           %[[K:.*]] = sdy.sharding_constraint %arg2 <@mesh, [{}, {"model"}]>
// CHECK-NEXT:      %[[L:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.dot_general %{{.*}}, %[[L]],
// CHECK:           stablehlo.abs %[[K]]
// CHECK:           return %{{.*}}, %{{.*}}, %{{.*}}, %arg2 :
// CHECK-LABEL:   func.func private @by_two
// CHECK:           %[[Z:.*]] = stablehlo.abs
// CHECK:           stablehlo.negate %[[Z]]
// CHECK-LABEL:   func.func private @read_twice
// CHECK:           %[[Z:.*]] = stablehlo.abs
// CHECK:           stablehlo.negate %[[Z]]
func.func public @split_as_constrained(%x: tensor<16x4xf32>, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %n = stablehlo.negate %h : tensor<16x4xf32>
  %k = sdy.sharding_constraint %w <@mesh, [{}, {"model"}]> : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %k, contracting_dims = [1] x [0] {paropt.read = [unit, unit]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %a = stablehlo.abs %w : tensor<4x4xf32>
  return %g, %n, %a, %w : tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func private @by_two(%x: tensor<16x4xf32>, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %c = sdy.sharding_constraint %h <@mesh, [{}, {"model"}]> : tensor<16x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %n = stablehlo.negate %h : tensor<16x4xf32>
  return %g, %n, %c : tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>
}
func.func private @read_twice(%x: tensor<16x4xf32>, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %c = stablehlo.abs %b : tensor<16x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %n = stablehlo.negate %h : tensor<16x4xf32>
  return %g, %n, %c : tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What has no value in common is taken back alone. Here, of what a loop carries: %b starts from something else than zeros.
// CHECK-LABEL:   func.func public @one_of_two
// CHECK:           stablehlo.while
// CHECK:             %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:        sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:             %[[Q:.*]] = stablehlo.dot_general
// CHECK-NEXT:        stablehlo.add %{{.*}}, %[[Q]]
// CHECK:             stablehlo.return
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[V]], %{{.*}}#2
// REMARK-DAG: [annotate-unreduced] stablehlo.while missed: a sum of an unreduced value and a reduced one
func.func public @one_of_two(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %n: tensor<i32>, %start: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %a = %none, %b = %start) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
    %s = stablehlo.add %a, %u : tensor<4x4xf32>
    %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %uq = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
    %t = stablehlo.add %b, %uq : tensor<4x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s, %t : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %v2 = sdy.all_reduce {"data"} %w#2 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %v2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What is added to what has to be taken back is taken back, too.
// CHECK-LABEL:   func.func public @both_of_two
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.multiply missed: stablehlo.multiply is not linear in an unreduced value
func.func public @both_of_two(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
  %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %uq = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
  %s = stablehlo.add %u, %uq : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %s out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %m = stablehlo.multiply %uq, %uq : tensor<4x4xf32>
  %w = sdy.all_reduce {"data"} %m out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// A reduce_scatter goes with what it leaves to reduce; another sum stays.
// CHECK-LABEL:   func.func public @scattered_and_squared
// CHECK-NOT:       stablehlo.reduce_scatter
// CHECK:           stablehlo.negate
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %{{.*}}, %[[V]]
// REMARK-DAG: [annotate-unreduced] stablehlo.multiply missed: stablehlo.multiply is not linear in an unreduced value
func.func public @scattered_and_squared(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data"}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data"}, {?}]>]} : tensor<8x8xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x8xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x8xf32>
  %m = stablehlo.multiply %r, %r : tensor<8x8xf32>
  %v = sdy.all_reduce {"replica"} %m out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %uq = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data"}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data"}, {?}]>]} : tensor<8x8xf32>
  %t = stablehlo.negate %uq : tensor<8x8xf32>
  %w = sdy.all_reduce {"replica", "data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  return %v, %w : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A product that Shardy would split otherwise than XLA alone is held as it was, one that it would not is left alone.
// CHECK-LABEL:   func.func public @held
// CHECK:           %[[H:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] :
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[H]] <@mesh, [{}, {"data"}]> :
// CHECK-NEXT:      %[[I:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] :
// CHECK-NEXT:      %[[J:.*]] = stablehlo.dot_general %arg1, %arg1,
// Nothing else is held whole: XLA may drop the op, and would gather its operand.
// CHECK:           %[[N:.*]] = stablehlo.negate %arg0 :
// CHECK-NOT:       paropt.alone
// CHECK:           return %{{.*}}, %[[C]], %[[I]], %[[J]], %[[N]]
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general applied: its result keeps the sharding that XLA would infer
module attributes {paropt.noted = ["stablehlo.dot_general", "stablehlo.negate"]} {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @held(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<4x4xf32>, tensor<16x4xf32>) {
    %h = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %i = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %j = stablehlo.dot_general %y, %y, contracting_dims = [1] x [1] {paropt.alone = []} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
    %n = stablehlo.negate %x {paropt.alone = []} : tensor<16x4xf32>
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
    %t = stablehlo.negate %u : tensor<4x4xf32>
    %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
    return %v, %h, %i, %j, %n : tensor<4x4xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<4x4xf32>, tensor<16x4xf32>
  }
}

// -----

// A barrier holds values that are not reduced over different axes, and one that is. Each keeps its own constraint.
// CHECK-LABEL:   func.func public @barrier_around_sums
// CHECK:           %[[B:.*]]:3 = stablehlo.optimization_barrier %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]]#0 <@mesh, [{}, {}], unreduced={"replica", "data"}>
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[B]]#2 <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[D:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}]>
// CHECK-NEXT:      %[[E:.*]] = sdy.sharding_constraint %[[C]] <@mesh, [{}, {}]>
// CHECK-NEXT:      return %[[D]], %[[E]], %[[B]]#1
module {
  sdy.mesh @mesh = <["replica"=2, "data"=4]>
  func.func public @barrier_around_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16x4xf32>) {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
    %q = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %v = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %b:3 = stablehlo.optimization_barrier %u, %x, %v : tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>
    %r = sdy.all_reduce {"replica", "data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
    %s = sdy.all_reduce {"data"} %b#2 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
    return %r, %s, %b#1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<16x4xf32>
  }
}

// -----

// So is what comes through a barrier, as into a rematerialized layer, and what a product reads of that, result by result.
// CHECK-LABEL:   func.func public @held_behind_a_barrier
// CHECK:           %[[O:.*]]:2 = stablehlo.optimization_barrier
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[O]]#1 <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      stablehlo.dot_general %[[C]], %[[O]]#0,
// CHECK-NEXT:      stablehlo.reduce(%[[C]] init:
// CHECK-NOT:       paropt.alone
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.optimization_barrier applied: its result keeps the sharding that XLA would infer
module attributes {paropt.noted = ["stablehlo.optimization_barrier", "stablehlo.reduce"]} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @held_behind_a_barrier(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<16x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %o:2 = stablehlo.optimization_barrier {paropt.alone = [#sdy.sharding<@mesh, [{}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>]} %y, %x : tensor<8x8xf32>, tensor<16x8xf32>
    %h = stablehlo.dot_general %o#1, %o#0, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %p = stablehlo.reduce(%o#1 init: %zero) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"data", "model"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit], paropt.shared = array<i64: 0>} : tensor<8xf32>
    %t = stablehlo.negate %u : tensor<8xf32>
    %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}]> : tensor<8xf32>
    return %v, %h, %o#0 : tensor<8xf32>, tensor<16x8xf32>, tensor<8x8xf32>
  }
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Legal when: parts are cut or joined, and not moved to other devices (XLA would add wrong parts)
// CHECK-LABEL:   func.func public @parts_moved(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.transpose missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @parts_moved(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"fsdp", "tensor"}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Cut in one dimension, and put together in another: each device needs a part of another.
// CHECK-LABEL:   func.func public @parts_exchanged(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.transpose missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @parts_exchanged(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Each device cuts a part out of its own.
// CHECK-LABEL:   func.func public @parts_cut(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"tensor", "fsdp"}], unreduced={"data"}>
func.func public @parts_cut(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"tensor", "fsdp"}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Devices that hold addends of the same put their parts together.
// CHECK-LABEL:   func.func public @parts_together(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"tensor"}], unreduced={"data"}>
func.func public @parts_together(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor", "fsdp"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"tensor"}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// What a loop carries is split otherwise than what the body makes.
// CHECK-LABEL:   func.func public @carried_elsewhere(
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.return missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @carried_elsewhere(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%k = %i, %acc = %z) : tensor<i32>, tensor<8xf32> attributes {paropt.shardings = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"fsdp", "tensor"}]>]}
  cond {
    %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<8xf32>
    %a = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}]>]} : tensor<8xf32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %m, %a : tensor<i32>, tensor<8xf32>
  }
  %v = sdy.all_reduce {"data"} %r#1 out_sharding=<@mesh, [{?}]> : tensor<8xf32>
  return %v : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// A reshape takes the axes along with what they split.
// CHECK-LABEL:   func.func public @reshaped(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{"fsdp"}, {"tensor"}], unreduced={"data"}>
func.func public @reshaped(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<2x4xf32> {
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"fsdp", "tensor"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<8xf32>
  %t = stablehlo.reshape %u {paropt.shardings = [#sdy.sharding<@mesh, [{"fsdp"}, {"tensor"}]>]} : (tensor<8xf32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// The two dimensions change places, and so would their parts.
// CHECK-LABEL:   func.func public @reshaped_elsewhere(
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.reshape missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @reshaped_elsewhere(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<2x4xf32> {
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"fsdp", "tensor"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<8xf32>
  %t = stablehlo.reshape %u {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {"fsdp"}]>]} : (tensor<8xf32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

// What a loop carries is held where it is made, and where the loop starts.
// CHECK-LABEL:   func.func public @held_in_a_loop
// CHECK:           %[[S:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {"data"}]> :
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[S]])
// CHECK:             %[[H:.*]] = stablehlo.negate
// CHECK-NEXT:        %[[C:.*]] = sdy.sharding_constraint %[[H]] <@mesh, [{}, {"data"}]> :
// CHECK:             stablehlo.return %{{.*}}, %[[C]] :
// CHECK-NOT:       paropt.alone
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.negate applied: its result keeps the sharding that XLA would infer
module attributes {paropt.noted = ["stablehlo.dot_general", "stablehlo.negate"]} {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @held_in_a_loop(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x8xf32>, tensor<16x8xf32>) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%k = %i, %h = %x) : tensor<i32>, tensor<16x8xf32>
    cond {
      %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %m = stablehlo.negate %h {paropt.alone = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : tensor<16x8xf32>
      %l = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %l, %m : tensor<i32>, tensor<16x8xf32>
    }
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<8x8xf32>
    %t = stablehlo.negate %u : tensor<8x8xf32>
    %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
    return %v, %r#1 : tensor<8x8xf32>, tensor<16x8xf32>
  }
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// A gather: XLA adds up what the devices find along a dimension that is split, and once more what is not reduced.
// CHECK-LABEL:   func.func public @looked_up_where_split
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.gather missed: a gather contracts, or looks up along, a sharded dimension
func.func public @looked_up_where_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<2x1xi32>) -> tensor<4x2xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 4, 1>, indices_are_sorted = false}> {paropt.read = [#sdy.sharding<@mesh, [{}, {"model"}]>, unit]} : (tensor<4x4xf32>, tensor<2x1xi32>) -> tensor<4x2xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x2xf32>
  return %v : tensor<4x2xf32>
}

// Indices that are split over the axis of the sum: XLA has each device look up for its own indices only.
// CHECK-LABEL:   func.func public @looked_up_by_split_indices
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.gather missed: another operand of the gather is sharded over the same axes, and would be all-gathered
func.func public @looked_up_by_split_indices(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<4x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> {paropt.read = [unit, #sdy.sharding<@mesh, [{"data"}, {}]>]} : (tensor<4x4xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// Whole rows of what is split by columns: each device looks up its part.
// CHECK-LABEL:   func.func public @looked_up_beside_the_split
// CHECK:           %[[T:.*]] = "stablehlo.gather"
// CHECK:           sdy.sharding_constraint %[[T]] <@mesh, [{}, {"model"}], unreduced={"data"}>
func.func public @looked_up_beside_the_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<2x1xi32>) -> tensor<2x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = "stablehlo.gather"(%u, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>, indices_are_sorted = false}> {paropt.read = [#sdy.sharding<@mesh, [{}, {"model"}]>, unit], paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<4x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// The state splits the columns of the weights, in the loop too: to split examples for a number moves all of these.
// Worth it when: more than scalars have left a loop, or XLA alone shards the reduced values alike
// CHECK-LABEL:   func.func public @number_of_a_loop_that_splits_columns
// CHECK-NOT:       sharding_constraint
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.sharding_constraint missed: only scalars have moved, and XLA would infer other shardings for the reduced values
func.func public @number_of_a_loop_that_splits_columns(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %weight: tensor<8x64xf32>, %state: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<f32>, tensor<8x64xf32>, tensor<8x64xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<8x64xf32>
  %w:4 = stablehlo.while(%i = %zero, %p = %weight, %loss = %none, %sum = %nones) : tensor<i32>, tensor<8x64xf32>, tensor<f32>, tensor<8x64xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %start = stablehlo.constant dense<0.0> : tensor<f32>
    %h = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %l = stablehlo.reduce(%h init: %start) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x64xf32>, tensor<f32>) -> tensor<f32>
    %u = sdy.sharding_constraint %l <@mesh, [], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<f32>
    %loss_next = stablehlo.add %loss, %u : tensor<f32>
    %g = stablehlo.dot_general %x, %h, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %decayed = stablehlo.add %g, %p : tensor<8x64xf32>
    %sum_next = stablehlo.add %sum, %decayed : tensor<8x64xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %p, %loss_next, %sum_next : tensor<i32>, tensor<8x64xf32>, tensor<f32>, tensor<8x64xf32>
  }
  %v = sdy.all_reduce {"data"} %w#2 out_sharding=<@mesh, []> : tensor<f32>
  %n = stablehlo.add %state, %w#3 : tensor<8x64xf32>
  %d = stablehlo.subtract %weight, %n : tensor<8x64xf32>
  return %v, %d, %n : tensor<f32>, tensor<8x64xf32>, tensor<8x64xf32>
}
