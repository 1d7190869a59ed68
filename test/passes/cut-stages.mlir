// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1}' | FileCheck %s
// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='cut-stages{stages=4 cuts=costs}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=FOUR
// RUN: %par-opt %s --passes='cut-stages{max-stage-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=SMALL

// The activation crosses once, and its cotangent: the gradient of the second layer is taken where its output is. Rows
// of the batch have no stage. A convert of a sum to its own type is erased: jax makes one where it starts from a number.
// CHECK-LABEL: func.func public @two_layers
// CHECK:         stablehlo.while
// CHECK:         stablehlo.dynamic_slice {{.*}} sizes = [1, 2, 4] : (
// CHECK-NEXT:    stablehlo.reshape %{{[0-9]+}} :
// CHECK-NEXT:    %[[Y:.*]] = stablehlo.dot_general {{.*}}, %arg0, {{.*}}{paropt.stage = "F0"}
// CHECK-NEXT:    %[[O:.*]] = stablehlo.dot_general %[[Y]], %arg1, {{.*}}{paropt.stage = "F1"}
// CHECK-NEXT:    stablehlo.reduce(%[[O]] {{.*}}{paropt.stage = "F1"}
// CHECK-NEXT:    stablehlo.dot_general %[[Y]], %[[O]], {{.*}}{paropt.stage = "B1"}
// CHECK-NEXT:    %[[DY:.*]] = stablehlo.dot_general %[[O]], %arg1, {{.*}}{paropt.stage = "B1"}
// CHECK-NEXT:    stablehlo.dot_general {{.*}}, %[[DY]], {{.*}}{paropt.stage = "B0"}
// CHECK-NEXT:    stablehlo.add {{.*}}{paropt.stage = "B0"}
// CHECK-NEXT:    stablehlo.add {{.*}}{paropt.stage = "B1"}
// CHECK-NEXT:    stablehlo.add {{.*}}{paropt.stage = "F1"}
// CHECK:         stablehlo.subtract %arg0, {{.*}}{paropt.stage = "U0"}
// CHECK-NEXT:    stablehlo.subtract %arg1, {{.*}}{paropt.stage = "U1"}
// REMARK-DAG: [cut-stages] stablehlo.while applied: cut into 2 stages, by costs
// REMARK-DAG: [cut-stages] stablehlo.dot_general applied: stage 0: 1 forward ops (64 FLOP), 1 backward (64), 1 parameters (64 bytes); sends 32 bytes to stage 1
// REMARK-DAG: [cut-stages] stablehlo.dot_general applied: stage 1: 2 forward ops (72 FLOP), 2 backward (128), 1 parameters (64 bytes); sends 32 bytes to stage 0
func.func public @two_layers(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %same = stablehlo.convert %al : tensor<f32>
    %nl = stablehlo.add %same, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// A weight that both layers have: each stage adds its own terms up, and the two sums are added behind the loop.
// CHECK-LABEL: func.func public @tied_weights
// CHECK:         %[[G:.*]]:4 = stablehlo.while({{.*}}, %[[A:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[B:.*]] = %{{.*}}) :
// CHECK:         %[[D2:.*]] = stablehlo.dot_general {{.*}}{paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK:         %[[D1:.*]] = stablehlo.dot_general {{.*}}{paropt.stage = "B0"} : (tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK-NOT:     stablehlo.add %[[D1]]
// CHECK:         %[[N0:.*]] = stablehlo.add %[[A]], %[[D1]] {paropt.stage = "B0"}
// CHECK-NEXT:    %[[N1:.*]] = stablehlo.add %[[B]], %[[D2]] {paropt.stage = "B1"}
// CHECK-NEXT:    stablehlo.return %{{.*}}, %[[N0]], %{{.*}}, %[[N1]]
// CHECK:         %[[SUM:.*]] = stablehlo.add %[[G]]#1, %[[G]]#3 {paropt.stage = "U0"}
// CHECK-NEXT:    stablehlo.subtract %arg0, %[[SUM]] {paropt.stage = "U0"}
// REMARK-DAG: [cut-stages] stablehlo.while applied: cut into 2 stages, by costs; 1 sums in several stages
func.func public @tied_weights(%w: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:3 = stablehlo.while(%i = %i0, %aw = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %d2 = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %d1 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dw = stablehlo.add %d1, %d2 : tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nl : tensor<i32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  return %new_w, %g#2 : tensor<4x4xf32>, tensor<f32>
}

// Each trip writes its own row of an array: the losses of all micro-batches.
// CHECK-LABEL: func.func public @rows_of_losses
// CHECK:         stablehlo.dynamic_update_slice {{.*}}{paropt.stage = "F1"}
func.func public @rows_of_losses(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %zl = stablehlo.constant dense<0.0> : tensor<4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %zl) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %one = stablehlo.reshape %l : (tensor<f32>) -> tensor<1xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.dynamic_update_slice %al, %one, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}

// Legal when: one loop adds something up, and its trip count is known
// CHECK-LABEL: func.func public @two_loops
// CHECK-NOT:     paropt.stage
// REMARK-DAG: [cut-stages] stablehlo.while missed: 2 loops add up: the loop over micro-batches has to be the only one
func.func public @two_loops(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %h:2 = stablehlo.while(%j = %i0, %b = %z) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %j, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %m = stablehlo.add %b, %g#3 : tensor<f32>
    %n = stablehlo.add %j, %i1 : tensor<i32>
    stablehlo.return %n, %m : tensor<i32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %h#1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func public @unknown_trip_count
// CHECK-NOT:     paropt.stage
// REMARK-DAG: [cut-stages] stablehlo.while missed: the trip count is not known
func.func public @unknown_trip_count(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %count: tensor<i32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Legal when: the loop carries sums, and arrays of which each trip writes its own row, and nothing else from trip to trip
// CHECK-LABEL: func.func public @state_between_micro_batches
// CHECK-NOT:     paropt.stage
// REMARK-DAG: cut-stages.mlir:[[# @LINE + 8]]:{{.*}} [cut-stages] stablehlo.while missed: loop-carried value 4, tensor<2x4xf32>, goes from one micro-batch to the next and is no sum (stablehlo.negate at {{.*}}cut-stages.mlir:{{.*}})
func.func public @state_between_micro_batches(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %z24 = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %g:5 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z, %as = %z24) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<2x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y0 = stablehlo.add %x, %as : tensor<2x4xf32>
    %y = stablehlo.dot_general %y0, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %ns = stablehlo.negate %y : tensor<2x4xf32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl, %ns : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<2x4xf32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func public @sum_is_read
// CHECK-NOT:     paropt.stage
// REMARK-DAG: [cut-stages] stablehlo.while missed: loop-carried value 3, tensor<f32>, goes from one micro-batch to the next and is no sum
func.func public @sum_is_read(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %bl = stablehlo.broadcast_in_dim %al, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %dw2 = stablehlo.add %dw, %bl : tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw2 : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Legal when: no op may have side effects, and shapes are static
// CHECK-LABEL: func.func public @side_effect
// CHECK-NOT:     paropt.stage
// REMARK-DAG: [cut-stages] stablehlo.while missed: stablehlo.custom_call may have side effects
// NUMERIC: skip (XLA knows no such custom call)
func.func public @side_effect(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %s = stablehlo.custom_call @note(%l) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Legal when: a sum reaches no new parameter and reads nothing transposed: the loss
// CHECK-LABEL: func.func public @no_loss
// CHECK-NOT:     paropt.stage
// REMARK-DAG: [cut-stages] stablehlo.while missed: the loop adds up no loss: nothing tells forward from backward
func.func public @no_loss(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:3 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v : tensor<4x4xf32>, tensor<4x4xf32>
}

// Legal when: there are as many forward ops as stages
// FOUR: [cut-stages] stablehlo.while missed: 3 forward ops are too few for 4 stages
// CHECK-LABEL: func.func public @few_ops
// CHECK:         paropt.stage
func.func public @few_ops(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Legal when: terms of a sum in several stages are real numbers
// CHECK-LABEL: func.func public @complex_sum
// CHECK-NOT:     paropt.stage
// REMARK-DAG: [cut-stages] stablehlo.while missed: a sum in several stages is of complex numbers
func.func public @complex_sum(%w: tensor<4x4xcomplex<f32>>, %xs: tensor<4x2x4xcomplex<f32>>) -> (tensor<4x4xcomplex<f32>>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<(0.0, 0.0)> : tensor<4x4xcomplex<f32>>
  %g:3 = stablehlo.while(%i = %i0, %aw = %z4, %al = %z) : tensor<i32>, tensor<4x4xcomplex<f32>>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xcomplex<f32>>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xcomplex<f32>>
    %x = stablehlo.reshape %row : (tensor<1x2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
    %o = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<2x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
    %d2 = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xcomplex<f32>>, tensor<2x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
    %dy = stablehlo.dot_general %o, %w, contracting_dims = [1] x [1] : (tensor<2x4xcomplex<f32>>, tensor<4x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
    %d1 = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xcomplex<f32>>, tensor<2x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
    %ro = stablehlo.real %o : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%ro init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dw = stablehlo.add %d1, %d2 : tensor<4x4xcomplex<f32>>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xcomplex<f32>>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nl : tensor<i32>, tensor<4x4xcomplex<f32>>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xcomplex<f32>>
  return %new_w, %g#2 : tensor<4x4xcomplex<f32>>, tensor<f32>
}

// Legal when: some cut has no more than max-stage-bytes of parameters in a stage
// SMALL-DAG: [cut-stages] stablehlo.while missed: no cut into 2 stages has at most 64 bytes of parameters in each
// CHECK-LABEL: func.func public @large_layer
// CHECK:         paropt.stage
func.func public @large_layer(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %b: tensor<2x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y2 = stablehlo.add %y, %b : tensor<2x4xf32>
    %o = stablehlo.dot_general %y2, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y2, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
