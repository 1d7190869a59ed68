func.func @good() {
  return
}
// -----
func.func @bad() {
  return %y : tensor<4xf32>
}
