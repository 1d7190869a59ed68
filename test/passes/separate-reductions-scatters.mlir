// RUN: %par-opt %s --passes=separate-reductions,expose-all-reduces --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes=separate-reductions,expose-all-reduces --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

// Scatters that add rows to a sum.

sdy.mesh @mesh = <["data"=8]>

// Rows that are added to what a loop carries, and nothing else reads, are added to zeros first.
// CHECK-LABEL:   func.func public @rows_added_in_a_loop
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %arg2)
// CHECK:           %[[ZEROS:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<9x4xf32>
// CHECK:           %[[ROWS:.*]] = "stablehlo.scatter"(%[[ZEROS]], %arg0, %arg1)
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[ROWS]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK:           %[[G:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK-NEXT:      %[[NEXT:.*]] = stablehlo.add %[[SUM]], %[[G]]
// CHECK-NEXT:      stablehlo.return %{{.*}}, %[[NEXT]]
// REMARK-DAG: [separate-reductions] stablehlo.scatter applied: its rows are added to zeros, and their sum to what is carried
func.func public @rows_added_in_a_loop(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %rows = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %rows : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// So are those that are added to others, which nothing else reads: the first to zeros, or in a loop to what it carries.
// CHECK-LABEL:   func.func public @rows_added_to_rows
// CHECK:           %[[FIRST:.*]] = "stablehlo.scatter"
// CHECK:           %[[U:.*]] = sdy.sharding_constraint %[[FIRST]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      %[[G:.*]] = sdy.all_reduce {"data"} %[[U]]
// CHECK:           %[[SECOND:.*]] = "stablehlo.scatter"
// CHECK:           %[[V:.*]] = sdy.sharding_constraint %[[SECOND]] <@mesh, [{?}, {?}], unreduced={"data"}>
// CHECK-NEXT:      %[[H:.*]] = sdy.all_reduce {"data"} %[[V]]
// CHECK-NEXT:      %[[BOTH:.*]] = stablehlo.add %[[G]], %[[H]]
// CHECK-NEXT:      return %[[BOTH]]
func.func public @rows_added_to_rows(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_twice_in_a_loop
// CHECK:           stablehlo.while(%{{.*}} = %{{.*}}, %[[SUM:.*]] = %arg2)
// CHECK:           %[[FIRST:.*]] = stablehlo.add %[[SUM]], %{{.*}}
// CHECK:           %[[NEXT:.*]] = stablehlo.add %[[FIRST]], %{{.*}}
// CHECK-NEXT:      stablehlo.return %{{.*}}, %[[NEXT]]
func.func public @rows_added_twice_in_a_loop(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %b = "stablehlo.scatter"(%a, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %b : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// Legal when: nothing else reads the value that it adds to
// CHECK-LABEL:   func.func public @rows_added_and_read
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @rows_added_and_read(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %read = stablehlo.tanh %sum : tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_and_their_sum_read
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @rows_added_and_their_sum_read(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %read = stablehlo.tanh %a : tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_and_tested
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @rows_added_and_tested(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %limit = stablehlo.constant dense<100.0> : tensor<f32>
    %row = stablehlo.slice %sum [0:1, 0:1] : (tensor<9x4xf32>) -> tensor<1x1xf32>
    %number = stablehlo.reshape %row : (tensor<1x1xf32>) -> tensor<f32>
    %less = stablehlo.compare LT, %number, %limit, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %both = stablehlo.and %more, %less : tensor<i1>
    stablehlo.return %both : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_to_what_is_read
// CHECK:           %[[FIRST:.*]] = "stablehlo.scatter"
// CHECK:           %[[G:.*]] = sdy.all_reduce {"data"}
// CHECK:           "stablehlo.scatter"(%[[G]], %arg0, %arg2)
func.func public @rows_added_to_what_is_read(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %read = stablehlo.tanh %a : tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @rows_added_to_the_largest
// CHECK-NOT:       sdy.all_reduce
// CHECK:           %[[LARGEST:.*]] = "stablehlo.scatter"
// CHECK:           "stablehlo.scatter"(%[[LARGEST]], %arg0, %arg2)
func.func public @rows_added_to_the_largest(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.maximum %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// Of truth values, `add` means `or`.
// CHECK-LABEL:   func.func public @truths_added_in_a_loop
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @truths_added_in_a_loop(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xi1> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %old: tensor<9x4xi1>, %n: tensor<i32>) -> tensor<9x4xi1> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xi1>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %rows = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<i1>, %q: tensor<i1>):
        %r = stablehlo.add %p, %q : tensor<i1>
        stablehlo.return %r : tensor<i1>
      }) : (tensor<9x4xi1>, tensor<16x1xui8>, tensor<16x4xi1>) -> tensor<9x4xi1>
    stablehlo.return %next, %rows : tensor<i32>, tensor<9x4xi1>
  }
  return %l#1 : tensor<9x4xi1>
}

// Legal when: its rows are sharded, and `expose-all-reduces` may write the reduction of their sum
// CHECK-LABEL:   func.func public @rows_added_of_one_operand_split
// CHECK:           %[[FIRST:.*]] = sdy.all_reduce {"data"}
// CHECK:           %[[BOTH:.*]] = "stablehlo.scatter"(%[[FIRST]], %arg0, %arg2)
// CHECK:           return %[[BOTH]]
func.func public @rows_added_of_one_operand_split(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %y: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<9x4xf32> {
  %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
  %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  %b = "stablehlo.scatter"(%a, %i, %y) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
  return %b : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @whole_rows_added
// CHECK-NOT:       sdy.all_reduce
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @whole_rows_added(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %x: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %old: tensor<9x4xf32>, %n: tensor<i32>) -> tensor<9x4xf32> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xf32>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xf32>
  }
  return %l#1 : tensor<9x4xf32>
}

// CHECK-LABEL:   func.func public @whole_complex_rows_added
// CHECK-NOT:       dense<0.000000e+00>
// CHECK:           "stablehlo.scatter"(%iterArg{{.*}}, %arg0, %arg1)
func.func public @whole_complex_rows_added(%i: tensor<16x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %x: tensor<16x4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %old: tensor<9x4xcomplex<f32>>, %n: tensor<i32>) -> tensor<9x4xcomplex<f32>> {
  %l:2 = stablehlo.while(%k = %n, %sum = %old) : tensor<i32>, tensor<9x4xcomplex<f32>>
  cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %k, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %a = "stablehlo.scatter"(%sum, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<complex<f32>>, %q: tensor<complex<f32>>):
        %r = stablehlo.add %p, %q : tensor<complex<f32>>
        stablehlo.return %r : tensor<complex<f32>>
      }) : (tensor<9x4xcomplex<f32>>, tensor<16x1xui8>, tensor<16x4xcomplex<f32>>) -> tensor<9x4xcomplex<f32>>
    stablehlo.return %next, %a : tensor<i32>, tensor<9x4xcomplex<f32>>
  }
  return %l#1 : tensor<9x4xcomplex<f32>>
}

// -----

sdy.mesh @mesh = <["data"=4, "model"=2]>

// In a manual computation, rows are added to each other as before.
// CHECK-LABEL:   func.func public @rows_added_to_rows_in_a_manual_computation
// CHECK:           %[[ROWS:.*]] = "stablehlo.scatter"
// CHECK:           "stablehlo.scatter"(%[[ROWS]],
func.func public @rows_added_to_rows_in_a_manual_computation(%j: tensor<32x1xui8> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}, %y: tensor<32x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", "data"}, {}]>}) -> (tensor<18x4xf32>, tensor<4x4xf32>) {
  %m = sdy.manual_computation(%j, %y) in_shardings=[<@mesh, [{"model", "data"}, {}]>, <@mesh, [{"model", "data"}, {}]>] out_shardings=[<@mesh, [{"model", ?}, {?}]>] manual_axes={"model"} (%i: tensor<16x1xui8>, %x: tensor<16x4xf32>) {
    %zeros = stablehlo.constant dense<0.0> : tensor<9x4xf32>
    %a = "stablehlo.scatter"(%zeros, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    %b = "stablehlo.scatter"(%a, %i, %x) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<9x4xf32>, tensor<16x1xui8>, tensor<16x4xf32>) -> tensor<9x4xf32>
    sdy.return %b : tensor<9x4xf32>
  } : (tensor<32x1xui8>, tensor<32x4xf32>) -> tensor<18x4xf32>
  %g = stablehlo.dot_general %y, %y, contracting_dims = [0] x [0] : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<4x4xf32>
  return %m, %g : tensor<18x4xf32>, tensor<4x4xf32>
}
