// RUN: %par-opt %s --passes=pipeline-layer-loop | FileCheck %s
// RUN: %par-opt %s --passes=pipeline-layer-loop --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='pipeline-layer-loop{circular=2}' | FileCheck %s --check-prefix=ROUND

sdy.mesh @mesh = <["stage"=2, "data"=4]>

// Three micro-batches in four ticks of two stages. The first loop makes what comes into the pipeline, the second one the
// loss and the cotangent. Gradients are summed up where their layers are; the sum whose terms two loops make goes
// through both. Each device sends an activation on per tick, and once per step the last stage sends to all. What layers
// leave for the backward pass goes where it is kept, and is read there.
// ROUND-COUNT-14: stablehlo.remainder
// CHECK-LABEL: func.func public @forward_and_backward
// CHECK:         %[[X:.*]]:2 = stablehlo.while({{.*}}) : tensor<i32>, tensor<3x2x4xf32>
// CHECK:         %[[F:.*]]:2 = sdy.manual_computation(%{{.*}}, %arg0, %[[X]]#1) in_shardings=[<@mesh, [{"stage", ?}]>, <@mesh, [{"stage", ?}, {?}, {?}]>, <@mesh, [{?}, {?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}, {?}]>, <@mesh, [{?}, {"stage", ?}, {?}, {?}]>] manual_axes={"stage"} (%{{.*}}: tensor<1xi32>, %[[W:.*]]: tensor<2x4x4xf32>, %{{.*}}: tensor<3x2x4xf32>) {
// CHECK:           %[[T:.*]]:4 = stablehlo.while({{.*}}, %[[KEPT:[A-Za-z0-9_]+]] = %{{[a-z0-9_]+}}) : tensor<i32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x2x4xf32>
// CHECK:             constant dense<4>
// CHECK:             %[[AT:.*]] = stablehlo.clamp
// CHECK:             %[[IN:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %iterArg{{.*}} : tensor<i1>, tensor<2x4xf32>
// CHECK:             %[[Y:.*]]:3 = stablehlo.while(%[[I:[A-Za-z0-9_]+]] = {{.*}} = %[[IN]], %[[KEEPS:[A-Za-z0-9_]+]] = %[[KEPT]]) : tensor<i32>, tensor<2x4xf32>, tensor<3x2x2x4xf32>
// CHECK:               constant dense<2>
// CHECK:               stablehlo.dynamic_slice %[[W]], %[[I]],
// CHECK:               stablehlo.dynamic_update_slice %[[KEEPS]], %{{.*}}, %[[AT]], %[[I]], %{{.*}} : (tensor<3x2x2x4xf32>, tensor<1x1x2x4xf32>,
// CHECK:             %[[SENT:.*]] = "stablehlo.collective_permute"(%[[Y]]#1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<{{.}}[0, 4], [1, 5], [2, 6], [3, 7]]>
// CHECK-NEXT:        %[[NEXT:.*]] = stablehlo.select %{{.*}}, %[[IN]], %[[SENT]]
// CHECK:             stablehlo.return %{{.*}}, %[[NEXT]],
// CHECK:           %[[LAST:.*]] = stablehlo.select %{{.*}}, %[[T]]#2, %{{.*}} : tensor<i1>, tensor<3x2x4xf32>
// CHECK-NEXT:      "stablehlo.all_reduce"(%[[LAST]])
// CHECK:         %[[H:.*]]:4 = stablehlo.while({{.*}}) : tensor<i32>, tensor<3x2x4xf32>, tensor<4x4xf32>, tensor<f32>
// CHECK:           stablehlo.dynamic_slice %[[F]]#0
// CHECK:         %[[B:.*]]:2 = sdy.manual_computation(
// CHECK-SAME:      %[[F]]#1
// CHECK-SAME:      out_shardings=[<@mesh, [{?}, {?}, {?}]>, <@mesh, [{"stage", ?}, {?}, {?}]>]
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<3x2x4xf32>, tensor<2x4x4xf32>
// CHECK:             %[[D:.*]]:3 = stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x4x4xf32>
// CHECK:             "stablehlo.collective_permute"(%[[D]]#1) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, source_target_pairs = dense<{{.}}[4, 0], [5, 1], [6, 2], [7, 3]]>
// CHECK:             constant dense<-0.000000e+00> : tensor<2x4x4xf32>
// CHECK:             %[[TERM:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[D]]#2 : tensor<i1>, tensor<2x4x4xf32>
// CHECK-NEXT:        stablehlo.add %iterArg{{.*}}, %[[TERM]]
// CHECK:         %[[E:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[H]]#2) : tensor<i32>, tensor<4x4xf32>
// CHECK:         %[[NEW:.*]] = stablehlo.subtract %arg0, %[[B]]#1
// CHECK-NEXT:    return %[[NEW]], %[[E]]#1, %[[H]]#3
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while applied: 2 loops over layers run in 4 ticks of 2 stages along `stage`, 3 micro-batches one after the other
func.func public @forward_and_backward(%ws: tensor<4x4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"stage"}, {}, {}]>}, %e: tensor<4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %ze = stablehlo.constant dense<0.0> : tensor<f32>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zw = stablehlo.broadcast_in_dim %ze, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zh = stablehlo.broadcast_in_dim %ze, dims = [] : (tensor<f32>) -> tensor<4x2x4xf32>
  %z4 = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %g:4 = stablehlo.while(%m = %i0, %a = %zg, %t = %z4, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<3x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %x0 = stablehlo.dot_general %x, %e, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i0, %h = %x0, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4x2x4xf32>
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
    %dy = stablehlo.sign %f#1 : tensor<2x4xf32>
    %b:3 = stablehlo.while(%i = %i0, %d = %dy, %ds = %zw) : tensor<i32>, tensor<2x4xf32>, tensor<4x4x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.subtract %i3, %i : tensor<i32>
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
    %te = stablehlo.dot_general %x, %b#1, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %th = stablehlo.dot_general %x, %f#1, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %tt = stablehlo.add %te, %th : tensor<4x4xf32>
    %na = stablehlo.add %a, %b#2 : tensor<4x4x4xf32>
    %nt = stablehlo.add %t, %tt : tensor<4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %nt, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2, %g#3 : tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// Parameters that are converted in each trip are converted before it. Their gradients are converted where they are made.
// CHECK-LABEL: func.func public @mixed_precision
// CHECK:         %[[W:.*]] = stablehlo.convert %arg0 : (tensor<4x4x4xf32>) -> tensor<4x4x4xbf16>
// CHECK:         sdy.manual_computation({{.*}}%[[W]], {{.*}}tensor<2x4x4xbf16>
// CHECK:         sdy.manual_computation({{.*}}%[[W]], {{.*}}tensor<2x4x4xbf16>
// CHECK:           stablehlo.convert %{{.*}} : (tensor<2x4x4xbf16>) -> tensor<2x4x4xf32>
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while applied: 2 loops over layers run in 4 ticks
func.func public @mixed_precision(%ws: tensor<4x4x4xf32>, %e: tensor<4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %ze = stablehlo.constant dense<0.0> : tensor<bf16>
  %zg = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4x4xf32>
  %zw = stablehlo.broadcast_in_dim %ze, dims = [] : (tensor<bf16>) -> tensor<4x4x4xbf16>
  %zh = stablehlo.broadcast_in_dim %ze, dims = [] : (tensor<bf16>) -> tensor<4x2x4xbf16>
  %z4 = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
  %g:4 = stablehlo.while(%m = %i0, %a = %zg, %t = %z4, %s = %z) : tensor<i32>, tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<3x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %x0f = stablehlo.dot_general %x, %e, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %wl = stablehlo.convert %ws : (tensor<4x4x4xf32>) -> tensor<4x4x4xbf16>
    %x0 = stablehlo.convert %x0f : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %f:3 = stablehlo.while(%i = %i0, %h = %x0, %hs = %zh) : tensor<i32>, tensor<2x4xbf16>, tensor<4x2x4xbf16>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %wl, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xbf16>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xbf16>) -> tensor<4x4xbf16>
      %h1 = stablehlo.reshape %h : (tensor<2x4xbf16>) -> tensor<1x2x4xbf16>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
      %nhs = stablehlo.dynamic_update_slice %hs, %h1, %i, %i0, %i0 : (tensor<4x2x4xbf16>, tensor<1x2x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x4xbf16>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xbf16>, tensor<4x2x4xbf16>
    }
    %y = stablehlo.convert %f#1 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %l = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %dy = stablehlo.sign %f#1 : tensor<2x4xbf16>
    %b:3 = stablehlo.while(%i = %i0, %d = %dy, %ds = %zw) : tensor<i32>, tensor<2x4xbf16>, tensor<4x4x4xbf16>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.subtract %i3, %i : tensor<i32>
      %w1 = stablehlo.dynamic_slice %wl, %k, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xbf16>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xbf16>) -> tensor<4x4xbf16>
      %h1 = stablehlo.dynamic_slice %f#2, %k, %i0, %i0, sizes = [1, 2, 4] : (tensor<4x2x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xbf16>
      %h = stablehlo.reshape %h1 : (tensor<1x2x4xbf16>) -> tensor<2x4xbf16>
      %dw = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<4x4xbf16>
      %dw1 = stablehlo.reshape %dw : (tensor<4x4xbf16>) -> tensor<1x4x4xbf16>
      %nd = stablehlo.dot_general %d, %w, contracting_dims = [1] x [1] : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
      %nds = stablehlo.dynamic_update_slice %ds, %dw1, %k, %i0, %i0 : (tensor<4x4x4xbf16>, tensor<1x4x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x4x4xbf16>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nd, %nds : tensor<i32>, tensor<2x4xbf16>, tensor<4x4x4xbf16>
    }
    %dws = stablehlo.convert %b#2 : (tensor<4x4x4xbf16>) -> tensor<4x4x4xf32>
    %dx = stablehlo.convert %b#1 : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %te = stablehlo.dot_general %x, %dx, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %th = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    %tt = stablehlo.add %te, %th : tensor<4x4xf32>
    %na = stablehlo.add %a, %dws : tensor<4x4x4xf32>
    %nt = stablehlo.add %t, %tt : tensor<4x4xf32>
    %ns = stablehlo.add %s, %l : tensor<f32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %na, %nt, %ns : tensor<i32>, tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>
  }
  %new = stablehlo.subtract %ws, %g#1 : tensor<4x4x4xf32>
  return %new, %g#2, %g#3 : tensor<4x4x4xf32>, tensor<4x4xf32>, tensor<f32>
}

// A loop without a backward one.
// CHECK-LABEL:   func.func public @forward
// CHECK-COUNT-1: sdy.manual_computation
// CHECK-COUNT-1: collective_permute
// CHECK-COUNT-1: all_reduce
// CHECK-NOT:     collective_permute
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while applied: 1 loop over layers runs in 4 ticks of 2 stages along `stage`, 3 micro-batches one after the other
func.func public @forward(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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

// Layers that read the number of their own: it is counted from the first stage.
// CHECK-LABEL: func.func public @layer_number
// CHECK:         %[[FIRST:.*]] = stablehlo.multiply %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:         stablehlo.add %iterArg{{.*}}, %[[FIRST]] : tensor<i32>
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while applied: 1 loop over layers runs in 4 ticks
func.func public @layer_number(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
      %if = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ib = stablehlo.broadcast_in_dim %if, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
      %nh2 = stablehlo.add %nh, %ib : tensor<2x4xf32>
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

// What layers write for a loss of their own is all-gathered once, and each micro-batch has its rows in the output.
// CHECK-LABEL: func.func public @loss_of_layers
// CHECK:         %[[F:.*]]:2 = sdy.manual_computation({{.*}}) in_shardings={{.*}} out_shardings=[<@mesh, [{?}, {?}, {?}]>, <@mesh, [{?}, {"stage", ?}]>]
// CHECK:           stablehlo.multiply %{{.*}}, %{{.*}} : tensor<2xf32>
// CHECK:         %[[ALL:.*]] = sdy.sharding_constraint %[[F]]#1 <@mesh, [{?}, {}]> : tensor<3x4xf32>
// CHECK:         stablehlo.while
// CHECK:           stablehlo.dynamic_slice %[[ALL]], %iterArg
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while applied: 1 loop over layers runs in 4 ticks
func.func public @loss_of_layers(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>, tensor<3x4xf32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<3> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %zh = stablehlo.constant dense<0.0> : tensor<4xf32>
  %zr = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4xf32>
  %g:3 = stablehlo.while(%m = %i0, %s = %z, %rs = %zr) : tensor<i32>, tensor<f32>, tensor<3x4xf32>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<3x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %x = stablehlo.reshape %row : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    %f:3 = stablehlo.while(%i = %i0, %h = %x, %hs = %zh) : tensor<i32>, tensor<2x4xf32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %i4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %w1 = stablehlo.dynamic_slice %ws, %i, %i0, %i0, sizes = [1, 4, 4] : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
      %w = stablehlo.reshape %w1 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
      %r = stablehlo.reduce(%h init: %z) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
      %r1 = stablehlo.reshape %r : (tensor<f32>) -> tensor<1xf32>
      %nh = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
      %nhs = stablehlo.dynamic_update_slice %hs, %r1, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
      %ni = stablehlo.add %i, %i1 : tensor<i32>
      stablehlo.return %ni, %nh, %nhs : tensor<i32>, tensor<2x4xf32>, tensor<4xf32>
    }
    %twice = stablehlo.multiply %f#2, %two : tensor<4xf32>
    %own = stablehlo.reduce(%twice init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %l = stablehlo.reduce(%f#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %both = stablehlo.add %l, %own : tensor<f32>
    %ns = stablehlo.add %s, %both : tensor<f32>
    %mrow = stablehlo.reshape %twice : (tensor<4xf32>) -> tensor<1x4xf32>
    %nrs = stablehlo.dynamic_update_slice %rs, %mrow, %m, %i0 : (tensor<3x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
    %nm = stablehlo.add %m, %i1 : tensor<i32>
    stablehlo.return %nm, %ns, %nrs : tensor<i32>, tensor<f32>, tensor<3x4xf32>
  }
  return %g#1, %g#2 : tensor<f32>, tensor<3x4xf32>
}
