"""Plans as TOML: a rules file of annotate-shardings, with a table that says mesh, policy and target."""

import tomllib
from pathlib import Path
from typing import Any, get_args

from paropt.clusters import targets
from paropt.clusters.compiled import TargetError
from paropt.passes.state.role_rules import RuleError, parse
from paropt.passes.support.pipeline import Pipeline, PipelineError
from paropt.planning.candidates import STAGE, Candidate, Mesh, Stages
from paropt.planning.sharded_programs import PlanError
from paropt.schedules import ScheduleError, schedule
from paropt.stages.partial_sums import StagePolicy

_KEYS = ("name", "target", "policy", "mesh")
_STAGE_KEYS = ("schedule", "microbatches", "chunks", "cut")


def dumps(candidate: Candidate, target: str) -> str:
    """The text of a plan."""
    axes = ", ".join(f"{name} = {size}" for name, size in candidate.mesh.axes)
    return f"""# A plan of paropt.plan, and rules for annotate-shardings. Edit it as you like.
[plan]
name = "{candidate.name}"
target = "{target}"
policy = "{candidate.policy}"  # of {"paropt.pipeline" if candidate.stages else "grad-sync; empty: XLA alone"}
mesh = {{ {axes} }}
{_stages_text(candidate.stages)}
{candidate.rules.strip()}
"""


def _stages_text(stages: Stages | None) -> str:
    if stages is None:
        return ""
    chunks = f", chunks = {stages.chunks}" if stages.chunks is not None else ""
    cut = ", ".join(f"{name} = {value}" for name, value in stages.cut_options)
    head = f'schedule = "{stages.schedule}", microbatches = {stages.microbatches}{chunks}'
    return f"stages = {{ {head}, cut = {{ {cut} }} }}  # cut: options of cut-stages\n"


def read(path: str | Path) -> tuple[Candidate, str]:
    """The candidate and the target in a file. Raises PlanError, one line that says where."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        tables = tomllib.loads(text)
        parse(text, str(path))
    except OSError as error:
        raise PlanError(f"cannot read '{path}': {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlanError(f"{path}: {error}") from error
    except RuleError as error:
        raise PlanError(str(error)) from error
    plan = tables.get("plan")
    if not isinstance(plan, dict):
        raise PlanError(f"{path}: it has no table [plan], as a plan that was saved has")
    missing = [key for key in _KEYS if key not in plan]
    if missing:
        raise PlanError(f"{path}, plan: `{missing[0]}` is missing")
    mesh = Mesh(tuple(_axis(name, size, f"{path}, plan, mesh") for name, size in _axes(plan["mesh"], path)))
    stages = _stages(plan["stages"], mesh, f"{path}, plan, stages") if "stages" in plan else None
    candidate = Candidate(str(plan["name"]), mesh, text, str(plan["policy"]), stages)
    _require_policy(candidate, f"{path}, plan, policy")
    _require_target(str(plan["target"]), mesh, f"{path}, plan")
    return candidate, str(plan["target"])


def _require_policy(candidate: Candidate, where: str) -> None:
    if candidate.stages is not None:
        known = get_args(StagePolicy)
        if candidate.policy not in known:
            raise PlanError(f"{where}: expected {', '.join(known)}, found `{candidate.policy}`")
        return
    try:
        Pipeline.parse(f"grad-sync{{policy={candidate.policy}}}" if candidate.policy else "")
    except PipelineError as error:
        raise PlanError(f"{where}: {error}") from error


def _require_target(name: str, mesh: Mesh, where: str) -> None:
    """Raises PlanError for no target, and for one that has another number of devices, where its name tells that."""
    try:
        found = targets.get(name)
    except TargetError as error:
        raise PlanError(f"{where}, target: {error}") from error
    devices = found.named_devices
    if devices is not None and devices != mesh.size:
        raise PlanError(
            f"{where}: the mesh ({mesh}) has {mesh.size} devices, and the target {found.name} has {devices}"
        )


def _stages(table: Any, mesh: Mesh, where: str) -> Stages:
    form = 'as in { schedule = "1f1b", microbatches = 8 }'
    if not isinstance(table, dict) or not {"schedule", "microbatches"} <= {*table} <= {*_STAGE_KEYS}:
        raise PlanError(f"{where}: expected {' and '.join(_STAGE_KEYS[:2])}, perhaps chunks and cut, {form}")
    if mesh.axes[0][0] != STAGE:
        raise PlanError(f"{where}: the first axis of the mesh is `{mesh.axes[0][0]}`, not `{STAGE}`")
    cut = table.get("cut", {})
    if not isinstance(cut, dict):
        raise PlanError(f"{where}, cut: expected options of cut-stages, as in {{ flops-per-byte = 1000 }}")
    numbers = {"microbatches": table["microbatches"], "chunks": table.get("chunks", 1), **cut}
    wrong = next((name for name, value in numbers.items() if type(value) is not int or value < 0), None)
    if wrong is not None:
        raise PlanError(f"{where}, {wrong}: expected a number, found `{numbers[wrong]}`")
    made = Stages(str(table["schedule"]), table["microbatches"], table.get("chunks"), tuple(cut.items()))
    try:
        schedule(made.schedule, stages=mesh.axes[0][1], microbatches=made.microbatches, chunks=made.chunks)
    except ScheduleError as error:
        raise PlanError(f"{where}: {error}") from error
    return made


def _axes(mesh: Any, path: str | Path) -> list[tuple[str, Any]]:
    if not isinstance(mesh, dict) or not mesh:
        raise PlanError(f"{path}, plan, mesh: expected axes and their sizes, as in {{ data = 8 }}")
    return list(mesh.items())


def _axis(name: str, size: Any, where: str) -> tuple[str, int]:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PlanError(f"{where}, {name}: expected a number of devices, found `{size}`")
    return name, size
