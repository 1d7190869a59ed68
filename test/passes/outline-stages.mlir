// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1},outline-stages' | FileCheck %s
// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1},outline-stages{weights=apart}' | FileCheck %s --check-prefix=APART
// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1},outline-stages' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// One function for each stage and phase. Rows of the batch are taken by a function of their own; a stage without a
// part of it has none. Each sum starts where it is added up.
// CHECK-LABEL: func.func public @two_layers
// CHECK-SAME:    arguments = ["argument0", "row0"], kind = "forward", results = ["value0"], stage = 0 : i64, symbol = @two_layers_forward_0
// CHECK-SAME:    arguments = ["argument1", "value0", "carried2"], kind = "forward", results = ["value1", "carried2"], stage = 1 : i64, symbol = @two_layers_forward_1
// CHECK-SAME:    arguments = ["argument1", "value0", "value1", "carried1"], kind = "backward", results = ["value2", "carried1"], stage = 1 : i64, symbol = @two_layers_backward_1
// CHECK-SAME:    arguments = ["row0", "value2", "carried0"], kind = "backward", results = ["carried0"], stage = 0 : i64, symbol = @two_layers_backward_0
// CHECK-SAME:    results = ["update0", "update1", "carried2"], shares = {}, states = [array<i64: 0, 0>, array<i64: 1, 1>], sums = ["carried0", "carried1", "carried2"], trips = array<i64: 0, 4, 1>
// CHECK:         %[[W:.*]] = call @two_layers_init_0()
// CHECK:         %[[V:.*]]:2 = call @two_layers_init_1()
// CHECK:         %[[G:.*]]:4 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[AW:.*]] = %[[W]], %[[AV:.*]] = %[[V]]#0, %[[AL:.*]] = %[[V]]#1)
// CHECK:           %[[X:.*]] = func.call @two_layers_rows_0(%arg2, %[[I]])
// CHECK-NEXT:      %[[Y:.*]] = func.call @two_layers_forward_0(%arg0, %[[X]])
// CHECK-NEXT:      %[[O:.*]]:2 = func.call @two_layers_forward_1(%arg1, %[[Y]], %[[AL]])
// CHECK-NEXT:      %[[DY:.*]]:2 = func.call @two_layers_backward_1(%arg1, %[[Y]], %[[O]]#0, %[[AV]])
// CHECK-NEXT:      %[[N:.*]] = func.call @two_layers_backward_0(%[[X]], %[[DY]]#0, %[[AW]])
// CHECK:           stablehlo.return %{{.*}}, %[[N]], %[[DY]]#1, %[[O]]#1
// CHECK:         %[[NW:.*]] = call @two_layers_update_0(%arg0, %[[G]]#1)
// CHECK:         %[[NV:.*]] = call @two_layers_update_1(%arg1, %[[G]]#2)
// CHECK:         return %[[NW]], %[[NV]], %[[G]]#3
// CHECK:         func.func private @two_layers_init_0() -> tensor<4x4xf32>
// CHECK:         func.func private @two_layers_rows_0
// CHECK:           stablehlo.dynamic_slice
// CHECK:         func.func private @two_layers_forward_0
// CHECK-COUNT-1:   stablehlo.dot_general
// CHECK:         func.func private @two_layers_forward_1
// CHECK:           stablehlo.dot_general
// CHECK-NEXT:      stablehlo.constant
// CHECK-NEXT:      stablehlo.reduce({{.*}} : (
// CHECK-NEXT:      stablehlo.add
// CHECK:         func.func private @two_layers_backward_1
// CHECK-COUNT-2:   stablehlo.dot_general
// CHECK:         func.func private @two_layers_backward_0
// CHECK-COUNT-1:   stablehlo.dot_general
// CHECK:         func.func private @two_layers_update_0
// CHECK-NEXT:      stablehlo.subtract
// APART-LABEL: func.func public @two_layers
// APART:           %[[DY:.*]] = func.call @two_layers_backward_1(
// APART:           %[[N:.*]] = func.call @two_layers_backward_0(%{{.*}}, %[[DY]],
// APART:           func.call @two_layers_weights_1(
// APART:         func.func private @two_layers_backward_1
// APART-NEXT:      stablehlo.dot_general
// APART-NEXT:      return
// APART:         func.func private @two_layers_weights_1
// APART-NEXT:      stablehlo.dot_general
// APART-NEXT:      stablehlo.add
// REMARK-DAG: [outline-stages] stablehlo.while applied: 2 stages became functions: 4 per micro-batch
func.func public @two_layers(%w: tensor<4x4xf32> loc("state['w']"), %v: tensor<4x4xf32> loc("state['v']"), %xs: tensor<4x2x4xf32> loc("batch")) -> (tensor<4x4xf32> {jax.result_info = "result[0]['w']"}, tensor<4x4xf32> {jax.result_info = "result[0]['v']"}, tensor<f32> {jax.result_info = "result[1]"}) {
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

// The gradient of a bias is sent down as it is, and added to its sum where it is made: for the product of the weights it
// would be held.
// APART-LABEL: func.func public @added_at_once
// APART:         func.func private @added_at_once_backward_1
// APART-NEXT:      stablehlo.dot_general
// APART-NEXT:      stablehlo.add
// APART-NEXT:      return
// APART:         func.func private @added_at_once_weights_1
// APART-NEXT:      stablehlo.dot_general
// APART-NEXT:      stablehlo.add
// APART-NEXT:      return
func.func public @added_at_once(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %b: tensor<2x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %z2 = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %g:5 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %ab = %z2, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %yb = stablehlo.add %y, %b : tensor<2x4xf32>
    %o = stablehlo.dot_general %yb, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %yb, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv : tensor<4x4xf32>
    %nb = stablehlo.add %ab, %dy : tensor<2x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nb, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 : tensor<4x4xf32>
  %new_b = stablehlo.subtract %b, %g#3 : tensor<2x4xf32>
  return %new_w, %new_v, %new_b, %g#4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<2x4xf32>, tensor<f32>
}

// Updates that need the norm of all gradients: stage 0 has two functions, and only scalars are sent. What is computed of
// an argument alone, and is returned, is stage 0's.
// CHECK-LABEL: func.func public @clipped
// CHECK:         %[[S:.*]]:2 = call @clipped_update_0(%arg3, %{{.*}}#1) : (tensor<i32>, tensor<4x4xf32>) -> (tensor<f32>, tensor<i32>)
// CHECK:         %[[N:.*]]:2 = call @clipped_update_1({{.*}}, %[[S]]#0) : ({{.*}}) -> (tensor<f32>, tensor<4x4xf32>)
// CHECK:         %[[W:.*]] = call @clipped_update_0_1({{.*}}, %[[N]]#0)
// CHECK:         return %[[W]], %[[N]]#1, %{{.*}}#3, %[[S]]#1
func.func public @clipped(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %count: tensor<i32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<i32>) {
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
  %sw = stablehlo.multiply %g#1, %g#1 : tensor<4x4xf32>
  %nw0 = stablehlo.reduce(%sw init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  %sv = stablehlo.multiply %g#2, %g#2 : tensor<4x4xf32>
  %nv0 = stablehlo.reduce(%sv init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<f32>
  %norm = stablehlo.add %nw0, %nv0 : tensor<f32>
  %bn = stablehlo.broadcast_in_dim %norm, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %uw = stablehlo.multiply %g#1, %bn : tensor<4x4xf32>
  %uv = stablehlo.multiply %g#2, %bn : tensor<4x4xf32>
  %new_w = stablehlo.subtract %w, %uw : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %uv : tensor<4x4xf32>
  %next = stablehlo.add %count, %i1 : tensor<i32>
  return %new_w, %new_v, %g#3, %next : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<i32>
}

// What stands before the loop, each stage that reads it computes for itself.
// CHECK-LABEL: func.func public @computed_before
// CHECK:         %[[A:.*]]:2 = call @computed_before_init_0(%arg0)
// CHECK:         %[[B:.*]]:3 = call @computed_before_init_1(%arg0)
// CHECK:         func.call @computed_before_forward_0(%[[A]]#0,
// CHECK:         func.call @computed_before_forward_1(%[[B]]#0,
func.func public @computed_before(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %half = stablehlo.constant dense<2.0> : tensor<4x4xf32>
  %w2 = stablehlo.dot_general %w, %half, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.dot_general %x, %w2, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %w2, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %w2, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
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

// Legal when: one loop adds something up, and its trip count is known
// CHECK-LABEL: func.func public @unknown_trip_count
// CHECK-NOT:     call
// REMARK-DAG: [outline-stages] stablehlo.while missed: the trip count is not known
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
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.stage = "F0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] {paropt.stage = "B0"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw {paropt.stage = "B0"} : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv {paropt.stage = "B1"} : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l {paropt.stage = "F1"} : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 {paropt.stage = "U0"} : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 {paropt.stage = "U1"} : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Any parts are right that can run one after the other: here stage 1 does all but the update and the second layer.
// CHECK-LABEL: func.func public @odd_parts
// CHECK:         func.call @odd_parts_forward_0(
// CHECK:         func.call @odd_parts_forward_1(
// CHECK:         func.call @odd_parts_backward_1(
func.func public @odd_parts(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.stage = "F0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw {paropt.stage = "B1"} : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv {paropt.stage = "B1"} : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l {paropt.stage = "F1"} : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 {paropt.stage = "U0"} : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 {paropt.stage = "U0"} : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Legal when: no op reads what a later part of the trip makes, or a sum that another part adds to
// CHECK-LABEL: func.func public @backwards
// CHECK-NOT:     call
// REMARK-DAG: [outline-stages] stablehlo.while missed: F0 reads what F1 makes, which comes later (stablehlo.dot_general at {{.*}})
func.func public @backwards(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] {paropt.stage = "F0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] {paropt.stage = "B0"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw {paropt.stage = "B0"} : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv {paropt.stage = "B1"} : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l {paropt.stage = "F1"} : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 {paropt.stage = "U0"} : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 {paropt.stage = "U1"} : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func public @sum_of_two_parts
// CHECK-NOT:     call
// REMARK-DAG: [outline-stages] stablehlo.while missed: B0 reads a sum of B1 (stablehlo.add at {{.*}})
func.func public @sum_of_two_parts(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.stage = "F0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] {paropt.stage = "B0"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %pw = stablehlo.add %aw, %dw {paropt.stage = "B0"} : tensor<4x4xf32>
    %nw = stablehlo.add %pw, %dv {paropt.stage = "B1"} : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv {paropt.stage = "B1"} : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l {paropt.stage = "F1"} : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 {paropt.stage = "U0"} : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 {paropt.stage = "U1"} : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Legal when: each loop-carried value is made by a stage
// CHECK-LABEL: func.func public @sum_of_no_stage
// CHECK-NOT:     call
// REMARK-DAG: [outline-stages] stablehlo.while missed: a loop-carried value is made by no stage
func.func public @sum_of_no_stage(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] {paropt.stage = "F0"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] {paropt.stage = "F1"} : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dv = stablehlo.dot_general %y, %o, contracting_dims = [0] x [0] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %o, %v, contracting_dims = [1] x [1] {paropt.stage = "B1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dy, contracting_dims = [0] x [0] {paropt.stage = "B0"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %nw = stablehlo.add %aw, %dw {paropt.stage = "B0"} : tensor<4x4xf32>
    %nv = stablehlo.add %av, %dv {paropt.stage = "B1"} : tensor<4x4xf32>
    %nl = stablehlo.add %al, %l : tensor<f32>
    %n = stablehlo.add %i, %i1 : tensor<i32>
    stablehlo.return %n, %nw, %nv, %nl : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new_w = stablehlo.subtract %w, %g#1 {paropt.stage = "U0"} : tensor<4x4xf32>
  %new_v = stablehlo.subtract %v, %g#2 {paropt.stage = "U1"} : tensor<4x4xf32>
  return %new_w, %new_v, %g#3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
}
