// RUN: %par-opt %s --passes=decompose-all-reduces | FileCheck %s
// RUN: %par-opt %s --passes=decompose-all-reduces --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

module attributes {mhlo.num_replicas = 8 : i32} {

// As the program did it.
// CHECK-LABEL: func.func public @hierarchy(
// CHECK:         %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}>
// CHECK:         }) : (tensor<8x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[T:.*]] = "stablehlo.all_reduce"(%[[S]]) <{replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}>
// CHECK:         }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_gather"(%[[T]]) <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NEXT:    return %[[R]]
// REMARK: [decompose-all-reduces] stablehlo.all_reduce applied: scattered over 4 devices, and gathered, as in the program
func.func public @hierarchy(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// What the whole is divided and multiplied by, shards are, where nothing else reads it undivided.
// CHECK-LABEL: func.func public @scaled(
// CHECK:         %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}>
// CHECK:         }) : (tensor<8x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[T:.*]] = "stablehlo.all_reduce"(%[[S]]) <{replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}>
// CHECK:         }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[EIGHT:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<2x4xf32>
// CHECK-NEXT:    %[[D:.*]] = stablehlo.divide %[[T]], %[[EIGHT]]
// CHECK-NEXT:    %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<2x4xf32>
// CHECK-NEXT:    %[[M:.*]] = stablehlo.multiply %[[TWO]], %[[D]]
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_gather"(%[[M]]) <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NEXT:    return %[[R]]
// REMARK: [decompose-all-reduces] stablehlo.all_reduce applied: scattered over 4 devices, and gathered, as in the program
func.func public @scaled(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %eight = stablehlo.constant dense<8.0> : tensor<8x4xf32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %twos = stablehlo.broadcast_in_dim %two, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.divide %a, %eight : tensor<8x4xf32>
  %r = stablehlo.multiply %twos, %d : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// The sum is read undivided, too, and is divided by another one; a dividend is no factor.
// CHECK-LABEL: func.func public @not_scaled(
// CHECK:         %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}>
// CHECK:         }) : (tensor<8x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[T:.*]] = "stablehlo.all_reduce"(%[[S]]) <{replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}>
// CHECK:         }) : (tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_gather"(%[[T]]) <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK:         stablehlo.divide %[[R]]
// CHECK:         %[[AGAIN:.*]] = "stablehlo.all_gather"
// CHECK-NEXT:    stablehlo.divide %{{.*}}, %[[AGAIN]]
func.func public @not_scaled(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %eight = stablehlo.constant dense<8.0> : tensor<8x4xf32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %d = stablehlo.divide %a, %eight : tensor<8x4xf32>
  %e = stablehlo.maximum %a, %d : tensor<8x4xf32>
  %b = "stablehlo.all_reduce"(%e) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %r = stablehlo.divide %eight, %b : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Shards that are scattered in their turn, of several arrays.
// CHECK-LABEL: func.func public @levels(
// CHECK:         "stablehlo.reduce_scatter"{{.*}}[0, 1]
// CHECK:         "stablehlo.reduce_scatter"{{.*}}[0, 2]
// CHECK:         "stablehlo.all_reduce"{{.*}}[0, 4]
// CHECK:         "stablehlo.all_gather"{{.*}}[0, 2]
// CHECK:         "stablehlo.all_gather"{{.*}}[0, 1]
// CHECK:         "stablehlo.reduce_scatter"{{.*}}[0, 1]
// CHECK:         "stablehlo.reduce_scatter"{{.*}}[0, 2]
// CHECK:         "stablehlo.all_reduce"{{.*}}[0, 4]
// CHECK:         "stablehlo.all_gather"{{.*}}[0, 2]
// CHECK:         "stablehlo.all_gather"{{.*}}[0, 1]
// CHECK-NOT:     paropt.decomposed
// CHECK:         return
func.func public @levels(%x: tensor<8x4xf32>, %y: tensor<4xf32>) -> tensor<8x4xf32> {
  %a:2 = "stablehlo.all_reduce"(%x, %y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>, scatter_dimension = 0 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 2], [1, 3], [4, 6], [5, 7]]> : tensor<4x2xi64>}]}, {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1], [2, 3], [4, 5], [6, 7]]> : tensor<4x2xi64>}]} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  %b = stablehlo.broadcast_in_dim %a#1, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %r = stablehlo.add %a#0, %b : tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Legal when: the all_reduce has the steps as an attribute (else it stays, without a remark)
// CHECK-LABEL: func.func public @not_decomposed(
// CHECK-NEXT:    "stablehlo.all_reduce"
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
func.func public @not_decomposed(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}

// Legal when: a dimension can be cut into as many shards: that of the program, else the first one (else the all_reduce stays)
// It was scattered along the last dimension, of 4; now that is one of 3, as in a sum of layers.
// CHECK-LABEL: func.func public @first_dimension(
// CHECK:         %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 1 : i64}>
// CHECK:         }) : (tensor<3x8x4x3xf32>) -> tensor<3x2x4x3xf32>
// CHECK-NEXT:    %[[T:.*]] = "stablehlo.all_reduce"(%[[S]]) <{replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}>
// CHECK:         }) : (tensor<3x2x4x3xf32>) -> tensor<3x2x4x3xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_gather"(%[[T]]) <{all_gather_dim = 1 : i64, replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NEXT:    return %[[R]]
func.func public @first_dimension(%x: tensor<3x8x4x3xf32>) -> tensor<3x8x4x3xf32> {
  %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 3 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 3 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<3x8x4x3xf32>) -> tensor<3x8x4x3xf32>
  return %r : tensor<3x8x4x3xf32>
}

// The program's own is there, and is not the first that can be cut.
// CHECK-LABEL: func.func public @own_dimension(
// CHECK:         %[[S:.*]] = "stablehlo.reduce_scatter"(%{{.*}}) <{replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 1 : i64}>
// CHECK:         }) : (tensor<4x8xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:    %[[T:.*]] = "stablehlo.all_reduce"(%[[S]]) <{replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}>
// CHECK:         }) : (tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT:    %[[R:.*]] = "stablehlo.all_gather"(%[[T]]) <{all_gather_dim = 1 : i64, replica_groups = dense<{{\[}}[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}>
// CHECK-NEXT:    return %[[R]]
func.func public @own_dimension(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 1 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// Nor can it be where there are fewer dimensions than there were, as in a sum of all elements.
// CHECK-LABEL: func.func public @no_dimension(
// CHECK-NEXT:    "stablehlo.all_reduce"
// CHECK-NOT:     paropt.decomposed
// CHECK-NOT:     stablehlo.all_gather
// CHECK:         return
// REMARK: [decompose-all-reduces] stablehlo.all_reduce missed: no dimension can be cut into 4 shards
func.func public @no_dimension(%x: tensor<6x0xf32>) -> tensor<6x0xf32> {
  %r = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, paropt.decomposed = [{replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 2 : i64}, {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>}, {all_gather_dim = 2 : i64, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}]} : (tensor<6x0xf32>) -> tensor<6x0xf32>
  return %r : tensor<6x0xf32>
}

}
