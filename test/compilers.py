"""The compilers for other targets, of all tests of a process: their children stay, and a module is compiled once.

What a child answers is stored by module, request, versions, flags and the code of paropt.clusters (test/store.py).
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import seen
import store

import paropt.clusters
from paropt.base import device_grid
from paropt.clusters import compile_apart
from paropt.hlo import participants
from paropt.passes.support import context
from paropt.process import subprocesses
from paropt.process.subprocesses import StandingChildren

_SOURCES = (
    *sorted(p for p in Path(paropt.clusters.__file__).parent.iterdir() if p.is_file()),
    *(Path(str(module.__file__)) for module in (participants, subprocesses, device_grid, context)),
    Path(__file__),
    Path(store.__file__),
)
_OF_ONE_TEST = ("PYTEST_CURRENT_TEST", seen.RECORDS)  # a child with other variables is another child


class StoredCompilers(StandingChildren):
    """Asks a child only what is not stored. Errors, and children that die, are not stored."""

    def ask(self, folder: Path, request: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
        module = folder / compile_apart.MODULE
        kept = {name: value for name, value in environment.items() if name not in _OF_ONE_TEST}
        store.key("asked", sources=_SOURCES)  # tests that a change of these can reach ask: test/unchanged.py
        of_a_file = "/" in request["target"]  # a GPU's description, of which the key knows only the name
        if of_a_file or not module.exists():  # without a module it asks about devices
            return super().ask(folder, request, kept)
        key = store.key(
            "compiled", module.read_bytes(), json.dumps(request, sort_keys=True), store.flags(kept), sources=_SOURCES
        )
        known = store.get(key)
        if known is not None and not store.is_doubted(key):
            reply, hlo = json.loads(known)
            (folder / compile_apart.HLO).write_text(hlo, encoding="utf-8")
            return dict(reply)
        reply = super().ask(folder, request, kept)
        if "error" in reply:
            return reply
        hlo = (folder / compile_apart.HLO).read_text(encoding="utf-8")
        if known is not None:
            assert _without_time(json.loads(known)) == _without_time([reply, hlo]), f"test/store.py, {key}: another"
        store.put(key, json.dumps([reply, hlo]).encode())
        return reply


def _without_time(found: list[Any]) -> list[Any]:
    """The keys of JSON in HLO are in any order."""
    reply, hlo = found
    return [{name: value for name, value in reply.items() if name != "seconds"}, sorted(re.findall(r"[\w.\-]+", hlo))]
