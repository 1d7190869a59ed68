// Sums of manual computations.

// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='expose-all-reduces{axes=data}' --split-input-file | FileCheck %s --check-prefix=AXES

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// The loop reads an argument from outside. XLA has the loop carry it, split further, as the product needs it; so the sum
// in the loop is over both axes, and the one before it, of the argument itself, over one.
// CHECK-LABEL:   func.func public @captured
// CHECK:           stablehlo.reduce(%arg0
// CHECK-NEXT:      unreduced={"data"}>
// CHECK:           stablehlo.while
// CHECK:           stablehlo.reduce(%arg0
// CHECK-NEXT:      unreduced={"replica", "data"}>
func.func public @captured(%x: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "replica"}, {}]>}, %n: tensor<i32>) -> (tensor<2xf32>, tensor<2x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %nones = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %before = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [0] : (tensor<16x2xf32>, tensor<f32>) -> tensor<2xf32>
  %w:3 = stablehlo.while(%i = %zero, %a = %before, %b = %nones) : tensor<i32>, tensor<2xf32>, tensor<2x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<2x2xf32>
    %q = stablehlo.add %b, %p : tensor<2x2xf32>
    %s = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [0] : (tensor<16x2xf32>, tensor<f32>) -> tensor<2xf32>
    %t = stablehlo.add %a, %s : tensor<2xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %t, %q : tensor<i32>, tensor<2xf32>, tensor<2x2xf32>
  }
  return %w#1, %w#2 : tensor<2xf32>, tensor<2x2xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What a manual computation reduces last. It stays in there until annotate-unreduced takes it out.
// CHECK-LABEL:   func.func public @region
// CHECK:           %[[M:.*]] = sdy.manual_computation
// CHECK:             "stablehlo.all_reduce"
// CHECK:             sdy.return
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[M]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []}
// CHECK-NEXT:      %[[R:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK-NEXT:      stablehlo.negate %[[R]]
func.func public @region(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// With the option `axes`, what is left is reduced in there.
// CHECK-LABEL:   func.func public @region_over_all_axes
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data", "model"}> {paropt.operands = []}
// AXES-LABEL:    func.func public @region_over_all_axes
// AXES:            sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = []}
func.func public @region_over_all_axes(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Linear ops may follow.
// CHECK-LABEL:   func.func public @region_of_two_sums
// CHECK:           sdy.all_reduce {"data"}
func.func public @region_of_two_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = stablehlo.transpose %h, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %k = stablehlo.multiply %g, %b : tensor<4x4xf32>
    %l = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.add %t, %l : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Legal when: it reduces over axes of the mesh, before the return or linear ops
// CHECK-LABEL:   func.func public @region_maximum
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the reduction is not an all_reduce that adds
func.func public @region_maximum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @region_pairs
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: its replica groups are not those of axes of the mesh
func.func public @region_pairs(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<16x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [4, 6], [1, 3], [5, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %n0 = stablehlo.negate %m : tensor<16x4xf32>
  return %n0 : tensor<16x4xf32>
}

// CHECK-LABEL:   func.func public @region_not_linear
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @region_not_linear(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.abs %h : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Legal when: the block adds nothing else to the sum
// CHECK-LABEL:   func.func public @region_with_another_term
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: a sum of a reduced value and an unreduced one
func.func public @region_with_another_term(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = stablehlo.add %h, %b : tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Legal when: the block returns the sum once, and nothing else in there reads it
// CHECK-LABEL:   func.func public @region_returned_twice
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the sum is returned more than once
func.func public @region_returned_twice(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %m:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r, %r : tensor<4x4xf32>, tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %n0 = stablehlo.negate %m#0 : tensor<4x4xf32>
  %n1 = stablehlo.negate %m#1 : tensor<4x4xf32>
  return %n0, %n1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @region_read_in_there
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the sum is also read by stablehlo.abs: stablehlo.abs does not commute with the reduction
func.func public @region_read_in_there(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %m:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = stablehlo.abs %r : tensor<4x4xf32>
    sdy.return %r, %h : tensor<4x4xf32>, tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %n0 = stablehlo.negate %m#0 : tensor<4x4xf32>
  %n1 = stablehlo.negate %m#1 : tensor<4x4xf32>
  return %n0, %n1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Legal when: its result is not sharded over the axes that it reduces over
// CHECK-LABEL:   func.func public @region_split
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: the result is sharded over data, over which it is reduced
func.func public @region_split(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<16x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
  %n0 = stablehlo.negate %m : tensor<16x4xf32>
  return %n0 : tensor<16x4xf32>
}

// CHECK-LABEL:   func.func public @region_split_over_another_axis
// CHECK:           sdy.all_reduce {"data"}
func.func public @region_split_over_another_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"model"}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %n0 = stablehlo.negate %m : tensor<8x4xf32>
  return %n0 : tensor<8x4xf32>
}

// Legal when: devices that hold the same sum hold the same addend
// CHECK-LABEL:   func.func public @region_in_another_order
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: an addend is not proven uniform over the replica groups: stablehlo.collective_permute may differ between devices
func.func public @region_in_another_order(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.collective_permute"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, source_target_pairs = dense<[[0, 0], [2, 2], [4, 4], [6, 6], [1, 3], [3, 5], [5, 7], [7, 1]]> : tensor<8x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%h) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// The factor is made on each device of what is the same on all that are to hold the same.
// CHECK-LABEL:   func.func public @region_scaled_by_a_sum
// CHECK:           sdy.all_reduce {"data"}
func.func public @region_scaled_by_a_sum(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %k = stablehlo.multiply %g, %h : tensor<4x4xf32>
    %r = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// Worth it when: a manual computation returns at most twice the bytes that it reduces (which then is half as often, at least)
// CHECK-LABEL:   func.func public @region_repeats
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.all_reduce missed: 64 bytes are returned, more than twice the 16 that are reduced
func.func public @region_repeats(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %g = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %r = stablehlo.broadcast_in_dim %h, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>
    sdy.return %r : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}
