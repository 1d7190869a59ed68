"""Messages between the processes of a pipeline, beside arrays, through the key-value store of `jax.distributed`.

While a pipeline is built, they compare their programs, and tell how values that they send are sharded (`Exchange`).
Each process watches the others from then on: when one fails, or ends before a step that another has begun, all end. One
that has died is noticed elsewhere: by the transfers with it, most of which fail when its connections close, and by the
heartbeats of `jax.distributed.initialize`, within its `heartbeat_timeout_seconds` (100 by default).

jax has no public door to that store: this file holds the one private name.
"""

import atexit
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import jax

from paropt.stages.step_plan import StageError

WAIT_SECONDS = 600  # for programs that another process compiles first
_SAME_ORDER = (
    "each process calls the pipeline, and its other methods, in the same order, with the same kinds of arguments"
)
_POLL_SECONDS = 1.0
_END_SECONDS = 5.0  # that a process has for its end once one has failed
_ROOT = "paropt/pipeline"
_FAILED = f"{_ROOT}/failed"
_CALLS, _ENDED = f"{_ROOT}/calls", f"{_ROOT}/ended"


class Calls(NamedTuple):
    """The calls that a process has begun together with others: one that ends, or builds another time, leaves them
    waiting."""

    steps: int = 0
    builds: int = 0


_ENDING = threading.Event()
_BEGUN: dict[str, Calls] = defaultdict(Calls)  # of the pipelines of the same processes, such as "0-1"


@cache
def _store() -> Any:
    """The client of the coordination service that `jax.distributed.initialize` has started."""
    try:
        from jax._src.distributed import global_state

        client = global_state.client
    except (ImportError, AttributeError) as error:
        raise StageError("paropt needs jax 0.10 to 0.12: jax._src.distributed is not as it was") from error
    if client is None:
        raise StageError("several processes: call jax.distributed.initialize before paropt.pipeline")
    return client


class Exchange:
    """Values that processes tell each other, once for each name, while they build one pipeline in step."""

    def __init__(self, processes: tuple[int, ...]) -> None:
        self._processes, self._group = processes, _group(processes)
        self._begun = _begin(self._group, builds=1)
        self._prefix = f"{_ROOT}/{self._group}/{self._begun.builds}"

    @property
    def others(self) -> list[int]:
        return [process for process in self._processes if process != jax.process_index()]

    def tell(self, name: str, value: Any) -> None:
        """`value`, which JSON can hold, for all processes."""
        _store().key_value_set(f"{self._prefix}/{jax.process_index()}/{name}", json.dumps(value))

    def told(self, name: str, process: int) -> Any:
        """The value that `process` tells. Raises StageError where it fails instead, or is silent for WAIT_SECONDS."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            text = _awaited(f"{self._prefix}/{process}/{name}")
            if text is not None:
                return json.loads(text)
            error = _stored(f"{self._prefix}/{process}/error")
            if error is not None:
                raise StageError(f"process {process} cannot build the pipeline: {json.loads(error)}")
            self._require_same_order(process)
        raise StageError(f"process {process} did not build the pipeline within {WAIT_SECONDS} s: {_SAME_ORDER}")

    def _require_same_order(self, process: int) -> None:
        """Raises StageError for a process that takes a step that this one takes later, if ever, instead of building."""
        steps, builds = _calls_in(_stored(f"{_CALLS}/{process}") or "{}", self._group)
        if steps > self._begun.steps and builds < self._begun.builds:
            here = jax.process_index()
            error = StageError(f"process {process} takes a step where process {here} builds: {_SAME_ORDER}")
            _report(error)  # which waits for transfers
            raise error

    def compare(self, parts: dict[str, str]) -> None:
        """Raises StageError unless all processes build the same: `parts` are compared by name."""
        for process, different in self.differences("parts", parts).items():
            both = f"processes {jax.process_index()} and {process}"
            raise StageError(f"{', '.join(different)}: differs between {both}, which must call the same pipeline")

    def differences(self, what: str, parts: Mapping[str, str]) -> dict[int, list[str]]:
        """The names of those `parts` that differ in other processes, by process; a part that a process lacks counts as
        equal."""
        self.tell(what, parts)
        theirs = {process: self.told(what, process) for process in self.others}
        found = {
            process: [name for name, text in parts.items() if told.get(name, text) != text]
            for process, told in theirs.items()
        }
        return {process: names for process, names in found.items() if names}

    @contextmanager
    def building(self) -> Iterator[None]:
        """A StageError within it reaches the other processes, which wait for the programs."""
        try:
            yield
        except StageError as error:
            self.tell("error", str(error))
            raise


def _stored(key: str) -> str | None:
    """The value of a name in the store now."""
    with _unless("NOT_FOUND"):
        text: str = _store().key_value_try_get(key)
        return text
    return None


def _awaited(key: str) -> str | None:
    """The value that a name gets in the store soon."""
    with _unless("DEADLINE_EXCEEDED"):
        text: str = _store().blocking_key_value_get(key, int(_POLL_SECONDS * 1000))
        return text
    return None


@contextmanager
def _unless(status: str) -> Iterator[None]:
    """Suppresses errors with `status`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if _ENDING.is_set():
            time.sleep(2 * _END_SECONDS)  # the store is shut down: why this process ends has been said
        if status not in str(error):
            raise


def _group(processes: tuple[int, ...]) -> str:
    return "-".join(map(str, processes))


def _begin(group: str, *, steps: int = 0, builds: int = 0) -> Calls:
    _BEGUN[group] = Calls(_BEGUN[group].steps + steps, _BEGUN[group].builds + builds)
    return _BEGUN[group]


def _tell_calls(where: str) -> None:
    """Tells the calls that this process has begun: so far, or (`_ENDED`) at all."""
    with suppress(jax.errors.JaxRuntimeError):  # nobody is left who reads it
        _store().key_value_set(f"{where}/{jax.process_index()}", json.dumps(_BEGUN), allow_overwrite=True)


def _calls_in(text: str, group: str) -> Calls:
    return Calls(*json.loads(text).get(group, Calls()))


@contextmanager
def taking_a_step(processes: tuple[int, ...]) -> Iterator[None]:
    """An error within it, after which others wait in vain for this process, ends all."""
    _begin(_group(processes), steps=1)
    try:
        yield
    except BaseException as error:
        if isinstance(error, jax.errors.JaxRuntimeError):
            error.add_note(
                "paropt.pipeline: if a connection was closed, another process has failed: see what that says"
            )
        _report(error)
        raise


@cache
def watch() -> None:
    """Ends this process, with a line that says why, when another one fails; tells the others when this one does."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(ended,), name="paropt-pipeline", daemon=True)
    watcher.start()

    def at_exit() -> None:
        ended.set()
        watcher.join(_POLL_SECONDS)
        error = getattr(sys, "last_value", None)  # the exception that has ended the interpreter, if one did
        if error is not None:
            _report(error)
            print(f"paropt.pipeline: process {jax.process_index()} has failed; all end", file=sys.stderr, flush=True)
            _end_within(_END_SECONDS)  # else jax waits for all others to end, too: 300 s
        _tell_calls(_ENDED)

    atexit.register(at_exit)


def _watch(ended: threading.Event) -> None:
    told: dict[str, Calls] = {}
    while not ended.wait(_POLL_SECONDS):
        if told != _BEGUN:
            told = dict(_BEGUN)
            _tell_calls(_CALLS)
        text = _stored(_FAILED)
        if text is not None:
            process, reason = json.loads(text)
            if process != jax.process_index():
                _end(f"paropt.pipeline: process {process} failed, which ends process {jax.process_index()}: {reason}")
        left = _left_alone()
        if left is not None:
            _end(left)


def _left_alone() -> str | None:
    """Why a call that this process has begun cannot end: a process has ended before that, such as by `sys.exit`."""
    for key, text in _store().key_value_dir_get(_ENDED):  # empty as long as all run
        process = int(key.rpartition("/")[2])
        for group, begun in dict(_BEGUN).items():
            had = _calls_in(text, group)
            if str(process) in group.split("-") and (had.steps < begun.steps or had.builds < begun.builds):
                waits = f"process {jax.process_index()}, which waits for its next one"
                return f"paropt.pipeline: process {process} ended after {had.steps} steps, which ends {waits}"
    return None


def _report(error: BaseException) -> None:
    """Tells all that this process fails, unless another one did before."""
    lines = str(error).splitlines() or [""]
    try:
        _store().key_value_set(_FAILED, json.dumps([jax.process_index(), f"{type(error).__name__}: {lines[0]}"]))
    except jax.errors.JaxRuntimeError:
        return  # there is one already, or nobody is left who reads it


def _end(line: str) -> None:
    """Ends the process, whatever its main thread waits for."""
    print(line, file=sys.stderr, flush=True)
    _ENDING.set()
    _end_within(_END_SECONDS)
    jax.distributed.shutdown()  # meets the process that has failed, which waits for all others there
    os._exit(1)


def _end_within(seconds: float) -> None:
    def end() -> None:
        time.sleep(seconds)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
