// Sums that only their readers after the loop shard, as the state of an optimizer does.

// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: %par-opt %s --passes='expose-all-reduces{inferred=whole}' --split-input-file | FileCheck %s --check-prefix=WHOLE
// RUN: %par-opt %s --passes='expose-all-reduces{policy=defer}' --split-input-file | FileCheck %s --check-prefix=WHOLE
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=223}' --split-input-file | FileCheck %s --check-prefix=KEPT
// RUN: %par-opt %s --passes='expose-all-reduces{policy=auto memory-budget=1kB}' --split-input-file | FileCheck %s --check-prefix=WHOLE

sdy.mesh @mesh = <["data"=8]>

// Worth it when: nor do its readers after the loop, as a state over more axes does (option `inferred`, or `policy=defer`)
// REMARK: [expose-all-reduces] stablehlo.dot_general missed: its sum is sharded over `data`, and stays so (option policy=defer replicates it)
// KEPT-LABEL:    func.func public @written_out
// KEPT:            sdy.reduce_scatter {{\[}}{"data"}, {}]
// KEPT-NOT:        sdy.all_reduce
// WHOLE-LABEL:   func.func public @written_out
// WHOLE:           sdy.all_reduce {"data"}
func.func public @written_out(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %s = stablehlo.add %acc, %g : tensor<8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s : tensor<i32>, tensor<8x8xf32>
  }
  %new = stablehlo.add %m, %w#1 : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A loop over layers stacks the gradients: the compiler reduces each row into its shard, and holds no whole sum.
// REMARK: [expose-all-reduces] stablehlo.dot_general missed: its sum is sharded over `data`, and stays so (option policy=defer replicates it)
// KEPT-LABEL:    func.func public @stacked
// KEPT-NOT:        sdy.all_reduce
// KEPT:            sdy.reduce_scatter {{\[}}{"data"}, {}]
// KEPT-NOT:        sdy.all_reduce
// KEPT:            return %{{.*}} : tensor<3x8x8xf32>
// WHOLE-LABEL:   func.func public @stacked
// WHOLE:           sdy.all_reduce {"data"}
func.func public @stacked(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> (tensor<3x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x8x8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %layers:2 = stablehlo.while(%j = %zero, %rows = %none) : tensor<i32>, tensor<3x8x8xf32>
    cond {
      %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %row = stablehlo.reshape %g : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
      %put = stablehlo.dynamic_update_slice %rows, %row, %j, %zero, %zero : (tensor<3x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x8xf32>
      %next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next, %put : tensor<i32>, tensor<3x8x8xf32>
    }
    %s = stablehlo.add %acc, %layers#1 : tensor<3x8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s : tensor<i32>, tensor<3x8x8xf32>
  }
  %new = stablehlo.add %m, %w#1 : tensor<3x8x8xf32>
  return %new : tensor<3x8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What reads the sum asks for no shards: nothing is inferred.
// KEPT-LABEL:    func.func public @replicated
// KEPT:            sdy.all_reduce {"data"}
func.func public @replicated(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %s = stablehlo.add %acc, %g : tensor<8x8xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s : tensor<i32>, tensor<8x8xf32>
  }
  %new = stablehlo.add %m, %w#1 : tensor<8x8xf32>
  return %new : tensor<8x8xf32>
}
