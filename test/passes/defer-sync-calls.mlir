// Programs that are called once per micro-batch: which arguments come back with reduced sums added.
// RUN: %par-opt %s --passes=defer-sync --remarks 2>&1 >/dev/null | FileCheck %s

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>

module attributes {mhlo.num_replicas = 8 : i32} {

// CHECK: calls.mlir:11:8: remark: [defer-sync] stablehlo.all_reduce missed: an argument comes in reduced and goes out reduced, with sums over devices added: 16 bytes in each call. Where an update follows several calls, paropt.accumulate(compute_grad=..., apply_grad=..., microbatches=...) reduces once per update
func.func public @added(%acc: tensor<4xf32>, %w: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %f = stablehlo.multiply %x, %w : tensor<4xf32>
  %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %a = stablehlo.add %acc, %g : tensor<4xf32>
  return %w, %a : tensor<4xf32>, tensor<4xf32>
}

// Parameters, which the gradient is computed from.
func.func public @parameters(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %f = stablehlo.multiply %x, %w : tensor<4xf32>
  %g = "stablehlo.all_reduce"(%f) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %a = stablehlo.subtract %w, %g : tensor<4xf32>
  return %a : tensor<4xf32>
}

// A running mean decays.
func.func public @decays(%mean: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %less = stablehlo.subtract %g, %mean : tensor<4xf32>
  %part = stablehlo.multiply %half, %less : tensor<4xf32>
  %a = stablehlo.add %mean, %part : tensor<4xf32>
  return %a : tensor<4xf32>
}

// A momentum decays, and each call needs it.
func.func public @momentum(%w: tensor<4xf32>, %m: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %less = stablehlo.multiply %half, %m : tensor<4xf32>
  %a = stablehlo.add %less, %g : tensor<4xf32>
  %step = stablehlo.sign %a : tensor<4xf32>
  %new = stablehlo.subtract %w, %step : tensor<4xf32>
  return %new, %a : tensor<4xf32>, tensor<4xf32>
}

// Each call needs the sum.
func.func public @read_in_each_call(%acc: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %a = stablehlo.add %acc, %g : tensor<4xf32>
  %sign = stablehlo.sign %a : tensor<4xf32>
  return %a, %sign : tensor<4xf32>, tensor<4xf32>
}

// An update under a mask needs it in some calls only: optax.MultiSteps, with a mean by Welford and a new start.
// CHECK-NEXT: calls.mlir:62:8: remark: [defer-sync] stablehlo.all_reduce missed: an argument comes in reduced and goes out reduced
// CHECK-NOT: comes in reduced
func.func public @masked(%w: tensor<4xf32>, %acc: tensor<4xf32>, %x: tensor<4xf32>, %c: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %last_of = "stablehlo.all_reduce"(%c) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.maximum %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {replica_groups = #all} : (tensor<i32>) -> tensor<i32>
  %n = stablehlo.convert %last_of : (tensor<i32>) -> tensor<f32>
  %ns = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %g = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = #all} : (tensor<4xf32>) -> tensor<4xf32>
  %less = stablehlo.subtract %g, %acc : tensor<4xf32>
  %part = stablehlo.multiply %ns, %less : tensor<4xf32>
  %a = stablehlo.add %acc, %part : tensor<4xf32>
  %last = stablehlo.compare EQ, %last_of, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %step = stablehlo.sign %a : tensor<4xf32>
  %f = stablehlo.convert %last : (tensor<i1>) -> tensor<f32>
  %fs = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %u = stablehlo.multiply %fs, %step : tensor<4xf32>
  %w2 = stablehlo.add %w, %u : tensor<4xf32>
  %b = stablehlo.convert %last : (tensor<i1>) -> tensor<i32>
  %o = stablehlo.subtract %one, %b : tensor<i32>
  %of = stablehlo.convert %o : (tensor<i32>) -> tensor<f32>
  %ofs = stablehlo.broadcast_in_dim %of, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %acc2 = stablehlo.multiply %ofs, %a : tensor<4xf32>
  return %w2, %acc2 : tensor<4xf32>, tensor<4xf32>
}

}
