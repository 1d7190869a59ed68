// RUN: %par-opt %s --passes=accumulate-in-place | FileCheck %s
// RUN: %par-opt %s --passes=accumulate-in-place --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 8 : i32} {

// Legal when: rows of sums that begin at zeros are added as they are
// As `defer-sync` leaves a sum that is written row by row.
// CHECK-LABEL:   func.func public @sums_of_rows
// CHECK-NOT:       dense<0.000000e+00>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %arg1)
// CHECK:             %[[NEXT:.*]]:2 = stablehlo.while(%[[J:.*]] = %{{.*}}, %[[SUM:.*]] = %[[ACC]])
// CHECK:               %[[OLD:.*]] = stablehlo.dynamic_slice %[[SUM]], %[[J]]
// CHECK:               %[[ROW:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<2xf32>
// CHECK:               stablehlo.dynamic_update_slice %[[SUM]]
// CHECK:             stablehlo.return %{{.*}}, %[[NEXT]]#1
func.func public @sums_of_rows(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
      %p = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %q = stablehlo.reshape %p : (tensor<1x2xf32>) -> tensor<2xf32>
      %old = stablehlo.dynamic_slice %s, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %o = stablehlo.reshape %old : (tensor<1x2xf32>) -> tensor<2xf32>
      %n = stablehlo.add %o, %q : tensor<2xf32>
      %g = stablehlo.reshape %n : (tensor<2xf32>) -> tensor<1x2xf32>
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

// CHECK-LABEL:   func.func public @negated_sums
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: rows that are sums are changed before they are added
func.func public @negated_sums(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
      %p = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %old = stablehlo.dynamic_slice %s, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %g = stablehlo.add %old, %p : tensor<1x2xf32>
      %t = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %minus = stablehlo.negate %l#1 : tensor<4x2xf32>
    %next = stablehlo.add %acc, %minus : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// The rows begin at something else.
// CHECK-LABEL:   func.func public @sums_from_elsewhere
// CHECK:             stablehlo.while({{.*}} = %arg2)
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the loop adds to an array that does not begin at zeros
func.func public @sums_from_elsewhere(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>, %any: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
      %more = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %p = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %old = stablehlo.dynamic_slice %s, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %g = stablehlo.add %old, %p : tensor<1x2xf32>
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

// A row is written that is the sum of another one.
// CHECK-LABEL:   func.func public @other_row_read
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: a trip reads another row than it writes (stablehlo.dynamic_slice
func.func public @other_row_read(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
      %p = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %old = stablehlo.dynamic_slice %s, %back, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %g = stablehlo.add %old, %p : tensor<1x2xf32>
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

// Of five trips, the last one would write a fifth row: the fourth is written again.
// CHECK-LABEL:   func.func public @beyond_the_last_row
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: a trip writes beyond the last row, which is moved to that (stablehlo.dynamic_update_slice
func.func public @beyond_the_last_row(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
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
      %more = stablehlo.compare LT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %p = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %old = stablehlo.dynamic_slice %s, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %g = stablehlo.add %old, %p : tensor<1x2xf32>
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

// Legal when: no factor, and no accumulator, depends on the loop
// CHECK-LABEL:   func.func public @factor_of_the_loop
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: what it is multiplied by, or added to, depends on the loop{{$}}
func.func public @factor_of_the_loop(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
    %f = stablehlo.convert %l#0 : (tensor<i32>) -> tensor<f32>
    %factors = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %scaled = stablehlo.multiply %l#1, %factors : tensor<4x2xf32>
    %next = stablehlo.add %acc, %scaled : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// A factor for which much is computed stays where it is.
// CHECK-LABEL:   func.func public @factor_behind_the_loop
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: what it is multiplied by, or added to, is made behind the loop (stablehlo.reduce
func.func public @factor_behind_the_loop(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
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
    %f = stablehlo.reduce(%x init: %none) applies stablehlo.maximum across dimensions = [0, 1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    %factors = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %scaled = stablehlo.multiply %l#1, %factors : tensor<4x2xf32>
    %next = stablehlo.add %acc, %scaled : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Worth it when: the loop around carries the accumulator to the addition, and nothing else reads it: else it is copied
// CHECK-LABEL:   func.func public @accumulator_read_again
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the accumulator is also read elsewhere: it would be copied (stablehlo.add
func.func public @accumulator_read_again(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
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
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next, %acc : tensor<i32>, tensor<4x2xf32>, tensor<4x2xf32>
  }
  return %r#1, %r#2 : tensor<4x2xf32>, tensor<4x2xf32>
}

// What is added to is made in each iteration.
// CHECK-LABEL:   func.func public @no_accumulator
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
func.func public @no_accumulator(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
    %w = stablehlo.multiply %acc, %acc : tensor<4x2xf32>
    %next = stablehlo.add %w, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Worth it when: no reduction of its rows stays in the loop: XLA:TPU and XLA:GPU move it behind the loop, with a stack again
// CHECK-LABEL:   func.func public @rows_reduced_in_the_loop
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: its rows are reduced in the loop (stablehlo.all_reduce
func.func public @rows_reduced_in_the_loop(%xs: tensor<3x4x2xf32>, %start: tensor<4x2xf32>) -> tensor<4x2xf32> {
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
      %p = stablehlo.dynamic_slice %x, %j, %zero, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %sum = "stablehlo.all_reduce"(%p) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<1x2xf32>) -> tensor<1x2xf32>
      %g = stablehlo.negate %sum : tensor<1x2xf32>
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

}
