"""par-opt: synchronise gradients once per training step.

Importing it imports neither jax nor MLIR; each name below does, when it is first used.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paropt import costs as costs
    from paropt import schedules as schedules
    from paropt.accumulate import accumulate as accumulate
    from paropt.accumulate import manifest as manifest
    from paropt.audit import audit as audit
    from paropt.check import check as check
    from paropt.clusters import gpus as gpus
    from paropt.clusters import targets as targets
    from paropt.hook import fallback as fallback
    from paropt.jit import decisions as decisions
    from paropt.jit import enabled as enabled
    from paropt.jit import jit as jit
    from paropt.jit import remarks as remarks
    from paropt.markers import mark_gradient as mark_gradient
    from paropt.modules.module_io import optimize as optimize
    from paropt.pipeline import pipeline as pipeline
    from paropt.plan import plan as plan
    from paropt.policies import policies as policies
    from paropt.reports import json_form as report_json

_MODULE_OF = {
    "accumulate": "paropt.accumulate",
    "audit": "paropt.audit",
    "check": "paropt.check",
    "decisions": "paropt.jit",
    "enabled": "paropt.jit",
    "jit": "paropt.jit",
    "manifest": "paropt.accumulate",
    "mark_gradient": "paropt.markers",
    "optimize": "paropt.modules.module_io",
    "pipeline": "paropt.pipeline",
    "plan": "paropt.plan",
    "policies": "paropt.policies",
    "remarks": "paropt.jit",
}


# Modules that are public by these names, wherever they are.
_MODULES = {
    "costs": "paropt.costs",
    "fallback": "paropt.hook.fallback",
    "gpus": "paropt.clusters.gpus",
    "report_json": "paropt.reports.json_form",
    "schedules": "paropt.schedules",
    "targets": "paropt.clusters.targets",
}


__all__ = [
    "accumulate",
    "audit",
    "check",
    "costs",
    "decisions",
    "enabled",
    "fallback",
    "gpus",
    "jit",
    "manifest",
    "mark_gradient",
    "optimize",
    "pipeline",
    "plan",
    "policies",
    "remarks",
    "report_json",
    "schedules",
    "targets",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _MODULE_OF:
        raise AttributeError(f"module `paropt` has no attribute `{name}`")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_MODULES})


class _Package(ModuleType):
    """`paropt.jit` and `paropt.audit` are functions, whoever imported the files of the same names, and when."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
