// Running maxima and minima.

// RUN: %par-opt %s --passes=separate-reductions --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: it is of a type with an identity element, and the loop only keeps it
// CHECK-LABEL:   func.func public @running_maximum_that_is_read
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: the loop does more with a running maximum or minimum than keep it
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

// Legal when: its examples are sharded into equal parts, over whole axes of the mesh
// CHECK-LABEL:   func.func public @maximum_of_unequal_parts
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: it is sharded into unequal parts, or over a part of an axis
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
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: in one trip it is taken over devices once, as after it
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

// Legal when: it is outside of manual computations
// CHECK-LABEL:   func.func public @maximum_in_a_manual_computation
// CHECK:             stablehlo.while(%{{.*}}) : tensor<i32>, tensor<16xf32>
// CHECK:               stablehlo.reduce({{.*}}) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: a reduce applies stablehlo.maximum, and only a sum is linear
func.func public @maximum_in_a_manual_computation(%xs: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<32xf32> {
  %m = sdy.manual_computation(%xs) in_shardings=[<@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{"model", ?}]>] manual_axes={"model"} (%x: tensor<64x16xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %start = stablehlo.constant dense<0.0> : tensor<16xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
      %n = stablehlo.maximum %acc, %g : tensor<16xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %n : tensor<i32>, tensor<16xf32>
    }
    sdy.return %w#1 : tensor<16xf32>
  } : (tensor<64x16xf32>) -> tensor<32xf32>
  return %m : tensor<32xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What the convert makes of it is read by another op, too.
// CHECK-LABEL:   func.func public @weakly_typed_start_that_is_read(
// CHECK:           stablehlo.while(%{{.*}}) : tensor<i32>, tensor<16xf32>, tensor<16xf32>
// CHECK:             stablehlo.reduce({{.*}}) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
// REMARK-DAG: separate-reductions-maxima-declined.mlir:141:{{[0-9]+}}: remark: [separate-reductions] stablehlo.reduce missed: the loop does more with a running maximum or minimum than keep it
func.func public @weakly_typed_start_that_is_read(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %start, %b = %start) : tensor<i32>, tensor<16xf32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
    %a = stablehlo.convert %acc : tensor<16xf32>
    %n = stablehlo.maximum %a, %m : tensor<16xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %r = stablehlo.add %b, %a : tensor<16xf32>
    stablehlo.return %j, %n, %r : tensor<i32>, tensor<16xf32>, tensor<16xf32>
  }
  return %w#1, %w#2 : tensor<16xf32>, tensor<16xf32>
}
