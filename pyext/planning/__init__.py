"""Plans for a step and a cluster: which mesh axes shard which arrays."""
