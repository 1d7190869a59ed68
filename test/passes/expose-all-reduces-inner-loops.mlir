// RUN: %par-opt %s --passes=expose-all-reduces | FileCheck %s
// RUN: %par-opt %s --passes='expose-all-reduces{scatters=left}' | FileCheck %s

// Sums that the program shards, of which an inner loop adds up terms, and a constraint then asks for the whole.

sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL:   func.func public @chunks
// CHECK:             %[[IN:.*]]:2 = stablehlo.while
// CHECK:               stablehlo.dot_general
// CHECK-NEXT:          sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:          stablehlo.transpose
// CHECK-NEXT:          stablehlo.add
// CHECK:             %[[C:.*]] = sdy.sharding_constraint %[[IN]]#1 <@mesh, [{}, {}]>
// CHECK-NEXT:        %[[S:.*]] = sdy.reduce_scatter [{"data"}, {}] %[[C]] out_sharding=<@mesh, [{"data"}, {}]>
// CHECK-NEXT:        stablehlo.add %{{.*}}, %[[S]]
func.func public @chunks(%w: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %xs: tensor<3x2x16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<8x16xf32>
  %g:3 = stablehlo.while(%i = %zero, %acc = %start, %p = %w) : tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<8x16xf32>
    %batch = stablehlo.dynamic_slice %xs, %i, %zero, %zero, %zero, sizes = [1, 2, 16, 16] : (tensor<3x2x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16x16xf32>
    %chunks = stablehlo.reshape %batch : (tensor<1x2x16x16xf32>) -> tensor<2x16x16xf32>
    %in:2 = stablehlo.while(%k = %zero, %sum = %none) : tensor<i32>, tensor<8x16xf32> cond {
      %c = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %chunks, %k, %zero, %zero, sizes = [1, 16, 16] : (tensor<2x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
      %x = stablehlo.reshape %row : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
      %y = stablehlo.slice %x [0:16, 0:8] : (tensor<16x16xf32>) -> tensor<16x8xf32>
      %d = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
      %s = stablehlo.add %sum, %t : tensor<8x16xf32>
      %n = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x16xf32>
    }
    %whole = sdy.sharding_constraint %in#1 <@mesh, [{}, {}]> : tensor<8x16xf32>
    %a = stablehlo.add %acc, %whole : tensor<8x16xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %p : tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32>
  }
  %new = stablehlo.subtract %w, %g#1 : tensor<8x16xf32>
  return %new : tensor<8x16xf32>
}

// Two terms, as of a table that is tied with the head: one reduce_scatter.
// CHECK-LABEL:   func.func public @two_terms
// CHECK:             %[[IN:.*]]:2 = stablehlo.while
// CHECK-COUNT-2:       sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}>
// CHECK:             %[[C:.*]] = sdy.sharding_constraint %[[IN]]#1 <@mesh, [{}, {}]>
// CHECK-NEXT:        %[[S:.*]] = sdy.reduce_scatter [{"data"}, {}] %[[C]] out_sharding=<@mesh, [{"data"}, {}]>
// CHECK-NOT:         sdy.reduce_scatter
// CHECK:             return
func.func public @two_terms(%w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %xs: tensor<3x2x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %g:3 = stablehlo.while(%i = %zero, %acc = %start, %p = %w) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %batch = stablehlo.dynamic_slice %xs, %i, %zero, %zero, %zero, sizes = [1, 2, 16, 8] : (tensor<3x2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16x8xf32>
    %chunks = stablehlo.reshape %batch : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %in:2 = stablehlo.while(%k = %zero, %sum = %none) : tensor<i32>, tensor<8x8xf32> cond {
      %c = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %chunks, %k, %zero, %zero, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %x = stablehlo.reshape %row : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %y = stablehlo.negate %x : tensor<16x8xf32>
      %z = stablehlo.multiply %x, %x : tensor<16x8xf32>
      %d = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %e = stablehlo.dot_general %x, %z, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %u = stablehlo.add %sum, %d : tensor<8x8xf32>
      %s = stablehlo.add %u, %e : tensor<8x8xf32>
      %n = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x8xf32>
    }
    %whole = sdy.sharding_constraint %in#1 <@mesh, [{}, {}]> : tensor<8x8xf32>
    %a = stablehlo.add %acc, %whole : tensor<8x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %p : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  %new = stablehlo.subtract %w, %g#1 : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}

// What the inner loop starts from would count once per device.
// CHECK-LABEL:   func.func public @start_is_not_zero
// CHECK-NOT:       sdy.reduce_scatter
// CHECK:           return
func.func public @start_is_not_zero(%w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %none: tensor<8x8xf32>, %xs: tensor<3x2x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %g:3 = stablehlo.while(%i = %zero, %acc = %start, %p = %w) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %batch = stablehlo.dynamic_slice %xs, %i, %zero, %zero, %zero, sizes = [1, 2, 16, 8] : (tensor<3x2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16x8xf32>
    %chunks = stablehlo.reshape %batch : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %in:2 = stablehlo.while(%k = %zero, %sum = %none) : tensor<i32>, tensor<8x8xf32> cond {
      %c = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %chunks, %k, %zero, %zero, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %x = stablehlo.reshape %row : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %y = stablehlo.negate %x : tensor<16x8xf32>
      %d = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %sum, %d : tensor<8x8xf32>
      %n = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x8xf32>
    }
    %whole = sdy.sharding_constraint %in#1 <@mesh, [{}, {}]> : tensor<8x8xf32>
    %a = stablehlo.add %acc, %whole : tensor<8x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %p : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  %new = stablehlo.subtract %w, %g#1 : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}

// Each iteration reads the sum so far.
// CHECK-LABEL:   func.func public @sum_is_read
// CHECK-NOT:       sdy.reduce_scatter
// CHECK:           return
func.func public @sum_is_read(%w: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %xs: tensor<3x2x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %g:3 = stablehlo.while(%i = %zero, %acc = %start, %p = %w) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
    %batch = stablehlo.dynamic_slice %xs, %i, %zero, %zero, %zero, sizes = [1, 2, 16, 8] : (tensor<3x2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x16x8xf32>
    %chunks = stablehlo.reshape %batch : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
    %in:2 = stablehlo.while(%k = %zero, %sum = %none) : tensor<i32>, tensor<8x8xf32> cond {
      %c = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %row = stablehlo.dynamic_slice %chunks, %k, %zero, %zero, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
      %x = stablehlo.reshape %row : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
      %y = stablehlo.dot_general %x, %sum, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %d = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %s = stablehlo.add %sum, %d : tensor<8x8xf32>
      %n = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %n, %s : tensor<i32>, tensor<8x8xf32>
    }
    %whole = sdy.sharding_constraint %in#1 <@mesh, [{}, {}]> : tensor<8x8xf32>
    %a = stablehlo.add %acc, %whole : tensor<8x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %p : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  %new = stablehlo.subtract %w, %g#1 : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}
