"""`paropt.check` in its child process: made-up data, the tolerance, the comparison."""
