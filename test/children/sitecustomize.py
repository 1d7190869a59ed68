"""Loaded by Python in each process that a test starts under `make test UNCHANGED=skip`: its record begins."""

import os
import sys
from pathlib import Path

_TEST = str(Path(__file__).parents[1])

if "TESTS_RECORDS" in os.environ:
    sys.path.insert(0, _TEST)
    try:
        import process_records
        import seen
    finally:
        sys.path.remove(_TEST)
    seen.observe()
    process_records.begin()
    os.register_at_fork(after_in_child=process_records.begin)
