"""Globs for the paths of arguments, as rules of annotate-shardings take them: short, and for these and no others.

Tests: test/unit/pyext/planning/test_path_globs.py.
"""

import functools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from paropt.passes.state.role_rules import glob_pattern

_IN_A_LINE = 4  # globs of a rule; more have a line each


class PathGlobs:
    """Globs over all paths of a program, such as `state/layers/0/kernel`."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(dict.fromkeys(paths))
        self._matched: dict[str, frozenset[str]] = {}

    def of(self, paths: Collection[str]) -> list[str] | None:
        """The globs that match all of `paths`, and none of the others; None where a name makes that impossible.

        Each is the end of a path, a star in place of numbers, or the start of one with `/**`: of these, first those
        that match most, of equals the shorter.
        """
        wanted, found = frozenset(paths), list[str]()
        left = dict.fromkeys(paths)
        for forms in (_starred, _literal):
            known = {glob: self._matches(glob) for path in left for glob in forms(path)}
            fitting = {glob: matched for glob, matched in known.items() if matched <= wanted}
            while left and fitting:
                glob = min(fitting, key=lambda each: (-len(fitting[each] & left.keys()), len(each), each))
                covered = fitting.pop(glob) & left.keys()
                if not covered:
                    break
                found.append(glob)
                left = {path: None for path in left if path not in covered}
        return None if left else found

    def key(self, paths: Collection[str]) -> str:
        """The key of a rule for `paths` and no others, in TOML; a regular expression where no globs do that."""
        found = self.of(paths)
        if found is None:
            return f"regex = '^({'|'.join(map(re.escape, paths))})$'"
        texts = [json.dumps(glob) for glob in found]  # TOML escapes as JSON does
        if len(texts) == 1:
            return f"path = {texts[0]}"
        if len(texts) <= _IN_A_LINE:
            return f"path = [{', '.join(texts)}]"
        return "\n".join(["path = [", *(f"    {text}," for text in texts), "]"])

    def _matches(self, glob: str) -> frozenset[str]:
        if glob not in self._matched:
            pattern = glob_pattern(glob)
            self._matched[glob] = frozenset(path for path in self._paths if pattern.search(path))
        return self._matched[glob]


@functools.lru_cache(maxsize=1)
def globs_over(paths: tuple[str, ...]) -> PathGlobs:
    """One for all candidates of a step."""
    return PathGlobs(paths)


def _starred(path: str) -> Iterator[str]:
    parts = ["*" if part.isdigit() else part for part in path.split("/")]
    yield from _ends(parts)
    yield from ("/".join([*parts[:count], "**"]) for count in range(1, len(parts)) if _has_name(parts[:count]))


def _literal(path: str) -> Iterator[str]:
    return _ends(path.split("/"))


def _ends(parts: Sequence[str]) -> Iterator[str]:
    """All that have a name, and not numbers alone."""
    ends = (parts[start:] for start in reversed(range(len(parts))))
    return ("/".join(end) for end in ends if _has_name(end))


def _has_name(parts: Iterable[str]) -> bool:
    return any(part != "*" and not part.isdigit() for part in parts)
