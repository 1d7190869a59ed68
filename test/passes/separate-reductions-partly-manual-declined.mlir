// RUN: %par-opt %s --passes=separate-reductions | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='separate-reductions{axes=stage}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=AXES

// Sums in manual computations that leave axes to the partitioner, which have no form with a dimension for devices.

sdy.mesh @mesh = <["data"=2, "stage"=4]>
sdy.mesh @wide = <["data"=2, "ctx"=2, "stage"=2]>

// It is neither a contraction nor a sum.
// CHECK-LABEL:   func.func public @another_producer
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x8x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.scatter missed: no stablehlo.scatter with a dimension for devices is known
// AXES-DAG: [separate-reductions] stablehlo.scatter missed: it is over `data`, which option axes does not allow
func.func public @another_producer(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %ids: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<32x4xf32> {
  %m = sdy.manual_computation(%xs, %ids) in_shardings=[<@mesh, [{?}, {?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}, {?}]>] manual_axes={"stage"} (%x: tensor<3x16x4xf32>, %id: tensor<16x1xi32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<8x4xf32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<8x4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 4] : (tensor<3x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
      %r = stablehlo.reshape %row : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
      %d = "stablehlo.scatter"(%start, %id, %r) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %both = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %both : tensor<f32>
      }) : (tensor<8x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<8x4xf32>
      %s = stablehlo.add %acc, %d : tensor<8x4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x4xf32>
    }
    sdy.return %g#1 : tensor<8x4xf32>
  } : (tensor<3x16x4xf32>, tensor<16x1xi32>) -> tensor<32x4xf32>
  return %m : tensor<32x4xf32>
}

// A branch stands between the op and its all_reduce.
// CHECK-LABEL:   func.func public @branch_between
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.dot_general missed: no stablehlo.if with a dimension for devices is known
func.func public @branch_between(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %some: tensor<i1>) -> tensor<16x4xf32> {
  %m = sdy.manual_computation(%xs, %some) in_shardings=[<@mesh, [{?}, {?}, {?}]>, <@mesh, []>] out_shardings=[<@mesh, [{"stage", ?}, {?}]>] manual_axes={"stage"} (%x: tensor<3x16x4xf32>, %take: tensor<i1>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 4] : (tensor<3x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
      %r = stablehlo.reshape %row : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
      %d = "stablehlo.if"(%take) ({
        %own = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
        stablehlo.return %own : tensor<4x4xf32>
      }, {
        stablehlo.return %start : tensor<4x4xf32>
      }) : (tensor<i1>) -> tensor<4x4xf32>
      %s = stablehlo.add %acc, %d : tensor<4x4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<4x4xf32>
    }
    sdy.return %g#1 : tensor<4x4xf32>
  } : (tensor<3x16x4xf32>, tensor<i1>) -> tensor<16x4xf32>
  return %m : tensor<16x4xf32>
}

// Sums over different axes that meet are carried apart.
// CHECK-LABEL:   func.func public @over_different_axes
// CHECK:             stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x4xf32>
// CHECK:               sdy.sharding_constraint %{{.*}} <@wide, [{"data"}, {?}]>
// CHECK:               sdy.sharding_constraint %{{.*}} <@wide, [{"ctx"}, {?}]>
// CHECK:             %[[B:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK:             %[[A:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT:        stablehlo.add %[[B]], %[[A]] : tensor<4xf32>
// REMARK-DAG: [separate-reductions] sdy.all_reduce applied: 16 bytes per device, now reduced after the loop and not 3 times in it
func.func public @over_different_axes(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@wide, [{}, {}, {"data"}]>}, %ys: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@wide, [{}, {"ctx"}]>}) -> tensor<8xf32> {
  %m = sdy.manual_computation(%xs, %ys) in_shardings=[<@wide, [{?}, {?}, {?}]>, <@wide, [{?}, {?}]>] out_shardings=[<@wide, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<3x4x16xf32>, %y: tensor<4x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<4xf32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
      %r = stablehlo.reshape %row : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
      %d = stablehlo.reduce(%r init: %none) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
      %z = stablehlo.multiply %y, %ts : tensor<4x8xf32>
      %e = stablehlo.reduce(%z init: %none) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
      %de = stablehlo.add %d, %e : tensor<4xf32>
      %s = stablehlo.add %acc, %de : tensor<4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<4xf32>
    }
    sdy.return %g#1 : tensor<4xf32>
  } : (tensor<3x4x16xf32>, tensor<4x8xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}

// An array on the way is sharded over these axes.
// CHECK-LABEL:   func.func public @sharded_on_the_way
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.dot_general missed: a sum is sharded over these axes
func.func public @sharded_on_the_way(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@mesh, [{?}, {?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}, {?}]>] manual_axes={"stage"} (%x: tensor<3x16x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 4] : (tensor<3x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
      %r = stablehlo.reshape %row : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
      %d = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
      %whole = sdy.sharding_constraint %d <@mesh, [{}, {}]> : tensor<4x4xf32>
      %s = stablehlo.add %acc, %whole : tensor<4x4xf32>
      %q = sdy.sharding_constraint %s <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %q : tensor<i32>, tensor<4x4xf32>
    }
    sdy.return %g#1 : tensor<4x4xf32>
  } : (tensor<3x16x4xf32>) -> tensor<16x4xf32>
  return %m : tensor<16x4xf32>
}

// The sum has two readers.
// CHECK-LABEL:   func.func public @read_twice_in_the_block
// CHECK:             %[[D:.*]] = stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT:        %[[S:.*]] = stablehlo.multiply %[[D]], %[[D]] : tensor<4xf32>
// CHECK-NEXT:        sdy.return %[[S]]
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: no loop of its manual computation adds it up, nor is it returned alone to a loop that does
func.func public @read_twice_in_the_block(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<16xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %m = sdy.manual_computation(%r) in_shardings=[<@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xf32>) {
      %zeros = stablehlo.constant dense<0.0> : tensor<f32>
      %y = stablehlo.multiply %x, %x : tensor<4x16xf32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
      %square = stablehlo.multiply %d, %d : tensor<4xf32>
      sdy.return %square : tensor<4xf32>
    } : (tensor<4x16xf32>) -> tensor<16xf32>
    %s = stablehlo.add %acc, %m : tensor<16xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xf32>
  }
  return %g#1 : tensor<16xf32>
}
