"""Sharding rules in TOML: the arrays that they match, and their shardings; see docs/sharding-rules.md.

[axes]                                   # names of one's own for axes of the mesh
embed = ["data"]

[[rule]]                                 # the first rule that fits an array counts
path = "params/**/kernel"
min_bytes = "1MiB"
shard = ["embed", ""]
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paropt.passes.state.rule_presets import PRESETS
from paropt.passes.support.byte_sizes import byte_count

ROLES = ("batch", "parameter", "optimizer", "expert", "gradient", "state", "any")
_ACTIONS = ("shard", "largest", "examples", "whole")
_KEYS = ("path", "regex", "role", "min_bytes", "min_rank", *_ACTIONS, "gather", "exchange")
REST = "..."


class RuleError(ValueError):
    """The rules are wrong; one line that says where, and gives the right form."""


@dataclass(frozen=True)
class Rule:
    """The arrays that a rule matches, and their sharding."""

    name: str  # for messages: `rules.toml, rule 2`
    path: str = ""  # globs, or a regular expression; "" for any
    pattern: re.Pattern[str] | None = None
    role: str = "state"
    min_bytes: int = 0
    min_rank: int = 0
    action: str = "whole"  # one of _ACTIONS
    axes: tuple[str, ...] = ()  # of the action: one name per dimension, or one name
    gather: str = ""  # the axes that cut a parameter no longer where a loop reads it
    exchange: str = ""  # the axes that cut, with a parameter, also the value that it is multiplied with

    def fits(self, path: str, roles: Iterable[str], size: int, rank: int) -> bool:
        """Whether the rule is about an array with this path (`state/params/0/kernel`) and these roles."""
        if self.role != "any" and self.role not in roles:
            return False
        return size >= self.min_bytes and rank >= self.min_rank and (self.pattern is None or self._matches(path))

    def _matches(self, path: str) -> bool:
        assert self.pattern is not None
        return self.pattern.search(path) is not None


@dataclass(frozen=True)
class Rules:
    """Rules in order, and the names that they use for axes of the mesh."""

    rules: tuple[Rule, ...]
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def axes(self, name: str, mesh: Sequence[str], where: str) -> tuple[str, ...]:
        """The axes of the mesh that `name` stands for; none for "". Raises RuleError."""
        if not name:
            return ()
        wanted = self.names.get(name, (name,))
        found = tuple(axis for axis in (w.removesuffix("?") for w in wanted) if axis in mesh)
        missing = [w for w in wanted if not w.endswith("?") and w not in mesh]
        if missing:
            raise RuleError(f"{where}: the mesh has no axis `{missing[0]}`{_near(missing[0], self._known(name, mesh))}")
        if not found:
            options = ", ".join(w.removesuffix("?") for w in wanted)
            raise RuleError(f"{where}: the mesh has none of the axes {options}; it has {', '.join(mesh)}")
        return found

    def example_axes(self, mesh: Sequence[str]) -> tuple[str, ...]:
        """The axes of the mesh that rules for the batch shard examples over. Raises RuleError."""
        given = [rule for rule in self.rules if rule.role == "batch" and rule.action == "examples"]
        return tuple(dict.fromkeys(axis for rule in given for axis in self.axes(rule.axes[0], mesh, rule.name)))

    def _known(self, name: str, mesh: Sequence[str]) -> list[str]:
        """The names allowed in place of `name`; inside of a name of one's own, axes of the mesh only."""
        return list(mesh) if name in self.names else [*mesh, *self.names]


def load(file: str, preset: str) -> Rules:
    """The rules of a file, and after them those of a preset. Raises RuleError."""
    texts = []
    if file:
        try:
            texts.append((file, Path(file).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise RuleError(f"cannot read '{file}': {reason}") from error
    if preset:
        if preset not in PRESETS:
            raise RuleError(f"no preset called `{preset}`{_near(preset, list(PRESETS))}")
        texts.append((f"preset {preset}", PRESETS[preset]))
    parsed = [parse(text, name) for name, text in texts]
    names = {key: axes for one in reversed(parsed) for key, axes in one.names.items()}
    return Rules(tuple(rule for one in parsed for rule in one.rules), names)


def parse(text: str, name: str) -> Rules:
    """The rules in the TOML `text`, which comes from `name`. Raises RuleError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{name}: {error}") from error
    _require_keys(tables, ("axes", "rule", "plan"), name)  # paropt.plan adds `plan`
    axes, rules = tables.get("axes", {}), tables.get("rule", [])
    if not isinstance(axes, dict) or not isinstance(rules, list):
        raise RuleError(f"{name}: expected a table [axes] and tables [[rule]]")
    names = {key: _names(value, f"{name}, axes.{key}") for key, value in axes.items()}
    return Rules(tuple(_rule(table, f"{name}, rule {i}") for i, table in enumerate(rules, 1)), names)


def _rule(table: Any, name: str) -> Rule:
    _require_keys(table, _KEYS, name)
    actions = [action for action in _ACTIONS if action in table]
    if len(actions) != 1:
        raise RuleError(f"{name}: expected one of {', '.join(_ACTIONS)}")
    if "path" in table and "regex" in table:
        raise RuleError(f"{name}: `path` and `regex` both say which arrays: give one of them")
    role = table.get("role", "state" if "path" not in table and "regex" not in table else "any")
    if role not in ROLES:
        raise RuleError(f"{name}: no role called `{role}`{_near(str(role), list(ROLES))}")
    globs = _names(table.get("path", []), f"{name}, path") if isinstance(table.get("path"), list) else ()
    path = ", ".join(globs) or str(table.get("path", table.get("regex", "")))
    return Rule(
        name,
        path,
        _pattern(globs or (path,), is_glob="path" in table, name=name) if path else None,
        role,
        _bytes(table.get("min_bytes", 0), name),
        _integer(table.get("min_rank", 0), name),
        actions[0],
        _axes(actions[0], table[actions[0]], name),
        *(_axes(key, table[key], name)[0] if key in table else "" for key in ("gather", "exchange")),
    )


def _axes(action: str, value: Any, name: str) -> tuple[str, ...]:
    if action == "whole":
        if value is not True:
            raise RuleError(f"{name}: expected whole = true")
        return ()
    if action != "shard":
        if not isinstance(value, str) or not value:
            raise RuleError(f'{name}: expected the name of an axis, as in {action} = "data"')
        return (value,)
    found = _names(value, f"{name}, shard")
    if found.count(REST) > 1:
        raise RuleError(f'{name}, shard: "{REST}" may stand for dimensions once')
    return found


def glob_pattern(*globs: str) -> re.Pattern[str]:
    """A pattern to search in paths. A glob is about the end of one: `kernel`, `layers/*/kernel`, `params/**`."""
    return re.compile(f"(?:^|/)(?:{'|'.join(map(_glob, globs))})$")


def _glob(text: str) -> str:
    parts = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", text)
    return "".join(parts.get(piece, re.escape(piece)) for piece in pieces)


def _pattern(texts: Sequence[str], *, is_glob: bool, name: str) -> re.Pattern[str]:
    if is_glob:
        return glob_pattern(*texts)
    (text,) = texts
    try:
        return re.compile(text)
    except re.error as error:
        raise RuleError(f"{name}: `{text}` is no regular expression: {error}") from error


def _bytes(value: Any, name: str) -> int:
    try:
        return byte_count(str(value))
    except ValueError as error:
        raise RuleError(f'{name}: expected bytes, as in min_bytes = "1MiB"') from error


def _integer(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise RuleError(f"{name}: expected an integer, as in min_rank = 2")
    return value


def _names(value: Any, name: str) -> tuple[str, ...]:
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise RuleError(f'{name}: expected names of axes, as in ["data", ""]')
    return tuple(given)


def _require_keys(table: Any, known: Sequence[str], name: str) -> None:
    if not isinstance(table, dict):
        raise RuleError(f"{name}: expected a table")
    for key in table:
        if key not in known:
            raise RuleError(f"{name}: unknown key `{key}`{_near(key, known)}")


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(known)}"
