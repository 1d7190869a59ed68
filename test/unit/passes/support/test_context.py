"""Which versions of jaxlib are taken: an older one is one line, a newer one is tried."""

import subprocess
import sys

import pytest

from paropt.passes.support.context import require_known

OLD = "import sys, jaxlib\njaxlib.__version__ = '0.9.2'\n"
SAID = "paropt needs jaxlib 0.10 to 0.12, and this is 0.9.2: pip install --upgrade jax"


def test_an_older_version_is_refused() -> None:
    with pytest.raises(ImportError, match=SAID):
        require_known("0.9.2")


@pytest.mark.parametrize("version", ["0.10.0", "0.12.0.1", "0.13.0", "1.0.0", "0.11.0.dev20260101"])
def test_known_and_newer_versions_are_tried(version: str) -> None:
    require_known(version)


@pytest.mark.parametrize(
    ("code", "status", "line"),
    [
        ("from paropt import cli\nsys.exit(cli.main(['--list-passes']))", 1, f"par-opt: error: {SAID}"),
        ("import paropt.jit", 1, f"ImportError: {SAID}"),
    ],
)
def test_the_user_is_told_in_one_line(code: str, status: int, line: str) -> None:
    done = subprocess.run([sys.executable, "-c", OLD + code], capture_output=True, text=True)
    assert done.returncode == status
    assert done.stderr.splitlines()[-1] == line
