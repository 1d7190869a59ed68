// In which type sums are carried, and sent, in a program for all devices.
// RUN: %par-opt %s --passes='inline-calls,expose-all-reduces,fuse-all-reduces,defer-sync{accumulate-dtype=f32},annotate-unreduced' | FileCheck %s --check-prefix=WIDE
// RUN: %par-opt %s --passes='inline-calls,expose-all-reduces,fuse-all-reduces,defer-sync{wire-dtype=bf16},annotate-unreduced' | FileCheck %s --check-prefix=WIRE
// RUN: %par-opt %s --passes='inline-calls,expose-all-reduces,fuse-all-reduces,defer-sync{accumulate-dtype=f32 wire-dtype=bf16},annotate-unreduced' | FileCheck %s --check-prefix=BOTH

sdy.mesh @mesh = <["data"=8]>

// Carried and reduced in f32, then rounded once; what is carried is not reduced, and starts from zeros of its own.
// WIDE-LABEL:   func.func public @half_accumulator
// WIDE:           %[[Z:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// WIDE:           %[[W:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %[[Z]]) : tensor<i32>, tensor<4x4xf32>
// WIDE:           } do {
// WIDE:           %[[P:.*]] = stablehlo.dot_general {{.*}} -> tensor<4x4xbf16>
// WIDE-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xbf16>
// WIDE-NEXT:      %[[C:.*]] = stablehlo.convert %[[U]] : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// WIDE-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[C]] <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// WIDE-NEXT:      stablehlo.add %[[A]], %[[V]] : tensor<4x4xf32>
// WIDE:           %[[S:.*]] = sdy.sharding_constraint %[[W]]#1 <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// WIDE-NEXT:      %[[R:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}]> : tensor<4x4xf32>
// WIDE-NEXT:      %[[N:.*]] = stablehlo.convert %[[R]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// WIDE-NEXT:      return %[[N]]
// WIRE-LABEL:   func.func public @half_accumulator
// WIRE-NOT:       stablehlo.convert
// WIRE:           return
func.func public @half_accumulator(%x: tensor<16x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xbf16>, tensor<16x4xbf16>) -> tensor<4x4xbf16>
    %n = stablehlo.add %acc, %g : tensor<4x4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xbf16>
  }
  return %w#1 : tensor<4x4xbf16>
}

// The sum is kept in f32, and rounded once for the wire. The start value is added after it, in f32.
// WIRE-LABEL:   func.func public @single_accumulator
// WIRE:           } do {
// WIRE-NOT:       stablehlo.convert
// WIRE:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// WIRE:           %[[U:.*]] = sdy.sharding_constraint %{{.*}}#1 <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
// WIRE-NEXT:      %[[N:.*]] = stablehlo.convert %[[U]] : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// WIRE-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[N]] <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xbf16>
// WIRE-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[V]] <@mesh, [{}, {}]> : tensor<4x4xbf16>
// WIRE-NEXT:      %[[R:.*]] = stablehlo.convert %[[S]] : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// WIRE-NEXT:      %[[T:.*]] = stablehlo.add %arg1, %[[R]]
// WIRE-NEXT:      return %[[T]]
func.func public @single_accumulator(%x: tensor<16x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %start: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %y = stablehlo.convert %x : (tensor<16x4xbf16>) -> tensor<16x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %n = stablehlo.add %acc, %g : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Out of two loops: f32 in both, one rounding for the wire, one to the program's type.
// BOTH-LABEL:   func.func public @half_in_two_loops
// BOTH:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4x4xf32>
// BOTH:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4x4xf32>
// BOTH:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// BOTH:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// BOTH:           %[[N:.*]] = stablehlo.convert {{.*}} -> tensor<4x4xbf16>
// BOTH-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[N]] <@mesh, [{}, {}], unreduced={"data"}>
// BOTH-NEXT:      %[[S:.*]] = sdy.sharding_constraint %[[V]] <@mesh, [{}, {}]> : tensor<4x4xbf16>
// BOTH-NOT:       unreduced
// BOTH:           return
func.func public @half_in_two_loops(%x: tensor<8x4xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %v:2 = stablehlo.while(%j = %zero, %sum = %none) : tensor<i32>, tensor<4x4xbf16>
    cond {
      %again = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %again : tensor<i1>
    } do {
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
      %m = stablehlo.add %sum, %g : tensor<4x4xbf16>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %m : tensor<i32>, tensor<4x4xbf16>
    }
    %n = stablehlo.add %acc, %v#1 : tensor<4x4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xbf16>
  }
  return %w#1 : tensor<4x4xbf16>
}
