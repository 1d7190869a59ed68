// RUN: %par-opt %s --passes=split-layer-loop | FileCheck %s
// RUN: %par-opt %s --passes=split-layer-loop --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='split-layer-loop{stages=3}' | FileCheck %s --check-prefix=THREE
// RUN: %par-opt %s --passes='split-layer-loop{stages=5}' | FileCheck %s --check-prefix=FIVE
// RUN: %par-opt %s --passes='split-layer-loop{stages=4},cut-stages{stages=4 flops-per-byte=1},outline-stages' | FileCheck %s --check-prefix=CUT

// Both loops are cut at the same rows; the backward one begins with the last. The gradients stay in pieces up to the
// update, as if each stage had parameters of its own.
// CHECK-LABEL: func.func public @scanned
// CHECK-DAG:     %[[W0:.*]] = stablehlo.slice %arg0 [0:2, 0:4, 0:4]
// CHECK-DAG:     %[[W1:.*]] = stablehlo.slice %arg0 [2:4, 0:4, 0:4]
// CHECK:         %[[G:.*]]:4 = stablehlo.while({{.*}}) : tensor<i32>, tensor<f32>, tensor<2x4x4xf32>, tensor<2x4x4xf32>
// CHECK:           %[[F0:.*]]:3 = stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x2x4xf32>
// CHECK:             %{{.*}} = stablehlo.constant dense<2> : tensor<i32>
// CHECK:             stablehlo.dynamic_slice %[[W0]], %iterArg
// CHECK:           %[[F1:.*]]:3 = stablehlo.while({{.*}} = %[[F0]]#1, {{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x2x4xf32>
// CHECK:             stablehlo.dynamic_slice %[[W1]], %iterArg
// CHECK:           %[[B1:.*]]:3 = stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x4x4xf32>
// CHECK:             %[[K:.*]] = stablehlo.subtract %{{.*}}, %iterArg{{[_0-9]*}} : tensor<i32>
// CHECK-NEXT:        stablehlo.dynamic_slice %[[W1]], %[[K]]
// CHECK:             stablehlo.dynamic_slice %[[F1]]#2, %[[K]]
// CHECK:           %[[B0:.*]]:3 = stablehlo.while({{.*}} = %[[B1]]#1, {{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x4x4xf32>
// CHECK:             stablehlo.dynamic_slice %[[W0]],
// CHECK:             stablehlo.dynamic_slice %[[F0]]#2,
// CHECK-DAG:       stablehlo.add %{{.*}}, %[[B0]]#2 : tensor<2x4x4xf32>
// CHECK-DAG:       stablehlo.add %{{.*}}, %[[B1]]#2 : tensor<2x4x4xf32>
// CHECK-NOT:       stablehlo.concatenate
// CHECK:         %[[N0:.*]] = stablehlo.subtract %[[W0]], %[[G]]#2
// CHECK-NEXT:    %[[N1:.*]] = stablehlo.subtract %[[W1]], %[[G]]#3
// CHECK-NEXT:    %[[N:.*]] = stablehlo.concatenate %[[N0]], %[[N1]], dim = 0
// CHECK-NEXT:    return %[[N]]
// REMARK-DAG: [split-layer-loop] stablehlo.while applied: 4 trips became 2 loops, the first row first
// REMARK-DAG: [split-layer-loop] stablehlo.while applied: 4 trips became 2 loops, the last row first
// THREE-LABEL: func.func public @scanned
// THREE:         stablehlo.while({{.*}}) : tensor<i32>, tensor<f32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<2x4x4xf32>
// THREE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<1x2x4xf32>
// THREE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<1x2x4xf32>
// THREE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x2x4xf32>
// THREE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x4x4xf32>
// CUT-LABEL:   func.func public @scanned
// CUT:           func.call @scanned_backward_3(
// CUT:           func.call @scanned_backward_0(
func.func public @scanned(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// A sum of all elements is taken piece by piece; a reader of rows across the cut has the pieces put together.
// CHECK-LABEL: func.func public @update_by_norm
// CHECK:         %[[P:.*]] = stablehlo.reduce(%{{.*}} init: %{{.*}}) {{.*}} : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT:    %[[Q:.*]] = stablehlo.reduce(%{{.*}} init: %{{.*}}) {{.*}} : (tensor<2x4x4xf32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT:    stablehlo.add %[[P]], %[[Q]] : tensor<f32>
// CHECK:         %[[ALL:.*]] = stablehlo.concatenate {{.*}} -> tensor<4x4x4xf32>
// CHECK-NEXT:    stablehlo.reverse %[[ALL]], dims = [0]
func.func public @update_by_norm(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %sq = stablehlo.sign %g#1 : tensor<4x4x4xf32>
  %n = stablehlo.reduce(%sq init: %z) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<4x4x4xf32>, tensor<f32>) -> tensor<f32>
  %nb = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %u = stablehlo.multiply %g#1, %nb : tensor<4x4x4xf32>
  %r = stablehlo.reverse %u, dims = [0] : tensor<4x4x4xf32>
  %new = stablehlo.subtract %ws, %r : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// Legal when: the loop is in a loop that adds something up, and counts from 0 by 1 to a constant
// CHECK-LABEL: func.func public @unknown_trips
// CHECK-COUNT-1: stablehlo.while
// CHECK:         stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
// CHECK-NEXT:    cond
// CHECK-NEXT:      stablehlo.compare LT, %{{.*}}, %arg2
// CHECK-LABEL: func.func public @from_one
func.func public @unknown_trips(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>, %n: tensor<i32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i0, %h = %x, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// CHECK:         stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
func.func public @from_one(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i1, %h = %x, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// Legal when: it takes or writes a row of an array in each trip: that of its number, or counted from the last one
// CHECK-LABEL: func.func public @other_rows
// CHECK:         stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
// CHECK:         stablehlo.minimum
// CHECK:         stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x4x4xf32>
func.func public @other_rows(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i0, %h = %x, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.minimum %i, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %j, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.reshape %h : (tensor<2x4xf32>) -> tensor<1x2x4xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nhs = stablehlo.dynamic_update_slice %hs, %h1, %j, %i0, %i0 : (tensor<4x2x4xf32>, tensor<1x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    }
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// Legal when: all of its arrays go in one direction
// CHECK-LABEL: func.func public @both_directions
// CHECK:         stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
// REMARK-DAG: [split-layer-loop] stablehlo.while missed: the loop goes over rows of one array forward, and over those of another backward
func.func public @both_directions(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
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
      %k = stablehlo.subtract %i3, %i : tensor<i32>
      %nhs = stablehlo.dynamic_update_slice %hs, %h1, %k, %i0, %i0 : (tensor<4x2x4xf32>, tensor<1x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    }
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// Legal when: it has as many trips as there are stages, and counts them in i32
// FIVE-LABEL:  func.func public @few_trips
// FIVE:          stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
func.func public @few_trips(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
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
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func public @long_counter
// CHECK:         stablehlo.while({{.*}}) : tensor<i64>, tensor<2x4xf32>, tensor<4x2x4xf32>
// REMARK-DAG: [split-layer-loop] stablehlo.while missed: the loop counts in another type than i32
func.func public @long_counter(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %j0 = stablehlo.constant dense<0> : tensor<i64>
  %j1 = stablehlo.constant dense<1> : tensor<i64>
  %j4 = stablehlo.constant dense<4> : tensor<i64>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %j0, %h = %x, %hs = %zh) : tensor<i64>, tensor<2x4xf32>, tensor<4x2x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %j4 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %j0, %j0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.reshape %h : (tensor<2x4xf32>) -> tensor<1x2x4xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nhs = stablehlo.dynamic_update_slice %hs, %h1, %i, %j0, %j0 : (tensor<4x2x4xf32>, tensor<1x2x4xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x2x4xf32>
      %ni = stablehlo.add %i, %j1 : tensor<i64>
      stablehlo.return %ni, %nh, %nhs : tensor<i64>, tensor<2x4xf32>, tensor<4x2x4xf32>
    }
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}

// Legal when: its ops have no side effects, and shapes are static
// CHECK-LABEL: func.func public @side_effect
// CHECK:         stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
// REMARK-DAG: [split-layer-loop] stablehlo.while missed: stablehlo.custom_call may have side effects
// NUMERIC: skip (XLA knows no such custom call)
func.func public @side_effect(%ws: tensor<4x4x4xf32>, %xs: tensor<4x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %g:3 = stablehlo.while(%m = %i0, %a = %zg, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
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
      %note = stablehlo.custom_call @note(%h) {has_side_effect = true} : (tensor<2x4xf32>) -> tensor<f32>
      %nhs = stablehlo.dynamic_update_slice %hs, %h1, %i, %i0, %i0 : (tensor<4x2x4xf32>, tensor<1x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
    }
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %b:3 = stablehlo.while(%i = %i0, %d = %x, %ds = %zg) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k4 = stablehlo.subtract %i4, %i : tensor<i32>
      %k = stablehlo.subtract %k4, %i1 : tensor<i32>
      %w1 = stablehlo.dynamic_slice %ws, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xf32>, tensor<1x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    }
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2 : tensor<4x4x4xf32>, tensor<f32>
}
