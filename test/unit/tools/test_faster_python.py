"""Which Python the Makefile takes."""

from pathlib import Path

import pytest
from unit.scripts import load

faster_python = load("faster_python")
PLAIN, OPTIMIZED = "'--prefix=/opt' '--enable-shared'", "'--enable-shared' '--enable-optimizations' '--with-lto'"


@pytest.mark.parametrize(
    ("own", "arguments", "status", "is_taken"),
    [
        ("/opt/bin/python3", PLAIN, 0, True),
        ("/opt/bin/python3", OPTIMIZED, 0, False),
        ("/opt/bin/python3", PLAIN, 1, False),  # the system's can't make environments
        ("/opt/bin/python3", None, 0, False),
        ("/usr/bin/python3", PLAIN, 0, False),  # Debian's own does not tell
    ],
)
def test_the_systems_is_taken_where_this_one_is_slow(
    own: str, arguments: str | None, status: int, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: arguments)
    system = tmp_path / "python"
    system.write_text(f"#!/bin/sh\nexit {status}\n")
    system.chmod(0o755)
    assert faster_python.faster(own, str(system)) == (str(system) if is_taken else own)


def test_without_one_of_the_system_it_is_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda name: PLAIN)
    assert faster_python.faster("/opt/bin/python3", str(tmp_path / "none")) == "/opt/bin/python3"
