"""Compilers that stay for the next module: one child for modules one after the other, and a new one for one that died."""

import gc
import os
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from unit.pyext.clusters.test_targets import MODULE

import paropt
from paropt.clusters import compile_apart, targets
from paropt.clusters.compile_apart import standing_compilers
from paropt.process.subprocesses import ChildDiedError, StandingChildren

# Answers with its own process id; dies of the question `die`.
CHILD = """
import os, sys
from pathlib import Path
from paropt.process.subprocesses import put_reply, request_in, serve

def answer(folder):
    print("what native code prints is no reply")
    if request_in(folder)["what"] == "die":
        print("last words", file=sys.stderr, flush=True)
        os.abort()
    put_reply(folder, {"pid": os.getpid()})

serve(answer)
"""


@pytest.fixture(autouse=True)
def none_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The children of the other tests are out of the way."""
    monkeypatch.setattr(compile_apart, "_standing", [])


def test_few_children_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that answered last; the others are ended."""
    monkeypatch.setattr(StandingChildren, "_MOST_WAIT", 1)
    children = StandingChildren((sys.executable, "-c", CHILD))
    try:
        first, _, again = (children.ask(tmp_path, {"what": "live"}, {"A": a})["pid"] for a in "121")
        assert again != first
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
    finally:
        children.close()


def test_a_child_answers_until_it_dies(tmp_path: Path) -> None:
    children = StandingChildren((sys.executable, "-c", CHILD))
    try:
        first, second = (children.ask(tmp_path, {"what": "live"}, {})["pid"] for _ in range(2))
        assert first == second
        with pytest.raises(ChildDiedError) as died:
            children.ask(tmp_path, {"what": "die"}, {})
        assert died.value.status < 0 and "last words" in died.value.stderr
        assert children.ask(tmp_path, {"what": "live"}, {})["pid"] != first
    finally:
        children.close()


def test_children_leave_no_file_open(tmp_path: Path) -> None:
    children = StandingChildren([sys.executable, "-c", CHILD])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        children.ask(tmp_path, {"what": "live"}, {})
        children.close()
        del children
        gc.collect()
    assert not [each for each in found if issubclass(each.category, ResourceWarning)]


def test_modules_share_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same executable as from a child of its own."""
    target = targets.get("cpu:8")
    alone = target.compile(MODULE)
    with standing_compilers():
        assert target.compile(MODULE).hlo == alone.hlo
        monkeypatch.setattr(compile_apart, "_COMMAND", ("no such command",))  # nothing is started any more
        assert target.compile(MODULE).memory == alone.memory
    assert not compile_apart._standing


def test_an_error_of_the_compiler_leaves_it_standing() -> None:
    target = targets.get("cpu:8")
    with standing_compilers():
        with pytest.raises(targets.TargetError, match="XLA says "):
            target.compile(MODULE.replace("stablehlo.add %a, %a : tensor<8x8xf32>", _CALL))
        assert target.compile(MODULE).hlo


_CALL = "stablehlo.custom_call @no_such(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>"


def test_policies_share_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_apart, "ask", None)  # a child for one module
    found = paropt.policies(lambda x: x + x, jax.ShapeDtypeStruct((8,), jnp.float32), target="cpu:1", plans=0)
    assert found.best.policy == "policy=keep-shards"
