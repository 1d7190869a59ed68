"""Options of par-opt: which there are, which go together, and their completion."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from command import par_opt

from paropt import cli
from paropt.command import option_parser


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--pas"], ["--passes", "--pass-pipeline"]),
        (["--passes", "=", "grad"], ["grad-sync"]),
        (["--passes", "=", "cse,inline-c"], ["cse,inline-calls"]),
        (["-p", "fuse-l"], ["fuse-loops"]),
        (["--audit", "="], ["text", "json", "html", "png"]),
        (["--audit", "=", "h"], ["html"]),
    ],
)
def test_completion_in_bash(words: list[str], expected: list[str]) -> None:
    quoted = " ".join(f"'{word}'" for word in ["par-opt", *words])
    script = f"{par_opt('--completion=bash').stdout}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _par_opt"
    done = subprocess.run(
        ["bash", "-c", f'{script}; printf "%s\\n" "${{COMPREPLY[@]}}"'], capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_completion_knows_all_options_and_passes() -> None:
    script = par_opt("--completion=zsh").stdout
    assert script.startswith("autoload -U +X bashcompinit")
    spellings = [spelling for action in option_parser.declared() for spelling in action.option_strings]
    assert f"-W '{' '.join(spellings)}'" in script
    assert {"grad-sync", "hsdp", "inline-calls", "split-mesh-axis"} <= set(re.findall(r"[\w-]+", script))
    assert par_opt("--completion=tcsh").stderr.startswith("par-opt: error: argument --completion: invalid choice")


def test_no_implicit_module() -> None:
    function = "func.func @f() {\n  return\n}\n"
    done = par_opt("--no-implicit-module", text=function)
    assert (done.stdout, done.stderr) == (function, "")
    assert par_opt("--no-implicit-module", "-p", "cse", text="module {}").stdout == "module {\n}\n"
    done = par_opt("--no-implicit-module", "-p", "cse", text=function)
    said = "par-opt: error: -: passes run on a builtin.module, and the top-level operation is func.func\n"
    assert (done.returncode, done.stderr) == (1, said)
    done = par_opt("--no-implicit-module", text=function + "module {}")
    assert "source must contain a single top-level operation" in done.stderr


def test_an_option_is_given_once_and_outputs_are_apart(tmp_path: Path) -> None:
    for twice in (["--audit", "--audit=json"], ["--remarks-filter=a", "--remarks-filter=b"], ["-o", "a", "-o", "a"]):
        with pytest.raises(cli.UsageError, match="it is given twice"):
            cli.parse_arguments(twice)
    assert cli.parse_arguments(["--remarks", "--remarks"]).remarks, "a flag says the same twice"
    assert len(cli.parse_arguments(["--audit", "--fail-if=a", "--fail-if=b"]).fail_if) == 2
    same = par_opt("-o", tmp_path / "x", "--certificate", tmp_path / "." / "x", text="module {}")
    assert f"-o and --certificate both write '{tmp_path}/x'" in same.stderr
    assert par_opt("-o", os.devnull, "--certificate", os.devnull, text="module {}").returncode == 0


def test_modules_that_came_with_a_plugin_are_plugins_and_others_are_not(tmp_path: Path) -> None:
    source = "from paropt.passes.support.registry import name_pipeline\nname_pipeline('ours-{0}', 'cse', 'Ours.')\n"
    (tmp_path / "first.py").write_text("import second\n" + source.format("first"))
    (tmp_path / "second.py").write_text(source.format("second"))
    env = {"PYTHONPATH": str(tmp_path)}
    both = par_opt("--load-pass-plugin=first", "--load-pass-plugin=second", "-p", "ours-second", env=env)
    assert (both.returncode, both.stderr) == (0, "")
    for module in ("os", "json", "paropt.cli"):
        done = par_opt(f"--load-pass-plugin={module}")
        assert f"plug-in `{module}` registers no pass" in done.stderr
