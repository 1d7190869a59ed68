func.func @nothing_produced() {
  // expected-error {{not this}}
  return
}
// -----
func.func @nothing_expected() {
  return %y : i32
}
// -----
func.func @other_text() {

  // expected-error @+1 {{another message}}
  return %y : i32
}
// -----
func.func @other_severity() {
  // expected-warning @+1 {{use of undeclared}}
  return %y : i32
}
// -----
func.func @remark_on_one_of_two(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-remark @+1 {{seen 0}}
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
// -----
// expected-error-re {{ {{(}} }}
