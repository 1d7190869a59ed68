// Values that are computed or reduced for two readers.

// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=defer-sync --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#halves = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// What reads the second sum needs it in each trip, and it is the first sum: XLA would reduce it once for both.
// CHECK-LABEL:   func.func public @computed_twice
// CHECK:           } do {
// CHECK:             %[[S:.*]] = "stablehlo.all_reduce"
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.add %{{.*}}, %[[S]]
// CHECK:             stablehlo.multiply %[[S]], %[[S]]
// CHECK:             return
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce applied: equivalent values are reduced once, where the first is computed
func.func public @computed_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<2.0> : tensor<4xf32>
    %d1 = stablehlo.multiply %x, %c1 : tensor<4xf32>
    %g = stablehlo.add %d1, %x : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c2 = stablehlo.constant dense<2.0> : tensor<4xf32>
    %d2 = stablehlo.multiply %x, %c2 : tensor<4xf32>
    %h = stablehlo.add %d2, %x : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// Of other reductions that the second one depends on, too.
// CHECK-LABEL:   func.func public @computed_twice_of_sums
// CHECK:           } do {
// CHECK-COUNT-2:     stablehlo.all_reduce
// CHECK-NOT:         stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           stablehlo.all_reduce
func.func public @computed_twice_of_sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:4 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none, %acc3 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %gg = stablehlo.multiply %g, %g : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%gg) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %h = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %hh = stablehlo.multiply %h, %h : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%hh) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %u = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #halves} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %o = stablehlo.add %acc3, %u : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m, %o : tensor<i32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2, %w#3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A constant is another one.
// CHECK-LABEL:   func.func public @computed_almost_twice
// CHECK:           } do {
// CHECK-COUNT-1:     stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           stablehlo.all_reduce
func.func public @computed_almost_twice(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %c1 = stablehlo.constant dense<2.0> : tensor<4xf32>
    %d1 = stablehlo.multiply %x, %c1 : tensor<4xf32>
    %g = stablehlo.add %d1, %x : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c2 = stablehlo.constant dense<3.0> : tensor<4xf32>
    %d2 = stablehlo.multiply %x, %c2 : tensor<4xf32>
    %h = stablehlo.add %d2, %x : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}

// What is behind a barrier is to be done again.
// CHECK-LABEL:   func.func public @computed_again
// CHECK:           } do {
// CHECK-COUNT-1:     stablehlo.all_reduce
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           stablehlo.all_reduce
func.func public @computed_again(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %acc2 = %none) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %y = stablehlo.optimization_barrier %x : tensor<4xf32>
    %g = stablehlo.multiply %y, %y : tensor<4xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %z = stablehlo.optimization_barrier %x : tensor<4xf32>
    %h = stablehlo.multiply %z, %z : tensor<4xf32>
    %t = "stablehlo.all_reduce"(%h) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %tt = stablehlo.multiply %t, %t : tensor<4xf32>
    %m = stablehlo.add %acc2, %tt : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %m : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %w#1, %w#2 : tensor<4xf32>, tensor<4xf32>
}
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// The sum would be carried beside what is not reduced, and each put together from parts that XLA moves.
// Worth it when: duplicating ops costs less than the communication saved; 1,000 multiplications count as one byte
// CHECK-LABEL:   func.func public @joined_twice
// CHECK-NOT:       stablehlo.while({{.*}}, {{.*}}, {{.*}})
// CHECK:           } do {
// CHECK:             sdy.all_reduce
// CHECK:             return
// CHECK-NOT:         sdy.all_reduce
// REMARK-DAG: [defer-sync] sdy.all_reduce missed: 1024 bytes more are moved in the loop, to gather sharded values for duplicated ops
func.func public @joined_twice(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<64xf32>) -> tensor<128xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<128xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<128xf32> attributes {paropt.shardings = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"model"}]>]}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %xv = stablehlo.add %x, %xb : tensor<16x8xf32>
    %p = stablehlo.dot_general %xv, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<8x8xf32>
    %s = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<8x8xf32>
    %f = stablehlo.reshape %s {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<8x8xf32>) -> tensor<64xf32>
    %c = stablehlo.concatenate %f, %z, dim = 0 {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    %n = stablehlo.add %acc, %c {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : tensor<128xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<128xf32>
  }
  return %w#1 : tensor<128xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Here what is moved more, 4 times 1152 bytes, is less than what is sent less: twice 4 times 1024 bytes less 1152.
// CHECK-LABEL:   func.func public @joined_twice_for_more
// CHECK:           } do {
// CHECK-COUNT-2:     stablehlo.concatenate
// CHECK:             return
// CHECK:           sdy.all_reduce
func.func public @joined_twice_for_more(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %z: tensor<64xf32>) -> tensor<576xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<576xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<576xf32> attributes {paropt.shardings = [#sdy.sharding<@mesh, []>, #sdy.sharding<@mesh, [{"model"}]>]}
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
    %xv = stablehlo.add %x, %xb : tensor<16x64xf32>
    %p = stablehlo.dot_general %xv, %y, contracting_dims = [0] x [0] {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]} : (tensor<16x64xf32>, tensor<16x8xf32>) -> tensor<64x8xf32>
    %u = sdy.sharding_constraint %p <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {?}]>]} : tensor<64x8xf32>
    %s = sdy.all_reduce {"data"} %u out_sharding=<@mesh, [{?}, {?}]> : tensor<64x8xf32>
    %f = stablehlo.reshape %s {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<64x8xf32>) -> tensor<512xf32>
    %c = stablehlo.concatenate %f, %z, dim = 0 {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : (tensor<512xf32>, tensor<64xf32>) -> tensor<576xf32>
    %n = stablehlo.add %acc, %c {paropt.shardings = [#sdy.sharding<@mesh, [{"model"}]>]} : tensor<576xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<576xf32>
  }
  return %w#1 : tensor<576xf32>
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// 16,777,216 multiplications take as long as to send 16,777 bytes; 4 times 1024 bytes less 16 are sent twice less.
// CHECK-LABEL:   func.func public @multiplied_twice(
// CHECK:           } do {
// CHECK:             "stablehlo.all_reduce"
// CHECK:             stablehlo.dot_general
// CHECK-NOT:         stablehlo.dot_general
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK-NOT:       stablehlo.all_reduce
// REMARK-DAG: [defer-sync] stablehlo.all_reduce missed: 16777216 more multiplications run in the loop, in duplicated ops
func.func public @multiplied_twice(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %m = stablehlo.iota dim = 0 : tensor<64x16384xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %g = stablehlo.add %x, %ts : tensor<4x64xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %h = stablehlo.add %s, %y : tensor<4x64xf32>
    %c = stablehlo.dot_general %h, %m, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x16384xf32>) -> tensor<4x16384xf32>
    %o = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x16384xf32>, tensor<f32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %o : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// CHECK-LABEL:   func.func public @multiplied_twice_at_little_cost
// CHECK:           } do {
// CHECK-NOT:         stablehlo.all_reduce
// CHECK-COUNT-2:     stablehlo.dot_general
// CHECK:             stablehlo.return %{{.*}}, %
// CHECK:           "stablehlo.all_reduce"
func.func public @multiplied_twice_at_little_cost(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %m = stablehlo.iota dim = 0 : tensor<64x64xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %t = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
    %ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4x64xf32>
    %g = stablehlo.add %x, %ts : tensor<4x64xf32>
    %s = "stablehlo.all_reduce"(%g) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4x64xf32>) -> tensor<4x64xf32>
    %h = stablehlo.add %s, %y : tensor<4x64xf32>
    %c = stablehlo.dot_general %h, %m, contracting_dims = [1] x [0] : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
    %o = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [1] : (tensor<4x64xf32>, tensor<f32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %o : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}
}
