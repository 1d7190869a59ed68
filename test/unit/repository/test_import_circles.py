"""Files import each other in no circle, not even inside of functions: each can be read after those that it needs."""

from pathlib import Path

from unit.repository.test_layout import FOLDERS, imported

# What shows an audit reads it, and is loaded when somebody asks the audit for its text, its page or its picture.
SHOWN = {
    f"paropt.reports.{name}"
    for name in ("comparison", "html_page", "json_form", "lanes", "metrics", "plot", "report_text", "totals")
}


def files() -> dict[str, Path]:
    """All files of the library, by the names of their modules."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *(part for part in parts if part != "__init__")))] = path
    return found


def in_circles(graph: dict[str, set[str]]) -> set[str]:
    """The nodes that are on a circle, or between two."""
    left = dict(graph)
    while True:
        read = {name for names in left.values() for name in names}
        kept = {name: after for name, names in left.items() if (after := names & left.keys()) and name in read}
        if kept == left:
            return set(left)
        left = kept


def test_no_files_import_each_other_in_a_circle() -> None:
    known = files()
    graph = {
        name: {each if each in known else each.rpartition(".")[0] for each in imported(path)} - {name}
        for name, path in known.items()
    }
    assert any(graph.values()), "nothing is imported: `imported` is stale"
    assert in_circles(graph) == SHOWN


def test_a_circle_is_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert in_circles(graph) == {"b", "c"}
    assert in_circles({**graph, "c": {"d"}}) == set()
