// RUN: %par-opt %s --passes='inline-calls{max-ops=21}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='inline-calls{max-ops=21}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func public @calls_in_a_row
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[A:.*]] = stablehlo.add %[[X]], %[[X]]
// CHECK-NEXT:    %[[B:.*]] = stablehlo.add %[[A]], %[[A]]
// CHECK-NEXT:    return %[[B]], %[[A]]
// CHECK-NOT:   func.func
// REMARK: :[[#]]:{{.*}} remark: [inline-calls] func.call applied: inlined @twice
func.func public @calls_in_a_row(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = call @twice(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}
func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.add %x, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// The values returned may be arguments, in another order, or one value twice.
// CHECK-LABEL: func.func public @returns_its_arguments
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[Z:.*]] = stablehlo.subtract %[[Y]], %[[X]]
// CHECK-NEXT:    return %[[Z]], %[[X]]
func.func public @returns_its_arguments(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s:3 = call @swap(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %z = stablehlo.subtract %s#0, %s#1 : tensor<4xf32>
  return %z, %s#2 : tensor<4xf32>, tensor<4xf32>
}
func.func private @swap(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  return %y, %x, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func public @calls_in_called_functions
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:    %[[N:.*]] = stablehlo.negate %[[X]]
// CHECK-NEXT:    %[[A:.*]] = stablehlo.add %[[N]], %[[X]]
// CHECK-NEXT:    %[[M:.*]] = stablehlo.negate %[[A]]
// CHECK-NEXT:    return %[[M]]
// CHECK-NOT:   func.func
func.func public @calls_in_called_functions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %a = stablehlo.add %n, %x : tensor<4xf32>
  %m = call @inner(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.negate %x : tensor<4xf32>
  return %n : tensor<4xf32>
}

// -----

// A public function may be called as well; it stays.
// CHECK-LABEL: func.func public @calls_in_loops_and_branches
// CHECK:         stablehlo.while
// CHECK:         cond {
// CHECK:           stablehlo.compare LT
// CHECK:         do {
// CHECK:           "stablehlo.case"
// CHECK:             stablehlo.add
// CHECK:           "stablehlo.all_reduce"
// CHECK-NOT:   call @
// CHECK-LABEL: func.func public @is_less
func.func public @calls_in_loops_and_branches(%n: tensor<i32>, %b: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %acc = %x) : tensor<i32>, tensor<4xf32>
   cond {
    %c = func.call @is_less(%i, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %chosen = "stablehlo.case"(%b) ({
      %t = func.call @double(%acc) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %t : tensor<4xf32>
    }, {
      stablehlo.return %acc : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %s = func.call @sum_over_devices(%chosen) : (tensor<4xf32>) -> tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}
func.func public @is_less(%i: tensor<i32>, %n: tensor<i32>) -> tensor<i1> {
  %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %c : tensor<i1>
}
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.add %x, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @sum_over_devices(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// -----

module attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL: func.func public @call_in_a_manual_computation
// CHECK-NOT:   call @
// CHECK:         sdy.manual_computation
// CHECK-NEXT:      stablehlo.multiply
// CHECK-NEXT:      "stablehlo.all_reduce"
// CHECK-NOT:   func.func
func.func public @call_in_a_manual_computation(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<1x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"data"} (%local: tensor<1x4xf32>) {
    %s = func.call @sum_of_squares(%local) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    sdy.return %s : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
func.func private @sum_of_squares(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %m = stablehlo.multiply %x, %x : tensor<1x4xf32>
  %s = "stablehlo.all_reduce"(%m) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %s : tensor<1x4xf32>
}
}

// -----

module attributes {mhlo.num_partitions = 8 : i32} {
sdy.mesh @mesh = <["data"=8]>

// CHECK-LABEL: func.func public @sharding_of_a_result
// CHECK-NEXT:    %[[S:.*]] = stablehlo.sine
// CHECK-NEXT:    %[[C:.*]] = sdy.sharding_constraint %[[S]] <@mesh, [{"data"}, {}]>
// CHECK-NEXT:    stablehlo.add %[[C]], %[[S]]
func.func public @sharding_of_a_result(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0:2 = call @exported(%x) : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)
  %1 = stablehlo.add %0#0, %0#1 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
func.func private @exported(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>, tf.aliasing_output = 0 : i32}) -> (tensor<8x4xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<8x4xf32>) {
  %s = stablehlo.sine %x : tensor<8x4xf32>
  return %s, %s : tensor<8x4xf32>, tensor<8x4xf32>
}
}

// -----

// What nothing reaches is erased, in circles too; what an attribute refers to stays, and is inlined into.
// CHECK-LABEL: func.func public @unused_functions
// CHECK-NEXT:    stablehlo.composite "test.square" %{{.*}} {decomposition = @square}
// CHECK-NOT:   @island
// CHECK:       func.func private @square
// CHECK-NEXT:    stablehlo.multiply
// CHECK-NEXT:    return
// CHECK-NOT:   func.func
// REMARK-NOT:  @island
func.func public @unused_functions(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.composite "test.square" %x {decomposition = @square} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @island(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @island_too(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @island_too(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @island(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @product(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @product(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Legal when: the function has a body
// NUMERIC: skip (XLA compiles no function without a body)
// CHECK-LABEL: func.func public @declaration
// CHECK-NEXT:    call @elsewhere
// CHECK:       func.func private @elsewhere
// REMARK: [inline-calls] func.call missed: the function has no body (func.func at {{.*}})
func.func public @declaration(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>

// -----

// Legal when: the function has one block
// NUMERIC: skip (XLA compiles no function of several blocks)
// CHECK-LABEL: func.func public @several_blocks
// CHECK-NEXT:    call @branching
// CHECK:       func.func private @branching
// REMARK: [inline-calls] func.call missed: the function has several blocks (func.func at {{.*}})
func.func public @several_blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @branching(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @branching(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^next(%x : tensor<4xf32>)
^next(%y: tensor<4xf32>):
  return %y : tensor<4xf32>
}

// -----

// Legal when: the function does not call itself, directly or through others
// NUMERIC: skip (XLA compiles no recursion)
// CHECK-LABEL: func.func public @recursion
// CHECK-NEXT:    call @itself
// CHECK-NEXT:    call @first
// CHECK-NEXT:    stablehlo.add
// CHECK-NEXT:    call @first
// CHECK-NEXT:    return
// CHECK:       func.func private @itself
// CHECK-NEXT:    stablehlo.negate
// CHECK-NEXT:    call @itself
// CHECK:       func.func private @first
// CHECK-NEXT:    call @second
// CHECK:       func.func private @second
// CHECK-NEXT:    call @first
// CHECK-NOT:   func.func
// REMARK-DAG: [inline-calls] func.call missed: the function calls itself, directly or through others (func.func at {{.*}})
// REMARK-DAG: [inline-calls] func.call applied: inlined @enters_a_circle
// REMARK-DAG: [inline-calls] func.call applied: inlined @minus
func.func public @recursion(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @itself(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @first(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @enters_a_circle(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @itself(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @minus(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @itself(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @minus(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @second(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @second(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @enters_a_circle(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = call @first(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Legal when: neither the call nor the function is marked no_inline
// CHECK-LABEL: func.func public @marked_no_inline
// CHECK-NEXT:    call @open(
// CHECK-NEXT:    call @closed(
// CHECK-NEXT:    stablehlo.add
// REMARK-DAG: [inline-calls] func.call missed: the call is marked no_inline
// REMARK-DAG: [inline-calls] func.call missed: the function is marked no_inline (func.func at {{.*}})
// REMARK-DAG: [inline-calls] func.call applied: inlined @open
func.func public @marked_no_inline(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "func.call"(%x) <{callee = @open, no_inline}> : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @closed(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @open(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @open(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @closed(%x: tensor<4xf32>) -> tensor<4xf32> attributes {no_inline} {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Legal when: no metadata binds the call: to a place, to a schedule, or to stay a call
// CHECK-LABEL: func.func public @runs_elsewhere
// CHECK-NEXT:    call @on_the_host(%{{.*}}) {mhlo.frontend_attributes = {_xla_compute_type = "host"}}
// CHECK:       func.func private @on_the_host
// REMARK: [inline-calls] func.call missed: the call is a unit by its metadata: _xla_compute_type = "host"
func.func public @runs_elsewhere(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @on_the_host(%x) {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @on_the_host(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Each key that makes a unit of a call does so alone; `inlineable` says what it says.
// CHECK-LABEL: func.func public @units
// CHECK-COUNT-8: call @negated
// CHECK-NOT:     call @negated
// CHECK:         stablehlo.negate %{{.*}} : tensor<4xf32>
// CHECK-NEXT:    return
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: inlineable = "false"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: _xla_stream_annotation = "1"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: _scheduling_group_id = "3"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: scheduling_group = "late"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: MUST_FUSE = "7"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: backend_config = "{}"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: compilation_unit = "a"
// REMARK-DAG: [inline-calls] func.call missed: the call is a unit by its metadata: xla.sdy.sharding = "none"
func.func public @units(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @negated(%x) {mhlo.frontend_attributes = {inlineable = "false", hint = "a"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @negated(%0) {mhlo.frontend_attributes = {_xla_stream_annotation = "1"}} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @negated(%1) {mhlo.frontend_attributes = {_scheduling_group_id = "3"}} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = call @negated(%2) {mhlo.frontend_attributes = {scheduling_group = "late"}} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = call @negated(%3) {mhlo.frontend_attributes = {MUST_FUSE = "7"}} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = call @negated(%4) {mhlo.frontend_attributes = {backend_config = "{}"}} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = call @negated(%5) {mhlo.frontend_attributes = {compilation_unit = "a"}} : (tensor<4xf32>) -> tensor<4xf32>
  %7 = call @negated(%6) {mhlo.frontend_attributes = {xla.sdy.sharding = "none"}} : (tensor<4xf32>) -> tensor<4xf32>
  %8 = call @negated(%7) {mhlo.frontend_attributes = {inlineable = "true"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %8 : tensor<4xf32>
}
func.func private @negated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Metadata that hints goes to the ops of the body, and to calls there that stay; what an op says itself counts. Other
// callers of the function, constants and the regions of ops are left alone.
// CHECK-LABEL: func.func public @hints
// CHECK-NEXT:    %[[C:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    stablehlo.add %{{.*}}, %[[C]] {mhlo.frontend_attributes = {a = "call", b = "call"}}
// CHECK-NEXT:    stablehlo.negate %{{.*}} {mhlo.frontend_attributes = {a = "op", b = "call"}}
// CHECK-NEXT:    call @stays(%{{.*}}) {mhlo.frontend_attributes = {_xla_compute_type = "host", a = "call", b = "call"}}
// CHECK:         stablehlo.add %{{[^{]*}} : tensor<4xf32>
// CHECK-NEXT:    stablehlo.negate %{{.*}} {mhlo.frontend_attributes = {a = "op"}}
// CHECK-NEXT:    call @stays(%{{.*}}) {mhlo.frontend_attributes = {_xla_compute_type = "host"}}
func.func public @hints(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @body(%x) {mhlo.frontend_attributes = {a = "call", b = "call"}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @body(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @body(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<4xf32>
  %0 = call @adds(%x, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.negate %0 {mhlo.frontend_attributes = {a = "op"}} : tensor<4xf32>
  %2 = call @stays(%1) {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
func.func private @adds(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @stays(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Legal when: the call has no other attributes than metadata
// CHECK-LABEL: func.func public @attributes_of_the_call
// CHECK-NEXT:    call @sharded
// REMARK: [inline-calls] func.call missed: the call has attributes of its own: mhlo.sharding = "{replicated}"
func.func public @attributes_of_the_call(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @sharded(%x) {mhlo.frontend_attributes = {a = "b"}, mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sharded(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Legal when: the function has no attributes of its own
// CHECK-LABEL: func.func public @attributes_of_the_function
// CHECK-NEXT:    call @on_a_thread
// REMARK: [inline-calls] func.call missed: the function has attributes of its own: execution_thread = "thread" (func.func at {{.*}})
func.func public @attributes_of_the_function(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @on_a_thread(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @on_a_thread(%x: tensor<4xf32>) -> tensor<4xf32> attributes {execution_thread = "thread"} {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Legal when: the arguments and results have no other attributes than JAX's annotations of the program's entry
// CHECK-LABEL: func.func public @attributes_of_values
// CHECK-NEXT:    call @sharded_argument
// CHECK-NEXT:    call @sharded_result
// REMARK-COUNT-2: [inline-calls] func.call missed: an argument or result has attributes of its own: mhlo.sharding = "{replicated}" (func.func at {{.*}})
func.func public @attributes_of_values(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @sharded_argument(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @sharded_result(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @sharded_argument(%x: tensor<4xf32> {mhlo.sharding = "{replicated}"}) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @sharded_result(%x: tensor<4xf32>) -> (tensor<4xf32> {mhlo.sharding = "{replicated}"}) {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Worth it when: the function around the call stays within max-ops ops (each level of calls may double a program)
// CHECK-LABEL:    func.func public @too_many_ops
// CHECK-COUNT-10: stablehlo.add
// CHECK-NEXT:     call @ten_adds
// CHECK-NEXT:     stablehlo.negate
// CHECK-NEXT:     return
// REMARK: [inline-calls] func.call missed: the function around it would grow to 22 ops, past max-ops
func.func public @too_many_ops(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = call @ten_adds(%x) : (tensor<4xi32>) -> tensor<4xi32>
  %b = call @ten_adds(%a) : (tensor<4xi32>) -> tensor<4xi32>
  %c = call @minus(%b) : (tensor<4xi32>) -> tensor<4xi32>
  return %c : tensor<4xi32>
}
func.func private @minus(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.negate %x : tensor<4xi32>
  return %0 : tensor<4xi32>
}
func.func private @ten_adds(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = stablehlo.add %x, %x : tensor<4xi32>
  %1 = stablehlo.add %0, %x : tensor<4xi32>
  %2 = stablehlo.add %1, %x : tensor<4xi32>
  %3 = stablehlo.add %2, %x : tensor<4xi32>
  %4 = stablehlo.add %3, %x : tensor<4xi32>
  %5 = stablehlo.add %4, %x : tensor<4xi32>
  %6 = stablehlo.add %5, %x : tensor<4xi32>
  %7 = stablehlo.add %6, %x : tensor<4xi32>
  %8 = stablehlo.add %7, %x : tensor<4xi32>
  %9 = stablehlo.add %8, %x : tensor<4xi32>
  return %9 : tensor<4xi32>
}

// -----

// Reshapes that the borders of a call kept apart are not joined by XLA before it splits values.
// CHECK-LABEL: func.func public @reshapes_at_both_borders
// CHECK:         %[[A:.*]] = stablehlo.reshape
// CHECK-NEXT:    %[[B:.*]] = sdy.sharding_constraint %[[A]] <@mesh, [{?}, {?}]> : tensor<4x2xf32>
// CHECK-NEXT:    %[[C:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [1, 2]
// CHECK-NEXT:    %[[D:.*]] = sdy.sharding_constraint %[[C]] <@mesh, [{?}, {?}, {?}]> : tensor<1x4x2xf32>
// CHECK-NEXT:    stablehlo.reshape %[[D]]
// CHECK-NOT:     paropt.
sdy.mesh @mesh = <["data"=2]>
func.func public @reshapes_at_both_borders(%x: tensor<1x4x2xf32>) -> tensor<8xf32> {
  %a = stablehlo.reshape %x : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
  %c = call @unsqueeze(%a) : (tensor<4x2xf32>) -> tensor<1x4x2xf32>
  %r = stablehlo.reshape %c : (tensor<1x4x2xf32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
func.func private @unsqueeze(%x: tensor<4x2xf32>) -> tensor<1x4x2xf32> {
  %r = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4x2xf32>) -> tensor<1x4x2xf32>
  return %r : tensor<1x4x2xf32>
}

// -----

// Only reshapes are joined, and not those of one element; a reshape that no reshape reads stays next to what reads it.
// CHECK-LABEL: func.func public @no_reshape_across
// CHECK-NOT:     sharding_constraint
sdy.mesh @mesh = <["data"=2]>
func.func public @no_reshape_across(%x: tensor<1x4x2xf32>, %s: tensor<1xf32>) -> (tensor<3x4x2xf32>, tensor<1x1xf32>, tensor<8xf32>, tensor<8xf32>) {
  %a = stablehlo.reshape %x : (tensor<1x4x2xf32>) -> tensor<4x2xf32>
  %t = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>
  %c:4 = call @repeat(%a, %t, %x) : (tensor<4x2xf32>, tensor<f32>, tensor<1x4x2xf32>) -> (tensor<3x4x2xf32>, tensor<1x1xf32>, tensor<1x4x2xf32>, tensor<8xf32>)
  %r = stablehlo.reshape %c#2 : (tensor<1x4x2xf32>) -> tensor<8xf32>
  return %c#0, %c#1, %r, %c#3 : tensor<3x4x2xf32>, tensor<1x1xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @repeat(%x: tensor<4x2xf32>, %t: tensor<f32>, %y: tensor<1x4x2xf32>) -> (tensor<3x4x2xf32>, tensor<1x1xf32>, tensor<1x4x2xf32>, tensor<8xf32>) {
  %r = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4x2xf32>) -> tensor<3x4x2xf32>
  %u = stablehlo.reshape %t : (tensor<f32>) -> tensor<1x1xf32>
  %n = stablehlo.negate %y : tensor<1x4x2xf32>
  %f = stablehlo.reshape %y : (tensor<1x4x2xf32>) -> tensor<8xf32>
  return %r, %u, %n, %f : tensor<3x4x2xf32>, tensor<1x1xf32>, tensor<1x4x2xf32>, tensor<8xf32>
}

// -----

// Nobody knows over which of several meshes a value is split.
// CHECK-LABEL: func.func public @several_meshes
// CHECK-NOT:     sharding_constraint
sdy.mesh @mesh = <["data"=2]>
sdy.mesh @other = <["model"=2]>
func.func public @several_meshes(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %a = stablehlo.reshape %x : (tensor<1x4xf32>) -> tensor<4xf32>
  %c = call @back(%a) : (tensor<4xf32>) -> tensor<1x4xf32>
  return %c : tensor<1x4xf32>
}
func.func private @back(%x: tensor<4xf32>) -> tensor<1x4xf32> {
  %r = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}

// -----

// What each device does for itself is not split.
// CHECK-LABEL: func.func public @in_a_manual_computation
// CHECK-NOT:     sharding_constraint
sdy.mesh @mesh = <["data"=8]>
func.func public @in_a_manual_computation(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data"} (%y: tensor<1x4xf32>) {
    %c = func.call @there_and_back(%y) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    sdy.return %c : tensor<1x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %m : tensor<8x4xf32>
}
func.func private @there_and_back(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %a = stablehlo.reshape %x : (tensor<1x4xf32>) -> tensor<4xf32>
  %c = func.call @back(%a) : (tensor<4xf32>) -> tensor<1x4xf32>
  return %c : tensor<1x4xf32>
}
func.func private @back(%x: tensor<4xf32>) -> tensor<1x4xf32> {
  %r = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<1x4xf32>
  return %r : tensor<1x4xf32>
}
