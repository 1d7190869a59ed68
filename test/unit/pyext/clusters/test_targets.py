"""Targets: how they are spelt, and what comes of compiling for them. Compilers that are not installed are skipped."""

import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from modules import parsed
from programs.catalog import EXPLICIT
from programs.program import DEFAULT
from programs.quick_options import FLAGS
from unit.clusters import available, signs

import paropt
from paropt.clusters import compile_apart, compile_child, targets
from paropt.clusters.compiled import TargetError
from paropt.clusters.device_counts import require_named_count
from paropt.clusters.gpus import GPUS, target_config
from paropt.hlo.parser import Array
from paropt.hlo.participants import Device, devices_of
from paropt.modules.module_io import ModuleError, bytecode_of
from paropt.reports.target_audits import audit_on

CLUSTERS = ("cpu:8", "tpu:v5e:2x4", "gpu:h100:1x1x8")
HEAD = "module @m attributes {mhlo.num_partitions = %d : i32, mhlo.num_replicas = 1 : i32}"
BODY = """ {
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %r = stablehlo.add %a, %a : tensor<8x8xf32>
    return %r : tensor<8x8xf32>
  }
}"""
MODULE = HEAD % 8 + BODY


def one_line(call: Callable[[], Any]) -> str:
    """The message of the TargetError that the call raises, which is one line."""
    with pytest.raises(TargetError) as caught:
        call()
    message = str(caught.value)
    assert message and "\n" not in message
    return message


# Spelling


@pytest.mark.parametrize(
    "text, name",
    [
        ("host", "host"),
        (" cpu:8 ", "cpu:8"),
        ("CPU:8", "cpu:8"),
        ("tpu:v5e:2x4", "tpu:v5e:2x4"),
        ("tpu:V5E:2x4:1", "tpu:v5e:2x4"),
        ("tpu:v4:2x2x1:2", "tpu:v4:2x2x1:2"),
        ("tpu:v4:4x4x4_twisted", "tpu:v4:4x4x4_twisted"),
        ("gpu:H100:1x1x8", "gpu:h100:1x1x8"),
        ("gpu:b200:2x4x8", "gpu:b200:2x4x8"),
    ],
)
def test_a_name_is_canonical(text: str, name: str) -> None:
    target = targets.get(text)
    assert target.name == name
    assert targets.get(name) == target


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no target ``: expected `host`, `cpu:8`, `tpu:v5e:2x4` or `gpu:h100:1x1x8`"),
        ("tpuv5", "no target `tpuv5`: expected `host`"),
        ("host:2", "no target `host:2`: expected `host`"),
        ("cpu", "no target `cpu`: expected the number of devices, as in `cpu:8`"),
        ("cpu:0", "no target `cpu:0`: expected the number of devices"),
        ("cpu:1000000000", "no target `cpu:1000000000`: it has 1000000000 devices, expected at most 8192"),
        ("gpu:h100:1x1x9999999", "no target `gpu:h100:1x1x9999999`: it has 9999999 devices, expected at most 1048576"),
        ("tpu:v5e:2x4:9999999", "no target `tpu:v5e:2x4:9999999`: it has 79999992 devices, expected at most 1048576"),
        ("cpu:-1", "no target `cpu:-1`: expected the number of devices"),
        ("tpu:v5e", "no target `tpu:v5e`: expected a topology and how many slices of it, as in `tpu:v5e:2x4`"),
        ("tpu:v5e:2x4:0", "no target `tpu:v5e:2x4:0`: expected a topology"),
        ("gpu:h100", "no target `gpu:h100`: expected a GPU, and slices x hosts x devices, as in `gpu:h100:1x1x8`"),
        ("gpu:h100:8", "no target `gpu:h100:8`: expected a GPU, and slices x hosts x devices"),
        ("gpu:h100:1x0x8", "no target `gpu:h100:1x0x8`: expected a GPU, and slices x hosts x devices"),
        ("gpu:h10:1x1x8", "gpu:h10:1x1x8: `h10` is no known GPU and no file; did you mean `h100`?"),
        ("gpu:no/such:1x1x8", "`no/such` is no known GPU and no file; there are v100, a100, h100, h200, b200"),
    ],
)
def test_another_text_is_refused_with_what_would_be_right(text: str, message: str) -> None:
    assert message in one_line(lambda: targets.get(text))


@pytest.mark.parametrize(
    "name, message",
    [
        ("tpu:v5e:2x4", "tpu:v5e:2x4 needs libtpu: pip install '.[tpu]' in a checkout of par-opt"),
        ("gpu:h100:1x1x8", "gpu:h100:1x1x8 needs jax's CUDA plugin: pip install '.[gpu]' in a checkout of par-opt"),
    ],
)
@pytest.mark.parametrize("use", [lambda t: t.devices, lambda t: t.mesh({"data": 8}), lambda t: t.compile(MODULE)])
def test_a_missing_compiler_is_named_with_its_extra(
    name: str, message: str, use: Callable[[targets.Target], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    assert one_line(lambda: use(targets.get(name))) == message


def test_the_package_has_the_file_and_imports_no_jax() -> None:
    code = "import paropt, sys; print(paropt.targets.get('tpu:v5e:2x4').name, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tpu:v5e:2x4 False\n"


# Devices and meshes


def test_as_many_cpu_devices_as_asked_for_whatever_jax_has() -> None:
    assert targets.get("cpu:4").devices == tuple(jax.devices()[:4])
    many = targets.get("cpu:16")
    assert [device.id for device in many.devices] == list(range(16))
    sharding = NamedSharding(many.mesh({"data": 4, "model": 4}), PartitionSpec("data"))
    lowered = jax.jit(jnp.sum, in_shardings=sharding).lower(jax.ShapeDtypeStruct((16,), jnp.float32))
    assert "mhlo.num_partitions = 16" in lowered.as_text()


def test_a_mesh_has_all_devices_in_their_order() -> None:
    target = targets.get("cpu:8")
    mesh = target.mesh({"data": 4, "model": 2})
    assert dict(mesh.shape) == {"data": 4, "model": 2}
    assert tuple(mesh.devices.flat) == target.devices
    assert set(mesh.axis_types) == {jax.sharding.AxisType.Auto}
    with pytest.raises(ValueError, match=r"^cpu:8 has 8 devices, the mesh data=3 x model=2 has 6$"):
        target.mesh({"data": 3, "model": 2})


@pytest.mark.parametrize(
    "name, count, processes, kind",
    [
        ("tpu:v5e:2x4", 8, 2, "TPU v5 lite"),
        ("tpu:v4:2x2x1", 8, 1, "TPU v4"),
        ("tpu:v5e:2x2:2", 8, 2, "TPU v5 lite"),
        ("gpu:h100:1x1x8", 8, 1, "NVIDIA H100 80GB HBM3"),
        ("gpu:a100:2x2x8", 32, 4, "NVIDIA A100-SXM4-80GB"),
    ],
)
def test_devices_that_are_not_here(name: str, count: int, processes: int, kind: str) -> None:
    devices = available(name).devices
    assert len(devices) == count
    assert len({device.process_index for device in devices}) == processes
    assert {device.device_kind for device in devices} == {kind}


@pytest.mark.parametrize("name", ["tpu:v9:2x2", "tpu:v5e:3x5", "tpu:v5e:0x4"])
def test_libtpu_says_which_topology_it_does_not_know(name: str) -> None:
    target = available(name)
    # libtpu 0.0.50 divides by zero where 0.0.42 complains.
    expected = rf"{name}: (libtpu says .+; it knows .*v5e:2x4|the compiler died of SIGFPE: it said nothing)"
    assert re.match(expected, one_line(lambda: target.devices))


# Compiling


def shapes(program: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), program.args)


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> targets.Target:
    """Each kind of target in turn."""
    return available(request.param)


# P10, whose micro-batches are weighted: XLA leaves the sums in the loop on all three backends.
def test_gradients_are_synchronised_once_on_each_kind_of_cluster(cluster: targets.Target) -> None:
    program = EXPLICIT["mlp_p10"](devices=cluster.devices)
    before = paropt.audit(cluster.compile(jax.jit(program.step).lower(*shapes(program))).hlo)
    after = paropt.audit(cluster.compile(paropt.jit(program.step).lower(*shapes(program))).hlo)

    assert before.total("all-reduce").executions == DEFAULT.micro_batches
    assert before.sync_in_loop == before.sync_bytes == DEFAULT.micro_batches * program.gradient_bytes
    assert after.total("all-reduce").executions == 1
    assert (after.sync_in_loop, after.sync_bytes) == (0, program.gradient_bytes)


def test_p0_is_synchronised_once_on_each_kind_of_cluster(cluster: targets.Target) -> None:
    program = EXPLICIT["mlp_p0"](devices=cluster.devices)
    before = paropt.audit(cluster.compile(jax.jit(program.step).lower(*shapes(program))).hlo)
    after = paropt.audit(cluster.compile(paropt.jit(program.step).lower(*shapes(program))).hlo)
    # XLA:TPU and XLA:GPU take this one out of the loop themselves.
    assert before.total("all-reduce").executions == (4 if cluster.platform == "cpu" else 1)
    assert after.total("all-reduce").executions == 1
    assert after.sync_in_loop == 0


@pytest.mark.usefixtures("optimized_code")
def test_the_child_compiles_as_jax_does(cluster: targets.Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"].replace(FLAGS, ""))
    program = EXPLICIT["mlp_p0"](devices=cluster.devices)
    lowered = jax.jit(program.step, donate_argnums=0).lower(*shapes(program))
    apart, here = cluster.compile(lowered), lowered.compile()
    assert signs(apart.hlo) == signs(here.as_text())
    assert apart.memory == targets.memory_of(here.memory_analysis())
    assert apart.memory is not None and apart.memory.alias > 0
    assert apart.seconds > 0


def test_shardings_that_jit_leaves_open_are_xlas_to_choose(cluster: targets.Target) -> None:
    rows = NamedSharding(cluster.mesh({"data": 8}), PartitionSpec("data"))
    shape = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    lowered = jax.jit(lambda x, y: (x @ y, y), in_shardings=(rows, None)).lower(shape, shape)
    apart, here = cluster.compile(lowered), lowered.compile()
    assert signs(apart.hlo) == signs(here.as_text())


def sums_in_a_loop(mesh: jax.sharding.Mesh) -> jax.stages.Lowered:
    """A small program that `grad-sync` improves, rewritten."""

    def step(weights: jax.Array, batch: jax.Array) -> jax.Array:
        def body(total: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return total + jax.lax.psum(x.T @ x, "data"), None

        return jax.lax.scan(body, weights, batch)[0]

    specs = (PartitionSpec(), PartitionSpec(None, "data"))
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
    shapes = jax.ShapeDtypeStruct((16, 16), jnp.float32), jax.ShapeDtypeStruct((4, 64, 16), jnp.float32)
    return paropt.jit(mapped).lower(*shapes)


ONE_SUM = [("all-reduce", (Array("f32", (16, 16)),), 8, 1)]


def test_a_module_from_a_file_is_compiled_in_any_form(cluster: targets.Target, tmp_path: Path) -> None:
    lowered = sums_in_a_loop(cluster.mesh({"data": 8}))
    (tmp_path / "step.mlir").write_text(lowered.as_text())
    module = parsed(lowered.as_text())
    bytecode = io.BytesIO()
    module.operation.write_bytecode(bytecode)
    for form in ((tmp_path / "step.mlir").read_text(), bytecode.getvalue(), module, lowered):
        assert collectives(cluster.compile(form)) == ONE_SUM


def collectives(compiled: targets.Compiled) -> list[tuple[Any, ...]]:
    found = paropt.audit(compiled.hlo).collectives
    return [(c.kind, c.arrays, c.group, c.executions) for c in found]


@pytest.mark.parametrize("name", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_a_program_lowered_for_cpu_devices_is_compiled_for_a_cluster(name: str) -> None:
    lowered = sums_in_a_loop(targets.get("cpu:8").mesh({"data": 8}))
    assert collectives(available(name).compile(lowered)) == ONE_SUM


# What the CPU does in LAPACK and in Python, GPUs and TPUs do in calls of their own.
@pytest.mark.parametrize("name", ["tpu:v5e:2x4", "gpu:h100:1x1x8"])
def test_a_program_on_cpu_devices_can_be_lowered_for_a_cluster(name: str) -> None:
    target = available(name)
    everywhere = NamedSharding(targets.get("cpu:8").mesh({"data": 8}), PartitionSpec())
    factorised = jax.jit(jnp.linalg.cholesky, in_shardings=everywhere).trace(jax.ShapeDtypeStruct((8, 8), jnp.float32))
    assert "HloModule" in target.compile(factorised.lower(lowering_platforms=(target.platform,))).hlo
    assert "lapack" in one_line(lambda: target.compile(factorised.lower()))


def test_the_order_of_a_mesh_is_kept() -> None:
    backwards = jax.sharding.Mesh(np.array(jax.devices())[::-1], ("data",))
    lowered = jax.jit(jnp.sum, in_shardings=NamedSharding(backwards, PartitionSpec("data"))).lower(jnp.ones(8))
    _, order, _ = targets._module_of(lowered)
    assert order == list(range(7, -1, -1))


def test_the_options_of_a_lowered_program_are_kept_and_can_be_added_to() -> None:
    option = "xla_backend_optimization_level"
    lowered = jax.jit(jnp.sin, compiler_options={option: 0}).lower(jnp.ones(4))
    assert targets._module_of(lowered)[2] == {option: 0}
    message = one_line(lambda: targets.get("cpu:8").compile(MODULE, options={"xla_nonsense": True}))
    assert message == "cpu:8: XLA says No such compile option: 'xla_nonsense'"


def test_the_number_of_devices_must_be_the_modules(cluster: targets.Target) -> None:
    message = one_line(lambda: cluster.compile(HEAD % 4 + BODY))
    assert message == f"{cluster.name} has 8 devices, the module is for 4 devices (1 replica x 4 partitions)"


@pytest.mark.parametrize("name", ["cpu:8192", "gpu:h100:1x1x1000000"])
def test_another_number_is_told_before_devices_are_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = targets.get(name)
    monkeypatch.setattr(type(target), "make_devices", lambda _: pytest.fail("it makes devices"))
    module = parsed(HEAD % 4 + BODY)
    message = one_line(lambda: require_named_count(target, module.operation))
    grid = "4 devices (1 replica x 4 partitions)"
    assert message == f"{name} has {target.named_devices} devices, the module is for {grid}"
    message = one_line(lambda: compile_child._compile(bytecode_of(module), compile_apart.Request(name)))
    assert message.startswith(f"{name} has {target.named_devices} devices")


def test_what_xla_refuses_is_one_line(cluster: targets.Target) -> None:
    call = BODY.replace("stablehlo.add %a, %a : tensor<8x8xf32>", "X")
    call = call.replace("X", "stablehlo.custom_call @no_such(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>")
    message = one_line(lambda: cluster.compile(HEAD % 8 + call))
    assert message.startswith(f"{cluster.name}: XLA says ")
    assert "no_such" in message


def test_memory_that_a_tpu_has_not() -> None:
    target = available("tpu:v5e:2x4")
    message = one_line(lambda: target.compile(MODULE.replace("8x8", "400000x400000")))
    assert re.match("tpu:v5e:2x4: XLA says .*Ran out of memory on HBM", message)


def test_text_that_is_no_module_is_refused_before_a_child_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_apart, "_standing", [])
    monkeypatch.setattr(compile_apart, "_COMMAND", ("no such command",))
    with pytest.raises(ModuleError, match=r"^-:1:1: "):
        targets.get("cpu:8").compile("nonsense")
    with pytest.raises(TypeError, match="expected a StableHLO module or a lowered jax program, not int"):
        targets.get("cpu:8").compile(3)


# The host


def test_the_host_compiles_lowered_programs_here_and_modules_apart() -> None:
    host = targets.get("host")
    assert host.devices == tuple(jax.devices())
    assert host.platform == "cpu"
    lowered = sums_in_a_loop(host.mesh({"data": 8}))
    here, apart = host.compile(lowered), host.compile(lowered.as_text())
    assert here.hlo == lowered.compile().as_text()
    assert collectives(here) == collectives(apart) == ONE_SUM
    assert here.memory == apart.memory


def test_the_host_refuses_programs_for_devices_that_it_has_not() -> None:
    sharding = NamedSharding(targets.get("cpu:16").mesh({"data": 16}), PartitionSpec("data"))
    lowered = jax.jit(jnp.sum, in_shardings=sharding).lower(jax.ShapeDtypeStruct((16,), jnp.float32))
    message = one_line(lambda: targets.get("host").compile(lowered))
    assert message == "the program was lowered for cpu devices that this host has not"


# What can be said without a GPU of a host that has one.
def test_a_host_with_gpus_lowers_for_cuda_and_leaves_memory_to_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [SimpleNamespace(platform="gpu", id=number, slice_index=None) for number in range(2)]
    monkeypatch.setattr(jax, "local_devices", lambda: gpus)
    host = targets.get("host")
    assert list(host.devices) == gpus
    assert host.platform == "cuda"
    assert devices_of(gpus) == (Device(0, 0), Device(1, 0))
    monkeypatch.setattr(jax, "config", SimpleNamespace(jax_platforms="cuda,cpu", jax_num_cpu_devices=-1))
    environment = host.environment()
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert environment["JAX_PLATFORMS"] == "cuda,cpu"
    monkeypatch.undo()
    host.__dict__["devices"] = tuple(gpus)  # as found
    message = one_line(lambda: host.compile(sums_in_a_loop(targets.get("cpu:8").mesh({"data": 8}))))
    assert message == "the program was lowered for cpu devices that this host has not"


# Compilers that die


DEATHS = {
    "import os; os.abort()": "the compiler died of SIGABRT: it said nothing",
    "import os, sys; print('W0101 only a warning', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)": (
        "the compiler died of SIGSEGV: it said nothing"
    ),
    "import os, sys; sys.stderr.write('F0000 00:00:1 7 a.cc:9] Check failed: x\\n*** trace: ***\\n  @ 0x1 f()\\n');"
    "sys.stderr.flush(); os.abort()": "the compiler died of SIGABRT: Check failed: x",
    "raise RuntimeError('of ours')": "the compiler ended with status 1: RuntimeError: of ours",
}


@pytest.mark.parametrize("code", DEATHS)
def test_a_compiler_that_dies_is_reported_in_one_line(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_apart, "_standing", [])
    monkeypatch.setattr(compile_apart, "_COMMAND", (sys.executable, "-c", code))
    assert one_line(lambda: targets.get("cpu:8").compile(MODULE)) == f"cpu:8: {DEATHS[code]}"


# A real one: XLA divides by the number of multiprocessors, or of threads per warp.
def test_a_compiler_that_divides_by_zero_leaves_the_caller_alive(tmp_path: Path) -> None:
    available("gpu:h100:1x1x8")
    path = tmp_path / "zero.txtpb"
    path.write_text(re.sub(r"(core_count|threads_per_warp): \d+", r"\1: 0", target_config(GPUS["h100"])))
    message = one_line(lambda: targets.get(f"gpu:{path}:1x1x8").compile(MODULE))
    assert message == f"gpu:{path}:1x1x8: the compiler died of {signal.SIGFPE.name}: it said nothing"


# Descriptions of GPUs


@pytest.mark.parametrize("gpu", [name for name, gpu in GPUS.items() if gpu.has_compiler])
def test_each_gpu_compiles(gpu: str) -> None:
    target = available(f"gpu:{gpu}:1x1x8")
    assert target.devices[0].device_kind == GPUS[gpu].description
    assert collectives(target.compile(sums_in_a_loop(target.mesh({"data": 8})))) == ONE_SUM


# What no data sheet says of a GPU: nothing that is reported depends on it.
def test_the_size_of_the_l2_cache_changes_no_audit(tmp_path: Path) -> None:
    found = available("gpu:b200:1x1x8")
    path = tmp_path / "b200.txtpb"
    description, size = target_config(GPUS["b200"]), GPUS["b200"].l2_cache
    path.write_text(description.replace(f"l2_cache_size: {size}", f"l2_cache_size: {size // 8}"))
    assert path.read_text() != description
    mesh = found.mesh({"data": 8})
    with_less = targets.get(f"gpu:{path}:1x1x8")
    training = EXPLICIT["mlp_p0"](devices=found.devices)
    for program in (sums_in_a_loop(mesh), jax.jit(training.step).lower(*shapes(training))):
        audits = [audit_on(target, program) for target in (found, with_less)]
        assert audits[0] == audits[1]


@pytest.mark.parametrize("name, processors", [("tpu:v5e:2x2:2", 8), ("gpu:h100:2x2x2", 8)])
def test_several_slices_compile(name: str, processors: int) -> None:
    target = available(name)
    assert len(target.devices) == processors
    lowered = jax.jit(lambda x: x.sum(), in_shardings=NamedSharding(target.mesh({"data": 8}), PartitionSpec("data")))
    compiled = target.compile(lowered.lower(jax.ShapeDtypeStruct((64, 128), jnp.float32)))
    assert len(paropt.audit(compiled.hlo).collectives) > 0


def test_a_users_own_description_is_used(tmp_path: Path) -> None:
    available("gpu:h100:1x1x8")
    path = tmp_path / "mine: 2.txtpb"
    path.write_text(target_config(GPUS["h100"]).replace("NVIDIA H100 80GB HBM3", "a GPU of mine"))
    target = targets.get(f"gpu:{path}:1x1x8")
    assert target.devices[0].device_kind == "a GPU of mine"
    assert collectives(target.compile(sums_in_a_loop(target.mesh({"data": 8})))) == ONE_SUM


def test_a_description_that_lacks_a_number_is_refused(tmp_path: Path) -> None:
    available("gpu:h100:1x1x8")
    path = tmp_path / "part.txtpb"
    path.write_text(re.sub(r"(core_count|l2_cache_size): \d+", "", target_config(GPUS["h100"])))
    message = one_line(lambda: targets.get(f"gpu:{path}:1x1x8").devices)
    assert message == f"{path} is no GpuTargetConfigProto of a GPU: it lacks core_count, l2_cache_size"
    path.write_text("nonsense: 3\n" + target_config(GPUS["h100"]))
    message = one_line(lambda: targets.get(f"gpu:{path}:1x1x8").devices)
    assert message.startswith(f"gpu:{path}:1x1x8: XLA says Failed to parse GpuTargetConfigProto")
