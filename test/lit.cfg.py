"""lit: the FileCheck tests. `passes/` one file per pass, `pipelines/` passes together, `par-opt/` the command line."""

import importlib.util
import shutil
import sys
from pathlib import Path

# ruff: noqa: F821  lit defines `config` and `lit_config`

_TEST = Path(__file__).parent
sys.path.append(str(_TEST))  # lit's workers inherit it
from text_format import TextTest  # noqa: E402

_BIN = Path(sys.executable).parent

config.name = "paropt"
config.suffixes = [".mlir"]
# Only these three hold FileCheck tests; modules that tests read are in Inputs folders.
_HERE = ("passes", "pipelines", "par-opt")
config.excludes = ["Inputs", *(path.name for path in _TEST.iterdir() if path.name not in _HERE)]


def _llvm_filecheck() -> str | None:
    """LLVM's FileCheck, the newest of those that Linux distributions install side by side."""
    plain = shutil.which("FileCheck")
    versions = reversed(range(14, 40))
    numbered = (shutil.which(f"FileCheck-{v}") or shutil.which(f"/usr/lib/llvm-{v}/bin/FileCheck") for v in versions)
    return plain or next(filter(None, numbered), None)


_llvm = _llvm_filecheck()
if not _llvm:
    lit_config.note("LLVM's FileCheck is not installed: tests are checked by PyPI's filecheck only")

config.test_format = TextTest(_llvm)
_filecheck = f"'{sys.executable}' '{_TEST.parent / 'tools' / 'filecheck_both.py'}'"
config.substitutions += [
    ("%par-opt", f"'{_BIN / 'par-opt'}'"),
    ("%python", f"'{sys.executable}'"),
    ("FileCheck", f"{_filecheck} --llvm '{_llvm}'" if _llvm else _filecheck),
]
# The plug-ins of the tests. After a `diff`, which lit runs itself, PYTHONPATH is lit's own: tests use `cmp`.
config.environment["PYTHONPATH"] = str(_TEST / "par-opt" / "Inputs")

if importlib.util.find_spec("psutil"):  # lit needs it to end a test that hangs
    config.maxIndividualTestTime = 300  # by the clock: the slowest takes 15 on an idle machine
