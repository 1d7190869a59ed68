// Rows of tables: gathers and scatters.

// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Activations are split by positions, %x, and by features, %y: for both products XLA gathers all positions.
// CHECK-LABEL:   func.func public @gathered_positions
// CHECK:           %[[P:.*]] = stablehlo.dot_general %arg0, %{{.*}}, contracting_dims = [0, 1] x [0, 1] {{.*}}paropt.gathered = [
// CHECK-SAME:        [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-SAME:        paropt.operands = [#sdy.sharding<@mesh, [{"data"}, {}, {?}]>, #sdy.sharding<@mesh, [{"data"}, {}, {?}]>], paropt.shared = array<i64: 1>
// CHECK:           sdy.all_reduce {"data"} %[[U]]
// CHECK:           stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] {{.*}}paropt.gathered = [
// CHECK-SAME:        [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>], unit]
// CHECK:           stablehlo.dot_general %arg0, %arg3, contracting_dims = [2] x [0] {paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>]} :
// CHECK:           stablehlo.add %arg0, %arg0 {paropt.alone = [#sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>]} :
func.func public @gathered_positions(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %v: tensor<4x5xf32>) -> (tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x5xf32>, tensor<16x6x4xf32>) {
  %z = stablehlo.negate %y : tensor<16x6x8xf32>
  %g = stablehlo.dot_general %x, %z, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<16x6x4xf32>, tensor<4x8xf32>) -> tensor<16x6x8xf32>
  %c = sdy.sharding_constraint %h <@mesh, [{"data"}, {}, {"model"}]> : tensor<16x6x8xf32>
  %a = stablehlo.dot_general %x, %v, contracting_dims = [2] x [0] : (tensor<16x6x4xf32>, tensor<4x5xf32>) -> tensor<16x6x5xf32>
  %s = stablehlo.add %x, %x : tensor<16x6x4xf32>
  return %g, %c, %a, %s : tensor<4x8xf32>, tensor<16x6x8xf32>, tensor<16x6x5xf32>, tensor<16x6x4xf32>
}

// Positions are split by an axis that only the result needs, too: they are left to XLA.
// CHECK-LABEL:   func.func public @positions_and_result
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @positions_and_result(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// XLA would have to move what is left of it.
// CHECK-LABEL:   func.func public @split_first_by_the_other_axis
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its operands are sharded in different ways
func.func public @split_first_by_the_other_axis(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %g : tensor<4x8xf32>
}

// The rows of an embedding's gradient are examples: XLA scatters them as it multiplies.
// CHECK-LABEL:   func.func public @rows
// CHECK-NOT:       sdy.reduce_scatter
// CHECK:           return
func.func public @rows(%dh: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %i: tensor<16x6x1xi32>) -> tensor<32x4xf32> {
  %dx = stablehlo.dot_general %dh, %w, contracting_dims = [2] x [1] : (tensor<16x6x8xf32>, tensor<4x8xf32>) -> tensor<16x6x4xf32>
  %c = sdy.sharding_constraint %dx <@mesh, [{"data"}, {"model"}, {}]> : tensor<16x6x4xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<32x4xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %c) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<32x4xf32>, tensor<16x6x1xi32>, tensor<16x6x4xf32>) -> tensor<32x4xf32>
  return %g : tensor<32x4xf32>
}

// Activations are sharded by features, rows of the table over the same axis: XLA all-gathers features, and each device
// has addends of its rows.
// CHECK-LABEL:   func.func public @rows_over_the_axis_of_features
// CHECK:           "stablehlo.scatter"{{.*}}
// CHECK:           paropt.gathered = [unit, unit, [#sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>, #sdy.sharding<@mesh, [{"data"}, {}, {}]>]]
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %{{.*}} <@mesh, [{"model"}, {}], unreduced={"data"}>
// CHECK-NEXT:      sdy.reduce_scatter [{}, {"data"}] %[[U]]
func.func public @rows_over_the_axis_of_features(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %i: tensor<16x6x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<32x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {"data"}]>}, tensor<16x6x4xf32>) {
  %dx = stablehlo.negate %x : tensor<16x6x4xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<32x4xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %dx) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<32x4xf32>, tensor<16x6x1xi32>, tensor<16x6x4xf32>) -> tensor<32x4xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{"model"}, {"data"}]> : tensor<32x4xf32>
  %k = stablehlo.add %dx, %dx : tensor<16x6x4xf32>
  return %c, %k : tensor<32x4xf32>, tensor<16x6x4xf32>
}

// Rows over an axis of examples, too: XLA moves parts of the sums.
// CHECK-LABEL:   func.func public @rows_over_an_axis_of_examples
// CHECK-NOT:       paropt.gathered
// CHECK:           return
func.func public @rows_over_an_axis_of_examples(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %i: tensor<16x6x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<32x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}) {
  %dx = stablehlo.negate %x : tensor<16x6x4xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<32x4xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %dx) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<32x4xf32>, tensor<16x6x1xi32>, tensor<16x6x4xf32>) -> tensor<32x4xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{"model", "data"}, {}]> : tensor<32x4xf32>
  return %c : tensor<32x4xf32>
}

// One that is put in its place among others is a gradient.
// CHECK-LABEL:   func.func public @put_in_its_place
// CHECK:           sdy.reduce_scatter
// CHECK:           return
func.func public @put_in_its_place(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %i: tensor<1xi32>) -> tensor<3x4x8xf32> {
  %dw = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %dw <@mesh, [{"data"}, {}]> : tensor<4x8xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<3x4x8xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %c) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x4x8xf32>, tensor<1xi32>, tensor<4x8xf32>) -> tensor<3x4x8xf32>
  return %g : tensor<3x4x8xf32>
}

// The user splits the parameter, but nothing has the sum split like that.
// CHECK-LABEL:   func.func public @whole_sum_of_a_split_parameter
// CHECK:           sdy.all_reduce {"data", "model"}
// CHECK:           return
func.func public @whole_sum_of_a_split_parameter(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}, %p: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x4xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %q = %p) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %y = stablehlo.dot_general %x, %q, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %s = stablehlo.add %acc, %g : tensor<4x4xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %s, %q : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %w#1 : tensor<4x4xf32>
}

// Legal when: its result is sharded into equal parts (XLA aborts)
// CHECK-LABEL:   func.func public @unequal_parts
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its result is sharded into unequal parts
func.func public @unequal_parts(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<4x7xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x7xf32>) -> tensor<4x7xf32>
  return %g : tensor<4x7xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "other"=2, "model"=2]>

// XLA would move the features of %x, and not only gather its positions.
// CHECK-LABEL:   func.func public @features_that_move
// CHECK-NOT:       paropt.gathered
// CHECK:           return
func.func public @features_that_move(%x: tensor<16x6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {"other"}]>}, %y: tensor<16x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}) -> tensor<4x8xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0, 1] x [0, 1] : (tensor<16x6x4xf32>, tensor<16x6x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {"model"}]> : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "model"=4]>

// NUMERIC: skip (XLA aborts, too)
// Legal when: no value that it says to be unreduced has operands sharded in different ways (Shardy aborts)
// CHECK-LABEL:   func.func public @said_of_unlike_operands
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: it is declared unreduced, but its operands are sharded in different ways
func.func public @said_of_unlike_operands(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>}) -> tensor<4x2xf32> {
  %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
  %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x2xf32>
  %c = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x2xf32>
  %h = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x2xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// Legal when: in the mesh, no axis without a part in a scatter to sharded rows precedes one with a part
// CHECK-LABEL:   func.func public @rows_without_replica(
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.scatter missed: its rows are sharded, and nothing of it over `replica`: XLA would add wrong parts
func.func public @rows_without_replica(%t: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %n = stablehlo.add %p, %t : tensor<16x4xf32>
  return %n : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "model"=2, "replica"=2]>

// The last axis may be idle.
// CHECK-LABEL:   func.func public @rows_before_replica(
// CHECK:           sdy.all_reduce {"data"}
func.func public @rows_before_replica(%t: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %n = stablehlo.add %p, %t : tensor<16x4xf32>
  return %n : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// Legal when: in the mesh, no axis without a part in a contraction is between one that it reduces over and one that shards its result only
// CHECK-LABEL:   func.func public @cut_behind_data(
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its result is sharded over `model`, its operands are not, and nothing is over `replica`: XLA would add wrong parts
func.func public @cut_behind_data(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// What is read split like that is not cut.
// CHECK-LABEL:   func.func public @cut_as_read(
// CHECK:           sdy.all_reduce {"data"}
func.func public @cut_as_read(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "model"=2, "data"=2]>

// CHECK-LABEL:   func.func public @cut_before_data(
// CHECK:           sdy.all_reduce {"data"}
func.func public @cut_before_data(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "model"=2, "replica"=2]>

// CHECK-LABEL:   func.func public @cut_before_replica(
// CHECK:           sdy.all_reduce {"data"}
func.func public @cut_before_replica(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["rest"=2, "data"=2, "model"=2]>

// An axis that splits what it reads, and its result no more, is like one that it has no part in.
// CHECK-LABEL:   func.func public @cut_of_what_is_split_over_both(
// CHECK-NOT:       sdy.all_reduce
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: its result is sharded over `model`, its operands are not, and nothing is over `rest`: XLA would add wrong parts
func.func public @cut_of_what_is_split_over_both(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model", "rest"}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=6]>

// A third of an axis that has halves: which devices have the same is not known.
// NUMERIC: skip (a mesh of 24 devices)
// CHECK-LABEL:   func.func public @cut_over_a_third(
// CHECK-NOT:       sdy.all_reduce
func.func public @cut_over_a_third(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x6xf32>) -> tensor<4x6xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model":(1)3}]> : tensor<4x6xf32>
  %n = stablehlo.add %c, %t : tensor<4x6xf32>
  return %n : tensor<4x6xf32>
}

// -----

sdy.mesh @mesh = <["model"=2, "data"=2, "replica"=2], device_ids=[0, 4, 2, 6, 1, 5, 3, 7]>

// XLA goes by the numbers of the devices.
// CHECK-LABEL:   func.func public @cut_on_devices_in_another_order(
// CHECK-NOT:       sdy.all_reduce
func.func public @cut_on_devices_in_another_order(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %t: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"model"}]> : tensor<4x8xf32>
  %n = stablehlo.add %c, %t : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// CHECK-LABEL:   func.func public @rows_of_devices_in_another_order(
// CHECK-NOT:       sdy.all_reduce
func.func public @rows_of_devices_in_another_order(%t: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}, %rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %n = stablehlo.add %p, %t : tensor<16x4xf32>
  return %n : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Worth it when: before a reduce_scatter, a scatter adds rows of no fewer bytes (XLA all-gathers smaller rows: then each device adds to its part of the sum, and only the residual is reduced)
// CHECK-LABEL:   func.func public @few_rows_of_a_table(
// CHECK-NOT:       sdy.reduce_scatter
func.func public @few_rows_of_a_table(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<24x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<24x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<24x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<24x4xf32>
    %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<24x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<24x4xf32>
    %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<24x4xf32>
    %n = stablehlo.add %acc, %c : tensor<24x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<24x4xf32>
  }
  return %w#1 : tensor<24x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// With the numbers of the rows they are more bytes.
// CHECK-LABEL:   func.func public @all_rows_of_a_table(
// CHECK:           sdy.reduce_scatter
func.func public @all_rows_of_a_table(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<16x4xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %start) : tensor<i32>, tensor<16x4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %none = stablehlo.constant dense<0.0> : tensor<16x4xf32>
    %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<16x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<16x4xf32>
    %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<16x4xf32>
    %n = stablehlo.add %acc, %c : tensor<16x4xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<16x4xf32>
  }
  return %w#1 : tensor<16x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "b"=2, "c"=2]>

// The axis that splits the columns of both splits the rows of the result, and what is wanted for its columns splits the examples:
// XLA gathers the columns of one, once.
// CHECK-LABEL:   func.func public @gathered_columns(
// CHECK:           stablehlo.dot_general {{.*}}paropt.gathered = [unit, [#sdy.sharding<@mesh, [{"data", "b"}, {"c"}]>, #sdy.sharding<@mesh, [{"data", "b"}, {}]>]]
func.func public @gathered_columns(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "b"}, {"c"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "b"}, {"c"}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"c"}, {"b"}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "fsdp"=2]>

// A table is split by features over an axis that splits the tokens, too: the numbers of the rows are gathered.
// CHECK-LABEL:   func.func public @gathered_indices(
// CHECK:           stablehlo.scatter
// CHECK:           paropt.gathered = [unit, [#sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>, #sdy.sharding<@mesh, [{"data"}, {}]>], unit]
// CHECK:           sdy.sharding_constraint {{.*}} unreduced={"data"}>
func.func public @gathered_indices(%i: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>}, %x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"fsdp"}]>}) -> (tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"fsdp"}]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<32x8xf32>
  %g = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<32x8xf32>, tensor<16x1xi32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  return %g : tensor<32x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// Experts are a batch of products: devices exchange features for experts.
// CHECK-LABEL:   func.func public @exchanged_experts(
// CHECK:           stablehlo.dot_general {{.*}}paropt.gathered = [
// CHECK-SAME:        [#sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>, #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>], unit]
func.func public @exchanged_experts(%x: tensor<16x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {"model"}]>}, %y: tensor<16x4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}, {}]>}) -> tensor<4x8x6xf32> {
  %p = stablehlo.dot_general %x, %y, batching_dims = [1] x [1], contracting_dims = [0] x [0] : (tensor<16x4x8xf32>, tensor<16x4x6xf32>) -> tensor<4x8x6xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"model"}, {}, {}]> : tensor<4x8x6xf32>
  return %c : tensor<4x8x6xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "b"=2, "c"=2]>

// What is wanted for its columns is free: XLA may split them anew instead.
// CHECK-LABEL:   func.func public @columns_to_be_split(
// CHECK-NOT:       paropt.gathered
func.func public @columns_to_be_split(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"c"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"c"}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"c"}, {"b"}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=2, "fsdp"=2, "tensor"=2]>

// Legal when: partial sums are not moved between devices before they are reduced
// CHECK-LABEL:   func.func public @parts_on_other_devices
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.dot_general missed: XLA would move unreduced values between devices, and add the wrong parts
func.func public @parts_on_other_devices(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"tensor", "data"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"data"}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{}, {"tensor"}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["fsdp"=2, "data"=2, "tensor"=2]>

// The same parts, and less of them.
// CHECK-LABEL:   func.func public @parts_put_together
// CHECK:           sdy.all_reduce {"fsdp"}
// CHECK:           return
func.func public @parts_put_together(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"tensor", "data"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {}]>}) -> tensor<8x8xf32> {
  %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"tensor"}, {}]> : tensor<8x8xf32>
  return %c : tensor<8x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// What follows the loop would have Shardy abort, in the function that XLA enters: nothing is held, and the rest is done.
// NUMERIC: skip (Shardy aborts the process: the operands of what is not reduced are split in different ways)
// CHECK-LABEL:   func.func public @main
// CHECK-NOT:         paropt.alone
// CHECK:             sdy.all_reduce {"data"}
// CHECK-NOT:         paropt.alone
// CHECK:             return
func.func public @main(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %v: tensor<16x8xf32>) -> (tensor<4x8xf32>, tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x8xf32>
  %w:3 = stablehlo.while(%i = %zero, %acc = %none, %b = %v) : tensor<i32>, tensor<4x8xf32>, tensor<16x8xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %b, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x8xf32>) -> tensor<4x8xf32>
    %u = sdy.sharding_constraint %g <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x8xf32>
    %r = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x8xf32>
    %n = stablehlo.add %acc, %r : tensor<4x8xf32>
    %s = stablehlo.tanh %b : tensor<16x8xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n, %s : tensor<i32>, tensor<4x8xf32>, tensor<16x8xf32>
  }
  return %w#1, %w#2 : tensor<4x8xf32>, tensor<16x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// An accumulator of all gradients in a row: of the second one, split by columns, XLA would move parts. No pass crosses that.
// CHECK-LABEL:   func.func public @in_a_row
// CHECK:             stablehlo.reshape {{.*}}[{"model"}]>], paropt.shardings =
// CHECK-NEXT:        stablehlo.reshape {{.*}}[{"model"}]>], paropt.moves = "XLA would move {{.*}}", paropt.shardings =
// CHECK-NOT:         paropt.moves
// CHECK:             return
func.func public @in_a_row(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %y: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<128xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<128xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<128xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %p = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %q = stablehlo.dot_general %y, %x, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %a = stablehlo.reshape %p : (tensor<8x8xf32>) -> tensor<64xf32>
    %b = stablehlo.reshape %q : (tensor<8x8xf32>) -> tensor<64xf32>
    %f = stablehlo.concatenate %a, %b, dim = 0 : (tensor<64xf32>, tensor<64xf32>) -> tensor<128xf32>
    %n = stablehlo.add %acc, %f : tensor<128xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<128xf32>
  }
  return %w#1 : tensor<128xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// JAX's explicit mode says that the sum is reduced, and then that it is not: only the first is one.
// CHECK-LABEL:   func.func public @said_twice
// CHECK:           %[[P:.*]] = stablehlo.dot_general
// CHECK-NEXT:      %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{?}, {?}], unreduced={"data"}> {paropt.operands
// CHECK-NEXT:      sdy.all_reduce {"data"} %[[U]]
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @said_twice(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<4x4xf32> {
  %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
  %r = sdy.sharding_constraint %p <@mesh, [{}, {}]> : tensor<4x4xf32>
  %u = sdy.sharding_constraint %r <@mesh, [{}, {}], unreduced={"data"}> : tensor<4x4xf32>
  %v = sdy.sharding_constraint %u <@mesh, [{}, {}]> : tensor<4x4xf32>
  return %v : tensor<4x4xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Worth it when: no batched scatter has devices exchange parts of an operand for it (XLA:TPU makes a select of it, and all-gathers)
// CHECK-LABEL:   func.func public @exchanged_for_a_batched_scatter
// CHECK-NOT:       unreduced
// CHECK:           return
// REMARK-DAG: [expose-all-reduces] stablehlo.add missed: for it, devices exchange operands of a scatter that are sharded over data
func.func public @exchanged_for_a_batched_scatter(%h: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %labels: tensor<16x1x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>}) -> (tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %zeros = stablehlo.constant dense<0.0> : tensor<16x32xf32>
  %ones = stablehlo.constant dense<1.0> : tensor<16x1xf32>
  %logits = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %p = stablehlo.negate %logits : tensor<16x32xf32>
  %t = "stablehlo.scatter"(%zeros, %labels, %ones) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x32xf32>, tensor<16x1x1xi32>, tensor<16x1xf32>) -> tensor<16x32xf32>
  %d = stablehlo.add %t, %p : tensor<16x32xf32>
  %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  return %g : tensor<4x32xf32>
}

// Classes are compared: that is split by examples on all targets.
// CHECK-LABEL:   func.func public @exchanged_for_a_comparison
// CHECK:           unreduced={"data"}
func.func public @exchanged_for_a_comparison(%h: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %w: tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}, %t: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<4x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %logits = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<16x4xf32>, tensor<4x32xf32>) -> tensor<16x32xf32>
  %d = stablehlo.subtract %t, %logits : tensor<16x32xf32>
  %g = stablehlo.dot_general %h, %d, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  return %g : tensor<4x32xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=4]>

// Rows of fewer bytes than the sum are gathered over what splits it; over the other axis their sum is left for later.
// CHECK-LABEL:   func.func public @few_rows_of_a_copied_table(
// CHECK:           sdy.sharding_constraint %{{.*}} <@mesh, [{?}, {?}], unreduced={"replica"}> {paropt.operands = [unit, #sdy.sharding<@mesh, [{"replica"}, {?}]>, #sdy.sharding<@mesh, [{"replica"}, {?}]>]}
// CHECK:           sdy.all_reduce {"replica"}
func.func public @few_rows_of_a_copied_table(%rows: tensor<16x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<24x4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<24x4xf32>
  %p = "stablehlo.scatter"(%none, %rows, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x4xf32>, tensor<16x1xi32>, tensor<16x4xf32>) -> tensor<24x4xf32>
  %c = sdy.sharding_constraint %p <@mesh, [{"data"}, {}]> : tensor<24x4xf32>
  return %c : tensor<24x4xf32>
}

// -----

sdy.mesh @mesh = <["replica"=2, "data"=2, "model"=2]>

// What a product reads is not gathered: devices compute of it what they have the columns for, and exchange that.
// CHECK-LABEL:   func.func public @columns_of_other_devices(
// CHECK:             %[[P:.*]] = stablehlo.dot_general %arg0, %arg1, {{.*}}paropt.shardings = [#sdy.sharding<@mesh, [{"model"}, {}]>]
// CHECK-NEXT:        %[[U:.*]] = sdy.sharding_constraint %[[P]] <@mesh, [{}, {}], unreduced={"replica", "data"}> {paropt.operands
// CHECK-NEXT:        sdy.reduce_scatter {{\[}}{"data"}, {}] %[[U]] out_sharding=<@mesh, [{"data"}, {}]>
func.func public @columns_of_other_devices(%x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {"model"}]>}, %y: tensor<16x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {}]>}) -> tensor<4x2xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4x2xf32>
  %w:2 = stablehlo.while(%i = %zero, %acc = %none) : tensor<i32>, tensor<4x2xf32>
  cond {
    %more = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<16x4xf32>, tensor<16x2xf32>) -> tensor<4x2xf32>
    %c = sdy.sharding_constraint %g <@mesh, [{"data"}, {}]> : tensor<4x2xf32>
    %n = stablehlo.add %acc, %c : tensor<4x2xf32>
    %i_next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i_next, %n : tensor<i32>, tensor<4x2xf32>
  }
  return %w#1 : tensor<4x2xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Worth it when: outside of loops, a scatter to a table that is sharded over these axes adds rows of no fewer bytes
// Of 8 rows and their numbers a device gets 64 bytes, of the table 768.
// REMARK-DAG: [expose-all-reduces] stablehlo.scatter missed: its sum is sharded over `data`, and stays so (option policy=defer replicates it)
// CHECK-LABEL:   func.func public @few_rows_outside_of_loops(
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @few_rows_outside_of_loops(%r0: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %r1: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<24x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<24x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %none = stablehlo.constant dense<0.0> : tensor<24x8xf32>
  %p0 = "stablehlo.scatter"(%none, %r0, %x0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %p1 = "stablehlo.scatter"(%none, %r1, %x1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %n = stablehlo.add %p0, %p1 : tensor<24x8xf32>
  %new = stablehlo.add %m, %n : tensor<24x8xf32>
  return %new : tensor<24x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Of the table a device gets 32 bytes.
// CHECK-LABEL:   func.func public @many_rows_outside_of_loops(
// CHECK-COUNT-2:   sdy.all_reduce {"data"}
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @many_rows_outside_of_loops(%r0: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %r1: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<1x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) -> (tensor<1x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}]>}) {
  %none = stablehlo.constant dense<0.0> : tensor<1x8xf32>
  %p0 = "stablehlo.scatter"(%none, %r0, %x0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %p1 = "stablehlo.scatter"(%none, %r1, %x1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %n = stablehlo.add %p0, %p1 : tensor<1x8xf32>
  %new = stablehlo.add %m, %n : tensor<1x8xf32>
  return %new : tensor<1x8xf32>
}

// -----

sdy.mesh @mesh = <["data"=8]>

// Nothing shards the table: each device needs all of it.
// CHECK-LABEL:   func.func public @few_rows_of_a_whole_table(
// CHECK-COUNT-2:   sdy.all_reduce {"data"}
// CHECK-NOT:       sdy.all_reduce
// CHECK:           return
func.func public @few_rows_of_a_whole_table(%r0: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %r1: tensor<8x1xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %m: tensor<24x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<24x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %none = stablehlo.constant dense<0.0> : tensor<24x8xf32>
  %p0 = "stablehlo.scatter"(%none, %r0, %x0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %p1 = "stablehlo.scatter"(%none, %r1, %x1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<24x8xf32>, tensor<8x1xi32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %n = stablehlo.add %p0, %p1 : tensor<24x8xf32>
  %new = stablehlo.add %m, %n : tensor<24x8xf32>
  return %new : tensor<24x8xf32>
}
