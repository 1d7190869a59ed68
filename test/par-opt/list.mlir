// RUN: %par-opt --list-passes | FileCheck %s
// RUN: %par-opt --version | FileCheck %s --check-prefix=VERSION
// RUN: %par-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// Neither reads the input.
// RUN: %par-opt %t.absent --list-passes | FileCheck %s

// CHECK:      Passes:
// CHECK:      inline-calls
// CHECK:      Named pipelines:
// CHECK:      MLIR's own passes run too, such as canonicalize
// VERSION:    {{^}}par-opt {{[0-9.]+}}, jaxlib {{[0-9.]+}}
// DIALECTS:   {{^}}func
// DIALECTS:   {{^}}sdy
// DIALECTS:   {{^}}stablehlo
