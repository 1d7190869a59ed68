// A sum whose start is sharded otherwise than XLA alone would shard it, in a program for all devices.
// RUN: %par-opt %s --passes='inline-calls,expose-all-reduces,fuse-all-reduces,defer-sync{accumulate-dtype=f32},annotate-unreduced' | FileCheck %s

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The start is added in f32, and the sum lies as XLA alone would have it; no note of a pass stays.
// CHECK-LABEL:   func.func public @main
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           %[[ADD:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<2x2xf32>
// CHECK-NEXT:      %[[PIN:.*]] = sdy.sharding_constraint %[[ADD]] <@mesh, [{}, {"model"}]> : tensor<2x2xf32>
// CHECK-NOT:       paropt.
// CHECK:           return
func.func public @main(%x: tensor<4x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<2x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %start: tensor<2x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> (tensor<2x2xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %l:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<2x2xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x2xbf16>, tensor<2x2xbf16>) -> tensor<4x2xbf16>
    %g = stablehlo.dot_general %x, %h, contracting_dims = [0] x [0] : (tensor<4x2xbf16>, tensor<4x2xbf16>) -> tensor<2x2xbf16>
    %n = stablehlo.add %acc, %g : tensor<2x2xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2x2xbf16>
  }
  return %l#1 : tensor<2x2xbf16>
}
