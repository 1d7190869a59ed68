"""A plug-in that registers nothing."""
