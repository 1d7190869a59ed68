"""Measures one program of the gallery, in a process of its own: `gallery_measure.py NAME TARGET...`.

Prints one line of JSON per target as soon as it is measured: what XLA alone makes of the program, what par-opt makes
of it, what stays and why. On CPU devices both are run, too, and their results compared.
"""

import dataclasses
import importlib
import importlib.metadata
import json
import math
import os
import platform
import re
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # no machine with TPUs: libtpu need not look for its neighbours
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's warnings, once per program
sys.path.insert(0, str(Path(__file__).resolve().parent))

import jax  # noqa: E402  after the environment is set
import numpy as np  # noqa: E402
from gallery_catalog import ENTRIES, Entry  # noqa: E402
from gallery_programs.program import Program  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402

import paropt  # noqa: E402
from paropt import targets  # noqa: E402
from paropt.audit import Audit  # noqa: E402
from paropt.census import Collective, sent_per_byte  # noqa: E402
from paropt.comparison import AuditComparison  # noqa: E402

START = "gallery: "  # of a line with results: packages print, too

# Of differences. Adam makes the last bits of a gradient that is 0 an update as large as others.
TOLERANCE, NOISE, MORE = 1e-4, 1e-3, 4

FOLDERS = re.compile(r"/\S+?/(?:site-packages|tools)/")
# What follows a position, in parentheses, in which others may be nested.
NAME_STACK = re.compile(r"(\.py:\d+):\d+ \((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)")

ENOUGH = 1.01  # times the ideal: losses and metrics are reduced, too


@dataclass(frozen=True)
class Side:
    """What one update of the parameters takes. Bytes are per device."""

    wire: float  # bytes sent by collectives of all kinds
    is_exact: bool  # False: something runs an unknown number of times and is left out
    runs: int  # of collectives
    in_loops: int  # of these, how many in loops
    temporary: int  # bytes
    seconds: float  # from the function to the executable


@dataclass(frozen=True)
class Stay:
    """Collectives that are left, of one kind."""

    kind: str
    wire: float
    runs: int
    reasons: tuple[str, ...]  # what the passes say of it


@dataclass(frozen=True)
class Values:
    """How par-opt's results differ from those of XLA alone, relative to the largest element of each array."""

    largest: float  # of the arrays that rounding does not make
    arrays: int
    noise: int  # arrays that rounding makes: those of XLA alone change as much with the last bit of its inputs
    wrong: int  # arrays that differ by more than rounding explains


@dataclass(frozen=True)
class Measured:
    """A program on one target."""

    target: str
    ideal: float | None = None  # bytes sent where each gradient is reduced once; None: gradients stay sharded
    alone: Side | None = None
    ours: Side | None = None
    stays: tuple[Stay, ...] = ()
    warnings: tuple[str, ...] = ()  # of par-opt: it has fallen back
    values: Values | None = None  # None: they were not run
    problem: str = ""  # why there are no numbers


@dataclass(frozen=True)
class Compiled:
    """A program's executable and what is known of it."""

    run: Callable[..., Any]
    audit: Audit
    side: Side
    remarks: tuple[Any, ...] = ()


def main(name: str, names: Iterable[str]) -> None:
    (entry,) = (entry for entry in ENTRIES if entry.name == name)
    say({"versions": versions(entry), "python": platform.python_version()})
    try:
        program = made(entry)
    except Exception as error:  # whatever a package raises: it is said on the page
        say({"problem": told(error)})
        return
    for target in names:
        say(dataclasses.asdict(tried(entry, program, target)))


def made(entry: Entry) -> Program:
    module, _, function = entry.make.partition(":")
    program: Program = getattr(importlib.import_module(f"gallery_programs.{module}"), function)(**entry.arguments)
    return program


def tried(entry: Entry, program: Program, target: str) -> Measured:
    try:
        return measured(entry, program, target)
    except Exception as error:  # whatever jax or a compiler raises: it is said on the page
        return Measured(target, problem=told(error))


def told(error: Exception) -> str:
    """One line for the page; where it was raised, for the log."""
    traceback.print_exception(error)
    return shortened(f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0])


def say(message: dict[str, Any]) -> None:
    print(START + json.dumps(message), flush=True)


def versions(entry: Entry) -> dict[str, str]:
    return {package: importlib.metadata.version(package) for package in (*entry.packages, "jax", "jaxlib")}


def measured(entry: Entry, program: Program, name: str) -> Measured:
    try:
        mesh = mesh_like(program.mesh, targets.get(name).devices)
    except targets.TargetError as error:
        return Measured(name, problem=str(error))
    is_here = name.startswith("cpu:")
    args = program.args if is_here else described(program.args, mesh)
    with program.within(mesh), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile_one(mesh)
        alone, ours = (compiled(program, args, passes) for passes in ("", entry.passes))
        values = compared(alone.run, ours.run, args) if is_here else None
    said = dict.fromkeys(shortened(str(w.message)) for w in caught if str(w.message).startswith("paropt"))
    comparison = AuditComparison(alone.audit, ours.audit, passes=entry.passes, target=name, remarks=ours.remarks)
    return Measured(name, ideal(program), alone.side, ours.side, stays(comparison, program), tuple(said), values)


def mesh_like(mesh: Mesh, devices: Sequence[Any]) -> Mesh:
    """The mesh, of other devices."""
    return Mesh(np.array(devices).reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)


def described(args: Any, mesh: Mesh) -> Any:
    """Shapes in place of arrays, sharded in the same way over `mesh`, whose devices may be absent."""

    def shape(leaf: Any) -> Any:
        spec = leaf.sharding.spec if isinstance(leaf.sharding, NamedSharding) else jax.sharding.PartitionSpec()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    return jax.tree.map(shape, args)


def compile_one(mesh: Mesh) -> None:
    """The first compilation starts the compiler: none of the program's."""
    sharding = NamedSharding(mesh, jax.sharding.PartitionSpec())
    jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((), np.float32, sharding=sharding)).compile()


def compiled(program: Program, args: Any, passes: str) -> Compiled:
    jax.clear_caches()
    start = time.perf_counter()
    with paropt.enabled(passes):
        lowered = jax.jit(program.step, donate_argnums=program.donated).lower(*args)
        executable = lowered.compile()
    seconds = time.perf_counter() - start
    audit = paropt.audit(executable)
    temporary = executable.memory_analysis().temp_size_in_bytes
    remarks = paropt.remarks(lowered) if passes else ()
    return Compiled(executable, audit, side(audit, temporary, seconds, program), remarks)


def side(audit: Audit, temporary: int, seconds: float, program: Program) -> Side:
    sent = sending(audit)
    return Side(
        wire=sum(runs(c, program) * c.wire_bytes for c in sent),
        is_exact=all(c.executions is not None for c in sent),
        runs=sum(runs(c, program) for c in sent),
        in_loops=sum(runs(c, program) for c in sent if c.loops),
        temporary=temporary,
        seconds=seconds,
    )


def runs(collective: Collective, program: Program) -> int:
    """Per update of the parameters. In a branch it runs when they are updated: the other branch does nothing."""
    return 1 if collective.at_most else program.calls * (collective.executions or 0)


def sending(audit: Audit) -> list[Collective]:
    """Those between devices: a collective whose groups have one device each sends nothing."""
    return [c for c in audit.collectives if c.wire_bytes]


def ideal(program: Program) -> float | None:
    if program.gradients is None:
        return None
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(program.gradients))
    return size * sent_per_byte("all-reduce", program.mesh.size)


def stays(comparison: AuditComparison, program: Program) -> tuple[Stay, ...]:
    """What runs more than once per update, by kind and reasons, the most bytes first; all, where more is sent than is
    ideal."""
    sent = sum(runs(c, program) * c.wire_bytes for c in sending(comparison.after))
    least = 0 if sent > ENOUGH * (ideal(program) or math.inf) else 1
    wire: Counter[Any] = Counter()
    times: Counter[Any] = Counter()
    for row in comparison.rows:
        missed = [reason for reason in row.reasons if not reason.applied]
        reasons = tuple(dict.fromkeys(f"[{r.pass_name}] {shortened(r.text)}" for r in missed or row.reasons))
        for c in row.after:
            if c.wire_bytes and runs(c, program) > least:
                wire[c.kind, reasons] += runs(c, program) * c.wire_bytes
                times[c.kind, reasons] += runs(c, program)
    return tuple(Stay(kind, size, times[kind, why], why) for (kind, why), size in wire.most_common())


def shortened(text: str) -> str:
    """A remark with the names of files and lines alone: without the folders of this machine and jax's name stacks."""
    return NAME_STACK.sub(r"\1", FOLDERS.sub("", text))


def compared(alone: Callable[..., Any], ours: Callable[..., Any], args: Any) -> Values:
    def results(run: Callable[..., Any], args: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in plain(run(*jax.tree.map(jax.numpy.copy, args)))]  # some are donated

    before = results(alone, args)
    found = differences(before, results(ours, args))
    rounding = differences(before, results(alone, jax.tree.map(nudged, args)))
    pairs = list(zip(found, rounding, strict=True))
    return Values(
        largest=max(ours for ours, rounded in pairs if rounded <= NOISE),
        arrays=len(pairs),
        noise=sum(rounded > NOISE for _, rounded in pairs),
        wrong=sum(not ours <= max(TOLERANCE, MORE * rounded) for ours, rounded in pairs),
    )


def plain(tree: Any) -> Iterator[Any]:
    """The arrays, keys of random numbers as integers."""
    for leaf in jax.tree.leaves(tree):
        yield jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def nudged(leaf: jax.Array) -> jax.Array:
    """Each number that is not 0 moved by its last bit, up or down."""
    if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
        return leaf
    values = np.asarray(leaf)
    towards = np.where(np.random.default_rng(0).integers(0, 2, values.shape) == 1, np.inf, -np.inf)
    moved = np.nextafter(values, towards.astype(values.dtype))
    return jax.device_put(np.where(values == 0, values, moved), leaf.sharding)


def differences(before: list[np.ndarray], after: list[np.ndarray]) -> list[float]:
    """Of each array the largest difference, relative to its largest element."""

    def difference(want: np.ndarray, got: np.ndarray) -> float:
        scale = float(np.abs(want.astype(np.float64)).max(initial=0.0)) or 1.0
        return float(np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0.0)) / scale

    return [difference(want, got) for want, got in zip(before, after, strict=True)]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
