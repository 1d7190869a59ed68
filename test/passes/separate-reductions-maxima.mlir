// RUN: %par-opt %s --passes=separate-reductions | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes=separate-reductions,expose-all-reduces --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=ONCE
// RUN: %par-opt %s --passes='separate-reductions{axes=data}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=AXES-REMARK

// Maxima and minima that loops keep for each device.

// Each is told of once.
// ONCE:     [separate-reductions]
// ONCE-NOT: [expose-all-reduces]

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The array has a dimension for the devices that have examples. What each starts from does not matter: a maximum may
// be taken twice of the same.
// CHECK-LABEL:   func.func public @running_maximum(
// CHECK-SAME:      %[[START:[^ ]*]]: tensor<16xf32>)
// CHECK:           %[[NONE:.*]] = stablehlo.constant dense<0xFF800000> : tensor<4x16xf32>
// CHECK-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[NONE]] <@mesh, [{"data"}, {?}]>
// CHECK-NEXT:      %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %[[S]])
// CHECK:             %[[Y:.*]] = stablehlo.reshape %{{.*}} : (tensor<64x16xf32>) -> tensor<4x16x16xf32>
// CHECK-NEXT:        %[[C:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {}, {?}]>
// CHECK-NEXT:        %[[M:.*]] = stablehlo.reduce(%[[C]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [1]
// CHECK-NEXT:        %[[N:.*]] = stablehlo.maximum %[[A]], %[[M]]
// CHECK-NEXT:        %[[K:.*]] = sdy.sharding_constraint %[[N]] <@mesh, [{"data"}, {?}]>
// CHECK:             stablehlo.return %{{.*}}, %[[K]]
// CHECK:           %[[D:.*]] = sdy.sharding_constraint %[[W]]#1 <@mesh, [{"data"}, {?}]>
// CHECK:           %[[R:.*]] = stablehlo.reduce(%[[D]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [0]
// CHECK-NEXT:      %[[L:.*]] = stablehlo.maximum %[[START]], %[[R]]
// CHECK-NEXT:      return %[[L]]
// REMARK-DAG: [separate-reductions] stablehlo.reduce applied: each device keeps its own in the loop: 64 bytes are reduced after it, and not in each trip
func.func public @running_maximum(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
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
    %n = stablehlo.maximum %acc, %m : tensor<16xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16xf32>
  }
  return %w#1 : tensor<16xf32>
}

// CHECK-LABEL:   func.func public @loop_says_where
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %arg1) : tensor<i32>, tensor<16xf32>
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: the loop says how its values are sharded
func.func public @loop_says_where(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
  attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}]>]>}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
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

// Two dimensions, split over two axes.
// CHECK-LABEL:   func.func public @least_of_all
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}) : tensor<i32>, tensor<4x2xi32>
// CHECK:             %[[Y:.*]] = stablehlo.reshape %{{.*}} : (tensor<64x16xi32>) -> tensor<4x16x2x8xi32>
// CHECK-NEXT:        %[[C:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {}, {"model"}, {}]>
// CHECK-NEXT:        stablehlo.reduce(%[[C]] init: %{{.*}}) applies stablehlo.minimum across dimensions = [1, 3]
// CHECK:           stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.minimum across dimensions = [0, 1]
// AXES-REMARK-DAG: [separate-reductions] stablehlo.reduce missed: it is over `data`, `model`, which option axes does not allow
func.func public @least_of_all(%x: tensor<64x16xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %start: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<i32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<i32>) -> tensor<64x16xi32>
    %y = stablehlo.add %x, %ts : tensor<64x16xi32>
    %low = stablehlo.constant dense<2147483647> : tensor<i32>
    %m = stablehlo.reduce(%y init: %low) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<64x16xi32>, tensor<i32>) -> tensor<i32>
    %n = stablehlo.minimum %m, %acc : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// It leaves one loop after the other.
// CHECK-LABEL:   func.func public @in_two_loops
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4x16xf32>
// CHECK:             stablehlo.while({{.*}}) : tensor<i32>, tensor<4x16xf32>
// CHECK:           stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.maximum across dimensions = [0] : (tensor<4x16xf32>, tensor<f32>)
// CHECK:           return
func.func public @in_two_loops(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %v:2 = stablehlo.while(%j = %zero, %a = %acc) : tensor<i32>, tensor<16xf32>
    cond {
      %on = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %on : tensor<i1>
    } do {
      %t = stablehlo.convert %j : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
      %y = stablehlo.add %x, %ts : tensor<64x16xf32>
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %m = stablehlo.reduce(%y init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
      %k = stablehlo.maximum %a, %m : tensor<16xf32>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %k : tensor<i32>, tensor<16xf32>
    }
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<16xf32>
  }
  return %w#1 : tensor<16xf32>
}

// CHECK-LABEL:   func.func public @maximum_of_truth_values
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xi1>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: no identity element is known for a stablehlo.maximum of i1
func.func public @maximum_of_truth_values(%x: tensor<64x16xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xi1>) -> tensor<16xi1> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xi1>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %low = stablehlo.constant dense<false> : tensor<i1>
    %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xi1>, tensor<i1>) -> tensor<16xi1>
    %n = stablehlo.maximum %acc, %m : tensor<16xi1>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16xi1>
  }
  return %w#1 : tensor<16xi1>
}

// CHECK-LABEL:   func.func public @condition_reads_the_maximum
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<i32>
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [separate-reductions] stablehlo.reduce missed: the loop does more with a running maximum or minimum than keep it
func.func public @condition_reads_the_maximum(%x: tensor<64xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}, %start: tensor<i32>) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<i32>
  cond {
    %more = stablehlo.compare LT, %acc, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<i32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<i32>) -> tensor<64xi32>
    %y = stablehlo.add %x, %ts : tensor<64xi32>
    %low = stablehlo.constant dense<-2147483648> : tensor<i32>
    %m = stablehlo.reduce(%y init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<64xi32>, tensor<i32>) -> tensor<i32>
    %n = stablehlo.maximum %acc, %m : tensor<i32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<i32>
  }
  return %w#1 : tensor<i32>
}

// jax converts what the loop carries to its own type, where it starts from a number that Python has, as -jnp.inf.
// CHECK-LABEL:   func.func public @weakly_typed_start(
// CHECK:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}) : tensor<i32>, tensor<4x16xf32>
// CHECK-NOT:         stablehlo.convert
// CHECK:             %[[N:.*]] = stablehlo.maximum %[[A]], %{{.*}} : tensor<4x16xf32>
// CHECK:           stablehlo.reduce(%{{.*}}) applies stablehlo.maximum across dimensions = [0]
func.func public @weakly_typed_start(%x: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<16xf32>) -> tensor<16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<64x16xf32>, tensor<f32>) -> tensor<16xf32>
    %a = stablehlo.convert %acc : tensor<16xf32>
    %n = stablehlo.maximum %a, %m : tensor<16xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %n : tensor<i32>, tensor<16xf32>
  }
  return %w#1 : tensor<16xf32>
}
