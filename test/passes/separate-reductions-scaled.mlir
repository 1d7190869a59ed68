// RUN: %par-opt %s --passes=separate-reductions | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Sums in manual computations that leave axes to the partitioner, scaled before the block returns them.

sdy.mesh @mesh = <["data"=2, "stage"=4]>

// A mean: of a scalar, the factor gets the dimension for devices, too.
// CHECK-LABEL:   func.func public @mean_loss
// CHECK:             %[[P:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}]> : tensor<2xf32>
// CHECK:             %[[F:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = [] : (tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT:        %[[Q:.*]] = stablehlo.divide %[[P]], %[[F]] : tensor<2xf32>
// CHECK:             sdy.return %{{.*}} : tensor<2x1xf32>
// REMARK-DAG: [separate-reductions] sdy.all_reduce applied: the manual computation returns the addend of each device
func.func public @mean_loss(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<4xf32>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %m = sdy.manual_computation(%r) in_shardings=[<@mesh, [{"stage", ?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<1x16xf32>) {
      %zeros = stablehlo.constant dense<0.0> : tensor<f32>
      %count = stablehlo.constant dense<16.0> : tensor<f32>
      %x1 = stablehlo.reshape %x : (tensor<1x16xf32>) -> tensor<16xf32>
      %y = stablehlo.multiply %x1, %x1 : tensor<16xf32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
      %q = stablehlo.divide %d, %count : tensor<f32>
      %v = stablehlo.reshape %q : (tensor<f32>) -> tensor<1xf32>
      sdy.return %v : tensor<1xf32>
    } : (tensor<4x16xf32>) -> tensor<4xf32>
    %s = stablehlo.add %acc, %m : tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<4xf32>
  }
  return %g#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @loss_in_the_block
// CHECK:             %[[W:.*]]:2 = stablehlo.while(%{{.*}}) : tensor<i32>, tensor<2xf32>
// CHECK:               stablehlo.divide %{{.*}}, %{{.*}} : tensor<2xf32>
// CHECK:             stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
func.func public @loss_in_the_block(%xs: tensor<3x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> tensor<4xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<3x16xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<f32>
    %count = stablehlo.constant dense<16.0> : tensor<f32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<f32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 16] : (tensor<3x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
      %r = stablehlo.reshape %row : (tensor<1x16xf32>) -> tensor<16xf32>
      %y = stablehlo.multiply %r, %r : tensor<16xf32>
      %d = stablehlo.reduce(%y init: %start) applies stablehlo.add across dimensions = [0] : (tensor<16xf32>, tensor<f32>) -> tensor<f32>
      %q = stablehlo.divide %d, %count : tensor<f32>
      %s = stablehlo.add %acc, %q : tensor<f32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<f32>
    }
    %v = stablehlo.reshape %g#1 : (tensor<f32>) -> tensor<1xf32>
    sdy.return %v : tensor<1xf32>
  } : (tensor<3x16xf32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @divisor
// CHECK:             stablehlo.divide %{{.*}}, %{{.*}} : tensor<4xf32>
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: a divisor is not linear
func.func public @divisor(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}, %f: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<16xf32>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %m = sdy.manual_computation(%r, %f) in_shardings=[<@mesh, [{?}, {?}]>, <@mesh, [{?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xf32>, %v: tensor<4xf32>) {
      %zeros = stablehlo.constant dense<0.0> : tensor<f32>
      %factor = stablehlo.constant dense<3.0> : tensor<4xf32>
      %y = stablehlo.multiply %x, %x : tensor<4x16xf32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
      %q = stablehlo.divide %factor, %d : tensor<4xf32>
      sdy.return %q : tensor<4xf32>
    } : (tensor<4x16xf32>, tensor<4xf32>) -> tensor<16xf32>
    %s = stablehlo.add %acc, %m : tensor<16xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xf32>
  }
  return %g#1 : tensor<16xf32>
}

// CHECK-LABEL:   func.func public @integer_division
// CHECK:             stablehlo.divide %{{.*}}, %{{.*}} : tensor<4xi32>
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: an integer division rounds
func.func public @integer_division(%xs: tensor<3x4x16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}, %f: tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> tensor<16xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0> : tensor<16xi32>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xi32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xi32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xi32>) -> tensor<4x16xi32>
    %m = sdy.manual_computation(%r, %f) in_shardings=[<@mesh, [{?}, {?}]>, <@mesh, [{?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xi32>, %v: tensor<4xi32>) {
      %zeros = stablehlo.constant dense<0> : tensor<i32>
      %factor = stablehlo.constant dense<3> : tensor<4xi32>
      %y = stablehlo.multiply %x, %x : tensor<4x16xi32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xi32>, tensor<i32>) -> tensor<4xi32>
      %q = stablehlo.divide %d, %factor : tensor<4xi32>
      sdy.return %q : tensor<4xi32>
    } : (tensor<4x16xi32>, tensor<4xi32>) -> tensor<16xi32>
    %s = stablehlo.add %acc, %m : tensor<16xi32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xi32>
  }
  return %g#1 : tensor<16xi32>
}

// CHECK-LABEL:   func.func public @remainder
// CHECK:             stablehlo.remainder %{{.*}}, %{{.*}} : tensor<4xi32>
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: stablehlo.remainder does not commute with the reduction
func.func public @remainder(%xs: tensor<3x4x16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}, %f: tensor<4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> tensor<16xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0> : tensor<16xi32>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xi32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xi32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xi32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xi32>) -> tensor<4x16xi32>
    %m = sdy.manual_computation(%r, %f) in_shardings=[<@mesh, [{?}, {?}]>, <@mesh, [{?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xi32>, %v: tensor<4xi32>) {
      %zeros = stablehlo.constant dense<0> : tensor<i32>
      %factor = stablehlo.constant dense<3> : tensor<4xi32>
      %y = stablehlo.multiply %x, %x : tensor<4x16xi32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xi32>, tensor<i32>) -> tensor<4xi32>
      %q = stablehlo.remainder %d, %factor : tensor<4xi32>
      sdy.return %q : tensor<4xi32>
    } : (tensor<4x16xi32>, tensor<4xi32>) -> tensor<16xi32>
    %s = stablehlo.add %acc, %m : tensor<16xi32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xi32>
  }
  return %g#1 : tensor<16xi32>
}

// Another term is no factor.
// CHECK-LABEL:   func.func public @another_term
// CHECK:             stablehlo.add %{{.*}}, %{{.*}} : tensor<4xf32>
// REMARK-DAG: scaled.mlir:[[# @LINE + 16]]:{{.*}} [separate-reductions] stablehlo.reduce missed: no loop of its manual computation adds it up, nor is it returned alone to a loop that does
func.func public @another_term(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}, %f: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<16xf32>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %m = sdy.manual_computation(%r, %f) in_shardings=[<@mesh, [{?}, {?}]>, <@mesh, [{?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xf32>, %v: tensor<4xf32>) {
      %zeros = stablehlo.constant dense<0.0> : tensor<f32>
      %factor = stablehlo.constant dense<3.0> : tensor<4xf32>
      %y = stablehlo.multiply %x, %x : tensor<4x16xf32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
      %q = stablehlo.add %d, %factor : tensor<4xf32>
      sdy.return %q : tensor<4xf32>
    } : (tensor<4x16xf32>, tensor<4xf32>) -> tensor<16xf32>
    %s = stablehlo.add %acc, %m : tensor<16xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xf32>
  }
  return %g#1 : tensor<16xf32>
}

// Nor is another type: of each device's part, it would round.
// CHECK-LABEL:   func.func public @converted
// CHECK:             stablehlo.convert %{{.*}} : (tensor<4xf32>) -> tensor<4xbf16>
// REMARK-DAG: scaled.mlir:[[# @LINE + 15]]:{{.*}} [separate-reductions] stablehlo.reduce missed: no loop of its manual computation adds it up, nor is it returned alone to a loop that does
func.func public @converted(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}) -> tensor<16xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<16xbf16>
  %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xbf16> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 16] : (tensor<3x4x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16xf32>
    %r = stablehlo.reshape %row : (tensor<1x4x16xf32>) -> tensor<4x16xf32>
    %m = sdy.manual_computation(%r) in_shardings=[<@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xf32>) {
      %zeros = stablehlo.constant dense<0.0> : tensor<f32>
      %y = stablehlo.multiply %x, %x : tensor<4x16xf32>
      %d = stablehlo.reduce(%y init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
      %q = stablehlo.convert %d : (tensor<4xf32>) -> tensor<4xbf16>
      sdy.return %q : tensor<4xbf16>
    } : (tensor<4x16xf32>) -> tensor<16xbf16>
    %s = stablehlo.add %acc, %m : tensor<16xbf16>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xbf16>
  }
  return %g#1 : tensor<16xbf16>
}
