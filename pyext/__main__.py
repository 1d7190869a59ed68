"""`python -m paropt` is the command `par-opt`, also where no folder of scripts is on the path."""

import sys

from paropt.cli import main

sys.exit(main())
