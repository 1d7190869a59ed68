"""The scripts of docs/planning.md run as they are written, one after the other, on simulated devices."""

import os
import re
import subprocess
import sys
from pathlib import Path

from unit.scripts import ROOT

from paropt.plan import Plan


def test_the_scripts_of_the_page(tmp_path: Path) -> None:
    found = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "planning.md").read_text(), re.M | re.S)
    first, own, staged = found
    assert "run.place" in staged  # of a plan with stages: test_stage_plans.py
    script = tmp_path / "train.py"
    script.write_text(first.replace('target="cpu:8"', 'target="cpu:8", seconds=0') + own)  # templates that always run
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    losses = [float(line) for line in re.findall(r"^\d\.\d+$", done.stdout, re.M)]
    assert len(losses) == 3 and losses[2] < losses[0]
    assert done.stdout.count("<- best") == 2 and re.search(r"^mine +data=8 +once ", done.stdout, re.M)
    assert Plan.load(tmp_path / "plan.toml").target == "cpu:8"
    assert "<html" in (tmp_path / "plan.html").read_text()
