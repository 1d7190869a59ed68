"""Work in other processes, so that an abort in native code ends the child only."""
