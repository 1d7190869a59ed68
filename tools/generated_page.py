"""What the scripts that generate a page from the code have in common: write it, or say how it is stale."""

import argparse
import difflib
from collections.abc import Callable
from pathlib import Path


def main_of(description: str | None, path: Path, page: Callable[[], str], source: str) -> int:
    """Writes what `page` makes; with --check, returns 1 where `path` differs from it, and prints how.

    `source` names what the page is made of.
    """
    name = f"docs/{path.name}"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help=f"fail when {name} is stale; write nothing")
    if not parser.parse_args().check:
        path.write_text(page())
        return 0
    written = path.read_text() if path.exists() else ""
    stale = list(difflib.unified_diff(written.splitlines(), page().splitlines(), name, source))
    if stale:
        print("\n".join([*stale[:20], f"{name} is stale: run `make docs`"]))
    return 1 if stale else 0
