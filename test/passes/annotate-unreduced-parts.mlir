// Parts that are cut, joined or moved.

// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Legal when: parts are cut or joined, and not moved to other devices (XLA would add wrong parts)
// CHECK-LABEL:   func.func public @parts_moved(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.transpose missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @parts_moved(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"fsdp", "tensor"}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Cut in one dimension, and put together in another: each device needs a part of another.
// CHECK-LABEL:   func.func public @parts_exchanged(
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.transpose missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @parts_exchanged(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Each device cuts a part out of its own.
// CHECK-LABEL:   func.func public @parts_cut(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"tensor", "fsdp"}], unreduced={"data"}>
func.func public @parts_cut(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"tensor", "fsdp"}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Devices that hold addends of the same put their parts together.
// CHECK-LABEL:   func.func public @parts_together(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"tensor"}], unreduced={"data"}>
func.func public @parts_together(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor", "fsdp"}, {}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.transpose %u, dims = [1, 0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"tensor"}]>]} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// What a loop carries is split otherwise than what the body makes.
// CHECK-LABEL:   func.func public @carried_elsewhere(
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.return missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @carried_elsewhere(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %i = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%k = %i, %acc = %z) : tensor<i32>, tensor<8xf32> attributes {paropt.shardings = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"fsdp", "tensor"}]>]}
  cond {
    %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<8xf32>
    %a = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}]>]} : tensor<8xf32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %m, %a : tensor<i32>, tensor<8xf32>
  }
  %v = sdy.all_reduce {"data"} %r#1 out_sharding=<@mesh, [{?}]> : tensor<8xf32>
  return %v : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// A reshape takes the axes along with what they split.
// CHECK-LABEL:   func.func public @reshaped(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{"fsdp"}, {"tensor"}], unreduced={"data"}>
func.func public @reshaped(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<2x4xf32> {
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"fsdp", "tensor"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<8xf32>
  %t = stablehlo.reshape %u {paropt.shardings = [#sdy.sharding<@mesh, [{"fsdp"}, {"tensor"}]>]} : (tensor<8xf32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// The two dimensions change places, and so would their parts.
// CHECK-LABEL:   func.func public @reshaped_elsewhere(
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.reshape missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @reshaped_elsewhere(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<2x4xf32> {
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.reduce(%x init: %f) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"fsdp", "tensor"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<8xf32>
  %t = stablehlo.reshape %u {paropt.shardings = [#sdy.sharding<@mesh, [{"tensor"}, {"fsdp"}]>]} : (tensor<8xf32>) -> tensor<2x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<2x4xf32>
  return %v : tensor<2x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// A reduction of zeros is reverted. Whether it stands there or not, what it returns is zero.
// CHECK-LABEL:   func.func public @zeros_of_a_reverted_reduction(
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}>
// CHECK:           %[[Z:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[T:.*]] = stablehlo.add %[[U]], %[[Z]]
// CHECK-NEXT:      sdy.sharding_constraint %[[T]] <@mesh, [{}, {}], unreduced={"data"}>
// REMARK-DAG: [annotate-unreduced] stablehlo.slice missed: an unreduced value is sharded into unequal parts
func.func public @zeros_of_a_reverted_reduction(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<3x4xf32>) {
  %f = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %u = sdy.sharding_constraint %f <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %n = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : tensor<4x4xf32>
  %s = stablehlo.slice %n [0:3, 0:4] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<4x4xf32>) -> tensor<3x4xf32>
  %z = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %w = sdy.all_reduce {"data"} %s out_sharding=<@mesh, [{?}, {?}]> : tensor<3x4xf32>
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %v = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.add %v, %z : tensor<4x4xf32>
  %r = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %r, %w : tensor<4x4xf32>, tensor<3x4xf32>
}
