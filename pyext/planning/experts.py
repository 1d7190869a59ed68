"""Templates for mixtures of experts: the weights of each expert on some devices, tokens exchanged among them.

Tests: test/unit/pyext/planning/test_experts.py.
"""

from collections import defaultdict
from collections.abc import Iterator

from paropt.passes.state.argument_roles import plain_path
from paropt.planning.candidates import BATCH_RULE, Candidate, Mesh, default_first, with_policies
from paropt.planning.path_globs import globs_over
from paropt.planning.strategies import Choices, Held

_AXES = '[axes]\nexamples = ["data", "expert"]\n'
_AT_USE = 'exchange = "expert"\n'
_FULLY_SHARDED = """[[rule]]
role = "parameter"
largest = "examples"
gather = "examples"

[[rule]]
role = "gradient"
largest = "examples"

[[rule]]
role = "optimizer"
largest = "examples"
"""


def expert_templates(choices: Choices, devices: int) -> list[Candidate]:
    """`ep` and `fsdp x ep` over the meshes `data` x `expert`; none for a step without experts.

    `ep` replicates all but the weights of experts, `fsdp x ep` shards it over both axes, and over `data` the rest of
    these weights. The default policy of all comes first.
    """
    experts = [(held, number) for held in choices.arguments for number in _expert_dimension(held, choices)]
    if not experts:
        return []
    found: list[Candidate] = []
    for size in (size for size in range(2, devices + 1) if devices % size == 0):
        if all(choices.sizes[held.classes[number]] % size == 0 for held, number in experts):
            mesh = Mesh((("data", devices // size), ("expert", size)))
            found += with_policies("ep", mesh, _replicated(choices, experts))
            found += with_policies("fsdp x ep", mesh, _fully_sharded(choices, experts, devices // size))
    return default_first(found)


def _expert_dimension(held: Held, choices: Choices) -> Iterator[int]:
    """The first dimension that counts experts, if `held` has one and a name."""
    numbers = (number for number, each in enumerate(held.classes) if each in choices.experts)
    first = next(numbers, None)
    if held.path and first is not None:
        yield first


def _replicated(choices: Choices, experts: list[tuple[Held, int]]) -> str:
    alike = defaultdict(list)
    for held, number in experts:
        alike[_shard({number: "expert"})].append(held)
    rules = [rule for shard, helds in alike.items() for rule in _rules(_key(choices, helds), shard)]
    return "\n".join([_AXES, BATCH_RULE, *rules, '[[rule]]\nrole = "state"\nwhole = true\n'])


def _fully_sharded(choices: Choices, experts: list[tuple[Held, int]], data: int) -> str:
    alike = defaultdict(list)
    for held, number in experts:
        others = [i for i, each in enumerate(held.classes) if i != number and choices.sizes[each] % data == 0]
        largest = max(others, key=lambda i: choices.sizes[held.classes[i]], default=None)
        alike[_shard({number: "expert"} | ({largest: "data"} if largest is not None else {}))].append(held)
    rules = [rule for shard, helds in alike.items() for rule in _rules(_key(choices, helds), shard, gather="data")]
    return "\n".join([_AXES, BATCH_RULE, *rules, _FULLY_SHARDED])


def _shard(axes: dict[int, str]) -> str:
    """The axis of each dimension, up to the last that has one."""
    names = [axes.get(number, "") for number in range(max(axes) + 1)]
    return "shard = [" + ", ".join(f'"{name}"' for name in (*names, "...")) + "]"


def _key(choices: Choices, helds: list[Held]) -> str:
    globs = globs_over(tuple(plain_path(each.path) for each in choices.arguments if each.path))
    return globs.key([plain_path(held.path) for held in helds])


def _rules(key: str, shard: str, gather: str = "") -> Iterator[str]:
    """For arguments and their gradients."""
    for role in ("state", "gradient"):
        said = _AT_USE + (f'gather = "{gather}"\n' if gather else "") if role == "state" else ""
        yield f'[[rule]]\n{key}\nrole = "{role}"\n{shard}\n{said}'
