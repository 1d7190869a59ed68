// Operands and results with constraints.

// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-unreduced --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// What XLA gathers for two products is gathered once for both, from how it was. Other ops read it as it was: where the
// constraint of that has no other reader, Shardy makes all ops behind it read what is gathered.
// CHECK-LABEL:   func.func public @gathered
// CHECK-SAME:      (%[[X:.*]]: tensor<16x6x4xf32>
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data"}, {"model"}, {}]>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}, {}]>
// CHECK-NEXT:      %[[N:.*]] = stablehlo.negate %[[B]]
// CHECK-NEXT:      stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [2] x [0] :
// CHECK-NEXT:      %[[R:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"data", ?}, {?}, {?}]>
// CHECK-NEXT:      %[[P:.*]] = stablehlo.dot_general %[[A]], %[[R]], contracting_dims = [0, 1] x [0, 1] :
// CHECK-NEXT:      sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NOT:       paropt
func.func public @gathered(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) -> (tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x4xf32>) {
  %n = stablehlo.negate %x : tensor<16x6x4xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<4x8xf32>) -> tensor<16x6x8xf32>
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %t = stablehlo.negate %u : tensor<4x8xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x8xf32>
  return %g, %h, %n : tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Legal when: an unreduced value is sharded into equal parts (XLA aborts)
// CHECK-LABEL:   func.func public @unequal_parts
// CHECK-NOT:       unreduced
// REMARK-DAG: [annotate-unreduced] stablehlo.slice missed: an unreduced value is sharded into unequal parts
func.func public @unequal_parts(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<3x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.slice %u [0:3, 0:4] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<4x4xf32>) -> tensor<3x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<3x4xf32>
  return %g : tensor<3x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// An argument that lies like that for all that reads it is constrained for all, but not what a loop returns unchanged.
// CHECK-LABEL:   func.func public @shared_argument
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %[[X:.*]] = %arg0)
// CHECK:           do {
// CHECK-NEXT:        %[[S:.*]] = sdy.sharding_constraint %[[X]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:        %[[P:.*]] = stablehlo.dot_general %[[S]], %[[S]],
// CHECK:             stablehlo.return %{{.*}}, %{{.*}}, %[[X]] :
func.func public @shared_argument(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %x) : tensor<i32>, tensor<4x4xf32>, tensor<16x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %p = stablehlo.dot_general %q, %q, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>], paropt.shared = array<i64: 0, 1>} : tensor<4x4xf32>
    %s = stablehlo.add %acc, %u : tensor<4x4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s, %q : tensor<i32>, tensor<4x4xf32>, tensor<16x4xf32>
  }
  %g = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// The same for two gradients; what is constrained already is not again, what is gathered otherwise reads it as it was.
// CHECK-LABEL:   func.func public @gathered_for_two
// CHECK:           %[[B:.*]] = sdy.sharding_constraint %arg0 <@mesh, [{"data"}, {"model"}, {}]>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}, {}]>
// CHECK-NEXT:      stablehlo.dot_general %[[B]], %arg2, contracting_dims = [2] x [0] :
// CHECK:           stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [0, 1] x [0, 1] :
// CHECK:           stablehlo.dot_general %[[A]], %{{.*}}, contracting_dims = [0, 1] x [0, 1] :
// CHECK:           return
func.func public @gathered_for_two(%x: tensor<16x6x4xf32>, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %w: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<16x6x8xf32>) {
  %b = sdy.sharding_constraint %x <@mesh, [{"data"}, {"model"}, {}]> : tensor<16x6x4xf32>
  %h = stablehlo.dot_general %b, %w, contracting_dims = [2] x [0] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{}, {"model"}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<4x8xf32>) -> tensor<16x6x8xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %q = stablehlo.dot_general %b, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %v = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %t = stablehlo.add %u, %v : tensor<4x8xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x8xf32>
  return %g, %h : tensor<4x8xf32>, tensor<16x6x8xf32>
}
}

// -----

module attributes {paropt.noted = ["stablehlo.dot_general"]} {
sdy.mesh @mesh = <["data"=4, "model"=2]>

// A constraint of the program's own that only the product reads: what comes behind is to read what it is of as it was.
// CHECK-LABEL:   func.func public @gathered_as_constrained
// CHECK:           %[[Y:.*]] = stablehlo.abs
// CHECK-NEXT:      %[[E:.*]] = stablehlo.negate %[[Y]]
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {"model"}, {}]>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}, {}]>
// CHECK:           stablehlo.dot_general %[[A]],
// CHECK:           stablehlo.multiply %[[E]], %[[B]]
// CHECK:           return %{{.*}}, %{{.*}}, %[[B]] :
func.func public @gathered_as_constrained(%x: tensor<16x6x4xf32>, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) -> (tensor<4x8xf32>, tensor<16x6x4xf32>, tensor<16x6x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x6x4xf32>
  %e = stablehlo.negate %h : tensor<16x6x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {"model"}, {}]> : tensor<16x6x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0, 1] x [0, 1] {paropt.gathered = [[#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]} : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}, {?}]>]} : tensor<4x8xf32>
  %t = stablehlo.negate %u : tensor<4x8xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x8xf32>
  %m = stablehlo.multiply %e, %h : tensor<16x6x4xf32>
  return %g, %m, %h : tensor<4x8xf32>, tensor<16x6x4xf32>, tensor<16x6x4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The same of what is not gathered, but for what is returned as it came. Where two constraints read it, or something else
// reads the first, Shardy has all read it as it is.
// CHECK-LABEL:   func.func public @split_as_constrained
// CHECK:           %[[Y:.*]] = stablehlo.abs
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[Y]] <@mesh, [{"data"}, {}]>
// CHECK:           %[[A:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data", ?}, {?}]>
// CHECK:           stablehlo.dot_general %[[A]],
// CHECK:           stablehlo.negate %[[B]]
// CHECK:           %[[K:.*]] = sdy.sharding_constraint %arg2 <@mesh, [{}, {"model"}]>
// CHECK-NEXT:      %[[L:.*]] = sdy.sharding_constraint %[[K]] <@mesh, [{}, {}]>
// CHECK-NEXT:      stablehlo.dot_general %{{.*}}, %[[L]],
// CHECK:           stablehlo.abs %[[K]]
// CHECK:           return %{{.*}}, %{{.*}}, %{{.*}}, %arg2 :
// CHECK-LABEL:   func.func private @by_two
// CHECK:           %[[Z:.*]] = stablehlo.abs
// CHECK:           stablehlo.negate %[[Z]]
// CHECK-LABEL:   func.func private @read_twice
// CHECK:           %[[Z:.*]] = stablehlo.abs
// CHECK:           stablehlo.negate %[[Z]]
func.func public @split_as_constrained(%x: tensor<16x4xf32>, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %n = stablehlo.negate %h : tensor<16x4xf32>
  %k = sdy.sharding_constraint %w <@mesh, [{}, {"model"}]> : tensor<4x4xf32>
  %t = stablehlo.dot_general %u, %k, contracting_dims = [1] x [0] {paropt.read = [unit, unit]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %a = stablehlo.abs %w : tensor<4x4xf32>
  return %g, %n, %a, %w : tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

func.func private @by_two(%x: tensor<16x4xf32>, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %c = sdy.sharding_constraint %h <@mesh, [{}, {"model"}]> : tensor<16x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %n = stablehlo.negate %h : tensor<16x4xf32>
  return %g, %n, %c : tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>
}

func.func private @read_twice(%x: tensor<16x4xf32>, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>) {
  %h = stablehlo.abs %x : tensor<16x4xf32>
  %b = sdy.sharding_constraint %h <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
  %c = stablehlo.abs %b : tensor<16x4xf32>
  %p = stablehlo.dot_general %b, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
  %t = stablehlo.negate %u : tensor<4x4xf32>
  %g = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %n = stablehlo.negate %h : tensor<16x4xf32>
  return %g, %n, %c : tensor<4x4xf32>, tensor<16x4xf32>, tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What has no value in common is taken back alone. Here, of what a loop carries: %b starts from something else than zeros.
// CHECK-LABEL:   func.func public @one_of_two
// CHECK:           stablehlo.while
// CHECK:             %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:        sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK:             %[[Q:.*]] = stablehlo.dot_general
// CHECK-NEXT:        stablehlo.add %{{.*}}, %[[Q]]
// CHECK:             stablehlo.return
// CHECK-NEXT:      }
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}], unreduced={"data"}> :
// CHECK-NEXT:      %[[V:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}]> :
// CHECK-NEXT:      return %[[V]], %{{.*}}#2
// REMARK-DAG: [annotate-unreduced] stablehlo.while missed: a sum of an unreduced value and a reduced one
func.func public @one_of_two(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %n: tensor<i32>, %start: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %a = %none, %b = %start) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
    %s = stablehlo.add %a, %u : tensor<4x4xf32>
    %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %uq = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
    %t = stablehlo.add %b, %uq : tensor<4x4xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %s, %t : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  %v = sdy.all_reduce {"data"} %w#1 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %v2 = sdy.all_reduce {"data"} %w#2 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %v2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// What is added to what has to be taken back is taken back, too.
// CHECK-LABEL:   func.func public @both_of_two
// CHECK-NOT:       unreduced
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.multiply missed: stablehlo.multiply is not linear in an unreduced value
func.func public @both_of_two(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
  %q = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %uq = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
  %s = stablehlo.add %u, %uq : tensor<4x4xf32>
  %v = sdy.all_reduce {"data"} %s out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  %m = stablehlo.multiply %uq, %uq : tensor<4x4xf32>
  %w = sdy.all_reduce {"data"} %m out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
  return %v, %w : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A product that Shardy would split otherwise than XLA alone is held as it was, one that it would not is left alone.
// CHECK-LABEL:   func.func public @held
// CHECK:           %[[H:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] :
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[H]] <@mesh, [{}, {"data"}]> :
// CHECK-NEXT:      %[[I:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] :
// CHECK-NEXT:      %[[J:.*]] = stablehlo.dot_general %arg1, %arg1,
// Nothing else is held whole: XLA may drop the op, and would gather its operand.
// CHECK:           %[[N:.*]] = stablehlo.negate %arg0 :
// CHECK-NOT:       paropt.alone
// CHECK:           return %{{.*}}, %[[C]], %[[I]], %[[J]], %[[N]]
// REMARK-DAG: [annotate-unreduced] stablehlo.dot_general applied: its result keeps the sharding that XLA would infer
module attributes {paropt.noted = ["stablehlo.dot_general", "stablehlo.negate"]} {

  sdy.mesh @mesh = <["data"=8]>
  func.func public @held(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<4x8xf32>) -> (tensor<4x4xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<4x4xf32>, tensor<16x4xf32>) {
    %h = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %i = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {}]>]} : (tensor<16x4xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %j = stablehlo.dot_general %y, %y, contracting_dims = [1] x [1] {paropt.alone = []} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
    %n = stablehlo.negate %x {paropt.alone = []} : tensor<16x4xf32>
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{}, {"data"}]>]} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<4x4xf32>
    %t = stablehlo.negate %u : tensor<4x4xf32>
    %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
    return %v, %h, %i, %j, %n : tensor<4x4xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<4x4xf32>, tensor<16x4xf32>
  }
}

// -----

// A barrier holds values that are not reduced over different axes, and one that is. Each keeps its own constraint.
// CHECK-LABEL:   func.func public @barrier_around_sums
// CHECK:           %[[B:.*]]:3 = stablehlo.optimization_barrier %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[B]]#0 <@mesh, [{}, {}], unreduced={"replica", "data"}>
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[B]]#2 <@mesh, [{}, {}], unreduced={"data"}>
// CHECK-NEXT:      %[[D:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{}, {}]>
// CHECK-NEXT:      %[[E:.*]] = sdy.sharding_constraint %[[C]] <@mesh, [{}, {}]>
// CHECK-NEXT:      return %[[D]], %[[E]], %[[B]]#1
module {

  sdy.mesh @mesh = <["replica"=2, "data"=4]>
  func.func public @barrier_around_sums(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<16x4xf32>) {
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"replica", "data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>, #sdy.sharding<@mesh, [{"replica", "data", ?}, {?}]>]} : tensor<4x4xf32>
    %q = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %v = sdy.sharding_constraint %q <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, #sdy.sharding<@mesh, [{"data", ?}, {?}]>]} : tensor<4x4xf32>
    %b:3 = stablehlo.optimization_barrier %u, %x, %v : tensor<4x4xf32>, tensor<16x4xf32>, tensor<4x4xf32>
    %r = sdy.all_reduce {"replica", "data"} %b#0 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
    %s = sdy.all_reduce {"data"} %b#2 out_sharding=<@mesh, [{?}, {?}]> : tensor<4x4xf32>
    return %r, %s, %b#1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<16x4xf32>
  }
}

// -----

// So is what comes through a barrier, as into a rematerialized layer, and what a product reads of that, result by result.
// CHECK-LABEL:   func.func public @held_behind_a_barrier
// CHECK:           %[[O:.*]]:2 = stablehlo.optimization_barrier
// CHECK-NEXT:      %[[A:.*]] = sdy.sharding_constraint %[[O]]#1 <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{"data", ?}, {?}]>
// CHECK-NEXT:      %[[C:.*]] = sdy.sharding_constraint %[[B]] <@mesh, [{"data"}, {}]>
// CHECK-NEXT:      stablehlo.dot_general %[[C]], %[[O]]#0,
// CHECK-NEXT:      stablehlo.reduce(%[[C]] init:
// CHECK-NOT:       paropt.alone
// CHECK:           return
// REMARK-DAG: [annotate-unreduced] stablehlo.optimization_barrier applied: its result keeps the sharding that XLA would infer
module attributes {paropt.noted = ["stablehlo.optimization_barrier", "stablehlo.reduce"]} {

  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @held_behind_a_barrier(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<16x8xf32>, tensor<8x8xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %o:2 = stablehlo.optimization_barrier {paropt.alone = [#sdy.sharding<@mesh, [{}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>]} %y, %x : tensor<8x8xf32>, tensor<16x8xf32>
    %h = stablehlo.dot_general %o#1, %o#0, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %p = stablehlo.reduce(%o#1 init: %zero) applies stablehlo.add across dimensions = [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"data", "model"}]>]} : (tensor<16x8xf32>, tensor<f32>) -> tensor<8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data", ?}, {?}]>, unit], paropt.shared = array<i64: 0>} : tensor<8xf32>
    %t = stablehlo.negate %u : tensor<8xf32>
    %v = sdy.all_reduce {"data"} %t out_sharding=<@mesh, [{?}]> : tensor<8xf32>
    return %v, %h, %o#0 : tensor<8xf32>, tensor<16x8xf32>, tensor<8x8xf32>
  }
}
