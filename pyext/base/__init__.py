"""Small things that know nothing of par-opt: words for numbers, grids of devices, types of elements."""
