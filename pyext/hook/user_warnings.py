"""Warnings at the line of the user's code that led to them."""

import os
import sys
import warnings
from pathlib import Path

import jax

_NOT_THE_USERS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(jax.__file__).parent))


def warn(text: str) -> None:
    """A RuntimeWarning whose line is the innermost one outside of jax and paropt."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, RuntimeWarning, stacklevel=level)
