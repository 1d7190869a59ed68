"""Measures one program of the gallery, in a process of its own: `gallery_measure.py NAME TARGET...`.

Prints one line of JSON per target as soon as it is measured: what XLA alone makes of the program, what par-opt makes
of it, what stays and why. On CPU devices both are run, too, and their results compared.
"""

import dataclasses
import functools
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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import simulated_devices

DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(DEVICES)
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # no machine with TPUs: libtpu need not look for its neighbours
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's warnings, once per program

import jax  # noqa: E402  after the environment is set
import numpy as np  # noqa: E402
from gallery_catalog import ENTRIES, Entry  # noqa: E402
from gallery_multiples import multiples  # noqa: E402
from gallery_programs.program import Driven, Program  # noqa: E402
from gallery_values import Values, values_of  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402

import paropt  # noqa: E402
from paropt.audit import Audit  # noqa: E402
from paropt.clusters import targets  # noqa: E402
from paropt.hlo.census import Collective, sent_per_byte  # noqa: E402
from paropt.passes.outline.functions import ACCUMULATE, MICRO_BATCH  # noqa: E402
from paropt.reports.comparison import AuditComparison  # noqa: E402

START = "gallery: "  # of a line with results: packages print, too

FOLDERS = re.compile(r"/\S+?/(?:site-packages|tools)/")
# What follows a position, in parentheses, in which others may be nested.
NAME_STACK = re.compile(r"(\.py:\d+):\d+ \((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)")

PER_MICRO_BATCH = (MICRO_BATCH, ACCUMULATE)  # of the programs that paropt.accumulate makes

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
    kinds: dict[str, float]  # of `wire`, by kind of collective
    gathered: float | None = None  # of programs that name their parameters: see gallery_multiples
    reduced: float | None = None


@dataclass(frozen=True)
class Stay:
    """Collectives that are left, of one kind."""

    kind: str
    wire: float
    runs: int
    reasons: tuple[str, ...]  # what the passes say of it


@dataclass(frozen=True)
class AtUse:
    """A parameter that stays gathered in a loop, as the passes tell it."""

    name: str
    bytes: int  # per device and update
    reason: str


@dataclass(frozen=True)
class Measured:
    """A program on one target."""

    target: str
    ideal: float | None = None  # bytes sent where each gradient is reduced once; None: gradients stay sharded
    alone: Side | None = None
    ours: Side | None = None
    stays: tuple[Stay, ...] = ()
    at_use: tuple[AtUse, ...] = ()  # the most bytes first
    in_calls: str = ""  # a remark on reductions that no loop repeats
    warnings: tuple[str, ...] = ()  # of par-opt: it has fallen back
    values: Values | None = None  # None: they were not run
    problem: str = ""  # why there are no numbers


@dataclass(frozen=True)
class Part:
    """An executable, and how often it is called per update of the parameters."""

    audit: Audit
    calls: int
    temporary: int  # bytes

    @property
    def sending(self) -> list[Collective]:
        """Those between devices: a collective whose groups have one device each sends nothing."""
        return [c for c in self.audit.collectives if c.wire_bytes]

    def runs(self, collective: Collective) -> int:
        """Per update of the parameters. In a branch it runs when they are updated: the other branch does nothing.

        In a branch after a loop that is done once per update it does not: the last trip has updated them.
        """
        if collective.at_most:
            return int(bool(collective.loops) or self.calls > 1)
        return self.calls * (collective.executions or 0)


@dataclass(frozen=True)
class Compiled:
    """The executables of a program and what is known of them."""

    run: Callable[..., Any]  # one call, or of a program that is driven one update
    args: tuple[Any, ...]  # of `run`
    parts: tuple[Part, ...]
    seconds: float
    remarks: tuple[Any, ...] = ()

    @property
    def side(self) -> Side:
        sent = self.sent
        kinds: defaultdict[str, float] = defaultdict(float)
        for runs, c in sent:
            kinds[c.kind] += runs * c.wire_bytes
        return Side(
            wire=sum(kinds.values()),
            is_exact=all(c.executions is not None for _, c in sent),
            runs=sum(runs for runs, _ in sent),
            in_loops=sum(runs for runs, c in sent if c.loops),
            temporary=max(part.temporary for part in self.parts),
            seconds=self.seconds,
            kinds=dict(kinds),
        )

    @property
    def sent(self) -> list[tuple[int, Collective]]:
        """Collectives, and how often each runs per update."""
        return [(part.runs(c), c) for part in self.parts for c in part.sending]


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
    is_here, least = name.startswith("cpu:"), ideal(program)
    program = program if is_here else absent(program, mesh)
    with program.within(mesh), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compile_one(mesh)
        alone = compiled(program, "")
        ours = compiled(program, entry.passes) if program.driven is None else driven(program.driven, program.calls)
        values = compared(alone, ours) if is_here else None
    said = dict.fromkeys(shortened(str(w.message)) for w in caught if str(w.message).startswith("paropt"))
    sides = side(alone, program), side(ours, program)
    return Measured(
        target=name,
        ideal=least,
        alone=sides[0],
        ours=sides[1],
        stays=stays(alone, ours, least),
        at_use=at_use(ours.remarks),
        in_calls=next((r.text for r in ours.remarks if r.op == "builtin.module" and r.pass_name == "defer-sync"), ""),
        warnings=tuple(said),
        values=values,
    )


def at_use(remarks: Iterable[Any]) -> tuple[AtUse, ...]:
    """The parameters that are told to be gathered where they are read."""
    found = [
        AtUse(choice.name, choice.in_loops, shortened(remark.text.partition("; at use, ")[0]))
        for remark in remarks
        if not remark.applied
        for choice in remark.choices
    ]
    return tuple(sorted(found, key=lambda each: -each.bytes))


def side(compiled: Compiled, program: Program) -> Side:
    """With multiples, where the program names its parameters."""
    if program.parameters is None:
        return compiled.side
    found = multiples(compiled.sent, program.parameters, program.batch_axes, program.mesh)
    return dataclasses.replace(compiled.side, **dataclasses.asdict(found))


def mesh_like(mesh: Mesh, devices: Sequence[Any]) -> Mesh:
    """The mesh, of other devices."""
    return Mesh(np.array(devices).reshape(mesh.devices.shape), mesh.axis_names, axis_types=mesh.axis_types)


def absent(program: Program, mesh: Mesh) -> Program:
    """The program on `mesh`, whose devices may be absent."""
    made = program.driven
    made = made and dataclasses.replace(made, args=described(made.args, mesh))
    return dataclasses.replace(program, args=described(program.args, mesh), driven=made)


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


def compiled(program: Program, passes: str) -> Compiled:
    """The step by `jax.jit`, with passes or, without any, by XLA alone."""
    jax.clear_caches()
    start = time.perf_counter()
    with paropt.enabled(passes):
        lowered = jax.jit(program.step, donate_argnums=program.donated).lower(*program.args)
        executable = lowered.compile()
    seconds = time.perf_counter() - start
    remarks = paropt.remarks(lowered) if passes else ()
    parts = (part(executable, program.calls, program.mesh),)
    if program.driven is None or passes:
        return Compiled(executable, program.args, parts, seconds, remarks)
    run = functools.partial(called, program.driven, executable)
    return Compiled(run, (program.args, program.driven.args[1]), parts, seconds)


def driven(program: Driven, calls: int) -> Compiled:
    """The programs of `paropt.accumulate`."""
    jax.clear_caches()
    start = time.perf_counter()
    lowered = program.train.lower(*program.args)
    executables = {name: each.compile() for name, each in lowered.items()}
    seconds = time.perf_counter() - start
    parts = [part(each, calls if name in PER_MICRO_BATCH else 1) for name, each in executables.items()]

    def run(*args: Any) -> Any:
        return program.by_train(program.train(*args))

    return Compiled(run, program.args, tuple(parts), seconds, program.train.remarks(*program.args))


def called(program: Driven, step: Callable[..., Any], args: Any, micro_batches: Any) -> Any:
    """One update by calls of `step`, which was compiled for `args`."""
    state, first = args
    count = len(jax.tree.leaves(micro_batches)[0])
    placed = [
        jax.tree.map(lambda like, part: jax.device_put(part[number], like.sharding), first, micro_batches)  # noqa: B023
        for number in range(count)
    ]
    return program.by_calls(step, state, placed)


def part(executable: Any, calls: int, mesh: Mesh | None = None) -> Part:
    return Part(paropt.audit(executable, mesh=mesh), calls, executable.memory_analysis().temp_size_in_bytes)


def ideal(program: Program) -> float | None:
    if program.gradients is None:
        return None
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(program.gradients))
    return size * sent_per_byte("all-reduce", program.mesh.size)


def stays(alone: Compiled, ours: Compiled, ideal: float | None) -> tuple[Stay, ...]:
    """What runs more than once per update, by kind and reasons, the most bytes first; all, where more is sent than is
    ideal."""
    least = 0 if ours.side.wire > ENOUGH * (ideal or math.inf) else 1
    wire: Any = Counter()  # bytes, which are no whole numbers
    times: Counter[Any] = Counter()
    rows = [(part, row) for part in ours.parts for row in compared_with(alone, ours, part).rows]
    for part, row in rows:
        missed = [reason for reason in row.reasons if not reason.applied]
        reasons = tuple(dict.fromkeys(f"[{r.pass_name}] {shortened(r.text)}" for r in missed or row.reasons))
        for c in row.after:
            runs = part.runs(c)
            if c.wire_bytes and runs > least:
                wire[c.kind, reasons] += runs * c.wire_bytes
                times[c.kind, reasons] += runs
    return tuple(Stay(kind, size, times[kind, why], why) for (kind, why), size in wire.most_common())


def compared_with(alone: Compiled, ours: Compiled, part: Part) -> AuditComparison:
    return AuditComparison(alone.parts[0].audit, part.audit, passes="par-opt", remarks=ours.remarks)


def shortened(text: str) -> str:
    """A remark with the names of files and lines alone: without the folders of this machine and jax's name stacks."""
    return NAME_STACK.sub(r"\1", FOLDERS.sub("", text))


def compared(alone: Compiled, ours: Compiled) -> Values:
    def results(side: Compiled, args: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in plain(side.run(*jax.tree.map(jax.numpy.copy, args)))]  # some are donated

    before, nudge = results(alone, alone.args), jax.tree.map(nudged, alone.args)
    return values_of(before, results(ours, ours.args), results(alone, nudge))


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


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
