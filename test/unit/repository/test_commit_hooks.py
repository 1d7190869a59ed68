"""The hooks of pre-commit are the commands of `make lint`, in their order."""

import re

from unit.scripts import ROOT


def test_the_hooks_are_what_lint_runs() -> None:
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert recipe
    commands = [line.strip().lstrip("@").replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"entry: (.+?), language: system", hooks) == commands
