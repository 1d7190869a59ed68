"""How many bytes of whole sums XLA:TPU may hold."""

import pytest
from modules import parsed

from paropt.passes.deferral.sharded_sum_scatters import ON_CHIP, ROOM, room_for_sums

# 8 devices; each holds 256 MiB of the first argument for each row, and an eighth of the second.
STEP = """
sdy.mesh @mesh = <["data"=8]>
func.func public @main(%whole: tensor<{rows}x67108864xf32>,
                       %split: tensor<8x67108864xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"data"}}, {{}}]>}}) {{
  return
}}"""


@pytest.mark.parametrize("rows", [1, 8])
def test_a_part_of_the_arguments(rows: int) -> None:
    assert room_for_sums(parsed(STEP.format(rows=rows)).operation) == (rows + 1) * (256 << 20) // ROOM < ON_CHIP


def test_of_large_programs_what_fits_into_the_core() -> None:
    assert room_for_sums(parsed(STEP.format(rows=16)).operation) == ON_CHIP
