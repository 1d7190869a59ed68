"""The ops that passes know: one row per op, and the questions that passes ask about an op instead of its name.

A row holds proven or measured facts only: each question about an op without a row, or about a column that its row
leaves out, has the safe answer. Tests execute the rows, as far as columns can be executed; see
`docs/writing-a-pass.md`.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

from jaxlib.mlir import ir

Kind = Literal[
    "elementwise",  # each element of the result is a function of the elements in its place
    "move",  # elements are moved to places that operands and attributes say
    "compute",  # arithmetic on one device, across elements
    "source",  # no operands: a constant, or numbers that count
    "random",
    "barrier",
    "control",  # runs its regions, as often as it says
    "end",  # of a region
    "function",
    "annotation",  # says how its operand is sharded, and returns it
    "collective",  # in a per-device program: done by all devices of a group at the same time
    "exposed",  # in a global-view program: the collectives of Shardy's explicit form
    "device id",
    "effect",  # may do something though nothing reads its results
]

Column = Literal[
    # How often, and where.
    # Computes its results, and does no more, from its operands and the values that its regions read alone: equal ones
    # give equal results. So results are uniform where operands are: a property of values, see `dataflow/uniformity.py`.
    "deterministic",
    "repeatable",  # computes its results and does no more, wherever and however often it is done
    "costly",  # too much to be done for the whole batch, before the loop over its parts
    "cheap",  # computing a part costs no more than cutting it from the whole
    # Reductions before it: `law` says in which operands it is linear, and on which condition.
    "copies",  # it may be crossed whatever the reducer: elements are copied, and converted in their order
    "shardwise",  # it does the same on a shard as on the whole: a reduce_scatter may cross it
    "tracked",  # in a global-view program XLA follows an unreduced value through it, however values are sharded
    "tracked-if",  # it does on a condition, in `dataflow/xla_tracking`
    "real-only",  # XLA:TPU loses track of complex numbers there
    "widenable",  # it does the same in a wider float type as in its own
    # Its effect on elements.
    "keeps",  # its result has all elements of its operand, once each, as another type perhaps
    "block",  # its result is a part of its first operand, or all of it, each element once
    "lookup",  # a copy of elements of its first operand, at indices that the others are
    "squeezes",  # it may do nothing but add or drop dimensions of one element
    "assembles",  # its result is put together of operands, or of copies of one
    "pads",  # with numbers other than zero, perhaps
    "contraction",  # adds up products
    "scales",  # by its second operand, or by either
    "sum",  # of two terms, or their difference
    "keeps-sum",  # a sum stays one through it: others are added, taken off, or selected
    "predicate",  # compares, or combines truth values
    # The kinds of reducers.
    "combines",  # associative and commutative: up to rounding, of floats
    "extreme",  # the larger, or smaller, of two
    "idempotent",  # how often a value is combined does not matter
    # Which operand a result is.
    "identity",  # each result is the operand in its place
    "carries",  # each result is, or begins as, the operand in its place
    "branch",  # runs one of its regions
    # Shardings, and the partitioner.
    "says-sharding",  # its own attributes say how its results are sharded
    "no-rule",  # Shardy has no sharding rule for it: `sharding/chlo` writes one
    "cloned",  # the partitioner makes a copy of it for each reader
    "silent",  # XLA drops its metadata
    # Collectives.
    "reduction",
    "same-in-group",  # all devices of a group get the same, made of the operands of the group, in order
    "by-place",  # the result of a device also depends on its place in the group
    "counts-partitions",  # with a channel, its ids count partitions, of each replica by itself
    "channel",  # has a handle that no other op may have
]


class OpRow(NamedTuple):
    """The facts about one op."""

    op: str
    kind: Kind
    columns: frozenset[str]
    law: str = ""  # the function of `dataflow/linearity` that says in which operands the op is linear; "": in none
    reason: str = ""  # why the law holds; of an op without a law, an explanation of its row


def _row(name: str, columns: str = "", law: str = "", reason: str = "") -> tuple[str, str, str, str]:
    return name, columns, law, reason


def _of(kind: Kind, shared: str, *rows: tuple[str, str, str, str]) -> tuple[OpRow, ...]:
    """Rows of one kind, which have the columns `shared`. Names without a dialect are StableHLO's."""
    return tuple(
        OpRow(name if "." in name else f"stablehlo.{name}", kind, _words(f"{shared} {columns}"), law, reason)
        for name, columns, law, reason in rows
    )


def _words(columns: str) -> frozenset[str]:
    words = frozenset(columns.split())
    assert words <= {*get_args(Column)}, f"no such columns: {words}"
    return words


# fmt: off
_TABLE = (
    *_of("elementwise", "deterministic",
        _row("abs", "cheap"),
        _row("add", "cheap tracked widenable combines sum keeps-sum assembles"),  # linear as the reducer, not as a row
        _row("and", "cheap combines idempotent predicate"),
        _row("atan2"),
        _row("bitcast_convert", "cheap"),
        _row("cbrt"),
        _row("ceil"),
        _row("clamp", "cheap"),
        _row("compare", "cheap predicate"),
        _row("complex", "tracked", "every", "the parts of a sum are the sums of the parts"),
        _row("convert", "cheap copies shardwise tracked keeps keeps-sum", "converted", "a wider float type holds every value, so nothing is lost"),
        _row("cosine", "cheap"),
        _row("count_leading_zeros"),
        _row("divide", "cheap shardwise tracked real-only widenable scales", "dividend", "sum(x) / c = sum(x / c)"),
        _row("exponential", "cheap"),
        _row("exponential_minus_one"),
        _row("floor", "cheap"),
        _row("imag", "shardwise tracked", "every", "the imaginary part of a sum is the sum of the imaginary parts"),
        _row("is_finite", "cheap"),
        _row("log", "cheap"),
        _row("log_plus_one", "cheap"),
        _row("logistic", "cheap"),
        _row("maximum", "cheap widenable combines extreme idempotent"),
        _row("minimum", "cheap widenable combines extreme idempotent"),
        _row("multiply", "cheap shardwise tracked widenable combines scales", "factor", "c * sum(x) = sum(c * x)"),
        _row("negate", "cheap shardwise tracked widenable", "every", "-sum(x) = sum(-x)"),
        _row("not", "cheap"),
        _row("or", "cheap combines idempotent predicate"),
        _row("popcnt"),
        _row("power", "cheap"),
        _row("real", "shardwise tracked", "every", "the real part of a sum is the sum of the real parts"),
        _row("reduce_precision", "cheap"),
        _row("remainder", "cheap"),
        _row("round_nearest_afz"),
        _row("round_nearest_even"),
        _row("rsqrt", "cheap"),
        _row("select", "cheap copies tracked widenable keeps-sum", "selected", "all devices of a group take the same elements"),
        _row("shift_left", "cheap"),
        _row("shift_right_arithmetic", "cheap"),
        _row("shift_right_logical", "cheap"),
        _row("sign", "cheap"),
        _row("sine", "cheap"),
        _row("sqrt", "cheap"),
        _row("subtract", "cheap shardwise tracked widenable sum keeps-sum", "difference", "sum(x) - sum(y) = sum(x - y)"),
        _row("tan"),
        _row("tanh", "cheap"),
        _row("xor", "cheap"),
    ),
    *_of("elementwise", "deterministic no-rule",  # XLA makes other ops of these, elementwise ones, before it asks Shardy
        _row("chlo.acos"),
        _row("chlo.acosh"),
        _row("chlo.asin"),
        _row("chlo.asinh"),
        _row("chlo.atan"),
        _row("chlo.atanh"),
        _row("chlo.bessel_i1e"),
        _row("chlo.conj"),
        _row("chlo.cosh"),
        _row("chlo.digamma"),
        _row("chlo.erf"),
        _row("chlo.erf_inv"),
        _row("chlo.erfc"),
        _row("chlo.is_inf"),
        _row("chlo.lgamma"),
        _row("chlo.next_after"),
        _row("chlo.polygamma"),
        _row("chlo.sinh"),
        _row("chlo.square"),
        _row("chlo.tan"),
        _row("chlo.zeta"),
    ),
    *_of("move", "deterministic",
        _row("broadcast_in_dim", "cheap copies tracked widenable squeezes assembles cloned", "copied", "each element several times"),
        _row("concatenate", "copies tracked widenable assembles", "every", "each element belongs to one operand"),
        _row("dynamic_slice", "copies tracked widenable block lookup", "sliced", "all devices of a group take the same elements"),
        _row("dynamic_update_slice", "copies tracked widenable assembles", "updated", "each element belongs to one operand"),
        _row("gather", "copies tracked-if widenable lookup", "sliced", "all devices of a group take the same elements"),
        _row("pad", "tracked widenable pads", "padded", "zero is the sum of zeros"),
        _row("reshape", "cheap copies tracked widenable keeps keeps-sum block squeezes", "every", "the same elements in another shape"),
        _row("reverse", "copies tracked widenable", "every", "the same elements in another order"),
        _row("slice", "cheap copies tracked widenable block", "every", "some of the elements"),
        _row("transpose", "cheap copies tracked widenable keeps block", "every", "the same elements in another order"),
    ),
    *_of("compute", "deterministic",  # in an order that is the same on all devices
        _row("convolution", "costly tracked-if contraction", "product", "a convolution is linear in either operand"),
        _row("dot_general", "costly tracked-if contraction", "product", "sum(x) . c = sum(x . c)"),
        _row("map"),
        _row("reduce", "tracked real-only", "summed", "a sum of sums, in another order"),
        _row("reduce_window", "tracked real-only pads", "summed", "sums of sums, in another order: a cumulative sum is one"),
        _row("scatter", "costly tracked-if real-only", "scattered", "all devices of a group add to, or replace, the same elements"),
        _row("select_and_scatter", "pads"),
        _row("sort", "costly"),
        _row("chlo.top_k", "no-rule"),
    ),
    *_of("compute", "repeatable",  # not proven to be the same on all devices
        _row("batch_norm_grad"),
        _row("batch_norm_inference"),
        _row("cholesky"),
        _row("dot"),
        _row("fft"),
        _row("triangular_solve"),
    ),
    *_of("source", "deterministic cloned",
        _row("constant", "silent"),
        _row("iota", "cheap"),
    ),
    *_of("random", "",
        _row("rng"),
        _row("rng_bit_generator", "deterministic costly", reason="a counter-based generator, whose state is an operand"),
    ),
    *_of("barrier", "deterministic",
        _row("optimization_barrier", "copies shardwise tracked identity carries", "held", "each result is the operand in its place"),
    ),
    *_of("control", "",
        _row("if", "deterministic costly branch", reason="`Uniformity` follows on what it depends, and what its regions return"),
        _row("case", "deterministic costly branch", reason="the same"),
        _row("while", "deterministic costly carries", reason="the same, and what it carries"),
        _row("sdy.manual_computation", "repeatable says-sharding", reason="`Uniformity` knows how it shards what it takes"),
    ),
    *_of("end", "deterministic",
        _row("return"),
        _row("sdy.return"),
        _row("func.return", "silent"),
    ),
    *_of("function", "deterministic",
        _row("func.func"),
    ),
    *_of("annotation", "",
        _row("sdy.sharding_constraint", "deterministic copies tracked widenable keeps-sum identity says-sharding", "every", "the same value; it says how other axes shard it"),
        _row("sdy.propagation_barrier", "deterministic keeps-sum identity", reason="the same value; shardings pass it in one direction"),
        _row("sdy.reshard", "repeatable"),
    ),
    *_of("collective", "repeatable channel",  # done by all devices of a group or by none, as all that is repeatable
        _row("all_gather", "same-in-group"),
        _row("all_reduce", "reduction same-in-group"),
        _row("all_to_all", "by-place counts-partitions"),
        _row("collective_broadcast"),
        _row("collective_permute", "counts-partitions"),
        _row("reduce_scatter", "reduction by-place"),
    ),
    *_of("exposed", "",
        _row("sdy.all_reduce", "reduction"),
        _row("sdy.reduce_scatter"),
    ),
    *_of("device id", "repeatable",  # a number of the device, the same in every copy
        _row("partition_id"),
        _row("replica_id"),
    ),
    *_of("effect", "",
        _row("custom_call", reason="repeatable, and without an effect, if it says so: see `only_computes`"),
        _row("infeed"),
        _row("outfeed"),
        _row("recv", "channel"),
        _row("send", "channel"),
    ),
)
# fmt: on
OP_TABLE = {row.op: row for row in _TABLE}
LINEAR = tuple(row.op for row in _TABLE if row.law)


def ops_with(column: Column) -> tuple[str, ...]:
    """The names of the ops that have `column`, in the order of the table."""
    return tuple(row.op for row in _TABLE if column in row.columns)


def ops_of_kind(kind: Kind) -> tuple[str, ...]:
    """The names of the ops of that kind, in the order of the table."""
    return tuple(row.op for row in _TABLE if row.kind == kind)


def kind_of(op: ir.Operation) -> Kind | None:
    """The kind of `op`; None of an op without a row."""
    row = OP_TABLE.get(op.name)
    return row.kind if row is not None else None


Query = Callable[[ir.Operation], bool]


def _asks(*columns: Column) -> Query:
    """Whether an op has one of `columns`."""
    return _among(name for column in columns for name in ops_with(column))


def _is(kind: Kind) -> Query:
    """Whether an op is of that kind."""
    return _among(ops_of_kind(kind))


def _among(names: Iterable[str]) -> Query:
    members = frozenset(names)

    def ask(op: ir.Operation) -> bool:
        return op.name in members

    return ask


def is_costly(op: ir.Operation) -> bool:
    """Whether `op` may cost much: an op without a row may."""
    row = OP_TABLE.get(op.name)
    return row is None or "costly" in row.columns


def may_have_effect(op: ir.Operation) -> bool:
    """Whether `op` may do something though nothing reads its results: an op without a row may."""
    return kind_of(op) in ("effect", None)


# One question a column or kind, where its meaning is explained.
is_elementwise = _is("elementwise")
is_compute = _is("compute")
is_random = _is("random")
is_end = _is("end")
is_annotation = _is("annotation")
is_collective = _is("collective")
is_exposed = _is("exposed")
is_device_id = _is("device id")

is_deterministic = _asks("deterministic")
only_computes = _asks("deterministic", "repeatable")
is_cheap = _asks("cheap")
only_copies = _asks("copies")
is_shardwise = _asks("shardwise")
is_tracked = _asks("tracked")
is_tracked_on_condition = _asks("tracked-if")
is_widenable = _asks("widenable")
keeps_elements = _asks("keeps")
takes_block = _asks("block")
looks_up = _asks("lookup")
may_squeeze = _asks("squeezes")
assembles = _asks("assembles")
pads = _asks("pads")
is_contraction = _asks("contraction")
scales = _asks("scales")
adds = _asks("sum")
keeps_sum = _asks("keeps-sum")
is_predicate = _asks("predicate")
is_extreme = _asks("extreme")
is_identity = _asks("identity")
carries_operands = _asks("carries")
is_branch = _asks("branch")
says_sharding = _asks("says-sharding")
is_cloned = _asks("cloned")
drops_metadata = _asks("silent")
is_same_in_group = _asks("same-in-group")
depends_on_place = _asks("by-place")
counts_partitions = _asks("counts-partitions")


def is_linear(op: ir.Operation) -> bool:
    """Whether `dataflow/linearity` has a law for `op`; ops that combine as a reducer does are linear without."""
    row = OP_TABLE.get(op.name)
    return row is not None and bool(row.law)
