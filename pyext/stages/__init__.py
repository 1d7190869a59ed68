"""A step that is cut into pipeline stages, run by one process or several: its plan and programs."""
