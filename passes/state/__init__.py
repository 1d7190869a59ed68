"""Training state: which arguments it is, which buffers it shares, how it is to be sharded."""
