// RUN: %par-opt %s --passes='pipeline-layer-loop{circular=2}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='pipeline-layer-loop{circular=2}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='pipeline-layer-loop{circular=0}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=NONE
// RUN: %par-opt %s --passes='pipeline-layer-loop{circular=4}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=FOUR

sdy.mesh @mesh = <["stage"=2, "data"=4]>

// Stage 0 has layers 0 and 2, stage 1 has layers 1 and 3. Three micro-batches go round twice, in 7 ticks: from the last
// stage to the first, where they wait one tick. Layers come into the order of stages once, for both loops; gradients go
// back into that of layers.
// Legal when: each device has at least one chunk
// CHECK-LABEL: func.func public @forward_and_backward
// CHECK:         %[[W:.*]] = sdy.manual_computation(%{{.*}}, %arg0) in_shardings=[<@mesh, [{"stage", ?}]>, <@mesh, [{"stage", ?}, {?}, {?}]>] out_shardings=[<@mesh, [{"stage", ?}, {?}, {?}]>] manual_axes={"stage"} (%[[AT:.*]]: tensor<1xi32>, %[[GIVEN:.*]]: tensor<2x4x4xf32>) {
// CHECK:           %[[STAYS:.*]] = stablehlo.dynamic_slice %[[GIVEN]], %{{.*}}, sizes = [1, 4, 4]
// CHECK:           %[[PUT:.*]] = stablehlo.dynamic_update_slice %{{.*}}, %[[STAYS]],
// CHECK:           constant dense<[1, 0]>
// CHECK:           %[[SENT:.*]] = stablehlo.dynamic_slice %[[GIVEN]], %{{.*}}, sizes = [1, 4, 4]
// CHECK-NEXT:      %[[GOT:.*]] = "stablehlo.collective_permute"(%[[SENT]]) <{{{.*}}source_target_pairs = dense<{{.}}[0, 4], [4, 0], [1, 5], [5, 1], [2, 6], [6, 2], [3, 7], [7, 3]]>
// CHECK:           stablehlo.dynamic_update_slice %[[PUT]], %[[GOT]],
// CHECK-NEXT:      sdy.return
// CHECK:         %[[F:.*]]:2 = sdy.manual_computation(%{{.*}}, %[[W]], %{{.*}}) {{.*}} (%{{.*}}: tensor<1xi32>, %[[OWN:.*]]: tensor<2x4x4xf32>, %{{.*}}: tensor<3x2x4xf32>) {
// CHECK:           %[[FIRST:.*]] = stablehlo.compare EQ, %[[STAGE:.*]], %{{.*}}, SIGNED
// CHECK:           stablehlo.while(%[[T:[A-Za-z0-9_]+]] = %{{.*}}, %[[CAME:[A-Za-z0-9_]+]] = %{{.*}}, %[[WAITING:[A-Za-z0-9_]+]] = %{{.*}}, %{{.*}}, %{{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<1x2x4xf32>, tensor<3x2x4xf32>, tensor<3x2x2x4xf32>
// CHECK:             constant dense<7>
// CHECK:             %[[LATE:.*]] = stablehlo.compare GE, %{{.*}}, %{{.*}}, SIGNED
// CHECK:             %[[TURN:.*]] = stablehlo.clamp
// CHECK:             %[[MB:.*]] = stablehlo.remainder %[[TURN]], %[[M:.*]] : tensor<i32>
// CHECK-NEXT:        %[[ROUND:.*]] = stablehlo.divide %[[TURN]], %[[M]]
// CHECK:             %[[CHUNK:.*]] = stablehlo.multiply %[[ROUND]], %{{.*}}
// CHECK:             stablehlo.dynamic_slice %[[WAITING]], %[[SLOT:.*]], %{{.*}}, %{{.*}}, sizes = [1, 2, 4]
// CHECK-NEXT:        %[[WAITED:.*]] = stablehlo.reshape
// CHECK-NEXT:        %[[COMES:.*]] = stablehlo.select %{{.*}}, %[[WAITED]], %[[CAME]]
// CHECK:             %[[NEW:.*]] = stablehlo.compare EQ, %[[ROUND]], %{{.*}}, SIGNED
// CHECK-NEXT:        stablehlo.and %[[FIRST]], %[[NEW]]
// CHECK:             stablehlo.select %{{.*}}, %{{.*}}, %[[COMES]]
// CHECK:             stablehlo.while(%[[I:[A-Za-z0-9_]+]] = %{{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<3x2x2x4xf32>
// CHECK:               %[[AT:.*]] = stablehlo.add %[[CHUNK]], %[[I]]
// CHECK-NEXT:          stablehlo.dynamic_slice %[[OWN]], %[[AT]],
// CHECK:               %[[TO:.*]] = stablehlo.add %[[CHUNK]], %[[I]]
// CHECK:               stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, %[[MB]], %[[TO]], %{{.*}} : (tensor<3x2x2x4xf32>, tensor<1x1x2x4xf32>,
// CHECK:             "stablehlo.collective_permute"({{.*}}source_target_pairs = dense<{{.}}[0, 4], [4, 0], [1, 5], [5, 1], [2, 6], [6, 2], [3, 7], [7, 3]]>
// CHECK:             %[[STAYS2:.*]] = stablehlo.reshape %[[CAME]] : (tensor<2x4xf32>) -> tensor<1x2x4xf32>
// CHECK:             stablehlo.dynamic_update_slice %[[WAITING]], %[[STAYS2]], %[[SLOT]],
// CHECK:         %[[G:.*]]:2 = sdy.manual_computation(%{{.*}}, %[[W]], %{{.*}}, %{{.*}}, %{{.*}}) {{.*}} (%{{.*}}: tensor<1xi32>, %{{.*}}: tensor<2x4x4xf32>, %{{.*}}: tensor<3x2x2x4xf32>,
// CHECK:             stablehlo.subtract %[[LAST:.*]], %{{.*}} : tensor<i32>
// CHECK:             stablehlo.dynamic_slice %{{.*}}, sizes = [1, 1, 2, 4] : (tensor<3x2x2x4xf32>,
// CHECK:             "stablehlo.collective_permute"
// CHECK:             %[[PART:.*]] = stablehlo.dynamic_slice %[[SUM:[A-Za-z0-9_]+]], %[[C2:[A-Za-z0-9_]+]], %{{.*}}, sizes = [1, 4, 4] : (tensor<2x4x4xf32>,
// CHECK-NEXT:        %[[MORE:.*]] = stablehlo.add %[[PART]], %{{.*}} : tensor<1x4x4xf32>
// CHECK:             stablehlo.dynamic_update_slice %[[SUM]], %[[MORE]], %[[C2]],
// CHECK:         sdy.manual_computation(%{{.*}}, %[[G]]#1) {{.*}} manual_axes={"stage"} (%{{.*}}: tensor<1xi32>, %{{.*}}: tensor<2x4x4xf32>) {
// CHECK:           collective_permute
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while applied: 2 loops over layers run in 7 ticks of 2 stages along `stage` with 2 chunks of layers each, 3 micro-batches one after the other
// NONE-DAG: [pipeline-layer-loop] stablehlo.while missed: each device has 0 chunks of layers: one is the least
// FOUR-DAG: [pipeline-layer-loop] stablehlo.while missed: 4 layers are no multiple of 8, the size of `stage` times 4 chunks
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

// As many micro-batches as stages: none waits.
// CHECK-LABEL: func.func public @no_wait
// CHECK:         sdy.manual_computation
// CHECK:           stablehlo.while({{.*}}) : tensor<i32>, tensor<2x4xf32>, tensor<2x2x4xf32>
// CHECK:             constant dense<5>
// CHECK:             stablehlo.while(
// CHECK:             collective_permute
func.func public @no_wait(%ws: tensor<4x4x4xf32>, %xs: tensor<2x2x4xf32>) -> (tensor<f32>) {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %i1 = stablehlo.constant dense<1> : tensor<i32>
  %i3 = stablehlo.constant dense<2> : tensor<i32>
  %i4 = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %g:2 = stablehlo.while(%m = %i0, %s = %z) : tensor<i32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %m, %i3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %xs, %m, %i0, %i0, sizes = [1, 2, 4] : (tensor<2x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
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

sdy.mesh @mesh = <["stage"=4, "data"=2]>

// Legal when: there are at least as many micro-batches as stages
// CHECK-LABEL: func.func public @few_micro_batches
// CHECK-NOT:     sdy.manual_computation
// REMARK-DAG: [pipeline-layer-loop] stablehlo.while missed: 3 micro-batches are fewer than 4 stages: they would wait in each round
func.func public @few_micro_batches(%ws: tensor<4x4x4xf32>, %xs: tensor<3x2x4xf32>) -> (tensor<f32>) {
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
