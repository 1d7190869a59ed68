"""All-reduces that put parts together are told from sums, by how XLA:TPU writes the former."""

import pytest

from paropt.hlo.census import census
from paropt.verify.verification import Prediction, mismatches

# As XLA:TPU gathers an array of one dimension, some layouts left out.
WHOLE = """HloModule m, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

ENTRY %main (p: f32[16], i: s32[]) -> f32[128] {
  %p = f32[16]{0} parameter(0)
  %i = s32[] parameter(1)
  %q = f32[128]{0} broadcast(%p), dimensions={}
  %zero = f32[] constant(0)
  %one = f32[] constant(1)
  %eight = u32[] constant(8)
  %size = u32[] constant(16)
  %zeros = f32[128]{0} broadcast(%zero), dimensions={}
  %replica = u32[] replica-id()
  %partition = u32[] partition-id()
  %first = u32[] multiply(%replica, %eight)
  %number = u32[] add(%first, %partition)
  %place = u32[] multiply(%number, %size)
  %whole = f32[128]{0:T(256)S(1)} dynamic-update-slice(%zeros, %p, %place)
  ROOT %r = f32[128]{0:T(256)S(1)} all-reduce(%whole), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=%add
}
"""

# As it gathers what it has cut: over some of the devices, in a fusion, with a place that it looks up.
IN_A_FUSION = """HloModule m, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%fused (a: f32[128], b: u32[], c: f32[32]) -> f32[128] {
  %a = f32[128]{0} parameter(0)
  %b = u32[] parameter(1)
  %c = f32[32]{0} parameter(2)
  %sine = f32[32]{0} sine(%c)
  ROOT %update = f32[128]{0} dynamic-update-slice(%a, %sine, %b)
}

ENTRY %main (p: f32[32]) -> f32[128] {
  %p = f32[32]{0} parameter(0)
  %zero = bf16[] constant(0)
  %zeros = f32[128]{0} broadcast(%zero), dimensions={}
  %one = f32[] constant(1)
  %ones = f32[128]{0} broadcast(%one), dimensions={}
  %table = u32[8]{0} constant({0, 0, 1, 1, 2, 2, 3, 3})
  %size = u32[1]{0} constant({32})
  %partition = u32[] partition-id()
  %row = u32[1]{0} dynamic-slice(%table, %partition), dynamic_slice_sizes={1}
  %product = u32[1]{0} multiply(%row, %size)
  %place = u32[] bitcast(%product)
  %whole = f32[128]{0} fusion(%zeros, %place, %p), kind=kLoop, calls=%fused
  ROOT %r = f32[128]{0} all-reduce(%whole), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true, to_apply=%add
}
"""


def joined(text: str) -> tuple[bool, ...]:
    (collective,) = census(text)
    assert collective.kind == "all-reduce"
    return collective.joined


@pytest.mark.parametrize("text", [WHOLE, IN_A_FUSION], ids=["whole", "in a fusion"])
def test_parts_are_joined(text: str) -> None:
    assert joined(text) == (True,)
    assert mismatches(Prediction({}, (), (), (), frozenset()), census(text)) == []


@pytest.mark.parametrize(
    "text, old, new",
    [
        (WHOLE, "constant(0)", "constant(1)"),  # what all devices have is summed
        (WHOLE, "(%zeros, %p, %place)", "(%q, %p, %place)"),
        (WHOLE, "(%zeros, %p, %place)", "(%zeros, %p, %size)"),  # all devices write to one place
        (WHOLE, "(%zeros, %p, %place)", "(%zeros, %p, %i)"),  # a row of a gradient, at the number of its layer
        (WHOLE, "multiply(%number, %size)", "multiply(%number, %i)"),
        (WHOLE, "{{0,1,2,3,4,5,6,7}}", "{{0,1,2,3},{4,5,6,7}}"),  # parts of the group alone do not make the whole
        (WHOLE, "(%whole)", "(%q)"),
        (IN_A_FUSION, "{{0,2,4,6},{1,3,5,7}}", "{{0,1,2,3,4,5,6,7}}"),  # pairs write to one place
        (IN_A_FUSION, "fusion(%zeros,", "fusion(%ones,"),
    ],
)
def test_sums_are_no_joined_parts(text: str, old: str, new: str) -> None:
    assert old in text
    assert joined(text.replace(old, new)) == (False,)
