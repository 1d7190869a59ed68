"""The command `par-opt`: its options, its driver, its texts."""
