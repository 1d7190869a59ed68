"""A plug-in that fails."""
1 / 0
