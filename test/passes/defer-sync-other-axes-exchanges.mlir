// Values that devices exchange over other axes.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#columns = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>
#rows = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>

module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// Each device of a column has the same place in an exchange between the same columns.
// CHECK-LABEL:   func.func public @exchanged
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @exchanged(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
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
    %fs = "stablehlo.all_to_all"(%own) {split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, replica_groups = #rows, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
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

// But one has another place.
// CHECK-LABEL:   func.func public @exchanged_in_another_order
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.all_to_all may differ between devices
func.func public @exchanged_in_another_order(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
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
    %fs = "stablehlo.all_to_all"(%own) {split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [7, 6]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
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

// Each device of a column gets something of the same column.
// CHECK-LABEL:   func.func public @passed_on
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(
// CHECK:           return
func.func public @passed_on(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
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
    %fs = "stablehlo.collective_permute"(%own) {source_target_pairs = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
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

// But one gets nothing: zeros.
// CHECK-LABEL:   func.func public @passed_on_to_some
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.collective_permute may differ between devices
func.func public @passed_on_to_some(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
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
    %fs = "stablehlo.collective_permute"(%own) {source_target_pairs = dense<[[0, 1], [2, 3], [4, 5]]> : tensor<3x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
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

// But one gets its own.
// CHECK-LABEL:   func.func public @passed_on_from_another_column
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.collective_permute may differ between devices
func.func public @passed_on_from_another_column(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
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
    %fs = "stablehlo.collective_permute"(%own) {source_target_pairs = dense<[[0, 1], [2, 3], [4, 5], [7, 7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
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

// A place on the axis itself is each device's own.
// CHECK-LABEL:   func.func public @own_place
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.partition_id may differ between devices
func.func public @own_place(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
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

// So is a branch that it takes.
// CHECK-LABEL:   func.func public @own_branch
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a predicate is not proven uniform over the replica groups: stablehlo.partition_id may differ between devices
func.func public @own_branch(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "model"}, {}]>] out_shardings=[<@mesh, [{"data", "model"}, {}]>] manual_axes={"data", "model"} (%g: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<1x4xf32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %id = stablehlo.partition_id : tensor<ui32>
    %model = stablehlo.divide %id, %two : tensor<ui32>
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
        stablehlo.return %s : tensor<1x4xf32>
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

// What a loop changes is not known: here it is equal in the first trip only.
// CHECK-LABEL:   func.func public @carried_and_changed
// CHECK:           } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           return
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a factor is not proven uniform over the replica groups: stablehlo.partition_id may differ between devices
func.func public @carried_and_changed(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
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
      %c_next = stablehlo.divide %c, %two : tensor<ui32>
      %n = stablehlo.add %acc, %m : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %n, %c_next : tensor<i32>, tensor<1x4xf32>, tensor<ui32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
}
