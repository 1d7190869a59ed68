"""Work in other processes, so that what aborts in native code ends the child only."""
