"""Layers by their names: JAX's name stack has the scopes and modules (`layer3`, `Block_3`, `layers.3`) around each op.

Names say where cuts are worth a look, no more: an op with a wrong name costs a transfer.

Tests: test/unit/passes/test_cut_stages.py.
"""

import re
from collections.abc import Sequence

_NUMBERED = re.compile(r"([A-Za-z]\w*?)[._]?(\d+)(?=[/)\]]|$)")


def layer_starts(scopes: Sequence[str], stages: int) -> list[int]:
    """The positions at which a layer other than the first begins; none where names tell fewer than `stages` layers.

    `scopes` are the name stacks of ops in program order. Of several kinds of numbered names, the one with most ops in
    the order of their numbers: of `Block_0/Dense_1` it is `Block`.
    """
    named = [dict(_numbered(scope)) for scope in scopes]
    kinds = dict.fromkeys(kind for each in named for kind in each)
    layers = {kind: [each.get(kind) for each in named] for kind in kinds}
    enough = [kind for kind in kinds if len({*layers[kind]} - {None}) >= max(stages, 2)]
    if not enough:
        return []
    return _starts(layers[max(enough, key=lambda kind: _in_order(layers[kind]))])


def _in_order(layers: Sequence[int | None]) -> int:
    """How many ops have a number that none before exceeds, less those that have another."""
    found, highest = 0, -1
    for layer in layers:
        if layer is not None:
            found += 1 if layer >= highest else -1
            highest = max(highest, layer)
    return found


def _numbered(scope: str) -> list[tuple[str, int]]:
    """The numbered names in a name stack, without the op's own name at its end, the outermost first."""
    names = scope.rpartition("/")[0]
    return [(name, int(number)) for name, number in _NUMBERED.findall(names)]


def _starts(layers: Sequence[int | None]) -> list[int]:
    """Where a layer is met that is higher than all before."""
    starts: list[int] = []
    highest: int | None = None
    for position, layer in enumerate(layers):
        if layer is not None and (highest is None or layer > highest):
            starts += [position] if highest is not None else []
            highest = layer
    return starts
