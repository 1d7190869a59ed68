"""`fuse-loops` on random pairs of loops: values are kept, whatever the second loop reads and carries."""

import pytest
from hypothesis import given, note, settings
from modules import parsed
from numeric.oracle import assert_same, optimized
from property.loop_pairs import loop_pairs

PAIRS = 150


@pytest.mark.random_programs(PAIRS)
@settings(max_examples=PAIRS)
@given(text=loop_pairs())
def test_pair_keeps_its_values(text: str) -> None:
    note(text)
    before = str(parsed(text))
    after, (remark,) = optimized(before, "fuse-loops")
    note(f"after:\n{after}")
    assert (after != before) == remark.applied
    again, _ = optimized(after, "fuse-loops")
    assert again == after, "running it twice changes the module again"
    if remark.applied:
        assert_same(before, after)
