"""Warnings at the line of the user's code that led to them."""

import os
import sys
import warnings
from pathlib import Path

import jax

import paropt

_NOT_THE_USERS = tuple(f"{Path(str(file)).parent}{os.sep}" for file in (paropt.__file__, jax.__file__))


def warn(text: str) -> None:
    """A RuntimeWarning whose line is the innermost one outside of jax and paropt."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)
