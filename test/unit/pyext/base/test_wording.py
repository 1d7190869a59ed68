"""Numbers in messages: three digits, in the largest unit that fits."""

import pytest

from paropt.base.wording import flops_text


@pytest.mark.parametrize(
    ("flops", "text"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (9473, "9.47 kFLOP"),
        (2.5e6, "2.5 MFLOP"),
        (1e9, "1 GFLOP"),
        (3e13, "30 TFLOP"),
    ],
)
def test_flops(flops: float, text: str) -> None:
    assert flops_text(flops) == text
