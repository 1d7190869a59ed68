// RUN: %par-opt %s --passes=pipeline-layer-loop --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=pipeline-layer-loop --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["stage"=2, "data"=4]>

// Legal when: one loop adds something up, and counts its trips from 0 in i32, a known number of times
// CHECK-LABEL: func.func public @unknown_micro_batches
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: the trip count is not known
func.func public @unknown_micro_batches(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>, %n: tensor<i32>) -> (tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %g:2 = stablehlo.while(%m = %i0, %s = %z) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
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

// Legal when: one loop adds something up, and counts its trips from 0 in i32, a known number of times
// CHECK-LABEL: func.func public @from_one
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: the loop does not count its trips from 0, in i32
func.func public @from_one(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %g:2 = stablehlo.while(%m = %i1, %s = %z) : tensor<i32>, tensor<f32>
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

// Legal when: one loop adds something up, and counts its trips from 0 in i32, a known number of times
// CHECK-LABEL: func.func public @two_loops
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: 2 loops add up: the loop over micro-batches has to be the only one
func.func public @two_loops(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
  %g2:2 = stablehlo.while(%m = %i0, %s = %g#1) : tensor<i32>, tensor<f32>
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
  return %g2#1 : tensor<f32>
}

// Legal when: it carries sums, and arrays of which each trip writes its own row, and nothing else from trip to trip
// CHECK-LABEL: func.func public @running_value
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: loop-carried value 2, tensor<f32>, goes from one micro-batch to the next and is no sum
func.func public @running_value(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %g:3 = stablehlo.while(%m = %i0, %s = %z, %k = %z) : tensor<i32>, tensor<f32>, tensor<f32>
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
    %nk = stablehlo.maximum %k, %l : tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns, %nk : tensor<i32>, tensor<f32>, tensor<f32>
  }
  return %g#1, %g#2 : tensor<f32>, tensor<f32>
}

// Legal when: its ops have no side effects, and shapes are static
// CHECK-LABEL: func.func public @side_effect
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: stablehlo.custom_call may have side effects
// NUMERIC: skip (XLA has no custom call of this name)
func.func public @side_effect(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %cc = "stablehlo.custom_call"(%x) {call_target_name = "seen", has_side_effect = true} : (tensor<2x4xf32>) -> tensor<2x4xf32>
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

// Legal when: it holds no collectives, and no computations of single devices
// CHECK-LABEL: func.func public @single_devices
// CHECK-NOT:     collective_permute
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: it holds what each device does by itself (sdy.manual_computation at
func.func public @single_devices(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %own = sdy.manual_computation(%f#1) in_shardings=[<@mesh, [{}, {"data"}]>] out_shardings=[<@mesh, [{}, {"data"}]>] manual_axes={"data"} (%p: tensor<2x1xf32>) {
      %q = stablehlo.negate %p : tensor<2x1xf32>
      sdy.return %q : tensor<2x1xf32>
    } : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %l2 = stablehlo.reduce(%own init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l2 : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// Legal when: a loop in it takes a row of an array of parameters in each trip
// CHECK-LABEL: func.func public @the_same_row
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: no loop in it takes a row of an array of parameters in each trip: no loop over layers
func.func public @the_same_row(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
      %w1 = stablehlo.dynamic_slice %ws, %i0, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
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

// Legal when: its trips are a multiple of the stages (of all chunks, in a circular pipeline), and arrays have a row for each
// CHECK-LABEL: func.func public @three_layers
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: 3 layers are no multiple of 2, the size of `stage`
func.func public @three_layers(%ws: tensor<3x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
      %c = stablehlo.compare LT, %i, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<3x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
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

// Legal when: its trips are a multiple of the stages (of all chunks, in a circular pipeline), and arrays have a row for each
// CHECK-LABEL: func.func public @more_rows
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: an array has another number of rows than the loop has trips
func.func public @more_rows(%ws: tensor<6x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<6x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
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

// Legal when: loops within a layer have known trip counts
// CHECK-LABEL: func.func public @loop_in_a_layer
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: a loop in a layer might not end on values that no micro-batch has (stablehlo.while at
func.func public @loop_in_a_layer(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
      %in:2 = stablehlo.while(%u = %nh, %j = %z) : tensor<2x4xf32>, tensor<f32>
      cond {
        %q = stablehlo.compare LT, %j, %j : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %q : tensor<i1>
      } do {
        %nu = stablehlo.negate %u : tensor<2x4xf32>
        %nj = stablehlo.reduce(%nu init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
        stablehlo.return %nu, %nj : tensor<2x4xf32>, tensor<f32>
      }
      %nh2 = stablehlo.negate %in#0 : tensor<2x4xf32>
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

// Legal when: what layers hand on, and the terms of sums that they make, are floats or integers
// CHECK-LABEL: func.func public @truth_values
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: layers make a value of i1, which no sum over devices sends (stablehlo.while at
func.func public @truth_values(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %zx = stablehlo.constant dense<0.0> : tensor<2x4xf32>
    %xb = stablehlo.compare GT, %x, %zx : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
    %f:2 = stablehlo.while(%i = %i0, %h = %xb) : tensor<i32>, tensor<2x4xi1>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %w2 = stablehlo.slice %w [0:2, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
      %wb = stablehlo.compare GT, %w2, %zx : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
      %nh = stablehlo.xor %h, %wb : tensor<2x4xi1>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh : tensor<i32>, tensor<2x4xi1>
    }
    %yf = stablehlo.convert %f#1 : (tensor<2x4xi1>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%yf init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}

// Legal when: what layers hand on, and the terms of sums that they make, are floats or integers
// CHECK-LABEL: func.func public @complex_sum
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: a sum of complex<f32> cannot be masked (stablehlo.while at
func.func public @complex_sum(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>, tensor<4x2x4xcomplex<f32>>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zh = stablehlo.constant dense<(0.0,0.0)> : tensor<4x2x4xcomplex<f32>>
  %g:3 = stablehlo.while(%m = %i0, %s = %z, %a = %zh) : tensor<i32>, tensor<f32>, tensor<4x2x4xcomplex<f32>>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<3x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i0, %h = %x, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xcomplex<f32>>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.reshape %h : (tensor<2x4xf32>) -> tensor<1x2x4xf32>
      %r1 = stablehlo.complex %h1, %h1 : tensor<1x2x4xcomplex<f32>>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nhs = stablehlo.dynamic_update_slice %hs, %r1, %i, %i0, %i0 : (tensor<4x2x4xcomplex<f32>>, tensor<1x2x4xcomplex<f32>>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x4xcomplex<f32>>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xcomplex<f32>>
    }
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %na = stablehlo.add %a, %f#2 : tensor<4x2x4xcomplex<f32>>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns, %na : tensor<i32>, tensor<f32>, tensor<4x2x4xcomplex<f32>>
  }
  return %g#1, %g#2 : tensor<f32>, tensor<4x2x4xcomplex<f32>>
}

// Legal when: all rows of what layers write are read by other layers only row by row
// CHECK-LABEL: func.func public @rows_of_others
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: it reads what other layers have written (stablehlo.while at
func.func public @rows_of_others(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
    %o:2 = stablehlo.while(%i = %i0, %h = %f#1) : tensor<i32>, tensor<2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %most = stablehlo.reduce(%f#2 init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<4x2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
      %nh2 = stablehlo.add %nh, %most : tensor<2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh2 : tensor<i32>, tensor<2x4xf32>
    }
    %l = stablehlo.reduce(%o#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns : tensor<i32>, tensor<f32>
  }
  return %g#1 : tensor<f32>
}
