// RUN: %par-opt %s --passes='pipeline-layer-loop{axis=data}' | FileCheck %s
// RUN: %par-opt %s --passes='pipeline-layer-loop{axis=stage,data}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=TWO

sdy.mesh @mesh = <["stage"=2, "data"=4]>

// The axis along which stages are is an option. The devices of a group are those that differ in it alone. What a layer
// reads of the number of layers, of an array that it takes rows of, and of a row that crosses twice, comes with it.
// CHECK-LABEL: func.func public @other_axis
// CHECK:         manual_axes={"data"}
// CHECK:           constant dense<6>
// CHECK:           source_target_pairs = dense<{{.}}[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]>
// CHECK:           replica_groups = dense<{{.}}[0, 1, 2, 3], [4, 5, 6, 7]]>
// TWO: [pipeline-layer-loop] stablehlo.while missed: stages are along one axis of the mesh, not 2
func.func public @other_axis(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %g:2 = stablehlo.while(%m = %i0, %s = %z) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<3x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %p:2 = stablehlo.while(%i = %i0, %h = %x) : tensor<i32>, tensor<2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh : tensor<i32>, tensor<2x4xf32>
    }
    %pf = stablehlo.convert %p#0 : (tensor<i32>) -> tensor<f32>
    %pb = stablehlo.broadcast_in_dim %pf, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %sg = stablehlo.sign %p#1 : tensor<2x4xf32>
    %e = stablehlo.dot_general %sg, %pb, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %ee = stablehlo.dot_general %sg, %e, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %es = stablehlo.broadcast_in_dim %ee, dims = [1, 2] : (tensor<4x4xf32>) -> tensor<4x4x4xf32>
    %e0 = stablehlo.slice %es [0:1, 0:2, 0:4] : (tensor<4x4x4xf32>) -> tensor<1x2x4xf32>
    %e2 = stablehlo.sign %e0 : tensor<1x2x4xf32>
    %e1 = stablehlo.reshape %e2 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:2 = stablehlo.while(%i = %i0, %h = %e1) : tensor<i32>, tensor<2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %v1 = stablehlo.dynamic_slice %es, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %v = stablehlo.reshape %v1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %v0 = stablehlo.slice %v [0:2, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
      %s0 = stablehlo.sign %v0 : tensor<2x4xf32>
      %nh2 = stablehlo.subtract %nh, %s0 : tensor<2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh2 : tensor<i32>, tensor<2x4xf32>
    }
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}
