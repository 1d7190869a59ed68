// RUN: %par-opt %s --passes=pipeline-layer-loop --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=pipeline-layer-loop --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["stage"=2, "data"=4]>

// Legal when: what reaches the loop is not sharded over the axis, but arrays of layers in their first dimension
// CHECK-LABEL: func.func public @batch_over_the_axis
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: argument 1 is sharded over `stage`, otherwise than by layers
func.func public @batch_over_the_axis(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"stage"}, {}]>}) -> (tensor<f32>) {
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
    %f:2 = stablehlo.while(%i = %i0, %h = %x) : tensor<i32>, tensor<2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// Legal when: nothing in the loop is sharded over the axis, or left unreduced
// CHECK-LABEL: func.func public @constrained
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: `stage` shards a value in the loop (sdy.sharding_constraint at
func.func public @constrained(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %xc = sdy.sharding_constraint %x <@mesh, [{"stage", ?}, {?}]> : tensor<2x4xf32>
    %f:2 = stablehlo.while(%i = %i0, %h = %xc) : tensor<i32>, tensor<2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// Legal when: nothing in the loop is sharded over the axis, or left unreduced
// CHECK-LABEL: func.func public @unreduced
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: a value in the loop is left unreduced: do that after this pass (sdy.sharding_constraint at
// NUMERIC: skip (nothing makes an addend of it on each device)
func.func public @unreduced(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %xc = sdy.sharding_constraint %x <@mesh, [{}, {}], unreduced={"data"}> : tensor<2x4xf32>
    %f:2 = stablehlo.while(%i = %i0, %h = %xc) : tensor<i32>, tensor<2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// Worth it when: what other ops read of all layers is no more than what a layer hands on, because it is all-gathered
// CHECK-LABEL: func.func public @norm_of_all_layers
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: stablehlo.reduce reads 128 bytes of all layers; each hands 32 bytes on to the next (stablehlo.reduce at
func.func public @norm_of_all_layers(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:2 = stablehlo.while(%m = %i0, %s = %z) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<3x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i0, %h = %x, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.reshape %h : (tensor<2x4xf32>) -> tensor<1x2x4xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nhs = stablehlo.dynamic_update_slice %hs, %h1, %i, %i0, %i0 : (tensor<4x2x4xf32>, tensor<1x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    }
    %l = stablehlo.reduce(%f#2 init: %z) applies stablehlo.maximum across dimensions = [0, 1, 2] : (tensor<4x2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// -----

sdy.mesh @mesh = <["stage"=1, "data"=8]>

// Legal when: one mesh has the axis, with two devices or more, and there is one replica
// CHECK-LABEL: func.func public @one_device
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: `stage` has one device: there is nothing to divide
func.func public @one_device(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %f:2 = stablehlo.while(%i = %i0, %h = %x) : tensor<i32>, tensor<2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// -----

// Legal when: one mesh has the axis, with two devices or more, and there is one replica
// CHECK-LABEL: func.func public @no_mesh
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: 0 meshes of the module have an axis `stage`
func.func public @no_mesh(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %f:2 = stablehlo.while(%i = %i0, %h = %x) : tensor<i32>, tensor<2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// -----

module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 4 : i32} {
sdy.mesh @mesh = <["stage"=2, "data"=2]>

// Legal when: one mesh has the axis, with two devices or more, and there is one replica
// CHECK-LABEL: func.func public @replicas
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: the module is for several replicas
// NUMERIC: skip (it is run as one replica)
func.func public @replicas(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %f:2 = stablehlo.while(%i = %i0, %h = %x) : tensor<i32>, tensor<2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}
}
