// RUN: %par-opt %s --passes=hoist-gathers | FileCheck %s
// RUN: %par-opt %s --passes=hoist-gathers --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='hoist-gathers,expose-all-reduces{policy=gather}' | FileCheck %s --check-prefix=SUMS

// Parameters that a loop reads from outside and does not carry: so `roll-accumulation` writes loops.

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What reads it outside still reads shards, and the gradient is scattered as if the loop carried the parameter.
// CHECK-LABEL:   func.func public @read_from_outside
// CHECK:           stablehlo.negate %arg0
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK-COUNT-2:     stablehlo.dot_general %{{.*}}, %[[G]],
// CHECK:           stablehlo.subtract %arg0
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data before the loop, not in each of 4 trips; 256 bytes are held
// SUMS-LABEL:    func.func public @read_from_outside
// SUMS:              sdy.reduce_scatter [{"data"}, {}]
// SUMS:            return
func.func public @read_from_outside(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<8x8xf32>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %other = stablehlo.negate %p : tensor<8x8xf32>
  %r:2 = stablehlo.while(%i = %c0, %acc = %zero) : tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %h = stablehlo.dot_general %b, %p, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %h, %p, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %n : tensor<i32>, tensor<8x8xf32>
  }
  %new = stablehlo.subtract %p, %r#1 : tensor<8x8xf32>
  return %new, %other : tensor<8x8xf32>, tensor<8x8xf32>
}

// One gather serves what the loop carries and what it reads from outside.
// CHECK-LABEL:   func.func public @carried_and_read_from_outside
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while(%{{.*}} = %{{.*}}, %[[W:.*]] = %arg0,
// CHECK-COUNT-2:     stablehlo.dot_general %{{.*}}, %[[G]],
func.func public @carried_and_read_from_outside(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<16x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %h = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %h, %p, contracting_dims = [1] x [1] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %n = stablehlo.add %acc, %y : tensor<16x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
  }
  return %r#2 : tensor<16x8xf32>
}
