"""A step that is cut into pipeline stages, run by one process: its plan, its programs, the devices of each stage."""
