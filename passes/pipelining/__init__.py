"""Training steps cut into pipeline stages: which op is in which part, and the parts as functions."""
