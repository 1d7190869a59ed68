"""What every pass is built from: declarations, remarks, traversal, pipelines."""
