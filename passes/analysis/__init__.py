"""Facts about a module. Analyses read the IR; they never change it and never print."""
