// Diagnostics and remarks are checked against the comments; see Inputs/unmet.mlir for what fails.
// RUN: %par-opt %s --split-input-file --verify-diagnostics --load-pass-plugin=probe_plugin --passes='probe-remark{text=seen times=2}' | FileCheck %s
// RUN: not %par-opt %S/Inputs/unmet.mlir --split-input-file --verify-diagnostics --load-pass-plugin=probe_plugin --passes=probe-remark 2>&1 | FileCheck %s --check-prefix=UNMET
// Remarks of a module that expects none take part with --remarks.
// RUN: not %par-opt %s --split-input-file --verify-diagnostics --remarks --load-pass-plugin=probe_plugin --passes='probe-remark{text=seen times=2}' 2>&1 | FileCheck %s --check-prefix=REMARKS
// The default text is no expectation when the flag is off.
// RUN: not %par-opt %s --split-input-file 2>&1 | FileCheck %s --check-prefix=OFF

// CHECK:      func.func @remarks
// CHECK:      func.func @no_remark_expected
func.func @remarks(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-remark @+2 {{[probe-remark] stablehlo.add applied: seen 0}}
  // expected-remark @below {{seen 1}}
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @no_remark_expected(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @same_line() {
  return %y : i32 // expected-error {{use of undeclared}}
}
// -----
func.func @above() {
  return %y : i32
  // expected-error @above {{undeclared SSA value}}
}
// -----
func.func @relative() {
  return %y : i32

  // expected-error@-2 {{undeclared SSA value}}
}
// -----
func.func @regex() {
  // expected-error-re @+1 {{use of {{[a-z]+}} SSA value name}}
  return %y : i32
}
// -----
func.func @twice() { // expected-note {{see existing symbol definition here}}
  return
}
// expected-error @+1 {{redefinition of symbol named 'twice'}}
func.func @twice() {
  return
}

// UNMET:      {{^}}par-opt: error: {{.*}}unmet.mlir:2: expected error "not this" was not produced
// UNMET:      {{^}}par-opt: error: {{.*}}unmet.mlir:7:10: unexpected error: use of undeclared SSA value name
// UNMET:      {{^}}par-opt: error: {{.*}}unmet.mlir:13:10: unexpected error: use of undeclared SSA value name
// UNMET-NEXT: {{^}}par-opt: error: {{.*}}unmet.mlir:12: expected error "another message" was not produced
// UNMET:      {{^}}par-opt: error: {{.*}}unmet.mlir:18:10: unexpected error: use of undeclared SSA value name
// UNMET-NEXT: {{^}}par-opt: error: {{.*}}unmet.mlir:17: expected warning "use of undeclared" was not produced
// UNMET:      {{^}}par-opt: error: {{.*}}unmet.mlir:24:8: unexpected remark: [probe-remark] stablehlo.add applied: seen 0
// UNMET:      {{^}}par-opt: error: {{.*}}unmet.mlir:28: wrong regular expression in `{{.*}}`
// UNMET-NOT: {{par-opt|Traceback|line}}
// REMARKS:    verify-diagnostics.mlir:{{[0-9]+}}:8: unexpected remark: [probe-remark] stablehlo.add applied: seen 0
// OFF:        par-opt: error: {{.*}}verify-diagnostics.mlir:{{[0-9]+}}:10: use of undeclared SSA value name
