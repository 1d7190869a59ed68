// A parameter whose momentum is sharded: Shardy shards the gradient like the momentum, until it is told not to.
// RUN: not %par-opt %s --verify-contract -o %t 2>&1 | FileCheck %s --check-prefix=BROKEN
// RUN: FileCheck %s --check-prefix=OUTPUT <%t
// RUN: %par-opt %s --passes=annotate-contract --verify-contract 2>&1 | FileCheck %s --check-prefix=KEPT

// BROKEN: par-opt: contract broken: {{.*}}verify-contract.mlir:[[#]]:{{[0-9]+}}: argument 0 (state['w']) is sharded [{}], and carried value 1, its gradient, [{data}]
// OUTPUT: func.func public @main
// KEPT-NOT: contract broken
// KEPT: sdy.sharding_constraint

sdy.mesh @mesh = <["data"=8]>
func.func public @main(%w: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>} loc("state['w']"), %m: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>} loc("state['m']")) -> (tensor<8xf32> {jax.result_info = "result['m']", sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>}, tensor<8xf32> {jax.result_info = "result['w']", sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
  %r:2 = stablehlo.while(%i = %c0, %sum = %zero) : tensor<i32>, tensor<8xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %next = stablehlo.add %sum, %w : tensor<8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next : tensor<i32>, tensor<8xf32>
  }
  %new_m = stablehlo.add %m, %r#1 : tensor<8xf32>
  %new_w = stablehlo.subtract %w, %new_m : tensor<8xf32>
  return %new_m, %new_w : tensor<8xf32>, tensor<8xf32>
}
