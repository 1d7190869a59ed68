// A plan weighs bytes by the slowest axis that they cross: gathers over `data` save most for each byte, unless `replica` is slow.
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=40000}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=EQUAL
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=40000 link-cost=replica:8}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=SLOW
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=40000 link-cost=replica:8,data:8}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=BOTH

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// EQUAL: [hoist-gathers] builtin.module applied: 24576 bytes of a budget of 40000 are held: 24576 for 1 parameter gathered once, which saves 73728{{$}}
// EQUAL: 1 parameter is gathered over data before the loop
// SLOW: [hoist-gathers] builtin.module applied: 32768 bytes of a budget of 40000 are held: 32768 for 1 parameter gathered once, which saves 98304; a byte costs 8 over replica{{$}}
// SLOW: 1 parameter is gathered over replica before the loop
// BOTH: which saves 73728; a byte costs 8 over replica, 8 over data{{$}}
// BOTH: 1 parameter is gathered over data before the loop
func.func public @links(%p: tensor<64x64xf32>, %q: tensor<24x64xf32>, %x: tensor<4x128xf32>, %y: tensor<4x96xf32>) -> tensor<4x64xf32> {
  %r = sdy.manual_computation(%p, %q, %x, %y) in_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"replica", "data"} (%a: tensor<64x64xf32>, %b: tensor<24x64xf32>, %v: tensor<4x128xf32>, %w: tensor<4x96xf32>) {
    %c0 = stablehlo.constant dense<0> : tensor<i32>
    %c1 = stablehlo.constant dense<1> : tensor<i32>
    %trips = stablehlo.constant dense<4> : tensor<i32>
    %zero = stablehlo.constant dense<0.0> : tensor<4x64xf32>
    %l:2 = stablehlo.while(%i = %c0, %acc = %zero) : tensor<i32>, tensor<4x64xf32> cond {
      %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %j = stablehlo.add %i, %c1 : tensor<i32>
      %slow = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> : (tensor<64x64xf32>) -> tensor<128x64xf32>
      %fast = "stablehlo.all_gather"(%b) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> : (tensor<24x64xf32>) -> tensor<96x64xf32>
      %d = stablehlo.dot_general %v, %slow, contracting_dims = [1] x [0] : (tensor<4x128xf32>, tensor<128x64xf32>) -> tensor<4x64xf32>
      %e = stablehlo.dot_general %w, %fast, contracting_dims = [1] x [0] : (tensor<4x96xf32>, tensor<96x64xf32>) -> tensor<4x64xf32>
      %s = stablehlo.add %d, %e : tensor<4x64xf32>
      %n = stablehlo.add %acc, %s : tensor<4x64xf32>
      stablehlo.return %j, %n : tensor<i32>, tensor<4x64xf32>
    }
    sdy.return %l#1 : tensor<4x64xf32>
  } : (tensor<64x64xf32>, tensor<24x64xf32>, tensor<4x128xf32>, tensor<4x96xf32>) -> tensor<4x64xf32>
  return %r : tensor<4x64xf32>
}
