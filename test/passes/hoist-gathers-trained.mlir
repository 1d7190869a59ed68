// RUN: %par-opt %s --passes=hoist-gathers --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=hoist-gathers --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='hoist-gathers{policy=auto memory-budget=10000}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=AUTO

sdy.mesh @mesh = <["data"=4, "model"=2]>

// XLA would move activations: they are sharded over the same axis by features. The loop adds up a gradient.
// CHECK-LABEL:   func.func public @activations_sharded_alike
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             stablehlo.dot_general %{{.*}}, %[[G]],
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data before the loop, not in each of 4 trips; 256 bytes are held, and 1792 fewer are gathered
// AUTO: [hoist-gathers] builtin.module applied: {{.*}} bytes of a budget of 10000 are held: 1536 for 6 parameters gathered once, which saves
func.func public @activations_sharded_alike(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %k = sdy.sharding_constraint %b <@mesh, [{}, {"data"}]> : tensor<16x8xf32>
    %y = stablehlo.dot_general %k, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Worth it when: what XLA moves in a step for a parameter that it does not gather is no less
// CHECK-LABEL:   func.func public @few_examples
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: XLA moves activations in place of the parameter, and to gather it takes 256 bytes; at use, {{.*}} takes 128 bytes in a step
// AUTO: [hoist-gathers] stablehlo.while missed: XLA moves activations in place of the parameter, and to gather it takes 256 bytes; at use, {{.*}} takes 128 bytes in a step
func.func public @few_examples(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x1x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"data"}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 1, 8] : (tensor<4x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x1x8xf32>) -> tensor<1x8xf32>
    %k = sdy.sharding_constraint %b <@mesh, [{}, {"data"}]> : tensor<1x8xf32>
    %y = stablehlo.dot_general %k, %w, contracting_dims = [1] x [0] : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Over an axis that shards no examples, it is sharded for tensor parallelism.
// CHECK-LABEL:   func.func public @tensor_parallel
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
func.func public @tensor_parallel(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %k = sdy.sharding_constraint %b <@mesh, [{}, {"model"}]> : tensor<16x8xf32>
    %y = stablehlo.dot_general %k, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// As jax writes it for an explicit mesh: sharded as it is, which moves nothing, and then gathered.
// CHECK-LABEL:   func.func public @resharded_at_use
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             sdy.sharding_constraint %[[G]] <@mesh, [{}, {}]>
// CHECK-NOT:         sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
// CHECK:           return
func.func public @resharded_at_use(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %again = sdy.sharding_constraint %w <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
    %whole = sdy.sharding_constraint %again <@mesh, [{}, {}]> : tensor<8x8xf32>
    %y = stablehlo.dot_general %b, %whole, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Sharded otherwise first, it is gathered all the same.
// CHECK-LABEL:   func.func public @resharded_on_the_way
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK-NOT:         sdy.sharding_constraint %{{.*}} <@mesh, [{}, {"data"}]>
// CHECK:           return
func.func public @resharded_on_the_way(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %again = sdy.sharding_constraint %w <@mesh, [{}, {"data"}]> : tensor<8x8xf32>
    %whole = sdy.sharding_constraint %again <@mesh, [{}, {}]> : tensor<8x8xf32>
    %y = stablehlo.dot_general %b, %whole, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// What is computed of each element reads the shards, as the constraint says; other readers read what is gathered.
// CHECK-LABEL:   func.func public @decayed
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             %[[A:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK:             stablehlo.multiply %[[A]], %[[A]]
// CHECK:             stablehlo.dot_general %{{.*}}, %[[G]],
// CHECK:           return
func.func public @decayed(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %again = sdy.sharding_constraint %w <@mesh, [{"data"}, {}]> : tensor<8x8xf32>
    %square = stablehlo.multiply %again, %again : tensor<8x8xf32>
    %y = stablehlo.dot_general %b, %again, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %h = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %g = stablehlo.add %h, %square : tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Gathered before the inner loop, which carries it, and hands on another array: nothing reads it with examples.
// CHECK-LABEL:   func.func public @prefetched
// CHECK:           %[[G:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.while
// CHECK:             sdy.sharding_constraint %[[G]] <@mesh, [{}, {}]>
// CHECK:             stablehlo.while
// CHECK:           return
func.func public @prefetched(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %first = sdy.sharding_constraint %w <@mesh, [{}, {}]> : tensor<8x8xf32>
    %twice = stablehlo.add %w, %w : tensor<8x8xf32>
    %m:3 = stablehlo.while(%l = %c0, %v = %first, %h = %b) : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
    cond {
      %q = stablehlo.compare LT, %l, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %k = stablehlo.add %l, %c1 : tensor<i32>
      %o = stablehlo.dot_general %h, %v, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %next = sdy.sharding_constraint %twice <@mesh, [{}, {}]> : tensor<8x8xf32>
      stablehlo.return %k, %next, %o : tensor<i32>, tensor<8x8xf32>, tensor<16x8xf32>
    }
    %g = stablehlo.dot_general %b, %m#2, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// It is sharded over an axis of the batch and multiplied with examples, as a mask is: only a gradient would tell.
// CHECK-LABEL:   func.func public @a_mask
// CHECK-NOT:       sdy.sharding_constraint %arg2
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: it may be examples: the loop adds up no gradient of its shape; at use, {{.*}} takes 1024 bytes in a step
func.func public @a_mask(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %mask: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %k = stablehlo.multiply %b, %mask : tensor<16x8xf32>
    %y = stablehlo.dot_general %k, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// What a constraint would gather over a part of an axis is not known.
// CHECK-LABEL:   func.func public @over_a_part
// CHECK-NOT:       sdy.sharding_constraint %arg0
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: it is sharded over a part of an axis; at use, {{.*}} bytes in a step
func.func public @over_a_part(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(1)2}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %w = %p, %acc = %zero) : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %k = sdy.sharding_constraint %b <@mesh, [{}, {"data"}]> : tensor<16x8xf32>
    %y = stablehlo.dot_general %k, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %acc, %g : tensor<8x8xf32>
    stablehlo.return %j, %w, %n : tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}
