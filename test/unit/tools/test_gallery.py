"""`make gallery`: its catalog, its page, what it says when something is missing or dies, and a few programs of it."""

import ast
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.scripts import ROOT

GALLERY = ROOT / "tools" / "gallery.py"
sys.path.insert(0, str(ROOT / "tools"))  # its parts import each other

import gallery  # noqa: E402
import gallery_environments  # noqa: E402
import gallery_page  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from gallery_catalog import ENTRIES, ENVIRONMENTS, PACKAGES, TARGETS, TIMED, Entry  # noqa: E402
from gallery_multiples import Multiples, multiples  # noqa: E402
from gallery_values import values_of  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec  # noqa: E402
from slow_link import LinkError  # noqa: E402

import paropt  # noqa: E402

NEEDED = {"marin-levanter": "levanter", "keras": "keras_hub", "flax": "flax", "optax": "optax.microbatching"}


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(GALLERY), *options], capture_output=True, text=True, timeout=900)


def side(**changes: Any) -> dict[str, Any]:
    made = {"wire": 4e3, "is_exact": True, "runs": 4, "in_loops": 4, "temporary": 2e3, "seconds": 1.0}
    return {**made, **changes}


def measured(**changes: Any) -> dict[str, Any]:
    made = {
        "target": "cpu:8",
        "ideal": 1e3,
        "alone": side(),
        "ours": side(wire=1e3, runs=1, in_loops=0),
        "stays": [],
        "warnings": [],
        "values": {"largest": 2e-7, "arrays": 9, "noise": 0, "wrong": 0},
        "problem": "",
    }
    return {**made, **changes}


def result(target: dict[str, Any] | None = None, problem: str = "") -> dict[str, Any]:
    versions = {} if problem else {"optax": "1.2.3", "jax": "4.5.6"}
    targets = {} if target is None else {target["target"]: target}
    return {"date": "2026-01-02", "python": "3.11.0", "versions": versions, "problem": problem, "targets": targets}


def test_the_page_is_what_was_measured() -> None:
    """No number in it was written by hand."""
    page = ROOT / "docs" / "gallery.md"
    assert page.read_text() == gallery_page.page(json.loads(page.with_suffix(".json").read_text()))


def test_the_page_knows_a_reason_for_all_that_is_worse() -> None:
    found = json.loads((ROOT / "docs" / "gallery.json").read_text())
    is_worse = {
        entry.name: any(gallery_page.worse(entry, each) for each in found[entry.name]["targets"].values())
        for entry in ENTRIES
        if entry.name in found
    }
    assert is_worse == {entry.name: bool(entry.worse) for entry in ENTRIES if entry.name in found}, (
        "a row without a reason, or a reason"
    )


def test_entries_name_functions_and_lines_that_are_there() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)
    assert {entry.make.partition(":")[0] for entry in ENTRIES} == set(PACKAGES)
    for entry in ENTRIES:
        module, _, function = entry.make.partition(":")
        source = ast.parse((ROOT / "tools" / "gallery_programs" / f"{module}.py").read_text())
        found = {node.name: node for node in source.body if isinstance(node, ast.FunctionDef)}[function].args
        assert set(entry.arguments) <= {argument.arg for argument in found.args + found.kwonlyargs}
        assert "paropt." in entry.after and "paropt" not in entry.before
        assert entry.passes in entry.after or entry.passes == "grad-sync"


@pytest.mark.parametrize(
    "name", ["optax_microbatch", "optax_accumulate", "keras_fit", "keras_accumulate", "levanter_gpt2"]
)
def test_a_program_is_measured(name: str, tmp_path: Path) -> None:
    """Skipped where the extra that it needs is not installed."""
    (entry,) = gallery._entries(name)
    if not _is_installed(NEEDED[entry.packages[0]]):
        pytest.skip(f"{entry.packages[0]} is not installed")
    page = tmp_path / "docs" / "gallery.md"
    done = run("--only", name, "--targets", "cpu:8", "--out", str(page))
    assert done.returncode == 0, done.stderr
    assert f"{name}: done" in done.stdout
    found = json.loads(page.with_suffix(".json").read_text())[name]
    assert set(found["versions"]) == {*entry.packages, "jax", "jaxlib"}
    (numbers,) = found["targets"].values()
    assert numbers["values"]["wrong"] == 0 and numbers["ours"]["wire"] <= numbers["alone"]["wire"]
    if name != "keras_fit":  # one call per micro-batch: each reduces its gradients
        assert numbers["ours"]["wire"] == pytest.approx(numbers["ideal"], rel=5e-3)
    text = page.read_text()
    assert entry.after in text and "Not measured yet." in text


@pytest.mark.parametrize(
    "options, message",
    [
        (["--only", "flex_*"], "no program is called 'flex_*'; there are: levanter_gpt2,"),
        (["--targets", "cpu:8,gpu"], "'gpu' is not one of cpu:8, tpu:v5e:2x4, gpu:h100:1x1x8"),
        (["--out", str(GALLERY / "page.md")], "cannot make its folder"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], message: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_only_page_measures_nothing(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "gallery.md"
    known = {ENTRIES[0].name: result(measured())}
    page.parent.mkdir()
    page.with_suffix(".json").write_text(json.dumps(known))
    done = run("--only-page", "--out", str(page))
    assert (done.returncode, done.stderr) == (0, "")
    assert page.read_text() == gallery_page.page(known)
    assert json.loads(page.with_suffix(".json").read_text()) == known


@pytest.mark.parametrize(
    ("said", "row"),
    [
        ('{"alone": [4.0, 6.0, 5.0], "paropt": [2.0, 2.0, 5.0]}', "| 5.00 | 2.00 | 2.00 | 1.00 to 3.00 | 3 |"),
        ("", "|  |  |  |  |  | needs root |"),
    ],
)
def test_step_times_are_kept_beside_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, row: str
) -> None:
    """XLA alone takes 5 s, par-opt 2 s: twice as fast in the middle pair. A machine without a link gives a reason."""

    def joined(command: list[str]) -> str:
        assert command[-3:] == [TIMED[0], "--pairs", str(gallery.PAIRS)]
        if not said:
            raise LinkError("needs root")
        return said

    out = tmp_path / "gallery.md"
    counted = result(measured())
    out.with_suffix(".json").write_text(json.dumps({TIMED[0]: counted}))
    monkeypatch.setattr(gallery.bench_times, "joined", joined)
    monkeypatch.setattr(gallery, "TIMED", TIMED[:1])
    python = _python(tmp_path, "")
    monkeypatch.setattr(sys, "argv", ["gallery.py", "--times", "--python", python, "--out", str(out)])
    assert gallery.main() == 0
    found = json.loads(out.with_suffix(".json").read_text())[TIMED[0]]
    assert {**found, "times": None} == {**counted, "times": None}
    assert f"[{TIMED[0]}](#{TIMED[0]}) {row}" in out.read_text()


def test_damaged_results_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "gallery.json").write_text('{"flax_linen": ')
    done = run("--out", str(tmp_path / "gallery.md"))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "gallery.json: Expecting value: line 1 column 16" in line


def test_packages_that_are_missing_are_named_and_what_is_known_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known, unknown = (entry.name for entry in ENTRIES if entry.packages[0] == "flax" and "fsdp" not in entry.name)
    out = tmp_path / "gallery.md"
    out.with_suffix(".json").write_text(json.dumps({known: result(measured())}))
    python = _python(tmp_path, "import sys; sys.exit(1)")
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(sys, "argv", ["gallery.py", "--only", f"{known},{unknown}", "--out", str(out)])
    assert gallery.main() == 1
    assert capsys.readouterr().out.count("not installed: flax, optax") == 2
    found = json.loads(out.with_suffix(".json").read_text())
    assert found[known] == result(measured()) and found[unknown]["problem"] == "not installed: flax, optax"


def test_the_target_that_a_program_dies_of_is_left_out_by_the_next_process(tmp_path: Path) -> None:
    child = _python(
        tmp_path,
        "import json, os, sys",
        "if sys.argv[1] == '-c': sys.exit()",
        "for target in sys.argv[3:]:",
        "    if target == 'b': sys.exit('check failed: x == y')",
        "    if target == 'd': sys.exit(0)",
        "    print('noise'); print('gallery: ' + json.dumps({'target': target, 'problem': 'none'}), flush=True)",
    )
    found = gallery.measured(ENTRIES[0], ["a", "b", "c", "d"], child, tmp_path, lambda line: None)
    problems = {target: measured["problem"] for target, measured in found["targets"].items()}
    assert problems == {"a": "none", "b": "status 1: check failed: x == y", "c": "none", "d": "status 0: no message"}


@pytest.mark.parametrize(
    "target, alarm",
    [
        (measured(), None),
        (measured(warnings=["paropt: it fell back"]), "cpu:8: paropt: it fell back"),
        (
            measured(values={"largest": 1.0, "arrays": 9, "noise": 0, "wrong": 2}),
            "cpu:8: 2 results differ by more than rounding",
        ),
        ({**gallery.DEAD, "target": "cpu:8", "problem": "it died"}, "cpu:8: it died"),
    ],
)
def test_what_is_wrong_is_an_alarm(target: dict[str, Any], alarm: str | None) -> None:
    assert gallery_page.alarms(result(target)) == ([alarm] if alarm else [])


def test_what_the_page_says() -> None:
    entry = ENTRIES[0]
    assert cells(measured(), entry) == ["cpu:8", "4", "1", "4.00", "1.00", "4 (4)", "1 (0)", "2", "2", "1.0", "1.0"]
    assert cells(measured(ideal=None, alone=side(is_exact=False)), entry)[1:6] == [">= 4", "1", "", "", ">= 4 (4)"]
    stay = {"kind": "all-gather", "wire": 3e3, "runs": 8, "reasons": []}
    stays = [stay, {**stay, "kind": "all-reduce", "reasons": ["[defer-sync] because"]}]
    text = page(measured(stays=stays), entry)
    assert "- all-gathers (cpu:8 3 kB in 8 runs): the program's own, or XLA's" in text
    assert "- all-reduces (cpu:8 3 kB in 8 runs): [defer-sync] because" in text
    assert "Values: equal within rounding, largest difference 2e-07." in text
    assert "| 4.00 → 1.00 (fell back) |" in page(measured(warnings=["paropt: no"]), entry)
    assert "| failed |" in page({**gallery.DEAD, "target": TARGETS[0], "problem": "it died"}, entry)
    assert "Not measured: not installed: optax." in gallery_page.page(
        {entry.name: result(problem="not installed: optax")}
    )


def updated(*signs: float) -> list[np.ndarray]:
    """A parameter of ones that Adam has moved by 0.01 in each direction."""
    return [1 + 0.01 * np.array(signs)]


@pytest.mark.parametrize(
    ("ours", "nudged", "wrong"),
    [
        (updated(1, 1, 1, 1), updated(1, 1, 1, 1), 0),
        (updated(1, 1, 1, -1), updated(1, 1, 1, 1), 1),
        (updated(1, 1, 1, -1), updated(1, 1, 1, 0), 0),  # rounding changes it as well
        (updated(1, 1, -9, 1), updated(1, 1, 1, 0), 0),  # by more, but at no more elements
        (updated(-9, -9, -9, -9, -9), updated(1, 1, 1, 1, 0), 1),
        (updated(1, 1, 1, np.nan), updated(1, 1, 1, 0), 1),
    ],
)
def test_what_rounding_does_not_explain_is_wrong(ours: list[Any], nudged: list[Any], wrong: int) -> None:
    assert values_of(updated(*[1] * len(ours[0])), ours, nudged).wrong == wrong


@pytest.mark.parametrize("wire, is_said", [(2e3, True), (1e3, False), (4e3, False)])
def test_why_more_than_the_ideal_is_said_where_something_is_gained(wire: float, is_said: bool) -> None:
    entry = next(entry for entry in ENTRIES if entry.more)
    assert (entry.more in page(measured(ours=side(wire=wire)), entry)) == is_said


def page(target: dict[str, Any], entry: Entry) -> str:
    return gallery_page.page({entry.name: result(target)})


def cells(target: dict[str, Any], entry: Entry) -> list[str]:
    short, line = [line for line in page(target, entry).splitlines() if line.startswith("| cpu:8 |")]
    assert short.startswith(f"| cpu:8 | {0 if target['problem'] else 1} |")
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("package", ENVIRONMENTS)
def test_the_page_says_how_a_trainer_is_installed(package: str) -> None:
    entry = next(entry for entry in ENTRIES if entry.packages[0] == package)
    _, first, second = gallery_environments.commands(package)
    assert package in first and second.startswith("uv pip install -e '.[tpu,gpu]'")
    assert f"Installed by `pip install uv`, then `{first}`, then `{second}`." in gallery_page.page(
        {entry.name: result(measured())}
    )


def test_wrong_environments_are_one_line() -> None:
    script = GALLERY.with_name("gallery_environments.py")
    done = subprocess.run([sys.executable, str(script), "venv", "flex"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"usage: gallery_environments.py FOLDER [{'|'.join(ENVIRONMENTS)}]...\n"


def test_what_the_page_says_of_trainers() -> None:
    kinds = {"all-gather": 3e3, "all-reduce": 1e3, "all-to-all": 2e3}
    alone = side(kinds=kinds, gathered=4.0, reduced=8.0)
    ours = side(kinds={"reduce-scatter": 1e3}, gathered=1.0, reduced=1.0)
    text = page(measured(alone=alone, ours=ours), ENTRIES[-1])
    assert "| cpu:8 | 4.00 | 1.00 | 8.00 | 1.00 | 3 | 0 | 1 | 1 | 2 | 0 |" in text
    none = [{**each, "gathered": None} for each in (alone, ours)]
    assert "| cpu:8 |  |  | 8.00 | 1.00 |" in page(measured(alone=none[0], ours=none[1]), ENTRIES[-1])
    assert "gathered alone" not in page(measured(), ENTRIES[-1])


@pytest.mark.parametrize(
    "shape, spec, once",
    [
        ((8,), "data", Multiples(1.0, 1.0)),
        ((2, 4), "data", Multiples(1.0, 1.0)),  # the gradient of a shard is reduced over the other axis, too
        ((8,), None, Multiples(None, 1.0)),
    ],
)
def test_parameters_gathered_and_gradients_reduced_are_counted(shape: Any, spec: Any, once: Multiples) -> None:
    """A loop of 4 trips does both 4 times where XLA alone compiles it, but for what does not change."""
    names = ("other", "data")[-len(shape) :]
    mesh = jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(shape))
    w = jax.device_put(jnp.ones((16, 16)), NamedSharding(mesh, PartitionSpec(spec)))
    x = jax.device_put(jnp.ones((4, 16, 16)), NamedSharding(mesh, PartitionSpec(None, names)))

    def step(w: jax.Array, x: jax.Array) -> jax.Array:
        def add(total: jax.Array, x: jax.Array) -> Any:
            return total + jax.grad(lambda w: (x @ w).var())(w), None

        return w - jax.lax.scan(add, jnp.zeros_like(w), x)[0]

    executable = paropt.jit(step, passes="grad-sync{policy=once}").lower(w, x).compile()
    runs = [(each.executions or 0, each) for each in paropt.audit(executable, mesh=mesh).collectives]
    found = multiples(runs, [w], names, mesh)
    assert found.gathered == once.gathered and found.reduced == pytest.approx(once.reduced)
    twice = multiples([*runs, *runs], [w], names, mesh)
    assert twice.reduced == pytest.approx(2.0)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


def _python(folder: Path, *lines: str) -> str:
    """The path of a script in the place of a Python."""
    path = folder / "python"
    path.write_text("\n".join([f"#!{sys.executable}", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "passes, ours, said",
    [
        ("grad-sync", {"wire": 5e3}, "5 kB sent for 4"),
        ("grad-sync{finite=true}", {"runs": 5}, "5 collectives for 4"),
        ("grad-sync", {"temporary": 2050}, "2 kB of temporary memory for 2"),
        ("grad-sync", {"temporary": 2040}, ""),
        ("grad-sync{policy=once}", {"temporary": 2e6}, ""),  # asked for
    ],
)
def test_what_is_worse_than_by_xla_alone(passes: str, ours: dict[str, Any], said: str) -> None:
    entry = replace(ENTRIES[0], passes=passes, worse="so it is")
    found = gallery_page.worse(entry, measured(alone=side(), ours=side(**ours)))
    assert found == ([said] if said else [])
    page = gallery_page.page({ENTRIES[0].name: result(measured(alone=side(), ours=side(runs=5)))})
    assert f"- {ENTRIES[0].name}, cpu:8: 5 collectives for 4. {ENTRIES[0].worse}" in page
    assert "temporary memory counts. Nowhere." in gallery_page.page({ENTRIES[0].name: result(measured())})


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"gathered": 1.0, "reduced": 1.0}, ""),
        ({"gathered": 2.0, "reduced": 1.0}, "gathered 2.00 times (`p['w']` 3 kB: the loop changes the parameter)"),
        (
            {"gathered": 1.0, "reduced": 1.25, "kinds": {"all-reduce": 1e3, "reduce-scatter": 15e2}},
            "reduced 1.25 times (1 kB are all-reduced, where reduce-scatters would send half)",
        ),
        (
            {"gathered": 1.0, "reduced": 2.0, "kinds": {"reduce-scatter": 4e3}},
            "reduced 2.00 times (all-reduces and reduce-scatters that stay: 2 kB in 4 runs)",
        ),
        ({"gathered": 1.0, "reduced": 1.0, "wire": 5e3}, "5 kB sent for 4 by XLA alone"),
    ],
)
def test_rows_that_gather_or_reduce_more_than_once(changes: dict[str, Any], told: str) -> None:
    stay = {"kind": "reduce-scatter", "wire": 2e3, "runs": 4, "reasons": []}
    at_use = [{"name": "p['w']", "bytes": 3e3, "reason": "the loop changes the parameter"}]
    ours = side(**{"wire": 1e3, "kinds": {}, **changes})
    row = measured(ideal=None, ours=ours, alone=side(kinds={}, gathered=4.0, reduced=4.0), stays=[stay], at_use=at_use)
    section = (
        gallery_page.page({"easydel_fsdp_once": result(row)}).partition("## More than once")[2].partition("\n## ")[0]
    )
    line = f"- [easydel_fsdp_once](#easydel_fsdp_once), cpu:8: {told}"
    assert section.splitlines()[4:] == ([line] if told else []), section
