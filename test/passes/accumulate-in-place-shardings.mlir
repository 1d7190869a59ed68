// RUN: %par-opt %s --passes=accumulate-in-place | FileCheck %s
// RUN: %par-opt %s --passes=accumulate-in-place --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_partitions = 8 : i32} {

sdy.mesh @mesh = <["x"=2, "y"=4]>

// Legal when: the rows are on one device each, and the accumulator is sharded as the stack is
// CHECK-LABEL:   func.func public @rows_are_sharded_alike
// CHECK-NOT:       dense<0.000000e+00>
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[ACC:.*]] = %arg1)
// CHECK:             stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[ACC]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while applied: 1 arrays are added to row by row, and no stacks of 32 bytes are held
func.func public @rows_are_sharded_alike(%xs: tensor<3x4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"x"}]>}, %start: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<4x2xf32> {
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
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// A device would need rows of others, to add to them.
// CHECK-LABEL:   func.func public @rows_on_several_devices
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the rows are on different devices (stablehlo.dynamic_update_slice
func.func public @rows_on_several_devices(%xs: tensor<3x4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %start: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<4x2xf32> {
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
    %next = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// A constraint has the stack sharded otherwise than the accumulator.
// CHECK-LABEL:   func.func public @sharded_otherwise
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]])
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the accumulator is sharded otherwise than the stack (stablehlo.add
func.func public @sharded_otherwise(%xs: tensor<3x4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %start: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<4x2xf32> {
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
      %u = stablehlo.dynamic_update_slice %s, %g, %j, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
      %t = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x2xf32>
      %next_j = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %next_j, %t : tensor<i32>, tensor<4x2xf32>
    }
    %sum = stablehlo.add %acc, %l#1 : tensor<4x2xf32>
    %next = sdy.sharding_constraint %sum <@mesh, [{}, {"x"}]> : tensor<4x2xf32>
    %next_i = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

// Legal when: the loop has no shardings of its own (they are one per loop-carried value)
// CHECK-LABEL:   func.func public @loop_with_shardings
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK:             stablehlo.while({{.*}} = %[[ZEROS]]){{.*}} attributes {sdy.sharding = 
// REMARK-DAG: [accumulate-in-place] stablehlo.while missed: the loop says how its values are sharded
func.func public @loop_with_shardings(%xs: tensor<3x4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %start: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<4x2xf32> {
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
    %l:2 = stablehlo.while(%j = %zero, %s = %zeros) : tensor<i32>, tensor<4x2xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>, <@mesh, [{}, {}]>]>}
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
    stablehlo.return %next_i, %next : tensor<i32>, tensor<4x2xf32>
  }
  return %r#1 : tensor<4x2xf32>
}

}
