// RUN: %par-opt %s --passes='hoist-gathers{finite=true}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='hoist-gathers{finite=true}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes=hoist-gathers --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=EXACT

sdy.mesh @mesh = <["data"=4, "model"=2]>

// An update times 0 or 1 is no update where it is 0, of finite numbers. Which trip is the first of its group, the caller tells.
// CHECK-LABEL:   func.func public @product_by_zero_or_one
// CHECK:           %[[ZEROS:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK:           stablehlo.while({{.*}} = %arg0, %[[G:.*]] = %[[ZEROS]], %[[STALE:.*]] = %{{.*}})
// CHECK:             %[[N:.*]] = stablehlo.convert %[[STALE]] : (tensor<i1>) -> tensor<i32>
// CHECK-NEXT:        %[[CASE:.*]] = "stablehlo.case"(%[[N]])
// CHECK-NEXT:          stablehlo.return %[[G]]
// CHECK:               %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK-NEXT:          %[[A:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}]>
// CHECK-NEXT:          stablehlo.return %[[A]]
// CHECK:             %[[NOW:.*]] = sdy.sharding_constraint %[[CASE]] <@mesh, [{}, {}]>
// CHECK:             stablehlo.dot_general %{{.*}}, %[[NOW]],
// CHECK:             %[[CHANGES:.*]] = stablehlo.compare  NE,
// CHECK:             stablehlo.return {{.*}}, %[[NOW]], %[[CHANGES]]
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
// EXACT: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}) by an update times 0 or 1 (option finite=true takes 0 for no change); at use
func.func public @product_by_zero_or_one(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %m = stablehlo.convert %emit : (tensor<i1>) -> tensor<f32>
    %f = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %u = stablehlo.multiply %f, %g : tensor<8x8xf32>
    %w2 = stablehlo.add %w, %u : tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// CHECK-LABEL:   func.func public @select
// CHECK:           %[[ZEROS:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK:           stablehlo.while({{.*}} = %arg0, %[[G:.*]] = %[[ZEROS]], %[[STALE:.*]] = %{{.*}})
// CHECK:             %[[N:.*]] = stablehlo.convert %[[STALE]] : (tensor<i1>) -> tensor<i32>
// CHECK-NEXT:        %[[CASE:.*]] = "stablehlo.case"(%[[N]])
// CHECK-NEXT:          stablehlo.return %[[G]]
// CHECK:               %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK-NEXT:          %[[A:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}]>
// CHECK-NEXT:          stablehlo.return %[[A]]
// CHECK:             %[[NOW:.*]] = sdy.sharding_constraint %[[CASE]] <@mesh, [{}, {}]>
// CHECK:             stablehlo.dot_general %{{.*}}, %[[NOW]],
// CHECK:             %[[CHANGES:.*]] = stablehlo.compare  NE,
// CHECK:             stablehlo.return {{.*}}, %[[NOW]], %[[CHANGES]]
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
// EXACT: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
func.func public @select(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = stablehlo.add %w, %g : tensor<8x8xf32>
    %w2 = stablehlo.select %emit, %u, %w : tensor<i1>, tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// CHECK-LABEL:   func.func public @branch
// CHECK:           %[[ZEROS:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK:           stablehlo.while({{.*}} = %arg0, %[[G:.*]] = %[[ZEROS]], %[[STALE:.*]] = %{{.*}})
// CHECK:             %[[N:.*]] = stablehlo.convert %[[STALE]] : (tensor<i1>) -> tensor<i32>
// CHECK-NEXT:        %[[CASE:.*]] = "stablehlo.case"(%[[N]])
// CHECK-NEXT:          stablehlo.return %[[G]]
// CHECK:               %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK-NEXT:          %[[A:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}]>
// CHECK-NEXT:          stablehlo.return %[[A]]
// CHECK:             %[[NOW:.*]] = sdy.sharding_constraint %[[CASE]] <@mesh, [{}, {}]>
// CHECK:             stablehlo.dot_general %{{.*}}, %[[NOW]],
// CHECK:             %[[CHANGES:.*]] = stablehlo.compare  NE,
// CHECK:             stablehlo.return {{.*}}, %[[NOW]], %[[CHANGES]]
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
// EXACT: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
func.func public @branch(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %w2 = "stablehlo.if"(%emit) ({
      %u = stablehlo.add %w, %g : tensor<8x8xf32>
      stablehlo.return %u : tensor<8x8xf32>
    }, {
      stablehlo.return %w : tensor<8x8xf32>
    }) : (tensor<i1>) -> tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// CHECK-LABEL:   func.func public @kept_where_it_holds
// CHECK:           %[[ZEROS:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK:           stablehlo.while({{.*}} = %arg0, %[[G:.*]] = %[[ZEROS]], %[[STALE:.*]] = %{{.*}})
// CHECK:             %[[N:.*]] = stablehlo.convert %[[STALE]] : (tensor<i1>) -> tensor<i32>
// CHECK-NEXT:        %[[CASE:.*]] = "stablehlo.case"(%[[N]])
// CHECK-NEXT:          stablehlo.return %[[G]]
// CHECK:               %[[S:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// CHECK-NEXT:          %[[A:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{}, {}]>
// CHECK-NEXT:          stablehlo.return %[[A]]
// CHECK:             %[[NOW:.*]] = sdy.sharding_constraint %[[CASE]] <@mesh, [{}, {}]>
// CHECK:             stablehlo.dot_general %{{.*}}, %[[NOW]],
// CHECK:             %[[CHANGES:.*]] = stablehlo.compare  EQ,
// CHECK:             stablehlo.return {{.*}}, %[[NOW]], %[[CHANGES]]
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
// EXACT: [hoist-gathers] stablehlo.while applied: 1 parameter is gathered over data in the first trip and after each update, not in each of 4 trips; 256 bytes are held, and at most 768 fewer are gathered
func.func public @kept_where_it_holds(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = stablehlo.add %w, %g : tensor<8x8xf32>
    %w2 = stablehlo.select %emit, %w, %u : tensor<i1>, tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Legal when: of one that it updates, a scalar of each trip tells whether that trip does: the predicate of a select or of a branch, or with the option `finite` a factor that is 0 or 1
// CHECK-LABEL:   func.func public @some_elements
// CHECK-NOT:       stablehlo.case
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
// EXACT: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
func.func public @some_elements(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = stablehlo.add %w, %g : tensor<8x8xf32>
    %q = stablehlo.compare GT, %g, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xi1>
    %w2 = stablehlo.select %q, %u, %w : tensor<8x8xi1>, tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// CHECK-LABEL:   func.func public @another_factor
// CHECK-NOT:       stablehlo.case
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
// EXACT: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
func.func public @another_factor(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %m = stablehlo.convert %k : (tensor<i32>) -> tensor<f32>
    %f = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %u = stablehlo.multiply %f, %g : tensor<8x8xf32>
    %w2 = stablehlo.add %w, %u : tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// Legal when: one that it updates is carried once, and not read from outside
// CHECK-LABEL:   func.func public @read_from_outside
// CHECK-NOT:       stablehlo.case
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
// EXACT: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
func.func public @read_from_outside(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:3 = stablehlo.while(%i = %c0, %k = %n, %w = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %p, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = stablehlo.add %w, %g : tensor<8x8xf32>
    %w2 = stablehlo.select %emit, %u, %w : tensor<i1>, tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2 : tensor<i32>, tensor<i32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}

// CHECK-LABEL:   func.func public @carried_twice
// CHECK-NOT:       stablehlo.case
// CHECK:           return
// REMARK: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
// EXACT: [hoist-gathers] stablehlo.while missed: the loop changes the parameter ({{.*}}); at use
func.func public @carried_twice(%p: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<4x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>}, %n: tensor<i32>) -> tensor<8x8xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %r:4 = stablehlo.while(%i = %c0, %k = %n, %w = %p, %v = %p) : tensor<i32>, tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  cond {
    %t = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %j = stablehlo.add %i, %c1 : tensor<i32>
    %k1 = stablehlo.add %k, %c1 : tensor<i32>
    %k2 = stablehlo.remainder %k1, %c2 : tensor<i32>
    %emit = stablehlo.compare EQ, %k, %c1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %s = stablehlo.dynamic_slice %x, %i, %c0, %c0, sizes = [1, 16, 8] : (tensor<4x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %b = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %y = stablehlo.dot_general %b, %v, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = stablehlo.add %w, %g : tensor<8x8xf32>
    %w2 = stablehlo.select %emit, %u, %w : tensor<i1>, tensor<8x8xf32>
    stablehlo.return %j, %k2, %w2, %v : tensor<i32>, tensor<i32>, tensor<8x8xf32>, tensor<8x8xf32>
  }
  return %r#2 : tensor<8x8xf32>
}
