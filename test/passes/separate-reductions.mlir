// RUN: %par-opt %s --passes=separate-reductions --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='separate-reductions{axes=model}' --split-input-file | FileCheck %s --check-prefix=AXES
// RUN: %par-opt %s --passes=separate-reductions,expose-all-reduces --split-input-file | FileCheck %s --check-prefix=EXPOSED

// Blocks under shard_map: what they add up in loops, or beside other terms.

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What loops in there reduce is deferred first, as by defer-sync, so that it comes last.
// CHECK-LABEL:   func.func public @region_with_a_loop
// CHECK:           stablehlo.while
// CHECK-NOT:       stablehlo.all_reduce
// CHECK:           stablehlo.return
// CHECK:           "stablehlo.all_reduce"
// CHECK:           sdy.return
// Worth it when: the option `axes` allows it (for scatters and other terms, `expose-all-reduces` asks)
// EXPOSED-LABEL: func.func public @region_with_a_loop
// EXPOSED:         sdy.return
// EXPOSED:         sdy.all_reduce {"data"}
// AXES-LABEL:    func.func public @region_with_a_loop
// AXES:            stablehlo.while
// AXES:              "stablehlo.all_reduce"
// AXES:              stablehlo.return %{{.*}}, %{{.*}}
// AXES-NOT:        stablehlo.all_reduce
// AXES:            sdy.return
// REMARK-DAG: [separate-reductions] stablehlo.all_reduce applied: 64 bytes per device, now reduced after the loop and not 3 times in it
func.func public @region_with_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
    %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x4xf32>
    cond {
      %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %next = stablehlo.add %acc, %r : tensor<4x4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
    }
    sdy.return %w#1 : tensor<4x4xf32>
  } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n0 = stablehlo.negate %m : tensor<4x4xf32>
  return %n0 : tensor<4x4xf32>
}

// In a loop, what else it adds is returned beside the sum.
// CHECK-LABEL:   func.func public @region_with_another_term_in_a_loop
// CHECK:           %[[M:.*]]:2 = sdy.manual_computation
// CHECK-SAME:        out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"data", "model"} (%{{.*}}: tensor<4x4xf32>, %[[B:.*]]: tensor<4x4xf32>)
// CHECK:             %[[H:.*]] = "stablehlo.all_reduce"
// CHECK:             %[[S:.*]] = stablehlo.negate %[[H]]
// CHECK-NEXT:        %[[T:.*]] = stablehlo.negate %[[B]]
// CHECK-NEXT:        sdy.return %[[S]], %[[T]]
// CHECK:           %[[G:.*]] = stablehlo.add %[[M]]#1, %[[M]]#0
// CHECK:           stablehlo.add %{{.*}}, %[[G]] : tensor<4x4xf32>
// EXPOSED-LABEL: func.func public @region_with_another_term_in_a_loop
// EXPOSED:         %[[M:.*]]:2 = sdy.manual_computation
// EXPOSED:         %[[U:.*]] = sdy.sharding_constraint %[[M]]#0 <@mesh, [{?}, {?}], unreduced={"data"}>
// EXPOSED-NEXT:    %[[R:.*]] = sdy.all_reduce {"data"} %[[U]]
// EXPOSED-NEXT:    %[[G:.*]] = stablehlo.add %[[M]]#1, %[[R]]
// REMARK-DAG: [separate-reductions] stablehlo.all_reduce applied: what the manual computation adds to its sum is added outside
func.func public @region_with_another_term_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<4x4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = stablehlo.add %h, %b : tensor<4x4xf32>
      %r = stablehlo.negate %t : tensor<4x4xf32>
      sdy.return %r : tensor<4x4xf32>
    } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = stablehlo.add %acc, %m : tensor<4x4xf32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Legal when: its sum leaves a loop, or the block returns it to one
// Manual over one axis: what it adds up over the other is left to the partitioner, with a remark.
// CHECK-LABEL:   func.func public @manual_over_one_axis
// CHECK-NOT:       sdy.all_reduce
// CHECK:           sdy.return
// REMARK-DAG: [separate-reductions] stablehlo.dot_general missed: no loop of its manual computation adds it up, nor is it returned alone to a loop that does
func.func public @manual_over_one_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<4x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{?}, {"model", ?}]>] out_shardings=[<@mesh, [{"model", ?}, {?}]>] manual_axes={"model"} (%p: tensor<16x2xf32>) {
    %q = stablehlo.dot_general %p, %p, contracting_dims = [0] x [0] : (tensor<16x2xf32>, tensor<16x2xf32>) -> tensor<2x2xf32>
    %r = stablehlo.concatenate %q, %q, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
    sdy.return %r : tensor<2x4xf32>
  } : (tensor<16x4xf32>) -> tensor<4x4xf32>
  return %m : tensor<4x4xf32>
}

// The other term may be a sum itself: over the same devices, or over others, as here.
// CHECK-LABEL:   func.func public @two_sums_in_a_loop
// CHECK:           %[[M:.*]]:2 = sdy.manual_computation
// CHECK:           stablehlo.add %[[M]]#1, %[[M]]#0
// EXPOSED-LABEL: func.func public @two_sums_in_a_loop
// EXPOSED:         sdy.manual_computation
// EXPOSED-DAG:     sdy.all_reduce {"data"}
// EXPOSED-DAG:     sdy.all_reduce {"model"}
// EXPOSED:         stablehlo.return
func.func public @two_sums_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<4x4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %k = stablehlo.dot_general %b, %b, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %l = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = stablehlo.add %h, %l : tensor<4x4xf32>
      sdy.return %r : tensor<4x4xf32>
    } : (tensor<16x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %next = stablehlo.add %acc, %m : tensor<4x4xf32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// What is beside it stays with it: a third accumulator would take as much memory as a gradient.
// CHECK-LABEL:   func.func public @two_sums_and_another_term_in_a_loop
// CHECK:           %[[M:.*]]:2 = sdy.manual_computation
// CHECK:           stablehlo.add %[[M]]#1, %[[M]]#0
func.func public @two_sums_and_another_term_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %z: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<4x4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m = sdy.manual_computation(%x, %y, %z) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"model"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>) {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %k = stablehlo.dot_general %b, %b, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %l = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = stablehlo.add %h, %l : tensor<4x4xf32>
      %r = stablehlo.add %t, %c : tensor<4x4xf32>
      sdy.return %r : tensor<4x4xf32>
    } : (tensor<16x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = stablehlo.add %acc, %m : tensor<4x4xf32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Legal when: the manual computation is in a loop
// CHECK-LABEL:   func.func public @region_with_another_term
// CHECK:           %{{[0-9]+}} = sdy.manual_computation
// CHECK:             stablehlo.add
// CHECK:             sdy.return
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

// Legal when: without them, `expose-all-reduces` may write the reduction of the sum
// CHECK-LABEL:   func.func public @another_term_of_a_maximum_in_a_loop
// CHECK:           %{{[0-9]+}} = sdy.manual_computation
func.func public @another_term_of_a_maximum_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<4x4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m = sdy.manual_computation(%x, %y) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) {
      %h = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.maximum %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %r = stablehlo.maximum %h, %b : tensor<4x4xf32>
      sdy.return %r : tensor<4x4xf32>
    } : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = stablehlo.add %acc, %m : tensor<4x4xf32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// A sum over "data", of which the factors are a sum over "model" and an argument: of one kind it has no other term.
// CHECK-LABEL:   func.func public @product_of_two_sums_in_a_loop
// CHECK:           %{{[0-9]+}} = sdy.manual_computation
func.func public @product_of_two_sums_in_a_loop(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %z: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %zeros) : tensor<i32>, tensor<4x4xf32>
  cond {
    %n = stablehlo.constant dense<4> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %m = sdy.manual_computation(%x, %y, %z) in_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{"model"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data", "model"} (%a: tensor<4x4xf32>, %b: tensor<4x4xf32>, %c: tensor<4x4xf32>) {
      %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %h = "stablehlo.all_reduce"(%g) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %k = stablehlo.dot_general %b, %b, contracting_dims = [0] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %l = "stablehlo.all_reduce"(%k) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %t = stablehlo.multiply %h, %l : tensor<4x4xf32>
      %u = stablehlo.multiply %h, %c : tensor<4x4xf32>
      %r = stablehlo.add %t, %u : tensor<4x4xf32>
      sdy.return %r : tensor<4x4xf32>
    } : (tensor<16x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = stablehlo.add %acc, %m : tensor<4x4xf32>
    stablehlo.return %j, %next : tensor<i32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}
