"""Plans as TOML: a rules file of annotate-shardings, with a table that says mesh, policy and target."""

import tomllib
from pathlib import Path
from typing import Any

from paropt.passes.state.role_rules import RuleError, parse
from paropt.planning.candidates import Candidate, Mesh
from paropt.planning.sharded_programs import PlanError

_KEYS = ("name", "target", "policy", "mesh")


def dumps(candidate: Candidate, target: str) -> str:
    """The text of a plan."""
    axes = ", ".join(f"{name} = {size}" for name, size in candidate.mesh.axes)
    return f"""# A plan of paropt.plan, and rules for annotate-shardings. Edit it as you like.
[plan]
name = "{candidate.name}"
target = "{target}"
policy = "{candidate.policy}"  # of grad-sync; empty: XLA alone
mesh = {{ {axes} }}

{candidate.rules.strip()}
"""


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
    return Candidate(str(plan["name"]), mesh, text, str(plan["policy"])), str(plan["target"])


def _axes(mesh: Any, path: str | Path) -> list[tuple[str, Any]]:
    if not isinstance(mesh, dict) or not mesh:
        raise PlanError(f"{path}, plan, mesh: expected axes and their sizes, as in {{ data = 8 }}")
    return list(mesh.items())


def _axis(name: str, size: Any, where: str) -> tuple[str, int]:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PlanError(f"{where}, {name}: expected a number of devices, found `{size}`")
    return name, size
