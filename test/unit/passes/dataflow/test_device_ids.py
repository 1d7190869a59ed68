"""What is computed of a device's number is what XLA computes on that device, in all ways to count devices."""

from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir
from modules import parsed
from numeric.oracle import results

from paropt.passes.dataflow.device_ids import DeviceNumbers
from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.sharding.collectives import reduction_of
from paropt.passes.support.remarks import Declined
from paropt.passes.support.traversal import op_of, ops_of

CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
FLAT = f"{CHANNEL}, use_global_device_ids"
I32, U32, I1 = "tensor<i32>", "tensor<ui32>", "tensor<i1>"
ADD = f"({{ ^bb0(%p: {I32}, %q: {I32}): %r = stablehlo.add %p, %q : {I32} stablehlo.return %r : {I32} }})"
BINARY = "add subtract multiply divide remainder maximum minimum and or xor"

# Replicas; the groups; how many are in one; how they count.
WAYS: list[tuple[int, list[list[int]], int, str]] = [
    (1, [[0, 2, 4, 6], [1, 3, 5, 7]], 4, FLAT),
    (1, [[0, 1, 2, 3], [4, 5, 6, 7]], 4, FLAT),
    (1, [[7, 0], [1, 6], [2, 5], [4, 3]], 2, FLAT),
    (1, [[0]], 8, CHANNEL),  # all partitions of the replica
    (1, [[0]], 1, ""),
    (2, [[0, 4], [1, 5], [2, 6], [3, 7]], 2, FLAT),
    (2, [[0, 2], [1, 3], [4, 6], [5, 7]], 2, FLAT),
    (2, [[0, 7, 2, 5], [4, 3, 6, 1]], 4, FLAT),
    (2, [[1, 0]], 8, CHANNEL),
    (2, [[0], [1]], 4, CHANNEL),
    (2, [[0, 1]], 2, ""),  # each partition by itself
]


def expressions(rng: np.random.Generator, count: int = 40) -> tuple[list[str], list[tuple[str, str]]]:
    """Lines that compute integers of the device's numbers and of constants, and the names and types of these."""
    lines = [
        f"%partition = stablehlo.partition_id : {U32}",
        f"%replica = stablehlo.replica_id : {U32}",
        f"%v0 = stablehlo.convert %partition : ({U32}) -> {I32}",
        f"%v1 = stablehlo.convert %replica : ({U32}) -> {I32}",
        *(f"%v{i + 2} = stablehlo.constant dense<{number}> : {I32}" for i, number in enumerate((1, 2, 4, -3))),
        "%table = stablehlo.constant dense<[3, 1, 4, 1, 5, 1, 2, 6]> : tensor<8xi32>",
    ]
    values = [(f"%v{i}", I32) for i in range(6)]

    def pick(kind: str) -> str:
        named = [name for name, of in values if of == kind]
        return (
            named[int(rng.integers(max(0, len(named) - 12), len(named)))]
            if rng.random() < 0.5
            else str(rng.choice(named))
        )

    def emit(kind: str, op: str) -> None:
        values.append((f"%v{len(values)}", kind))
        lines.append(f"{values[-1][0]} = {op}")

    emit(I1, f"stablehlo.compare LT, %v0, %v4 : ({I32}, {I32}) -> {I1}")
    while len(values) < count:
        op = str(
            rng.choice([*BINARY.split(), "remainder", "divide", "sign", "compare", "not", "select", "clamp", "table"])
        )
        a, b, c, p, q = pick(I32), pick(I32), pick(I32), pick(I1), pick(I1)
        match op:
            case "sign":
                emit(I32, f"stablehlo.sign {a} : {I32}")
            case "compare":
                way = rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"])
                emit(I1, f"stablehlo.compare {way}, {a}, {b} : ({I32}, {I32}) -> {I1}")
            case "not":
                emit(I1, f"stablehlo.xor {p}, {q} : {I1}")
                emit(I1, f"stablehlo.not {values[-1][0]} : {I1}")
            case "select":
                emit(I32, f"stablehlo.select {p}, {a}, {b} : {I1}, {I32}")
            case "clamp":
                emit(I32, f"stablehlo.clamp {a}, {b}, {c} : {I32}")
            case "table":
                lines.append(
                    f"%t{len(values)} = stablehlo.dynamic_slice %table, {a}, sizes = [1] : (tensor<8xi32>, {I32}) -> tensor<1xi32>"
                )
                emit(I32, f"stablehlo.reshape %t{len(values)} : (tensor<1xi32>) -> {I32}")
            case "divide" | "remainder":  # XLA's own affair by zero
                emit(I32, f"stablehlo.{op} {a}, {rng.choice(['%v2', '%v3', '%v4'])} : {I32}")
            case _:
                emit(I32, f"stablehlo.{op} {a}, {b} : {I32}")
    return lines, values


def program(lines: list[str], values: list[tuple[str, str]], way: tuple[int, list[list[int]], int, str]) -> str:
    """Each device gathers what the devices of its group have of each value."""
    replicas, groups, size, mode = way
    given = f"replica_groups = dense<{groups}> : tensor<{len(groups)}x{len(groups[0])}xi64>{mode}"
    row, all_rows = f"tensor<1x{size}x{len(values)}xi32>", f"tensor<{8 // replicas}x{size}x{len(values)}xi32>"
    ones = []
    for name, kind in values:
        number = name if kind == I32 else f"{name}_number"
        if kind != I32:
            ones.append(f"{number} = stablehlo.convert {name} : ({kind}) -> {I32}")
        ones.append(f"{name}_one = stablehlo.reshape {number} : ({I32}) -> tensor<1x1x1xi32>")
    names, kinds = ", ".join(f"{name}_one" for name, _ in values), ", ".join(["tensor<1x1x1xi32>"] * len(values))
    return "\n".join([
        f"module attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = {8 // replicas} : i32}} {{",
        f'sdy.mesh @mesh = <["a"={8 // replicas}]>',
        f"func.func public @main() -> {all_rows} {{",
        '%0 = sdy.manual_computation() in_shardings=[] out_shardings=[<@mesh, [{"a"}, {}, {}]>] manual_axes={"a"} () {',
        *lines,
        *ones,
        f'%sum = "stablehlo.all_reduce"(%v0) {ADD} {{{given}}} : ({I32}) -> {I32}',
        f"%mine = stablehlo.concatenate {names}, dim = 2 : ({kinds}) -> tensor<1x1x{len(values)}xi32>",
        f'%all = "stablehlo.all_gather"(%mine) {{all_gather_dim = 1 : i64, {given}}} : (tensor<1x1x{len(values)}xi32>) -> {row}',
        f"sdy.return %all : {row}",
        f"}} : () -> {all_rows}",
        f"return %0 : {all_rows}\n}}\n}}",
    ])  # fmt: skip


def proven(text: str) -> list[tuple[bool, bool, bool]]:
    """Of each value, whether it is known on all devices, known to be equal, and uniform by the analysis."""
    module = parsed(text)
    (reduced,) = ops_of(module.operation, "stablehlo.all_reduce")
    (joined,) = ops_of(module.operation, "stablehlo.concatenate")
    reduction = reduction_of(reduced)
    alone = reduction._replace(groups=tuple((i,) for i in range(8)), crosses_partitions=True, global_ids=True)
    each, groups = (DeviceNumbers(module.operation, over) for over in (alone, reduction))
    for op in ops_of(module.operation, "stablehlo.partition_id", "stablehlo.replica_id"):
        each.learn(op)
        groups.learn(op)
    facts = Uniformity(joined.block, reduction)
    values = [op_of(one).operands[0] for one in joined.operands]
    return [(each.are_equal(v), groups.are_equal(v), is_uniform(facts, v, joined)) for v in values]


def is_uniform(facts: Uniformity, value: ir.Value, reader: ir.Operation) -> bool:
    try:
        facts.require_uniform(value, "it", reader)
    except Declined:
        return False
    return True


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_as_on_each_device(way: tuple[int, list[list[int]], int, str]) -> None:
    for seed in range(2):
        lines, values = expressions(np.random.default_rng([seed, *str(way).encode()]))
        text = program(lines, values, way)
        (devices,) = results(text)
        rows: Any = np.concatenate([np.asarray(device) for device in devices])  # device, place in the group, value
        alike = (rows == rows[:, :1]).all((0, 1))
        facts = proven(text)
        assert any(is_same for _, is_same, _ in facts)
        for (name, _), same_on_devices, (is_known, is_same, uniform) in zip(values, alike, facts, strict=True):
            assert is_same == (is_known and same_on_devices), name
            assert uniform >= is_same and same_on_devices >= uniform, name
