"""Facts about values: linear, uniform, unreduced, loop-invariant; trip counts; minimum cuts."""
