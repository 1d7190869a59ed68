"""Makes an environment for each trainer of the gallery, with this Python: `gallery_environments.py .venv [PACKAGE...]`.

That of `maxtext` is `.venv-maxtext`. Packages are installed first, then par-opt, and another jax than they ask for
where the catalog says so.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gallery_catalog import ENVIRONMENTS

ROOT = Path(__file__).resolve().parent.parent


def main(prefix: str, chosen: Sequence[str]) -> None:
    for package in chosen or ENVIRONMENTS:
        folder = f"{prefix}-{package}"
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for command in commands(package):
            python = str(Path(folder).resolve() / "bin" / "python")
            subprocess.run([python, "-m", *command.replace("'", "").split()], check=True, cwd=ROOT)


def commands(package: str) -> list[str]:
    """Those that install it and par-opt: pip takes an hour to find versions for Kauldron that agree, uv seconds."""
    wanted = ENVIRONMENTS[package]
    return [
        "pip install uv",
        f"uv pip install {' '.join(map(_quoted, wanted.packages))}",
        f"uv pip install -e '.[tpu,gpu]' {wanted.jax}".strip(),
    ]


def _quoted(requirement: str) -> str:
    return f"'{requirement}'" if set(requirement) & set("[<>") else requirement


if __name__ == "__main__":
    if len(sys.argv) < 2 or {*sys.argv[2:]} - {*ENVIRONMENTS}:
        sys.exit(f"usage: gallery_environments.py FOLDER [{'|'.join(ENVIRONMENTS)}]...")
    main(sys.argv[1], sys.argv[2:])
