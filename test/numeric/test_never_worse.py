"""With default options no sharded step sends more than by XLA alone, nor holds more than 2 % more, but for known ones."""

import jax
import pytest
from programs.catalog import LAYERS, MATRIX
from programs.program import Sizes
from unit.clusters import available

import paropt
from paropt.clusters.targets import get
from paropt.hlo.census import census
from paropt.hlo.traffic import traffic

SIZES = Sizes(width=32)
PROGRAMS = {name: LAYERS[name] for name in ("half_blocks_p17", "half_blocks_p18", "llama_p19", "adapters_p21")}
PROGRAMS |= {name: MATRIX[name] for name in ("plain_mlp_p6", "plain_mlp_p7", "plain_transformer_p6")}

# Where the executable holds more temporary memory, how much more at most, and why. A row that is no longer needed fails.
HOLDS_MORE = {
    ("half_blocks_p18", "gpu:h100:1x1x8"): (
        1.6,
        "of the reduce_scatter before what leaves the loop, XLA takes a trip out",
    ),
    ("adapters_p21", "gpu:h100:1x1x8"): (1.1, "the sums of adapters leave the loop: what it carries is there twice"),
}


@pytest.mark.parametrize("target", ["cpu:8", "gpu:h100:1x1x8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sends_and_holds_no_more(name: str, target: str) -> None:
    available(target)
    program = PROGRAMS[name](SIZES, devices=get(target).devices or None)
    alone = jax.jit(program.step).lower(*program.args).compile()
    ours = paropt.jit(program.step, strict=True).lower(*program.args).compile()
    before, after = (traffic(census(compiled.as_text())) for compiled in (alone, ours))
    assert after.unknown == before.unknown == 0
    assert after.known <= before.known
    held, holds = (compiled.memory_analysis().temp_size_in_bytes for compiled in (alone, ours))
    allowed, _ = HOLDS_MORE.get((name, target), (1.02, ""))
    assert holds <= allowed * held
    assert (holds > 1.02 * held) == ((name, target) in HOLDS_MORE)


def test_what_a_budget_leaves_in_the_loop_stays_as_it_is() -> None:
    """A reduce_scatter in a loop over layers is not written in another form where it does not leave the loop."""
    target = "tpu:v5e:2x4"
    available(target)
    program = LAYERS["explicit_half_blocks_p17"](Sizes(width=64), devices=get(target).devices)
    passes = "grad-sync{policy=auto memory-budget=1}"
    alone = jax.jit(program.step).lower(*program.args).compile()
    ours = paropt.jit(program.step, passes=passes, strict=True).lower(*program.args).compile()
    before, after = (traffic(census(compiled.as_text())) for compiled in (alone, ours))
    assert after.known <= before.known
