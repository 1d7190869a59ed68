"""Simulated CPU devices of one process, for tools, which set XLA_FLAGS before they import jax. Imports no jax."""

import os


def flags_for(devices: int) -> str:
    """XLA_FLAGS for a process of so many: of two counts XLA takes the last. Others stay, such as those of the tests."""
    return f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}".strip()
