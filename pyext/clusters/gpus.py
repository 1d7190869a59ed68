"""Properties of GPUs that XLA:GPU asks for: one row per GPU, rendered as the text of a GpuTargetConfigProto.

Numbers are those of NVIDIA's data sheets and, per compute capability, of the CUDA programming guide. Two follow from
them: the clock, as the peak FP32 rate / (multiprocessors x FP32 lanes x 2), and bytes of memory, a data sheet's "GB" of
HBM being 2^30 bytes. The L2 cache of B200 is in no data sheet: it is the driver's number, 126.5 MiB (in XLA's own
description, xla/backends/gpu/target_config/specs/b200.txtpb, and in github.com/pytorch/ao/pull/4002).
"""

from typing import NamedTuple

from paropt.base.argument_types import require_type

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


class _Capability(NamedTuple):
    """The common properties of all GPUs of a compute capability."""

    major: int
    minor: int
    fp32_lanes: int  # per multiprocessor
    shared_memory: int  # bytes per multiprocessor; a block may opt in to 1 KiB less


_VOLTA = _Capability(7, 0, fp32_lanes=64, shared_memory=96 * _KIB)
_AMPERE = _Capability(8, 0, fp32_lanes=64, shared_memory=164 * _KIB)
_HOPPER = _Capability(9, 0, fp32_lanes=128, shared_memory=228 * _KIB)
_BLACKWELL = _Capability(10, 0, fp32_lanes=128, shared_memory=228 * _KIB)


class Gpu(NamedTuple):
    """A row of the table."""

    description: str
    capability: _Capability
    multiprocessors: int
    clock_ghz: float  # boost
    l2_cache: int  # bytes
    memory: int  # bytes
    bandwidth: int  # of the memory, bytes per second

    @property
    def has_compiler(self) -> bool:
        """Whether CUDA 13, which jax's plug-in brings, makes code for it: from compute capability 7.5 on."""
        return (self.capability.major, self.capability.minor) >= (7, 5)


GPUS = {
    "v100": Gpu("Tesla V100-SXM2-16GB", _VOLTA, 80, 1.53, 6 * _MIB, 16 * _GIB, 900_000_000_000),
    "a100": Gpu("NVIDIA A100-SXM4-80GB", _AMPERE, 108, 1.41, 40 * _MIB, 80 * _GIB, 2_039_000_000_000),
    "h100": Gpu("NVIDIA H100 80GB HBM3", _HOPPER, 132, 1.98, 50 * _MIB, 80 * _GIB, 3_350_000_000_000),
    "h200": Gpu("NVIDIA H200", _HOPPER, 132, 1.98, 50 * _MIB, 141 * _GIB, 4_800_000_000_000),
    "b200": Gpu("NVIDIA B200", _BLACKWELL, 148, 1.98, 253 * _MIB // 2, 180 * _GIB, 8_000_000_000_000),
}


def target_config(gpu: Gpu) -> str:
    """The text of the GpuTargetConfigProto that describes `gpu`.

    cuDNN belongs to the machine rather than to the GPU: the version is the oldest one that jax 0.10 runs with.
    """
    require_type(gpu, Gpu, "target_config", 'a row of the table, such as GPUS["h100"]')
    capability = gpu.capability
    return f"""\
gpu_device_info {{
  cuda_compute_capability {{ major: {capability.major} minor: {capability.minor} }}
  core_count: {gpu.multiprocessors}
  fpus_per_core: {capability.fp32_lanes}
  clock_rate_ghz: {gpu.clock_ghz}
  device_memory_size: {gpu.memory}
  memory_bandwidth: {gpu.bandwidth}
  l2_cache_size: {gpu.l2_cache}
  shared_memory_per_core: {capability.shared_memory}
  shared_memory_per_block: {48 * _KIB}
  shared_memory_per_block_optin: {capability.shared_memory - _KIB}
  registers_per_core_limit: {64 * _KIB}
  registers_per_block_limit: {64 * _KIB}
  threads_per_warp: 32
  threads_per_core_limit: 2048
  threads_per_block_limit: 1024
  block_dim_limit_x: {2**31 - 1}
  block_dim_limit_y: {2**16 - 1}
  block_dim_limit_z: {2**16 - 1}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 12 patch: 0 }}
device_description_str: "{gpu.description}"
"""
