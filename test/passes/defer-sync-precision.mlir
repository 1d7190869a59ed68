// In which type sums are carried, and sent.
// RUN: %par-opt %s --passes=defer-sync{accumulate-dtype=f32} | FileCheck %s --check-prefix=WIDE
// RUN: %par-opt %s --passes=defer-sync{wire-dtype=bf16} | FileCheck %s --check-prefix=WIRE
// RUN: %par-opt %s --passes='defer-sync{accumulate-dtype=f32 wire-dtype=bf16 policy=defer}' | FileCheck %s --check-prefix=BOTH
// RUN: %par-opt %s --passes=defer-sync{accumulate-dtype=bf16} | FileCheck %s --check-prefix=NARROW

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// Carried and reduced in f32, then rounded once.
// WIDE-LABEL:   func.func public @half_accumulator
// WIDE:           %[[W:.*]]:2 = stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>
// WIDE:           } do {
// WIDE:           %[[G:.*]] = stablehlo.convert %arg0 : (tensor<4xbf16>) -> tensor<4xf32>
// WIDE-NEXT:      stablehlo.add %{{.*}}, %[[G]] : tensor<4xf32>
// WIDE:           %[[S:.*]] = "stablehlo.all_reduce"(%[[W]]#1)
// WIDE:           (tensor<4xf32>) -> tensor<4xf32>
// WIDE-NEXT:      %[[R:.*]] = stablehlo.convert %[[S]] : (tensor<4xf32>) -> tensor<4xbf16>
// WIDE-NEXT:      return %[[R]]
// WIRE-LABEL:   func.func public @half_accumulator
// WIRE-NOT:       stablehlo.convert
// WIRE:           return
// NARROW-LABEL:   func.func public @half_accumulator
// NARROW-NOT:     stablehlo.convert
// NARROW:         return
func.func public @half_accumulator(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
    %n = stablehlo.add %acc, %s : tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xbf16>
  }
  return %w#1 : tensor<4xbf16>
}

// The narrowing of each micro-batch is left out: what is carried holds it.
// WIDE-LABEL:   func.func public @half_accumulator_of_singles
// WIDE:           } do {
// WIDE-NOT:       stablehlo.all_reduce
// WIDE-NOT:       bf16
// WIDE:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// WIDE:           "stablehlo.all_reduce"(
// WIDE:           stablehlo.convert {{.*}} -> tensor<4xbf16>
// WIRE-LABEL:   func.func public @half_accumulator_of_singles
// WIRE:           } do {
// WIRE:           stablehlo.all_reduce
func.func public @half_accumulator_of_singles(%x: tensor<4xf32>) -> tensor<4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %c = stablehlo.convert %s : (tensor<4xf32>) -> tensor<4xbf16>
    %n = stablehlo.add %acc, %c : tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xbf16>
  }
  return %w#1 : tensor<4xbf16>
}

// The sum is kept in f32, and rounded once for the wire.
// WIDE-LABEL:   func.func public @single_accumulator
// WIDE-NOT:       stablehlo.convert
// WIDE:           return
// WIRE-LABEL:   func.func public @single_accumulator
// WIRE:           } do {
// WIRE-NOT:       bf16
// WIRE:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// WIRE:           %[[N:.*]] = stablehlo.convert %{{.*}}#1 : (tensor<4xf32>) -> tensor<4xbf16>
// WIRE-NEXT:      %[[S:.*]] = "stablehlo.all_reduce"(%[[N]])
// WIRE:           %[[R:.*]] = stablehlo.convert %[[S]] : (tensor<4xbf16>) -> tensor<4xf32>
// WIRE-NEXT:      %[[T:.*]] = stablehlo.add %arg1, %[[R]]
// WIRE-NEXT:      return %[[T]]
// NARROW-LABEL:   func.func public @single_accumulator
// NARROW-NOT:     bf16
// NARROW:         return
func.func public @single_accumulator(%x: tensor<4xf32>, %start: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
    %n = stablehlo.add %acc, %s : tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  return %w#1 : tensor<4xf32>
}

// Types are those of floats: integers stay as they are.
// WIDE-LABEL:   func.func public @integer_accumulator
// WIDE-NOT:       stablehlo.convert
// WIDE:           return
// WIRE-LABEL:   func.func public @integer_accumulator
// WIRE-NOT:       stablehlo.convert
// WIRE:           return
func.func public @integer_accumulator(%x: tensor<4xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<4xi32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xi32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<4xi32>) -> tensor<4xi32>
    %n = stablehlo.add %acc, %s : tensor<4xi32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xi32>
  }
  return %w#1 : tensor<4xi32>
}

// A decay, an update in place, and a start of its own.
// WIDE-LABEL:   func.func public @decaying_half
// WIDE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<4xbf16>
// WIDE:           } do {
// WIDE:           stablehlo.dynamic_update_slice {{.*}} : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
// WIDE:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
func.func public @decaying_half(%x: tensor<4xbf16>, %start: tensor<4xbf16>) -> tensor<4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
    %two = stablehlo.constant dense<2.0> : tensor<4xbf16>
    %half = stablehlo.constant dense<0.5> : tensor<4xbf16>
    %d = stablehlo.multiply %acc, %half : tensor<4xbf16>
    %e = stablehlo.multiply %two, %s : tensor<4xbf16>
    %m = stablehlo.reshape %d : (tensor<4xbf16>) -> tensor<2x2xbf16>
    %u = stablehlo.transpose %m, dims = [0, 1] : (tensor<2x2xbf16>) -> tensor<2x2xbf16>
    %v = stablehlo.reshape %u : (tensor<2x2xbf16>) -> tensor<4xbf16>
    %row = stablehlo.slice %s [0:2] : (tensor<4xbf16>) -> tensor<2xbf16>
    %o = stablehlo.dynamic_update_slice %v, %row, %i : (tensor<4xbf16>, tensor<2xbf16>, tensor<i32>) -> tensor<4xbf16>
    %n = stablehlo.subtract %o, %e : tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xbf16>
  }
  return %w#1 : tensor<4xbf16>
}

// A contraction works in the type that it is written in.
// WIDE-LABEL:   func.func public @half_times_a_matrix
// WIDE:           stablehlo.dot_general {{.*}} : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
func.func public @half_times_a_matrix(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2x2xbf16>
  %m = stablehlo.constant dense<[[1.0, 0.0], [0.0, -1.0]]> : tensor<2x2xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2x2xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<2x2xbf16>) -> tensor<2x2xbf16>
    %c = stablehlo.dot_general %acc, %m, contracting_dims = [1] x [0] : (tensor<2x2xbf16>, tensor<2x2xbf16>) -> tensor<2x2xbf16>
    %n = stablehlo.add %c, %s : tensor<2x2xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2x2xbf16>
  }
  return %w#1 : tensor<2x2xbf16>
}

// WIDE-LABEL:   func.func public @half_in_a_branch
// WIDE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<4xbf16>
func.func public @half_in_a_branch(%x: tensor<4xbf16>, %start: tensor<4xbf16>) -> tensor<4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
    %n = "stablehlo.case"(%i) ({
      stablehlo.return %s : tensor<4xbf16>
    }, {
      %a = stablehlo.add %acc, %s : tensor<4xbf16>
      stablehlo.return %a : tensor<4xbf16>
    }) : (tensor<i32>) -> tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xbf16>
  }
  return %w#1 : tensor<4xbf16>
}

// The sum of a micro-batch alone replaces what was there.
// WIDE-LABEL:   func.func public @half_of_another_sum
// WIDE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
func.func public @half_of_another_sum(%x: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xbf16>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %last = %none) : tensor<i32>, tensor<4xbf16>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %xi = stablehlo.convert %i : (tensor<i32>) -> tensor<bf16>
    %xb = stablehlo.broadcast_in_dim %xi, dims = [] : (tensor<bf16>) -> tensor<4xbf16>
    %xv = stablehlo.add %x, %xb : tensor<4xbf16>
    %s = "stablehlo.all_reduce"(%xv) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
    %n = stablehlo.add %acc, %s : tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %s : tensor<i32>, tensor<4xbf16>, tensor<4xbf16>
  }
  return %w#1, %w#2 : tensor<4xbf16>, tensor<4xbf16>
}

// BOTH-LABEL:   func.func public @half_shard
// BOTH:           stablehlo.while({{.*}}) : tensor<i32>, tensor<16xf32>
// BOTH:           "stablehlo.reduce_scatter"(
// BOTH:           (tensor<16xbf16>) -> tensor<2xbf16>
func.func public @half_shard(%x: tensor<16xbf16>) -> tensor<2xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<2xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<2xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = "stablehlo.reduce_scatter"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all, scatter_dimension = 0 : i64} : (tensor<16xbf16>) -> tensor<2xbf16>
    %half = stablehlo.constant dense<0.5> : tensor<2xbf16>
    %d = stablehlo.multiply %acc, %half : tensor<2xbf16>
    %n = stablehlo.add %d, %s : tensor<2xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<2xbf16>
  }
  return %w#1 : tensor<2xbf16>
}

// Out of two loops, in f32 all the way: one rounding for the wire, one to the program's type.
// WIDE-LABEL:   func.func public @half_in_two_loops
// WIDE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>
// WIDE:           stablehlo.while({{.*}}) : tensor<i32>, tensor<4xf32>
// WIDE-NOT:       -> tensor<4xbf16>
// WIDE:           "stablehlo.all_reduce"(
// WIDE:           -> tensor<4xbf16>
// WIDE-NEXT:      return
// BOTH-LABEL:   func.func public @half_in_two_loops
// BOTH:           } do {
// BOTH:           } do {
// BOTH-NOT:       -> tensor<4xbf16>
// BOTH:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// BOTH-NOT:       -> tensor<4xbf16>
// BOTH:           stablehlo.return %{{.*}}, %{{.*}} : tensor<i32>
// BOTH:           -> tensor<4xbf16>
// BOTH-NEXT:      "stablehlo.all_reduce"(
func.func public @half_in_two_loops(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4xbf16>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4xbf16>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %v:2 = stablehlo.while(%j = %zero, %sum = %none) : tensor<i32>, tensor<4xbf16>
    cond {
      %again = stablehlo.compare LT, %j, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %again : tensor<i1>
    } do {
      %s = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<bf16>, %q: tensor<bf16>): %r = stablehlo.add %p, %q : tensor<bf16> stablehlo.return %r : tensor<bf16> }) {replica_groups = #all} : (tensor<4xbf16>) -> tensor<4xbf16>
      %m = stablehlo.add %sum, %s : tensor<4xbf16>
      %j_next = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %j_next, %m : tensor<i32>, tensor<4xbf16>
    }
    %n = stablehlo.add %acc, %v#1 : tensor<4xbf16>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xbf16>
  }
  return %w#1 : tensor<4xbf16>
}

}
