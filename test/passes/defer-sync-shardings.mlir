// Loops in manual computations, and loops with shardings of their own.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#data = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data">]>

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
sdy.mesh @mesh = <["replica"=2, "data"=4]>

// In a shard_map: replicated arguments (the number of trips, a loss scale) are uniform, sharded ones are not.
// CHECK-LABEL:   func.func public @manual_computation
// CHECK:           } do {
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"(%{{.*}}#1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, {{.*}}, use_global_device_ids}>
// CHECK-NOT:       stablehlo.all_reduce
func.func public @manual_computation(%trips: tensor<i32>, %x: tensor<8x4xf32>, %scale: tensor<2x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%trips, %x, %scale, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%n: tensor<i32>, %g: tensor<1x4xf32>, %f: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %scaled = stablehlo.multiply %f, %r : tensor<1x4xf32>
      %next = stablehlo.add %acc, %scaled : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %next : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i32>, tensor<8x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL:   func.func public @branch_with_shardings
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the stablehlo.if says how its results are sharded (stablehlo.if at
func.func public @branch_with_shardings(%skip: tensor<i1>, %x: tensor<8x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%skip, %x, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%p: tensor<i1>, %g: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %c = "stablehlo.if"(%p) ({
        stablehlo.return %g : tensor<1x4xf32>
      }, {
        %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p1: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p1, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
        stablehlo.return %r : tensor<1x4xf32>
      }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : (tensor<i1>) -> tensor<1x4xf32>
      %next = stablehlo.add %acc, %c : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %next : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i1>, tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// Legal when: it has no shardings of its own (they are one per loop-carried value)
// CHECK-LABEL:   func.func public @loop_with_shardings
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the loop says how its values are sharded (stablehlo.while at
func.func public @loop_with_shardings(%trips: tensor<i32>, %x: tensor<8x4xf32>, %scale: tensor<2x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%trips, %x, %scale, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%n: tensor<i32>, %g: tensor<1x4xf32>, %f: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {}]>]>}
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %scaled = stablehlo.multiply %f, %r : tensor<1x4xf32>
      %next = stablehlo.add %acc, %scaled : tensor<1x4xf32>
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %next : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i32>, tensor<8x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL:   func.func public @inner_loop_with_shardings
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: the loop says how its values are sharded (stablehlo.while at
func.func public @inner_loop_with_shardings(%trips: tensor<i32>, %x: tensor<8x4xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = sdy.manual_computation(%trips, %x, %start) in_shardings=[<@mesh, []>, <@mesh, [{"replica", "data"}, {}]>, <@mesh, [{"replica"}, {}]>] out_shardings=[<@mesh, [{"replica"}, {}]>] manual_axes={"replica", "data"} (%n: tensor<i32>, %g: tensor<1x4xf32>, %s: tensor<1x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %s) : tensor<i32>, tensor<1x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %r = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #data, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<1x4xf32>) -> tensor<1x4xf32>
      %m = stablehlo.add %acc, %r : tensor<1x4xf32>
      %v:2 = stablehlo.while(%j = %zero, %a = %m) : tensor<i32>, tensor<1x4xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {}]>]>}
      cond {
        %more = stablehlo.compare LT, %j, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %b = stablehlo.negate %a : tensor<1x4xf32>
        %j_next = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %j_next, %b : tensor<i32>, tensor<1x4xf32>
      }
      %i_next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %i_next, %v#1 : tensor<i32>, tensor<1x4xf32>
    }
    sdy.return %w#1 : tensor<1x4xf32>
  } : (tensor<i32>, tensor<8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What the sum starts with is added after the loop, where its sharding would decide for the sum.
// CHECK-LABEL:   func.func public @sharded_start
// CHECK:           } do {
// CHECK-NOT:         sdy.all_reduce
// CHECK:             stablehlo.return
// CHECK:           %[[SUM:.*]] = sdy.all_reduce
// CHECK-NEXT:      stablehlo.add %arg2, %[[SUM]] {paropt.alone = [#sdy.sharding<@mesh, [{}, {"model"}]>]}
func.func public @sharded_start(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %start: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> tensor<8x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<8x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %xv = stablehlo.add %x, %xb : tensor<16x8xf32>
    %p = stablehlo.dot_general %xv, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<8x8xf32>
    %s = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
    %n = stablehlo.add %acc, %s {paropt.alone = [#sdy.sharding<@mesh, [{}, {"model"}]>]} : tensor<8x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<8x8xf32>
  }
  return %w#1 : tensor<8x8xf32>
}
