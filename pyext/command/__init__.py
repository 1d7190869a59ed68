"""What the command `par-opt` does: its options, its driver, its texts."""
