"""FileCheck for what jax lowers: the CHECK lines stand in the docstring of the test function."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Replica groups as jax 0.10 and 0.11, and as jax 0.12 write them: over all 8 devices, and over the axis `data` of a
# 2 x 4 mesh.
SPELLINGS = {
    "$ALL": r"{{dense<\[\[0, 1, 2, 3, 4, 5, 6, 7\]\]> : tensor<1x8xi64>"
    r'|#stablehlo.replica_group_mesh_axes<mesh = @mesh_0, axes = \[#stablehlo.axis_ref<name = "data">\]>}}',
    "$ROWS": r"{{dense<\[\[0, 1, 2, 3\], \[4, 5, 6, 7\]\]> : tensor<2x4xi64>"
    r'|#stablehlo.replica_group_mesh_axes<mesh = @mesh_0, axes = \[#stablehlo.axis_ref<name = "data">\]>}}',
}


def filecheck(test: Callable[..., None], text: str, folder: Path) -> None:
    """Fails unless `text` passes the CHECK lines in the docstring of `test`."""
    checks = inspect.getdoc(test) or ""
    assert "CHECK" in checks, f"{test.__name__} checks nothing"
    for short, pattern in SPELLINGS.items():
        checks = checks.replace(short, pattern)
    file = folder / "checks.txt"
    file.write_text(checks)
    command = [str(Path(sys.executable).parent / "filecheck"), "--enable-var-scope", str(file)]
    ran = subprocess.run(command, input=text, capture_output=True, text=True)
    assert ran.returncode == 0, f"jax writes something else now:\n{ran.stderr}\n{text}"
