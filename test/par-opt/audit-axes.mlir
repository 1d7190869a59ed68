// The report names the axes of the module's mesh that a collective spans, and parts of axes as Shardy does.
// RUN: %par-opt %s --audit | FileCheck %s
// RUN: %par-opt %s --audit=json | FileCheck %s --check-prefix=JSON

// CHECK:      collective {{ *}}arrays {{ *}}loops {{ *}}group {{ *}}axes {{ *}}source
// CHECK-NEXT: all-reduce {{ *}}f32[16] {{ *}}- {{ *}}4 {{ *}}data {{ *}}audit-axes.mlir:[[#]] all_reduce
// CHECK-NEXT: all-reduce {{ *}}f32[16] {{ *}}- {{ *}}4 {{ *}}replica,data:(1)2 {{ *}}audit-axes.mlir:[[#]] all_reduce
// CHECK:      all-reduce f32[16] outside loops, over data, audit-axes.mlir:
// CHECK:      all-reduce f32[16] outside loops, over replica,data:(1)2, audit-axes.mlir:

// JSON:       "axes": [
// JSON-NEXT:    "data"
// JSON-NEXT:  ],
// JSON:       "axes": [
// JSON-NEXT:    "replica",
// JSON-NEXT:    "data:(1)2"
// JSON-NEXT:  ],

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["replica"=2, "data"=4]>
  func.func public @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"replica", "data"} (%y: tensor<16xf32>) {
      %s = "stablehlo.all_reduce"(%y) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : (tensor<16xf32>) -> tensor<16xf32>
      %t = stablehlo.sqrt %s : tensor<16xf32>
      %u = "stablehlo.all_reduce"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : (tensor<16xf32>) -> tensor<16xf32>
      sdy.return %u : tensor<16xf32>
    } : (tensor<16xf32>) -> tensor<16xf32>
    return %0 : tensor<16xf32>
  }
}
