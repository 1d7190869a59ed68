"""A pass that finds nothing in a large module costs next to nothing."""

import re
import subprocess
import sys

from unit.tools import ROOT

LIMIT = 5.0  # percent of parse + verify + print
LIMITS = {
    "roll-accumulation": 10.0,  # looks at each addition; one op in five is one here
    "annotate-aliases": 40.0,  # follows the data from arguments to results, whatever there is to be found
    "annotate-contract": 40.0,
}


def test_cost_of_finding_nothing() -> None:
    """In a process of its own: other tests register passes in this one, and fill its memory."""
    command = [sys.executable, str(ROOT / "tools" / "bench_overhead.py"), "--ops", "100000", "--repeat", "3"]
    table = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    shares = {name: float(share) for name, share in re.findall(r"^(\S+) .* s +([\d.]+) %$", table, re.M)}
    assert {"inline-calls", "fuse-all-reduces", "defer-sync", *LIMITS} <= shares.keys()
    assert all(share < LIMITS.get(name, LIMIT) for name, share in shares.items()), table
