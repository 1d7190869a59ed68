// Sums that the program shards as the parameters that its loop reads: wherever constraints stand beside that.

// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{inferred=whole}' --split-input-file | FileCheck %s --check-prefix=WHOLE

sdy.mesh @mesh = <["data"=8]>

// A language model's: the accumulator is constrained before and behind the loop, the sum itself nowhere in it.
// CHECK-LABEL:   func.func public @constrained_around_the_loop
// CHECK-NOT:       sdy.all_reduce
// CHECK:           sdy.reduce_scatter {{\[}}{"data"}, {}]
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK: stablehlo.dot_general missed: its sum is sharded over `data`, and stays so
func.func public @constrained_around_the_loop(%x: tensor<16x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %start = sdy.sharding_constraint %none <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
  %w:3 = stablehlo.while(%i = %zero, %q = %p, %acc = %start) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %half = stablehlo.convert %q : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %y = stablehlo.dot_general %x, %half, contracting_dims = [1] x [0] : (tensor<16x8xbf16>, tensor<8x8xbf16>) -> tensor<16x8xbf16>
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xbf16>, tensor<16x8xbf16>) -> tensor<8x8xbf16>
    %f = stablehlo.convert %g : (tensor<8x8xbf16>) -> tensor<8x8xf32>
    %s = stablehlo.add %acc, %f : tensor<8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %q, %s : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  %end = sdy.sharding_constraint %w#2 <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
  %new = stablehlo.add %p, %end : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// The state is sharded over one axis more than the parameters of layers, and so is what the compiler makes of the sum.
// CHECK-LABEL:   func.func public @state_over_more_axes
// CHECK-NOT:       sdy.all_reduce
// CHECK:           sdy.reduce_scatter {{\[}}{"data", "replica"}, {}]
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// WHOLE-LABEL:   func.func public @state_over_more_axes
// WHOLE:           sdy.reduce_scatter {{\[}}{"data"}, {}]
// WHOLE:           sdy.all_reduce {"replica"}
func.func public @state_over_more_axes(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %p: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %m: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "replica"}, {}]>}) -> (tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", "replica"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
  %w:3 = stablehlo.while(%i = %zero, %q = %p, %acc = %none) : tensor<i32>, tensor<3x8x8xf32>, tensor<3x8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %layers:3 = stablehlo.while(%j = %zero, %r = %q, %rows = %none) : tensor<i32>, tensor<3x8x8xf32>, tensor<3x8x8xf32>
    cond {
      %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %slice = stablehlo.dynamic_slice %r, %j, %zero, %zero, sizes = [1, 8, 8] : (tensor<3x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
      %layer = stablehlo.reshape %slice : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
      %y = stablehlo.dot_general %x, %layer, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %row = stablehlo.reshape %g : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %put = stablehlo.dynamic_update_slice %rows, %row, %j, %zero, %zero : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      %k = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %k, %r, %put : tensor<i32>, tensor<3x8x8xf32>, tensor<3x8x8xf32>
    }
    %s = stablehlo.add %acc, %layers#2 : tensor<3x8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %q, %s : tensor<i32>, tensor<3x8x8xf32>, tensor<3x8x8xf32>
  }
  %new = stablehlo.add %m, %w#2 : tensor<3x8x8xf32>
  return %new : tensor<3x8x8xf32>
}
