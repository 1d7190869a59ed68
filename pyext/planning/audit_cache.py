"""Audits of candidates in a folder, so that a second plan of the same step compiles nothing.

A file is for one module, its donated arguments, a target, the figures of a cluster, a candidate, and the versions of
all that has a part in the result: this library by its source, jax, and the compilers.

Tests: test/unit/pyext/planning/test_audit_cache.py.
"""

import json
import os
import tempfile
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from paropt import passes
from paropt.clusters.targets import GpuTarget, Target
from paropt.costs.clusters import Cluster
from paropt.modules.module_io import bytecode_of
from paropt.planning.candidates import Candidate
from paropt.planning.sharded_programs import PlanError, Step
from paropt.planning.stage_audits import Transfer
from paropt.reports.totals import Audit

_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_COMPILERS = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin", "scipy")


@dataclass(frozen=True)
class AuditCache:
    """The folder, and the common part of all keys of one search."""

    folder: Path
    common: str

    def read(self, candidate: Candidate) -> Audit | None:
        """None where there is none, or the file is not as this library writes it."""
        try:
            return _decoded(json.loads(self._path(candidate).read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, candidate: Candidate, audit: Audit) -> None:
        """Raises PlanError, one line, where the folder cannot be written."""
        path = self._path(candidate)
        try:
            with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
                json.dump(_encoded(audit), file)
            Path(file.name).replace(path)  # another search may read it meanwhile
        except OSError as error:
            raise PlanError(f"plan: cannot write '{path}': {error.strerror}") from error

    def _path(self, candidate: Candidate) -> Path:
        return self.folder / f"{sha256(f'{self.common} {candidate!r}'.encode()).hexdigest()}.json"


def cache_in(folder: str | Path, step: Step, target: Target, cluster: Cluster) -> AuditCache:
    """The audits of the candidates for a step. Makes the folder; raises PlanError where that fails."""
    path = Path(folder).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanError(f"plan: cannot make the folder '{path}': {error.strerror}") from error
    is_described = isinstance(target, GpuTarget) and Path(target.gpu).is_file()
    description = Path(target.gpu).read_bytes() if is_described and isinstance(target, GpuTarget) else b""
    module = sha256(bytecode_of(step.module) + description).hexdigest()
    flags = [os.environ.get(name, "") for name in _FLAGS]
    return AuditCache(path, repr((module, step.donated, target.name, cluster, flags, versions())))


@cache
def versions() -> str:
    """Of all that has a part in an audit."""
    digest = sha256()
    for file in sorted(_sources()):
        digest.update(file.read_bytes())
    return " ".join([*(f"{name}={_version(name)}" for name in _COMPILERS), f"paropt={digest.hexdigest()}"])


def _sources() -> Iterator[Path]:
    for folder in (Path(__file__).parents[1], Path(str(passes.__file__)).parent):
        yield from (path for path in folder.rglob("*") if path.suffix in (".py", ".toml", ".txtpb"))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


def _encoded(audit: Audit) -> dict[str, Any]:
    transfers = [number for number, each in enumerate(audit.collectives) if isinstance(each, Transfer)]
    return {"audit": asdict(audit), "transfers": transfers}


def _decoded(found: dict[str, Any]) -> Audit:
    audit: Audit = _made(Audit, found["audit"])
    transfers = {*found["transfers"]}
    collectives = [
        Transfer(**vars(each)) if number in transfers else each for number, each in enumerate(audit.collectives)
    ]
    return Audit(tuple(collectives), audit.peak_memory, audit.estimate)


def _made(kind: Any, value: Any) -> Any:
    """A value of the type `kind`, from JSON: dataclasses are objects there, tuples lists. Raises as `read` expects."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{field.name: _made(hints[field.name], value[field.name]) for field in fields(kind)})
    if hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return kind(*(_made(hints[name], each) for name, each in zip(kind._fields, value, strict=True)))
    if get_origin(kind) in (Union, types.UnionType):
        (own,) = (each for each in get_args(kind) if each is not type(None))
        return None if value is None else _made(own, value)
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], each) for each in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value
