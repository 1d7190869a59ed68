// Channels of all_reduces that change their rank, in modules of one partition: XLA lays out all of a channel alike.
// RUN: %par-opt %s --passes=defer-sync --split-input-file | FileCheck %s --check-prefix=DEFER
// RUN: %par-opt %s --passes=fuse-all-reduces --split-input-file | FileCheck %s --check-prefix=FUSE
// RUN: %par-opt %s --passes=bucket-all-reduces --split-input-file | FileCheck %s --check-prefix=BUCKET

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#one = #stablehlo.channel_handle<handle = 1, type = 1>
#two = #stablehlo.channel_handle<handle = 2, type = 1>

module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {

// One leaves the loop as an array, the other stays a scalar: a new channel, which the all_gather does not have either.
// DEFER-LABEL: func.func public @one_of_two_leaves
// DEFER:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
// DEFER:         (tensor<f64>) -> tensor<f64>
// DEFER:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>
// DEFER:         (tensor<4xf32>) -> tensor<4xf32>
// DEFER:         "stablehlo.all_gather"(%{{.*}}) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
func.func public @one_of_two_leaves(%losses: tensor<4xf32>) -> (tensor<f64>, tensor<32xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<4> : tensor<i32>
  %scale = stablehlo.constant dense<1.0> : tensor<f64>
  %none = stablehlo.constant dense<0.0> : tensor<4xf32>
  %end:3 = stablehlo.while(%i = %zero, %s = %scale, %kept = %none) : tensor<i32>, tensor<f64>, tensor<4xf32>
  cond {
    %more = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %part = stablehlo.dynamic_slice %losses, %i, sizes = [1] : (tensor<4xf32>, tensor<i32>) -> tensor<1xf32>
    %loss = stablehlo.reshape %part : (tensor<1xf32>) -> tensor<f32>
    %mean = "stablehlo.all_reduce"(%loss) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<f32>) -> tensor<f32>
    %row = stablehlo.reshape %mean : (tensor<f32>) -> tensor<1xf32>
    %next = stablehlo.dynamic_update_slice %kept, %row, %i : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
    %wide = stablehlo.convert %loss : (tensor<f32>) -> tensor<f64>
    %scaled = stablehlo.remainder %s, %wide : tensor<f64>
    %s2 = "stablehlo.all_reduce"(%scaled) ({ ^bb0(%p: tensor<f64>, %q: tensor<f64>): %r = stablehlo.add %p, %q : tensor<f64> stablehlo.return %r : tensor<f64> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<f64>) -> tensor<f64>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s2, %next : tensor<i32>, tensor<f64>, tensor<4xf32>
  }
  %gathered = "stablehlo.all_gather"(%end#2) {all_gather_dim = 0 : i64, channel_handle = #two, replica_groups = #all, use_global_device_ids} : (tensor<4xf32>) -> tensor<32xf32>
  return %end#1, %gathered : tensor<f64>, tensor<32xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#one = #stablehlo.channel_handle<handle = 1, type = 1>

module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {

// A sum of elements is reduced after it, as a scalar; an array stays.
// FUSE-LABEL: func.func public @sum_of_elements
// FUSE:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
// FUSE:         (tensor<f32>) -> tensor<f32>
// FUSE:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
// FUSE:         (tensor<4xf32>) -> tensor<4xf32>
func.func public @sum_of_elements(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  return %s, %b : tensor<f32>, tensor<4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#one = #stablehlo.channel_handle<handle = 1, type = 1>

module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {

// Nothing else has the channel: it is kept.
// FUSE-LABEL: func.func public @alone
// FUSE:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
// FUSE:         (tensor<f32>) -> tensor<f32>
func.func public @alone(%x: tensor<4xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#one = #stablehlo.channel_handle<handle = 1, type = 1>

module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {

// The partitioner gives each reduction a channel of its own.
// FUSE-LABEL: func.func public @partitions
// FUSE-COUNT-2: "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
func.func public @partitions(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  return %s, %b : tensor<f32>, tensor<4xf32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#one = #stablehlo.channel_handle<handle = 1, type = 1>

module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {

// Two matrices become one row; a third, of integers, stays as it is.
// BUCKET-LABEL: func.func public @row_of_matrices
// BUCKET:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
// BUCKET:         (tensor<8xf32>) -> tensor<8xf32>
// BUCKET:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
// BUCKET:         (tensor<2x2xi32>) -> tensor<2x2xi32>
func.func public @row_of_matrices(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>, %z: tensor<2x2xi32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xi32>) {
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %c = "stablehlo.all_reduce"(%z) ({ ^bb0(%p: tensor<i32>, %q: tensor<i32>): %r = stablehlo.add %p, %q : tensor<i32> stablehlo.return %r : tensor<i32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<2x2xi32>) -> tensor<2x2xi32>
  return %a, %b, %c : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xi32>
}
}

// -----

#all = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>
#one = #stablehlo.channel_handle<handle = 1, type = 1>

module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 8 : i32} {

// Both matrices change, to a row and to a scalar.
// FUSE-LABEL: func.func public @both_change
// FUSE:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
// FUSE:         (tensor<2xf32>) -> tensor<2xf32>
// FUSE:         "stablehlo.all_reduce"(%{{.*}}) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>
// FUSE:         (tensor<f32>) -> tensor<f32>
func.func public @both_change(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = "stablehlo.all_reduce"(%x) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = "stablehlo.all_reduce"(%y) ({ ^bb0(%p: tensor<f32>, %q: tensor<f32>): %r = stablehlo.add %p, %q : tensor<f32> stablehlo.return %r : tensor<f32> }) {channel_handle = #one, replica_groups = #all, use_global_device_ids} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x2xf32>, tensor<f32>) -> tensor<f32>
  return %s, %t : tensor<2xf32>, tensor<f32>
}
}
