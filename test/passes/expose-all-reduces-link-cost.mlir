// Which of two sums is held whole: the one that saves most, weighed by the axis that it is scattered over.
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=13000}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=EQUAL
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=13000 link-cost=data:8}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=SLOW

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// EQUAL-DAG: stablehlo.dot_general applied: {{.*}}, 8192 more are held
// EQUAL-DAG: stablehlo.dot_general missed: it would save {{[0-9]+}} bytes of reductions and hold 12288 more
// SLOW-DAG: stablehlo.dot_general applied: {{.*}}, 12288 more are held
// SLOW-DAG: stablehlo.dot_general missed: it would save {{[0-9]+}} bytes of reductions and hold 8192 more
func.func public @links(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica"}, {}]>}, %y: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<64x64xf32>
  %w:3 = stablehlo.while(%i = %zero, %a = %none, %b = %none) : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32> cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %h = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<64x64xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"replica"}, {}]> : tensor<64x64xf32>
    %d = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<64x64xf32>
    %m = stablehlo.add %a, %c : tensor<64x64xf32>
    %n = stablehlo.add %b, %d : tensor<64x64xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %m, %n : tensor<i32>, tensor<64x64xf32>, tensor<64x64xf32>
  }
  return %w#1, %w#2 : tensor<64x64xf32>, tensor<64x64xf32>
}
