"""Links of README, the pages and the tutorials lead to files, and to headings that are there."""

import json
import re
from collections import Counter
from pathlib import Path

from unit.scripts import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")),
]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def text_of(page: Path) -> str:
    """Its Markdown, without code."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return FENCE.sub("", text)


def links(page: Path) -> list[tuple[str, str]]:
    """The path, which is "" for the page itself, and the anchor, of each link to a file."""
    found = re.findall(r"\]\(([^)\s]+)\)", text_of(page))
    return [(path, anchor) for path, _, anchor in (each.partition("#") for each in found) if ":" not in path]


def anchors(page: Path) -> set[str]:
    """Those of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
    again: Counter[str] = Counter()
    found = set()
    for slug in slugs:
        found.add(f"{slug}-{again[slug]}" if again[slug] else slug)
        again[slug] += 1
    return found


def test_links_lead_to_files() -> None:
    found = [(page, path) for page in PAGES for path, _ in links(page)]
    assert found
    assert [(page.name, path) for page, path in found if not (page.parent / path).exists()] == []


def test_anchors_are_headings() -> None:
    found = [
        (page, (page.parent / path) if path else page, anchor)
        for page in PAGES
        for path, anchor in links(page)
        if anchor
    ]
    assert found
    assert [(page.name, anchor) for page, to, anchor in found if anchor not in anchors(to)] == []


def test_anchors_of_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One: `two_three`\n\n## One\n\n## One\n\n```sh\n# none\n```\n\n[a](other.md#x) [b](#one-1) [c](https://d.e/#f)\n"
    )
    assert anchors(page) == {"one-two_three", "one", "one-1"}
    assert links(page) == [("other.md", "x"), ("", "one-1")]
