"""Collectives over some devices, of values that are equal on others: what is said to be equal is so when executed."""

from collections.abc import Sequence

import numpy as np
import pytest
from modules import parsed
from numeric.oracle import results
from unit.passes.dataflow.test_device_ids import ADD, CHANNEL, FLAT, I32, is_uniform

from paropt.passes.dataflow.correspondence import keeps_groups_equal
from paropt.passes.dataflow.uniformity import Uniformity
from paropt.passes.ir.op_table import ops_with
from paropt.passes.sharding.collectives import Groups, Reduction, reduction_of
from paropt.passes.support.traversal import op_of, ops_of

MESHES = (((2, 4), (0,)), ((2, 4), (1,)), ((2, 2, 2), (0,)), ((2, 2, 2), (1, 2)), ((2, 2, 2), (0, 2)))
VECTOR = "tensor<8xi32>"
# By name: the result's length for groups of so many, attributes, the reducer, and how ids are counted.
KINDS = {
    "all_reduce": (lambda size: 8, "", ADD, FLAT),
    "all_gather": (lambda size: 8 * size, "all_gather_dim = 0 : i64", "", FLAT),
    "reduce_scatter": (lambda size: 8 // size, "scatter_dimension = 0 : i64", ADD, FLAT),
    "all_to_all": (lambda size: 8, "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {}", "", CHANNEL),
}  # fmt: skip


def test_every_row_is_executed() -> None:
    assert {f"stablehlo.{name}" for name in KINDS} == {*ops_with("same-in-group"), *ops_with("by-place")}


def groups_of(ids: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The devices that differ only in `axes` of the mesh `ids`."""
    outer = [i for i in range(ids.ndim) if i not in axes]
    return ids.transpose(*outer, *axes).reshape(-1, int(np.prod([ids.shape[i] for i in axes])))


def other_groups(rng: np.random.Generator, ids: np.ndarray) -> np.ndarray:
    """Over axes of the same mesh; in another order; in an order of each group's own; or without regard to the mesh."""
    axes = [i for i in range(ids.ndim) if rng.random() < 0.5] or [0]
    groups = groups_of(ids, axes)
    match rng.integers(4):
        case 0:
            return groups[:, rng.permutation(groups.shape[1])]
        case 1:
            return rng.permuted(groups, axis=1)
        case 2:
            return rng.permutation(groups.reshape(-1)).reshape(groups.shape)
    return groups


def pairs(rng: np.random.Generator, ids: np.ndarray) -> np.ndarray:
    """A shift along an axis of the mesh, all of it or without some pairs; or one without regard to the mesh."""
    if rng.random() < 0.2:
        return np.stack([rng.permutation(8), rng.permutation(8)], 1)[: rng.integers(1, 9)]
    axis = int(rng.integers(ids.ndim))
    shift = np.stack([ids, np.roll(ids, 1, axis)], -1)
    rows = shift.take([0], axis) if rng.random() < 0.5 else shift
    kept = rows.reshape(-1, 2)
    return kept if rng.random() < 0.7 else kept[rng.random(len(kept)) < 0.7].reshape(-1, 2)


def listed(numbers: np.ndarray) -> str:
    return f"dense<{numbers.tolist()}> : tensor<{numbers.shape[0]}x{numbers.shape[1]}xi64>" if numbers.size else (
        "dense<> : tensor<0x2xi64>")  # fmt: skip


def collective(rng: np.random.Generator, ids: np.ndarray) -> tuple[str, int]:
    """The text of a collective of %x, and the length of its result."""
    name = str(rng.choice([*KINDS, "collective_permute"]))
    if name == "collective_permute":
        given = f"source_target_pairs = {listed(pairs(rng, ids))}{CHANNEL}"
        return f'"stablehlo.{name}"(%x) {{{given}}} : ({VECTOR}) -> {VECTOR}', 8
    groups = other_groups(rng, ids)
    length, attributes, reducer, mode = KINDS[name]
    given = ", ".join(filter(None, [attributes.format(groups.shape[1]), f"replica_groups = {listed(groups)}{mode}"]))
    size = length(groups.shape[1])
    return f'"stablehlo.{name}"(%x) {reducer} {{{given}}} : ({VECTOR}) -> tensor<{size}xi32>', size


def program(rng: np.random.Generator, over: np.ndarray, ids: np.ndarray, count: int = 24) -> str:
    """Collectives of a value of which each group of `over` has one."""
    table = rng.integers(-(10**6), 10**6, (8, 8))  # no two are equal by chance, nor sums of them
    lines = ["%number0 = stablehlo.constant dense<0> : tensor<i32>"]  # of the group that the device is in
    for device in range(8):
        group = next(i for i, group in enumerate(over) if device in group)
        lines += [
            f"%device{device} = stablehlo.constant dense<{device}> : tensor<ui32>",
            f"%group{device} = stablehlo.constant dense<{group}> : tensor<i32>",
            f"%is{device} = stablehlo.compare EQ, %id, %device{device} : (tensor<ui32>, tensor<ui32>) -> tensor<i1>",
            f"%number{device + 1} = stablehlo.select %is{device}, %group{device}, %number{device} : tensor<i1>, tensor<i32>",
        ]
    lines += [
        "%own = stablehlo.dynamic_slice %table, %number8, %number0, sizes = [1, 8] : (tensor<8x8xi32>, tensor<i32>, tensor<i32>) -> tensor<1x8xi32>",
        f"%x = stablehlo.reshape %own : (tensor<1x8xi32>) -> {VECTOR}",
        f'%sum = "stablehlo.all_reduce"(%number0) {ADD} {{replica_groups = {listed(over)}{FLAT}}} : ({I32}) -> {I32}',
    ]
    names = []
    given = f"replica_groups = {listed(over)}{FLAT}"
    for i in range(count):
        op, size = collective(rng, ids)
        both = f"tensor<1x{over.shape[1]}x{size}xi32>"
        names.append((f"%all{i}", both, f"tensor<8x{over.shape[1]}x{size}xi32>"))
        lines += [
            f"%y{i} = {op}",
            f"%row{i} = stablehlo.reshape %y{i} : (tensor<{size}xi32>) -> tensor<1x1x{size}xi32>",
            f'%all{i} = "stablehlo.all_gather"(%row{i}) {{all_gather_dim = 1 : i64, {given}}} : (tensor<1x1x{size}xi32>) -> {both}',
        ]
    returned, inner, outer = (", ".join(column) for column in zip(*names, strict=True))
    out = ", ".join(['<@mesh, [{"a"}, {}, {}]>'] * count)
    return "\n".join([
        "module attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 8 : i32} {",
        'sdy.mesh @mesh = <["a"=8]>',
        f"func.func public @main() -> ({outer}) {{",
        f'%r:{count} = sdy.manual_computation() in_shardings=[] out_shardings=[{out}] manual_axes={{"a"}} () {{',
        f"%table = stablehlo.constant dense<{table.tolist()}> : tensor<8x8xi32>",
        "%id = stablehlo.partition_id : tensor<ui32>",
        *lines,
        f"sdy.return {returned} : {inner}",
        f"}} : () -> ({outer})",
        "return " + ", ".join(f"%r#{i}" for i in range(count)) + f" : {outer}\n}}\n}}",
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_as_executed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, axes = MESHES[seed % len(MESHES)]
    ids = (rng.permutation(8) if seed % 2 else np.arange(8)).reshape(shape)
    over = groups_of(ids, axes)
    text = program(rng, over, ids)
    module = parsed(text)
    reduced = next(op for op in ops_of(module.operation, "stablehlo.all_reduce") if not op.results[0].type.shape)
    (end,) = ops_of(module.operation, "sdy.return")
    facts = Uniformity(end.block, reduction_of(reduced))
    verdicts = set()
    for all_of, devices in zip(end.operands, results(text), strict=True):
        row = op_of(all_of).operands[0]
        made = op_of(op_of(row).operands[0]).operation
        rows = devices[0]
        alike = bool((rows == rows[:, :1]).all())
        uniform = is_uniform(facts, row, end)
        assert alike >= uniform, made
        # A sum may be the same by the other order of its terms, or the same all over its group.
        assert "reduce" in made.name or uniform == alike, made
        verdicts.add((made.name, uniform))
    assert {uniform for _, uniform in verdicts} == {True, False}


def reduction(groups: Groups, *, channel: bool, global_ids: bool) -> Reduction:
    return Reduction("stablehlo.all_reduce", "stablehlo.add", groups, channel, global_ids, None, "")


def kept(
    name: str, mode: str, over: Reduction, replicas: int = 1, given: str = "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
) -> bool:
    """Whether the collective, over the rows of a mesh, keeps equal what is equal over columns."""
    if name == "collective_permute":
        attributes, reducer, size = f"source_target_pairs = {given}{mode}", "", 8
    else:
        length, what, reducer, _ = KINDS[name]
        size = length(2)
        attributes = ", ".join(filter(None, [what.format(2), f"replica_groups = {given}{mode}"]))
    text = f"""module attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = 4 : i32}} {{
      func.func @main(%x: {VECTOR}) {{
        %y = "stablehlo.{name}"(%x) {reducer} {{{attributes}}} : ({VECTOR}) -> tensor<{size}xi32>
        return
      }}
    }}"""
    module = parsed(text)
    (op,) = ops_of(module.operation, f"stablehlo.{name}")
    return keeps_groups_equal(op, over)


COLUMNS = ((0, 2), (1, 3))
FLAT_COLUMNS, OF_REPLICAS, OF_WHOLE_REPLICAS = (
    reduction(COLUMNS, channel=channel, global_ids=global_ids)
    for channel, global_ids in ((True, True), (False, False), (True, False))
)
HAVE_GLOBAL_IDS = ("all_reduce", "all_gather", "reduce_scatter")


@pytest.mark.parametrize("name", [*KINDS, "collective_permute"])
def test_ids_mean_the_same(name: str) -> None:
    """Those of a collective and of a reduction: all devices, replicas of one partition, or whole replicas."""
    flat = FLAT if name in HAVE_GLOBAL_IDS else CHANNEL
    assert kept(name, flat, FLAT_COLUMNS)
    assert kept(name, flat, FLAT_COLUMNS, replicas=2) == (name in HAVE_GLOBAL_IDS)  # else partitions of each replica
    assert kept(name, "", OF_REPLICAS, replicas=4)
    assert not kept(name, "", FLAT_COLUMNS)
    assert not kept(name, flat, OF_REPLICAS)
    # All partitions of a replica are in one group, and each has a place of its own.
    assert kept(name, CHANNEL, OF_WHOLE_REPLICAS, replicas=4) == (name in ("all_reduce", "all_gather"))


@pytest.mark.parametrize("name", [*KINDS, "collective_permute"])
def test_nothing_is_kept_of_devices_without_a_group(name: str) -> None:
    flat = FLAT if name in HAVE_GLOBAL_IDS else CHANNEL
    assert not kept(name, flat, reduction((), channel=True, global_ids=True))
    some = reduction(((0, 2),), channel=True, global_ids=True)
    assert not kept(name, flat, some, given="dense<[[1, 0], [3, 2]]> : tensor<2x2xi64>")


def test_nothing_is_kept_of_nobody() -> None:
    given = "dense<> : tensor<0x2xi64>"
    assert kept("collective_permute", CHANNEL, FLAT_COLUMNS, given=given)  # zeros for everyone
    assert not kept("collective_permute", CHANNEL, reduction((), channel=True, global_ids=True), given=given)


def test_other_collectives_keep_nothing() -> None:
    text = f"""module attributes {{mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 4 : i32}} {{
      func.func @main(%x: {VECTOR}) {{
        %y = "stablehlo.collective_broadcast"(%x) {{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>{CHANNEL}}} : ({VECTOR}) -> {VECTOR}
        return
      }}
    }}"""
    module = parsed(text)
    (op,) = ops_of(module.operation, "stablehlo.collective_broadcast")
    assert not keeps_groups_equal(op, FLAT_COLUMNS)
