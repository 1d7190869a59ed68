// Each mistake gives one line with what, where and what would be right, and exit status 1.
// RUN: not %par-opt %s --passes=inline-cals 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not %par-opt %s --passes=nonsense 2>&1 | FileCheck %s --check-prefix=NOPASS
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes='probe-remark{tims=3}' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes='probe-remark{times=x}' 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes='probe-pipeline{tims=3}' 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: not %par-opt %s --load-pass-plugin=probe_plugin --passes='func.func(probe-remark)' 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: not %par-opt %s --passes='canonicalize{max-iterations=x}' 2>&1 | FileCheck %s --check-prefix=NATIVE
// RUN: not %par-opt %s --passes='cse(' 2>&1 | FileCheck %s --check-prefix=BRACE
// RUN: not %par-opt %s --passes=cse -p cse 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not %par-opt %s --remraks 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not %par-opt %s --zzz=1 2>&1 | FileCheck %s --check-prefix=NOFLAG
// RUN: not %par-opt %s --pass=cse 2>&1 | FileCheck %s --check-prefix=ABBREVIATED
// RUN: not %par-opt %s --passes 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not %par-opt %s %s 2>&1 | FileCheck %s --check-prefix=FILES
// RUN: not %par-opt %t.absent.mlir 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not %par-opt %S 2>&1 | FileCheck %s --check-prefix=DIRECTORY
// RUN: not %par-opt %s -o %S 2>&1 | FileCheck %s --check-prefix=OUTDIR
// RUN: not %par-opt %s -o %t.absent/out.mlir 2>&1 | FileCheck %s --check-prefix=NODIR
// RUN: not %par-opt %S/Inputs/invalid.mlir 2>&1 | FileCheck %s --check-prefix=PARSE
// RUN: not %par-opt < %S/Inputs/invalid.mlir 2>&1 | FileCheck %s --check-prefix=STDIN
// RUN: not %par-opt %S/Inputs/invalid.mlir --debug 2>&1 | FileCheck %s --check-prefix=DEBUG
// RUN: not %par-opt %S/Inputs/unregistered.mlir 2>&1 | FileCheck %s --check-prefix=DIALECT
// RUN: %par-opt %S/Inputs/unregistered.mlir --allow-unregistered-dialect | FileCheck %s --check-prefix=ALLOWED
// RUN: not %par-opt %s --remarks-filter='(' 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not %par-opt %s --verify-each=2 2>&1 | FileCheck %s --check-prefix=BOOLEAN
// RUN: not %par-opt %s --passes=cse --mlir-print-ir-after=sccp 2>&1 | FileCheck %s --check-prefix=FILTER
// RUN: not %par-opt %s --run-reproducer 2>&1 | FileCheck %s --check-prefix=REPRODUCER

// PASS:      {{^}}par-opt: error: no pass called `inline-cals`; did you mean `inline-calls`?
// PASS-NOT: {{par-opt|Traceback|line}}
// NOPASS:    {{^}}par-opt: error: no pass called `nonsense`; `par-opt --list-passes` lists them
// OPTION:    {{^}}par-opt: error: probe-remark has no option `tims`; did you mean `times`?
// VALUE:     {{^}}par-opt: error: probe-remark{times=x}: expected an integer
// NAMED:     {{^}}par-opt: error: no pass in probe-pipeline has an option `tims`; did you mean `times`?
// NESTED:    {{^}}par-opt: error: `probe-remark` runs on the module: write it outside `func.func(...)`
// NATIVE:    {{^}}par-opt: error: in `canonicalize{max-iterations=x}`: failed to add `canonicalize` with options
// NATIVE-NOT: {{par-opt|Traceback|line}}
// BRACE:     {{^}}par-opt: error: `cse(` ends without a closing `)`
// TWICE:     {{^}}par-opt: error: {{.*}}the pipeline is given twice
// FLAG:      {{^}}par-opt: error: unknown option '--remraks'; did you mean '--remarks'? See 'par-opt --help'
// FLAG-NOT: {{par-opt|Traceback|line}}
// NOFLAG:    {{^}}par-opt: error: unknown option '--zzz'. See 'par-opt --help'
// ABBREVIATED: {{^}}par-opt: error: unknown option '--pass'; did you mean '--passes'?
// ARGUMENT:  {{^}}par-opt: error: argument -p/--passes/--pass-pipeline: expected one argument. See 'par-opt --help'
// FILES:     {{^}}par-opt: error: more than one input file: '{{.*}}errors.mlir'
// ABSENT:    {{^}}par-opt: error: cannot read '{{.*}}.absent.mlir': No such file or directory
// DIRECTORY: {{^}}par-opt: error: cannot read '{{.*}}par-opt': Is a directory
// OUTDIR:    {{^}}par-opt: error: cannot write '{{.*}}par-opt': it is a directory
// NODIR:     {{^}}par-opt: error: cannot write '{{.*}}out.mlir': no directory '{{.*}}.absent'
// PARSE:     {{^}}par-opt: error: {{.*}}invalid.mlir:2:10: use of undeclared SSA value name
// PARSE-NOT: {{par-opt|Traceback|line}}
// STDIN:     {{^}}par-opt: error: -:2:10: use of undeclared SSA value name
// DEBUG:     {{^}}error: {{.*}}invalid.mlir:2:10: use of undeclared SSA value name
// DIALECT:   {{^}}par-opt: error: {{.*}}unregistered.mlir:1:{{[0-9]+}}: operation being parsed with an unregistered dialect
// ALLOWED:   "unheard_of.op"() : () -> ()
// REGEX:     {{^}}par-opt: error: argument --remarks-filter: '(' is no regular expression
// BOOLEAN:   {{^}}par-opt: error: argument --verify-each: '2' is neither 0 nor 1
// FILTER:    {{^}}par-opt: error: no pass called `sccp` in the pipeline to print before or after; it runs cse
// REPRODUCER: {{^}}par-opt: error: {{.*}}errors.mlir: no reproducer
