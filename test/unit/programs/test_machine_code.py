"""Machine code that LLVM does not optimize, which numeric tests run: XLA makes the same HLO, in the same memory."""

from contextlib import nullcontext
from typing import Any

import pytest
from programs.catalog import LAYERS, MATRIX
from programs.machine_code import unoptimized
from programs.program import Sizes

import paropt

NAMES = ("blocks_p18", "plain_transformer_p6", "plain_mlp_p7", "explicit_mlp_p6")


@pytest.mark.parametrize("name", NAMES)
def test_hlo_and_memory_are_the_same(name: str) -> None:
    found = []
    for block in (nullcontext(), unoptimized()):  # from one line: the executable names the lines that made it
        program = (LAYERS | MATRIX)[name](Sizes(width=32))
        with block:
            compiled = paropt.jit(program.step, strict=True).lower(*program.args).compile()
        memory: Any = compiled.memory_analysis()
        taken = (memory.temp_size_in_bytes, memory.output_size_in_bytes, memory.alias_size_in_bytes)
        found.append((compiled.as_text(), taken))
    assert found[0] == found[1]
