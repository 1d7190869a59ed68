"""Two reduce_scatters in place of one: the groups of devices of each."""

import numpy as np
import pytest

from paropt.passes.spmd.close_sum import in_turns


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [
        (8, 0, [8]),
        (8, 8, [8]),
        (64, 8, [8, 8]),
        (512, 8, [8, 64]),
        (16, 8, [8, 2]),
        (12, 8, [6, 2]),
        (22, 8, [2, 11]),
        (13, 8, [13]),
        (1, 8, [1]),
    ],
)
def test_each_device_keeps_the_part_that_one_reduce_scatter_leaves_it(count: int, most: int, sizes: list[int]) -> None:
    groups = np.random.default_rng(0).permutation(count).reshape(1, count)
    parts = {int(device): np.arange(count) for device in groups.ravel()}
    turns = in_turns(groups, most)
    for turn in turns:
        assert sorted(turn.ravel()) == list(range(count))
        for group in turn:
            assert len({parts[int(device)].tobytes() for device in group}) == 1, "they reduce the same part"
            cut = np.split(parts[int(group[0])], len(group))
            parts |= {int(device): part for device, part in zip(group, cut, strict=True)}
    assert [turn.shape[1] for turn in turns] == sizes
    assert all(parts[int(device)].tolist() == [i] for i, device in enumerate(groups[0]))


def test_over_a_part_of_the_devices_there_is_one() -> None:
    groups = np.arange(64).reshape(2, 32)
    assert [turn.tolist() for turn in in_turns(groups, 8)] == [groups.tolist()]
