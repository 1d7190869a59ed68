// Unreduced accumulators.

// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' | FileCheck %s
// RUN: %par-opt %s --split-input-file --passes='roll-accumulation{min-ops=4 max-stack-bytes=64}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["x"=8]>

// Legal when: they are carried behind the constraint that says so, from an init operand that says so or is zero
// CHECK-LABEL: func.func public @unreduced
// CHECK:         %[[START:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:         %[[LOOP:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %[[START]])
// CHECK:           %[[DOT:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[TERM:.*]] = sdy.sharding_constraint %[[DOT]] <@mesh, [{}, {}], unreduced={"x"}>
// CHECK-NEXT:      %[[ADD:.*]] = stablehlo.add %[[SUM]], %[[TERM]]
// CHECK-NEXT:      %[[NEXT:.*]] = sdy.sharding_constraint %[[ADD]] <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:           stablehlo.return %{{.*}}, %[[NEXT]]
// CHECK:         %[[SAID:.*]] = sdy.sharding_constraint %[[LOOP]]#1 <@mesh, [{}, {}], unreduced={"x"}>
// CHECK-NEXT:    %[[REDUCED:.*]] = sdy.sharding_constraint %[[SAID]] <@mesh, [{}, {}]>
// CHECK-NEXT:    return %[[REDUCED]]
func.func public @unreduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Also: a start that is zero, and the last term, which is read after the loop, say so then.
// CHECK-LABEL: func.func public @unreduced_from_zero
// CHECK-COUNT-2: %{{.*}} = sdy.sharding_constraint %cst{{.*}} <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:         %[[LOOP:.*]]:3 = stablehlo.while
// CHECK:         sdy.sharding_constraint %[[LOOP]]#1 <@mesh, [{}, {}], unreduced={"x"}>
// CHECK:         sdy.sharding_constraint %[[LOOP]]#2 <@mesh, [{}, {}], unreduced={"x"}>
func.func public @unreduced_from_zero(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %zero, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %last = sdy.sharding_constraint %t2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum, %last : tensor<4x4xf32>, tensor<4x4xf32>
}

// Legal when: they are carried behind the constraint that says so, from an init operand that says so or is zero
// CHECK-LABEL: func.func public @start_is_not_said
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a loop-carried value is unreduced, and its init operand does not say so (sdy.sharding_constraint at
func.func public @start_is_not_said(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %w, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Legal when: they are carried behind the constraint that says so, from an init operand that says so or is zero
// CHECK-LABEL: func.func public @said_of_an_array
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a loop would carry a value before the constraint that says that it is unreduced (stablehlo.reshape at
func.func public @said_of_an_array(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32>, tensor<3x4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %w0 = stablehlo.reshape %t0 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %w1 = stablehlo.reshape %t1 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %w2 = stablehlo.reshape %t2 : (tensor<4x4xf32>) -> tensor<1x4x4xf32>
  %rows = stablehlo.concatenate %w0, %w1, %w2, dim = 0 : (tensor<1x4x4xf32>, tensor<1x4x4xf32>, tensor<1x4x4xf32>) -> tensor<3x4x4xf32>
  %said = sdy.sharding_constraint %rows <@mesh, [{}, {}, {}], unreduced={"x"}> : tensor<3x4x4xf32>
  %all = sdy.sharding_constraint %said <@mesh, [{}, {}, {}]> : tensor<3x4x4xf32>
  return %sum, %all : tensor<4x4xf32>, tensor<3x4x4xf32>
}

// Legal when: the copies share none, and none is stacked
// CHECK-LABEL: func.func public @shares_unreduced
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: an unreduced value would be a live-in of the loop (sdy.sharding_constraint at
func.func public @shares_unreduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %product = stablehlo.dot_general %x, %x, contracting_dims = [0, 1] x [0, 1] : (tensor<3x8x4xf32>, tensor<3x8x4xf32>) -> tensor<4x4xf32>
  %shared = sdy.sharding_constraint %product <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e0 = stablehlo.add %t0, %shared : tensor<4x4xf32>
  %f0 = sdy.sharding_constraint %e0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %f0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e1 = stablehlo.add %t1, %shared : tensor<4x4xf32>
  %f1 = sdy.sharding_constraint %e1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %f1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e2 = stablehlo.add %t2, %shared : tensor<4x4xf32>
  %f2 = sdy.sharding_constraint %e2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %f2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Legal when: the copies share none, and none is stacked
// CHECK-LABEL: func.func public @kept_unreduced
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: a sum or an array of unreduced values would not say so (sdy.sharding_constraint at
func.func public @kept_unreduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %t0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %t1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %t2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  %first = sdy.sharding_constraint %t0 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum, %first : tensor<4x4xf32>, tensor<4x4xf32>
}

// NUMERIC: skip (jax places no argument that is not reduced)
// Legal when: the copies share none, and none is stacked
// CHECK-LABEL: func.func public @arguments_that_are_not_reduced
// CHECK-NOT:     stablehlo.while
// CHECK:         return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: unreduced arguments would be stacked
func.func public @arguments_that_are_not_reduced(%x: tensor<3x8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}, %g0: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}, %g1: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}, %g2: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %start = sdy.sharding_constraint %zero <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s0 = stablehlo.slice %x [0:1, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r0 = stablehlo.reshape %s0 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d0 = stablehlo.dot_general %r0, %r0, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t0 = sdy.sharding_constraint %d0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e0 = stablehlo.add %t0, %g0 : tensor<4x4xf32>
  %f0 = sdy.sharding_constraint %e0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a0 = stablehlo.add %start, %f0 : tensor<4x4xf32>
  %c0 = sdy.sharding_constraint %a0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s1 = stablehlo.slice %x [1:2, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r1 = stablehlo.reshape %s1 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d1 = stablehlo.dot_general %r1, %r1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t1 = sdy.sharding_constraint %d1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e1 = stablehlo.add %t1, %g1 : tensor<4x4xf32>
  %f1 = sdy.sharding_constraint %e1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a1 = stablehlo.add %c0, %f1 : tensor<4x4xf32>
  %c1 = sdy.sharding_constraint %a1 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %s2 = stablehlo.slice %x [2:3, 0:8, 0:4] : (tensor<3x8x4xf32>) -> tensor<1x8x4xf32>
  %r2 = stablehlo.reshape %s2 : (tensor<1x8x4xf32>) -> tensor<8x4xf32>
  %d2 = stablehlo.dot_general %r2, %r2, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t2 = sdy.sharding_constraint %d2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %e2 = stablehlo.add %t2, %g2 : tensor<4x4xf32>
  %f2 = sdy.sharding_constraint %e2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %a2 = stablehlo.add %c1, %f2 : tensor<4x4xf32>
  %c2 = sdy.sharding_constraint %a2 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x4xf32>
  %sum = sdy.sharding_constraint %c2 <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// What two of three copies read is made alike around the loop that the copies are in: it is no part of these.
// CHECK-LABEL:   func.func public @made_outside
// CHECK-COUNT-2:   stablehlo.while
// CHECK-NOT:       stablehlo.while
// CHECK:           return
// REMARK-DAG: [roll-accumulation] stablehlo.add missed: live-ins of some copies are computed outside of their block (stablehlo.constant
func.func public @made_outside(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.add %x, %x : tensor<4xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %c0 = stablehlo.constant dense<3> : tensor<4xi32>
  %outer:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xi32>
  cond {
    %m = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %m : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<3> : tensor<4xi32>
    %inner:2 = stablehlo.while(%j = %zero, %b = %a) : tensor<i32>, tensor<4xi32>
    cond {
      %m = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %m : tensor<i1>
    } do {
      %p0 = stablehlo.abs %y : tensor<4xi32>
      %q0 = stablehlo.negate %p0 : tensor<4xi32>
      %p1 = stablehlo.abs %c0 : tensor<4xi32>
      %q1 = stablehlo.negate %p1 : tensor<4xi32>
      %s1 = stablehlo.add %q0, %q1 : tensor<4xi32>
      %p2 = stablehlo.abs %c1 : tensor<4xi32>
      %q2 = stablehlo.negate %p2 : tensor<4xi32>
      %s2 = stablehlo.add %s1, %q2 : tensor<4xi32>
      %s3 = stablehlo.add %b, %s2 : tensor<4xi32>
      %next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next, %s3 : tensor<i32>, tensor<4xi32>
    }
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %inner#1 : tensor<i32>, tensor<4xi32>
  }
  return %outer#1 : tensor<4xi32>
}
