"""Prints the Python to make `.venv` with: `python3`, or the system's of the same version where that is faster.

Distributions build Python with profile-guided optimization. Version managers do not, unless they are told: passes, and
jax's tracing and lowering, then take about 1.3 times as long.
"""

import subprocess
import sys
import sysconfig

_SYSTEM = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
_OPTIMIZED = "--enable-optimizations"
_ENVIRONMENTS = "import ensurepip, venv"  # Debian has these in packages of their own


def faster(own: str = sys.executable, system: str = _SYSTEM) -> str:
    """`system`, if that makes environments and `own`, this Python, was built without optimization; else `own`."""
    # Where no arguments are known, as on Windows, it was not built here.
    arguments = sysconfig.get_config_var("CONFIG_ARGS")
    if not arguments or _OPTIMIZED in arguments or own.startswith("/usr/bin/"):
        return own
    try:
        made = subprocess.run([system, "-c", _ENVIRONMENTS], capture_output=True, timeout=60, check=False)
    except OSError:
        return own
    return own if made.returncode else system


if __name__ == "__main__":
    print(faster())
