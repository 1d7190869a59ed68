// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1}' | FileCheck %s
// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='cut-stages{flops-per-byte=1 recompute=false}' | FileCheck %s --check-prefix=SENT

// What is made of an argument alone is computed in both stages, and the broadcast of it; recompute=false sends it.
// CHECK-LABEL: func.func public @function_of_an_argument
// CHECK:         %[[Q0:.*]] = stablehlo.concatenate %arg3, %arg3, dim = 0 {paropt.stage = "F0"}
// CHECK-NEXT:    %[[Q1:.*]] = stablehlo.concatenate %arg3, %arg3, dim = 0 {paropt.stage = "F1"}
// CHECK-NEXT:    %[[M0:.*]] = stablehlo.broadcast_in_dim %[[Q0]], dims = [1] : (
// CHECK-NEXT:    %[[M1:.*]] = stablehlo.broadcast_in_dim %[[Q1]], dims = [1] : (
// CHECK:         stablehlo.multiply %{{.*}}, %[[M0]] {paropt.stage = "F0"}
// CHECK:         stablehlo.multiply %{{.*}}, %[[M1]] {paropt.stage = "F1"}
// CHECK:         stablehlo.multiply %{{.*}}, %[[M1]] {paropt.stage = "B1"}
// CHECK:         stablehlo.multiply %{{.*}}, %[[M0]] {paropt.stage = "B0"}
// SENT-LABEL:  func.func public @function_of_an_argument
// SENT-COUNT-1:  stablehlo.concatenate
// SENT-NOT:      stablehlo.concatenate
// REMARK-COUNT-1: stage 0: {{.*}} parameters ({{.*}} bytes); sends 32 bytes to stage 1
// REMARK-COUNT-1: stage 1: {{.*}} parameters ({{.*}} bytes); computes again 1 ops of other stages; sends 32 bytes to stage 0
func.func public @function_of_an_argument(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %k: tensor<2xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %q = stablehlo.concatenate %k, %k, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %m = stablehlo.broadcast_in_dim %q, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// Of a chain, a stage computes all that it needs, and the one that does not read it nothing.
// CHECK-LABEL: func.func public @chain_for_the_other_stage
// CHECK:         stablehlo.concatenate %arg3, %arg3, dim = 0 {paropt.stage = "F1"}
// CHECK-NEXT:    stablehlo.reverse {{.*}} {paropt.stage = "F1"}
// CHECK-NOT:     stablehlo.reverse
// CHECK:         stablehlo.subtract %arg1
// SENT-LABEL:  func.func public @chain_for_the_other_stage
// SENT:          stablehlo.concatenate {{.*}} {paropt.stage = "F0"}
// SENT-NEXT:     stablehlo.reverse {{.*}} {paropt.stage = "F0"}
func.func public @chain_for_the_other_stage(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %k: tensor<2xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %q = stablehlo.concatenate %k, %k, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %r = stablehlo.reverse %q, dims = [0] : tensor<4xf32>
    %m = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %h : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %h : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// Rows of the batch, and the number of the micro-batch, are there for each stage.
// CHECK-LABEL: func.func public @function_of_the_batch
// CHECK:         stablehlo.concatenate {{.*}} {paropt.stage = "F0"}
// CHECK-NEXT:    stablehlo.concatenate {{.*}} {paropt.stage = "F1"}
// CHECK-NEXT:    stablehlo.reduce(
func.func public @function_of_the_batch(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %n1 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %q = stablehlo.reduce(%n1 init: %t) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    %m = stablehlo.broadcast_in_dim %q, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// What is made of an activation is sent.
// CHECK-LABEL: func.func public @function_of_an_activation
// CHECK-COUNT-1: stablehlo.concatenate
// CHECK-NOT:     stablehlo.concatenate
// CHECK:         stablehlo.subtract %arg1
func.func public @function_of_an_activation(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %e = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %f = stablehlo.slice %e [0:1, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %m = stablehlo.concatenate %f, %f, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// Worth it when: no op that a stage computes again is a contraction or a sort
// CHECK-LABEL: func.func public @contraction
// CHECK:         %[[M:.*]] = stablehlo.dot_general %arg3, %arg3, {{.*}} {paropt.stage = "F0"}
// CHECK-NOT:     stablehlo.dot_general %arg3
// CHECK:         stablehlo.subtract %arg1
func.func public @contraction(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %k: tensor<2x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %s = stablehlo.dot_general %k, %k, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %m = stablehlo.slice %s [0:2, 0:4] : (tensor<4x4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// Worth it when: what a stage computes again takes fewer operations than to send it, as flops-per-byte says
// CHECK-LABEL: func.func public @many_trips
// CHECK-COUNT-2: stablehlo.while
// CHECK-NOT:     stablehlo.while
// CHECK:         stablehlo.subtract %arg1
func.func public @many_trips(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %k: tensor<2xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %z4 = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %i10000 = stablehlo.constant dense<10000> : tensor<i32>
  %g:4 = stablehlo.while(%i = %i0, %aw = %z4, %av = %z4, %al = %z) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %i, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %q = stablehlo.concatenate %k, %k, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %d:2 = stablehlo.while(%j = %i0, %e = %q) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %j, %i10000 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %e1 = stablehlo.negate %e : tensor<4xf32>
      %j1 = stablehlo.add %j, %i1 : tensor<i32>
      stablehlo.return %j1, %e1 : tensor<i32>, tensor<4xf32>
    }
    %m = stablehlo.broadcast_in_dim %d#1, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// A loop of few trips is computed twice, as the functions of random numbers are.
// CHECK-LABEL: func.func public @few_trips
// CHECK-COUNT-3: stablehlo.while
// CHECK:         {paropt.stage = "F1"}
// CHECK-NOT:     stablehlo.while
// CHECK:         stablehlo.subtract %arg1
func.func public @few_trips(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %k: tensor<2xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %q = stablehlo.concatenate %k, %k, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %d:2 = stablehlo.while(%j = %i0, %e = %q) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %j, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %e1 = stablehlo.multiply %e, %q : tensor<4xf32>
      %j1 = stablehlo.add %j, %i1 : tensor<i32>
      stablehlo.return %j1, %e1 : tensor<i32>, tensor<4xf32>
    }
    %m = stablehlo.broadcast_in_dim %d#1, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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

// A large argument that only one stage has stays there: what is made of it is sent.
// CHECK-LABEL: func.func public @function_of_a_large_argument
// CHECK-COUNT-1: stablehlo.gather"
// CHECK-NOT:     stablehlo.gather"
// CHECK:         stablehlo.subtract %arg1
func.func public @function_of_a_large_argument(%w: tensor<4x4xf32>, %v: tensor<4x4xf32>, %xs: tensor<4x2x4xf32>, %k: tensor<512x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
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
    %at = stablehlo.constant dense<[[3], [5]]> : tensor<2x1xi32>
    %m = "stablehlo.gather"(%k, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<512x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %y = stablehlo.multiply %h, %m : tensor<2x4xf32>
    %p = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %o = stablehlo.multiply %p, %m : tensor<2x4xf32>
    %l = stablehlo.reduce(%o init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dp = stablehlo.multiply %o, %m : tensor<2x4xf32>
    %dv = stablehlo.dot_general %y, %dp, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %dy = stablehlo.dot_general %dp, %v, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %dh = stablehlo.multiply %dy, %m : tensor<2x4xf32>
    %dw = stablehlo.dot_general %x, %dh, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
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
