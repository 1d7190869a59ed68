"""The old place, for one release, of what plug-ins import: the modules are in `paropt.passes.support` now."""

import importlib
import sys
import warnings

for _name in ("registry", "remarks", "traversal"):
    sys.modules[f"{__name__}.{_name}"] = importlib.import_module(f"paropt.passes.support.{_name}")
warnings.warn(
    "paropt.passes.core is going to be removed: import from paropt.passes.support instead",
    DeprecationWarning,
    stacklevel=2,
)
