"""The packages, and which way imports go."""

import ast
import functools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.scripts import ROOT

FOLDERS = {"paropt": ROOT / "pyext", "paropt.passes": ROOT / "passes"}
PRIVATE_ROOTS = ("jax._src", "jaxlib.mlir._mlir_libs", "jaxlib._")
LONGEST_FILE = 500

# The packages, low to high; docs/design.md says what is in each. PUBLIC stands for the files beside the packages.
PUBLIC = "the library's own names"
COMMAND = ("cli", "__main__")  # files; the others are folders
LAYERS = {
    "paropt.passes": (
        *("support", "ir", "sharding", "dataflow", "rewrite", "reductions", "spmd"),
        *("accumulators", "deferral", "decisions", "unrolled", "microbatch", "outline", "state", "pipelining", PUBLIC),
    ),
    "paropt": (
        *(
            "base",
            "schedules",
            "process",
            "hlo",
            "numeric",
            "verify",
            "modules",
            "clusters",
            "costs",
            "reports",
            "hook",
            "stages",
            "planning",
            PUBLIC,
        ),
        *("command", *COMMAND),
    ),
}

# The work-lists of `passes/` outside of the engine, by file and function, and why they are no walks over values.
ENGINE = "passes/dataflow/engine.py"
WORK_LISTS = {
    "passes/dataflow/min_cut.py _levels": "a flow network: nodes and edges are numbers, and their distances are asked for",
    "passes/dataflow/min_cut.py _augment": "a search for one path, which goes back where it is blocked",
    "passes/fuse_loops.py fuse_loops": "the loops are rewritten on the way, and a fused one may be fused again",
    "passes/inline_calls.py _callees_first": "Tarjan's strongly connected components, of names of functions",
    "passes/rewrite/erase.py erase_unread": "what it walks over is erased on the way, and must not be remembered",
    "passes/sharding/depth_first.py _depth_first": "XLA's order of ops, of numbers; it stands below the engine",
    "passes/spmd/xla_quirks/in_place.py split_by": "takes axes for the factors of a dimension, one after the other",
    "passes/unrolled/packs.py _align": "two queues: what does not look alike waits for all others",
}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if ".venv" not in path.parts)


def imported(path: Path) -> Iterator[str]:
    """The modules and names that a file imports, dotted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{name.name}" for name in node.names)


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_declared_packages_are_the_folders_on_disk() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = [
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in FOLDERS.items()
        for path in folder.rglob("__init__.py")
    ]
    assert sorted(declared) == sorted(found)


def test_passes_never_import_jax_nor_what_uses_them() -> None:
    for path in sources("passes"):
        wrong = [n for n in imported(path) if is_within(n, "jax")]
        wrong += [n for n in imported(path) if is_within(n, "paropt") and not is_within(n, "paropt.passes")]
        assert wrong == [], f"{path.relative_to(ROOT)} imports {wrong}"


@pytest.mark.parametrize("package", LAYERS)
def test_packages_import_downwards_only(package: str) -> None:
    """Imports within functions included: no cycle of packages, though files of one may import each other."""
    files = [path for path in FOLDERS[package].rglob("*.py") if path.stem != "__init__"]
    wrong = [f"{path.relative_to(ROOT)} imports {name}" for path in files for name in imports_upwards(path, package)]
    assert files and wrong == []


def imports_upwards(path: Path, package: str) -> list[str]:
    """What a file of `package` imports from a layer above its own."""
    folder = FOLDERS[package]
    own = path.relative_to(folder).parts[0] if path.is_relative_to(folder) else path.parent.name
    within = [name.removeprefix(f"{package}.") for name in imported(path) if is_within(name, package)]
    if package == "paropt":
        within = [name for name in within if not is_within(name, "passes")]
    return [name for name in within if level_of(name, package) > level_of(own.removesuffix(".py"), package)]


def level_of(name: str, package: str) -> int:
    layers = LAYERS[package]
    first = name.partition(".")[0]
    return layers.index(first if first in layers else PUBLIC)


def test_an_import_upwards_is_found(tmp_path: Path) -> None:
    file = tmp_path / "ir" / "loops.py"
    file.parent.mkdir()
    file.write_text(
        "def f():\n    from paropt.passes.spmd import pin\n    from paropt.passes.support.remarks import require\n"
    )
    assert imports_upwards(file, "paropt.passes") == ["spmd.pin"]
    file.write_text("from paropt.passes.defer_sync import defer_sync\n")
    assert imports_upwards(file, "paropt.passes") == ["defer_sync.defer_sync"]


@pytest.mark.parametrize("package", LAYERS)
def test_layers_are_the_packages_on_disk(package: str) -> None:
    found = {path.parent.name for path in FOLDERS[package].glob("*/__init__.py")}
    assert found == {*LAYERS[package]} - {PUBLIC, *COMMAND}


def test_the_design_page_names_all_packages_and_passes() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    packages = [name for layers in LAYERS.values() for name in layers if name not in (PUBLIC, *COMMAND)]
    passes = [path.stem.replace("_", "-") for path in (ROOT / "passes").glob("*.py") if path.stem != "__init__"]
    assert [name for name in packages if f"      {name}/ " not in page] == []
    assert [name for name in passes if f"`{name}`" not in page] == []


SHARED = [path for path in sources("passes") if path.parent.name != "passes" and path.stem != "__init__"]


@functools.cache
def imported_by_tests() -> set[str]:
    """What the tests import."""
    return {name for path in sources("test") for name in imported(path)}


@pytest.mark.parametrize("path", SHARED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_reader_finds_the_tests_of_a_file(path: Path) -> None:
    """A test imports it, or its docstring ends in `Tests: test/passes/a.mlir, test/unit/test_b.py.`"""
    last = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[-1]
    if not last.startswith("Tests: "):
        name = ".".join(["paropt", *path.relative_to(ROOT).with_suffix("").parts])
        assert any(is_within(found, name) for found in imported_by_tests()), "no test imports it, and it names none"
        return
    assert last.endswith(".")
    named = last.removeprefix("Tests: ").removesuffix(".").split(", ")
    assert [file for file in named if not (ROOT / file).is_file()] == []


QUIRKS = [path for path in SHARED if path.parent.name == "xla_quirks"]


@pytest.mark.parametrize("path", QUIRKS, ids=lambda path: path.stem)
def test_a_quirk_says_where_it_was_seen(path: Path) -> None:
    """Its docstring has three lines for that, and the design page has the test in the file's row."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    said = re.search(r"^Target: .+\.\nMeasured with: jaxlib \d.+\.\nReproducer: (.+)::(.+)\.$", doc, re.M)
    assert said is not None, "its docstring has no three lines Target, Measured with, Reproducer"
    test, function = said.groups()
    assert f"def {function}(" in (ROOT / test).read_text()
    assert quirk_rows().get(path.name) == test


def quirk_rows() -> dict[str, str]:
    """The test of each file, as the table of the design page has it."""
    page = (ROOT / "docs" / "design.md").read_text()
    row = r"^\| \[(\w+\.py)\]\(\.\./passes/spmd/xla_quirks/\1\) \|.*\| \[\w+\.py\]\(\.\./(\S+)\) \|$"
    return dict(re.findall(row, page, re.M))


def test_the_design_page_has_a_row_for_each_quirk() -> None:
    assert QUIRKS
    assert sorted(quirk_rows()) == sorted(path.name for path in QUIRKS)


MEASURED = ("passes", "pyext/hook", "pyext/planning/estimates.py")
# Of what is read, tried or held.
LIMITS = {"MAX_DEVICES", "MAX_NESTING", "MOST_OPS", "MOST_TRIPS", "OLDEST", "UNLIMITED"}
NUMBER = re.compile(r"^([A-Z][A-Z_]*) = (\(?\d[^#\n]*?)(?: *#.*)?$", re.M)


def test_the_design_page_has_a_row_for_each_constant_of_a_compiler() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    row = r"^\| `([A-Z_]+ = .+)` \| \[(.+\.py)\]\(\.\./(\S+/\2)\) \| .+ \| .+ \| \[.+\]\(\.\./(\S+)\) \|$"
    rows = re.findall(row, page, re.M)
    files = [path for name in MEASURED for path in [*(ROOT / name).rglob("*.py"), ROOT / name] if path.is_file()]
    numbers = {(str(p.relative_to(ROOT)), *found) for p in files for found in NUMBER.findall(p.read_text())}
    assert {name for _, name, _ in numbers} >= LIMITS
    constants = {(file, f"{name} = {value}") for file, name, value in numbers if name not in LIMITS}
    assert constants
    assert {(file, constant) for constant, _, file, _ in rows} == constants
    unnamed = [
        (constant, by)
        for constant, *_, by in rows
        if not re.search(rf"\b{constant.split()[0]}\b", (ROOT / by).read_text())
    ]
    assert unnamed == [], "what a constant was measured by says so"


# Pairs on purpose.
NAMESAKES = {
    "pipeline",  # passes one after the other (passes/support), and stages of a step: `paropt.pipeline`
}


def test_no_two_files_share_a_name() -> None:
    """A reader who hears the name of a file knows which one it is."""
    names = Counter(
        path.stem for path in sources("passes", "pyext", "tools") if path.stem not in ("__init__", "__main__")
    )
    assert {name for name, count in names.items() if count > 1} == NAMESAKES


def test_each_private_name_is_imported_in_one_file() -> None:
    users: dict[str, set[str]] = {}
    for path in sources("passes", "pyext"):
        for name in imported(path):
            if name.startswith(PRIVATE_ROOTS):
                users.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert users, "the private names moved: PRIVATE_ROOTS is stale"
    assert {name: files for name, files in users.items() if len(files) > 1} == {}


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in sources("passes", "pyext", "test", "tools")}
    assert {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > LONGEST_FILE} == {}


def work_lists(path: Path) -> list[str]:
    """The functions of a file with a loop that takes the next to do from a list, once for each such loop."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While) and any(map(takes_next, ast.walk(node)))]
    around = [[f for f in functions if f.lineno <= loop.lineno <= (f.end_lineno or 0)] for loop in loops]
    return [max(each, key=lambda function: function.lineno).name if each else "" for each in around]


def takes_next(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in ("pop", "popleft", "popitem", "heappop")


def test_work_lists_are_in_the_engine() -> None:
    """A walk over values is a call of the engine: one order, one way to remember what was met."""
    files = {str(path.relative_to(ROOT)): path for path in sources("passes")}
    found = [f"{name} {function}" for name, path in files.items() if name != ENGINE for function in work_lists(path)]
    assert sorted(found) == sorted(WORK_LISTS)
    assert work_lists(files[ENGINE])


@pytest.mark.parametrize(
    "loop",
    [
        "while waiting:\n        value = waiting.pop()",
        "while self._fresh:\n        self.use(self._fresh.pop(0))",
        "while waiting and len(seen) < 9:\n        value = waiting.popleft()",
        "while True:\n        if not waiting:\n            break\n        _, value = heapq.heappop(waiting)",
        "while waiting:\n        while more:\n            pass\n        value, _ = waiting.popitem()",
    ],
)
def test_a_new_work_list_is_found(loop: str, tmp_path: Path) -> None:
    file = tmp_path / "walk.py"
    file.write_text(f"def outer(waiting):\n    def walk():\n        {loop.replace(chr(10), chr(10) + '    ')}\n")
    assert work_lists(file) == ["walk"]
    file.write_text("def f(waiting, known):\n    while known:\n        known = step(known)\n    waiting.pop()\n")
    assert work_lists(file) == []
