"""Processes of a pipeline: what one process is told, and that jax still has the store that several use."""

from typing import cast

import jax
import numpy as np
import pytest
from jax._src import distributed
from jax.sharding import Mesh

from paropt.clusters import targets
from paropt.stages import coordination
from paropt.stages.owners import Owners, owners_of
from paropt.stages.stage_driver import _wait_for
from paropt.stages.step_plan import StageError


def test_the_private_name_is_there() -> None:
    assert distributed.global_state.client is None, "this process is alone"
    with pytest.raises(
        StageError, match=r"^several processes: call jax.distributed.initialize before paropt.pipeline$"
    ):
        coordination._store()


def test_jax_without_the_private_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(distributed, "global_state")
    with pytest.raises(StageError, match=r"^paropt needs jax 0.10 to 0.12: jax._src.distributed is not as it was$"):
        coordination._store()


@pytest.mark.parametrize("target", [None, "tpu:v5e:2x4"])
def test_one_process_has_all_places(target: str | None) -> None:
    devices = jax.devices() if target is None else targets.get(target).devices
    owners = owners_of([Mesh(np.array(row), ("data",)) for row in np.array(devices).reshape(2, -1)])
    assert not owners.several and owners.here(0) and owners.here(1) and not owners.crossing(0, 1)


def test_places_of_several_processes() -> None:
    """Place 1 is on two processes: what goes there crosses, though this process has it too."""
    owners = Owners(((0,), (0, 1), (1,), (0,)))
    assert owners.processes == (0, 1) and owners.several
    assert [owners.here(place) for place in range(4)] == [True, True, False, True]
    assert [owners.speaks(place) for place in range(4)] == [True, True, False, True]
    assert owners.crossing(0, 1) and owners.crossing(0, 2) and not owners.crossing(0, 3)


class _Parts:
    """An array whose parts are gone, though jax says that it is there."""

    def __init__(self, text: str) -> None:
        self._text = text

    def is_deleted(self) -> bool:
        return False

    def block_until_ready(self) -> None:
        raise jax.errors.JaxRuntimeError(self._text)


def test_parts_that_are_donated_are_not_waited_for() -> None:
    text = "INVALID_ARGUMENT: BlockHostUntilReady() called on deleted or donated buffer"
    _wait_for(cast("jax.Array", _Parts(text)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="Connection closed by peer"):
        _wait_for(cast("jax.Array", _Parts("Connection closed by peer")))
