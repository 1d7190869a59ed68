// Passes of a user's module run, are listed and are told apart from modules that are no plug-ins.
// RUN: %par-opt %s --load-pass-plugin=probe_plugin --passes=probe-rename | FileCheck %s
// RUN: %par-opt %s --load-pass-plugin probe_plugin -p probe-pipeline --remarks -o /dev/null 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: %par-opt --load-pass-plugin=probe_plugin --list-passes | FileCheck %s --check-prefix=LIST
// RUN: not %par-opt %s --passes=probe-rename 2>&1 | FileCheck %s --check-prefix=UNLOADED
// RUN: not %par-opt %s --load-pass-plugin=no.such 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not %par-opt %s --load-pass-plugin=plugin_nothing 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not %par-opt %s --load-pass-plugin=plugin_failing 2>&1 | FileCheck %s --check-prefix=FAILING
// RUN: not %par-opt %s --load-pass-plugin=plugin_helpless 2>&1 | FileCheck %s --check-prefix=HELPLESS
// RUN: not %par-opt %s --load-pass-plugin=plugin_needy 2>&1 | FileCheck %s --check-prefix=NEEDY
// The current directory counts too.
// RUN: mkdir -p %t && cp %S/Inputs/plugin_nothing.py %t/plugin_only_here.py
// RUN: cd %t && not %par-opt %s --load-pass-plugin=plugin_only_here 2>&1 | FileCheck %s --check-prefix=HERE

// CHECK: func.func @renamed
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// NAMED:      plugin.mlir:{{[0-9]+}}:8: remark: [probe-remark] stablehlo.add applied: one 0
// NAMED-NEXT: remark: [probe-remark] stablehlo.add applied: two words 0

// LIST-LABEL: Passes:
// LIST:       probe-remark            Make a remark at each add, changing nothing.
// LIST-NEXT:  text                  What the remark says. (text; default: seen)
// LIST-NEXT:  times                 How many remarks each add gets. (an integer; default: 1)
// LIST-NEXT:  verdict               Which kind of remark. (one of applied, missed; default: applied)
// LIST-NEXT:  backwards             Visit the last add first. (true or false; default: false)
// LIST-LABEL: Named pipelines:
// LIST:       probe-pipeline          Two passes and one of MLIR's.
// LIST-NEXT:  = probe-remark{text=one},cse,probe-remark{text='two words'}

// UNLOADED: par-opt: error: no pass called `probe-rename`; `par-opt --list-passes` lists them
// ABSENT:   par-opt: error: no Python module called `no`: give a module on PYTHONPATH
// NOTHING:  par-opt: error: plug-in `plugin_nothing` registers no pass: decorate one with `register`
// FAILING:  par-opt: error: importing plug-in `plugin_failing`: ZeroDivisionError: division by zero ({{.*}}plugin_failing.py:3)
// FAILING-NOT: {{par-opt|Traceback|line}}
// HELPLESS: par-opt: error: plug-in `plugin_helpless`: option `size` has no help
// NEEDY:    par-opt: error: plug-in `plugin_needy` needs a module that is not installed: `no_such_module_anywhere`
// HERE:     par-opt: error: plug-in `plugin_only_here` registers no pass
