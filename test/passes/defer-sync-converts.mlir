// Converts to narrower floats between the reduction and the accumulator.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes=defer-sync{convert=widening} --split-input-file | FileCheck %s --check-prefix=WIDENING

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// As JAX has it of a parameter in f32 that is cast to bf16 and multiplied in f32.
// Legal when: a convert between them is to a wider float type, or from f32 to bf16 and back, unless a loop carries it or an op in between can't be widened; or any with the option `convert=any`
// CHECK-LABEL:   func.func public @rounded_and_widened
// CHECK-NOT:         bf16
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           stablehlo.all_reduce"(%{{.*}}#1)
// WIDENING-LABEL: func.func public @rounded_and_widened
// WIDENING:         } do {
// WIDENING:         stablehlo.all_reduce
// WIDENING:         stablehlo.return %{{.*}}, %
func.func public @rounded_and_widened(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xbf16>
    %b2 = stablehlo.convert %b : (tensor<4xbf16>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %b2 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The accumulator is as narrow.
// CHECK-LABEL:   func.func public @accumulated_in_bf16
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert from f32 to bf16 loses precision (option convert=any allows it)
func.func public @accumulated_in_bf16(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xbf16>
    %n = stablehlo.add %acc, %b : tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xbf16>
  }
  %wide = stablehlo.convert %w#1 : (tensor<4xbf16>) -> tensor<4xf32>
  return %wide : tensor<4xf32>
}

// A loss is scaled such that gradients become infinite in f16: that is not to be left out.
// CHECK-LABEL:   func.func public @rounded_to_f16
// CHECK:           } do {
// CHECK:           stablehlo.all_reduce
// CHECK:           stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert from f32 to f16 loses precision (option convert=any allows it)
func.func public @rounded_to_f16(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %g = stablehlo.add %x, %ts : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %b = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xf16>
    %b2 = stablehlo.convert %b : (tensor<4xf16>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %b2 : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// The loop over layers carries rows in bf16: behind it, they would be reduced in that type.
// CHECK-LABEL:   func.func public @rows_of_layers
// CHECK:             } do {
// CHECK:             stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: a convert from f32 to bf16 loses precision (option convert=any allows it)
func.func public @rows_of_layers(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<3x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<3x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %rows = stablehlo.constant dense<0.0> : tensor<3x4xbf16>
    %l:2 = stablehlo.while(%j = %zero, %stack = %rows) : tensor<i32>, tensor<3x4xbf16>
    cond {
      %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %ij = stablehlo.add %i, %j : tensor<i32>
      %t = stablehlo.convert %ij : (tensor<i32>) -> tensor<f32>
      %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %g = stablehlo.add %x, %ts : tensor<4xf32>
      %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
      %b = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xbf16>
      %row = stablehlo.reshape %b : (tensor<4xbf16>) -> tensor<1x4xbf16>
      %next = stablehlo.dynamic_update_slice %stack, %row, %j, %zero : (tensor<3x4xbf16>, tensor<1x4xbf16>, tensor<i32>, tensor<i32>) -> tensor<3x4xbf16>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %next : tensor<i32>, tensor<3x4xbf16>
    }
    %wide = stablehlo.convert %l#1 : (tensor<3x4xbf16>) -> tensor<3x4xf32>
    %n = stablehlo.add %acc, %wide : tensor<3x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<3x4xf32>
  }
  return %w#1 : tensor<3x4xf32>
}

// Ops on the way work in f32, and so does the other term of a sum.
// CHECK-LABEL:   func.func public @moved_in_between
// CHECK:             stablehlo.transpose %{{.*}} : (tensor<4x2xf32>) -> tensor<2x4xf32>
// CHECK:             stablehlo.add %{{.*}} : tensor<2x4xf32>
// CHECK:             stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// CHECK:           stablehlo.all_reduce"(%{{.*}}#1)
func.func public @moved_in_between(%x: tensor<4x2xf32>, %y: tensor<2x4xbf16>) -> tensor<2x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %g = stablehlo.add %x, %ts : tensor<4x2xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %b = stablehlo.convert %s : (tensor<4x2xf32>) -> tensor<4x2xbf16>
    %turned = stablehlo.transpose %b, dims = [1, 0] : (tensor<4x2xbf16>) -> tensor<2x4xbf16>
    %h = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
    %sum = stablehlo.add %turned, %h : tensor<2x4xbf16>
    %same = stablehlo.convert %sum : tensor<2x4xbf16>
    %wide = stablehlo.convert %same : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    %n = stablehlo.add %acc, %wide : tensor<2x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2x4xf32>
  }
  return %w#1 : tensor<2x4xf32>
}

}
