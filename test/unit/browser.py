"""Pages in a browser, where one is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# No sandbox: CI runs as root. The rest keeps the browser from looking up hosts at its start.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
).split()
SECONDS = 120
WINDOW = (1200, 1000)

needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: the page is not opened")


def opened(page: str, folder: Path, *flags: str) -> bytes:
    """What Chromium prints when it opens the page."""
    path = folder / "report.html"
    path.write_text(page)
    width, height = WINDOW
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", *flags]
    return subprocess.run([*command, path.as_uri()], check=True, capture_output=True, timeout=SECONDS).stdout
