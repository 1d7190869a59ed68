// The reductions that end unreduced values.

// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Legal when: values that are unreduced over different axes do not meet
// CHECK-LABEL:   func.func public @other_axes
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.add missed: values that are unreduced over different axes meet
func.func public @other_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %p2 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u2 = sdy.sharding_constraint %p2 <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.add %u, %u2 : tensor<4x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Legal when: the all_reduce is over the axes over which its operand is unreduced
// CHECK-LABEL:   func.func public @fewer_axes
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce missed: it reduces over other axes than its operand is unreduced over
func.func public @fewer_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.add %u, %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Summed over "data" at once, over "replica" after the negation.
// CHECK-LABEL:   func.func public @one_axis
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica"}> :
// CHECK-NEXT:      stablehlo.negate
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica"}> :
// CHECK-NEXT:      sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]> :
func.func public @one_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// Each device keeps a shard of the sum: XLA:CPU and XLA:TPU reduce the whole of it unless a reduce_scatter is written.
// CHECK-LABEL:   func.func public @scattered
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[T:.*]] = stablehlo.negate %[[U]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      sdy.manual_computation(%[[W]]) in_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"replica", "data"} (%[[A:.*]]: tensor<8x4xf32>) {
// CHECK-NEXT:        %[[S:.*]] = "stablehlo.reduce_scatter"(%[[A]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]>
// CHECK-SAME:        scatter_dimension = 0
// CHECK:             }) : (tensor<8x4xf32>) -> tensor<2x4xf32>
// CHECK:             "stablehlo.all_reduce"(%[[S]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]>
// CHECK:             sdy.return
func.func public @scattered(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %t = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica", "data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// Scattered where it is, and summed over the rest of the axes later. The number of a channel is one that nobody has.
// CHECK-LABEL:   func.func public @scattered_first
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[M:.*]] = sdy.manual_computation(%[[U]]) in_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{}, {"data"}], unreduced={"replica"}>]
// CHECK-NEXT:        "stablehlo.reduce_scatter"
// CHECK-SAME:        scatter_dimension = 1
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             sdy.return
// CHECK:           %[[W:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{}, {"data"}], unreduced={"replica"}> :
// CHECK-NEXT:      %[[T:.*]] = stablehlo.negate %[[W]]
// CHECK-NEXT:      %[[R:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {"data"}], unreduced={"replica"}> :
// CHECK-NEXT:      sdy.sharding_constraint %[[R]] <@mesh, [{}, {"data"}]> :
// REMARK-DAG: [annotate-unreduced] sdy.reduce_scatter applied: 128 bytes per device are scattered here, over data
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce applied: 32 bytes per device are reduced here, over replica, and not before
func.func public @scattered_first(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %s = sdy.reduce_scatter [{}, {"data"}] %u out_sharding=<@mesh, [{}, {"data"}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>} : tensor<8x4xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x4xf32>
  %t = stablehlo.negate %r {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// The all_reduce has not moved: what is scattered is summed over all axes at once.
// CHECK-LABEL:   func.func public @scattered_only
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{"data"}, {}]>]
// CHECK-NEXT:        "stablehlo.reduce_scatter"
// CHECK:             "stablehlo.all_reduce"
// CHECK:           return
// CHECK-NOT:       paropt.
func.func public @scattered_only(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x8xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x8xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x8xf32>
  %v = sdy.all_reduce {"replica"} %r out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  return %v : tensor<8x8xf32>
}

// Six rows cannot be cut into four shards of one size: a constraint asks for the sum.
// CHECK-LABEL:   func.func public @unequal_shards
// CHECK-NOT:       sdy.manual_computation
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]> :
func.func public @unequal_shards(%x: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<6x6xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x6xf32>, tensor<16x6xf32>) -> tensor<6x6xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<6x6xf32>
  %t = stablehlo.negate %u {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<6x6xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<6x6xf32>
  return %v : tensor<6x6xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// The constraint that stood where a reduce_scatter was written comes back.
// CHECK-LABEL:   func.func public @scattering_taken_back
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[T:.*]] = stablehlo.sqrt %[[P]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[T]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[W]]
// REMARK-DAG: [annotate-unreduced] stablehlo.sqrt missed: stablehlo.sqrt does not commute with the reduction
func.func public @scattering_taken_back(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<8x8xf32>
  %t = stablehlo.sqrt %u : tensor<8x8xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %t out_sharding=<@mesh, [{"data"}, {}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>} : tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// Devices reduce the columns that they have, and exchange them: what is read for these would be gathered else.
// CHECK-LABEL:   func.func public @exchanged
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"model"}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[M:.*]] = sdy.manual_computation(%[[U]]) in_shardings=[<@mesh, [{"model"}, {}], unreduced={"replica", "data"}>] out_shardings=[<@mesh, [{"data"}, {}], unreduced={"replica"}>] manual_axes={"replica", "data", "model"} (%[[A:.*]]: tensor<4x4xf32>) {
// CHECK-NEXT:        %[[S:.*]] = "stablehlo.all_reduce"(%[[A]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]>
// CHECK:             %[[E:.*]] = "stablehlo.collective_permute"(%[[S]])
// CHECK-SAME{LITERAL}: source_target_pairs = dense<[[0, 0], [1, 2], [2, 1], [3, 3], [4, 4], [5, 6], [6, 5], [7, 7]]>
// CHECK-NEXT:        sdy.return %[[E]] : tensor<4x4xf32>
// CHECK:           sdy.sharding_constraint %[[M]] <@mesh, [{"data"}, {}], unreduced={"replica"}> :
// REMARK-DAG: [annotate-unreduced] sdy.reduce_scatter applied: 64 bytes per device are reduced and exchanged here, over data
func.func public @exchanged(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x4xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x4xf32>
  %t = stablehlo.negate %r {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2], device_ids=[7, 5, 6, 4, 3, 1, 2, 0]>

// Devices are told by their numbers, in whatever order the mesh has them: the second and the third are exchanged.
// CHECK-LABEL:   func.func public @exchanged_in_another_order
// CHECK:           "stablehlo.all_reduce"
// CHECK-SAME{LITERAL}: replica_groups = dense<[[7, 6], [5, 4], [3, 2], [1, 0]]>
// CHECK:           "stablehlo.collective_permute"
// CHECK-SAME{LITERAL}: source_target_pairs = dense<[[7, 7], [5, 6], [6, 5], [4, 4], [3, 3], [1, 2], [2, 1], [0, 0]]>
func.func public @exchanged_in_another_order(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<8x4xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<8x4xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x4xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x4xf32>
  %t = stablehlo.negate %r {paropt.shardings = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : tensor<8x4xf32>
  %v = sdy.all_reduce {"replica"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  return %v : tensor<8x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Legal when: a reduce_scatter cuts its operand into equal parts, and none moves to another device, or all are exchanged
// CHECK-LABEL:   func.func public @scattered_unequally
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}]>
// CHECK-NEXT:      return %[[W]]
// REMARK-DAG: [annotate-unreduced] sdy.reduce_scatter missed: no reduce_scatter cuts it like that
func.func public @scattered_unequally(%x: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<6x6xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x6xf32>, tensor<16x6xf32>) -> tensor<6x6xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<6x6xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> {paropt.whole = #sdy.sharding<@mesh, [{}, {}]>} : tensor<6x6xf32>
  return %s : tensor<6x6xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// A reduce_scatter goes with what it leaves to reduce; another sum stays.
// CHECK-LABEL:   func.func public @scattered_and_squared
// CHECK-NOT:       stablehlo.reduce_scatter
// CHECK:           stablehlo.negate
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"replica", "data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %{{.*}}, %[[V]]
// REMARK-DAG: [annotate-unreduced] stablehlo.multiply missed: stablehlo.multiply is not linear in an unreduced value
func.func public @scattered_and_squared(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data"}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data"}, {?}]>]} : tensor<8x8xf32>
  %s = sdy.reduce_scatter [{"data"}, {}] %u out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x8xf32>
  %r = sdy.sharding_constraint %s <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = []} : tensor<8x8xf32>
  %m = stablehlo.multiply %r, %r : tensor<8x8xf32>
  %v = sdy.all_reduce {"replica"} %m out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %uq = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data"}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data"}, {?}]>]} : tensor<8x8xf32>
  %t = stablehlo.negate %uq : tensor<8x8xf32>
  %w = sdy.all_reduce {"replica", "data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
  return %v, %w : tensor<8x8xf32>, tensor<8x8xf32>
}
