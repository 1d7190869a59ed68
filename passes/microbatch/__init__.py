"""A whole-batch step as an accumulation loop over parts of the batch."""
