"""Where collectives come from that XLA does not label: followed by hand through small texts, and on real programs."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec
from unit.pyext.clusters.test_targets import available

import paropt
from paropt.hlo.census import census
from paropt.reports.comparison import AuditReport

TEXT = """HloModule test, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0){of_argument}
  %b = f32[] parameter(1){of_argument}
  ROOT %c = f32[] add(%a, %b){of_reducer}
}}

%joined (p: f32[8], q: f32[4]) -> f32[12] {{
  %p = f32[8]{{0}} parameter(0)
  %q = f32[4]{{0}} parameter(1)
  ROOT %j = f32[12]{{0}} concatenate(%p, %q), dimensions={{0}}
}}

%cut (p: f32[12]) -> f32[8] {{
  %p = f32[12]{{0}} parameter(0)
  ROOT %s = f32[8]{{0}} slice(%p), slice={{[0:8]}}
}}

%scaled (p: f32[12]) -> f32[12] {{
  %p = f32[12]{{0}} parameter(0)
  ROOT %s = f32[12]{{0}} add(%p, %p)
}}

%body (p: (f32[], f32[8])) -> (f32[], f32[8]) {{
  %p = (f32[], f32[8]{{0}}) parameter(0)
  %n = f32[] get-tuple-element(%p), index=0
  %v = f32[8]{{0}} get-tuple-element(%p), index=1
  %w = f32[8]{{0}} sine(%v){of_body}
  ROOT %t = (f32[], f32[8]{{0}}) tuple(%n, %w)
}}

%condition (p: (f32[], f32[8])) -> pred[] {{
  %p = (f32[], f32[8]{{0}}) parameter(0)
  ROOT %c = pred[] constant(false)
}}

ENTRY %main (x: f32[8], y: f32[4], z: f32[]) -> f32[] {{
  %x = f32[8]{{0}} parameter(0){of_x}
  %y = f32[4]{{0}} parameter(1)
  %z = f32[] parameter(2)
  {lines}
  ROOT %end = f32[] custom-call()
}}
"""
LABELS = ("of_argument", "of_reducer", "of_body", "of_x")


def at(line: int, name: str = "psum") -> str:
    return f', metadata={{op_name="jit(f)/{name}" source_file="m.py" source_line={line}}}'


def origins_of(*lines: str, **labels: str) -> list[tuple[str, int]]:
    """Name and line of the origins of the one collective of a module with these lines."""
    text = TEXT.format(lines="\n  ".join(lines), **{name: labels.get(name, "") for name in LABELS})
    (row,) = census(text)
    return [(origin.op_name.removeprefix("jit(f)/"), origin.source_line) for origin in row.origins]


GROUPS = "channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=%sum"
X = f"%a = f32[8]{{0}} cosine(%x){at(20, 'cos')}"
Y = f"%b = f32[4]{{0}} cosine(%y){at(10, 'cos')}"
JOINED = "%j = f32[12]{0} fusion(%a, %b), kind=kLoop, calls=%joined"
REDUCED = f"%r = f32[12]{{0}} all-reduce(%j), {GROUPS}"


def test_a_label_of_its_own_is_enough() -> None:
    alone = f"%r = f32[8]{{0}} all-reduce(%a), {GROUPS}{at(1)}"
    assert origins_of(X, Y, alone, f"%s = f32[4]{{0}} slice(%r), slice={{[0:4]}}{at(2)}") == []


@pytest.mark.parametrize(("line", "found"), [(2, [("psum", 1), ("psum", 2)]), (1, [])])
def test_of_arrays_put_together_it_has_the_label_of_one(line: int, found: list[tuple[str, int]]) -> None:
    assert origins_of(X, Y, JOINED, REDUCED + at(1), f"%s = f32[8]{{0}} slice(%r), slice={{[0:8]}}{at(line)}") == found


def test_labels_on_what_the_result_is_split_into() -> None:
    split = (
        f"%s = f32[4]{{0}} slice(%r), slice={{[8:12]}}{at(7)}",
        "%f = f32[8]{0} fusion(%r), kind=kLoop, calls=%cut",
        f"%v = f32[2,4]{{1,0}} bitcast(%f){at(5)}",
        f"%w = f32[2,4]{{1,0}} copy(%v){at(6)}",  # behind a label: that of a later op
        f"%u = f32[12]{{0}} sine(%r){at(8)}",  # computes, and does not stand for the collective
        "%g = f32[12]{0} fusion(%r), kind=kLoop, calls=%scaled" + at(9),
    )
    assert origins_of(X, Y, JOINED, REDUCED, *split) == [("psum", 5), ("psum", 7)]


def test_labels_behind_the_done_of_a_pair() -> None:
    start = REDUCED.replace("all-reduce(", "all-reduce-start(")
    done = "%d = f32[12]{0} all-reduce-done(%r)"
    assert origins_of(X, Y, JOINED, start, done, f"%s = f32[8]{{0}} slice(%d), slice={{[0:8]}}{at(5)}") == [("psum", 5)]


def test_the_label_of_the_reducer_when_it_has_the_name_of_its_arguments() -> None:
    own = {"of_argument": at(3), "of_reducer": at(3)}
    assert origins_of(X, f"%r = f32[8]{{0}} all-reduce(%a), {GROUPS}", **own) == [("psum", 3)]
    # It is that of one of the collectives that XLA has made one: the others are told by what they reduce.
    assert origins_of(X, Y, JOINED, REDUCED, **own) == [("psum", 3), ("cos", 10), ("cos", 20)]
    # As jax leaves it: the position of the first collective that reduces so.
    assert origins_of(X, Y, JOINED, REDUCED, of_argument=at(3), of_reducer=at(3, "add")) == [("cos", 10), ("cos", 20)]


def test_what_computes_the_operands() -> None:
    assert origins_of(X, Y, JOINED, REDUCED) == [("cos", 10), ("cos", 20)]
    assert origins_of(X, Y, JOINED + at(4, "concatenate"), REDUCED) == [("concatenate", 4)]


def test_an_argument_of_the_program_is_no_origin() -> None:
    assert origins_of(f"%r = f32[8]{{0}} all-reduce(%x), {GROUPS}", of_x=at(2)) == []


def test_what_a_loop_leaves() -> None:
    """The loop has the label of the whole loop; the value is that of its body."""
    lines = (
        "%t = (f32[], f32[8]{0}) tuple(%z, %x)",
        "%l = (f32[], f32[8]{0}) while(%t), condition=%condition, body=%body" + at(1, "while"),
        "%e = f32[8]{0} get-tuple-element(%l), index=1" + at(1, "while"),
        f"%r = f32[8]{{0}} all-reduce(%e), {GROUPS}",
    )
    assert origins_of(*lines, of_body=at(6, "sin")) == [("sin", 6)]
    assert origins_of(*lines) == []


def test_an_exchange_between_slices_is_followed_to_its_other_end() -> None:
    attributes = (
        'is_host_transfer=true, frontend_attributes={_xla_host_transfer_rendezvous="a_0",_xla_megascale_target='
        '"{1,2}x{0:3}",_xla_megascale_transfer_type="ALL_REDUCE"}'
    )
    start = (
        X,
        "%t = token[] after-all()",
        f"%s = (f32[8]{{0}}, u32[], token[]) send(%a, %t), channel_id=2, {attributes}",
        f"%r = (f32[8]{{0}}, u32[], token[]) recv(%t), channel_id=1, {attributes}",
        "%d = (f32[8]{0}, token[]) recv-done(%r), channel_id=1, is_host_transfer=true",
        "%e = f32[8]{0} get-tuple-element(%d), index=0",
    )
    assert origins_of(*start) == [("cos", 20)]
    assert origins_of(*start, f"%b = f32[2,4]{{1,0}} bitcast(%e){at(5)}") == [("psum", 5)]


def test_what_comes_from_an_exchange_between_slices() -> None:
    text = TEXT.format(
        lines="\n  ".join(
            (
                X,
                "%t = token[] after-all()",
                "%s = (f32[8]{0}, u32[], token[]) send(%a, %t), is_host_transfer=true, "
                'frontend_attributes={_xla_host_transfer_rendezvous="a_0"}',
                "%r = (f32[8]{0}, u32[], token[]) recv(%t), is_host_transfer=true, "
                'frontend_attributes={_xla_host_transfer_rendezvous="a_0"}',
                "%d = (f32[8]{0}, token[]) recv-done(%r), is_host_transfer=true",
                "%e = f32[8]{0} get-tuple-element(%d), index=0",
                f"%g = f32[64]{{0}} all-gather(%e), dimensions={{0}}, {GROUPS.rpartition(',')[0]}",
            )
        ),
        **dict.fromkeys(LABELS, ""),
    )
    (row,) = census(text)
    assert [origin.source_line for origin in row.origins] == [20]


# Programs


def first(x: jax.Array) -> jax.Array:
    return lax.psum(x @ x.T, "data")


def second(x: jax.Array) -> jax.Array:
    return lax.psum(x.sum(0), "data")


def step(x: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.sqrt(first(x)) @ first(x), second(x)


def line_of(function: object) -> int:
    return function.__code__.co_firstlineno + 1  # type: ignore[attr-defined]  # `object` takes any function


@pytest.mark.parametrize("name", ["tpu:v5e:2x2:2", "gpu:h100:1x1x8"])
def test_collectives_of_programs_are_traced_to_their_lines(name: str) -> None:
    """jax labels all reducers with the position of the first: the audit must not fall for that."""
    target = available(name)
    mapped = jax.shard_map(
        step, mesh=target.mesh({"data": 8}), in_specs=PartitionSpec("data"), out_specs=PartitionSpec(), check_vma=False
    )
    report = paropt.audit(jax.jit(mapped).lower(jax.ShapeDtypeStruct((64, 16), jnp.float32)), targets=[target])
    assert isinstance(report, AuditReport)
    origins = [origin for row in report[name].rows for origin in row.place.origins]
    found = {(origin.source_file, origin.source_line) for origin in origins}
    assert found == {(__file__, line_of(first)), (__file__, line_of(second))}
