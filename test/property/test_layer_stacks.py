"""`accumulate-in-place` on random loops over layers: values are kept, whatever is stacked and added."""

import pytest
from hypothesis import given, note, settings
from modules import parsed
from numeric.oracle import assert_same, optimized
from property.layer_stacks import layer_stacks

PROGRAMS = 100


@pytest.mark.random_programs(PROGRAMS)
@settings(max_examples=PROGRAMS)
@given(text=layer_stacks())
def test_sums_keep_their_values(text: str) -> None:
    note(text)
    before = str(parsed(text))
    after, remarks = optimized(before, "accumulate-in-place")
    note(f"after:\n{after}")
    assert (after != before) == any(remark.applied for remark in remarks)
    again, _ = optimized(after, "accumulate-in-place")
    assert again == after, "running it twice changes the module again"
    if after != before:
        assert_same(before, after)
