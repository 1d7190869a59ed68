// RUN: %par-opt %s --passes='split-mesh-axis{axis=data into=replica:2,data:4}' --split-input-file | FileCheck %s
// RUN: %par-opt %s --passes='split-mesh-axis{axis=data into=replica:2,data:4}' --split-input-file --remarks 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=dta into=replica:2,data:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=q into=replica:2,data:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=STRANGE
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=data into=replica:3,data:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=data into=data:4,model:2}' --split-input-file 2>&1 | FileCheck %s --check-prefix=TAKEN
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=data into=replica:2,replica:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=data into=replica}' --split-input-file 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=data}' --split-input-file 2>&1 | FileCheck %s --check-prefix=NEEDS
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=odd into=two:2,three:3}' --split-input-file 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=text into=two:2,four:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=STRING
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=gspmd into=two:2,four:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=GSPMD
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=inlined into=two:2,four:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=INLINED
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=inlined into=rest:2,more:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=REST
// RUN: not %par-opt %s --passes='split-mesh-axis{axis=unknown into=two:2,four:4}' --split-input-file 2>&1 | FileCheck %s --check-prefix=OTHER

// Legal when: a mesh has the axis
// UNKNOWN: par-opt: error: split-mesh-axis: no axis called `dta`; did you mean `data`?
// STRANGE: par-opt: error: split-mesh-axis: no axis called `q`; the meshes have data, model, odd, text, gspmd, inlined, unknown
// Legal when: the sizes of the new axes multiply to its size, in every mesh that has it
// SIZE: par-opt: error: split-mesh-axis: axis `data` of @mesh has size 8, and replica:3, data:4 multiply to 12
// Legal when: no other axis of the mesh has one of the new names
// TAKEN: par-opt: error: split-mesh-axis: @mesh has an axis `model` already: data, model
// TWICE: par-opt: error: split-mesh-axis{into=replica:2,replica:4}: two axes are called `replica`
// FORM: par-opt: error: split-mesh-axis{into=replica}: expected `name:size,...`, as in split-mesh-axis{axis=data into=replica:2,data:4}
// NEEDS: par-opt: error: split-mesh-axis needs both options: split-mesh-axis{axis=data into=replica:2,data:4}

// jax's own copy of the mesh is split with it; other meshes stay as they are.
// CHECK:      sdy.mesh @mesh = <["replica"=2, "data"=4, "model"=1]> {stablehlo.mesh = {axes = [{name = "replica", size = 2 : i64}, {name = "data", size = 4 : i64}, {name = "model", size = 1 : i64}]}}
// CHECK-NEXT: sdy.mesh @backwards = <["replica"=2, "data"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
// CHECK-NEXT: sdy.mesh @other = <["model"=8]>
sdy.mesh @mesh = <["data"=8, "model"=1]> {stablehlo.mesh = {axes = [{name = "data", size = 8 : i64}, {name = "model", size = 1 : i64}]}}
sdy.mesh @backwards = <["data"=8], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @other = <["model"=8]>
sdy.mesh @odd = <["odd"=6]>
sdy.mesh @names = <["text"=8]>
sdy.mesh @more_names = <["gspmd"=8]>
sdy.mesh @inlined = <["inlined"=8]>
sdy.mesh @unknown = <["unknown"=8]>

// Arguments, results, ops and constraints: whole axes, with others beside them, open and with priorities.
// REMARK: remark: [split-mesh-axis] builtin.module applied: axis data is replica:2, data:4 now, in {{[0-9]+}} attributes
// CHECK-LABEL: func.func public @whole_axis
// CHECK-SAME:    %{{.*}}: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"replica", "data", ?}p1]>}
// CHECK-SAME:    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"replica", "data"}, {?}], replicated={"model"}>})
// CHECK-NEXT:    stablehlo.add %{{.*}}, %{{.*}} {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {?}], replicated={"replica", "data"}>]>}
// CHECK-NEXT:    sdy.sharding_constraint %{{.*}} <@mesh, [{"model", "replica", "data"}, {}]>
func.func public @whole_axis(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data", ?}p1]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {?}], replicated={"model"}>}) {
  %a = stablehlo.add %x, %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {?}], replicated={"data"}>]>} : tensor<8x16xf32>
  %b = sdy.sharding_constraint %a <@mesh, [{"model", "data"}, {}]> : tensor<8x16xf32>
  return %b : tensor<8x16xf32>
}

// A part of the old axis is one new axis, a part of one, or parts of several.
// CHECK-LABEL: func.func public @parts_of_the_axis
// CHECK-SAME:    #sdy.sharding<@mesh, [{"replica"}, {"data"}]>
// CHECK-SAME:    #sdy.sharding<@mesh, [{"data":(1)2}, {"data":(2)2}]>
// CHECK-SAME:    #sdy.sharding<@mesh, [{"replica", "data":(1)2}, {}]>
// CHECK-SAME:    #sdy.sharding<@mesh, [{"data":(2)2}, {"replica"}], replicated={"data":(1)2}>
func.func public @parts_of_the_axis(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(1)2}, {"data":(2)4}]>},
    %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(2)2}, {"data":(4)2}]>},
    %z: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(1)4}, {}]>}
) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data":(4)2}, {"data":(1)2}], replicated={"data":(2)2}>}) {
  %a = stablehlo.add %x, %y : tensor<8x16xf32>
  %b = stablehlo.add %a, %z : tensor<8x16xf32>
  return %b : tensor<8x16xf32>
}

// Manual computations: what is manual over the old axis is manual over all new ones. Devices may stand in any order.
// CHECK-LABEL: func.func public @manual_computation
// CHECK:         sdy.manual_computation(%{{.*}}) in_shardings=[<@mesh, [{"replica", "data"}, {}]>] out_shardings=[<@mesh, [{"replica", "data"}, {}]>, <@mesh, [{}]>] manual_axes={"replica", "data"}
// CHECK:         replica_groups = dense<{{\[\[}}0, 1, 2, 3, 4, 5, 6, 7]]>
// CHECK:         replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "replica">, #stablehlo.axis_ref<name = "data">]>
// CHECK:         replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "model">, #stablehlo.axis_ref<name = "data">]>
// CHECK:         replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data", sub_axis_info = (2)2>]>
// NUMERIC: skip (XLA before jaxlib 0.12 knows no replica groups that are axes)
func.func public @manual_computation(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> (tensor<8x16xf32>, tensor<16xf32>) {
  %m:2 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}]>, <@mesh, [{}]>] manual_axes={"data"} (%a: tensor<1x16xf32>) {
    %s = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %t = "stablehlo.all_reduce"(%s) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data">]>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %u = "stablehlo.all_reduce"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "model">, #stablehlo.axis_ref<name = "data", sub_axis_info = (2)4>]>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %v = "stablehlo.all_reduce"(%u) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "data", sub_axis_info = (4)2>]>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    %w = stablehlo.reshape %v : (tensor<1x16xf32>) -> tensor<16xf32>
    sdy.return %a, %w : tensor<1x16xf32>, tensor<16xf32>
  } : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
  return %m#0, %m#1 : tensor<8x16xf32>, tensor<16xf32>
}

// The same over devices in another order, and with groups that are lists: these name devices and stay.
// CHECK-LABEL: func.func public @devices_in_another_order
// CHECK:         manual_axes={"replica", "data"}
// CHECK:         replica_groups = dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]>
func.func public @devices_in_another_order(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@backwards, [{"data"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@backwards, [{"data":(1)2}, {"data":(2)4}]>}) {
  %m = sdy.manual_computation(%x) in_shardings=[<@backwards, [{"data"}, {}]>] out_shardings=[<@backwards, [{"data"}, {}]>] manual_axes={"data"} (%a: tensor<1x16xf32>) {
    %s = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %r : tensor<f32>
    }) : (tensor<1x16xf32>) -> tensor<1x16xf32>
    sdy.return %s : tensor<1x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %m : tensor<8x16xf32>
}

// Shardy's collectives, sums still to be taken, and a mesh written out. The name in other strings is no axis.
// CHECK-LABEL: func.func public @shardys_collectives
// CHECK-SAME:    unreduced={"replica", "data"}>}
// CHECK-SAME:    -> (tensor<8x16xf32> {jax.result_info = "result['data']"})
// CHECK-NEXT:    sdy.all_reduce {"replica", "data"} %{{.*}} out_sharding=<@mesh, [{}, {}]>
// CHECK-NEXT:    sdy.all_slice [{"replica", "data"}, {}] %{{.*}} out_sharding=<@mesh, [{"replica", "data"}, {}]>
// CHECK-NEXT:    sdy.all_gather [{"data"}, {}] %{{.*}} out_sharding=<@mesh, [{"replica"}, {}]>
// CHECK-NEXT:    sdy.all_to_all [{"replica"}: 0->1] %{{.*}} out_sharding=<@mesh, [{}, {"replica"}]>
// CHECK-NEXT:    sdy.collective_permute %{{.*}} out_sharding=<@mesh, [{}, {"data":(1)2}]>
// CHECK-NEXT:    {data = "data", sdy.sharding = #sdy.sharding_per_value<[<mesh<["replica"=2, "data"=4]>, [{"replica", "data"}, {}]>]>}
// NUMERIC: skip (XLA takes no collectives of Shardy's)
func.func public @shardys_collectives(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"data"}>}) -> (tensor<8x16xf32> {jax.result_info = "result['data']"}) {
  %a = sdy.all_reduce {"data"} %x out_sharding=<@mesh, [{}, {}]> : tensor<8x16xf32>
  %b = sdy.all_slice [{"data"}, {}] %a out_sharding=<@mesh, [{"data"}, {}]> : tensor<8x16xf32>
  %c = sdy.all_gather [{"data":(2)4}, {}] %b out_sharding=<@mesh, [{"data":(1)2}, {}]> : tensor<8x16xf32>
  %d = sdy.all_to_all [{"data":(1)2}: 0->1] %c out_sharding=<@mesh, [{}, {"data":(1)2}]> : tensor<8x16xf32>
  %e = sdy.collective_permute %d out_sharding=<@mesh, [{}, {"data":(2)2}]> : tensor<8x16xf32>
  %f = stablehlo.add %e, %e {data = "data", sdy.sharding = #sdy.sharding_per_value<[<mesh<["data"=8]>, [{"data"}, {}]>]>} : tensor<8x16xf32>
  return %f : tensor<8x16xf32>
}

// Legal when: each part of the axis that is named consists of parts of the new axes
// PART: par-opt: error: {{.*}}:[[#]]:{{.*}}: split-mesh-axis: sdy.sharding_constraint names a part of the axis, "odd":(1)3, that two:2, three:3 cannot say
// CHECK-LABEL: func.func public @part_that_cannot_be_said
// NUMERIC: skip (the mesh has 6 devices)
func.func public @part_that_cannot_be_said(%x: tensor<6xf32>) -> tensor<6xf32> {
  %a = sdy.sharding_constraint %x <@odd, [{"odd":(1)3}]> : tensor<6xf32>
  return %a : tensor<6xf32>
}

// Legal when: shardings are attributes that can be read, not strings
// STRING: par-opt: error: {{.*}}: split-mesh-axis: stablehlo.add names the axis in a string, xla.sdy.sharding
// GSPMD: par-opt: error: {{.*}}: split-mesh-axis: stablehlo.add names the axis in a string, mhlo.sharding
// CHECK-LABEL: func.func public @strings
// NUMERIC: skip (XLA takes such strings from its own exporter only)
func.func public @strings(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = stablehlo.add %x, %x {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding_per_value<[<@names, [{\22text\22}]>]>"}} : tensor<8xf32>
  %b = stablehlo.add %a, %a {mhlo.sharding = "{mesh['gspmd'=8], [{'gspmd'}]}"} : tensor<8xf32>
  return %b : tensor<8xf32>
}

// OTHER: par-opt: error: {{.*}}: split-mesh-axis: stablehlo.add names the axis in note, which is not known here
// CHECK-LABEL: func.func public @other_attributes
func.func public @other_attributes(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = stablehlo.add %x, %x {note = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "unknown", size = 8>]>} : tensor<8xf32>
  return %a : tensor<8xf32>
}

// A mesh that is written out where it is used is held to the same conditions.
// INLINED: par-opt: error: {{.*}}: split-mesh-axis: sdy.sharding_constraint has a mesh with an axis "inlined" of size 4
// REST: par-opt: error: {{.*}}: split-mesh-axis: sdy.sharding_constraint has a mesh with an axis "rest" already
// CHECK-LABEL: func.func public @written_out
func.func public @written_out(%x: tensor<8xf32>) -> tensor<8xf32> {
  %b = sdy.sharding_constraint %x <mesh<["inlined"=8, "rest"=1]>, [{"inlined"}]> : tensor<8xf32>
  %a = sdy.sharding_constraint %b <mesh<["inlined"=4, "rest"=2]>, [{"inlined"}]> : tensor<8xf32>
  return %a : tensor<8xf32>
}

// -----

// What is split already stays as it is, and so does a module without a mesh.
// CHECK:       sdy.mesh @done = <["replica"=2, "data"=4]>
// REMARK: remark: [split-mesh-axis] builtin.module missed: the mesh has the axes replica:2, data:4 already
sdy.mesh @done = <["replica"=2, "data"=4]>
// CHECK-LABEL: func.func public @split_already
// CHECK-SAME:    [{"data"}]
func.func public @split_already(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@done, [{"data"}]>}) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// REMARK: remark: [split-mesh-axis] builtin.module missed: the module has no mesh of a name
// CHECK-LABEL: func.func public @no_mesh
func.func public @no_mesh(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
