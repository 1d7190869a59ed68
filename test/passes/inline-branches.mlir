// RUN: %par-opt %s --passes=inline-branches --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=inline-branches --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// As JAX lowers `lax.cond(True, ...)`: what only the other branch reads is gone.
// CHECK-LABEL: func.func @always_second
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[C:.*]] = stablehlo.cosine %[[G]]
// CHECK-NEXT:    %[[Y:.*]] = stablehlo.add %[[X]], %[[C]]
// CHECK-NEXT:    return %[[Y]], %[[X]]
// REMARK: :[[#]]:{{.*}} remark: [inline-branches] stablehlo.case applied: it always takes branch 1 of 2
func.func @always_second(%x: tensor<4xf32>, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %p = stablehlo.convert %true : (tensor<i1>) -> tensor<i32>
  %s = stablehlo.sine %g : tensor<4xf32>
  %c = stablehlo.cosine %g : tensor<4xf32>
  %r:2 = "stablehlo.case"(%p) ({
    %y = stablehlo.add %x, %s : tensor<4xf32>
    stablehlo.return %y, %y : tensor<4xf32>, tensor<4xf32>
  }, {
    %y = stablehlo.add %x, %c : tensor<4xf32>
    stablehlo.return %y, %x : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A branch in a branch, an index past the last branch, and ifs that only a branch reads that is not taken: what these read goes, too.
// CHECK-LABEL: func.func @branches_in_branches
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Q:.*]]: tensor<i1>)
// CHECK-NEXT:    %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT:    return %[[T]]
// REMARK: [inline-branches] stablehlo.if applied: it always takes branch 1 of 2
// REMARK: [inline-branches] stablehlo.case applied: it always takes branch 1 of 2
// REMARK: [inline-branches] stablehlo.if applied: it always takes branch 0 of 2
func.func @branches_in_branches(%x: tensor<4xf32>, %q: tensor<i1>) -> tensor<4xf32> {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %true = stablehlo.not %false : tensor<i1>
  %nine = stablehlo.constant dense<9> : tensor<i32>
  %a = "stablehlo.if"(%false) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %b = stablehlo.exponential %x : tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %c = stablehlo.cosine %x : tensor<4xf32>
  %d = "stablehlo.if"(%q) ({
    stablehlo.return %c : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %r = "stablehlo.case"(%nine) ({
    %b = "stablehlo.if"(%q) ({
      stablehlo.return %a : tensor<4xf32>
    }, {
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }, {
    %b = "stablehlo.if"(%true) ({
      %t = stablehlo.tanh %x : tensor<4xf32>
      stablehlo.return %t : tensor<4xf32>
    }, {
      stablehlo.return %x : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @one_branch
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %{{.*}}: tensor<i32>)
// CHECK-NEXT:    %[[T:.*]] = stablehlo.tanh %[[X]]
// CHECK-NEXT:    return %[[T]]
// REMARK: [inline-branches] stablehlo.case applied: it always takes branch 0 of 1
func.func @one_branch(%x: tensor<4xf32>, %i: tensor<i32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%i) ({
    %t = stablehlo.tanh %x : tensor<4xf32>
    stablehlo.return %t : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// What else reads an operand keeps it; so does an effect.
// NUMERIC: skip (XLA has no such custom_call)
// REMARK: [inline-branches] stablehlo.if applied: it always takes branch 1 of 2
// CHECK-LABEL: func.func @others_read_it
// CHECK:         stablehlo.custom_call @tell
// CHECK-NOT:     stablehlo.cosine
// CHECK:         stablehlo.sine
// CHECK-NOT:     stablehlo.if
// CHECK:         return
func.func @others_read_it(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %c = stablehlo.cosine %x : tensor<4xf32>
  %t = stablehlo.custom_call @tell(%x) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.sine %x : tensor<4xf32>
  %r = "stablehlo.if"(%false) ({
    %a = stablehlo.add %s, %t : tensor<4xf32>
    %b = stablehlo.add %a, %c : tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// Metadata that only hints goes to the ops of the branch.
// CHECK-LABEL: func.func @hinted
// CHECK-NOT:     stablehlo.if
// CHECK:         stablehlo.add %{{.*}} {mhlo.frontend_attributes = {a = "op", b = "if"}}
// REMARK: [inline-branches] stablehlo.if applied: it always takes branch 0 of 2
func.func @hinted(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = "stablehlo.if"(%true) ({
    %y = stablehlo.add %x, %x {mhlo.frontend_attributes = {a = "op"}} : tensor<4xf32>
    stablehlo.return %y : tensor<4xf32>
  }, {
    stablehlo.return %x : tensor<4xf32>
  }) {mhlo.frontend_attributes = {a = "if", b = "if"}} : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Legal when: the index is computed from constants, without arithmetic that rounds; or there is one branch
// CHECK-LABEL: func.func @in_a_loop
// CHECK:         stablehlo.if
// CHECK:         stablehlo.if
// REMARK-NOT: always takes
func.func @in_a_loop(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %w:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %first = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %n = "stablehlo.if"(%first) ({
      stablehlo.return %x : tensor<4xf32>
    }, {
      %d = stablehlo.add %y, %y : tensor<4xf32>
      stablehlo.return %d : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4xf32>
  }
  %third = stablehlo.constant dense<0.333333343> : tensor<f32>
  %sum = stablehlo.add %third, %third : tensor<f32>
  %large = stablehlo.compare GT, %sum, %third : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %r = "stablehlo.if"(%large) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    stablehlo.return %w#1 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %r, %w#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Legal when: the op has no attributes of its own, but for metadata that only hints
// CHECK-LABEL: func.func @marked
// CHECK:         stablehlo.if
// REMARK: [inline-branches] stablehlo.if missed: it has attributes of its own: mhlo.note = unit
func.func @marked(%x: tensor<4xf32>) -> tensor<4xf32> {
  %true = stablehlo.constant dense<true> : tensor<i1>
  %r = "stablehlo.if"(%true) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    stablehlo.return %y : tensor<4xf32>
  }) {mhlo.note} : (tensor<i1>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// As JAX lowers `jnp.where(i == 1, ...)` in a loop that Python unrolls: what is not selected goes, and the result of the branch
// that only this reads.
// CHECK-LABEL: func.func @selected
// CHECK:         %[[R:.*]] = "stablehlo.if"(%{{.*}}) ({
// CHECK-NEXT:      stablehlo.return %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    }, {
// CHECK-NEXT:      %[[S:.*]] = stablehlo.sine
// CHECK-NEXT:      stablehlo.return %[[S]] : tensor<4xf32>
// CHECK-NEXT:    }) : (tensor<i1>) -> tensor<4xf32>
// CHECK-NEXT:    return %[[R]], %{{.*}} : tensor<4xf32>, tensor<4xf32>
// REMARK: [inline-branches] stablehlo.select applied: it always selects the second value
// REMARK: [inline-branches] stablehlo.select applied: it always selects the first value
// REMARK: [inline-branches] stablehlo.if applied: nothing reads 1 of its 2 results
func.func @selected(%x: tensor<4xf32>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %is_one = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %all = stablehlo.broadcast_in_dim %is_one, dims = [] : (tensor<i1>) -> tensor<4xi1>
  %r:2 = "stablehlo.if"(%p) ({
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    %c = stablehlo.cosine %x : tensor<4xf32>
    %s = stablehlo.sine %x : tensor<4xf32>
    stablehlo.return %c, %s : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  %t = stablehlo.select %all, %r#0, %r#1 : tensor<4xi1>, tensor<4xf32>
  %true = stablehlo.constant dense<true> : tensor<i1>
  %u = stablehlo.select %true, %x, %r#0 : tensor<i1>, tensor<4xf32>
  return %t, %u : tensor<4xf32>, tensor<4xf32>
}

// -----

// Of a chain, what the second if no longer returns, the first did for it. What nothing reads at all is XLA's to drop.
// CHECK-LABEL: func.func @read_by_what_nothing_reads
// CHECK:         "stablehlo.if"
// CHECK:         }) : (tensor<i1>) -> tensor<4xf32>
// CHECK:         "stablehlo.if"
// CHECK-NOT:       stablehlo.cosine
// CHECK:         }) : (tensor<i1>) -> tensor<4xf32>
// CHECK:         "stablehlo.if"
// CHECK:         }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @read_by_what_nothing_reads(%x: tensor<4xf32>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r:2 = "stablehlo.if"(%p) ({
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    %t = stablehlo.tanh %x : tensor<4xf32>
    stablehlo.return %t, %t : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  %s:2 = "stablehlo.if"(%p) ({
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    %c = stablehlo.cosine %r#1 : tensor<4xf32>
    stablehlo.return %x, %c : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  %u:2 = "stablehlo.if"(%p) ({
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %s#0 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Legal when: the predicate of a select is such a scalar
// CHECK-LABEL: func.func @selected_by_element
// CHECK-COUNT-2: stablehlo.select
func.func @selected_by_element(%x: tensor<4xf32>, %y: tensor<4xf32>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %some = stablehlo.constant dense<[true, false, true, false]> : tensor<4xi1>
  %r = stablehlo.select %some, %x, %y : tensor<4xi1>, tensor<4xf32>
  %s = stablehlo.select %p, %x, %y : tensor<i1>, tensor<4xf32>
  return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// What is said of the results of an if is said of all of them.
// CHECK-LABEL: func.func @unread_and_marked
// CHECK:         }) {mhlo.note} : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @unread_and_marked(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %r:2 = "stablehlo.if"(%p) ({
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    %t = stablehlo.tanh %x : tensor<4xf32>
    stablehlo.return %t, %t : tensor<4xf32>, tensor<4xf32>
  }) {mhlo.note} : (tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0 : tensor<4xf32>
}
