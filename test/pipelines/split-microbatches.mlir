// RUN: %par-opt %s --passes='split-microbatches{count=2 arguments=0},defer-sync' | FileCheck %s
// RUN: %par-opt %s --passes='split-microbatches{count=2 arguments=0}' | FileCheck %s --check-prefix=SPLIT

// Micro-batches of steps with collectives: not among the passes' own tests, which each leave no more than there were.

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

// What devices add up of examples is in place; a sum over examples is added up over devices once, after the loop.
// CHECK-LABEL:   func.func public @over_devices
// CHECK:           stablehlo.while
// CHECK:             "stablehlo.all_reduce"({{.*}}
// CHECK:             (tensor<4xf32>) -> tensor<4xf32>
// CHECK:           stablehlo.return
// CHECK:           }
// CHECK:           "stablehlo.all_reduce"({{.*}}
// CHECK:           (tensor<f32>) -> tensor<f32>
func.func public @over_devices(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = "stablehlo.all_reduce"(%x) <{replica_groups = #all}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  %m = stablehlo.multiply %x, %t : tensor<8xf32>
  %s = stablehlo.reduce(%m init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %r = "stablehlo.all_reduce"(%s) <{replica_groups = #all}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}

// In a loop of the step the sum over devices is linear: it goes into both loops, and `defer-sync` takes it out of both.
// CHECK-LABEL:   func.func public @over_devices_in_a_loop
// CHECK:           stablehlo.while({{.*}} : tensor<i32>, tensor<f32>
// CHECK:             stablehlo.while({{.*}} : tensor<i32>, tensor<4xf32>, tensor<f32>
// CHECK-NOT:         "stablehlo.all_reduce"
// CHECK:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>, tensor<f32>
// CHECK-NEXT:      }
// CHECK-NEXT:      "stablehlo.all_reduce"
// SPLIT-LABEL:   func.func public @over_devices_in_a_loop
// SPLIT:           stablehlo.while({{.*}} : tensor<i32>, tensor<f32>
// SPLIT:             stablehlo.while({{.*}} : tensor<i32>, tensor<4xf32>, tensor<f32>
// SPLIT:               "stablehlo.all_reduce"
func.func public @over_devices_in_a_loop(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:3 = stablehlo.while(%i = %first, %v = %x, %sum = %zero) : tensor<i32>, tensor<8xf32>, tensor<f32>
  cond {
    %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.reduce(%v init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %d = "stablehlo.all_reduce"(%s) <{replica_groups = #all}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %e = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %e : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
    %t = stablehlo.add %sum, %d : tensor<f32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %v, %t : tensor<i32>, tensor<8xf32>, tensor<f32>
  }
  return %r#2 : tensor<f32>
}
