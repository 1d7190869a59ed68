"""Loaded by Python in each process that a test starts under `make test UNCHANGED=skip`: its record begins."""

import contextlib
import os
import sys
from pathlib import Path

_TEST = str(Path(__file__).parents[1])
_OURS = ("functions_run", "process_records", "seen", "store")

if "TESTS_RECORDS" in os.environ:
    sys.path.insert(0, _TEST)
    with contextlib.suppress(Exception):  # without a record, nothing is known of the process
        import process_records
        import seen

        seen.observe()
        process_records.begin()
        os.register_at_fork(after_in_child=process_records.begin)
    sys.path.remove(_TEST)
    for name in _OURS:  # the program may have its own of this name
        if name in sys.modules:
            sys.modules[f"tests_{name}"] = sys.modules.pop(name)
