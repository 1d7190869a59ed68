// RUN: %par-opt %s --passes=grad-sync | FileCheck %s
// RUN: %par-opt %s --passes=grad-sync --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What a block under shard_map reduces in each trip leaves the block and the loop. What else it reduces stays, with a
// remark of its own.
// CHECK-LABEL: func.func public @block_in_a_loop
// CHECK:         } do {
// CHECK-NEXT:      %[[M:.*]]:2 = sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}], unreduced={"data"}>, <@mesh, [{}]>]
// CHECK:             "stablehlo.all_reduce"
// CHECK:             }) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             sdy.return
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[M]]#0 <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[S:.*]] = stablehlo.add %{{.*}}, %[[U]]
// CHECK-NEXT:      sdy.sharding_constraint %[[S]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:           stablehlo.return
// CHECK:         %[[W:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:    sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// REMARK:      [defer-sync] sdy.all_reduce applied: 64 bytes per device, now reduced after the loop and not 4 times in it
// REMARK-NEXT: stablehlo.all_reduce missed: the reduction is in a region within the body that is no branch
// REMARK-NOT:  remark
func.func public @block_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %nones = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %top = %nones) : tensor<i32>, tensor<4x4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m:2 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
      %start = stablehlo.constant dense<0.0> : tensor<f32>
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = stablehlo.reduce(%a init: %start) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
      %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = "stablehlo.all_reduce"(%h) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      %u = stablehlo.abs %t : tensor<4xf32>
      sdy.return %r, %u : tensor<4x4xf32>, tensor<4xf32>
    } : (tensor<16x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>)
    %n = stablehlo.add %acc, %m#0 : tensor<4x4xf32>
    %v = stablehlo.add %top, %m#1 : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %n, %v : tensor<i32>, tensor<4x4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4x4xf32>, tensor<4xf32>
}
