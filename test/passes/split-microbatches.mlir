// RUN: %par-opt %s --passes='split-microbatches{count=2 arguments=0}' | FileCheck %s
// RUN: %par-opt %s --passes='split-microbatches{count=2 arguments=0}' --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='split-microbatches{count=2 arguments=0 random=before}' | FileCheck %s --check-prefix=BEFORE

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

// A gradient and a loss are added up; the update follows the loop. A constant becomes smaller.
// CHECK-LABEL:   func.func public @gradient
// CHECK-SAME:      (%[[X:[a-z0-9]+]]: tensor<8x4xf32>, %[[W:[a-z0-9]+]]: tensor<4x4xf32>)
// CHECK:           %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-DAG:       %[[START:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<4x4xf32>
// CHECK-DAG:       %[[NONE:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
// CHECK:           %[[ROWS:.*]] = stablehlo.reshape %[[X]] : (tensor<8x4xf32>) -> tensor<4x2x4xf32>
// CHECK-NEXT:      %[[LOOP:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[SUM:.*]] = %[[START]], %[[LOSS:.*]] = %[[NONE]])
// CHECK:             stablehlo.constant dense<2> : tensor<i32>
// CHECK-NEXT:        stablehlo.compare LT, %[[I]]
// CHECK:           } do {
// CHECK-NEXT:        %[[C:.*]] = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT:        %[[ONE:.*]] = stablehlo.dynamic_slice %[[ROWS]], %[[C]], %[[I]], %[[C]], sizes = [4, 1, 4]
// CHECK-NEXT:        %[[PART:.*]] = stablehlo.reshape %[[ONE]] : (tensor<4x1x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:        %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<4x4xf32>
// CHECK-NEXT:        %[[H:.*]] = stablehlo.dot_general %[[PART]], %[[W]]
// CHECK-NEXT:        %[[D:.*]] = stablehlo.multiply %[[H]], %[[TWO]] : tensor<4x4xf32>
// CHECK-NEXT:        %[[G:.*]] = stablehlo.dot_general %[[PART]], %[[D]], contracting_dims = [0] x [0]
// CHECK-NEXT:        %[[S:.*]] = stablehlo.multiply %[[H]], %[[H]]
// CHECK-NEXT:        %[[L:.*]] = stablehlo.reduce(%[[S]] init: %[[ZERO]])
// CHECK:             %[[NEXT:.*]] = stablehlo.add %[[SUM]], %[[G]]
// CHECK-NEXT:        %[[MORE:.*]] = stablehlo.add %[[LOSS]], %[[L]]
// CHECK-NEXT:        stablehlo.return %{{.*}}, %[[NEXT]], %[[MORE]]
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[NEW:.*]] = stablehlo.subtract %[[W]], %[[LOOP]]#1
// CHECK-NEXT:      return %[[NEW]], %[[LOOP]]#2
// REMARK-DAG: [split-microbatches] stablehlo.while applied: a loop over 2 micro-batches of 4 examples
func.func public @gradient(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<8x4xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.multiply %h, %two : tensor<8x4xf32>
  %g = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.multiply %h, %h : tensor<8x4xf32>
  %l = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %n = stablehlo.subtract %w, %g : tensor<4x4xf32>
  return %n, %l : tensor<4x4xf32>, tensor<f32>
}

// What is linear in a sum joins others in the loop when the loop then carries less; one that is not is done after it.
// CHECK-LABEL:   func.func public @tied
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %{{.*}}) : tensor<i32>, tensor<4x4xf32>
// CHECK:             %[[T:.*]] = stablehlo.transpose
// CHECK-NEXT:        %[[BOTH:.*]] = stablehlo.add %{{.*}}, %[[T]]
// CHECK:             stablehlo.add %[[SUM]], %[[BOTH]]
// CHECK:           }
// CHECK-NEXT:      stablehlo.multiply
func.func public @tied(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %a = stablehlo.abs %x : tensor<8x4xf32>
  %f = stablehlo.dot_general %x, %a, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %g = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = stablehlo.add %f, %t : tensor<4x4xf32>
  %m = stablehlo.multiply %s, %s : tensor<4x4xf32>
  return %m : tensor<4x4xf32>
}

// A sum of narrow floats is taken in the wider type that it is converted to.
// CHECK-LABEL:   func.func public @widened
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %{{.*}}) : tensor<i32>, tensor<4x4xf32>
// CHECK:             %[[WIDE:.*]] = stablehlo.convert %{{.*}} : (tensor<4x4xbf16>) -> tensor<4x4xf32>
// CHECK:             stablehlo.add %[[SUM]], %[[WIDE]]
func.func public @widened(%x: tensor<8x4xbf16>) -> tensor<4x4xf32> {
  %g = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<8x4xbf16>, tensor<8x4xbf16>) -> tensor<4x4xbf16>
  %c = stablehlo.convert %g : (tensor<4x4xbf16>) -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// What is returned for each example is put together: the rows of part i are i, 2 + i, 4 + i, ...
// CHECK-LABEL:   func.func public @per_example
// CHECK:           %[[ALL:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:           %[[LOOP:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[KEPT:.*]] = %[[ALL]])
// CHECK:             %[[L:.*]] = stablehlo.reduce({{.*}} across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
// CHECK:             %[[ONE:.*]] = stablehlo.reshape %[[L]] : (tensor<4xf32>) -> tensor<4x1xf32>
// CHECK-NEXT:        stablehlo.dynamic_update_slice %[[KEPT]], %[[ONE]], %{{.*}}, %[[I]]
// CHECK:           %[[BACK:.*]] = stablehlo.reshape %[[LOOP]]#2 : (tensor<4x2xf32>) -> tensor<8xf32>
// CHECK-NEXT:      return %[[LOOP]]#1, %[[BACK]]
func.func public @per_example(%x: tensor<8x4xf32>) -> (tensor<f32>, tensor<8xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %l = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %s = stablehlo.reduce(%l init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s, %l : tensor<f32>, tensor<8xf32>
}

// The number of tokens that count is known before the loop: each example is divided by that of all.
// CHECK-LABEL:   func.func public @token_weighted
// CHECK-SAME:      (%[[X:[a-z0-9]+]]: tensor<8x4xf32>
// CHECK:           %[[MASK:.*]] = stablehlo.sign %[[X]] : tensor<8x4xf32>
// CHECK-NEXT:      %[[TOKENS:.*]] = stablehlo.reduce(%[[MASK]] init:
// CHECK:           stablehlo.while
// CHECK:             %[[ALL:.*]] = stablehlo.broadcast_in_dim %[[TOKENS]], dims = [] : (tensor<f32>) -> tensor<4x4xf32>
// CHECK:             stablehlo.multiply %{{.*}}, %[[ALL]] : tensor<4x4xf32>
func.func public @token_weighted(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %mask = stablehlo.sign %x : tensor<8x4xf32>
  %tokens = stablehlo.reduce(%mask init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %all = stablehlo.broadcast_in_dim %tokens, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %m = stablehlo.multiply %h, %mask : tensor<8x4xf32>
  %d = stablehlo.multiply %m, %all : tensor<8x4xf32>
  %g = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// The number of an example, and a table with a row for each, are those of the whole batch.
// CHECK-LABEL:   func.func public @numbered
// CHECK:           %[[TABLE:.*]] = stablehlo.reshape %arg1 : (tensor<8x4xi32>) -> tensor<4x2x4xi32>
// CHECK:           stablehlo.while(%[[I:[A-Za-z]+]] = %{{.*}},
// CHECK:             %[[ROW:.*]] = stablehlo.iota dim = 0 : tensor<4x4xi32>
// CHECK-NEXT:        %[[M:.*]] = stablehlo.constant dense<2> : tensor<4x4xi32>
// CHECK-NEXT:        %[[FIRST:.*]] = stablehlo.broadcast_in_dim %[[I]], dims = [] : (tensor<i32>) -> tensor<4x4xi32>
// CHECK-NEXT:        %[[APART:.*]] = stablehlo.multiply %[[ROW]], %[[M]]
// CHECK-NEXT:        %[[NUMBER:.*]] = stablehlo.add %[[APART]], %[[FIRST]]
// CHECK:             stablehlo.dynamic_slice %[[TABLE]]
// CHECK:             stablehlo.multiply %{{.*}}, %[[NUMBER]]
func.func public @numbered(%x: tensor<8x4xi32>, %table: tensor<8x4xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.iota dim = 0 : tensor<8x4xi32>
  %a = stablehlo.multiply %x, %n : tensor<8x4xi32>
  %b = stablehlo.add %a, %table : tensor<8x4xi32>
  %s = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xi32>, tensor<i32>) -> tensor<4xi32>
  return %s : tensor<4xi32>
}

// Examples of several rows each: they stay together.
// CHECK-LABEL:   func.func public @merged
// CHECK-SAME:      (%[[X:[a-z0-9]+]]: tensor<8x4x3xf32>, %[[ALL:[a-z0-9]+]]: tensor<32x3xf32>)
// CHECK:           %[[ROWS:.*]] = stablehlo.reshape %[[ALL]] : (tensor<32x3xf32>) -> tensor<4x2x4x3xf32>
// CHECK:             %[[ONE:.*]] = stablehlo.dynamic_slice %[[ROWS]], {{.*}} sizes = [4, 1, 4, 3]
// CHECK-NEXT:        %[[PART:.*]] = stablehlo.reshape %[[ONE]] : (tensor<4x1x4x3xf32>) -> tensor<16x3xf32>
// CHECK-NEXT:        %[[R:.*]] = stablehlo.reshape %{{.*}} : (tensor<4x4x3xf32>) -> tensor<16x3xf32>
// CHECK-NEXT:        stablehlo.multiply %[[R]], %[[PART]]
func.func public @merged(%x: tensor<8x4x3xf32>, %weights: tensor<32x3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reshape %x : (tensor<8x4x3xf32>) -> tensor<32x3xf32>
  %m = stablehlo.multiply %r, %weights : tensor<32x3xf32>
  %s = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<32x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %s : tensor<3xf32>
}

// A lookup, and the sum of what is looked up; sizes of what is taken fit the part.
// CHECK-LABEL:   func.func public @lookup
// CHECK:           "stablehlo.gather"({{.*}} slice_sizes = array<i64: 1, 3>}> : (tensor<6x3xf32>, tensor<4x2x1xi32>) -> tensor<4x2x3xf32>
// CHECK:           stablehlo.slice %{{.*}} [0:4, 0:1, 0:3] : (tensor<4x2x3xf32>) -> tensor<4x1x3xf32>
// CHECK:           stablehlo.dynamic_slice %{{.*}}, sizes = [4, 1, 3]
// CHECK:           "stablehlo.scatter"
// CHECK:           (tensor<6x3xf32>, tensor<4x2x1xi32>, tensor<4x2x3xf32>) -> tensor<6x3xf32>
func.func public @lookup(%x: tensor<8x2x1xi32>, %table: tensor<6x3xf32>, %at: tensor<i32>) -> (tensor<6x3xf32>, tensor<1x3xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<6x3xf32>
  %g = "stablehlo.gather"(%table, %x) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 3>}> : (tensor<6x3xf32>, tensor<8x2x1xi32>) -> tensor<8x2x3xf32>
  %f = stablehlo.slice %g [0:8, 0:1, 0:3] : (tensor<8x2x3xf32>) -> tensor<8x1x3xf32>
  %d = stablehlo.dynamic_slice %g, %none, %at, %none, sizes = [8, 1, 3] : (tensor<8x2x3xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<8x1x3xf32>
  %m = stablehlo.add %f, %d : tensor<8x1x3xf32>
  %l = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x1x3xf32>, tensor<f32>) -> tensor<1x3xf32>
  %s = "stablehlo.scatter"(%zeros, %x, %g) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<6x3xf32>, tensor<8x2x1xi32>, tensor<8x2x3xf32>) -> tensor<6x3xf32>
  return %s, %l : tensor<6x3xf32>, tensor<1x3xf32>
}

// A loop over layers carries examples, a stack of what it computes of them, and a sum over them.
// CHECK-LABEL:   func.func public @layers
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<4xf32>
// CHECK:             stablehlo.while({{.*}} : tensor<i32>, tensor<4x4xf32>, tensor<3x4x4xf32>, tensor<4xf32>
// CHECK:               stablehlo.dynamic_update_slice {{.*}} : (tensor<3x4x4xf32>, tensor<1x4x4xf32>
func.func public @layers(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %stack = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<3x8x4xf32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %r:4 = stablehlo.while(%i = %first, %h = %x, %kept = %stack, %sum = %none) : tensor<i32>, tensor<8x4xf32>, tensor<3x8x4xf32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %a = stablehlo.abs %h : tensor<8x4xf32>
    %b = stablehlo.reshape %a : (tensor<8x4xf32>) -> tensor<1x8x4xf32>
    %k = stablehlo.dynamic_update_slice %kept, %b, %i, %first, %first : (tensor<3x8x4xf32>, tensor<1x8x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x4xf32>
    %g = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %s = stablehlo.add %sum, %g : tensor<4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %k, %s : tensor<i32>, tensor<8x4xf32>, tensor<3x8x4xf32>, tensor<4xf32>
  }
  %l = stablehlo.reduce(%r#2 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %t = stablehlo.add %r#3, %l : tensor<4xf32>
  return %t : tensor<4xf32>
}

// The largest of each part is compared with the largest before, from the number that the reduce starts from; what is
// computed of the largest follows the loop.
// CHECK-LABEL:   func.func public @largest_and_smallest
// CHECK:           %[[LOW:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK:           %[[FALSE:.*]] = stablehlo.constant dense<false> : tensor<i1>
// CHECK:           %[[LOWS:.*]] = stablehlo.broadcast_in_dim %[[LOW]], dims = [] : (tensor<f32>) -> tensor<3xf32>
// CHECK:           %[[LOOP:.*]]:4 = stablehlo.while(%{{.*}} = %{{.*}}, %[[S:.*]] = %{{.*}}, %[[M:.*]] = %[[LOWS]], %[[A:.*]] = %[[FALSE]])
// CHECK:             %[[PART:.*]] = stablehlo.reduce(%{{.*}} init: %[[LOW]]) applies stablehlo.maximum across dimensions = [0] : (tensor<4x3xf32>
// CHECK:             stablehlo.add %[[S]],
// CHECK:             %[[MAX:.*]] = stablehlo.maximum %[[M]], %[[PART]] : tensor<3xf32>
// CHECK:             %[[ANY:.*]] = stablehlo.or %[[A]],
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[MAX]], %[[ANY]]
// CHECK:           %[[TWICE:.*]] = stablehlo.add %[[LOOP]]#2, %[[LOOP]]#2
// CHECK:           return %[[LOOP]]#1, %[[TWICE]], %[[LOOP]]#3
func.func public @largest_and_smallest(%x: tensor<8x3xf32>) -> (tensor<f32>, tensor<3xf32>, tensor<i1>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<1.0> : tensor<f32>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x3xf32>, tensor<f32>) -> tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
  %twice = stablehlo.add %m, %m : tensor<3xf32>
  %c = stablehlo.is_finite %x : (tensor<8x3xf32>) -> tensor<8x3xi1>
  %any = stablehlo.reduce(%c init: %false) applies stablehlo.or across dimensions = [0, 1] : (tensor<8x3xi1>, tensor<i1>) -> tensor<i1>
  return %s, %twice, %any : tensor<f32>, tensor<3xf32>, tensor<i1>
}

// Legal when: the arguments with examples are known, and have equally many
// CHECK-LABEL:   func.func public @no_dimension
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] func.func missed: argument 0 has no dimension 0
func.func public @no_dimension(%x: tensor<f32>, %w: tensor<4xf32>) -> tensor<f32> {
  %a = stablehlo.add %x, %x : tensor<f32>
  return %a : tensor<f32>
}

// Legal when: the number of micro-batches divides the examples, and devices divide those of a micro-batch
// CHECK-LABEL:   func.func public @odd
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] func.func missed: 2 micro-batches do not divide 7 examples
func.func public @odd(%x: tensor<7xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// Legal when: each op treats examples one by one, sums them from zero, or takes their maximum or minimum
// CHECK-LABEL:   func.func public @sorted
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.sort missed: stablehlo.sort works across the examples
func.func public @sorted(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// CHECK-LABEL:   func.func public @top_k
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] chlo.top_k missed: chlo.top_k works across the examples
func.func public @top_k(%x: tensor<8xf32>) -> tensor<2xf32> {
  %v, %i = chlo.top_k(%x, k = 2) : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %v : tensor<2xf32>
}

// CHECK-LABEL:   func.func public @shifted
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.slice missed: stablehlo.slice works across the examples
func.func public @shifted(%x: tensor<8xf32>) -> tensor<7xf32> {
  %s = stablehlo.slice %x [1:8] : (tensor<8xf32>) -> tensor<7xf32>
  return %s : tensor<7xf32>
}

// As many elements as before, but each example where the one before it was.
// CHECK-LABEL:   func.func public @padded_and_cut
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.pad missed: stablehlo.pad works across the examples
func.func public @padded_and_cut(%x: tensor<8x4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.pad %x, %zero, low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %m = stablehlo.multiply %p, %x : tensor<8x4xf32>
  %s = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// A filter for each example: the number of groups of channels is the number of examples.
// CHECK-LABEL:   func.func public @own_filters
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.convolution missed: stablehlo.convolution has examples as groups of channels, filters, or places in an image
func.func public @own_filters(%x: tensor<8x6x1xf32>, %w: tensor<3x1x8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = stablehlo.transpose %x, dims = [2, 1, 0] : (tensor<8x6x1xf32>) -> tensor<1x6x8xf32>
  %c = stablehlo.convolution(%t, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 8 : i64} : (tensor<1x6x8xf32>, tensor<3x1x8xf32>) -> tensor<1x4x8xf32>
  %s = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<1x4x8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL:   func.func public @product
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reduce missed: a reduce applies stablehlo.multiply, and only a sum is linear
func.func public @product(%x: tensor<8xf32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL:   func.func public @permuted
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.gather missed: stablehlo.gather works across the examples
func.func public @permuted(%x: tensor<8xf32>, %i: tensor<3x1xi32>) -> tensor<3xf32> {
  %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<8xf32>, tensor<3x1xi32>) -> tensor<3xf32>
  return %g : tensor<3xf32>
}

// CHECK-LABEL:   func.func public @gathered
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.all_gather missed: stablehlo.all_gather works across the examples
func.func public @gathered(%x: tensor<8xf32>) -> tensor<64xf32> {
  %g = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = #all}> : (tensor<8xf32>) -> tensor<64xf32>
  return %g : tensor<64xf32>
}

// CHECK-LABEL:   func.func public @two_shapes
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.all_reduce missed: stablehlo.all_reduce has operands of several shapes
func.func public @two_shapes(%x: tensor<8xf32>, %w: tensor<8x2xf32>) -> tensor<8xf32> {
  %t:2 = "stablehlo.all_reduce"(%x, %w) <{replica_groups = #all}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf32>, tensor<8x2xf32>) -> (tensor<8xf32>, tensor<8x2xf32>)
  return %t#0 : tensor<8xf32>
}

// CHECK-LABEL:   func.func public @any_of_them
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reduce missed: stablehlo.reduce of truth values is no sum
func.func public @any_of_them(%x: tensor<8xi1>) -> tensor<i1> {
  %none = stablehlo.constant dense<false> : tensor<i1>
  %s = stablehlo.reduce(%x init: %none) applies stablehlo.add across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
  return %s : tensor<i1>
}

// NUMERIC: skip (XLA has no reducers that read values from outside)
// CHECK-LABEL:   func.func public @read_in_region
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reduce missed: a region of stablehlo.reduce reads examples
func.func public @read_in_region(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reshape %x : (tensor<8xf32>) -> tensor<8x1xf32>
  %r = stablehlo.reduce(%a init: %zero) across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
  reducer(%p: tensor<f32>, %q: tensor<f32>) {
    %f = stablehlo.slice %x [0:1] : (tensor<8xf32>) -> tensor<1xf32>
    %s = stablehlo.reshape %f : (tensor<1xf32>) -> tensor<f32>
    %t = stablehlo.add %p, %s : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }
  return %r : tensor<8xf32>
}

// CHECK-LABEL:   func.func public @sum_from_one
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reduce missed: a reduce starts from a value that is not zero
func.func public @sum_from_one(%x: tensor<8xf32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// NUMERIC: skip (nothing of that name can be called)
// CHECK-LABEL:   func.func public @unknown
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.custom_call missed: stablehlo.custom_call is not known to treat the examples one by one
func.func public @unknown(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = stablehlo.custom_call @some_kernel(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// Legal when: no op combines an example with others
// CHECK-LABEL:   func.func public @contrastive
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.dot_general missed: stablehlo.dot_general combines each example with all others
func.func public @contrastive(%x: tensor<8x4xf32>) -> tensor<8x8xf32> {
  %s = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  return %s : tensor<8x8xf32>
}

// Legal when: the examples are the major part of one dimension
// CHECK-LABEL:   func.func public @minor
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reshape missed: stablehlo.reshape puts another dimension before that of the examples
func.func public @minor(%x: tensor<8x4xf32>) -> tensor<32xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %r = stablehlo.reshape %t : (tensor<4x8xf32>) -> tensor<32xf32>
  return %r : tensor<32xf32>
}

// CHECK-LABEL:   func.func public @in_groups
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reshape missed: stablehlo.reshape splits the dimension of the examples into several
func.func public @in_groups(%x: tensor<8x4xf32>) -> tensor<2x4x4xf32> {
  %r = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<2x4x4xf32>
  return %r : tensor<2x4x4xf32>
}

// Legal when: an op that writes into an array does not count from the first example
// CHECK-LABEL:   func.func public @some_written
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.dynamic_update_slice missed: stablehlo.dynamic_update_slice writes at places that count all examples
func.func public @some_written(%x: tensor<8xf32>, %v: tensor<1xf32>) -> tensor<8xf32> {
  %three = stablehlo.constant dense<3> : tensor<i32>
  %s = stablehlo.dynamic_update_slice %x, %v, %three : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// Legal when: no example depends on a sum over all of them, unless that is computed from inputs at little cost
// CHECK-LABEL:   func.func public @batch_norm
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.subtract missed: an example reads a sum over all examples, computed by stablehlo.reduce at {{.*}}
func.func public @batch_norm(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %m = stablehlo.reduce(%h init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.subtract %h, %b : tensor<8x4xf32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL:   func.func public @until_all_are_large
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.compare missed: a loop reads a sum over all examples, computed by stablehlo.reduce at {{.*}}
func.func public @until_all_are_large(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %large = stablehlo.constant dense<100.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<8xf32>
  %r = stablehlo.while(%v = %x) : tensor<8xf32>
  cond {
    %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %c = stablehlo.compare LT, %s, %large : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %v, %one : tensor<8xf32>
    stablehlo.return %n : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// Legal when: a loop carries the examples in one way
// CHECK-LABEL:   func.func public @turned
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.while missed: a loop carries the examples in two ways
func.func public @turned(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %first, %v = %x) : tensor<i32>, tensor<8x8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %t = stablehlo.transpose %v, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %t : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}

// CHECK-LABEL:   func.func public @read_in_condition
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] func.func missed: an argument of a loop's condition is read beside examples
func.func public @read_in_condition(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %first, %v = %x, %u = %w) : tensor<i32>, tensor<8xf32>, tensor<8xf32>
  cond {
    %unused = stablehlo.add %v, %u : tensor<8xf32>
    %c = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %v, %u : tensor<i32>, tensor<8xf32>, tensor<8xf32>
  }
  return %r#1 : tensor<8xf32>
}

// Legal when: no example depends on the maximum or minimum of all, with the same exception
// CHECK-LABEL:   func.func public @relative_to_the_largest
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.subtract missed: an example reads the maximum or minimum of all examples, computed by stablehlo.reduce at {{.*}}
func.func public @relative_to_the_largest(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %m = stablehlo.reduce(%h init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.subtract %h, %b : tensor<8x4xf32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL:   func.func public @at_most_the_smallest
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.clamp missed: an example reads the maximum or minimum of all examples, computed by stablehlo.reduce at {{.*}}
func.func public @at_most_the_smallest(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %m = stablehlo.reduce(%h init: %high) applies stablehlo.minimum across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  %d = stablehlo.clamp %zero, %h, %m : (tensor<f32>, tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// The largest of the inputs is found before the loop.
// CHECK-LABEL:   func.func public @relative_to_the_largest_input
// CHECK:           %[[LARGEST:.*]] = stablehlo.reduce
// CHECK-SAME:        stablehlo.maximum
// CHECK:           stablehlo.while
// CHECK:             %[[AGAIN:.*]] = stablehlo.broadcast_in_dim %[[LARGEST]], dims = [] : (tensor<f32>) -> tensor<4xf32>
// CHECK:             stablehlo.subtract %{{.*}}, %[[AGAIN]] : tensor<4xf32>
func.func public @relative_to_the_largest_input(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %d = stablehlo.subtract %x, %b : tensor<8xf32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// Legal when: none takes the maximum or minimum of the examples
// CHECK-LABEL:   func.func public @largest_in_a_loop
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reduce missed: a loop reduces examples with stablehlo.maximum
func.func public @largest_in_a_loop(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:3 = stablehlo.while(%i = %first, %v = %x, %largest = %zero) : tensor<i32>, tensor<8xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.reduce(%v init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %t = stablehlo.maximum %largest, %s : tensor<f32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %v, %t : tensor<i32>, tensor<8xf32>, tensor<f32>
  }
  return %r#2 : tensor<f32>
}

// Legal when: a maximum or minimum starts from no value that such a loop computes
// CHECK-LABEL:   func.func public @largest_from_a_loop
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.reduce missed: a reduce starts from a value that is computed for each micro-batch
func.func public @largest_from_a_loop(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<f32>, tensor<8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %two : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %w = stablehlo.add %v, %v : tensor<8xf32>
    %n = stablehlo.add %i, %one : tensor<f32>
    stablehlo.return %n, %w : tensor<f32>, tensor<8xf32>
  }
  %m = stablehlo.reduce(%r#1 init: %r#0) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %m : tensor<f32>
}

// Legal when: a loop sums from zero
// CHECK-LABEL:   func.func public @loop_from_one
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.while missed: a loop sums examples onto a value that is not zero
func.func public @loop_from_one(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %start = stablehlo.constant dense<1.0> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:3 = stablehlo.while(%i = %first, %v = %x, %sum = %start) : tensor<i32>, tensor<8xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %t = stablehlo.add %sum, %s : tensor<f32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %v, %t : tensor<i32>, tensor<8xf32>, tensor<f32>
  }
  return %r#2 : tensor<f32>
}

// Legal when: ops of a micro-batch have no side effects
// NUMERIC: skip (nothing of that name can be called)
// CHECK-LABEL:   func.func public @printed_in_a_loop
// CHECK-COUNT-1: stablehlo.while
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.custom_call missed: stablehlo.custom_call may have side effects
func.func public @printed_in_a_loop(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %first, %v = %x) : tensor<i32>, tensor<8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.custom_call @print(%i) {has_side_effect = true} : (tensor<i32>) -> tensor<i32>
    %a = stablehlo.abs %v : tensor<8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a : tensor<i32>, tensor<8xf32>
  }
  %s = stablehlo.reduce(%r#1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// Legal when: random numbers are not drawn for all examples at once, or `random=before`
// CHECK-LABEL:   func.func public @dropout
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.rng_bit_generator missed: random numbers of all examples are drawn at once (option random=before allows it)
// BEFORE-LABEL:  func.func public @dropout
// BEFORE:          %{{.*}}, %[[BITS:.*]] = stablehlo.rng_bit_generator
// BEFORE:          %[[ROWS:.*]] = stablehlo.reshape %[[BITS]] : (tensor<8xui32>) -> tensor<4x2xui32>
// BEFORE:          stablehlo.while
// BEFORE:            stablehlo.dynamic_slice %[[ROWS]]
// BEFORE:            stablehlo.compare
func.func public @dropout(%x: tensor<8xf32>, %key: tensor<2xui64>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<2147483648> : tensor<8xui32>
  %none = stablehlo.constant dense<0.0> : tensor<8xf32>
  %state, %bits = stablehlo.rng_bit_generator %key, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
  %keep = stablehlo.compare LT, %bits, %half : (tensor<8xui32>, tensor<8xui32>) -> tensor<8xi1>
  %d = stablehlo.select %keep, %x, %none : tensor<8xi1>, tensor<8xf32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}

// Legal when: shapes are static
// NUMERIC: skip (shapes are not known)
// CHECK-LABEL:   func.func public @dynamic
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] stablehlo.add missed: stablehlo.add has a dynamic shape
func.func public @dynamic(%x: tensor<8xf32>, %d: tensor<?xf32>) -> tensor<?xf32> {
  %s = stablehlo.add %x, %d : (tensor<8xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %s : tensor<?xf32>
}

// Worth it when: something is summed over the examples
// CHECK-LABEL:   func.func public @one_by_one
// CHECK-NOT:     stablehlo.while
// REMARK-DAG: [split-microbatches] func.func missed: nothing is summed over the examples
func.func public @one_by_one(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = stablehlo.abs %x : tensor<8xf32>
  return %a : tensor<8xf32>
}
