"""Clusters to compile for, whether this machine has their devices or not.

    target = targets.get("tpu:v5e:2x4")
    step = jax.jit(step, in_shardings=...)  # over target.mesh({"data": 8})
    print(target.compile(step.lower(*shapes)).hlo)

Compilers run in a child process, because some mistakes abort them. Spellings and limits are in docs/targets.md.
"""

import difflib
import importlib.util
import math
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from paropt.base.argument_types import require_type
from paropt.clusters import compile_apart
from paropt.clusters.compiled import Compiled, TargetError, first_line, memory_of
from paropt.clusters.gpus import GPUS, target_config
from paropt.hlo.participants import devices_of

Options = Mapping[str, str | bool]  # XLA's, as for `compiler_options` of jax.jit


@dataclass(frozen=True)
class Target(ABC):
    """A cluster to compile for: the attributes of every kind of cluster, and those that each has to define."""

    name: str  # canonical: `get(target.name) == target`

    @property
    def named_devices(self) -> int | None:
        """How many devices its name tells; None where only the compiler, or the host, knows."""
        return None

    @property
    @abstractmethod
    def platform(self) -> str:
        """As jax calls it: `jit(f).trace(...).lower(lowering_platforms=(target.platform,))` lowers for it."""

    @abstractmethod
    def require_compiler(self) -> None:
        """Raises TargetError when the compiler is not installed. Loads nothing."""

    def require_known(self) -> None:
        """Raises TargetError when the compiler is not installed or does not know the cluster."""
        self.require_compiler()

    @abstractmethod
    def make_devices(self) -> list[Any]:
        """The devices, made by native code that may abort the process: see `devices`. Raises TargetError."""

    @cached_property
    def devices(self) -> tuple[Any, ...]:
        """The jax devices. Those of TPU and GPU targets have no hardware: programs are lowered for them, not run.

        Raises TargetError when the compiler is not installed or does not know the cluster.
        """
        self.require_known()
        return tuple(self.make_devices())

    def mesh(self, sizes: Mapping[str, int]) -> Any:
        """A `jax.sharding.Mesh` of all devices, in their order: `{"data": 4, "model": 2}`. Its axis types are Auto.

        Raises ValueError when the sizes do not multiply to the number of devices.
        """
        import jax
        import numpy as np

        require_type(sizes, Mapping, "mesh", 'sizes by names, such as {"data": 8}')
        for size in sizes.values():
            require_type(size, (int, np.integer), "mesh", "a number of devices")
        shape = tuple(sizes.values())
        if int(np.prod(shape)) != len(self.devices):
            text = " x ".join(f"{name}={size}" for name, size in sizes.items())
            raise ValueError(f"{self.name} has {len(self.devices)} devices, the mesh {text} has {np.prod(shape)}")
        devices = np.array(self.devices).reshape(shape)
        return jax.sharding.Mesh(devices, tuple(sizes), axis_types=(jax.sharding.AxisType.Auto,) * len(shape))

    def compile(self, program: Any, *, options: Options | None = None) -> Compiled:
        """Compiles a StableHLO module for this target: text, bytecode, an `ir.Module`, or a lowered `jax.jit` program.

        A program that was lowered for other devices is compiled as if for these, in the same order. `options` are
        XLA's, as for `compiler_options` of `jax.jit`; those of a lowered program are kept.

        Raises TargetError when the module is for another number of devices, the compiler is not installed, or it
        refuses the module or dies of it; ModuleError for text or bytecode that is no valid module.
        """
        self.require_compiler()
        module, order, kept = _module_of(program)
        request = compile_apart.Request(self.name, order, {**kept, **(options or {})})
        return compile_apart.compile_apart(module, request, self.environment())

    def environment(self) -> dict[str, str]:
        """Of the child process that compiles."""
        return {**os.environ, "JAX_PLATFORMS": "cpu"}


@dataclass(frozen=True)
class CpuTarget(Target):
    """So many CPU devices in one process."""

    count: int

    @property
    def named_devices(self) -> int:
        return self.count

    @property
    def platform(self) -> str:
        return "cpu"

    def require_compiler(self) -> None:
        """It is a part of jaxlib."""

    def make_devices(self) -> list[Any]:
        import jax
        from jaxlib import xla_client

        try:
            own = jax.local_devices(backend="cpu")
        except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
            own = []
        if len(own) >= self.count:
            return own[: self.count]
        # A client beside jax's own, when that has too few devices: their number is fixed once jax has started.
        client: Any = xla_client.make_cpu_client(num_devices=self.count)
        return list(client.devices())


class AbsentTarget(Target):
    """A cluster whose devices are not there, and are described by a compiler that is a plugin of jax."""

    def require_known(self) -> None:
        """As for other targets, by a child process: a description may kill the compiler. That takes seconds."""
        super().require_known()
        compile_apart.require_devices(self.name, self.environment())


@dataclass(frozen=True)
class TpuTarget(AbsentTarget):
    """One or several TPU slices, described by libtpu."""

    topology: str  # `v5e:2x4`
    slices: int

    @property
    def chips(self) -> int:
        """Of one slice. Some have two devices each."""
        return math.prod(map(int, self.topology.partition(":")[2].partition("_")[0].split("x")))

    @property
    def platform(self) -> str:
        return "tpu"

    def require_compiler(self) -> None:
        if not (_is_installed("libtpu") or os.environ.get("TPU_LIBRARY_PATH")):
            raise TargetError(f"{self.name} needs libtpu: pip install '.[tpu]' in a checkout of par-opt")

    def make_devices(self) -> list[Any]:
        import jax
        from jax.experimental import topologies

        several = {"num_slices": self.slices} if self.slices > 1 else {}
        settings = {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}  # one process at a time may use TPUs; any number may compile
        if os.environ.get("TPU_SKIP_MDS_QUERY"):  # jax found no TPU: libtpu need not ask who and where it is
            settings |= {"TPU_WORKER_HOSTNAMES": "localhost", "TPU_ACCELERATOR_TYPE": "v5litepod-8"}
        with _environment(settings):
            try:
                return list(topologies.get_topology_desc(self.topology, "tpu", **several).devices)
            except jax.errors.JaxRuntimeError as error:
                known = "it knows v4:2x2x1, v5e:2x4, v5p:2x2x2, v6e:2x4, tpu7x:2x2x1 and many others"
                raise TargetError(f"{self.name}: libtpu says {first_line(error)}; {known}") from error


@dataclass(frozen=True)
class GpuTarget(AbsentTarget):
    """Hosts with GPUs, one or several slices (NVLink domains or partitions) of them."""

    gpu: str  # of the table, or the path of a description
    shape: str  # slices x hosts x devices

    @property
    def named_devices(self) -> int:
        return math.prod(map(int, self.shape.split("x")))

    @property
    def platform(self) -> str:
        return "cuda"

    def require_compiler(self) -> None:
        if not (_is_installed("jax_plugins.xla_cuda13") or _is_installed("jax_plugins.xla_cuda12")):
            raise TargetError(f"{self.name} needs jax's CUDA plugin: pip install '.[gpu]' in a checkout of par-opt")
        if self.gpu in GPUS and not GPUS[self.gpu].has_compiler:
            raise TargetError(f"{self.name}: CUDA 13 makes no code for GPUs before compute capability 7.5")

    def make_devices(self) -> list[Any]:
        import jax
        from jax.experimental import topologies

        description = target_config(GPUS[self.gpu]) if self.gpu in GPUS else _description_in(self.gpu)
        # The plugin would refuse to load without the CUDA libraries that only running needs.
        with _environment({"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}):
            try:
                topology = topologies.get_topology_desc(
                    self.shape, "cuda", topology=self.shape, target_config=description
                )
            except NotImplementedError as error:  # raised by jax where no plugin made topologies known to it
                right = f"JAX_PLATFORMS=cpu before it starts, and a plugin of the version of jax, {jax.__version__}"
                raise TargetError(f"{self.name}: jax did not load its CUDA plugin; it needs {right}") from error
            except jax.errors.JaxRuntimeError as error:
                raise TargetError(f"{self.name}: XLA says {first_line(error)}") from error
        return list(topology.devices)


@dataclass(frozen=True)
class HostTarget(Target):
    """The devices of this machine."""

    @property
    def platform(self) -> str:
        platform = self.devices[0].platform
        return "cuda" if platform == "gpu" else platform

    def require_compiler(self) -> None:
        """Whatever made the host's devices compiles for them."""

    def compile(self, program: Any, *, options: Options | None = None) -> Compiled:
        """As for other targets, but a lowered program is compiled here: other processes may not get at the devices."""
        import jax

        if not isinstance(program, jax.stages.Lowered):
            return super().compile(program, options=options)
        foreign = [device for device in lowered_for(program) if device not in self.devices]
        if foreign:
            raise TargetError(f"the program was lowered for {foreign[0].device_kind} devices that this host has not")
        start = time.perf_counter()
        try:
            compiled = program.compile(compiler_options=dict(options or {}))
        except jax.errors.JaxRuntimeError as error:
            raise TargetError(f"{self.name}: XLA says {first_line(error)}") from error
        seconds = time.perf_counter() - start
        memory = memory_of(compiled.memory_analysis())
        return Compiled(compiled.as_text() or "", memory, seconds, devices_of(lowered_for(program)))

    def make_devices(self) -> list[Any]:
        import jax

        return list(jax.local_devices())

    def environment(self) -> dict[str, str]:
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # this process may have its share
        if "jax" in sys.modules:  # and may have changed the variables
            config = sys.modules["jax"].config
            if config.jax_platforms:
                environment["JAX_PLATFORMS"] = config.jax_platforms
            if config.jax_num_cpu_devices > 0:
                environment["JAX_NUM_CPU_DEVICES"] = str(config.jax_num_cpu_devices)
        return environment


# More devices than any cluster has; of the CPU, than one process can make in seconds.
_MOST_DEVICES = 1 << 20
_MOST_CPU_DEVICES = 8192
_KINDS = "`host`, `cpu:8`, `tpu:v5e:2x4` or `gpu:h100:1x1x8`"
_TPU = re.compile(r"(?P<topology>\w+:\d+(x\d+)+(_\w+)?)(:(?P<slices>[1-9]\d*))?")
_FIELD = re.compile(r"(\w+): \d")  # a number of a GPU's description
_GPU = re.compile(r"(?P<gpu>.+):(?P<shape>[1-9]\d*x[1-9]\d*x[1-9]\d*)")


def get(text: str) -> Target:
    """The target that `text` names. Loads no compiler. Raises TargetError, with the right form."""
    if not isinstance(text, str):
        raise TargetError(f"no target {text!r}: expected the name of one: {_KINDS}")
    kind, _, rest = text.strip().partition(":")
    match kind.lower():
        case "host" if not rest:
            return HostTarget("host")
        case "cpu":
            return _cpu(text.strip(), rest)
        case "tpu":
            return _tpu(text.strip(), rest)
        case "gpu":
            return _gpu(text.strip(), rest)
    raise TargetError(f"no target `{text}`: expected {_KINDS}")


def target_of(target: Target | str) -> Target:
    """`target`, or the one that the text names. Raises TargetError."""
    return target if isinstance(target, Target) else get(target)


def name_for(devices: Sequence[Any]) -> str:
    """The target that stands for these devices in another process."""
    return f"cpu:{len(devices)}" if devices[0].platform == "cpu" else "host"


def _cpu(written: str, count: str) -> CpuTarget:
    if not re.fullmatch(r"[1-9]\d*", count):
        raise TargetError(f"no target `{written}`: expected the number of devices, as in `cpu:8`")
    target = CpuTarget(f"cpu:{count}", int(count))
    _require_at_most(_MOST_CPU_DEVICES, written, target.named_devices)
    return target


def _tpu(written: str, text: str) -> TpuTarget:
    found = _TPU.fullmatch(text.lower())
    if not found:
        expected = "a topology and how many slices of it, as in `tpu:v5e:2x4` or `tpu:v5e:2x4:2`"
        raise TargetError(f"no target `{written}`: expected {expected}")
    topology, slices = found["topology"], int(found["slices"] or 1)
    target = TpuTarget(f"tpu:{topology}" + (f":{slices}" if slices > 1 else ""), topology, slices)
    _require_at_most(_MOST_DEVICES, written, target.chips * slices)
    return target


def _gpu(written: str, text: str) -> GpuTarget:
    found = _GPU.fullmatch(text)
    if not found:
        expected = "a GPU, and slices x hosts x devices, as in `gpu:h100:1x1x8`"
        raise TargetError(f"no target `{written}`: expected {expected}")
    gpu = found["gpu"].lower() if found["gpu"].lower() in GPUS else found["gpu"]
    if gpu not in GPUS and not Path(gpu).is_file():
        near = difflib.get_close_matches(gpu.lower(), GPUS, n=1)
        hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(GPUS)}"
        raise TargetError(f"{written}: `{gpu}` is no known GPU and no file; {hint}")
    target = GpuTarget(f"gpu:{gpu}:{found['shape']}", gpu, found["shape"])
    _require_at_most(_MOST_DEVICES, written, target.named_devices)
    return target


def _require_at_most(most: int, written: str, devices: int) -> None:
    """Raises TargetError: to describe more devices takes minutes, or all memory."""
    if devices > most:
        raise TargetError(f"no target `{written}`: it has {devices} devices, expected at most {most}")


def _description_in(path: str) -> str:
    """The text of a GPU's description. XLA divides by its numbers: raises TargetError when one is missing."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"{path} cannot be read: {error}") from error
    expected = _FIELD.findall(target_config(GPUS["h100"]))
    missing = [field for field in expected if field not in _FIELD.findall(text)]
    if missing:
        raise TargetError(f"{path} is no GpuTargetConfigProto of a GPU: it lacks {', '.join(missing)}")
    return text


def _module_of(program: Any) -> tuple[bytes, list[int] | None, dict[str, Any]]:
    """The bytecode of a module, the positions of its devices among all (None: in order), its compiler options."""
    from jaxlib.mlir import ir

    from paropt.modules.module_io import STDIN, bytecode_of, parse, parse_bytecode
    from paropt.passes.support.context import make_context

    match program:
        case str():
            return bytecode_of(parse(program.encode(), STDIN, make_context())), None, {}
        case bytes():
            return bytecode_of(parse_bytecode(program, make_context())), None, {}
        case ir.Module() | ir.OpView():
            return bytecode_of(program), None, {}
    import jax

    if not isinstance(program, jax.stages.Lowered):
        raise TypeError(f"expected a StableHLO module or a lowered jax program, not {type(program).__name__}")
    ids = [device.id for device in lowered_for(program)]
    order = [sorted(ids).index(number) for number in ids] if ids else None
    lowering: Any = program._lowering
    return bytecode_of(lowering.stablehlo()), order, dict(lowering._compiler_options_kvs)


def lowered_for(lowered: Any) -> list[Any]:
    """The devices that a jax program was lowered for, in the order of its mesh; empty when jax left them open."""
    try:
        return list(lowered._lowering._device_list or ())
    except AttributeError as error:
        import jax

        known = "paropt needs jax 0.10 to 0.12: it does not know how"
        raise TargetError(f"{known} jax {jax.__version__} lowers programs") from error


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


@contextmanager
def _environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Within the block, these variables of the process's environment are set, unless they were."""
    added = [name for name in defaults if name not in os.environ]
    os.environ.update({name: defaults[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
