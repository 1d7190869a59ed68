"""The exchange of chunks of layers between the stages of a circular pipeline."""

import pytest

from paropt.passes.pipelining.layer_order import exchange

SIZES = [(stages, chunks) for stages in range(2, 13) for chunks in range(1, 13)]


@pytest.mark.parametrize(("stages", "chunks"), SIZES)
def test_each_stage_sends_and_gets_one_chunk_a_round(stages: int, chunks: int) -> None:
    for moves in exchange(stages, chunks):
        assert sorted(move.source for move in moves) == list(range(stages))
        assert sorted(move.target for move in moves) == list(range(stages))


@pytest.mark.parametrize(("stages", "chunks"), SIZES)
def test_each_chunk_comes_to_its_stage(stages: int, chunks: int) -> None:
    """Chunk c is number c % v of stage c // v in the order of layers, and number c // S of stage c % S in the other."""
    moves = [move for moves in exchange(stages, chunks) for move in moves]
    by_chunk = {move.source * chunks + move.place: move for move in moves}
    assert len(moves) == len(by_chunk) == stages * chunks
    for chunk, move in by_chunk.items():
        assert (move.target, move.new_place) == (chunk % stages, chunk // stages)
