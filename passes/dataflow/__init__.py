"""What is proven of values: linear, uniform, unreduced, loop-invariant; how often loops run; minimum cuts."""
