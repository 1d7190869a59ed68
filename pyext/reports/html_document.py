"""HTML pages that need nothing else: no script, no font, no image. They follow the light or dark theme."""

import datetime
from collections.abc import Sequence
from html import escape
from importlib.metadata import version

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --faint: #62676f; --page: #ffffff; --card: #f4f5f7; --line: #d5d8dd;
        --good: #1a7f4b; --bad: #b3362b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --faint: #9aa1ab; --page: #15171a; --card: #1f2226; --line: #363b42;
          --good: #56c98b; --bad: #f08a7f; } }
body { margin: 0 auto; max-width: 74rem; padding: 1.5rem; background: var(--page); color: var(--ink);
       font: 15px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .3rem 0; color: var(--faint); }
code { font: .88em ui-monospace, "DejaVu Sans Mono", monospace; color: var(--ink); }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem; }
.card b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.card span { color: var(--faint); font-size: .85rem; }
/* A shadow at the side where there is more: it moves with the content, which has covers of its own at both ends. */
.scroll { overflow-x: auto;
  background: linear-gradient(to right, var(--page) 30%, transparent) left / 3rem 100% no-repeat local,
              linear-gradient(to left, var(--page) 30%, transparent) right / 3rem 100% no-repeat local,
              linear-gradient(to right, #0005, transparent) left / .8rem 100% no-repeat scroll,
              linear-gradient(to left, #0005, transparent) right / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.narrow table { width: auto; }
th, td { text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--faint); font-size: .85rem; white-space: nowrap; }
.narrow td { white-space: pre; }
.narrow td + td, .narrow th + th { text-align: right; }
/* What may be long wraps, so that twelve columns fit 1200 pixels. */
.rows table { font-size: .87rem; }
.rows td { white-space: nowrap; padding-right: .55rem; }
.rows th { font-size: .8rem; padding-right: .55rem; }
.rows td:first-child, .rows td:nth-child(2), .rows td:last-child { white-space: normal; overflow-wrap: anywhere; }
.rows td:first-child { min-width: 4.5rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
td.side { white-space: nowrap; }
td.why { min-width: 22rem; }
td ul { margin: 0; padding-left: 1rem; }
.verdict { font-weight: 600; }
.removed { color: var(--good); }
.in-loop { color: var(--bad); }
.legend { display: flex; flex-wrap: wrap; gap: 1rem; font-size: .85rem; color: var(--faint); }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px; }
svg { display: block; width: 100%; min-width: 44rem; height: auto; margin: .4rem 0 .8rem;
      font: 13px system-ui, "DejaVu Sans", sans-serif; }
svg text { fill: var(--ink); }
svg .faint { fill: var(--faint); }
svg .track { fill: var(--card); }
svg .tick { stroke: var(--page); }
"""


_FRAME_HEIGHT = 640  # pixels


def frame(page: str) -> str:
    """A page within another one, such as a notebook."""
    style = f"width: 100%; height: {_FRAME_HEIGHT}px; border: 0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}"></iframe>'


def document(title: str, heading: str, intro: str, body: str) -> str:
    """A whole page. `body` is HTML, the others are text."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(heading)}</h1>\n<p>{escape(intro)} {escape(_made_by())}.</p>\n{body}</body>\n</html>\n"
    )


def table(lines: Sequence[Sequence[str]], style: str) -> str:
    """Of texts, the first line of which is the header, in a box of the class `style`."""
    head, *body = lines
    header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in body)
    return f'<div class="{style}"><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>'


def _made_by() -> str:
    """The versions of the libraries that made the page, and the day."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("paropt", "jax", "jaxlib"))
    return f"{versions}, {datetime.date.today().isoformat()}"
