// RUN: %par-opt %s --passes='annotate-shardings{preset=zero1}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='annotate-shardings{preset=zero1}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: %par-opt %s --passes='annotate-shardings{preset=fsdp}' --split-input-file | FileCheck %s --check-prefix=FSDP
// RUN: %par-opt %s -p 'annotate-shardings{rules=%S/Inputs/rules.toml}' --split-input-file | FileCheck %s --check-prefix=RULES
// RUN: %par-opt %s -p 'annotate-shardings{rules=%S/Inputs/rules.toml}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=TOLD
// RUN: not %par-opt %s -p 'annotate-shardings{rules=%S/Inputs/unknown-axis.toml}' --split-input-file 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not %par-opt %s -p 'annotate-shardings{rules=no-such.toml}' --split-input-file 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not %par-opt %s -p 'annotate-shardings{preset=fspd}' --split-input-file 2>&1 | FileCheck %s --check-prefix=PRESET
// RUN: not %par-opt %s -p 'annotate-shardings{preset=moe}' --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not %par-opt %s -p annotate-shardings --split-input-file 2>&1 | FileCheck %s --check-prefix=NEEDS

// UNKNOWN: par-opt: error: annotate-shardings: {{.*}}unknown-axis.toml, rule 1: the mesh has no axis `dta`; did you mean `data`?
// MISSING: par-opt: error: annotate-shardings: cannot read 'no-such.toml': No such file or directory
// PRESET: par-opt: error: annotate-shardings: no preset called `fspd`; did you mean `fsdp`?
// NONE: par-opt: error: annotate-shardings: preset moe, rule 1: the mesh has no axis `expert`; there are data
// NEEDS: par-opt: error: annotate-shardings needs rules or a preset: annotate-shardings{rules=FILE} or annotate-shardings{preset=fsdp}

sdy.mesh @mesh = <["data"=8]>

// Roles: a parameter has a gradient, a momentum has none, and what does not come back is the batch, a micro-batch a trip.
// CHECK-LABEL: func.func public @roles
// CHECK-SAME:    %{{[^:]*}}: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
// CHECK-SAME:    %{{[^:]*}}: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// CHECK-SAME:    %{{[^:]*}}: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}
// CHECK-SAME:    -> (tensor<16x8xf32> {jax.result_info = "result[0]['m']", sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<16x8xf32> {jax.result_info = "result[0]['w']", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
// CHECK:         sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK:         stablehlo.while
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{}, {}]>
// CHECK:         sdy.propagation_barrier %{{.*}} allowed_direction=FORWARD
// REMARK: argument 0 (state['w']) is sharded [{}, {}] by preset zero1, rule 2
// REMARK: argument 1 (state['m']) is sharded [{data}, {}] by preset zero1, rule 4
// REMARK: argument 2 (batch) is sharded [{}, {data}] by preset zero1, rule 1
// REMARK: stablehlo.while applied: the gradient of argument 0 (state['w']) is sharded [{}, {}] by preset zero1, rule 3
// FSDP-LABEL: func.func public @roles
// FSDP-SAME:    %{{[^:]*}}: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// FSDP-SAME:    %{{[^:]*}}: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// FSDP:         sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}, {}]>
// FSDP-LABEL: func.func public @gradient_sharded_otherwise
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @roles(%w: tensor<16x8xf32> loc("state['w']"), %m: tensor<16x8xf32> loc("state['m']"), %x: tensor<4x16xf32> loc("batch")) -> (tensor<16x8xf32> {jax.result_info = "result[0]['m']"}, tensor<16x8xf32> {jax.result_info = "result[0]['w']"}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %r:3 = stablehlo.while(%i = %c0, %sum = %zero, %b = %x) : tensor<i32>, tensor<16x8xf32>, tensor<4x16xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %row = stablehlo.dynamic_slice %b, %i, %c0, sizes = [1, 16] : (tensor<4x16xf32>, tensor<i32>, tensor<i32>) -> tensor<1x16xf32>
    %y = stablehlo.dot_general %row, %w, contracting_dims = [1] x [0] : (tensor<1x16xf32>, tensor<16x8xf32>) -> tensor<1x8xf32>
    %g = stablehlo.dot_general %row, %y, contracting_dims = [0] x [0] : (tensor<1x16xf32>, tensor<1x8xf32>) -> tensor<16x8xf32>
    %next = stablehlo.add %sum, %g : tensor<16x8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %next, %b : tensor<i32>, tensor<16x8xf32>, tensor<4x16xf32>
  }
  %new_m = stablehlo.add %m, %r#1 : tensor<16x8xf32>
  %new_w = stablehlo.subtract %w, %new_m : tensor<16x8xf32>
  return %new_m, %new_w : tensor<16x8xf32>, tensor<16x8xf32>
}

// What is said of a gradient already stays.
// CHECK-LABEL: func.func public @gradient_sharded_otherwise
// CHECK-COUNT-1: sdy.sharding_constraint %{{.*}} <@mesh, [{"data"}]>
// CHECK-NOT:     sdy.sharding_constraint
// CHECK-LABEL: func.func public @no_loop
// REMARK: stablehlo.while missed: the gradient of argument 0 (state['w']) is sharded [{data}] already, and preset zero1, rule 3 says [{}]
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @gradient_sharded_otherwise(%w: tensor<8xf32> loc("state['w']")) -> (tensor<8xf32> {jax.result_info = "result['w']"}) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c4 = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
  %r:2 = stablehlo.while(%i = %c0, %sum = %zero) : tensor<i32>, tensor<8xf32>
   cond {
    %p = stablehlo.compare LT, %i, %c4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %next = stablehlo.add %sum, %w : tensor<8xf32>
    %there = sdy.sharding_constraint %next <@mesh, [{"data"}]> : tensor<8xf32>
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %there : tensor<i32>, tensor<8xf32>
  }
  %new = stablehlo.subtract %w, %r#1 : tensor<8xf32>
  return %new : tensor<8xf32>
}

// Without a loop, a parameter is state that the loss depends on. The first dimension counts examples.
// CHECK-SAME:    %{{[^:]*}}: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}
// CHECK-SAME:    %{{[^:]*}}: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// CHECK-SAME:    %{{[^:]*}}: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @no_loop(%w: tensor<16x8xf32> loc("state['w']"), %m: tensor<16x8xf32> loc("state['m']"), %x: tensor<8x16xf32> loc("batch")) -> (tensor<16x8xf32> {jax.result_info = "result[0]['m']"}, tensor<16x8xf32> {jax.result_info = "result[0]['w']"}, tensor<8x8xf32> {jax.result_info = "result[1]"}) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<8x16xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %new_m = stablehlo.add %m, %g : tensor<16x8xf32>
  %new_w = stablehlo.subtract %w, %new_m : tensor<16x8xf32>
  return %new_m, %new_w, %y : tensor<16x8xf32>, tensor<16x8xf32>, tensor<8x8xf32>
}

// Rules on names: a glob is about the end of a path, `**` about any number of its parts. The first rule counts; small
// arrays are left out by their size.
// RULES-LABEL: func.func public @names
// RULES-SAME:    %{{[^:]*}}: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}
// RULES-SAME:    %{{[^:]*}}: tensor<4x8xf32>,
// RULES-SAME:    %{{[^:]*}}: tensor<2x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}
// RULES-SAME:    %{{[^:]*}}: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}]>})
// TOLD: argument 0 (state.params['layers'][0]['kernel']) is sharded [{data}, {}] by {{.*}}rules.toml, rule 1
// TOLD: argument 2 (state.params['bias']) is sharded [{}, {data}] by {{.*}}rules.toml, rule 2
// TOLD: func.func missed: {{.*}}rules.toml, rule 5 (`prams/*`) is about no argument; the closest is `state/params/bias`
// CHECK-LABEL: func.func public @names
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @names(%a: tensor<8x16xf32> loc("state.params['layers'][0]['kernel']"), %b: tensor<4x8xf32> loc("state.params['kernel']"), %c: tensor<2x8xf32> loc("state.params['bias']"), %d: tensor<8xf32> loc("state.scale")) -> tensor<8xf32> {
  return %d : tensor<8xf32>
}

// Legal when: the array has no different sharding already
// CHECK-LABEL: func.func public @sharded_by_its_caller
// CHECK-SAME:    %{{[^:]*}}: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>},
// CHECK-SAME:    %{{[^:]*}}: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
// REMARK: func.func missed: argument 0 (x) is sharded [{}, {data}] by its caller, and preset zero1, rule 1 says [{data}, {}]
// REMARK: func.func applied: argument 1 (y) is sharded [{data}, {}] by preset zero1, rule 1
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @sharded_by_its_caller(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>} loc("x"), %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc("y")) -> tensor<8x16xf32> {
  %r = stablehlo.add %x, %y : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

// Legal when: the number of devices along the axes divides the dimension
// CHECK-LABEL: func.func public @not_divisible
// CHECK-SAME:    %{{[^:]*}}: tensor<12x16xf32>, %{{[^:]*}}: tensor<f32>)
// REMARK: func.func missed: dimension 0 has size 12, which 8 devices along data do not divide
// RULES-LABEL: func.func public @not_divisible
// RULES-SAME:    %{{[^:]*}}: tensor<12x16xf32>, %{{[^:]*}}: tensor<f32>)
// TOLD: func.func missed: dimension 0 has size 12, which 8 devices along data do not divide
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @not_divisible(%x: tensor<12x16xf32> loc("odd"), %s: tensor<f32>) -> tensor<12x16xf32> {
  return %x : tensor<12x16xf32>
}

// Legal when: a rule names as many dimensions as the array has
// RULES-LABEL: func.func public @other_rank
// RULES-SAME:    %{{[^:]*}}: tensor<8xf32>, %{{[^:]*}}: tensor<f32>)
// TOLD: func.func missed: argument 0 (flat) has 1 dimensions, and {{.*}}rules.toml, rule 4 names 2
// TOLD: func.func missed: argument 1 (odd) has 0 dimensions, and {{.*}}rules.toml, rule 3 names 1
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @other_rank(%x: tensor<8xf32> loc("flat"), %y: tensor<f32> loc("odd")) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// Where no dimension can be cut, the array stays whole.
// FSDP-LABEL: func.func public @nothing_to_cut
// FSDP-SAME:    %{{[^:]*}}: tensor<3x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %{{[^:]*}}: tensor<3x24x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}, {}]>})
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @nothing_to_cut(%x: tensor<3x5xf32> loc("state['x']"), %y: tensor<3x24x16xf32> loc("state['y']")) -> (tensor<3x5xf32> {jax.result_info = "result['x']"}, tensor<3x24x16xf32> {jax.result_info = "result['y']"}) {
  %r = stablehlo.negate %x : tensor<3x5xf32>
  %s = stablehlo.negate %y : tensor<3x24x16xf32>
  return %r, %s : tensor<3x5xf32>, tensor<3x24x16xf32>
}

// -----

// REMARK: builtin.module missed: the module has no mesh
// CHECK-LABEL: func.func public @no_mesh
// CHECK-SAME:    %{{[^:]*}}: tensor<8xf32>)
func.func public @no_mesh(%x: tensor<8xf32> loc("batch")) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A parameter that is cut where it is kept is whole where a loop reads it, and so is each layer of an array of layers:
// Shardy would have the slice make a whole layer, of an array that is all-gathered first.
// FSDP-LABEL: func.func public @gathered
// FSDP:         do {
// FSDP-NEXT:      %[[WHOLE:.*]] = sdy.sharding_constraint %iterArg{{[_0-9]*}} <@mesh, [{}, {}]>
// FSDP-NEXT:      stablehlo.multiply %[[WHOLE]], %[[WHOLE]]
// FSDP-NEXT:      %[[S:.*]] = stablehlo.dynamic_slice %iterArg
// FSDP-NEXT:      %[[P:.*]] = sdy.propagation_barrier %[[S]] allowed_direction=FORWARD
// FSDP-NEXT:      %[[ONE:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}, {}]>
// FSDP-NEXT:      stablehlo.reshape %[[ONE]]
// FSDP:         stablehlo.subtract %arg0,
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @gathered(%w: tensor<16x8xf32> loc("state['w']"), %l: tensor<3x16x8xf32> loc("state['l']")) -> (tensor<16x8xf32> {jax.result_info = "result[0]['w']"}, tensor<3x16x8xf32> {jax.result_info = "result[0]['l']"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %nones = stablehlo.constant dense<0.0> : tensor<3x16x8xf32>
  %r:5 = stablehlo.while(%i = %zero, %acc = %none, %p = %w, %q = %l, %accs = %nones) : tensor<i32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.multiply %p, %p : tensor<16x8xf32>
    %s = stablehlo.dynamic_slice %q, %i, %zero, %zero, sizes = [1, 16, 8] : (tensor<3x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %t = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %h = stablehlo.multiply %g, %t : tensor<16x8xf32>
    %sum = stablehlo.add %acc, %h : tensor<16x8xf32>
    %b = stablehlo.broadcast_in_dim %g, dims = [1, 2] : (tensor<16x8xf32>) -> tensor<3x16x8xf32>
    %sums = stablehlo.add %accs, %b : tensor<3x16x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %sum, %p, %q, %sums : tensor<i32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>
  }
  %v = stablehlo.subtract %w, %r#1 : tensor<16x8xf32>
  %u = stablehlo.subtract %l, %r#4 : tensor<3x16x8xf32>
  return %v, %u : tensor<16x8xf32>, tensor<3x16x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// A loop that reads a parameter in a narrower type gathers it in that type. In a wider one it would be more bytes.
// FSDP-LABEL: func.func public @gathered_as_converted
// FSDP:         do {
// FSDP-NEXT:      %[[LARGE:.*]] = sdy.sharding_constraint %iterArg{{[_0-9]*}} <@mesh, [{}, {}]> : tensor<16x8xf32>
// FSDP-NEXT:      %[[NARROW:.*]] = stablehlo.convert %iterArg{{[_0-9]*}} : (tensor<16x8xf32>) -> tensor<16x8xbf16>
// FSDP-NEXT:      %[[KEPT:.*]] = sdy.propagation_barrier %[[NARROW]] allowed_direction=FORWARD
// FSDP-NEXT:      %[[WHOLE:.*]] = sdy.sharding_constraint %[[KEPT]] <@mesh, [{}, {}]> : tensor<16x8xbf16>
// FSDP-NEXT:      %[[BACK:.*]] = stablehlo.convert %[[WHOLE]]
// FSDP-NEXT:      %[[WIDE:.*]] = stablehlo.convert %[[LARGE]] : (tensor<16x8xf32>) -> tensor<16x8xf64>
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @gathered_as_converted(%w: tensor<16x8xf32> loc("state['w']"), %l: tensor<16x8xf32> loc("state['l']")) -> (tensor<16x8xf32> {jax.result_info = "result[0]['w']"}, tensor<16x8xf32> {jax.result_info = "result[0]['l']"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<16x8xf32>
  %r:5 = stablehlo.while(%i = %zero, %acc = %none, %p = %w, %q = %l, %accs = %none) : tensor<i32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %narrow = stablehlo.convert %p : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %back = stablehlo.convert %narrow : (tensor<16x8xbf16>) -> tensor<16x8xf32>
    %wide = stablehlo.convert %q : (tensor<16x8xf32>) -> tensor<16x8xf64>
    %g = stablehlo.convert %wide : (tensor<16x8xf64>) -> tensor<16x8xf32>
    %sum = stablehlo.add %acc, %back : tensor<16x8xf32>
    %sums = stablehlo.add %accs, %g : tensor<16x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %sum, %p, %q, %sums : tensor<i32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>
  }
  %v = stablehlo.subtract %w, %r#1 : tensor<16x8xf32>
  %u = stablehlo.subtract %l, %r#4 : tensor<16x8xf32>
  return %v, %u : tensor<16x8xf32>, tensor<16x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// So is a layer, also where a forward pass is computed again, behind a barrier. Not one that something reads as it is.
// FSDP-LABEL: func.func public @layers_gathered_as_converted
// FSDP:         do {
// FSDP-NEXT:      %[[S:.*]] = stablehlo.dynamic_slice %iterArg
// FSDP-NEXT:      %[[T:.*]] = stablehlo.reshape %[[S]]
// FSDP-NEXT:      %[[B:.*]] = stablehlo.optimization_barrier %[[T]]
// FSDP-NEXT:      %[[NARROW:.*]] = stablehlo.convert %[[B]] : (tensor<16x8xf32>) -> tensor<16x8xbf16>
// FSDP-NEXT:      %[[KEPT:.*]] = sdy.propagation_barrier %[[NARROW]] allowed_direction=FORWARD
// FSDP-NEXT:      %[[WHOLE:.*]] = sdy.sharding_constraint %[[KEPT]] <@mesh, [{}, {}]> : tensor<16x8xbf16>
// FSDP-NEXT:      stablehlo.convert %[[WHOLE]]
// FSDP-NEXT:      %[[OTHER:.*]] = stablehlo.dynamic_slice %iterArg
// FSDP-NEXT:      %[[P:.*]] = sdy.propagation_barrier %[[OTHER]] allowed_direction=FORWARD
// FSDP-NEXT:      sdy.sharding_constraint %[[P]] <@mesh, [{}, {}, {}]> : tensor<1x16x8xf32>
// NUMERIC: skip (arrays are elsewhere afterwards: test/unit/passes/test_annotate_shardings.py runs it)
func.func public @layers_gathered_as_converted(%w: tensor<3x16x8xf32> loc("state['w']"), %l: tensor<3x16x8xf32> loc("state['l']")) -> (tensor<3x16x8xf32> {jax.result_info = "result[0]['w']"}, tensor<3x16x8xf32> {jax.result_info = "result[0]['l']"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %nones = stablehlo.constant dense<0.0> : tensor<3x16x8xf32>
  %r:5 = stablehlo.while(%i = %zero, %acc = %nones, %p = %w, %q = %l, %accs = %nones) : tensor<i32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %s = stablehlo.dynamic_slice %p, %i, %zero, %zero, sizes = [1, 16, 8] : (tensor<3x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %t = stablehlo.reshape %s : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %b = stablehlo.optimization_barrier %t : tensor<16x8xf32>
    %narrow = stablehlo.convert %b : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %back = stablehlo.convert %narrow : (tensor<16x8xbf16>) -> tensor<16x8xf32>
    %s2 = stablehlo.dynamic_slice %q, %i, %zero, %zero, sizes = [1, 16, 8] : (tensor<3x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %t2 = stablehlo.reshape %s2 : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    %narrow2 = stablehlo.convert %t2 : (tensor<16x8xf32>) -> tensor<16x8xbf16>
    %back2 = stablehlo.convert %narrow2 : (tensor<16x8xbf16>) -> tensor<16x8xf32>
    %both = stablehlo.add %back2, %t2 : tensor<16x8xf32>
    %x = stablehlo.broadcast_in_dim %back, dims = [1, 2] : (tensor<16x8xf32>) -> tensor<3x16x8xf32>
    %y = stablehlo.broadcast_in_dim %both, dims = [1, 2] : (tensor<16x8xf32>) -> tensor<3x16x8xf32>
    %sum = stablehlo.add %acc, %x : tensor<3x16x8xf32>
    %sums = stablehlo.add %accs, %y : tensor<3x16x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %sum, %p, %q, %sums : tensor<i32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>, tensor<3x16x8xf32>
  }
  %v = stablehlo.subtract %w, %r#1 : tensor<3x16x8xf32>
  %u = stablehlo.subtract %l, %r#4 : tensor<3x16x8xf32>
  return %v, %u : tensor<3x16x8xf32>, tensor<3x16x8xf32>
}
