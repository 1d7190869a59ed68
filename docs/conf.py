"""How `make site` builds these pages: Sphinx, which reads Markdown and notebooks with MyST.

Links to sources are downloads.
"""

import re
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

project = "par-opt"
extensions = ["myst_nb"]
html_theme = "furo"
html_title = "par-opt"
exclude_patterns = ["conf.py"]
myst_heading_anchors = 4  # as GitHub names headings
nb_execution_mode = "off"  # tutorials are stored with their results: tools/run_tutorials.py


def contents(text: str) -> str:
    """The navigation: the pages that each section of index.md links, in this order, each once."""
    parts, seen = [], set()
    for section in text.split("\n## ")[1:]:
        linked = re.findall(r"\]\(([\w/-]+)\.(?:md|ipynb)[#)]", section)
        pages = [page for page in dict.fromkeys(linked) if page not in seen]
        seen.update(pages)
        if pages:
            caption = section.partition("\n")[0]
            parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"]))
    return "\n\n".join(parts)


def add_contents(app: Any, page: str, source: list[str]) -> None:
    if page == "index":
        source[0] += "\n" + contents(source[0])


def drop_folders(app: Any, page: str, source: list[str]) -> None:
    """A link to a folder of the repository is its name only: a site has no listing of it."""

    def name_of(link: re.Match[str]) -> str:
        return link[1] if (Path(app.srcdir) / link[2]).is_dir() else link[0]

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#]+)\)", name_of, source[0])


def setup(app: Any) -> None:
    app.add_lexer("mlir", TextLexer)  # Pygments knows none
    app.connect("source-read", add_contents)
    app.connect("source-read", drop_folders)
