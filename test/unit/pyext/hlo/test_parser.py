"""The reader of optimized HLO, and the trip counts that the text proves."""

import re
from pathlib import Path
from typing import Any

import pytest

from paropt.hlo import parser as hlo
from paropt.hlo.replica_groups import read_groups
from paropt.hlo.trip_counts import Scope

SAVED = sorted((Path(__file__).parent / "saved").glob("*.txt"))


def module_with(*lines: str, name: str = "main") -> str:
    """A module of one computation; the last line is its root."""
    body = [f"  {line}" for line in lines[:-1]] + [f"  ROOT {lines[-1]}"]
    return "\n".join(["HloModule test, num_partitions=8", "", f"ENTRY %{name} () -> f32[] {{", *body, "}", ""])


def root_of(*lines: str) -> hlo.Instruction:
    return hlo.parse(module_with(*lines)).entry.root


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_reads_every_line_of_real_text(path: Path) -> None:
    text = path.read_text()
    module = hlo.parse(text)
    read = [i.name for c in module.computations.values() for i in c.instructions.values()]
    assert read == re.findall(r"^  (?:ROOT )?%([\w.\-]+) = ", text, re.MULTILINE)
    assert module.partitions == (4 if "slices" in path.stem else 8)  # XLA:TPU compiles one executable per slice
    assert module.replicas == 1
    assert all(i.config() == {} or "backend_config" in i.attributes for i in module.entry.instructions.values())


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_usual_lines_are_read_like_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most lines take two matches; step by step, they come to the same."""
    text, steps, step_by_step = path.read_text(), [], hlo._read_any_instruction

    def recorded(line: Any) -> Any:
        steps.append(line)
        return step_by_step(line)

    monkeypatch.setattr(hlo, "_read_any_instruction", recorded)
    usual = hlo.parse(text)
    lines = sum(len(computation.instructions) for computation in usual.computations.values())
    assert len(steps) < lines / 4
    for pattern in ("_USUAL", "_USUAL_ATTRIBUTE"):
        monkeypatch.setattr(hlo, pattern, re.compile(r"(?!)"))
    assert hlo.parse(text) == usual
    assert len(steps) > lines


@pytest.mark.parametrize(
    "shape, expected",
    [
        ("f32[8,4]{1,0}", 128),
        ("f32[]", 4),
        ("bf16[16,128]{1,0:T(8,128)(2,1)S(1)}", 4096),
        ("pred[3]{0}", 3),
        ("s4[5]{0:E(4)}", 3),
        ("u4[4]", 2),
        ("f8e4m3fn[7]{0}", 7),
        ("f8e5m2[2,2]", 4),
        ("c64[3]", 24),
        ("c128[1]", 16),
        ("f32[<=8,2]{1,0}", 64),
        ("f32[0,4]", 0),
        ("token[]", 0),
        ("opaque[]", 0),
        ("(f32[2]{0}, (s8[3], pred[]), /*index=2*/token[])", 12),
        ("((f32[8]{0}), f32[4]{0}, u32[]{:S(2)})", 52),
        ("()", 0),
        ("b(f32[4]{0})", 16),
    ],
)
def test_bytes_of_shapes(shape: str, expected: int) -> None:
    instruction = root_of(f"%x = {shape} custom-call()")
    assert sum(array.bytes for array in hlo.arrays_of(instruction.shape)) == expected


def test_a_mesh_in_another_order_of_devices_is_one_value() -> None:
    """As XLA:CPU prints an all-gather over one axis of a mesh (replica=2, data=4)."""
    gather = root_of(
        "%a = f32[2]{0} parameter(0)",
        "%x = f32[8]{0} all-gather(%a), channel_id=1, replica_groups=mesh['axis_0'=4,'axis_1'=1,'axis_2'=2], "
        "device_ids=([2,4]T(1,0)) {'axis_0'}, dimensions={0}, use_global_device_ids=true",
    )
    assert list(gather.attributes) == ["channel_id", "replica_groups", "dimensions", "use_global_device_ids"]
    assert read_groups(gather.attributes["replica_groups"]) == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_reads_attributes_with_brackets_strings_and_escapes() -> None:
    call = root_of(
        "%a = f32[2]{0} parameter(0)",
        "%x = f32[2]{0} custom-call(f32[2]{0} %a, /*index=1*/%a), window={size=3x3 pad=1_1}, slice={[0:4], [0:4]}, "
        'custom_call_target="f\\"(,{", metadata={op_name="a \\"b\\", c={" source_file="m.py" source_line=7}, '
        'dim_labels=b01f_01io->b01f, backend_config={"debug":"\\nRing{colors:1","n":["1",{"k":2}]}',
    )
    assert call.operands == ("a", "a")
    assert list(call.attributes) == [
        "window",
        "slice",
        "custom_call_target",
        "metadata",
        "dim_labels",
        "backend_config",
    ]
    assert call.attributes["slice"] == "{[0:4], [0:4]}"
    assert call.metadata() == {"op_name": 'a "b", c={', "source_file": "m.py", "source_line": "7"}
    assert call.config() == {"debug": "\nRing{colors:1", "n": ["1", {"k": 2}]}


def test_reads_a_quoted_backend_config() -> None:
    assert root_of('%x = f32[] custom-call(), backend_config="{\\"a\\": 1}"').config() == {"a": 1}
    assert root_of('%x = f32[] custom-call(), backend_config=""').config() == {}


def test_reads_names_without_percent_and_headers_without_signature() -> None:
    text = "HloModule m\n\nENTRY main {\n  // a comment\n  p = f32[2] parameter(0)\n  ROOT q = f32[2] negate(p)\n}\n"
    module = hlo.parse(text)
    assert module.entry.root.operands == ("p",)


def test_source_is_in_the_metadata_or_in_tables() -> None:
    tables = [
        "FileNames",
        '1 "lib.py"',
        '2 "model.py"',
        "",
        "FunctionNames",
        '1 "f"',
        "",
        "FileLocations",
        "1 {file_name_id=2 function_name_id=1 line=31 end_line=31 column=2 end_column=9}",
        "",
        "StackFrames",
        "4 {file_location_id=1 parent_frame_id=1}",
    ]
    in_table = '%a = f32[] custom-call(), metadata={op_name="f" stack_frame_id=4}'
    inline = '%b = f32[] custom-call(), metadata={source_file="other.py" source_line=3}'
    lines = module_with(in_table, inline, "%c = f32[] custom-call()").split("\n")
    module = hlo.parse("\n".join([lines[0], *tables, *lines[1:]]))
    assert [module.source(i) for i in module.entry.instructions.values()] == [
        ("model.py", 31),
        ("other.py", 3),
        ("", 0),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "line 1: the text is empty"),
        ("module @jit_f {\n}", "line 1: expected `HloModule name`.*`module @jit_f"),
        ("HloModule m\nwhat is this", "line 2: expected a computation.*`what is this`"),
        ("HloModule m\n", "has 0 ENTRY computations"),
        (module_with("%x = f32[] iota()") + "\n%main {\n  ROOT %y = f32[] iota()\n}", "line 7: a second computation"),
        ("HloModule m\nENTRY %e () -> f32[] {\n  ROOT %x = f32[] custom-call()\n", "line 2: the text ends within"),
        ("HloModule m\nENTRY %e () -> f32[] {\n  %x = f32[] custom-call()\n}", "line 2: the computation has no ROOT"),
        (module_with("%x = f32[2 custom-call()"), "line 4: expected a shape"),
        (module_with("%x = q7[2] custom-call()"), "line 4: expected a shape"),
        (module_with("%x = f32[2,,<=] custom-call()"), "line 4: cannot read the dimensions"),
        (module_with("%x = (f32[] f32[]) custom-call()"), "line 4: expected `,` or `\\)` in a tuple"),
        (module_with("%x = " + "(" * 99), "line 4: a tuple is nested deeper"),
        (module_with("%x = f32[]"), "line 4: expected an opcode"),
        (module_with("%x = f32[] add(%y)"), "line 4: operand `y` is not defined above"),
        (module_with("%x = f32[] custom-call(("), "line 4: `\\)` is missing"),
        (module_with("%x = f32[] custom-call(]"), "line 4: expected `\\)` after the operands"),
        (module_with("%x = f32[] custom-call(1+1)"), "line 4: cannot read operand `1\\+1`"),
        (module_with("%x = f32[] custom-call() {"), "line 4: expected `, attribute=value`"),
        (module_with("%x = f32[] custom-call(), what"), "line 4: cannot read attribute `what`"),
        (module_with('%x = f32[] custom-call(), a="b'), "line 4: a string is not closed"),
        (module_with("%x = f32[] custom-call(), a={b)"), "line 4: `\\)` closes another bracket"),
        (module_with("%x = f32[] custom-call(), a=b}"), "line 4: a bracket is closed"),
        (module_with("%x = f32[] iota()", "%x = f32[] iota()"), "line 5: a second instruction of that name"),
    ],
)
def test_a_line_it_cannot_read_is_named(text: str, message: str) -> None:
    with pytest.raises(hlo.HloError, match=message) as raised:
        hlo.parse(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("cut", [0.1, 0.35, 0.6, 0.85, 0.99])
@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_truncated_text_is_refused(path: Path, cut: float) -> None:
    text = path.read_text().rstrip()
    with pytest.raises(hlo.HloError):
        hlo.parse(text[: int(len(text) * cut)])


def trip_counts(text: str) -> list[int | None]:
    """Of the loops that the entry reaches, outer loops first."""

    def inside(scope: Scope) -> list[int | None]:
        found = []
        for loop in scope.computation.instructions.values():
            if loop.opcode == "while":
                found += [scope.trip_count(loop), *inside(scope.inside_loop(loop, "body"))]
        return found

    return inside(Scope.of_entry(hlo.parse(text)))


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.stem)
def test_proves_the_trip_counts_that_xla_knows(path: Path) -> None:
    text = path.read_text()
    without = re.sub(r'"known_trip_count":\{"n":"\d+"\}', '"hidden":0', text)
    assert (without == text) == path.stem.startswith("tpu")  # XLA:TPU does not write them
    nested = not {"slices", "concatenated"} & set(path.stem.split("-"))
    assert trip_counts(text) == trip_counts(without) == ([5, 3] if nested else [5])


LOOP = """HloModule loop

%body (p: (s32[], f32[4], s32[])) -> (s32[], f32[4], s32[]) {
  %p = (s32[], f32[4]{0}, s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[4]{0} get-tuple-element(%p), index=1
  %n = s32[] get-tuple-element(%p), index=2
  %step = s32[] constant(STEP)
  %next = s32[] add(%i, %step)
  %other = s32[] add(%n, %step)
  ROOT %t = (s32[], f32[4]{0}, s32[]) tuple(NEXT, %x, LAST)
}

%condition (p: (s32[], f32[4], s32[])) -> pred[] {
  %p = (s32[], f32[4]{0}, s32[]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] get-tuple-element(%p), index=2
  %two = s32[] constant(2)
  %later = s32[] add(%two, %i)
  ROOT %c = pred[] compare(COMPARED), direction=DIRECTION
}

ENTRY %main (x: f32[4], s: s32[]) -> (s32[], f32[4], s32[]) {
  %x = f32[4]{0} parameter(0)
  %s = s32[] parameter(1)
  %start = s32[] constant(START)
  %bound = s32[] constant(BOUND)
  %copied = s32[] copy(%start)
  %t = (s32[], f32[4]{0}, s32[]) tuple(INIT, %x, %bound)
  ROOT %w = (s32[], f32[4]{0}, s32[]) while(%t), condition=%condition, body=%body
}
"""
DEFAULTS = {
    "STEP": "1",
    "NEXT": "%next",
    "LAST": "%n",
    "COMPARED": "%i, %n",
    "DIRECTION": "LT",
    "START": "0",
    "BOUND": "7",
    "INIT": "%copied",
}


@pytest.mark.parametrize(
    "changes, count",
    [
        ({}, 7),
        ({"START": "2"}, 5),
        ({"START": "-3"}, 10),
        ({"STEP": "3"}, 3),
        ({"START": "9"}, 0),
        ({"COMPARED": "%n, %i", "DIRECTION": "GT"}, 7),
        ({"COMPARED": "%later, %n"}, 5),
        ({"COMPARED": "%i, %two"}, 2),
        ({"STEP": "0"}, None),
        ({"STEP": "-1"}, None),
        ({"NEXT": "%n"}, None),  # the counter is set, not counted
        ({"LAST": "%next"}, None),  # the bound changes
        ({"NEXT": "%other", "LAST": "%next", "COMPARED": "%i, %two"}, None),  # the counter is another one's successor
        ({"INIT": "%s"}, None),  # starts at an argument
        ({"DIRECTION": "NE"}, None),
        ({"COMPARED": "%n, %i"}, None),
        ({"BOUND": "2147483647", "STEP": "2"}, None),  # the counter may wrap around
    ],
)
def test_trip_count_is_proven_or_unknown(changes: dict[str, str], count: int | None) -> None:
    text = LOOP
    for word, value in (DEFAULTS | changes).items():
        text = re.sub(rf"\b{word}\b", value, text)
    assert trip_counts(text) == [count]
