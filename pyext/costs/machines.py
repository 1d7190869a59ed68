"""Figures of machines, from TOML: FLOP/s by type, memory bandwidth, and links. docs/costs.md describes the form."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from paropt.base.argument_types import require_type

Within: TypeAlias = Literal["host", "slice", "cluster"]
WITHIN: tuple[Within, ...] = ("host", "slice", "cluster")  # inner first
ALGORITHMS = ("ring", "tree")
TOPOLOGIES = ("switch", "ring")
TYPES = ("f64", "f32", "bf16", "f16", "f8", "s8")

_OWN = Path(__file__).with_name("machines.toml")
ASSUMED_OF_ALL = ("program_start",)  # of machines whose table leaves it out: a figure of the host
_MACHINE_KEYS = ("memory_bandwidth", "op_start", "source", "flops", "links", "program_start")
PROGRAM_START = 50e-6  # seconds; assumed where a table does not say
_LINK_KEYS = ("name", "within", "bandwidth", "latency", "start", "algorithms", "source", "topology")


class CostError(ValueError):
    """A table of costs is wrong, or has no figures for a target; one line that says where, and gives the right form."""


@dataclass(frozen=True)
class Link:
    """Links of one level: alpha (`latency`, `start`; seconds) and beta (1 / `bandwidth`; bytes per second)."""

    name: str
    within: Within
    bandwidth: float  # that a device sends in one direction
    latency: float  # of each hop
    start: float  # of each collective, once
    algorithms: tuple[str, ...]
    source: str
    topology: str = "switch"  # `ring`: data for a distant device passes the devices between


@dataclass(frozen=True)
class Machine:
    """The figures of one device, and the links that join it to others, inner first."""

    name: str
    flops: Mapping[str, float]  # per second, by type
    memory_bandwidth: float  # bytes per second
    op_start: float  # seconds
    links: tuple[Link, ...]
    source: str
    program_start: float = PROGRAM_START  # seconds of a host, of each program of a step that has several

    def flops_of(self, dtype: str) -> float:
        """FLOP/s of products of `dtype` as HLO spells it; of a type without figures, those of the next wider one."""
        name = "f8" if dtype.startswith("f8") else "s8" if dtype in ("s8", "u8", "s4", "u4") else dtype
        wider = {"f8": "bf16", "s8": "bf16", "f16": "bf16", "bf16": "f32", "f32": "f64"}
        while name not in self.flops and name in wider:
            name = wider[name]
        return self.flops.get(name, min(self.flops.values()))


def read_table(own: str | Path | None = None) -> dict[str, Machine]:
    """The machines of the library, and those of the user's file `own` in place of the same names. Raises CostError."""
    require_type(own, (str, Path, type(None)), "costs", "the path of a TOML file")
    table = _read(_OWN)
    return table | (_read(Path(own)) if own else {})


def _read(path: Path) -> dict[str, Machine]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CostError(f"cannot read '{path}': {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CostError(f"cannot read '{path}': it is no UTF-8 text") from error
    return parse(text, str(path))


def parse(text: str, name: str) -> dict[str, Machine]:
    """The machines in the TOML `text`, which comes from `name`. Raises CostError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CostError(f"{name}: {error}") from error
    if not tables:
        raise CostError(f"{name}: expected a table per machine, as in [h100]")
    return {key: _machine(key, value, f"{name}, {key}") for key, value in tables.items()}


def _machine(name: str, table: Any, where: str) -> Machine:
    _require_keys(table, _MACHINE_KEYS, where, optional=ASSUMED_OF_ALL)
    flops = table["flops"]
    if not isinstance(flops, dict) or not flops:
        raise CostError(f"{where}, flops: expected a figure by type, as in {{ f32 = 67e12 }}")
    unknown = [key for key in flops if key not in TYPES]
    if unknown:
        raise CostError(f"{where}, flops: unknown type `{unknown[0]}`{near_or_all(unknown[0], TYPES)}")
    links = table["links"]
    if not isinstance(links, list) or not links:
        raise CostError(f"{where}, links: expected a list of links, inner first")
    found = tuple(_link(link, f"{where}, link {i}") for i, link in enumerate(links, 1))
    levels = [WITHIN.index(link.within) for link in found]
    if levels != sorted(set(levels)):
        raise CostError(f"{where}, links: expected inner links first, each `within` once: {', '.join(WITHIN)}")
    return Machine(
        name,
        {key: _positive(value, f"{where}, flops.{key}") for key, value in flops.items()},
        _positive(table["memory_bandwidth"], f"{where}, memory_bandwidth"),
        _seconds(table["op_start"], f"{where}, op_start"),
        found,
        _text(table["source"], f"{where}, source"),
        _seconds(table.get("program_start", PROGRAM_START), f"{where}, program_start"),
    )


def _link(table: Any, where: str) -> Link:
    _require_keys(table, _LINK_KEYS, where, optional=("topology",))
    algorithms = table["algorithms"]
    if not isinstance(algorithms, list) or not algorithms:
        raise CostError(f'{where}, algorithms: expected some of {", ".join(ALGORITHMS)}, as in ["ring"]')
    return Link(
        _text(table["name"], f"{where}, name"),
        _one_of(table["within"], WITHIN, f"{where}, within"),
        _positive(table["bandwidth"], f"{where}, bandwidth"),
        _seconds(table["latency"], f"{where}, latency"),
        _seconds(table["start"], f"{where}, start"),
        tuple(_one_of(each, ALGORITHMS, f"{where}, algorithms") for each in algorithms),
        _text(table["source"], f"{where}, source"),
        _one_of(table.get("topology", "switch"), TOPOLOGIES, f"{where}, topology"),
    )


def _require_keys(table: Any, known: Sequence[str], where: str, optional: Sequence[str] = ()) -> None:
    if not isinstance(table, dict):
        raise CostError(f"{where}: expected a table")
    unknown = [key for key in table if key not in known]
    if unknown:
        raise CostError(f"{where}: unknown key `{unknown[0]}`{near_or_all(unknown[0], known)}")
    missing = [key for key in known if key not in table and key not in optional]
    if missing:
        raise CostError(f"{where}: `{missing[0]}` is missing")


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value < float("inf"):
        raise CostError(f"{where}: expected a number, found `{value}`")
    return float(value)


def _positive(value: Any, where: str) -> float:
    number = _number(value, where)
    if number <= 0:
        raise CostError(f"{where}: expected a number above 0, found `{value}`")
    return number


def _seconds(value: Any, where: str) -> float:
    number = _number(value, where)
    if number < 0:
        raise CostError(f"{where}: expected seconds, 0 or more, found `{value}`")
    return number


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise CostError(f"{where}: expected text")
    return value


def _one_of(value: Any, known: Sequence[Any], where: str) -> Any:
    if value not in known:
        raise CostError(f"{where}: expected one of {', '.join(known)}, found `{value}`")
    return value


def near_or_all(name: str, known: Sequence[str]) -> str:
    """The end of a complaint about `name`."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; there are {', '.join(known)}"
