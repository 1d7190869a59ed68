"""Globs for groups of arguments: short ones, for these and for no other argument."""

import random

import pytest

from paropt.passes.state.role_rules import glob_pattern, parse
from paropt.planning.path_globs import PathGlobs

LAYERS = [f"state/params/{n}/{name}" for n in range(3) for name in ("kernel", "bias")]
MOMENTS = [f"state/mu/{n}/{name}" for n in range(3) for name in ("kernel", "bias")]
BATCHES = ["batches/0", "batches/1"]
ALL = [*LAYERS, *MOMENTS, "state/embed/kernel", *BATCHES]


@pytest.mark.parametrize(
    ("paths", "globs"),
    [
        (BATCHES, ["batches/*"]),
        (["batches/1"], ["batches/1"]),
        ([path for path in ALL if path.endswith("bias")], ["bias"]),
        ([path for path in ALL if path.endswith("kernel")], ["kernel"]),
        (LAYERS, ["state/params/**"]),
        ([path for path in LAYERS if path.endswith("kernel")], ["params/*/kernel"]),
        ([*MOMENTS, "state/embed/kernel"], ["state/mu/**", "embed/kernel"]),
        (["state/params/1/bias"], ["params/1/bias"]),
        ([path for path in ALL if path.startswith("state")], ["state/**"]),
    ],
)
def test_the_shortest_for_a_group(paths: list[str], globs: list[str]) -> None:
    assert PathGlobs(ALL).of(paths) == globs


def test_a_path_that_ends_another_has_no_glob() -> None:
    globs = PathGlobs(["0/kernel", "1/0/kernel"])
    assert globs.of(["0/kernel"]) is None
    assert globs.of(["1/0/kernel"]) == ["*/*/kernel"]


def test_the_key_of_a_rule_can_be_read_as_toml() -> None:
    for group in (BATCHES, ALL[:3], ['odd "name"/x']):
        globs = PathGlobs([*ALL, 'odd "name"/x'])
        (rule,) = parse(f"[[rule]]\n{globs.key(group)}\nwhole = true", "r").rules
        assert [path for path in ALL if rule.fits(path, (), 0, 0)] == [path for path in ALL if path in group]
    assert PathGlobs(["0/kernel", "1/0/kernel"]).key(["0/kernel"]) == "regex = '^(0/kernel)$'"


def test_a_star_in_a_name_is_no_glob_for_others() -> None:
    assert PathGlobs(["a*/b", "aa/b"]).of(["a*/b"]) is None


def test_random_groups_are_matched_and_no_others() -> None:
    chance = random.Random(20261128)
    for _ in range(200):
        group = chance.sample(ALL, chance.randint(1, len(ALL)))
        found = PathGlobs(ALL).of(group)
        assert found is not None
        assert {path for path in ALL if glob_pattern(*found).search(path)} == set(group)
