"""What every pass is made of: declarations, remarks, certificates, traversal, pipelines, plug-ins."""
