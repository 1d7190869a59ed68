"""Arguments that are state: a step takes them and returns new ones, as trees of one structure.

Tests: test/passes/annotate-aliases.mlir, test/unit/pyext/hook/test_donation.py.
"""

import re
from typing import NamedTuple

from paropt.passes.ir.signature import Signature
from paropt.passes.state.aliases import Aliases, Overwrite


class Tree(NamedTuple):
    """Arrays that are one argument, or one element of a tuple."""

    head: str  # the common beginning of the paths: `state` or `state[0]`
    leaves: dict[str, int]  # the rest of the path, `['w']`, and the number of the argument


def state_of(aliases: Aliases, pairs: dict[int, Overwrite]) -> set[int]:
    """The arguments that come back: all arrays of a tree, as results of a tree of the same structure.

    `pairs` are those of all arguments. Where another tree could come back as well, neither is state: who calls a
    function of `weights` and `gradients` may need these again.
    """
    trees = _trees(aliases.signature, pairs, range(len(aliases.signature.arguments)), depth=0)
    returned = [(tree, _results(aliases.signature, pairs, tree)) for tree in trees]
    while True:
        rivals = [tree for tree, results in returned if not results]
        doubtful = [
            tree.head
            for tree, results in returned
            if results and any(_could_be(aliases, rival, results) for rival in rivals)
        ]
        if not doubtful:
            return {number for tree, results in returned if results for number in tree.leaves.values()}
        returned = [(tree, {} if tree.head in doubtful else results) for tree, results in returned]


def _trees(signature: Signature, pairs: dict[int, Overwrite], arguments: range | list[int], depth: int) -> list[Tree]:
    """The arguments as trees; a tuple that does not come back as a whole is taken apart."""
    trees: dict[str, Tree] = {}
    for number in arguments:
        path = signature.arguments[number].path
        head = re.match(rf"\w+(\[\d+\]){{{depth}}}", path)
        if head:
            trees.setdefault(head[0], Tree(head[0], {})).leaves[path.removeprefix(head[0])] = number
    found: list[Tree] = []
    for tree in trees.values():
        is_tuple = all(re.match(r"\[\d+\]", place) for place in tree.leaves)
        if is_tuple and not _results(signature, pairs, tree):
            found += _trees(signature, pairs, list(tree.leaves.values()), depth + 1)
        else:
            found.append(tree)
    return found


def _results(signature: Signature, pairs: dict[int, Overwrite], tree: Tree) -> dict[str, int]:
    """The results that the tree comes back as, by place; empty when it does not."""
    found: dict[str, int] = {}
    heads: set[str] = set()
    for place, number in tree.leaves.items():
        pair = pairs.get(number)
        if pair is None or not (place or pair.is_update):  # a single array is known by the values computed from it
            return {}
        path = signature.results[pair.result].path
        if not path.endswith(place) or path == place:
            return {}
        heads.add(path.removesuffix(place))
        found[place] = pair.result
    return found if len(heads) == 1 else {}


def _could_be(aliases: Aliases, tree: Tree, results: dict[str, int]) -> bool:
    """Whether `results` could be the new values of `tree`."""
    same_places = tree.leaves.keys() == results.keys()
    return same_places and all(aliases.is_update(tree.leaves[place], results[place]) for place in results)
