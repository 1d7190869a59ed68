"""The environment of the tests outlasts what a file does to it that is only imported, as tools do."""

import os

from programs.quick_options import FLAGS

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["PYTEST_ADDOPTS"] = "-x"


def test_flags_outlast_collection() -> None:
    assert FLAGS in os.environ["XLA_FLAGS"]


def test_options_of_pytest_end_with_it() -> None:
    assert "PYTEST_ADDOPTS" not in os.environ
