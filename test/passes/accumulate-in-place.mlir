// RUN: %par-opt %s --passes=accumulate-in-place | FileCheck %s
// RUN: %par-opt %s --passes=accumulate-in-place --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 8 : i32} {

// As a backward pass has it: the last layer first.
// CHECK-LABEL:   func.func public @rows_in_reverse
// CHECK-NOT:       dense<0.000000e+00>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %arg1)
// CHECK:             %[[NEXT:.*]]:2 = stablehlo.while(%[[J:.*]] = %{{.*}}, %[[SUM:.*]] = %[[ACC]])
// CHECK:             } do {
// CHECK:               %[[I:.*]] = stablehlo.subtract %{{.*}}, %[[J]]
// CHECK-NEXT:          %[[G:.*]] = stablehlo.dynamic_slice %{{.*}}, %[[I]],
// CHECK-NEXT:          %[[OLD:.*]] = stablehlo.dynamic_slice %[[SUM]], %[[I]], %{{.*}}, sizes = [1, 2]
// CHECK-NEXT:          %[[ROW:.*]] = stablehlo.add %[[OLD]], %[[G]] : tensor<1x2xf32>
// CHECK-NEXT:          %[[NEW:.*]] = stablehlo.dynamic_update_slice %[[SUM]], %[[ROW]], %[[I]],
// CHECK-NEXT:          %[[NEXT_J:.*]] = stablehlo.add %[[J]]
// CHECK-NEXT:          stablehlo.return %[[NEXT_J]], %[[NEW]]
// CHECK-NEXT:        }
// CHECK-NEXT:        %[[NEXT_I:.*]] = stablehlo.add
// CHECK-NEXT:        stablehlo.return %[[NEXT_I]], %[[NEXT]]#1
// REMARK-DAG: [accumulate-in-place] stablehlo.while applied: 1 arrays are added to row by row, and no stacks of 32 bytes are held
func.func public @rows_in_reverse(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %back = stablehlo.subtract %three, %j : tensor<i32>
      %g = stablehlo.dynamic_slice %x, %back, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %back, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// The stack is the first addend, and of another type. Every row is written, whatever the stack begins with.
// CHECK-LABEL:   func.func public @stack_first
// CHECK:           stablehlo.while
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %{{.*}}) : tensor<i32>, tensor<4x2xf64>
// CHECK:             } do {
// CHECK-NEXT:          %[[G:.*]] = stablehlo.dynamic_slice
// CHECK-NEXT:          %[[WIDE:.*]] = stablehlo.convert %[[G]] : (tensor<1x2xf32>) -> tensor<1x2xf64>
// CHECK-NEXT:          %[[OLD:.*]] = stablehlo.dynamic_slice %[[SUM]]
// CHECK-NEXT:          stablehlo.add %[[WIDE]], %[[OLD]] : tensor<1x2xf64>
func.func public @stack_first(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf64>, %any: tensor<4x2xf32>) -> tensor<4x2xf64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf64>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %any) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %wide = stablehlo.convert %l#1 : (tensor<4x2xf32>) -> tensor<4x2xf64>
    %next = stablehlo.add %wide, %acc : tensor<4x2xf64>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf64>
  }
  return %r#1 : tensor<4x2xf64>
}

// Legal when: it is converted, scaled, transposed or sliced row by row before it is added
// The factors are made behind the loop, of what is there before it.
// CHECK-LABEL:   func.func public @steps_of_a_row
// CHECK:             %[[N:.*]] = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
// CHECK-NEXT:        stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %{{.*}}) : tensor<i32>, tensor<1x4xf32>
// CHECK:             } do {
// CHECK-NEXT:          %[[G:.*]] = stablehlo.dynamic_slice
// CHECK-NEXT:          %[[ALL:.*]] = stablehlo.broadcast_in_dim %[[N]], dims = [] : (tensor<f32>) -> tensor<1x2xf32>
// CHECK-NEXT:          %[[SCALED:.*]] = stablehlo.multiply %[[ALL]], %[[G]]
// CHECK-NEXT:          %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<1x2xf32>
// CHECK-NEXT:          %[[HALF:.*]] = stablehlo.divide %[[SCALED]], %[[TWO]]
// CHECK-NEXT:          %[[T:.*]] = stablehlo.transpose %[[HALF]], dims = [1, 0] : (tensor<1x2xf32>) -> tensor<2x1xf32>
// CHECK-NEXT:          %[[CUT:.*]] = stablehlo.slice %[[T]] [1:2, 0:1] : (tensor<2x1xf32>) -> tensor<1x1xf32>
// CHECK-NEXT:          %[[OLD:.*]] = stablehlo.dynamic_slice %[[SUM]], %[[ZERO:.*]], %[[J:.*]], sizes = [1, 1]
// CHECK-NEXT:          %[[ROW:.*]] = stablehlo.subtract %[[OLD]], %[[CUT]]
// CHECK-NEXT:          stablehlo.dynamic_update_slice %[[SUM]], %[[ROW]], %[[ZERO]], %[[J]]
func.func public @steps_of_a_row(%xs: tensor<3x4x2xf32>, %start: tensor<1x4xf32>, %n: tensor<i32>) -> tensor<1x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<1x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %f = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
    %factors = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %scaled = stablehlo.multiply %factors, %l#1 : tensor<4x2xf32>
    %twos = stablehlo.constant dense<2.0> : tensor<4x2xf32>
    %half = stablehlo.divide %scaled, %twos : tensor<4x2xf32>
    %turned = stablehlo.transpose %half, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %cut = stablehlo.slice %turned [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32>
    %next = stablehlo.subtract %acc, %cut : tensor<1x4xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<1x4xf32>
  }
  return %r#1 : tensor<1x4xf32>
}

// Some rows are left out.
// CHECK-LABEL:   func.func public @slice_of_rows
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the stack goes through stablehlo.slice, which is not done row by row (stablehlo.slice
func.func public @slice_of_rows(%xs: tensor<3x4x2xf32>, %start: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<2x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %cut = stablehlo.slice %l#1 [1:3, 0:2] : (tensor<4x2xf32>) -> tensor<2x2xf32>
    %next = stablehlo.add %acc, %cut : tensor<2x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<2x2xf32>
  }
  return %r#1 : tensor<2x2xf32>
}

// Each element has its factor.
// CHECK-LABEL:   func.func public @array_of_factors
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the stack goes through stablehlo.multiply, which is not done row by row: a factor is an array (stablehlo.multiply
func.func public @array_of_factors(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %w: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %scaled = stablehlo.multiply %w, %l#1 : tensor<4x2xf32>
    %next = stablehlo.add %acc, %scaled : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Two parts of a stack are added to an accumulator each: the second is carried behind all else. One is negated, too.
// CHECK-LABEL:   func.func public @two_parts
// CHECK:           stablehlo.while
// CHECK:             %[[NEXT:.*]]:3 = stablehlo.while(%{{.*}} = %{{.*}}, %[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) : tensor<i32>, tensor<4x1xf32>, tensor<4x1xf32>
// CHECK:               %[[LEFT:.*]] = stablehlo.slice %{{.*}} [0:1, 0:1]
// CHECK-NEXT:          %[[OLD:.*]] = stablehlo.dynamic_slice %[[A]]
// CHECK-NEXT:          %[[ROW:.*]] = stablehlo.add %[[OLD]], %[[LEFT]]
// CHECK-NEXT:          %[[NEW:.*]] = stablehlo.dynamic_update_slice %[[A]], %[[ROW]]
// CHECK-NEXT:          %[[RIGHT:.*]] = stablehlo.slice %{{.*}} [0:1, 1:2]
// CHECK-NEXT:          %[[MINUS:.*]] = stablehlo.negate %[[RIGHT]]
// CHECK-NEXT:          %[[OLD_B:.*]] = stablehlo.dynamic_slice %[[B]]
// CHECK-NEXT:          %[[ROW_B:.*]] = stablehlo.add %[[OLD_B]], %[[MINUS]]
// CHECK-NEXT:          %[[NEW_B:.*]] = stablehlo.dynamic_update_slice %[[B]], %[[ROW_B]]
// CHECK:               stablehlo.return %{{.*}}, %[[NEW]], %[[NEW_B]]
// CHECK:             stablehlo.return %{{.*}}, %[[NEXT]]#1, %[[NEXT]]#2
// REMARK-DAG: [accumulate-in-place] stablehlo.while applied: 2 arrays are added to row by row, and no stacks of 32 bytes are held
func.func public @two_parts(%xs: tensor<3x4x2xf32>, %start: tensor<4x1xf32>, %more_start: tensor<4x1xf32>) -> (tensor<4x1xf32>, tensor<4x1xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:3 = stablehlo.while(%i = %zero, %acc = %start, %b = %more_start) : tensor<i32>, tensor<4x1xf32>, tensor<4x1xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %left = stablehlo.slice %l#1 [0:4, 0:1] : (tensor<4x2xf32>) -> tensor<4x1xf32>
    %right = stablehlo.slice %l#1 [0:4, 1:2] : (tensor<4x2xf32>) -> tensor<4x1xf32>
    %minus = stablehlo.negate %right : tensor<4x1xf32>
    %next = stablehlo.add %acc, %left : tensor<4x1xf32>
    %next_b = stablehlo.add %b, %minus : tensor<4x1xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next, %next_b : tensor<i32>, tensor<4x1xf32>, tensor<4x1xf32>
  }
  return %r#1, %r#2 : tensor<4x1xf32>, tensor<4x1xf32>
}

// As an unrolled scan has it: two layers in an iteration, in an array of pairs. The accumulator is reshaped, not the rows.
// CHECK-LABEL:   func.func public @blocks_of_rows
// CHECK:             %[[PAIRS:.*]] = stablehlo.reshape %{{.*}} : (tensor<4x2xf32>) -> tensor<2x2x2xf32>
// CHECK-NEXT:        %[[NEXT:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %[[PAIRS]])
// CHECK:               %[[OLD:.*]] = stablehlo.dynamic_slice %[[SUM]], %{{.*}}, sizes = [1, 2, 2]
// CHECK:             %[[AGAIN:.*]] = stablehlo.reshape %[[NEXT]]#1 : (tensor<2x2x2xf32>) -> tensor<4x2xf32>
// CHECK:             stablehlo.return %{{.*}}, %[[AGAIN]]
func.func public @blocks_of_rows(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x2x2xf32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<2x2x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %k = stablehlo.multiply %j, %two : tensor<i32>
      %pair = stablehlo.dynamic_slice %x, %k, %zero, sizes = [2, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
      %g = stablehlo.reshape %pair : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero, %zero : (tensor<2x2x2xf32>, tensor<1x2x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<2x2x2xf32>
    }
    %flat = stablehlo.reshape %l#1 : (tensor<2x2x2xf32>) -> tensor<4x2xf32>
    %next = stablehlo.add %acc, %flat : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Legal when: each row is written once, by one iteration of a loop of known trip count
// Iterations 0 and 1 write row 1: the sum would have both.
// CHECK-LABEL:   func.func public @row_written_twice
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: a row is written in several trips (stablehlo.dynamic_update_slice
func.func public @row_written_twice(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %most = stablehlo.maximum %j, %one : tensor<i32>
      %g = stablehlo.dynamic_slice %x, %most, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %most, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Row 3 is not written: it is that of the array that the stack begins with.
// CHECK-LABEL:   func.func public @row_left_out
// CHECK:             stablehlo.while({{.*}} = %arg2)
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: some rows are not written (stablehlo.dynamic_update_slice
func.func public @row_left_out(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %any: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %any) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @trips_unknown
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the trip count of the loop is not known
func.func public @trips_unknown(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %n: tensor<i32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @index_unknown
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: it is not known which row each trip writes (stablehlo.dynamic_update_slice
func.func public @index_unknown(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %n: tensor<i32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %k = stablehlo.add %j, %n : tensor<i32>
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %k, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Legal when: the condition of the loop does not read the stack
// CHECK-LABEL:   func.func public @condition_reads
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the condition of the loop reads the stack (stablehlo.slice
func.func public @condition_reads(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %first = stablehlo.slice %s [0:1, 0:1] : (tensor<4x2xf32>) -> tensor<1x1xf32>
      %number = stablehlo.reshape %first : (tensor<1x1xf32>) -> tensor<f32>
      %huge = stablehlo.constant dense<1.0e+30> : tensor<f32>
      %small = stablehlo.compare LT, %number, %huge : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %fewer = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %more = stablehlo.and %fewer, %small : tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Legal when: it is read for additions to accumulators only
// Such as for the norm of the gradients.
// CHECK-LABEL:   func.func public @stack_read_twice
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the stack goes through stablehlo.reduce, which is not done row by row (stablehlo.reduce
func.func public @stack_read_twice(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %norm: tensor<f32>) -> (tensor<4x2xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %r:3 = stablehlo.while(%i = %zero, %acc = %start, %n = %norm) : tensor<i32>, tensor<4x2xf32>, tensor<f32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %sum = stablehlo.reduce(%l#1 init: %none) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next, %sum : tensor<i32>, tensor<4x2xf32>, tensor<f32>
  }
  return %r#1, %r#2 : tensor<4x2xf32>, tensor<f32>
}

// CHECK-LABEL:   func.func public @stack_read_in_a_branch
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the stack is also read by stablehlo.return (stablehlo.return
func.func public @stack_read_in_a_branch(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %p: tensor<i1>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:3 = stablehlo.while(%i = %zero, %acc = %start, %b = %start) : tensor<i32>, tensor<4x2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %chosen = "stablehlo.if"(%p) ({
      stablehlo.return %l#1 : tensor<4x2xf32>
    }, {
      stablehlo.return %zeros : tensor<4x2xf32>
    }) : (tensor<i1>) -> tensor<4x2xf32>
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next, %chosen : tensor<i32>, tensor<4x2xf32>, tensor<4x2xf32>
  }
  return %r#1, %r#2 : tensor<4x2xf32>, tensor<4x2xf32>
}

// CHECK-LABEL:   func.func public @stack_read_for_nothing
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: a part of the stack is not read
func.func public @stack_read_for_nothing(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %r:3 = stablehlo.while(%i = %zero, %acc = %start, %b = %start) : tensor<i32>, tensor<4x2xf32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %g = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %part = stablehlo.negate %l#1 : tensor<4x2xf32>
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next, %b : tensor<i32>, tensor<4x2xf32>, tensor<4x2xf32>
  }
  return %r#1, %r#2 : tensor<4x2xf32>, tensor<4x2xf32>
}

// Rows of the reshaped stack are not its rows.
// CHECK-LABEL:   func.func public @turned_after_a_reshape
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x2x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the stack goes through stablehlo.transpose, which is not done row by row: it is reshaped before (stablehlo.transpose
func.func public @turned_after_a_reshape(%xs: tensor<3x4x2xf32>, %start: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x2x2xf32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<2x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %m = stablehlo.dynamic_slice %xs, %i, %zero, %zero, sizes = [1, 4, 2] : (tensor<3x4x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x2xf32>
    %x = stablehlo.reshape %m : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<2x2x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %k = stablehlo.multiply %j, %two : tensor<i32>
      %pair = stablehlo.dynamic_slice %x, %k, %zero, sizes = [2, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
      %g = stablehlo.reshape %pair : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero, %zero : (tensor<2x2x2xf32>, tensor<1x2x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<2x2x2xf32>
    }
    %flat = stablehlo.reshape %l#1 : (tensor<2x2x2xf32>) -> tensor<4x2xf32>
    %turned = stablehlo.transpose %flat, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %next = stablehlo.add %acc, %turned : tensor<2x4xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<2x4xf32>
  }
  return %r#1 : tensor<2x4xf32>
}

// Two loops over layers, one in the other: the rows of the outer one are accumulators of the inner one.
// CHECK-LABEL:   func.func public @nested
// CHECK-NOT:       dense<0.000000e+00>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %arg1)
// CHECK:             %[[OUTER:.*]]:2 = stablehlo.while(%[[J:.*]] = %{{.*}}, %[[A:.*]] = %[[ACC]])
// CHECK:               %[[OLD:.*]] = stablehlo.dynamic_slice %[[A]], %[[J]], %{{.*}}, %{{.*}}, sizes = [1, 2, 2]
// CHECK-NEXT:          %[[FLAT:.*]] = stablehlo.reshape %[[OLD]] : (tensor<1x2x2xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:          %[[INNER:.*]]:2 = stablehlo.while(%[[K:.*]] = %{{.*}}, %[[B:.*]] = %[[FLAT]])
// CHECK:                 %[[G:.*]] = stablehlo.dynamic_slice %{{.*}}, %[[K]]
// CHECK-NEXT:            %[[ROW:.*]] = stablehlo.dynamic_slice %[[B]], %[[K]]
// CHECK-NEXT:            %[[SUM:.*]] = stablehlo.add %[[ROW]], %[[G]] : tensor<1x2xf32>
// CHECK-NEXT:            %[[NEW:.*]] = stablehlo.dynamic_update_slice %[[B]], %[[SUM]], %[[K]]
// CHECK:                 stablehlo.return %{{.*}}, %[[NEW]]
// CHECK:               %[[AGAIN:.*]] = stablehlo.reshape %[[INNER]]#1 : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
// CHECK:               stablehlo.dynamic_update_slice %[[A]], %[[AGAIN]], %[[J]]
// CHECK:             stablehlo.return %{{.*}}, %[[OUTER]]#1
// REMARK-DAG: [accumulate-in-place] stablehlo.while applied: 1 arrays are added to row by row, and no stacks of 16 bytes are held
func.func public @nested(%xs: tensor<3x2x2x2xf32>, %start: tensor<2x2x2xf32>) -> tensor<2x2x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x2x2xf32>
  %none = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<2x2x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<2x2x2xf32>
    cond {
      %more = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %m = stablehlo.dynamic_slice %xs, %i, %j, %zero, %zero, sizes = [1, 1, 2, 2] : (tensor<3x2x2x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x2x2xf32>
      %x = stablehlo.reshape %m : (tensor<1x1x2x2xf32>) -> tensor<2x2xf32>
      %n:2 = stablehlo.while(%k = %zero, %u = %none) : tensor<i32>, tensor<2x2xf32>
      cond {
        %more = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %g = stablehlo.dynamic_slice %x, %k, %zero, sizes = [1, 2] : (tensor<2x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
        %v = stablehlo.dynamic_update_slice %u, %g, %k, %zero : (tensor<2x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>
        %next_k = stablehlo.add %k, %one : tensor<i32>
        stablehlo.return %next_k, %v : tensor<i32>, tensor<2x2xf32>
      }
      %h = stablehlo.broadcast_in_dim %n#1, dims = [1, 2] : (tensor<2x2xf32>) -> tensor<1x2x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %h, %j, %zero, %zero : (tensor<2x2x2xf32>, tensor<1x2x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x2x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<2x2x2xf32>
    }
    %next = stablehlo.add %acc, %l#1 : tensor<2x2x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<2x2x2xf32>
  }
  return %r#1 : tensor<2x2x2xf32>
}

}
