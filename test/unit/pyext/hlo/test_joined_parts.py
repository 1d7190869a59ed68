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

# As it does in a loop in a loop, which carry the table: two elements of the outer one are that table, in turn.
IN_LOOPS = """HloModule m, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%less (c: (s32[], u32[8], f32[32])) -> pred[] {
  %c = (s32[], u32[8]{0}, f32[32]{0}) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %three = s32[] constant(3)
  ROOT %l = pred[] compare(%j, %three), direction=LT
}

%inner (c: (s32[], u32[8], f32[32])) -> (s32[], u32[8], f32[32]) {
  %c = (s32[], u32[8]{0}, f32[32]{0}) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %table = u32[8]{0} get-tuple-element(%c), index=1
  %other = u32[8]{0} add(%table, %table)
  %p = f32[32]{0} get-tuple-element(%c), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%j, %one)
  %zero = f32[] constant(0)
  %zeros = f32[128]{0} broadcast(%zero), dimensions={}
  %size = u32[1]{0} constant({32})
  %partition = u32[] partition-id()
  %row = u32[1]{0} dynamic-slice(%table, %partition), dynamic_slice_sizes={1}
  %product = u32[1]{0} multiply(%row, %size)
  %place = u32[] bitcast(%product)
  %whole = f32[128]{0} dynamic-update-slice(%zeros, %p, %place)
  %r = f32[128]{0} all-reduce(%whole), channel_id=1, replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true, to_apply=%add
  %q = f32[32]{0} slice(%r), slice={[0:32]}
  ROOT %t = (s32[], u32[8]{0}, f32[32]{0}) tuple(%next, %table, %q)
}

%lessOuter (c: (s32[], u32[8], u32[8], f32[32])) -> pred[] {
  %c = (s32[], u32[8]{0}, u32[8]{0}, f32[32]{0}) parameter(0)
  %j = s32[] get-tuple-element(%c), index=0
  %three = s32[] constant(3)
  ROOT %l = pred[] compare(%j, %three), direction=LT
}

%outer (c: (s32[], u32[8], u32[8], f32[32])) -> (s32[], u32[8], u32[8], f32[32]) {
  %c = (s32[], u32[8]{0}, u32[8]{0}, f32[32]{0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %here = u32[8]{0} get-tuple-element(%c), index=1
  %there = u32[8]{0} get-tuple-element(%c), index=2
  %p = f32[32]{0} get-tuple-element(%c), index=3
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %start = s32[] constant(0)
  %t = (s32[], u32[8]{0}, f32[32]{0}) tuple(%start, %here, %p)
  %w = (s32[], u32[8]{0}, f32[32]{0}) while(%t), condition=%less, body=%inner
  %same = u32[8]{0} get-tuple-element(%w), index=1
  %q = f32[32]{0} get-tuple-element(%w), index=2
  ROOT %u = (s32[], u32[8]{0}, u32[8]{0}, f32[32]{0}) tuple(%next, %there, %same, %q)
}

ENTRY %main (p: f32[32], i: u32[8]) -> f32[32] {
  %p = f32[32]{0} parameter(0)
  %i = u32[8]{0} parameter(1)
  %start = s32[] constant(0)
  %table = u32[8]{0} constant({0, 0, 1, 1, 2, 2, 3, 3})
  %t = (s32[], u32[8]{0}, u32[8]{0}, f32[32]{0}) tuple(%start, %table, %table, %p)
  %w = (s32[], u32[8]{0}, u32[8]{0}, f32[32]{0}) while(%t), condition=%lessOuter, body=%outer
  ROOT %r = f32[32]{0} get-tuple-element(%w), index=3
}
"""


def joined(text: str) -> tuple[bool, ...]:
    (collective,) = census(text)
    assert collective.kind == "all-reduce"
    return collective.joined


@pytest.mark.parametrize("text", [WHOLE, IN_A_FUSION, IN_LOOPS], ids=["whole", "in a fusion", "in loops"])
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
        (IN_LOOPS, "tuple(%start, %table, %table, %p)", "tuple(%start, %i, %i, %p)"),  # a table that the user gives
        (IN_LOOPS, "tuple(%start, %table, %table, %p)", "tuple(%start, %table, %i, %p)"),
        (IN_LOOPS, "tuple(%next, %table, %q)", "tuple(%next, %other, %q)"),  # another place in each trip
    ],
)
def test_sums_are_no_joined_parts(text: str, old: str, new: str) -> None:
    assert old in text
    assert joined(text.replace(old, new)) == (False,)
