"""The parts of every pass: declarations, remarks, certificates, traversal, pipelines, plug-ins."""
