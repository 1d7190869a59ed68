"""Simulated CPU devices of one process, for tools, which set XLA_FLAGS before they import jax. Imports no jax."""

import os

_COUNT = "--xla_force_host_platform_device_count="


def flags_for(devices: int) -> str:
    """XLA_FLAGS for a process of so many. Other flags stay, such as those of the tests."""
    others = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_COUNT)]
    return " ".join([*others, f"{_COUNT}{devices}"])
