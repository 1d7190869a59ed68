// RUN: %par-opt %s --passes=annotate-aliases --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=annotate-aliases --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='annotate-aliases{donate=any}' --split-input-file | FileCheck %s --check-prefix=ANY
// RUN: %par-opt %s --passes='annotate-aliases{donate=state}' --split-input-file | FileCheck %s --check-prefix=STATE
// RUN: %par-opt %s --passes='annotate-aliases{donate=state}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=TOLD

// What JAX matched in the order of types is matched anew: each result with what it is the new value of.
// CHECK-LABEL: func.func public @new_values
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<4xf32>)
// REMARK: {{.*}}:[[#]]:{{.*}} remark: [annotate-aliases] func.func applied: argument 0 is overwritten by result 1, which saves 16 bytes per device
// REMARK: remark: [annotate-aliases] func.func applied: argument 1 is overwritten by result 0, which saves 16 bytes per device
func.func public @new_values(%w: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %g: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %decayed = stablehlo.multiply %m, %half : tensor<4xf32>
  %new_m = stablehlo.add %decayed, %g : tensor<4xf32>
  %new_w = stablehlo.subtract %w, %new_m : tensor<4xf32>
  return %new_m, %new_w : tensor<4xf32>, tensor<4xf32>
}

// One partition: nothing is left for XLA to choose. An argument that says `paropt.donated` is given away too.
// CHECK-LABEL: func.func public @donors
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {paropt.donated, tf.aliasing_output = 1 : i32}, %{{.*}}: tensor<2xi32> {tf.aliasing_output = 0 : i32})
func.func public @donors(%x: tensor<4xf32> {paropt.donated}, %n: tensor<2xi32> {jax.buffer_donor = true}) -> (tensor<2xi32>, tensor<4xf32>) {
  %y = stablehlo.negate %x : tensor<4xf32>
  %m = stablehlo.add %n, %n : tensor<2xi32>
  return %m, %y : tensor<2xi32>, tensor<4xf32>
}

// The accumulator that a loop carries is updated in place, from the argument to the result.
// CHECK-LABEL: func.func public @loop_carry
// CHECK-SAME:    %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<i32>)
func.func public @loop_carry(%x: tensor<4xf32>, %acc: tensor<4xf32> {jax.buffer_donor = true}, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %acc, %y = %x) : tensor<i32>, tensor<4xf32>, tensor<4xf32>
   cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %a, %y : tensor<4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next, %y : tensor<i32>, tensor<4xf32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}

// A branch and a barrier hand values through; of what is no new value of anything, the notes stay as they are.
// CHECK-LABEL: func.func public @handed_through
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {tf.aliasing_output = 2 : i32}, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32},
func.func public @handed_through(%x: tensor<4xf32> {jax.buffer_donor = true}, %y: tensor<4xf32> {jax.buffer_donor = true}, %z: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %b:2 = stablehlo.optimization_barrier %y, %x : tensor<4xf32>, tensor<4xf32>
  %v = "stablehlo.if"(%p) ({
    %t = stablehlo.negate %b#1 : tensor<4xf32>
    stablehlo.return %t : tensor<4xf32>
  }, {
    stablehlo.return %b#1 : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  %c = stablehlo.constant dense<1.0> : tensor<4xf32>
  return %c, %b#0, %v : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Legal when: its caller gives the argument away, or `donate` says so
// CHECK-LABEL: func.func public @not_given_away
// CHECK-SAME:    %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xf32>) ->
// REMARK: [annotate-aliases] func.func missed: argument 0 stays: it is not given away; result 0 could overwrite it and save 16 bytes per device
// REMARK-NOT: argument 1 stays
// ANY-LABEL: func.func public @not_given_away
// ANY-SAME:    %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<2xf32>) ->
func.func public @not_given_away(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<4xf32> {
  %r = stablehlo.negate %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// Legal when: the argument is an array of its own, no token, and no constant that calls share
// CHECK-LABEL: func.func public @shared_constant
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {jax.const = true, paropt.donated},
// CHECK-SAME:    %{{.*}}: !stablehlo.token {jax.token = true, paropt.donated})
// REMARK: argument 0 stays: it is no array of its own, but a token, or a constant that calls share
// REMARK: argument 1 stays: it is no array of its own, but a token, or a constant that calls share
// ANY-LABEL: func.func public @shared_constant
// ANY-SAME:    {jax.const = true, paropt.donated},
// NUMERIC: skip (the oracle has no tokens)
func.func public @shared_constant(%x: tensor<4xf32> {jax.const = true, paropt.donated}, %t: !stablehlo.token {jax.token = true, paropt.donated}) -> (tensor<4xf32>, !stablehlo.token) {
  %r = stablehlo.negate %x : tensor<4xf32>
  return %r, %t : tensor<4xf32>, !stablehlo.token
}

// Legal when: a result has its type
// CHECK-LABEL: func.func public @other_type
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {paropt.donated}, %{{.*}}: tensor<2xf32> {jax.buffer_donor = true})
// REMARK: argument 0 stays: no result has its type, tensor<4xf32>
// REMARK: argument 1 stays: no result has its type, tensor<2xf32>
func.func public @other_type(%x: tensor<4xf32> {paropt.donated}, %y: tensor<2xf32> {jax.buffer_donor = true}) -> (tensor<4xi32>, tensor<1x2xf32>) {
  %r = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi32>
  %s = stablehlo.reshape %y : (tensor<2xf32>) -> tensor<1x2xf32>
  return %r, %s : tensor<4xi32>, tensor<1x2xf32>
}

// Legal when: that result is in the same memory
// CHECK-LABEL: func.func public @other_memory
// CHECK-SAME:    {mhlo.memory_kind = "pinned_host", paropt.donated}
// CHECK-SAME:    {mhlo.memory_kind = "device", paropt.donated, tf.aliasing_output = 0 : i32}
// REMARK: argument 0 stays: result 0 is in other memory: device, and not pinned_host
// NUMERIC: skip (there is one memory)
func.func public @other_memory(%x: tensor<4xf32> {mhlo.memory_kind = "pinned_host", paropt.donated}, %y: tensor<4xf32> {mhlo.memory_kind = "device", paropt.donated}) -> (tensor<4xf32> {mhlo.memory_kind = "device"}) {
  %r = stablehlo.negate %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// Legal when: that result has the same layout
// CHECK-LABEL: func.func public @other_layout
// CHECK-SAME:    %{{.*}}: tensor<4x2xf32> {mhlo.layout_mode = "{0,1}", paropt.donated},
// CHECK-SAME:    %{{.*}}: tensor<2x4xf32> {mhlo.layout_mode = "{0,1}", paropt.donated, tf.aliasing_output = 1 : i32})
// REMARK: argument 0 stays: result 0 has another layout: the default, and not {0,1}
func.func public @other_layout(%x: tensor<4x2xf32> {mhlo.layout_mode = "{0,1}", paropt.donated}, %y: tensor<2x4xf32> {mhlo.layout_mode = "{0,1}", paropt.donated}) -> (tensor<4x2xf32>, tensor<2x4xf32> {mhlo.layout_mode = "{0,1}"}) {
  %r = stablehlo.negate %x : tensor<4x2xf32>
  %s = stablehlo.negate %y : tensor<2x4xf32>
  return %r, %s : tensor<4x2xf32>, tensor<2x4xf32>
}

// Legal when: no other argument is overwritten by that result
// CHECK-LABEL: func.func public @one_result_for_two
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {jax.buffer_donor = true}, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<4xf32> {jax.buffer_donor = true})
// REMARK: argument 0 stays: each result that could overwrite it overwrites another argument
// REMARK: argument 1 is overwritten by result 0
// REMARK: argument 2 stays: each result that could overwrite it overwrites another argument
func.func public @one_result_for_two(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32> {jax.buffer_donor = true}, %z: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<4xf32> {
  %a = stablehlo.add %x, %z : tensor<4xf32>
  %r = stablehlo.add %y, %a : tensor<4xf32>
  return %r : tensor<4xf32>
}

// Worth it when: nothing reads the argument after that result is computed (XLA would have to copy it)
// CHECK-LABEL: func.func public @read_later
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {paropt.donated}, %{{.*}}: tensor<4xf32>)
// REMARK: argument 0 stays: it is read after result 0 is computed (stablehlo.while at {{.*}})
// ANY-LABEL: func.func public @read_later
// ANY-SAME:    %{{.*}}: tensor<4xf32> {paropt.donated}, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32})
func.func public @read_later(%x: tensor<4xf32> {paropt.donated}, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<1xf32>) {
  %r = stablehlo.add %y, %y : tensor<4xf32>
  %n = stablehlo.negate %r : tensor<4xf32>
  %s = stablehlo.slice %n [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  %d = stablehlo.while(%i = %s) : tensor<1xf32>
   cond {
    %f = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %f : tensor<i1>
  } do {
    %t = stablehlo.slice %x [0:1] : (tensor<4xf32>) -> tensor<1xf32>
    stablehlo.return %t : tensor<1xf32>
  }
  return %r, %d : tensor<4xf32>, tensor<1xf32>
}

// What is read later, but does not need the result, can be computed before it.
// CHECK-LABEL: func.func public @read_before
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {paropt.donated, tf.aliasing_output = 0 : i32})
func.func public @read_before(%x: tensor<4xf32> {paropt.donated}) -> (tensor<4xf32>, tensor<1xf32>) {
  %r = stablehlo.add %x, %x : tensor<4xf32>
  %s = stablehlo.slice %x [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  return %r, %s : tensor<4xf32>, tensor<1xf32>
}

// An argument that is returned as it is stays where it is, however often it is returned.
// CHECK-LABEL: func.func public @returned
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32})
func.func public @returned(%x: tensor<4xf32> {jax.buffer_donor = true}, %y: tensor<4xf32> {jax.buffer_donor = true}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %r = stablehlo.negate %y : tensor<4xf32>
  return %r, %x, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func public @returned_elsewhere
// CHECK-SAME:    %{{.*}}: tensor<4x2xf32> {jax.buffer_donor = true}, %{{.*}}: tensor<4x2xf32>)
// REMARK: argument 0 stays: it is read after result 0 is computed (func.return at {{.*}})
func.func public @returned_elsewhere(%x: tensor<4x2xf32> {jax.buffer_donor = true}, %y: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32> {mhlo.layout_mode = "{0,1}"}) {
  %r = stablehlo.negate %y : tensor<4x2xf32>
  return %r, %x : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

sdy.mesh @mesh = <["x"=4, "y"=2]>
sdy.mesh @same = <["x"=4, "y"=2]>
sdy.mesh @other = <["x"=2, "z"=4]>
sdy.mesh @empty = <[]>
sdy.mesh @third_device = <[], device_ids=[3]>

// Where both shardings are known and alike, the pair is certain.
// CHECK-LABEL: func.func public @sharded_alike
// CHECK-SAME:    %{{.*}}: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, tf.aliasing_output = 0 : i32}
// REMARK: argument 0 is overwritten by result 0, which saves 32 bytes per device
func.func public @sharded_alike(%x: tensor<8x4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@same, [{"x"}, {}], replicated={"y"}>}) {
  %r = stablehlo.negate %x : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// What XLA has yet to choose is offered: a pair with other bytes on a device would not compile.
// CHECK-LABEL: func.func public @sharding_left_to_xla
// CHECK-SAME:    %{{.*}}: tensor<8x4xf32> {jax.buffer_donor = true, paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}
// CHECK-SAME:    %{{.*}}: tensor<4xf32> {jax.buffer_donor = true, paropt.donated}
// CHECK-SAME:    %{{.*}}: tensor<2x4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {?}]>}
// CHECK-SAME:    %{{.*}}: tensor<2x2xf32> {jax.buffer_donor = true, paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}
// REMARK: argument 0 is offered to XLA: result 0 may overwrite it, which saves 32 bytes per device
// REMARK: argument 1 is offered to XLA: result 1 may overwrite it, which saves at most 16 bytes per device
func.func public @sharding_left_to_xla(%x: tensor<8x4xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %y: tensor<4xf32> {paropt.donated}, %z: tensor<2x4xf32> {tf.aliasing_output = 2 : i32, sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {?}]>}, %w: tensor<2x2xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<2x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, tensor<2x2xf32> {sdy.sharding = #sdy.sharding<@other, [{"x"}, {}]>}) {
  %r = stablehlo.negate %x : tensor<8x4xf32>
  %s = stablehlo.negate %y : tensor<4xf32>
  %t = stablehlo.negate %z : tensor<2x4xf32>
  %u = stablehlo.negate %w : tensor<2x2xf32>
  return %r, %s, %t, %u : tensor<8x4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2x2xf32>
}

// What every device has as a whole is alike, on whatever mesh: jax gives scalars one without axes. One device is no mesh.
// CHECK-LABEL: func.func public @whole
// CHECK-SAME:    %{{[^:]*}}: tensor<2xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@empty, [{}]>, tf.aliasing_output = 0 : i32},
// CHECK-SAME:    %{{[^:]*}}: tensor<f32> {jax.buffer_donor = true, paropt.donated, sdy.sharding = #sdy.sharding<@third_device, []>})
// NUMERIC: skip (the oracle cuts no arrays for one device)
func.func public @whole(%x: tensor<2xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@empty, [{}]>}, %y: tensor<f32> {paropt.donated, sdy.sharding = #sdy.sharding<@third_device, []>}) -> (tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
  %r = stablehlo.negate %x : tensor<2xf32>
  %s = stablehlo.negate %y : tensor<f32>
  return %r, %s : tensor<2xf32>, tensor<f32>
}

// Legal when: that result is sharded alike, as far as the shardings are known
// CHECK-LABEL: func.func public @sharded_otherwise
// CHECK-SAME:    %{{.*}}: tensor<8x4xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
// CHECK-SAME:    %{{.*}}: tensor<4x4xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}]>})
// REMARK: argument 0 stays: result 0 is sharded otherwise: [{}, {y}], and not [{x}, {}]
// REMARK: argument 1 stays: result 1 is sharded otherwise: [{x:(2)2}, {}], and not [{x:(1)2}, {}]
func.func public @sharded_otherwise(%x: tensor<8x4xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %y: tensor<4x4xf32> {paropt.donated, sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}, tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(2)2}, {}]>}) {
  %r = stablehlo.negate %x : tensor<8x4xf32>
  %s = stablehlo.negate %y : tensor<4x4xf32>
  return %r, %s : tensor<8x4xf32>, tensor<4x4xf32>
}

// What JAX matched by the bytes on each device is right, and stays.
// CHECK-LABEL: func.func public @as_many_bytes
// CHECK-SAME:    tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<8x4xf32> {jax.buffer_donor = true, sdy.sharding
// REMARK: argument 1 stays: each result that could overwrite it overwrites another argument
func.func public @as_many_bytes(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>, tf.aliasing_output = 0 : i32}, %y: tensor<8x4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %r = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %s = stablehlo.add %r, %y : tensor<8x4xf32>
  return %s : tensor<8x4xf32>
}

// Values keep their places in a manual computation.
// CHECK-LABEL: func.func public @manual
// CHECK-SAME:    tf.aliasing_output = 1 : i32}, %{{.*}}: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>, tf.aliasing_output = 0 : i32}
func.func public @manual(%x: tensor<4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{}]>}, %y: tensor<4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}, tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
  %m:2 = sdy.manual_computation(%y, %x) in_shardings=[<@mesh, [{}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{}]>, <@mesh, [{}]>] manual_axes={"x", "y"} (%a: tensor<4xf32>, %b: tensor<4xf32>) {
    %r = stablehlo.negate %a : tensor<4xf32>
    %s = stablehlo.add %b, %r : tensor<4xf32>
    sdy.return %r, %s : tensor<4xf32>, tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %m#0, %m#1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// The arguments of a tree that comes back as it was are the state; the batch is not, whatever its type.
// STATE-LABEL: func.func public @state
// STATE-SAME:    %{{.*}}: tensor<4xf32> {tf.aliasing_output = 2 : i32}, %{{.*}}: tensor<i32> {tf.aliasing_output = 1 : i32}, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32> {tf.aliasing_output = 3 : i32})
// TOLD: argument 0 (state['w']) is overwritten by result 2 (result[0]['w']), which saves 16 bytes per device
// TOLD: argument 1 (state['n']) is overwritten by result 1 (result[0]['n'])
// TOLD: argument 2 (batch) stays: it is not given away; result 0 (result[1]) could overwrite it
// TOLD: argument 3 (lone) is overwritten by result 3 (result[2])
// CHECK-LABEL: func.func public @state
// CHECK-SAME:    %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<i32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
func.func public @state(%w: tensor<4xf32> loc("state['w']"), %n: tensor<i32> loc("state['n']"), %x: tensor<4xf32> loc("batch"), %l: tensor<4xf32> loc("lone")) -> (tensor<4xf32> {jax.result_info = "result[1]"}, tensor<i32> {jax.result_info = "result[0]['n']"}, tensor<4xf32> {jax.result_info = "result[0]['w']"}, tensor<4xf32> {jax.result_info = "result[2]"}) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %s = stablehlo.slice %x [0:1] : (tensor<4xf32>) -> tensor<1xf32>
  %loss = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
  %m = stablehlo.add %n, %one : tensor<i32>
  %v = stablehlo.subtract %w, %loss : tensor<4xf32>
  %o = stablehlo.multiply %l, %half : tensor<4xf32>
  return %loss, %m, %v, %o : tensor<4xf32>, tensor<i32>, tensor<4xf32>, tensor<4xf32>
}

// A tuple is taken apart: `carry[0]` comes back and `carry[1]` does not. Without a name, nothing is known.
// STATE-LABEL: func.func public @parts_of_a_tuple
// STATE-SAME:    %{{.*}}: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %{{.*}}: tensor<2xf32>, %{{.*}}: tensor<3xf32>)
func.func public @parts_of_a_tuple(%w: tensor<4xf32> loc("carry[0]['w']"), %x: tensor<2xf32> loc("carry[1]"), %y: tensor<3xf32>) -> (tensor<4xf32> {jax.result_info = "result['w']"}, tensor<3xf32> {jax.result_info = "result['y']"}) {
  %s = stablehlo.slice %x [0:1] : (tensor<2xf32>) -> tensor<1xf32>
  %d = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<1xf32>) -> tensor<4xf32>
  %v = stablehlo.subtract %w, %d : tensor<4xf32>
  %z = stablehlo.negate %y : tensor<3xf32>
  return %v, %z : tensor<4xf32>, tensor<3xf32>
}

// Where two arguments could be what comes back, neither is given away.
// STATE-LABEL: func.func public @doubtful
// STATE-SAME:    %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xf32> {tf.aliasing_output = 1 : i32})
func.func public @doubtful(%m: tensor<4xf32> loc("mean['w']"), %x: tensor<4xf32> loc("batch['w']"), %y: tensor<2xf32> loc("other")) -> (tensor<4xf32> {jax.result_info = "result[0]['w']"}, tensor<2xf32> {jax.result_info = "result[1]"}) {
  %half = stablehlo.constant dense<0.5> : tensor<4xf32>
  %decayed = stablehlo.multiply %m, %half : tensor<4xf32>
  %new = stablehlo.add %decayed, %x : tensor<4xf32>
  %z = stablehlo.negate %y : tensor<2xf32>
  return %new, %z : tensor<4xf32>, tensor<2xf32>
}

// A tree of which one array does not come back is no state.
// STATE-LABEL: func.func public @half_of_a_tree
// STATE-SAME:    %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<2xf32>)
func.func public @half_of_a_tree(%w: tensor<4xf32> loc("batch['x']"), %n: tensor<2xf32> loc("batch['y']")) -> (tensor<4xf32> {jax.result_info = "result['x']"}) {
  %v = stablehlo.negate %w : tensor<4xf32>
  return %v : tensor<4xf32>
}
