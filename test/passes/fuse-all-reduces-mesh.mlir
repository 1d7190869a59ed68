// Shardings, and programs in global form.

// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#data = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data">]>
#replica = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "replica">]>
#both = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data">, #stablehlo.axis_ref<name = "replica">]>
#half_of_data = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data", sub_axis_info = (1)2>]>
#data_written_out = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>
#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["replica"=2, "data"=4]>

// What shard_map emits: groups by mesh axes (JAX 0.12) or written out (0.10), and factors replicated or sharded.
// CHECK-LABEL:   func.func public @mesh_axes
// CHECK:           sdy.manual_computation
// CHECK:           stablehlo.multiply
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @mesh_axes(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %scale: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%x, %y, %scale) in_shardings=[<@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%a: tensor<1x4xf32>, %b: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %d = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data_written_out, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %e = stablehlo.multiply %s, %c : tensor<1x4xf32>
    %f = stablehlo.add %e, %d : tensor<1x4xf32>
    sdy.return %f : tensor<1x4xf32>
  } : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// The factor is sharded over an axis of the groups.
// CHECK-LABEL:   func.func public @factor_sharded_over_the_groups
// CHECK-COUNT-3:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: a factor is not proven uniform over the replica groups: an argument of the manual computation is sharded over them
func.func public @factor_sharded_over_the_groups(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %scale: tensor<2x4xf32>) -> tensor<4x4xf32> {
  %0 = sdy.manual_computation(%x, %y, %scale) in_shardings=[<@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"replica", "data"} (%a: tensor<1x4xf32>, %b: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #replica, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %d = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #replica, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %e = stablehlo.multiply %s, %c : tensor<1x4xf32>
    %f = stablehlo.add %e, %d : tensor<1x4xf32>
    %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #replica, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    sdy.return %g : tensor<1x4xf32>
  } : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// CHECK-LABEL:   func.func public @all_axes_in_another_order
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       stablehlo.all_reduce
func.func public @all_axes_in_another_order(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<1x4xf32> {
  %0 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"replica", "data"} (%a: tensor<1x4xf32>, %b: tensor<1x4xf32>) {
    %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #both, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %d = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %f = stablehlo.add %c, %d : tensor<1x4xf32>
    sdy.return %f : tensor<1x4xf32>
  } : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// A part of an axis: groups in a notation that is not read here.
// CHECK-LABEL:   func.func public @part_of_an_axis
// CHECK-COUNT-2:   stablehlo.all_reduce
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: the replica groups are not known
func.func public @part_of_an_axis(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>] manual_axes={"replica", "data"} (%a: tensor<1x4xf32>, %b: tensor<1x4xf32>) {
    %c = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #half_of_data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %d = "stablehlo.all_reduce"(%b) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #half_of_data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %f = stablehlo.add %c, %d : tensor<1x4xf32>
    sdy.return %f : tensor<1x4xf32>
  } : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Results may be sharded over the axes that are not manual: where a value lies does not change what it is. The sum
// takes the sharding of a term of its own type only.
// CHECK-LABEL:   func.func public @sharded_over_other_axes
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"replica"}, {}]>]>} : (tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK:           "stablehlo.all_reduce"(
// CHECK-NOT:       sdy.sharding
// CHECK:           : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NOT:       stablehlo.all_reduce
func.func public @sharded_over_other_axes(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>) {
  %0:2 = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"replica", ?}, {"data"}]>, <@mesh, [{?}, {"data"}]>] out_shardings=[<@mesh, [{"replica", ?}, {}]>, <@mesh, [{?}, {?}]>] manual_axes={"data"} (%a: tensor<4x2xf32>, %b: tensor<4x2xf32>) {
    %t = stablehlo.transpose %b, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %c = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"replica"}]>]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %d = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"replica"}, {}]>]>} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %ct = stablehlo.transpose %c, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %f = stablehlo.add %ct, %d : tensor<4x2xf32>
    %e = "stablehlo.all_reduce"(%t) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"replica"}]>]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %g = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"replica"}, {}]>]>} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %gt = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %h = stablehlo.add %e, %gt : tensor<2x4xf32>
    sdy.return %f, %h : tensor<4x2xf32>, tensor<2x4xf32>
  } : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<2x4xf32>)
  return %0#0, %0#1 : tensor<4x2xf32>, tensor<2x4xf32>
}

// Legal when: in a global-view program, no contraction, scatter or gather is crossed (except by a reduction that leaves a loop)
// CHECK-LABEL:   func.func public @products_for_all_devices
// CHECK-COUNT-2:   sdy.all_reduce
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [fuse-all-reduces] stablehlo.add missed: stablehlo.dot_general is crossed in a global-view program only by a reduction that leaves a loop
func.func public @products_for_all_devices(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %ap = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %au = sdy.sharding_constraint %ap <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<8x4xf32>
  %a = sdy.all_reduce {"data"} %au out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  %bp = stablehlo.dot_general %x, %z, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %bu = sdy.sharding_constraint %bp <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<8x4xf32>
  %b = sdy.all_reduce {"data"} %bu out_sharding=<@mesh, [{?}, {?}]> : tensor<8x4xf32>
  %c = stablehlo.dot_general %m, %a, contracting_dims = [1] x [0] {paropt.read = [unit, unit]} : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %d = stablehlo.dot_general %m, %b, contracting_dims = [1] x [0] {paropt.read = [unit, unit]} : (tensor<2x8xf32>, tensor<8x4xf32>) -> tensor<2x4xf32>
  %e = stablehlo.add %c, %d : tensor<2x4xf32>
  return %e : tensor<2x4xf32>
}

// Legal when: in a global-view program, none reduces over axes itself
// CHECK-LABEL:   func.func public @adds_up_over_other_axes
// CHECK:           %[[A:.*]] = sdy.all_reduce {"replica"} %{{.*}} : tensor<16x4xf32>
// CHECK-NEXT:      %[[B:.*]] = stablehlo.add %[[A]],
// CHECK-NEXT:      stablehlo.reduce(%[[B]]
// CHECK-NOT:       sdy.all_reduce {"replica"}
// CHECK:           return
func.func public @adds_up_over_other_axes(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"replica"}]>}, %w: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [#sdy.sharding<@mesh, [{?}, {"replica", ?}]>, #sdy.sharding<@mesh, [{"replica", ?}, {?}]>]} : tensor<16x4xf32>
  %a = sdy.all_reduce {"replica"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<16x4xf32>
  %b = stablehlo.add %a, %y : tensor<16x4xf32>
  %s = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
  %v = sdy.sharding_constraint %s <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit]} : tensor<4xf32>
  %c = sdy.all_reduce {"data"} %v out_sharding=<@mesh, [{?}]> : tensor<4xf32>
  return %c : tensor<4xf32>
}
}
