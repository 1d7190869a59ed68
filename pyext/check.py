"""`paropt.check`: runs a program as it is and after the passes, and compares their results. docs/check.md."""

import os
import re
import tempfile
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from paropt.base.device_grid import device_grid
from paropt.base.wording import counted
from paropt.modules.module_io import bytecode_of, callback_of, parse
from paropt.passes import DEFAULT_PIPELINE
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import Pipeline
from paropt.passes.support.sources import source_of
from paropt.process.subprocesses import ChildDiedError, ask, command, last_line

SEEDS = 3  # sets of data
_BITS = 1e-9  # stands for a tolerance of 0
SECONDS = 600  # for all runs: a program whose devices wait for each other has no end
_COMMAND = command("paropt.numeric.check_apart")
_FORCED = re.compile(r"--xla_force_host_platform_device_count=\d+")


class CheckError(ValueError):
    """The program cannot be run; or, in `paropt.jit(..., check=True)`, the passes changed its results."""


class Compared(NamedTuple):
    """One result, over all sets of data and all devices."""

    number: int
    type: str  # as in f32[4,4]
    must_be_equal: bool  # bit for bit: integers, or floats from arithmetic that is exact on small integers
    difference: float  # of the worst element, relative to the result's largest; 0.0 when all bits are equal
    tolerance: float  # the difference that rounding explains; 0.0 with `must_be_equal`
    device: int  # where that element is

    @property
    def is_same(self) -> bool:
        return self.difference <= self.tolerance

    def __str__(self) -> str:
        name = f"result {self.number} ({self.type})"
        if self.difference == 0.0:
            return f"{name}: the same, bit for bit"
        how = f"differs by {self.difference:.2g} of its largest element, on device {self.device}"
        if self.must_be_equal:
            return f"{name}: {how}; it must be the same, bit for bit"
        return f"{name}: {how}; rounding explains {self.tolerance:.2g}"


class Check(NamedTuple):
    """The comparison."""

    devices: int
    seeds: int
    passes: str
    is_changed: bool  # by the passes
    results: tuple[Compared, ...]

    @property
    def is_same(self) -> bool:
        return all(result.is_same for result in self.results)

    @property
    def different(self) -> list[Compared]:
        return [result for result in self.results if not result.is_same]

    @property
    def summary(self) -> str:
        """One line."""
        data = f"with {self.seeds} sets of data on {counted(self.devices, 'simulated device')}"
        if not self.is_changed:
            return f"the passes changed nothing: nothing to compare {data}"
        if self.different:
            number = f"{len(self.different)} of {counted(len(self.results), 'result')} wrong"
            return f"{number}, {data}: {'worst, ' * (len(self.different) > 1)}{self._worst_first[0]}"
        close = [result for result in self.results if result.difference]
        exact = len(self.results) - len(close)
        same = f"{exact} of {counted(len(self.results), 'result')} the same, bit for bit"
        if not close:
            return f"{same}, {data}"
        within = f"{len(close)} as far as rounding explains, within {max(r.difference for r in close):.2g}"
        return f"{same}, {within} of the largest element, {data}"

    @property
    def _worst_first(self) -> list[Compared]:
        """Those that differ, by how often they exceed the tolerance."""
        return sorted(self.different, key=lambda r: r.difference / (r.tolerance or _BITS), reverse=True)

    def __str__(self) -> str:
        """The summary, and a line for each other result that is wrong."""
        return "\n".join([self.summary, *(f"  {result}" for result in self._worst_first[1:])])


def check(program: Any, /, *args: Any, passes: str | None = None, seeds: int = SEEDS, **kwargs: Any) -> Check:
    """Runs `program` as it is and after the passes on simulated CPU devices, and compares their results.

    `program` is a function, or the result of `jax.jit` or `paropt.jit`, and is lowered for the arguments (arrays or
    `jax.ShapeDtypeStruct`; their values do not matter); or a `jax.stages.Lowered`; or a module: text, bytecode or an
    `ir.Module`. The data are made up, and other ones on each device where the program allows that.

    Both run in a process of their own. Raises CheckError when they cannot be run, TypeError for another program, or a
    keyword that neither this nor `program` takes, ValueError for no `seeds`.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ValueError(f"seeds: expected a number of sets of data, 1 at least, got {seeds!r}")
    before, own = _module(program, args, kwargs)
    text = passes if passes is not None else own if own is not None else DEFAULT_PIPELINE
    parsed = parse(before, "-", make_context())
    Pipeline.parse(text).run(parsed.operation)
    return compare(before, bytecode_of(parsed), text, seeds)


def compare(before: bytes, after: bytes, passes: str, seeds: int = SEEDS) -> Check:
    """Runs both modules, given as bytecode, and compares their results. Raises CheckError."""
    context = make_context()
    modules = [parse(data, "-", context) for data in (before, after)]
    replicas, partitions = device_grid(modules[0].operation)
    if str(modules[0]) == str(modules[1]):
        return Check(replicas * partitions, seeds, passes, False, ())
    callback = callback_of(modules[0])
    if callback is not None:
        where = source_of(callback.location)
        raise CheckError(f"the program calls back into Python at {where}, which the process that runs it cannot")
    request = {"replicas": replicas, "partitions": partitions, "seeds": seeds}
    reply = _answer(before, after, request)
    if "error" in reply:
        raise CheckError(reply["error"])
    results = tuple(Compared(**result) for result in reply["results"])
    return Check(replicas * partitions, seeds, passes, True, results)


def _module(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, str | None]:
    """The module of `program` before any passes, as bytecode, and the passes that it is to have."""
    from paropt.base.keywords import explained_keywords, require_no_arguments

    if isinstance(program, bytes | str | ir.Module):
        require_no_arguments(check, args, kwargs, "this is a module")
        if isinstance(program, ir.Module):
            return bytecode_of(program), None
        data = program if isinstance(program, bytes) else program.encode()
        return bytecode_of(parse(data, "-", make_context())), None
    from paropt.hook.lowering import WithPasses, lowered_for_arguments, lowered_of

    lowered = lowered_of(program)
    if lowered is not None:
        require_no_arguments(check, args, kwargs)
        return _bytecode(lowered), None
    if not callable(program):
        name = type(program).__name__
        raise TypeError(f"paropt.check: expected a function, a lowered program or a module, not {name}")
    with explained_keywords(check, program, kwargs):
        if isinstance(program, WithPasses):
            return _bytecode(program.lower_without_passes(*args, **kwargs)), program.passes
        return _bytecode(lowered_for_arguments(program, args, kwargs)), None


def _bytecode(lowered: Any) -> bytes:
    return bytecode_of(lowered.compiler_ir())


def _answer(before: bytes, after: bytes, request: dict[str, int]) -> dict[str, Any]:
    """The reply of a process that runs both modules. Raises CheckError when there is none."""
    devices = request["replicas"] * request["partitions"]
    flags = _FORCED.sub("", os.environ.get("XLA_FLAGS", ""))
    forced = f"{flags} --xla_force_host_platform_device_count={devices}".strip()
    environment = {**os.environ, "XLA_FLAGS": forced, "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_NUM_CPU_DEVICES", None)
    with tempfile.TemporaryDirectory(prefix="paropt-") as name:
        folder = Path(name)
        (folder / "before.mlirbc").write_bytes(before)
        (folder / "after.mlirbc").write_bytes(after)
        try:
            return ask(_COMMAND, folder, request, environment, SECONDS)
        except TimeoutExpired:
            raise CheckError(f"the program and its result did not end in {SECONDS} seconds") from None
        except ChildDiedError as died:
            how = f"ended with status {died.status}: {last_line(died.stderr)}"
            raise CheckError(f"the process that ran the program {how}") from None
