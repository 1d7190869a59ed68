"""The placement of sums over the parts of a batch, so that the loop carries least: a minimum cut."""

from typing import NamedTuple

from jaxlib.mlir import ir

from paropt.passes.dataflow.min_cut import Flow
from paropt.passes.ir.types import bytes_of, is_float
from paropt.passes.microbatch.batching import Batching, Role
from paropt.passes.microbatch.examples import Batch
from paropt.passes.support.traversal import op_of

# Bytes come first, the number of arrays second.
_BYTE = 1 << 24
_NARROW, _WIDE = 16, 64  # bits: a sum of narrow floats is rather taken in the wider type that it is converted to


class Sums(NamedTuple):
    """Sums over the parts of a batch, in program order."""

    added: dict[ir.Value, None]  # each part computes its addend of them
    carried: list[ir.Value]  # those among them that the loop adds up, then the extremes, which are never moved


def sums_of(batching: Batching) -> Sums:
    """The cheapest sums to carry; of several, those that are nearest to the examples."""
    sums: list[ir.Value] = [r for op in batching.ops for r in op.results if batching.facts.get(r) == Role.SUM]
    enters = {value: 2 + 2 * i for i, value in enumerate(sums)}
    flow = Flow(2 + 2 * len(sums))
    for value, enter in enters.items():
        flow.connect(enter, enter + 1, _cost(value))
        op = op_of(value)
        reads = batching.reads(op)
        addends = [operand for operand in reads if operand in enters]
        if batching.is_in_loop(op) or any(isinstance(batching.facts.get(operand), Batch) for operand in reads):
            flow.connect(Flow.SOURCE, enter, Flow.UNBOUNDED)
        for addend in addends:
            # A value accumulated in the loop is computed from the values accumulated there.
            flow.connect(enters[addend] + 1, enter, Flow.UNBOUNDED)
            flow.connect(enter, enters[addend], Flow.UNBOUNDED)
        readers = batching.readers(value)
        if any(not any(result in enters for result in reader.results) for reader in readers):
            flow.connect(enter + 1, Flow.SINK, Flow.UNBOUNDED)
    reached = flow.source_side()
    added = {value: None for value in sums if enters[value] in reached}
    carried = [value for value in added if enters[value] + 1 not in reached]
    extremes: list[ir.Value] = [r for op in batching.ops for r in op.results if batching.facts.get(r) == Role.EXTREME]
    return Sums(added | dict.fromkeys(extremes), carried + extremes)


def _cost(value: ir.Value) -> int:
    tensor = ir.RankedTensorType(value.type)
    element = tensor.element_type
    if is_float(element) and ir.FloatType(element).width <= _NARROW:
        return bytes_of(tensor) * (_WIDE // ir.FloatType(element).width) * _BYTE + 1
    return bytes_of(tensor) * _BYTE + 1
