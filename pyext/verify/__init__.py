"""Whether a module with unreduced values is consistent, and whether its executable reduces what it says."""
