"""Candidates of a plan: rules, a mesh and a policy each. Here those of the templates that people write by hand.

A candidate is data, whoever proposes it: its rules are text as docs/sharding-rules.md describes it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from paropt.passes.state.role_rules import parse
from paropt.passes.state.rule_presets import PRESETS

PROPOSED = "ilp"  # the name of candidates that a linear program proposes
ALONE = ""  # the policy of XLA: no pass moves a reduction
DEFAULT_POLICY = "keep-shards"

_KNOWN = ("dp", "zero1", "fsdp", "hsdp")  # templates that everybody knows: always tried
# Sums and parameters that are sharded can be held whole, at the price of memory; others have one best way.
_OF_WHOLE = (DEFAULT_POLICY, ALONE)
_OF_SHARDED = (DEFAULT_POLICY, "gather", "once", ALONE)

# Megatron's cuts over `model` on top of HSDP's. Without `replica` in the mesh it is FSDP on top of Megatron.
_COLUMNS = r"(^|/)(qkv|query|key|value|[qkv](_proj)?|w[qkv]|(up|gate)(_proj)?|wi|w1|fc1|c_fc|c_attn)(/kernel)?$"
_ROWS = r"(^|/)(out|o_proj|out_proj|wo|down|down_proj|w2|fc2|c_proj)(/kernel)?$"
_LARGE_MATRICES = "min_rank = 2\nmin_bytes = 16777216\n"  # embeddings, and not the norms of layers in a scan
_HYBRID_AXES = """[axes]
examples = ["replica?", "data"]
shards = ["data"]
optimizer = ["data", "replica?"]
"""
BATCH_RULE = '\n[[rule]]\nrole = "batch"\nexamples = "examples"\n'


@dataclass(frozen=True)
class Mesh:
    """Named axes of all devices of the target, in their order: the last axis joins neighbours."""

    axes: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        return prod(size for _, size in self.axes)

    def __str__(self) -> str:
        return " x ".join(f"{name}={size}" for name, size in self.axes)


STAGE = "stage"  # the axis of pipeline stages, the first of a mesh that has it


@dataclass(frozen=True)
class StageMesh:
    """The devices of one stage, and its part of the step's FLOPs, from 0 to 1."""

    data: int
    model: int
    share: float

    @property
    def size(self) -> int:
        """Devices."""
        return self.data * self.model


@dataclass(frozen=True)
class Stages:
    """How a step is cut into pipeline stages, one along STAGE for each device of it, and run."""

    schedule: str  # one of paropt.schedules.SCHEDULES
    microbatches: int  # of the step's loop
    chunks: int | None = None  # of the model, per device; None: as the schedule has it
    cut_options: tuple[tuple[str, int], ...] = ()  # of the pass cut-stages
    meshes: tuple[StageMesh, ...] = ()  # of each stage, where stages differ: for an estimate only

    def __str__(self) -> str:
        return f"{self.schedule} of {self.microbatches}"

    @property
    def shape(self) -> str:
        """Of the stages' meshes, data x model, equal neighbours once."""
        return ", ".join(
            f"{len(list(same))} of {mesh}" for mesh, same in groupby(f"{m.data}x{m.model}" for m in self.meshes)
        )

    @property
    def options(self) -> str:
        """As the pass takes them."""
        return "".join(f" {name}={value}" for name, value in self.cut_options)


@dataclass(frozen=True)
class Candidate:
    """A program to be compiled and judged."""

    name: str  # of the template, or of who proposes it
    mesh: Mesh
    rules: str  # TOML; with stages, of the arrays that are sharded in each
    policy: str  # of grad-sync, or with stages of paropt.pipeline; ALONE: XLA alone
    stages: Stages | None = None

    def __str__(self) -> str:
        stages = f", {self.stages} micro-batches" if self.stages is not None else ""
        stages += f", stages {self.stages.shape}" if self.stages is not None and self.stages.meshes else ""
        return f"{self.name}, {self.mesh}{stages}, {f'policy={self.policy}' if self.policy else 'XLA alone'}"

    @property
    def is_proposed(self) -> bool:
        """By a model: of candidates that are equal in all, one that people know is preferred."""
        return self.name == PROPOSED or self.stages is not None

    @property
    def batch_axes(self) -> tuple[str, ...]:
        """With stages, the axes of each that shard examples: those of the rules for the batch; without such, all.

        Raises RuleError.
        """
        axes = [name for name, _ in self.mesh.axes if name != STAGE]
        return parse(self.rules, self.name).example_axes(axes) or tuple(axes)

    def passes(self, rules_file: str) -> str:
        """The pipeline that applies it, with the rules in a file."""
        return f"{shardings_only(rules_file)}{f',grad-sync{{policy={self.policy}}}' if self.policy else ''}"


def shardings_only(rules_file: str) -> str:
    """The pipeline that shards, and leaves reductions as they are."""
    return f"inline-calls,annotate-shardings{{rules={rules_file}}}"


def factored(devices: int) -> list[Mesh]:
    """All devices on `data`, and `data` x `model`, each factorization."""
    outer = (size for size in range(2, devices) if devices % size == 0)
    return [Mesh((("data", devices),)), *(Mesh((("data", size), ("model", devices // size))) for size in outer)]


def templates(devices: int) -> list[Candidate]:
    """dp, zero1, fsdp, tp, dp x tp, hsdp, hsdp x tp over the meshes that factor `devices`, each with its policies.

    The default policy of all comes first: a search that ends early has seen each template.
    """
    return default_first(_templates(devices))


def default_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """By policy, else in their order."""
    return sorted(candidates, key=lambda candidate: _OF_SHARDED.index(candidate.policy))


def known_first(candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """The first of each template that everybody knows, of the default policy; and the others."""
    default = [each for each in candidates if each.policy == DEFAULT_POLICY]
    first = [next((each for each in default if each.name == name), None) for name in _KNOWN]
    known = [each for each in first if each is not None]
    return known, [each for each in candidates if each not in known]


def _templates(devices: int) -> Iterator[Candidate]:
    over_all = Mesh((("data", devices),))
    for name in ("dp", "zero1", "fsdp"):
        yield from with_policies(name, over_all, PRESETS[name])
    pairs = [(outer, devices // outer) for outer in range(2, devices) if devices % outer == 0]
    for replica, data in pairs:
        yield from with_policies("hsdp", Mesh((("replica", replica), ("data", data))), PRESETS["hsdp"])
    if devices > 1:
        yield from with_policies("tp", Mesh((("data", 1), ("model", devices))), PRESETS["tp"])
    for data, model in pairs:
        yield from with_policies("dp x tp", Mesh((("data", data), ("model", model))), PRESETS["tp"])
        yield from with_policies("fsdp x tp", Mesh((("data", data), ("model", model))), _hybrid_with_tensor())
    for replica, rest in pairs:
        for data in (data for data in range(2, rest) if rest % data == 0):
            mesh = Mesh((("replica", replica), ("data", data), ("model", rest // data)))
            yield from with_policies("hsdp x tp", mesh, _hybrid_with_tensor())


def with_policies(name: str, mesh: Mesh, rules: str) -> Iterator[Candidate]:
    """A candidate for each policy that is worth a try."""
    policies = _OF_SHARDED if "gather = " in rules else _OF_WHOLE
    return (Candidate(name, mesh, rules, policy) for policy in policies)


def zero1_with_tensor() -> str:
    """Megatron's matrices, and embeddings, cut over `model`, the optimizer's state over `data` as well: for meshes of a
    stage."""
    axes = '[axes]\nexamples = ["data"]\noptimizer = ["data"]\nboth = ["model", "data"]\n'
    rules = [axes, BATCH_RULE]
    for role in ("parameter", "gradient"):
        for pattern, cut in ((_COLUMNS, '["...", "model"]'), (_ROWS, '["...", "model", ""]')):
            rules.append(f"[[rule]]\nregex = '{pattern}'\nrole = \"{role}\"\nmin_rank = 2\nshard = {cut}\n")
        rules.append(f'[[rule]]\nrole = "{role}"\n{_LARGE_MATRICES}largest = "model"\n')
        rules.append(f'[[rule]]\nrole = "{role}"\nwhole = true\n')
    for pattern, cut in ((_COLUMNS, '["...", "optimizer", "model"]'), (_ROWS, '["...", "model", "optimizer"]')):
        rules.append(f"[[rule]]\nregex = '{pattern}'\nrole = \"optimizer\"\nmin_rank = 2\nshard = {cut}\n")
    rules.append(f'[[rule]]\nrole = "optimizer"\n{_LARGE_MATRICES}largest = "both"\n')
    rules.append('[[rule]]\nrole = "optimizer"\nlargest = "optimizer"\n')
    return "\n".join(rules)


def _hybrid_with_tensor() -> str:
    """The rules of HSDP with Megatron's matrices cut over `model` as well."""
    rules = [_HYBRID_AXES, BATCH_RULE]
    for role, axes in (("parameter", "shards"), ("gradient", "shards"), ("optimizer", "optimizer")):
        gather = 'gather = "shards"\n' if role == "parameter" else ""
        for pattern, cut in ((_COLUMNS, f'["...", "{axes}", "model"]'), (_ROWS, f'["...", "model", "{axes}"]')):
            rules.append(f"[[rule]]\nregex = '{pattern}'\nrole = \"{role}\"\nmin_rank = 2\nshard = {cut}\n{gather}")
        rules.append(f'[[rule]]\nrole = "{role}"\nlargest = "{axes}"\n{gather}')
    return "\n".join(rules)
