// RUN: %par-opt %s --passes=separate-reductions | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes=separate-reductions,expose-all-reduces --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=ONCE
// RUN: %par-opt %s --passes='separate-reductions{axes=stage}' | FileCheck %s --check-prefix=AXES

// Sums in manual computations that leave axes to the partitioner: arrays with a dimension for devices.

// Each is told of once.
// ONCE:     [separate-reductions]
// ONCE-NOT: [expose-all-reduces]

sdy.mesh @mesh = <["data"=2, "stage"=4]>
sdy.mesh @parts = <["data"=4, "stage"=2]>
sdy.mesh @wide = <["data"=2, "ctx"=2, "stage"=2]>

// CHECK-LABEL:   func.func public @loop_in_the_block
// CHECK:           sdy.manual_computation
// CHECK:             %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x8x4xf32>
// CHECK-NEXT:        %[[S:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{"data"}, {?}, {?}]>
// CHECK:             %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %[[S]])
// CHECK:               %[[X:.*]] = stablehlo.reshape %{{.*}} : (tensor<16x4xf32>) -> tensor<2x8x4xf32>
// CHECK-NEXT:          %[[XS:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data"}, {}, {?}]>
// CHECK-NEXT:          %[[Y:.*]] = stablehlo.reshape %{{.*}} : (tensor<16x8xf32>) -> tensor<2x8x8xf32>
// CHECK-NEXT:          %[[YS:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {}, {?}]>
// CHECK-NEXT:          %[[P:.*]] = stablehlo.dot_general %[[XS]], %[[YS]], batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x8x4xf32>, tensor<2x8x8xf32>) -> tensor<2x4x8xf32>
// CHECK-NEXT:          %[[PS:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{"data"}, {?}, {?}]>
// CHECK-NEXT:          %[[T:.*]] = stablehlo.transpose %[[PS]], dims = [0, 2, 1]
// CHECK-NEXT:          %[[C:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{"data"}, {?}, {?}]>
// CHECK:               stablehlo.multiply %[[C]], %{{.*}} : tensor<2x8x4xf32>
// CHECK:             %[[D:.*]] = sdy.sharding_constraint %[[W]]#1 <@mesh, [{"data"}, {?}, {?}]>
// CHECK:             %[[R:.*]] = stablehlo.reduce(%[[D]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT:        sdy.return %[[R]]
// REMARK-DAG: [separate-reductions] sdy.all_reduce applied: 128 bytes per device, now reduced after the loop and not 3 times in it
// AXES-LABEL:    func.func public @loop_in_the_block
// AXES-NOT:        tensor<2x8x4xf32>
// AXES:            return
func.func public @loop_in_the_block(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %w: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"stage"}]>}) -> tensor<32x4xf32> {
  %m = sdy.manual_computation(%xs, %w) in_shardings=[<@mesh, [{?}, {?}, {?}]>, <@mesh, [{?}, {"stage", ?}]>] out_shardings=[<@mesh, [{"stage", ?}, {?}]>] manual_axes={"stage"} (%x: tensor<3x16x4xf32>, %v: tensor<16x2xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<8x4xf32>
    %two = stablehlo.constant dense<2.0> : tensor<8x4xf32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<8x4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 16, 4] : (tensor<3x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
      %r = stablehlo.reshape %row : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
      %y = stablehlo.concatenate %r, %r, dim = 1 : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x8xf32>
      %d = stablehlo.dot_general %r, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
      %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %q = sdy.sharding_constraint %t <@mesh, [{?}, {?}]> : tensor<8x4xf32>
      %p = stablehlo.multiply %q, %two : tensor<8x4xf32>
      %s = stablehlo.add %acc, %p : tensor<8x4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x4xf32>
    }
    sdy.return %g#1 : tensor<8x4xf32>
  } : (tensor<3x16x4xf32>, tensor<16x8xf32>) -> tensor<32x4xf32>
  return %m : tensor<32x4xf32>
}

// The loop is around the block: that returns the addends, whose sum outside is a sum like any other.
// CHECK-LABEL:   func.func public @block_in_the_loop
// CHECK:           stablehlo.while
// CHECK:             %[[M:.*]] = sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"data"}, {"stage", ?}]>] manual_axes={"stage"}
// CHECK:               %[[X:.*]] = stablehlo.reshape %{{.*}} : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
// CHECK:               %[[P:.*]] = stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [2] : (tensor<4x2x8xf32>, tensor<f32>) -> tensor<4x2xf32>
// CHECK-NEXT:          %[[T:.*]] = stablehlo.transpose %[[P]], dims = [1, 0]
// CHECK-NEXT:          %[[C:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{"data"}, {?}]>
// CHECK-NEXT:          sdy.return %[[C]] : tensor<2x4xf32>
// CHECK:             %[[S:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{"data"}, {?}]>
// CHECK:             %[[R:.*]] = stablehlo.reduce(%[[S]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-NEXT:        stablehlo.add %{{.*}}, %[[R]]
// REMARK-DAG: [separate-reductions] sdy.all_reduce applied: the manual computation returns the addend of each device
func.func public @block_in_the_loop(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}) -> tensor<16xf32> {
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
      sdy.return %d : tensor<4xf32>
    } : (tensor<4x16xf32>) -> tensor<16xf32>
    %s = stablehlo.add %acc, %m : tensor<16xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xf32>
  }
  return %g#1 : tensor<16xf32>
}

// A loop over layers writes the rows of a stack, which another loop adds up, or adds to a part of an array: all have the
// dimension for devices.
// CHECK-LABEL:   func.func public @rows_of_layers
// CHECK:           sdy.manual_computation
// CHECK:             stablehlo.while({{.*}}) : tensor<i32>, tensor<2x2x4x4xf32>, tensor<2x4xf32>
// CHECK:               %[[L:.*]]:4 = stablehlo.while({{.*}}) : tensor<i32>, tensor<16x4xf32>, tensor<2x2x4x4xf32>, tensor<2x2xf32>
// CHECK:                 %[[P:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x4x4xf32>) -> tensor<2x1x4x4xf32>
// CHECK-NEXT:            %[[Z:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:            stablehlo.dynamic_update_slice %{{.*}}, %[[P]], %[[Z]], %[[I:.*]], %{{.*}}, %{{.*}} : (tensor<2x2x4x4xf32>, tensor<2x1x4x4xf32>,
// CHECK:                 stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [2] : (tensor<4x2x8xf32>, tensor<f32>) -> tensor<4x2xf32>
// CHECK:                 %[[S:.*]] = stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK:                 stablehlo.dynamic_update_slice %{{.*}} : (tensor<2x2xf32>, tensor<2x1xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
// CHECK:               stablehlo.select %{{.*}}, %{{.*}}, %[[L]]#2 : tensor<i1>, tensor<2x2x4x4xf32>
// CHECK:               stablehlo.dynamic_slice %{{.*}}, sizes = [2, 2] : (tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
// CHECK-NEXT:          stablehlo.add %{{.*}}, %[[L]]#3
// CHECK:               stablehlo.dynamic_update_slice %{{.*}} : (tensor<2x4xf32>, tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
// CHECK:             stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x4x4xf32>
// CHECK:             stablehlo.reduce({{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK-NEXT:        sdy.return
// REMARK-DAG: [separate-reductions] sdy.all_reduce applied: 128 bytes per device, now reduced after the loop and not 3 times in it
// REMARK-DAG: [separate-reductions] sdy.all_reduce applied: 8 bytes per device, now reduced after the loop and not 3 times in it; 8 bytes in a trip are 16 after them
func.func public @rows_of_layers(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> (tensor<8x4x4xf32>, tensor<16xf32>) {
  %m:2 = sdy.manual_computation(%xs) in_shardings=[<@mesh, [{?}, {?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}, {?}, {?}]>, <@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<3x16x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %start = stablehlo.constant dense<0.0> : tensor<2x4x4xf32>
    %masked = stablehlo.constant dense<-0.0> : tensor<2x4x4xf32>
    %starts = stablehlo.constant dense<0.0> : tensor<2xf32>
    %sums = stablehlo.constant dense<0.0> : tensor<4xf32>
    %g:3 = stablehlo.while(%t = %zero, %acc = %start, %sum = %sums) : tensor<i32>, tensor<2x4x4xf32>, tensor<4xf32> cond {
      %c = stablehlo.compare LT, %t, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %t, %zero, %zero, sizes = [1, 16, 4] : (tensor<3x16x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x4xf32>
      %r = stablehlo.reshape %row : (tensor<1x16x4xf32>) -> tensor<16x4xf32>
      %l:4 = stablehlo.while(%i = %zero, %h = %r, %ws = %start, %bs = %starts) : tensor<i32>, tensor<16x4xf32>, tensor<2x4x4xf32>, tensor<2xf32> cond {
        %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %d = stablehlo.dot_general %h, %r, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
        %d1 = stablehlo.reshape %d : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
        %nws = stablehlo.dynamic_update_slice %ws, %d1, %i, %zero, %zero : (tensor<2x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x4x4xf32>
        %ht = stablehlo.transpose %h, dims = [1, 0] : (tensor<16x4xf32>) -> tensor<4x16xf32>
        %f = stablehlo.reduce(%ht init: %none) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
        %b = stablehlo.reduce(%f init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        %b1 = stablehlo.reshape %b : (tensor<f32>) -> tensor<1xf32>
        %nbs = stablehlo.dynamic_update_slice %bs, %b1, %i : (tensor<2xf32>, tensor<1xf32>, tensor<i32>) -> tensor<2xf32>
        %nh = stablehlo.add %h, %r : tensor<16x4xf32>
        %ni = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %ni, %nh, %nws, %nbs : tensor<i32>, tensor<16x4xf32>, tensor<2x4x4xf32>, tensor<2xf32>
      }
      %early = stablehlo.compare LT, %t, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %term = stablehlo.select %early, %masked, %l#2 : tensor<i1>, tensor<2x4x4xf32>
      %s = stablehlo.add %acc, %term : tensor<2x4x4xf32>
      %part = stablehlo.dynamic_slice %sum, %t, sizes = [2] : (tensor<4xf32>, tensor<i32>) -> tensor<2xf32>
      %more = stablehlo.add %part, %l#3 : tensor<2xf32>
      %ss = stablehlo.dynamic_update_slice %sum, %more, %t : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
      %n = stablehlo.add %t, %one : tensor<i32>
      stablehlo.return %n, %s, %ss : tensor<i32>, tensor<2x4x4xf32>, tensor<4xf32>
    }
    sdy.return %g#1, %g#2 : tensor<2x4x4xf32>, tensor<4xf32>
  } : (tensor<3x16x4xf32>) -> (tensor<8x4x4xf32>, tensor<16xf32>)
  return %m#0, %m#1 : tensor<8x4x4xf32>, tensor<16xf32>
}

// What the loop makes of it needs the sum in the block.
// CHECK-LABEL:   func.func public @read_outside
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4xf32>
// CHECK:           return
func.func public @read_outside(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}) -> tensor<16xf32> {
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
    %m = sdy.manual_computation(%r) in_shardings=[<@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<4x16xf32>) {
      %zeros = stablehlo.constant dense<0.0> : tensor<f32>
      %d = stablehlo.reduce(%x init: %zeros) applies stablehlo.add across dimensions = [1] : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32>
      sdy.return %d : tensor<4xf32>
    } : (tensor<4x16xf32>) -> tensor<16xf32>
    %h = stablehlo.tanh %m : tensor<16xf32>
    %s = stablehlo.add %acc, %h : tensor<16xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s : tensor<i32>, tensor<16xf32>
  }
  return %g#1 : tensor<16xf32>
}

// Legal when: it is a contraction or a sum over one sharded dimension, in equal parts, over whole axes
// CHECK-LABEL:   func.func public @several_dimensions
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: it reduces over several sharded dimensions in a manual computation
func.func public @several_dimensions(%xs: tensor<3x4x16x8xf32> {sdy.sharding = #sdy.sharding<@wide, [{}, {}, {"data"}, {"ctx"}]>}) -> tensor<8xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@wide, [{?}, {?}, {?}, {?}]>] out_shardings=[<@wide, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<3x4x16x8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<4xf32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, %zero, sizes = [1, 4, 16, 8] : (tensor<3x4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x16x8xf32>
      %r = stablehlo.reshape %row : (tensor<1x4x16x8xf32>) -> tensor<4x16x8xf32>
      %d = stablehlo.reduce(%r init: %none) applies stablehlo.add across dimensions = [1, 2] : (tensor<4x16x8xf32>, tensor<f32>) -> tensor<4xf32>
      %s = stablehlo.add %acc, %d : tensor<4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<4xf32>
    }
    sdy.return %g#1 : tensor<4xf32>
  } : (tensor<3x4x16x8xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}

// CHECK-LABEL:   func.func public @unequal_parts
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: it is sharded into unequal parts
func.func public @unequal_parts(%xs: tensor<3x4x15xf32> {sdy.sharding = #sdy.sharding<@wide, [{}, {}, {"data"}]>}) -> tensor<8xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@wide, [{?}, {?}, {?}]>] out_shardings=[<@wide, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<3x4x15xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %start = stablehlo.constant dense<0.0> : tensor<4xf32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %g:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32> cond {
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 4, 15] : (tensor<3x4x15xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x15xf32>
      %r = stablehlo.reshape %row : (tensor<1x4x15xf32>) -> tensor<4x15xf32>
      %d = stablehlo.reduce(%r init: %none) applies stablehlo.add across dimensions = [1] : (tensor<4x15xf32>, tensor<f32>) -> tensor<4xf32>
      %s = stablehlo.add %acc, %d : tensor<4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<4xf32>
    }
    sdy.return %g#1 : tensor<4xf32>
  } : (tensor<3x4x15xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}

// CHECK-LABEL:   func.func public @part_of_an_axis
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: it reduces over a part of an axis in a manual computation
func.func public @part_of_an_axis(%xs: tensor<3x4x16xf32> {sdy.sharding = #sdy.sharding<@parts, [{}, {}, {"data":(1)2}]>}) -> tensor<8xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@parts, [{?}, {?}, {?}]>] out_shardings=[<@parts, [{"stage", ?}]>] manual_axes={"stage"} (%x: tensor<3x4x16xf32>) {
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
      %s = stablehlo.add %acc, %d : tensor<4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<4xf32>
    }
    sdy.return %g#1 : tensor<4xf32>
  } : (tensor<3x4x16xf32>) -> tensor<8xf32>
  return %m : tensor<8xf32>
}

// Legal when: its sum is not sharded over these axes
// CHECK-LABEL:   func.func public @sharded_sum
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.dot_general missed: its sum is sharded over these axes
func.func public @sharded_sum(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x4xf32> {
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
      %q = sdy.sharding_constraint %d <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
      %s = stablehlo.add %acc, %q : tensor<4x4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<4x4xf32>
    }
    sdy.return %g#1 : tensor<4x4xf32>
  } : (tensor<3x16x4xf32>) -> tensor<16x4xf32>
  return %m : tensor<16x4xf32>
}

// Legal when: between the op and its all_reduce are only elementwise ops, transposes, reshapes, broadcasts, loops, sums, and reads and writes of parts of an array
// CHECK-LABEL:   func.func public @another_op_between
// CHECK:             sdy.manual_computation
// CHECK-NOT:         tensor<2x4x4xf32>
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.dot_general missed: no stablehlo.concatenate with a dimension for devices is known
func.func public @another_op_between(%xs: tensor<3x16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<32x4xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@mesh, [{?}, {?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}, {?}]>] manual_axes={"stage"} (%x: tensor<3x16x4xf32>) {
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
      %d = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
      %q = stablehlo.concatenate %d, %d, dim = 0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
      %s = stablehlo.add %acc, %q : tensor<8x4xf32>
      %n = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x4xf32>
    }
    sdy.return %g#1 : tensor<8x4xf32>
  } : (tensor<3x16x4xf32>) -> tensor<32x4xf32>
  return %m : tensor<32x4xf32>
}
