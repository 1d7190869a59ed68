"""A stand-in for `ptxas`, which takes much of the time of a compilation for GPUs, and whose code no test runs.

XLA has settled what is sent, held and scheduled before it writes machine code: test/unit/programs/test_machine_code.py.
"""

import hashlib
import importlib.util
import os
import shutil
import stat
import tempfile
from pathlib import Path

ROOT_VARIABLE = "CUDA_ROOT"  # by which jax tells XLA where CUDA is
FOLDER = Path(__file__).parents[1] / "build" / "cuda"
_SCRIPT = """#!/bin/sh
# Writes something where ptxas would write machine code: `ptxas INPUT -o OUTPUT ...`.
case "$1" in --*) exec '{real}' "$@" ;; esac
while [ $# -gt 1 ]; do
  [ "$1" = -o ] && echo nothing > "$2"
  shift
done
"""


def stand_in() -> dict[str, str]:
    """The environment variable by which XLA finds it; none where the user has one, or no compiler is installed."""
    real = _installed()
    if ROOT_VARIABLE in os.environ or real is None:
        return {}
    folder = FOLDER / hashlib.sha256(str(real).encode()).hexdigest()[:16]
    if not folder.exists():
        _make(folder, real)
    return {ROOT_VARIABLE: str(folder)}


def _installed() -> Path | None:
    """Where nvidia-cuda-nvcc is."""
    try:
        found = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        return None
    places = map(Path, found.submodule_search_locations or ()) if found is not None else ()
    return next((place for place in places if (place / "bin" / "ptxas").exists()), None)


def _make(folder: Path, real: Path) -> None:
    """Links to all of `real`, but for `ptxas`; at once, since other processes make it as well."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    (unfinished / "bin").mkdir()
    (unfinished / "nvvm").symlink_to(real / "nvvm")
    for tool in (real / "bin").iterdir():
        if tool.name != "ptxas":
            (unfinished / "bin" / tool.name).symlink_to(tool)
    script = unfinished / "bin" / "ptxas"
    script.write_text(_SCRIPT.format(real=real / "bin" / "ptxas"))
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    try:
        unfinished.replace(folder)
    except OSError:  # another has made it
        shutil.rmtree(unfinished)
