// A program that reduces, and has no loop: told once, of all of it.
// RUN: %par-opt %s --passes=expose-all-reduces,defer-sync --remarks 2>&1 >/dev/null | FileCheck %s
// RUN: %par-opt %s --passes=grad-sync --remarks 2>&1 >/dev/null | FileCheck %s

sdy.mesh @mesh = <["data"=8]>

// CHECK: [defer-sync] builtin.module missed: 2 arrays are reduced in each call, 48 bytes per device, which no loop repeats: a reduction cannot leave a call. Where an update takes several calls, a loop over the micro-batches in one program, or paropt.accumulate(compute_grad=..., apply_grad=..., microbatches=...), reduces gradients once per update
// CHECK-NOT: nothing to synchronise
func.func public @norm_in_each_call(%w: tensor<4xf32>, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4xf32>, tensor<8xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
  %n = stablehlo.abs %a : tensor<4xf32>
  %m = stablehlo.abs %b : tensor<8xf32>
  return %n, %m : tensor<4xf32>, tensor<8xf32>
}
