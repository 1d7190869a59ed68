// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{policy=defer}' --split-input-file | FileCheck %s --check-prefix=DEFER
// RUN: %par-opt %s --passes='expose-all-reduces{policy=every}' --split-input-file | FileCheck %s --check-prefix=EVERY
// RUN: %par-opt %s --passes='expose-all-reduces{policy=every}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=EVERY-REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{axes=data}' --split-input-file | FileCheck %s --check-prefix=AXES
// RUN: %par-opt %s --passes='expose-all-reduces{axes=data}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=AXES-REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=left}' --split-input-file | FileCheck %s --check-prefix=LEFT
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=23}' --split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=23}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=AUTO-REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=900}' --split-input-file | FileCheck %s --check-prefix=ENOUGH
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=900}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=ENOUGH-REMARK

sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @product
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>], paropt.shared = array<i64: 0, 1>}
// CHECK-NEXT:      %[[G:.*]] = sdy.all_reduce {"data"} %[[U]] out_sharding=<@mesh, [{?}, {?}]>
// CHECK-NEXT:      return %[[G]]
func.func public @product(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  return %g : tensor<4x2xf32>
}

// How values in between are split is Shardy's business.
// CHECK-LABEL:   func.func public @propagated
// CHECK:           stablehlo.tanh
// CHECK-NEXT:      stablehlo.reshape
// CHECK-NEXT:      stablehlo.dot_general
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      sdy.all_reduce {"data"}
func.func public @propagated(%x: tensor<16x2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> tensor<4x4xf32> {
  %t = stablehlo.tanh %x : tensor<16x2x4xf32>
  %r = stablehlo.reshape %t : (tensor<16x2x4xf32>) -> tensor<32x4xf32>
  %g = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0] : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// Shardy has no rules for what XLA has replaced when it asks Shardy.
// CHECK-LABEL:   func.func public @through_chlo
// CHECK:           chlo.square
// CHECK-NEXT:      chlo.erf
// CHECK-NEXT:      stablehlo.reduce
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{?}], unreduced={"data"}>
// CHECK-NEXT:      sdy.all_reduce {"data"}
func.func public @through_chlo(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = chlo.square %x : tensor<16x4xf32> -> tensor<16x4xf32>
  %e = chlo.erf %s : tensor<16x4xf32> -> tensor<16x4xf32>
  %g = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @through_top_k
// CHECK:           chlo.top_k
// CHECK-NEXT:      stablehlo.reduce
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{?}], unreduced={"data"}>
// CHECK-NEXT:      sdy.all_reduce {"data"}
func.func public @through_top_k(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<2xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %v, %i = chlo.top_k(%x, k = 2) : tensor<16x4xf32> -> (tensor<16x2xf32>, tensor<16x2xi32>)
  %g = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x2xf32>, tensor<f32>) -> tensor<2xf32>
  return %g : tensor<2xf32>
}

// What is added up is whole on each device.
// CHECK-LABEL:   func.func public @not_split
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @not_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x2xf32>) -> tensor<16x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x2xf32>) -> tensor<16x2xf32>
  return %g : tensor<16x2xf32>
}

// CHECK-LABEL:   func.func public @sum
// CHECK:           stablehlo.reduce
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, unit], paropt.shared = array<i64: 0>}
// CHECK-NEXT:      sdy.all_reduce {"data"}
func.func public @sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %g = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// Legal when: a convolution has one group (XLA reduces others itself)
// CHECK-LABEL:   func.func public @convolution_in_groups
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.convolution missed: XLA reduces a grouped convolution itself, whatever the constraints
func.func public @convolution_in_groups(%x: tensor<16x10x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}, %y: tensor<16x10x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> tensor<3x1x4xf32> {
  %g = stablehlo.convolution(%x, %y) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[1, 1]]} {batch_group_count = 4 : i64, feature_group_count = 1 : i64} : (tensor<16x10x4xf32>, tensor<16x10x4xf32>) -> tensor<3x1x4xf32>
  return %g : tensor<3x1x4xf32>
}

// Legal when: the window of a convolution is not sharded (XLA reduces over it itself)
// CHECK-LABEL:   func.func public @split_window
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.convolution missed: XLA reduces a convolution with a sharded window itself, whatever the constraints
func.func public @split_window(%x: tensor<16x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %y: tensor<16x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<3x4x4xf32> {
  %g = stablehlo.convolution(%x, %y) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<16x16x4xf32>, tensor<16x16x4xf32>) -> tensor<3x4x4xf32>
  return %g : tensor<3x4x4xf32>
}

// Legal when: it is not a reduction within an array of complex numbers (XLA:TPU aborts)
// CHECK-LABEL:   func.func public @complex_sum
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: XLA:TPU aborts at an unreduced sum within arrays of complex numbers
func.func public @complex_sum(%x: tensor<16x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xcomplex<f32>> {
  %zero = stablehlo.constant dense<(0.0,0.0)> : tensor<complex<f32>>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
  return %s : tensor<4xcomplex<f32>>
}

// The gradient of a table: rows that are looked up in it are added to zeros.
// CHECK-LABEL:   func.func public @rows
// CHECK:           "stablehlo.scatter"
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      sdy.all_reduce {"data"}
func.func public @rows(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %g : tensor<9x4xf32>
}

// Shardy's rules call it a reduction too, but it is not a sum.
// Legal when: it is a contraction, a sum from zero, or a constraint to an unreduced value of which other ops ask the sum
// CHECK-LABEL:   func.func public @largest
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: a reduce applies stablehlo.maximum, and only a sum is linear
func.func public @largest(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xf32> {
  %none = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %g = stablehlo.reduce(%x init: %none) applies stablehlo.maximum across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @sum_from_one
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: a reduce starts from a value that is not zero
func.func public @sum_from_one(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %g = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @largest_rows
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.scatter missed: a scatter applies stablehlo.maximum, and only a sum is linear
func.func public @largest_rows(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %g : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_to_others
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.scatter missed: a scatter adds to values that are not zero
func.func public @rows_added_to_others(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %g = "stablehlo.scatter"(%old, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %g : tensor<9x4xf32>
}

// Rows that are added to what a loop carries, and nothing else reads, are added to zeros first.
// CHECK-LABEL:   func.func public @rows_added_in_a_loop
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %arg2)
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<9x4xf32>
// CHECK:           %[[ROWS:.*]] = "stablehlo.scatter"(%[[ZEROS]], %arg0, %arg1)
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[ROWS]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK:           %[[G:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK-NEXT:      %[[NEXT:.*]] = stablehlo.add %[[SUM]], %[[G]]
// CHECK-NEXT:      stablehlo.return %{{.*}}, %[[NEXT]]
// REMARK-DAG: [expose-all-reduces] stablehlo.scatter applied: its rows are added to zeros, and their sum to what is carried
func.func public @rows_added_in_a_loop(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %rows = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %rows : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// So are those that are added to others, which nothing else reads: the first to zeros, or in a loop to what it carries.
// CHECK-LABEL:   func.func public @rows_added_to_rows
// CHECK:           %[[FIRST:.*]] = "stablehlo.scatter"
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[FIRST]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      %[[G:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK:           %[[SECOND:.*]] = "stablehlo.scatter"
// CHECK:           %[[V:.*]] = sdy.sharding_constraint %[[SECOND]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      %[[H:.*]] = sdy.all_reduce {"data"} %[[V]]
// CHECK-NEXT:      %[[BOTH:.*]] = stablehlo.add %[[G]], %[[H]]
// CHECK-NEXT:      return %[[BOTH]]
func.func public @rows_added_to_rows(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_twice_in_a_loop
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %arg2)
// CHECK:           %[[FIRST:.*]] = stablehlo.add %[[SUM]], %{{.*}}
// CHECK:           %[[NEXT:.*]] = stablehlo.add %[[FIRST]], %{{.*}}
// CHECK-NEXT:      stablehlo.return %{{.*}}, %[[NEXT]]
func.func public @rows_added_twice_in_a_loop(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %b = "stablehlo.scatter"(%a, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %b : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// Where the loop reads the sum, or the rows are on all devices, they are added to it as before.
// CHECK-LABEL:   func.func public @rows_added_and_read
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @rows_added_and_read(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %read = stablehlo.tanh %sum : tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_and_their_sum_read
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @rows_added_and_their_sum_read(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %read = stablehlo.tanh %a : tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_and_tested
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @rows_added_and_tested(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %limit = stablehlo.constant dense<100.0> : tensor<f32>
    %row = stablehlo.slice %sum [0:1, 0:1] : (tensor<9x4xf32>) -> tensor<1x1xf32>
    %number = stablehlo.reshape %row : (tensor<1x1xf32>) -> tensor<f32>
    %less = stablehlo.compare LT, %number, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %both = stablehlo.and %more, %less : tensor<i1>
    stablehlo.return %both : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_to_what_is_read
// CHECK:           %[[FIRST:.*]] = "stablehlo.scatter"
// CHECK:           %[[G:.*]] = sdy.all_reduce {"data"}
// CHECK:           "stablehlo.scatter"(%[[G]], %arg0, %arg2)
func.func public @rows_added_to_what_is_read(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %read = stablehlo.tanh %a : tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_to_the_largest
// CHECK-NOT:       sdy.all_reduce
// CHECK:           %[[LARGEST:.*]] = "stablehlo.scatter"
// CHECK:           "stablehlo.scatter"(%[[LARGEST]], %arg0, %arg2)
func.func public @rows_added_to_the_largest(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.maximum %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// Of truth values, `add` means `or`.
// CHECK-LABEL:   func.func public @truths_added_in_a_loop
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @truths_added_in_a_loop(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xi1>, %n: tensor<i32>) -> tensor<9x4xi1> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xi1>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %rows = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<i1>, %q: tensor<i1>):
        %r = stablehlo.add %p, %q : tensor<i1>
        stablehlo.return %r : tensor<i1>
      }) : (tensor<9x4xi1>, tensor<16x1xui8>, tensor<16x4xi1>) -> tensor<9x4xi1>
    stablehlo.return %next, %rows : tensor<i32>, tensor<9x4xi1>
  }
  return %l#1 : tensor<9x4xi1>
}

// So they are where their reduction is left to XLA.
// CHECK-LABEL:   func.func public @rows_added_of_one_operand_split
// CHECK:           %[[FIRST:.*]] = sdy.all_reduce {"data"}
// CHECK:           %[[BOTH:.*]] = "stablehlo.scatter"(%[[FIRST]], %arg0, %arg2)
// CHECK:           return %[[BOTH]]
func.func public @rows_added_of_one_operand_split(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @whole_rows_added
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @whole_rows_added(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @whole_complex_rows_added
// CHECK-NOT:       dense<0.000000e+00>
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @whole_complex_rows_added(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %x: tensor<16x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %old: tensor<9x4xcomplex<f32>>, %n: tensor<i32>) -> tensor<9x4xcomplex<f32>> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xcomplex<f32>>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>):
        %r = stablehlo.add %p, %q : tensor<complex<f32>>
        stablehlo.return %r : tensor<complex<f32>>
      }) : (tensor<9x4xcomplex<f32>>, tensor<16x1xui8>, tensor<16x4xcomplex<f32>>) -> tensor<9x4xcomplex<f32>>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xcomplex<f32>>
  }
  return %l#1 : tensor<9x4xcomplex<f32>>
}

// Legal when: its operands shard the reduced dimensions in the same way
// CHECK-LABEL:   func.func public @one_operand_split
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands are sharded in different ways
func.func public @one_operand_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  return %g : tensor<4x2xf32>
}

// Legal when: outside of loops, it reduces over whole axes of the mesh (XLA would move examples)
// CHECK-LABEL:   func.func public @part_of_an_axis
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: it reduces over a part of an axis, and for that XLA would move examples outside of loops
func.func public @part_of_an_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reshape %x : (tensor<16x4xf32>) -> tensor<4x4x4xf32>
  %g = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// Legal when: no part of an axis shards its result while it reduces over another part (XLA would move examples)
// CHECK-LABEL:   func.func public @split_by_another_part
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: it reduces over a part of an axis, and another part shards its result
func.func public @split_by_another_part(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(2)4}, {"data":(1)2}]>}, %n: tensor<i32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %ones = stablehlo.constant dense<1.0> : tensor<16x2xf32>
  %start = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32> cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %ones, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
    %s = stablehlo.add %acc, %g : tensor<4x2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @all_parts_of_an_axis
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}], unreduced={"data"}>
// CHECK-NEXT:      sdy.all_reduce {"data"}
func.func public @all_parts_of_an_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reshape %x : (tensor<16x4xf32>) -> tensor<4x4x4xf32>
  %g = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// Legal when: it is outside of manual computations
// CHECK-LABEL:   func.func public @manual
// CHECK:           sdy.manual_computation
// CHECK-NOT:       sdy.all_reduce
// CHECK:           sdy.return
// CHECK:           stablehlo.dot_general
// CHECK:           sdy.all_reduce {"data"}
func.func public @manual(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<32x4xf32>, tensor<4x4xf32>) {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%p: tensor<2x4xf32>) {
    %q = stablehlo.dot_general %p, %p, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    sdy.return %q : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<32x4xf32>
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %m, %g : tensor<32x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// In a manual computation, rows are added to each other as before.
// CHECK-LABEL:   func.func public @rows_added_to_rows_in_a_manual_computation
// CHECK:           %[[ROWS:.*]] = "stablehlo.scatter"
// CHECK:           "stablehlo.scatter"(%[[ROWS]],
func.func public @rows_added_to_rows_in_a_manual_computation(%j: tensor<32x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}, %y: tensor<32x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}) -> (tensor<18x4xf32>, tensor<4x4xf32>) {
  %m = sdy.manual_computation(%j, %y) in_shardings=[<@mesh, [{"model", "data"}, {}]>, <@mesh, [{"model", "data"}, {}]>] out_shardings=[<@mesh, [{"model", ?}, {?}]>] manual_axes={"model"} (%i: tensor<16x1xui8>, %x: tensor<16x4xf32>) {
    %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
    %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %b = "stablehlo.scatter"(%a, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    sdy.return %b : tensor<9x4xf32>
  } : (tensor<32x1xui8>, tensor<32x4xf32>) -> tensor<18x4xf32>
  %g = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<4x4xf32>
  return %m, %g : tensor<18x4xf32>, tensor<4x4xf32>
}

// -----

// Legal when: it is lowered for Shardy
// CHECK-LABEL:   func.func public @gspmd
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] func.func missed: the program is lowered for GSPMD, not for Shardy
// NUMERIC: skip (the tests run programs that are lowered for Shardy)
func.func public @gspmd(%x: tensor<16x4xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Sums over all examples, over two axes.
// CHECK-LABEL:   func.func public @two_axes
// CHECK:           sdy.all_reduce {"replica", "data"}
func.func public @two_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "replica"}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// Worth it when: the program does not shard the sum over these axes, as fully sharded training does (or `policy=defer`)
// DEFER-LABEL:   func.func public @split_gradient
// DEFER:           sdy.all_reduce {"replica", "data"}
// EVERY-REMARK: [expose-all-reduces] stablehlo.dot_general missed: its sum is sharded over `data`, `replica`, and stays so (option policy=defer replicates it)
// EVERY-LABEL:   func.func public @split_gradient
// EVERY-NOT:       sdy.all_reduce
// EVERY:           return
// The reduction over "data" splits the sum: it is written as the reduce_scatter that it is.
// Over "replica" it moves, and is scattered over "data" before, whatever the option says.
// LEFT-LABEL:    func.func public @split_gradient(
// LEFT:            sdy.reduce_scatter
// CHECK-LABEL:   func.func public @split_gradient(
// CHECK:             %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:        %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands
// CHECK-NEXT:        %[[S:.*]] = sdy.reduce_scatter {{\[}}{"data"}, {}] %[[U]] out_sharding=<@mesh, [{"data"}, {}]>
// CHECK-NEXT:        %[[V:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []
// CHECK-NEXT:        %[[R:.*]] = sdy.all_reduce {"replica"} %[[V]]
// CHECK-NEXT:        sdy.sharding_constraint %[[R]] <@mesh, [{"data"}, {}]> :
func.func public @split_gradient(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Worth it when: a sum that is scattered in every iteration as before is not left to the compiler (option `scatters`)
// CHECK-LABEL:   func.func public @scattered_as_before(
// CHECK:             sdy.reduce_scatter
// LEFT-LABEL:    func.func public @scattered_as_before(
// LEFT-NOT:        unreduced
// LEFT-NOT:        sdy.reduce_scatter
// LEFT:            return
func.func public @scattered_as_before(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// A gradient that a branch returns is split as well: its reduction over "data" is left to XLA, and that over "replica" is
// not. (With jax 0.12 Shardy splits what is in the branch, too, and the reduction over "data" is a reduce_scatter there.)
// CHECK-LABEL:   func.func public @split_gradient_of_a_branch(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         sdy.all_reduce
// CHECK:             sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"replica"}>
// CHECK-NEXT:        sdy.all_reduce {"replica"}
// CHECK-NEXT:        stablehlo.return
func.func public @split_gradient_of_a_branch(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %p: tensor<i1>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.if"(%p) ({
      %d = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
      stablehlo.return %d : tensor<4x4xf32>
    }, {
      stablehlo.return %none : tensor<4x4xf32>
    }) : (tensor<i1>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// What comes back in the next iteration is not reduced either: how XLA splits what is made of it is noted.
// CHECK-LABEL:   func.func public @decayed(
// CHECK:           stablehlo.while(
// CHECK:             sdy.all_reduce {"replica"}
// CHECK:             stablehlo.multiply {{.*}}paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]}
func.func public @decayed(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %d = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %d <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %m = stablehlo.multiply %acc, %half : tensor<4x4xf32>
    %n = stablehlo.add %m, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// In JAX's explicit mode, the whole of each result is asked for, too.
// CHECK-LABEL:   func.func public @split_after_whole(
// CHECK:             stablehlo.dot_general
// CHECK-NEXT:        sdy.sharding_constraint %{{.*}} unreduced={"replica", "data"}
// CHECK-NEXT:        %[[W:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]> : tensor<4x4xf32>
// CHECK-NEXT:        %[[T:.*]] = stablehlo.transpose %[[W]]
// CHECK-NEXT:        sdy.reduce_scatter {{\[}}{"data"}, {}] %[[T]] out_sharding=<@mesh, [{"data"}, {}]>
func.func public @split_after_whole(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %w = sdy.sharding_constraint %g <@mesh, [{}, {}]> : tensor<4x4xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = sdy.sharding_constraint %t <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// The program says itself that something is not reduced, and then asks for the sum.
// CHECK-LABEL:   func.func public @asked_for(
// CHECK:             %[[C:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> : tensor<4x4xf32>
// CHECK-NEXT:        %[[U:.*]] = sdy.sharding_constraint %[[C]] <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = []}
// CHECK-NEXT:        %[[R:.*]] = sdy.all_reduce {"replica", "data"} %[[U]]
// CHECK-NEXT:        sdy.sharding_constraint %[[R]] <@mesh, [{}, {}]>
func.func public @asked_for(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"replica", "data"}> : tensor<4x4xf32>
  %r = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// Of a part of an axis: XLA aborts on the like.
// NUMERIC: skip (XLA aborts where a value is not reduced over a part of an axis)
// CHECK-LABEL:   func.func public @asked_for_a_part(
// CHECK-NOT:         sdy.all_reduce
// CHECK:             return
func.func public @asked_for_a_part(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(1)2}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data":(1)2}> : tensor<4x4xf32>
  %r = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// A scalar lies otherwise for each reader: Shardy copies it.
// CHECK-LABEL:   func.func public @scalar_operand(
// CHECK:             paropt.shared = array<i64: 1>
// CHECK:             return
func.func public @scalar_operand(%s: tensor<f32>, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> (tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<4x4xf32>) {
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<16x4xf32>
  %g = stablehlo.dot_general %b, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %b, %g : tensor<16x4xf32>, tensor<4x4xf32>
}

// It is exposed already: what it asks for has moved on.
// CHECK-LABEL:   func.func public @asked_for_behind(
// CHECK-NOT:         sdy.all_reduce
// CHECK:             return
func.func public @asked_for_behind(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = []} : tensor<4x4xf32>
  %r = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// A manual computation says itself that its result is not reduced: then all that reads it asks for the sum.
// CHECK-LABEL:   func.func public @asked_for_behind_a_block(
// CHECK:             %[[M:.*]] = sdy.manual_computation
// CHECK:             %[[U:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{?}, {?}], unreduced={"replica", "data"}>
// CHECK:             sdy.all_reduce {"replica", "data"} %[[U]]
// CHECK:             return
func.func public @asked_for_behind_a_block(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] manual_axes={"replica", "data"} (%a: tensor<2x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    sdy.return %g : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %r = sdy.sharding_constraint %m <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// It is in a manual computation, which what is not reduced can't leave.
// NUMERIC: skip (XLA aborts where a value in a manual computation is not reduced over an axis left to it)
// CHECK-LABEL:   func.func public @asked_for_within(
// CHECK-NOT:         sdy.all_reduce
// CHECK:             return
func.func public @asked_for_within(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica"} (%a: tensor<8x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
    %r = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<8x4xf32>
  return %m : tensor<8x4xf32>
}

// Only what asks for it is scattered, and not the product, which is reduced before.
// CHECK-LABEL:   func.func public @whole_before(
// CHECK:             sdy.sharding_constraint %{{.*}} unreduced={"replica", "data"}> : tensor<4x4xf32>
// CHECK:             sdy.reduce_scatter
// CHECK-NOT:         sdy.reduce_scatter
// CHECK:             return
func.func public @whole_before(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %t <@mesh, [{}, {}], unreduced={"replica", "data"}> : tensor<4x4xf32>
  %r = sdy.sharding_constraint %u <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// It is read as it is, too: that is left alone.
// CHECK-LABEL:   func.func public @read_unreduced(
// CHECK-NOT:         sdy.all_reduce
// CHECK:             return
func.func public @read_unreduced(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"replica", "data"}> : tensor<4x4xf32>
  %n = stablehlo.negate %u : tensor<4x4xf32>
  %m = sdy.sharding_constraint %n <@mesh, [{}, {}], unreduced={"replica", "data"}> : tensor<4x4xf32>
  %s = stablehlo.add %m, %u : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// Activations are left to XLA, which may move their shards while it multiplies them.
// CHECK-LABEL:   func.func public @split_activations(
// CHECK-NOT:         sdy.reduce_scatter
// CHECK:             return
func.func public @split_activations(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %w: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %v: tensor<4x4xf32>) -> tensor<16x4xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %c = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %y = stablehlo.dot_general %c, %v, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}

// What a branch returns beside a sum may be an activation.
// CHECK-LABEL:   func.func public @beside_activations(
// CHECK:             sdy.reduce_scatter
// CHECK:             return
func.func public @beside_activations(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %v: tensor<8x8xf32>, %yes: tensor<i1>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<16x8xf32>) {
  %g, %h = "stablehlo.if"(%yes) ({
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
    stablehlo.return %c, %x : tensor<8x8xf32>, tensor<16x8xf32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %n = stablehlo.negate %x : tensor<16x8xf32>
    stablehlo.return %none, %n : tensor<8x8xf32>, tensor<16x8xf32>
  }) : (tensor<i1>) -> (tensor<8x8xf32>, tensor<16x8xf32>)
  %y = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %g, %y : tensor<8x8xf32>, tensor<16x8xf32>
}

// The parameter, which the loop only reads, and its gradient are split alike, though nobody says so of the gradient.
// CHECK-LABEL:   func.func public @split_parameter
// CHECK:           sdy.all_reduce {"replica"}
// DEFER-LABEL:   func.func public @split_parameter
// DEFER:           sdy.all_reduce {"replica", "data"}
// EVERY-LABEL:   func.func public @split_parameter
// EVERY-NOT:       sdy.all_reduce
// EVERY:           return
func.func public @split_parameter(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %p: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %p) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %whole = sdy.sharding_constraint %q <@mesh, [{}, {}]> : tensor<4x4xf32>
    %a = stablehlo.dot_general %x, %whole, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %g = stablehlo.dot_general %x, %a, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %q : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %r = stablehlo.subtract %p, %w#1 : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// The gradient of a parameter that is gathered at use: a constraint asks for the whole of it before the next splits it.
// A convert stays behind the reduce_scatter, so that the sum is taken in the type in which XLA takes it.
// CHECK-LABEL:   func.func public @gathered_at_use
// CHECK:             stablehlo.dot_general
// CHECK-NEXT:        sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}>
// CHECK-NEXT:        %[[T:.*]] = stablehlo.transpose
// CHECK-NEXT:        %[[S:.*]] = sdy.reduce_scatter {{\[}}{}, {"data"}] %[[T]] out_sharding=<@mesh, [{}, {"data"}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>}
// CHECK-NEXT:        sdy.sharding_constraint %[[S]] <@mesh, [{?}, {?}], unreduced={"replica"}>
// CHECK-NEXT:        sdy.all_reduce {"replica"}
// CHECK-NEXT:        %[[C:.*]] = stablehlo.convert
// CHECK-NEXT:        sdy.sharding_constraint %[[C]] <@mesh, [{}, {"data"}]>
// AUTO-LABEL:    func.func public @gathered_at_use
// AUTO:            sdy.reduce_scatter
// ENOUGH-LABEL:  func.func public @gathered_at_use
// ENOUGH-NOT:      sdy.reduce_scatter
// ENOUGH:          sdy.all_reduce {"replica", "data"}
// ENOUGH-REMARK-DAG: stablehlo.dot_general applied: 96 bytes per device fewer are reduced, 24 more are held
// AUTO-REMARK-DAG: stablehlo.dot_general missed: it would save 96 bytes of reductions and hold 24 more, and 23 are left of a budget of 23
func.func public @gathered_at_use(%x: tensor<16x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xbf16>, tensor<16x4xbf16>) -> tensor<4x4xbf16>
    %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %f = stablehlo.convert %t : (tensor<4x4xbf16>) -> tensor<4x4xf32>
    %a = sdy.sharding_constraint %f <@mesh, [{}, {}]> : tensor<4x4xf32>
    %c = sdy.sharding_constraint %a <@mesh, [{}, {"data"}]> : tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// What two branches add is one sum: held once.
// ENOUGH-LABEL:  func.func public @one_of_two
// ENOUGH-COUNT-2:  sdy.all_reduce {"replica", "data"}
// ENOUGH-REMARK-DAG: stablehlo.dot_general applied: 448 bytes per device fewer are reduced, 48 more are held
func.func public @one_of_two(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.if"(%yes) ({
      %a = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
      stablehlo.return %a : tensor<4x4xf32>
    }, {
      %y = stablehlo.abs %x : tensor<16x4xf32>
      %b = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
      stablehlo.return %b : tensor<4x4xf32>
    }) : (tensor<i1>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{}, {"data"}]> : tensor<4x4xf32>
    %n = stablehlo.add %acc, %c : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// What a product makes of a sum is another sum.
// ENOUGH-LABEL:  func.func public @product_of_a_sum
// ENOUGH-REMARK-DAG: stablehlo.dot_general applied: 384 bytes per device fewer are reduced, 64 more are held
// ENOUGH-REMARK-DAG: stablehlo.dot_general applied: 384 bytes per device fewer are reduced, 96 more are held
func.func public @product_of_a_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"replica"}]>}, %p: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "replica"}, {}]>}) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %h = stablehlo.dot_general %x, %p, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %s = sdy.sharding_constraint %h <@mesh, [{"data", "replica"}, {}]> : tensor<16x8xf32>
    %g = stablehlo.dot_general %y, %s, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{}, {"data"}]> : tensor<4x8xf32>
    %n = stablehlo.add %acc, %c : tensor<4x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x8xf32>
  }
  return %w#1 : tensor<4x8xf32>
}

// Something else reads the whole sum: it is not scattered.
// CHECK-LABEL:   func.func public @whole_too
// CHECK-NOT:       sdy.reduce_scatter
// CHECK:           return
func.func public @whole_too(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %a = sdy.sharding_constraint %g <@mesh, [{}, {}]> : tensor<4x4xf32>
  %c = sdy.sharding_constraint %a <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  return %a, %c : tensor<4x4xf32>, tensor<4x4xf32>
}

// A sharded optimizer: the sum is split after the loop only, the parameter is whole. Reduced once, over both axes.
// CHECK-LABEL:   func.func public @split_afterwards
// CHECK:           sdy.all_reduce {"replica", "data"}
func.func public @split_afterwards(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %s = sdy.sharding_constraint %w#1 <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// The optimizer's state is split, so what reads the sum would have it split, too. That is noted on the loop.
// CHECK-LABEL:   func.func public @wanted_split
// CHECK:           stablehlo.while
// CHECK:           paropt.wanted = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"data"}, {}]>]
func.func public @wanted_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %m: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %s = stablehlo.add %m, %w#1 : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// A norm of it is one number: each device computes its part.
// CHECK-LABEL:   func.func public @wanted_split_with_norm
// CHECK:           paropt.wanted = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"data"}, {}]>]
func.func public @wanted_split_with_norm(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %m: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %s = stablehlo.add %m, %w#1 : tensor<4x4xf32>
  %cst = stablehlo.constant dense<0.0> : tensor<f32>
  %q = stablehlo.reduce(%w#1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  return %s, %q : tensor<4x4xf32>, tensor<f32>
}

// Where something reads the whole sum as well, it would have to be gathered.
// CHECK-LABEL:   func.func public @wanted_whole_too
// CHECK-NOT:       paropt.wanted = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"data"}, {}]>]
// CHECK:           return
func.func public @wanted_whole_too(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %m: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %s = stablehlo.add %m, %w#1 : tensor<4x4xf32>
  return %s, %w#1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// The dimensions of a product are not those of the sum, though the shapes are the same.
// CHECK-LABEL:   func.func public @read_by_a_product
// CHECK-NOT:       paropt.wanted = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{"data"}, {}]>]>
// CHECK:           return
func.func public @read_by_a_product(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %m: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %s = stablehlo.dot_general %m, %w#1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// How the operands of a product behind the sum are split is noted. A scatter of several arrays is left alone.
// NUMERIC: skip (XLA gives this scatter another result in each run)
// CHECK-LABEL:   func.func public @read_by_products
// CHECK-SAME:      , %[[M:.*]]: tensor<4x4xf32>
// CHECK:           sdy.all_reduce
// CHECK:           stablehlo.dot_general %{{.*}}, %[[M]], contracting_dims = [1] x [0] {{.*}}paropt.read = [unit, #sdy.sharding<@mesh, [{}, {"data"}]>]
// CHECK:           stablehlo.dot_general %{{.*}}, %[[M]], contracting_dims = [0] x [0] :
// CHECK:           "stablehlo.scatter"
// CHECK:           return
func.func public @read_by_products(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %m: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<4x4xf32>, tensor<9x4xf32>) {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %a = stablehlo.dot_general %g, %m, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = stablehlo.dot_general %g, %m, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %i = stablehlo.constant dense<[[1], [0], [2], [3]]> : tensor<4x1xi32>
  %none = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %s:2 = "stablehlo.scatter"(%none, %none, %i, %g, %g) <{indices_are_sorted = false, unique_indices = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %t: tensor<f32>):
    %c = stablehlo.add %p, %r : tensor<f32>
    %d = stablehlo.add %q, %t : tensor<f32>
    stablehlo.return %c, %d : tensor<f32>, tensor<f32>
  }) : (tensor<9x4xf32>, tensor<9x4xf32>, tensor<4x1xi32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<9x4xf32>, tensor<9x4xf32>)
  return %a, %s#0 : tensor<4x4xf32>, tensor<9x4xf32>
}

// Outside of loops, a gradient is split by a constraint before it is added to others.
// CHECK-LABEL:   func.func public @split_terms
// CHECK-COUNT-2:   sdy.all_reduce {"replica"}
// CHECK:           sdy.all_reduce {"replica", "data"}
func.func public @split_terms(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  %y = stablehlo.negate %x : tensor<16x4xf32>
  %h = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %d = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  %s = stablehlo.add %c, %d : tensor<4x4xf32>
  %i = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %j = stablehlo.add %i, %s : tensor<4x4xf32>
  %e = sdy.sharding_constraint %j <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
  return %s, %e : tensor<4x4xf32>, tensor<4x4xf32>
}

// Worth it when: the option `axes` allows it
// AXES-LABEL:    func.func public @some_axes
// AXES:            sdy.all_reduce {"data"}
// AXES-NOT:        sdy.all_reduce
// AXES:            return
// AXES-REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: it is over `replica`, which option axes does not allow
func.func public @some_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %h = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %g, %h : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Worth it when: the compiler has not lost the sum before (attribute `paropt.left_out` of the module)
// CHECK-LABEL:   func.func public @left_out
// CHECK:           sdy.all_reduce {"data"}
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: the compiler lost the constraint of its sum
module attributes {paropt.left_out = ["loc(\22lost\22)"]} {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @left_out(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x2xf32>, tensor<2x4xf32>) {
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
    %h = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x2xf32>, tensor<16x4xf32>) -> tensor<2x4xf32> loc("lost")
    return %g, %h : tensor<4x2xf32>, tensor<2x4xf32>
  }
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Worth it when: for complex numbers, `axes` allows all of them (a contraction becomes four real ones, each reduced over the others)
// AXES-LABEL:    func.func public @complex_over_some_axes
// AXES:            stablehlo.dot_general %arg0
// AXES-NEXT:       stablehlo.dot_general %arg1
// AXES:            sdy.all_reduce {"data"}
// AXES-NOT:        sdy.all_reduce
// AXES:            return
// AXES-REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: XLA would reduce four parts over the other axes
func.func public @complex_over_some_axes(%x: tensor<16x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xcomplex<f32>>, tensor<16x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
  %h = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xcomplex<f32>>, tensor<16x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
  return %g, %h : tensor<4x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Manual over one axis: what it adds up over the other is left to the partitioner, with a remark.
// CHECK-LABEL:   func.func public @manual_over_one_axis
// CHECK-NOT:       sdy.all_reduce
// CHECK:           sdy.return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: it is in a manual computation, which an unreduced value cannot leave
func.func public @manual_over_one_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{?}, {"model", ?}]>] out_shardings=[<@mesh, [{"model", ?}, {?}]>] manual_axes={"model"} (%p: tensor<16x2xf32>) {
    %q = stablehlo.dot_general %p, %p, contracting_dims = [0] x [0] : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<2x2xf32>
    %r = stablehlo.concatenate %q, %q, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
    sdy.return %r : tensor<2x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  return %m : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// The loop reads an argument from outside. XLA has the loop carry it, split further, as the product needs it; so the sum
// in the loop is over both axes, and the one before it, of the argument itself, over one.
// CHECK-LABEL:   func.func public @captured
// CHECK:           stablehlo.reduce(%arg0
// CHECK-NEXT:      unreduced={"data"}>
// CHECK:           stablehlo.while
// CHECK:           stablehlo.reduce(%arg0
// CHECK-NEXT:      unreduced={"replica", "data"}>
func.func public @captured(%x: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "replica"}, {}]>}, %n: tensor<i32>) -> (tensor<2xf32>, tensor<2x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %before = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [0] : (tensor<16x2xf32>, tensor<f32>) -> tensor<2xf32>
  %w:3 = stablehlo.while(%i = %zero, %a = %before, %b = %nones) : tensor<i32>, tensor<2xf32>, tensor<2x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<2x2xf32>
    %q = stablehlo.add %b, %p : tensor<2x2xf32>
    %s = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [0] : (tensor<16x2xf32>, tensor<f32>) -> tensor<2xf32>
    %t = stablehlo.add %a, %s : tensor<2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %t, %q : tensor<i32>, tensor<2xf32>, tensor<2x2xf32>
  }
  return %w#1, %w#2 : tensor<2xf32>, tensor<2x2xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What a manual computation reduces last. It stays in there until annotate-unreduced takes it out.
// CHECK-LABEL:   func.func public @region
// CHECK:           %[[M:.*]] = sdy.manual_computation
// CHECK:             "stablehlo.all_reduce"
// CHECK:             sdy.return
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []}
// CHECK-NEXT:      %[[R:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK-NEXT:      stablehlo.negate %[[R]]
func.func public @region(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// With the option `axes`, what is left is reduced in there.
// CHECK-LABEL:   func.func public @region_over_all_axes
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data", "model"}> {paropt.operands = []}
// AXES-LABEL:    func.func public @region_over_all_axes
// AXES:            sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []}
func.func public @region_over_all_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Linear ops may follow.
// CHECK-LABEL:   func.func public @region_of_two_sums
// CHECK:           sdy.all_reduce {"data"}
func.func public @region_of_two_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = stablehlo.transpose %h, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %k = stablehlo.multiply %g, %b : tensor<4x4xf32>
    %l = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.add %t, %l : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// What loops in there reduce is deferred first, as by defer-sync, so that it comes last.
// CHECK-LABEL:   func.func public @region_with_a_loop
// CHECK:           stablehlo.while
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return
// CHECK:           "stablehlo.all_reduce"
// CHECK:           sdy.return
// CHECK:           sdy.all_reduce {"data"}
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce applied: 64 bytes per device, now reduced after the loop and not 3 times in it
func.func public @region_with_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %next = stablehlo.add %acc, %r : tensor<4x4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
    }
    sdy.return %w#1 : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Legal when: it reduces over axes of the mesh, before the return or linear ops
// CHECK-LABEL:   func.func public @region_maximum
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the reduction is not an all_reduce that adds
func.func public @region_maximum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @region_pairs
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: its replica groups are not those of axes of the mesh
func.func public @region_pairs(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<16x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [4, 6], [1, 3], [5, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %n0 = stablehlo.negate %m : tensor<16x4xf32>
  return %n0 : tensor<16x4xf32>
}

// CHECK-LABEL:   func.func public @region_not_linear
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @region_not_linear(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.abs %h : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Legal when: outside of loops, the block adds nothing else to the sum
// CHECK-LABEL:   func.func public @region_with_another_term
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: a sum of a reduced value and an unreduced one
func.func public @region_with_another_term(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.add %h, %b : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// In a loop, what else it adds is returned beside the sum.
// CHECK-LABEL:   func.func public @region_with_another_term_in_a_loop
// CHECK:           %[[M:.*]]:2 = sdy.manual_computation
// CHECK-SAME:        out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%{{.*}}: tensor<4x4xf32>, %[[B:.*]]: tensor<4x4xf32>)
// CHECK:             %[[H:.*]] = "stablehlo.all_reduce"
// CHECK:             %[[S:.*]] = stablehlo.negate %[[H]]
// CHECK-NEXT:        %[[T:.*]] = stablehlo.negate %[[B]]
// CHECK-NEXT:        sdy.return %[[S]], %[[T]]
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[M]]#0 <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      %[[R:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK-NEXT:      %[[G:.*]] = stablehlo.add %[[M]]#1, %[[R]]
// CHECK:           stablehlo.add %{{.*}}, %[[G]] {{.*}} : tensor<4x4xf32>
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce applied: what the manual computation adds to its sum is added outside
func.func public @region_with_another_term_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<4x4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = stablehlo.add %h, %b : tensor<4x4xf32>
      %r = stablehlo.negate %t : tensor<4x4xf32>
      sdy.return %r : tensor<4x4xf32>
    } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = stablehlo.add %acc, %m : tensor<4x4xf32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Legal when: the block returns the sum once, and nothing else in there reads it
// CHECK-LABEL:   func.func public @region_returned_twice
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the sum is returned more than once
func.func public @region_returned_twice(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %m:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r, %r : tensor<4x4xf32>, tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %n0 = stablehlo.negate %m#0 : tensor<4x4xf32>
  %n1 = stablehlo.negate %m#1 : tensor<4x4xf32>
  return %n0, %n1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @region_read_in_there
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the sum is also read by stablehlo.abs: stablehlo.abs does not commute with the reduction
func.func public @region_read_in_there(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %m:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = stablehlo.abs %r : tensor<4x4xf32>
    sdy.return %r, %h : tensor<4x4xf32>, tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %n0 = stablehlo.negate %m#0 : tensor<4x4xf32>
  %n1 = stablehlo.negate %m#1 : tensor<4x4xf32>
  return %n0, %n1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Legal when: its result is not sharded over the axes that it reduces over
// CHECK-LABEL:   func.func public @region_split
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the result is sharded over data, over which it is reduced
func.func public @region_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<16x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %n0 = stablehlo.negate %m : tensor<16x4xf32>
  return %n0 : tensor<16x4xf32>
}

// CHECK-LABEL:   func.func public @region_split_over_another_axis
// CHECK:           sdy.all_reduce {"data"}
func.func public @region_split_over_another_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %n0 = stablehlo.negate %m : tensor<8x4xf32>
  return %n0 : tensor<8x4xf32>
}

// Legal when: devices that hold the same sum hold the same addend
// CHECK-LABEL:   func.func public @region_in_another_order
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: an addend is not proven uniform over the replica groups: stablehlo.collective_permute may differ between devices
func.func public @region_in_another_order(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.collective_permute"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 0], [2, 2], [4, 4], [6, 6], [1, 3], [3, 5], [5, 7], [7, 1]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%h) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// The factor is made on each device of what is the same on all that are to hold the same.
// CHECK-LABEL:   func.func public @region_scaled_by_a_sum
// CHECK:           sdy.all_reduce {"data"}
func.func public @region_scaled_by_a_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %k = stablehlo.multiply %g, %h : tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Worth it when: a manual computation returns at most twice the bytes that it reduces (which then is half as often, at least)
// CHECK-LABEL:   func.func public @region_repeats
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: 64 bytes are returned, more than twice the 16 that are reduced
func.func public @region_repeats(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %g = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %r = stablehlo.broadcast_in_dim %h, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Activations are split by positions, %x, and by features, %y: for both products XLA gathers all positions.
// CHECK-LABEL:   func.func public @gathered_positions
// CHECK:           %[[P:.*]] = stablehlo.dot_general %arg0, %{{.*}}, contracting_dims = [0, 1] x [0, 1] {{.*}}paropt.gathered = [
// CHECK-SAME:        [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-SAME:        paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {}, {?}]>], paropt.shared = array<i64: 1>
// CHECK:           sdy.all_reduce {"data"} %[[U]]
// CHECK:           stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] {{.*}}paropt.gathered = [
// CHECK-SAME:        [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]
// CHECK:           stablehlo.dot_general %arg0, %arg3, contracting_dims = [2] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>]} :
// CHECK:           stablehlo.add %arg0, %arg0 {paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>]} :
func.func public @gathered_positions(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %v: tensor<4x5xf32>) -> (tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x5xf32>, tensor<16x6x4xf32>) {
  %z = stablehlo.negate %y : tensor<16x6x8xf32>
  %g = stablehlo.dot_general %x, %z, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<16x6x4xf32>, tensor<4x8xf32>) -> tensor<16x6x8xf32>
  %c = sdy.sharding_constraint %h <@mesh, [{"data"}, {}, {"model"}]> : tensor<16x6x8xf32>
  %a = stablehlo.dot_general %x, %v, contracting_dims = [2] x [0] : (tensor<16x6x4xf32>, tensor<4x5xf32>) -> tensor<16x6x5xf32>
  %s = stablehlo.add %x, %x : tensor<16x6x4xf32>
  return %g, %c, %a, %s : tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x5xf32>, tensor<16x6x4xf32>
}

// Nothing else needs the axis that splits the positions: they are left to XLA.
// CHECK-LABEL:   func.func public @positions_only
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @positions_only(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  return %g : tensor<4x8xf32>
}

// The same where only the result is split by it.
// CHECK-LABEL:   func.func public @positions_and_result
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @positions_and_result(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// XLA would have to move what is left of it.
// CHECK-LABEL:   func.func public @split_first_by_the_other_axis
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands are sharded in different ways
func.func public @split_first_by_the_other_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %g : tensor<4x8xf32>
}

// The rows of an embedding's gradient are examples: XLA scatters them as it multiplies.
// CHECK-LABEL:   func.func public @rows
// CHECK-NOT:       sdy.reduce_scatter
// CHECK:           return
func.func public @rows(%dh: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %i: tensor<16x6x1xi32>) -> tensor<32x4xf32> {
  %dx = stablehlo.dot_general %dh, %w, contracting_dims = [2] x [1] : (tensor<16x6x8xf32>, tensor<4x8xf32>) -> tensor<16x6x4xf32>
  %c = sdy.sharding_constraint %dx <@mesh, [{"data"}, {"model"}, {}]> : tensor<16x6x4xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<32x4xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %c) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<32x4xf32>, tensor<16x6x1xi32>, tensor<16x6x4xf32>) -> tensor<32x4xf32>
  return %g : tensor<32x4xf32>
}

// One that is put in its place among others is a gradient.
// CHECK-LABEL:   func.func public @put_in_its_place
// CHECK:           sdy.reduce_scatter
// CHECK:           return
func.func public @put_in_its_place(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<1xi32>) -> tensor<3x4x8xf32> {
  %dw = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %dw <@mesh, [{"data"}, {}]> : tensor<4x8xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4x8xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %c) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x4x8xf32>, tensor<1xi32>, tensor<4x8xf32>) -> tensor<3x4x8xf32>
  return %g : tensor<3x4x8xf32>
}

// The user splits the parameter, but nothing has the sum split like that.
// CHECK-LABEL:   func.func public @whole_sum_of_a_split_parameter
// CHECK:           sdy.all_reduce {"data", "model"}
// CHECK:           return
func.func public @whole_sum_of_a_split_parameter(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}, %p: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %p) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %y = stablehlo.dot_general %x, %q, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %s = stablehlo.add %acc, %g : tensor<4x4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s, %q : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Legal when: its result is sharded into equal parts (XLA aborts)
// CHECK-LABEL:   func.func public @unequal_parts
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its result is sharded into unequal parts
func.func public @unequal_parts(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<4x7xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x7xf32>) -> tensor<4x7xf32>
  return %g : tensor<4x7xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "other"=2, "model"=2]>

// XLA would move the features of %x, and not only gather its positions.
// CHECK-LABEL:   func.func public @features_that_move
// CHECK-NOT:       paropt.gathered
// CHECK:           return
func.func public @features_that_move(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {"other"}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {"model"}]> : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "model"=4]>

// NUMERIC: skip (XLA aborts, too)
// Legal when: no value that it says to be unreduced has operands sharded in different ways (Shardy aborts)
// CHECK-LABEL:   func.func public @said_of_unlike_operands
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: it is declared unreduced, but its operands are sharded in different ways
func.func public @said_of_unlike_operands(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x2xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x2xf32>
  %h = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x2xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// Legal when: in the mesh, no axis without a part in a scatter to sharded rows precedes one with a part
// CHECK-LABEL:   func.func public @rows_without_replica(
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.scatter missed: its rows are sharded, and nothing of it over `replica`: XLA would add wrong parts
func.func public @rows_without_replica(%t: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %n = stablehlo.add %p, %t : tensor<16x4xf32>
  return %n : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "model"=2, "replica"=2]>

// The last axis may be idle.
// CHECK-LABEL:   func.func public @rows_before_replica(
// CHECK:           sdy.all_reduce {"data"}
func.func public @rows_before_replica(%t: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %n = stablehlo.add %p, %t : tensor<16x4xf32>
  return %n : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// Legal when: in the mesh, no axis without a part in a contraction is between one that it reduces over and one that shards its result only
// CHECK-LABEL:   func.func public @cut_behind_data(
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its result is sharded over `model`, its operands are not, and nothing is over `replica`: XLA would add wrong parts
func.func public @cut_behind_data(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// What is read split like that is not cut.
// CHECK-LABEL:   func.func public @cut_as_read(
// CHECK:           sdy.all_reduce {"data"}
func.func public @cut_as_read(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "model"=2, "data"=2]>

// CHECK-LABEL:   func.func public @cut_before_data(
// CHECK:           sdy.all_reduce {"data"}
func.func public @cut_before_data(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "model"=2, "replica"=2]>

// CHECK-LABEL:   func.func public @cut_before_replica(
// CHECK:           sdy.all_reduce {"data"}
func.func public @cut_before_replica(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["rest"=2, "data"=2, "model"=2]>

// An axis that splits what it reads, and its result no more, is like one that it has no part in.
// CHECK-LABEL:   func.func public @cut_of_what_is_split_over_both(
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its result is sharded over `model`, its operands are not, and nothing is over `rest`: XLA would add wrong parts
func.func public @cut_of_what_is_split_over_both(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model", "rest"}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=6]>

// A third of an axis that has halves: which devices have the same is not known.
// NUMERIC: skip (a mesh of 24 devices)
// CHECK-LABEL:   func.func public @cut_over_a_third(
// CHECK-NOT:       sdy.all_reduce
func.func public @cut_over_a_third(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x6xf32>) -> tensor<4x6xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model":(1)3}]> : tensor<4x6xf32>
  %n = stablehlo.add %c, %t : tensor<4x6xf32>
  return %n : tensor<4x6xf32>
}

// -----

sdy.mesh @mesh = <["model"=2, "data"=2, "replica"=2], device_ids=[0, 4, 2, 6, 1, 5, 3, 7]>

// XLA goes by the numbers of the devices.
// CHECK-LABEL:   func.func public @cut_on_devices_in_another_order(
// CHECK-NOT:       sdy.all_reduce
func.func public @cut_on_devices_in_another_order(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// CHECK-LABEL:   func.func public @rows_of_devices_in_another_order(
// CHECK-NOT:       sdy.all_reduce
func.func public @rows_of_devices_in_another_order(%t: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %n = stablehlo.add %p, %t : tensor<16x4xf32>
  return %n : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Worth it when: before a reduce_scatter, a scatter adds rows of no fewer bytes (XLA all-gathers smaller rows: then each device adds to its part of the sum, and only the residual is reduced)
// CHECK-LABEL:   func.func public @few_rows_of_a_table(
// CHECK-NOT:       sdy.reduce_scatter
func.func public @few_rows_of_a_table(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<24x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<24x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<24x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<24x4xf32>
    %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<24x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<24x4xf32>
    %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<24x4xf32>
    %n = stablehlo.add %acc, %c : tensor<24x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<24x4xf32>
  }
  return %w#1 : tensor<24x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// With the numbers of the rows they are more bytes.
// CHECK-LABEL:   func.func public @all_rows_of_a_table(
// CHECK:           sdy.reduce_scatter
func.func public @all_rows_of_a_table(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
    %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
    %n = stablehlo.add %acc, %c : tensor<16x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16x4xf32>
  }
  return %w#1 : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "b"=2, "c"=2]>

// The axis that splits the columns of both splits the rows of the result, and what is wanted for its columns splits the examples:
// XLA gathers the columns of one, once.
// CHECK-LABEL:   func.func public @gathered_columns(
// CHECK:           stablehlo.dot_general {{.*}}paropt.gathered = [unit, [#sdy.sharding<@mesh, [{"data", "b"}, {"c"}]>, #sdy.sharding<@mesh, [{"data", "b"}, {}]>]]
func.func public @gathered_columns(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "b"}, {"c"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "b"}, {"c"}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"c"}, {"b"}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "fsdp"=2]>

// A table is split by features over an axis that splits the tokens, too: the numbers of the rows are gathered.
// CHECK-LABEL:   func.func public @gathered_indices(
// CHECK:           stablehlo.scatter
// CHECK:           paropt.gathered = [unit, [#sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>], unit]
// CHECK:           sdy.sharding_constraint {{.*}} unreduced={"data"}>
func.func public @gathered_indices(%i: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>}, %x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"fsdp"}]>}) -> (tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"fsdp"}]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<32x8xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<32x8xf32>, tensor<16x1xi32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  return %g : tensor<32x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Experts are a batch of products: devices exchange features for experts.
// CHECK-LABEL:   func.func public @exchanged_experts(
// CHECK:           stablehlo.dot_general {{.*}}paropt.gathered = [
// CHECK-SAME:        [#sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>, #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>], unit]
func.func public @exchanged_experts(%x: tensor<16x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %y: tensor<16x4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}) -> tensor<4x8x6xf32> {
  %p = stablehlo.dot_general %x, %y, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<16x4x8xf32>, tensor<16x4x6xf32>) -> tensor<4x8x6xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"model"}, {}, {}]> : tensor<4x8x6xf32>
  return %c : tensor<4x8x6xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "b"=2, "c"=2]>

// What is wanted for its columns is free: XLA may split them anew instead.
// CHECK-LABEL:   func.func public @columns_to_be_split(
// CHECK-NOT:       paropt.gathered
func.func public @columns_to_be_split(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"c"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"c"}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"c"}, {"b"}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Legal when: partial sums are not moved between devices before they are reduced
// CHECK-LABEL:   func.func public @parts_on_other_devices
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @parts_on_other_devices(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"tensor", "data"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"data"}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"tensor"}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["fsdp"=2, "data"=2, "tensor"=2]>

// The same parts, and less of them.
// CHECK-LABEL:   func.func public @parts_put_together
// CHECK:           sdy.all_reduce {"fsdp"}
// CHECK:           return
func.func public @parts_put_together(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"tensor", "data"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"tensor"}, {}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What follows the loop would have Shardy abort, in the function that XLA enters: nothing is held, and the rest is done.
// NUMERIC: skip (Shardy aborts the process: the operands of what is not reduced are split in different ways)
// CHECK-LABEL:   func.func public @main
// CHECK-NOT:         paropt.alone
// CHECK:             sdy.all_reduce {"data"}
// CHECK-NOT:         paropt.alone
// CHECK:             return
func.func public @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %v: tensor<16x8xf32>) -> (tensor<8x8xf32>, tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %b = %v) : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %b, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data"}> : tensor<8x8xf32>
    %r = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<8x8xf32>
    %n = stablehlo.add %acc, %r : tensor<8x8xf32>
    %s = stablehlo.tanh %b : tensor<16x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %s : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
  }
  return %w#1, %w#2 : tensor<8x8xf32>, tensor<16x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// An accumulator of all gradients in a row: of the second one, split by columns, XLA would move parts. No pass crosses that.
// CHECK-LABEL:   func.func public @in_a_row
// CHECK:             stablehlo.reshape {{.*}}[{"model"}]>], paropt.shardings =
// CHECK-NEXT:        stablehlo.reshape {{.*}}[{"model"}]>], paropt.moves = "XLA would move {{.*}}", paropt.shardings =
// CHECK-NOT:         paropt.moves
// CHECK:             return
func.func public @in_a_row(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<128xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<128xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<128xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %q = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %a = stablehlo.reshape %p : (tensor<8x8xf32>) -> tensor<64xf32>
    %b = stablehlo.reshape %q : (tensor<8x8xf32>) -> tensor<64xf32>
    %f = stablehlo.concatenate %a, %b, dim = 0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    %n = stablehlo.add %acc, %f : tensor<128xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<128xf32>
  }
  return %w#1 : tensor<128xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// JAX's explicit mode says that the sum is reduced, and then that it is not: only the first is one.
// CHECK-LABEL:   func.func public @said_twice
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands
// CHECK-NEXT:      sdy.all_reduce {"data"} %[[U]]
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @said_twice(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %r = sdy.sharding_constraint %p <@mesh, [{}, {}]> : tensor<4x4xf32>
  %u = sdy.sharding_constraint %r <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %v = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Worth it when: no batched scatter has devices exchange parts of an operand for it (XLA:TPU makes a select of it, and all-gathers)
// CHECK-LABEL:   func.func public @exchanged_for_a_batched_scatter
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.add missed: for it, devices exchange operands of a scatter that are sharded over data
func.func public @exchanged_for_a_batched_scatter(%h: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %labels: tensor<16x1x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %ones = stablehlo.constant dense<1.0> : tensor<16x1xf32>
  %logits = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %p = stablehlo.negate %logits : tensor<16x32xf32>
  %t = "stablehlo.scatter"(%zeros, %labels, %ones) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x32xf32>, tensor<16x1x1xi32>, tensor<16x1xf32>) -> tensor<16x32xf32>
  %d = stablehlo.add %t, %p : tensor<16x32xf32>
  %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  return %g : tensor<4x32xf32>
}

// Classes are compared: that is split by examples on all targets.
// CHECK-LABEL:   func.func public @exchanged_for_a_comparison
// CHECK:           unreduced={"data"}
func.func public @exchanged_for_a_comparison(%h: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %t: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %logits = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %d = stablehlo.subtract %t, %logits : tensor<16x32xf32>
  %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  return %g : tensor<4x32xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Rows of fewer bytes than the sum are gathered over what splits it; over the other axis their sum is left for later.
// CHECK-LABEL:   func.func public @few_rows_of_a_copied_table(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [unit, #sdy.sharding<@mesh, [{"replica"}, {?}]>, #sdy.sharding<@mesh, [{"replica"}, {?}]>]}
// CHECK:           sdy.all_reduce {"replica"}
func.func public @few_rows_of_a_copied_table(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<24x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<24x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<24x4xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<24x4xf32>
  return %c : tensor<24x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// What a product reads is not gathered: devices compute of it what they have the columns for, and exchange that.
// CHECK-LABEL:   func.func public @columns_of_other_devices(
// CHECK:             %[[P:.*]] = stablehlo.dot_general %arg0, %arg1, {{.*}}paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]
// CHECK-NEXT:        %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands
// CHECK-NEXT:        sdy.reduce_scatter {{\[}}{"data"}, {}] %[[U]] out_sharding=<@mesh, [{"data"}, {}]>
func.func public @columns_of_other_devices(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x2xf32>
    %n = stablehlo.add %acc, %c : tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The optimizer is not to tell how a loop over layers splits its activations.
// CHECK-LABEL:   func.func public @layers(
// CHECK:           do {
// CHECK-NOT:         paropt.alone
// CHECK:             stablehlo.return
func.func public @layers(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32>, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %loop:4 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Unless XLA gathers most of their parameters: what follows are more layers. A loss is added up, too.
// CHECK-LABEL:   func.func public @sharded_layers(
// CHECK:             stablehlo.dot_general {{.*}}paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {"model"}]>]
func.func public @sharded_layers(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<8x8xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %own_loss = stablehlo.constant dense<2.0> : tensor<f32>
  %loop:5 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b, %loss = %none) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %losses = stablehlo.add %loss, %own_loss : tensor<f32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases, %losses : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<f32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u, %loop#4 : tensor<8x8xf32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Biases are few of the bytes that the loop reads.
// CHECK-LABEL:   func.func public @layers_with_sharded_biases(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         {"model"}
// CHECK:             stablehlo.return
func.func public @layers_with_sharded_biases(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32>, %b: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %loop:4 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Of micro-batches, which hand on a state, the loop adds up a gradient.
// CHECK-LABEL:   func.func public @sharded_layers_beside_a_sum(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         {"model"}
// CHECK:             stablehlo.return
func.func public @sharded_layers_beside_a_sum(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %loop:5 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b, %acc = %none) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
    %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
    %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %p, %each : tensor<16x8xf32>
    %s = stablehlo.dot_general %h, %h, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %sum = stablehlo.add %acc, %s : tensor<8x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %all, %biases, %sum : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
  }
  %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = stablehlo.add %g, %m : tensor<8x8xf32>
  return %u, %loop#4 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Layers within a loop over micro-batches: what follows that is the optimizer.
// CHECK-LABEL:   func.func public @sharded_layers_in_a_loop(
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         {"model"}
// CHECK:             stablehlo.return
func.func public @sharded_layers_in_a_loop(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %b: tensor<4x8xf32>, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %sums:2 = stablehlo.while(%k = %zero, %acc = %none) : tensor<i32>, tensor<8x8xf32>
  cond {
    %again = stablehlo.compare LT, %k, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %loop:4 = stablehlo.while(%i = %zero, %h = %x, %all = %w, %biases = %b) : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %all, %i, %zero, %zero, sizes = [1, 8, 8] : (tensor<4x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %own = stablehlo.reshape %row : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %p = stablehlo.dot_general %h, %own, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %bias = stablehlo.dynamic_slice %biases, %i, %zero, sizes = [1, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
      %flat = stablehlo.reshape %bias : (tensor<1x8xf32>) -> tensor<8xf32>
      %each = stablehlo.broadcast_in_dim %flat, dims = [1] : (tensor<8xf32>) -> tensor<16x8xf32>
      %n = stablehlo.add %p, %each : tensor<16x8xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %all, %biases : tensor<i32>, tensor<16x8xf32>, tensor<4x8x8xf32>, tensor<4x8xf32>
    }
    %g = stablehlo.dot_general %x, %loop#1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %sum = stablehlo.add %acc, %g : tensor<8x8xf32>
    %k_next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %k_next, %sum : tensor<i32>, tensor<8x8xf32>
  }
  %u = stablehlo.add %sums#1, %m : tensor<8x8xf32>
  return %u : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: a running maximum or minimum is of a type with an identity element, and the loop only keeps it
// CHECK-LABEL:   func.func public @running_maximum_that_is_read
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: the loop does more with a running maximum or minimum than keep it
func.func public @running_maximum_that_is_read(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %y = stablehlo.add %x, %ts : tensor<64x16xf32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %m = stablehlo.reduce(%y init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
    %k = stablehlo.maximum %acc, %m : tensor<16xf32>
    %n = stablehlo.multiply %k, %m : tensor<16xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16xf32>
  }
  return %w#1 : tensor<16xf32>
}

// Legal when: the examples of a running maximum are sharded into equal parts, over whole axes of the mesh
// CHECK-LABEL:   func.func public @maximum_of_unequal_parts
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: it is sharded into unequal parts, or over a part of an axis
// NUMERIC: skip (unequal parts of arguments are not made)
func.func public @maximum_of_unequal_parts(%x: tensor<63x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<63x16xf32>
    %y = stablehlo.add %x, %ts : tensor<63x16xf32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %m = stablehlo.reduce(%y init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<63x16xf32>, tensor<f32>) -> tensor<16xf32>
    %n = stablehlo.maximum %acc, %m : tensor<16xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16xf32>
  }
  return %w#1 : tensor<16xf32>
}

// Worth it when: a loop that keeps a maximum or minimum makes more than one iteration
// CHECK-LABEL:   func.func public @maximum_of_one_trip
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: in one trip it is taken over devices once, as after it
func.func public @maximum_of_one_trip(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %y = stablehlo.add %x, %ts : tensor<64x16xf32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %m = stablehlo.reduce(%y init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
    %n = stablehlo.maximum %acc, %m : tensor<16xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16xf32>
  }
  return %w#1 : tensor<16xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>
sdy.mesh @other = <["rows"=8]>

// Legal when: its operands and its result are sharded on one mesh
// CHECK-LABEL:   func.func public @two_meshes
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands and its result are sharded on different meshes
func.func public @two_meshes(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %g <@other, [{"rows"}, {}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}
