"""A step as functions of its own: prologue, body, epilogue."""
