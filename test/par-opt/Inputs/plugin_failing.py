"""A plug-in that fails."""

RESULT = 1 / 0
