"""The work of one instruction of optimized HLO: FLOPs of its products, bytes of its operands and results.

Counted are `dot`, `convolution` (XLA:TPU writes products as these) and calls of matrix libraries; element-wise ops and
reductions are counted by the bytes that they read and write only. A fusion reads of an operand the parts that it
slices, and writes of a buffer that it updates in place the update.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from paropt.hlo.parser import Array, Computation, HloError, Instruction, Module, Shape, arrays_of

# Nothing happens at run time, or it is counted elsewhere. XLA:TPU starts copies, whole or in slices, to its fast memory
# early: the op that reads such a copy is counted as if it read the original.
FREE = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all opt-barrier partition-id replica-id "
    "copy-start copy-done slice-start slice-done domain add-dependency".split()
)
# Ops that XLA writes as one instruction `OP-start` and a done, to run them beside others; counted where they start.
_STARTED = ("fusion-start", "custom-call-start", "call-start")
_MATRIX_CALLS = re.compile(r"__cublas\$|__triton_gemm|__onednn\$matmul|__cudnn\$conv")
_NO_WORK_CALLS = frozenset(
    ("AllocateBuffer", "AsyncCollectiveStart", "AsyncCollectiveDone", "AssumeGatherIndicesInBound")
)
_LABELS = re.compile(r"(\w+)_(\w+)->(\w+)")
_PARTIAL_READS = ("dynamic-slice", "slice", "gather")


class Work(NamedTuple):
    """The work of an instruction, each time that it runs."""

    flops: float = 0.0
    dtype: str = ""  # of the operands of its largest product
    bytes: int = 0
    unknown: tuple[str, ...] = ()  # targets of calls of which only the bytes are known


def as_if_not_started(instruction: Instruction) -> Instruction:
    """Of an op that runs beside others from its start, the op as if it ran there, with its own result; else
    `instruction`."""
    match instruction.shape:
        case (_, result, *_) if instruction.opcode in _STARTED:
            return instruction._replace(opcode=instruction.opcode.removesuffix("-start"), shape=result)
    return instruction


def work_of(module: Module, computation: Computation, instruction: Instruction) -> Work:
    """The work of an instruction that is no collective and runs no loop or branch. Raises HloError."""
    if instruction.opcode in FREE or (instruction.opcode == "custom-call" and _target(instruction) in _NO_WORK_CALLS):
        return Work()
    products = list(_products(module, computation, instruction))
    flops = sum(product.flops for product in products)
    dtype = max(products, key=lambda product: product.flops).dtype if products else ""
    unknown = tuple(name for product in products for name in product.unknown)
    return Work(flops, dtype, _bytes(module, computation, instruction), unknown)


def _products(module: Module, computation: Computation, instruction: Instruction) -> Iterator[Work]:
    """The products in an instruction and in the computations that it calls."""
    match instruction.opcode:
        case "dot":
            yield Work(_dot_flops(computation, instruction), _dtype(computation, instruction))
        case "convolution":
            yield Work(_convolution_flops(computation, instruction), _dtype(computation, instruction))
        case "custom-call" if _MATRIX_CALLS.search(_target(instruction)):
            yield _call_work(computation, instruction)
        case "custom-call" if _target(instruction) not in _NO_WORK_CALLS:
            yield Work(unknown=(_target(instruction),))
        case "fusion" | "call":
            callee = module.computation(
                instruction.callee("calls" if "calls" in instruction.attributes else "to_apply"), instruction
            )
            for inner in callee.instructions.values():
                yield from _products(module, callee, inner)


def _target(instruction: Instruction) -> str:
    return instruction.attributes.get("custom_call_target", "").strip('"')


def _array(computation: Computation, name: str) -> Array:
    shape = computation.instructions[name].shape
    return next(arrays_of(shape))


def _dtype(computation: Computation, instruction: Instruction) -> str:
    return _array(computation, instruction.operands[0]).dtype


def _dot_flops(computation: Computation, dot: Instruction) -> float:
    """2 x elements of the result x size of the contracting dimensions."""
    contracted = _numbers(dot.attributes.get("lhs_contracting_dims", ""))
    left = _array(computation, dot.operands[0])
    return 2.0 * next(arrays_of(dot.shape)).elements * math.prod(left.dims[i] for i in contracted)


def _call_work(computation: Computation, call: Instruction) -> Work:
    """The same of a call of a matrix library, which has its dimensions in `backend_config`."""
    config = call.config()
    numbers = config.get("gemm_backend_config", config).get("dot_dimension_numbers", {})
    contracted = numbers.get("lhs_contracting_dimensions", numbers.get("lhsContractingDimensions"))
    if contracted is None:
        return Work(unknown=(_target(call),))
    left = _array(computation, call.operands[0])
    flops = 2.0 * next(arrays_of(call.shape)).elements * math.prod(left.dims[int(i)] for i in contracted)
    return Work(flops, left.dtype)


def _convolution_flops(computation: Computation, convolution: Instruction) -> float:
    """2 x batch x output features x input features per group x pairs of output and kernel positions within the input.

    As XLA's HloCostAnalysis counts: products with padding, or between dilated elements, are no work. XLA:TPU writes the
    batch dimensions of a product as such.
    """
    found = _LABELS.fullmatch(convolution.attributes.get("dim_labels", ""))
    if not found:
        raise HloError(f"HLO line {convolution.line}: a convolution without `dim_labels`: `{convolution.name}`")
    inputs, kernel, outputs = found.groups()
    left, right = (_array(computation, name) for name in convolution.operands[:2])
    result = next(arrays_of(convolution.shape))
    window = _window(convolution.attributes.get("window", "{}"))
    spatial = sorted(label for label in outputs if label.isdigit())
    pairs = 1
    for i, label in enumerate(spatial):
        sizes = (left.dims[inputs.index(label)], right.dims[kernel.index(label)], result.dims[outputs.index(label)])
        pairs *= _valid_pairs(*sizes, {key: values[i] for key, values in window.items()})
    batch, features = (result.dims[outputs.index(label)] for label in "bf")
    return 2.0 * batch * features * right.dims[kernel.index("i")] * pairs


def _valid_pairs(size: int, kernel: int, output: int, window: dict[str, str]) -> int:
    """How many pairs of an output and a kernel position of one dimension meet an element of the input."""
    stride, dilate = int(window.get("stride", 1)), int(window.get("lhs_dilate", 1))
    reach = int(window.get("rhs_dilate", 1))
    low = int(window.get("pad", "0_0").partition("_")[0])
    at = np.arange(output)[:, None] * stride - low + np.arange(kernel)[None, :] * reach
    inside = (at >= 0) & (at < (size - 1) * dilate + 1) & (at % dilate == 0)
    return int(inside.sum())


def _window(text: str) -> dict[str, list[str]]:
    """`{size=2x3 pad=0_0x2_2}` by key, a value for each spatial dimension."""
    pairs = (part.split("=", 1) for part in text.strip("{}").split())
    return {key: value.split("x") for key, value in pairs}


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.strip("{}").split(",") if number.strip()]


def _size(shape: Shape) -> int:
    return sum(array.bytes for array in arrays_of(shape))


def _bytes(module: Module, computation: Computation, instruction: Instruction) -> int:
    sizes = [_size(computation.instructions[name].shape) for name in instruction.operands]
    match instruction.opcode:
        case "fusion":
            callee = module.computation(instruction.callee("calls"), instruction)
            return _read(callee, sizes) + _written(callee, callee.root)
        case opcode if opcode in _PARTIAL_READS:
            return 2 * _size(instruction.shape)
        case "dynamic-update-slice":
            return 2 * sizes[1]
    return sum(sizes) + _size(instruction.shape)


def _read(callee: Computation, sizes: list[int]) -> int:
    """Bytes that a fusion reads of its operands, which have these sizes."""
    total = 0
    for parameter in callee.instructions.values():
        if parameter.opcode != "parameter":
            continue
        users = [i for i in callee.instructions.values() if parameter.name in i.operands]
        whole = sizes[int(parameter.literal)] if int(parameter.literal) < len(sizes) else _size(parameter.shape)
        total += min(whole, sum(_read_by(user, parameter, whole) for user in users))
    return total


def _read_by(user: Instruction, parameter: Instruction, whole: int) -> int:
    is_first = user.operands[0] == parameter.name and parameter.name not in user.operands[1:]
    if is_first and user.opcode in _PARTIAL_READS:
        return _size(user.shape)
    return 0 if is_first and user.opcode == "dynamic-update-slice" else whole


def _written(callee: Computation, root: Instruction) -> int:
    """Bytes that a fusion writes: of a buffer that it updates in place, the update."""
    match root.opcode:
        case "tuple":
            return sum(_written(callee, callee.instructions[name]) for name in dict.fromkeys(root.operands))
        case "bitcast":
            return _written(callee, callee.instructions[root.operands[0]])
        case "dynamic-update-slice":
            return _size(callee.instructions[root.operands[1]].shape)
        case "parameter":
            return 0  # passed through
    return _size(root.shape)
