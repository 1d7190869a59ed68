// Reduce_scatters that XLA:TPU would sink out of their loop, and those that a loop over layers keeps.

// RUN: %par-opt %s --passes=expose-all-reduces | FileCheck %s --check-prefixes=CHECK,WRITTEN
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=outermost}' | FileCheck %s --check-prefixes=CHECK,OUTERMOST
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=outermost}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Beside the frozen parameters, whole sums are few: less than a fiftieth of the bytes of all arguments.
// CHECK-LABEL:   func.func public @outermost(
// CHECK:           stablehlo.while
// CHECK:             sdy.reduce_scatter
// CHECK:           return
func.func public @outermost(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %frozen: tensor<128x128xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32> cond {
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

// The gradients of layers are stacked: XLA:TPU makes one reduce_scatter of all in a trip, unless they are written.
// CHECK-LABEL:   func.func public @of_layers(
// CHECK:           stablehlo.while
// WRITTEN:           sdy.reduce_scatter
// OUTERMOST-NOT:     sdy.reduce_scatter
// CHECK:           return
func.func public @of_layers(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<3x4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x4x4xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %layers:2 = stablehlo.while(%k = %zero, %stack = %none) : tensor<i32>, tensor<3x4x4xf32> cond {
      %more = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
      %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
      %row = stablehlo.reshape %c : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %put = stablehlo.dynamic_update_slice %stack, %row, %k, %zero, %zero : (tensor<3x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x4xf32>
      %k_next = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %k_next, %put : tensor<i32>, tensor<3x4x4xf32>
    }
    %n = stablehlo.add %acc, %layers#1 : tensor<3x4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x4x4xf32>
  }
  return %w#1 : tensor<3x4x4xf32>
}

// Over "model" it is reduced once, after the loop: what is left in each trip, XLA:TPU may all_reduce. It scatters the
// outermost dimension in each layout: so the transpose, which alone reads the sum, comes first.
// CHECK-LABEL:   func.func public @split_layers(
// CHECK:           stablehlo.while
// CHECK:             %[[SUM:.*]] = stablehlo.dot_general
// CHECK:             %[[OPEN:.*]] = sdy.sharding_constraint %[[SUM]] <@mesh, [{}, {}], unreduced={"data", "model"}>
// CHECK:             %[[TURNED:.*]] = stablehlo.transpose %[[OPEN]]
// CHECK:             sdy.reduce_scatter [{"data"}, {}] %[[TURNED]] out_sharding=<@mesh, [{"data"}, {}]>
// CHECK:           return
func.func public @split_layers(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> tensor<3x8x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x8x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x8x4xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %layers:2 = stablehlo.while(%k = %zero, %stack = %none) : tensor<i32>, tensor<3x8x4xf32> cond {
      %more = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
      %turned = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %c = sdy.sharding_constraint %turned <@mesh, [{"data"}, {}]> : tensor<8x4xf32>
      %row = stablehlo.reshape %c : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
      %put = stablehlo.dynamic_update_slice %stack, %row, %k, %zero, %zero : (tensor<3x8x4xf32>, tensor<1x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x4xf32>
      %k_next = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %k_next, %put : tensor<i32>, tensor<3x8x4xf32>
    }
    %n = stablehlo.add %acc, %layers#1 : tensor<3x8x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x8x4xf32>
  }
  return %w#1 : tensor<3x8x4xf32>
}

// The transpose puts the dimension that is split last: the sum is scattered before it.
// CHECK-LABEL:   func.func public @split_last(
// CHECK:           stablehlo.while
// CHECK:             %[[SUM:.*]] = stablehlo.dot_general
// CHECK:             %[[OPEN:.*]] = sdy.sharding_constraint %[[SUM]] <@mesh, [{}, {}], unreduced={"data", "model"}>
// CHECK:             sdy.reduce_scatter [{"data"}, {}] %[[OPEN]]
// CHECK:           return
func.func public @split_last(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> tensor<8x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8x4xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %turned = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %c = sdy.sharding_constraint %turned <@mesh, [{}, {"data"}]> : tensor<8x4xf32>
    %n = stablehlo.add %acc, %c : tensor<8x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<8x4xf32>
  }
  return %w#1 : tensor<8x4xf32>
}

// No loop is around that over layers: XLA:TPU sinks nothing out of it.
// CHECK-LABEL:   func.func public @layers_without_micro_batches(
// CHECK:           stablehlo.while
// WRITTEN:           sdy.reduce_scatter
// OUTERMOST-NOT:     sdy.reduce_scatter
// CHECK:           return
func.func public @layers_without_micro_batches(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<3x4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x4x4xf32>
  %layers:2 = stablehlo.while(%k = %zero, %stack = %none) : tensor<i32>, tensor<3x4x4xf32> cond {
    %more = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %row = stablehlo.reshape %c : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %put = stablehlo.dynamic_update_slice %stack, %row, %k, %zero, %zero : (tensor<3x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x4xf32>
    %k_next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %k_next, %put : tensor<i32>, tensor<3x4x4xf32>
  }
  return %layers#1 : tensor<3x4x4xf32>
}

// Worth it when: another axis takes fewer bytes out of loops than they reduce over it, where XLA:TPU would combine what is left (option `scatters`)
// REMARK: [expose-all-reduces] stablehlo.dot_general missed: a loop over layers reduces it in as many bytes as could be after it, and XLA:TPU combines its reduce_scatters
// CHECK-LABEL:   func.func public @split_layers_without_micro_batches(
// CHECK:           stablehlo.while
// WRITTEN:           unreduced={"data", "model"}
// WRITTEN:           sdy.reduce_scatter
// OUTERMOST-NOT:     unreduced
// OUTERMOST-NOT:     sdy.reduce_scatter
// CHECK:           return
func.func public @split_layers_without_micro_batches(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> tensor<3x4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x4x4xf32>
  %layers:2 = stablehlo.while(%k = %zero, %stack = %none) : tensor<i32>, tensor<3x4x4xf32> cond {
    %more = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x4xf32>
    %row = stablehlo.reshape %c : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
    %put = stablehlo.dynamic_update_slice %stack, %row, %k, %zero, %zero : (tensor<3x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x4xf32>
    %k_next = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %k_next, %put : tensor<i32>, tensor<3x4x4xf32>
  }
  return %layers#1 : tensor<3x4x4xf32>
}
