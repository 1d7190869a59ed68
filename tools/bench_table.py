"""Tables of the benchmark pages in Markdown."""

from collections.abc import Sequence


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """The first row is the header; the first column is text, the others are figures."""
    header, *body = rows
    lines = [header, tuple("---" if i == 0 else "---:" for i in range(len(header))), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def plain_table(rows: list[tuple[str, ...]]) -> str:
    """For a terminal: the first column to the left."""
    width = max(len(label) for label, *_ in rows)
    return "\n".join(f"{label:{width}}" + "".join(f"{cell:>14}" for cell in cells) for label, *cells in rows)
