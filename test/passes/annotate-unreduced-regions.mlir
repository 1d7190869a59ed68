// Loops, branches and manual computations.

// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=8]>

// Legal when: the condition of a loop does not read an unreduced value
// CHECK-LABEL:   func.func public @condition
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.slice missed: the condition of a loop reads an unreduced value
func.func public @condition(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
  cond {
    %less = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c = stablehlo.slice %acc [0:1, 0:1] : (tensor<4x4xf32>) -> tensor<1x1xf32>
    %s = stablehlo.reshape %c : (tensor<1x1xf32>) -> tensor<f32>
    %limit = stablehlo.constant dense<1.0e9> : tensor<f32>
    %small = stablehlo.compare LT, %s, %limit : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.and %less, %small : tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %n = stablehlo.add %acc, %u : tensor<4x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x4xf32>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Branches return it, or zeros.
// CHECK-LABEL:   func.func public @branch
// CHECK:           %[[B:.*]] = "stablehlo.if"
// CHECK:             stablehlo.negate
// CHECK-NEXT:        %[[M:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:        stablehlo.return %[[M]]
// CHECK:             stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:        %[[Z:.*]] = stablehlo.constant dense<0.000000e+00>
// CHECK-NEXT:        %[[W:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}]>
// CHECK-NEXT:        %[[T:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:        stablehlo.return %[[T]]
// CHECK:           %[[R:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:      sdy.sharding_constraint %[[R]] <@mesh, [{}, {}]>
func.func public @branch(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b = "stablehlo.if"(%yes) ({
    %m = stablehlo.negate %u : tensor<4x4xf32>
    stablehlo.return %m : tensor<4x4xf32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none : tensor<4x4xf32>
  }) : (tensor<i1>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %b out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// An if or a case of two has several results, some of them not reduced: a third branch, which is never taken.
// CHECK-LABEL:   func.func public @branch_with_count
// CHECK:           %[[I:.*]] = stablehlo.select %arg1, %[[C0:.*]], %[[C1:.*]] : tensor<i1>, tensor<i32>
// CHECK-NEXT:      %[[B:.*]]:2 = "stablehlo.case"(%[[I]])
// CHECK:             stablehlo.add %arg2, %arg2
// CHECK:             stablehlo.return
// CHECK:             stablehlo.return
// CHECK:             %[[Z:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:        %[[W:.*]] = sdy.sharding_constraint %[[Z]] <@mesh, [{}, {}]>
// CHECK-NEXT:        %[[T:.*]] = sdy.sharding_constraint %[[W]] <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:        %[[N:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT:        stablehlo.return %[[T]], %[[N]]
// CHECK-NEXT:      }) {mhlo.frontend_attributes = {note = "kept"}}
// CHECK:           sdy.sharding_constraint %[[B]]#0 <@mesh, [{}, {}], unreduced={"data"}>
// CHECK:           return %{{.*}}, %[[B]]#1
func.func public @branch_with_count(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>, %n: tensor<f32>) -> (tensor<4x4xf32>, tensor<f32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    %m = stablehlo.add %n, %n : tensor<f32>
    stablehlo.return %u, %m : tensor<4x4xf32>, tensor<f32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %n : tensor<4x4xf32>, tensor<f32>
  }) {mhlo.frontend_attributes = {note = "kept"}} : (tensor<i1>) -> (tensor<4x4xf32>, tensor<f32>)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %b#1 : tensor<4x4xf32>, tensor<f32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// XLA aborts for GPUs even where none of several results is reduced.
// CHECK-LABEL:   func.func public @branch_with_two_sums
// CHECK-NOT:       stablehlo.if
// CHECK:           "stablehlo.case"
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<4x4xf32>
// CHECK-COUNT-2:   unreduced={"data"}
func.func public @branch_with_two_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    %n = stablehlo.negate %u : tensor<4x4xf32>
    stablehlo.return %u, %n : tensor<4x4xf32>, tensor<4x4xf32>
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %none : tensor<4x4xf32>, tensor<4x4xf32>
  }) : (tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %w = sdy.all_reduce {"data"} %b#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What stands for the number of a case: all but 0 are the last branch.
// CHECK-LABEL:   func.func public @case_with_count
// CHECK:           %[[C0:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:      %[[C1:.*]] = stablehlo.constant dense<1> : tensor<i32>
// CHECK-NEXT:      %[[FIRST:.*]] = stablehlo.compare EQ, %arg1, %[[C0]]
// CHECK-NEXT:      %[[I:.*]] = stablehlo.select %[[FIRST]], %[[C0]], %[[C1]] : tensor<i1>, tensor<i32>
// CHECK-NEXT:      "stablehlo.case"(%[[I]])
func.func public @case_with_count(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %which: tensor<i32>, %n: tensor<ui8>) -> (tensor<4x4xf32>, tensor<ui8>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.case"(%which) ({
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %n : tensor<4x4xf32>, tensor<ui8>
  }, {
    stablehlo.return %u, %n : tensor<4x4xf32>, tensor<ui8>
  }) : (tensor<i32>) -> (tensor<4x4xf32>, tensor<ui8>)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %b#1 : tensor<4x4xf32>, tensor<ui8>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Legal when: an if or case with unreduced results returns plain tensors
// CHECK-LABEL:   func.func public @branch_with_token
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.if missed: stablehlo.if returns both an unreduced value and a !stablehlo.token, which is no plain tensor
func.func public @branch_with_token(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %n = stablehlo.create_token : !stablehlo.token
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b:2 = "stablehlo.if"(%yes) ({
    stablehlo.return %u, %n : tensor<4x4xf32>, !stablehlo.token
  }, {
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    stablehlo.return %none, %n : tensor<4x4xf32>, !stablehlo.token
  }) : (tensor<i1>) -> (tensor<4x4xf32>, !stablehlo.token)
  %v = sdy.all_reduce {"data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A branch returns ones: what each device holds of them would be counted once per device.
// CHECK-LABEL:   func.func public @branch_with_ones
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.return missed: a sum of an unreduced value and a reduced one
func.func public @branch_with_ones(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %yes: tensor<i1>) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %b = "stablehlo.if"(%yes) ({
    stablehlo.return %u : tensor<4x4xf32>
  }, {
    %ones = stablehlo.constant dense<1.0> : tensor<4x4xf32>
    stablehlo.return %ones : tensor<4x4xf32>
  }) : (tensor<i1>) -> tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %b out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What a manual computation reduced last, it returns unreduced.
// CHECK-LABEL:   func.func public @region
// CHECK:           %[[M:.*]] = sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}], unreduced={"data"}>] manual_axes={"data", "model"}
// CHECK-NEXT:        %[[G:.*]] = stablehlo.dot_general
// CHECK-NEXT:        %[[T:.*]] = stablehlo.transpose %[[G]]
// CHECK-NEXT:        sdy.return %[[T]]
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[N:.*]] = stablehlo.negate %[[U]]
// CHECK-NEXT:      %[[W:.*]] = sdy.sharding_constraint %[[N]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      sdy.sharding_constraint %[[W]] <@mesh, [{}, {}]> :
// REMARK-DAG: [annotate-unreduced] sdy.all_reduce applied: 64 bytes per device are reduced here, over data, and not before
func.func public @region(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.transpose %h, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// Over the other axis it still reduces.
// CHECK-LABEL:   func.func public @region_over_one_axis
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}], unreduced={"data"}>]
// CHECK-NEXT:        %[[G:.*]] = stablehlo.dot_general
// CHECK-NEXT:        %[[R:.*]] = "stablehlo.all_reduce"(%[[G]])
// CHECK-SAME{LITERAL}: replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]>
// CHECK:             sdy.return %[[R]]
func.func public @region_over_one_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL:   func.func public @region_not_moved
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
// CHECK:             "stablehlo.all_reduce"
// CHECK:             sdy.return
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
func.func public @region_not_moved(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: a sum that is exposed behind a manual computation is one that the computation takes
// CHECK-LABEL:   func.func public @region_not_linear
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.manual_computation missed: the manual computation does not take the sum that is exposed
func.func public @region_not_linear(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.abs %h : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL:   func.func public @region_over_another_axis
// CHECK:           sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
// CHECK-NOT:       sdy.sharding_constraint
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] sdy.manual_computation missed: the manual computation does not take the sum that is exposed
func.func public @region_over_another_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %m <@mesh, [{?}, {?}], unreduced={"model"}> {paropt.operands = []} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %v = sdy.all_reduce {"model"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}
