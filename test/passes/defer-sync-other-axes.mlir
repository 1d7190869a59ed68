// What is equal on the devices of each group because their places on another axis of the mesh decide it, or because
// it comes from such devices, in the same order.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#columns = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>
#rows = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>

module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// A place on the other axis, as `lax.axis_index` is lowered.
// CHECK-LABEL:   func.func public @factor
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @factor(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// A device that has another place on the other axis adds nothing.
// CHECK-LABEL:   func.func public @predicate
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @predicate(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %model_of_none = stablehlo.constant dense<1> : tensor<ui32>
      %is = stablehlo.compare EQ, %model, %model_of_none : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %m = stablehlo.select %is, %none, %s : tensor<i1>, tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Each device keeps its part of a parameter that is split over the other axis.
// CHECK-LABEL:   func.func public @index
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @index(%x: tensor<8x4xf32>) -> tensor<8x2xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x2xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %at = stablehlo.multiply %model, %two : tensor<ui32>
    %first = stablehlo.constant dense<0> : tensor<ui32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x2xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.dynamic_slice %s, %first, %at, sizes = [1, 2] : (tensor<1x4xf32>, tensor<ui32>, tensor<ui32>) -> tensor<1x2xf32>
      %n = stablehlo.add %acc, %m : tensor<1x2xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x2xf32>
    }
    sdy.return %w#1 : tensor<1x2xf32>
  } : (tensor<8x4xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// Devices with one place on the other axis take one branch.
// CHECK-LABEL:   func.func public @branch
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @branch(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %which = stablehlo.convert %model : (tensor<ui32>) -> tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = "stablehlo.case"(%which) ({
        %d = stablehlo.add %s, %s : tensor<1x4xf32>
        stablehlo.return %d : tensor<1x4xf32>
      }, {
        stablehlo.return %none : tensor<1x4xf32>
      }) : (tensor<i32>) -> tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// What a loop carries unchanged is what it is before.
// CHECK-LABEL:   func.func public @carried_unchanged
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @carried_unchanged(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %w:3 = stablehlo.while(%i = %zero, %acc = %none, %c = %id) : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %model = stablehlo.remainder %c, %two : tensor<ui32>
      %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
      %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %c : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Groups that name a mesh axis are those groups.
// CHECK-LABEL:   func.func public @mesh_axes
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @mesh_axes(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data">]>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Of places in groups of the devices, too: here the mesh has nothing to say.
// CHECK-LABEL:   func.func public @every_two_devices
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @every_two_devices(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %four_of = stablehlo.constant dense<4> : tensor<ui32>
    %model = stablehlo.remainder %id, %four_of : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[4, 0], [5, 1], [2, 6], [7, 3]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Each device of a column gathers from the same columns.
// CHECK-LABEL:   func.func public @gathered
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @gathered(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %both = "stablehlo.all_gather"(%own) {all_gather_dim = 0 : i64, replica_groups = #rows, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %fs = stablehlo.slice %both [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// But one in another order.
// CHECK-LABEL:   func.func public @gathered_in_another_order
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.all_gather may differ between devices
func.func public @gathered_in_another_order(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %both = "stablehlo.all_gather"(%own) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [7, 6]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %fs = stablehlo.slice %both [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Devices of a column gather what differs in it.
// CHECK-LABEL:   func.func public @gathered_of_what_differs
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.partition_id may differ between devices
func.func public @gathered_of_what_differs(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.divide %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %both = "stablehlo.all_gather"(%own) {all_gather_dim = 0 : i64, replica_groups = #rows, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %fs = stablehlo.slice %both [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Each device of a column keeps the same part of a sum over the same columns.
// CHECK-LABEL:   func.func public @scattered
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @scattered(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %wide = stablehlo.concatenate %own, %own, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    %fs = "stablehlo.reduce_scatter"(%wide) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {scatter_dimension = 0 : i64, replica_groups = #rows, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// But one keeps another part.
// CHECK-LABEL:   func.func public @scattered_in_another_order
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.reduce_scatter may differ between devices
func.func public @scattered_in_another_order(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %wide = stablehlo.concatenate %own, %own, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    %fs = "stablehlo.reduce_scatter"(%wide) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [7, 6]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Each device of a column keeps a part of its own.
// CHECK-LABEL:   func.func public @scattered_over_the_column
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.reduce_scatter may differ between devices
func.func public @scattered_over_the_column(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %wide = stablehlo.concatenate %own, %own, dim = 0 : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
    %fs = "stablehlo.reduce_scatter"(%wide) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 2], [4, 6], [1, 3], [5, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
}

// -----

#columns = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>
#rows = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>

module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// Floats are not followed.
// CHECK-LABEL:   func.func public @rounded
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.partition_id may differ between devices
func.func public @rounded(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %exact = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
    %halves = stablehlo.convert %two : (tensor<ui32>) -> tensor<f32>
    %f = stablehlo.remainder %exact, %halves : tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Of a device's data nothing is known.
// CHECK-LABEL:   func.func public @chosen_by_data
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: an argument of the manual computation is sharded over them
func.func public @chosen_by_data(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %cut = stablehlo.slice %g [0:1, 0:1] : (tensor<1x4xf32>) -> tensor<1x1xf32>
    %datum = stablehlo.reshape %cut : (tensor<1x1xf32>) -> tensor<f32>
    %number = stablehlo.convert %datum : (tensor<f32>) -> tensor<ui32>
    %sum = stablehlo.add %id, %number : tensor<ui32>
    %model = stablehlo.remainder %sum, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Where an axis is the partitioner's, it is ambiguous which number this is.
// CHECK-LABEL:   func.func public @axis_left_to_the_partitioner
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.partition_id may differ between devices
// NUMERIC: skip (XLA refuses it)
func.func public @axis_left_to_the_partitioner(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.remainder %id, %two : tensor<ui32>
    %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
    %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
      %a = stablehlo.add %g, %ts : tensor<1x4xf32>
      %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #columns, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
}

// -----

// The same holds of replicas.
module attributes {mhlo.num_replicas = 8 : i32} {

// The other replicas of a group make the same of their numbers.
// CHECK-LABEL:   func.func public @replicas
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @replicas(%g: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
  %two = stablehlo.constant dense<2> : tensor<ui32>
  %id = stablehlo.replica_id : tensor<ui32>
  %model = stablehlo.remainder %id, %two : tensor<ui32>
  %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
  %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %a = stablehlo.add %g, %ts : tensor<1x4xf32>
    %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
    %n = stablehlo.add %acc, %m : tensor<1x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
  }
  return %w#1 : tensor<1x4xf32>
}

// But not this.
// CHECK-LABEL:   func.func public @each_replica
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.replica_id may differ between devices
func.func public @each_replica(%g: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
  %two = stablehlo.constant dense<2> : tensor<ui32>
  %id = stablehlo.replica_id : tensor<ui32>
  %model = stablehlo.divide %id, %two : tensor<ui32>
  %f = stablehlo.convert %model : (tensor<ui32>) -> tensor<f32>
  %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<1x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<1x4xf32>
    %a = stablehlo.add %g, %ts : tensor<1x4xf32>
    %s = "stablehlo.all_reduce"(%a) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
    %m = stablehlo.multiply %s, %fs : tensor<1x4xf32>
    %n = stablehlo.add %acc, %m : tensor<1x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<1x4xf32>
  }
  return %w#1 : tensor<1x4xf32>
}
}
