// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{axes=data}' --split-input-file | FileCheck %s --check-prefix=AXES
// RUN: %par-opt %s --passes='expose-all-reduces{axes=data}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=AXES-REMARK

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

// Of what a loop adds up, which has a constraint behind it: no running minimum, of which `separate-reductions` tells.
// CHECK-LABEL:   func.func public @least_of_a_sum
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.reduce missed: a reduce applies stablehlo.minimum, and only a sum is linear
func.func public @least_of_a_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %n: tensor<i32>) -> tensor<4xf32> {
  %most = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %l:2 = stablehlo.while(%k = %n, %sum = %x) : tensor<i32>, tensor<16x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %more = stablehlo.add %sum, %x : tensor<16x4xf32>
    stablehlo.return %next, %more : tensor<i32>, tensor<16x4xf32>
  }
  %c = sdy.sharding_constraint %l#1 <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %g = stablehlo.reduce(%c init: %most) applies stablehlo.minimum across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %g : tensor<4xf32>
}

// Nor is the maximum of what a loop keeps of each element.
// CHECK-LABEL:   func.func public @largest_of_each
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @largest_of_each(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %n: tensor<i32>) -> tensor<4xf32> {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %l:2 = stablehlo.while(%k = %n, %acc = %x) : tensor<i32>, tensor<16x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %y = stablehlo.multiply %x, %x : tensor<16x4xf32>
    %more = stablehlo.maximum %acc, %y : tensor<16x4xf32>
    %c = sdy.sharding_constraint %more <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
    stablehlo.return %next, %c : tensor<i32>, tensor<16x4xf32>
  }
  %c = sdy.sharding_constraint %l#1 <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %g = stablehlo.reduce(%c init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
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
