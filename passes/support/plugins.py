"""Passes from a user's own Python module, which declares them with `register` like any other."""

import importlib
import sys

from paropt.passes.support.registry import PASSES, PIPELINES

_LOADED: set[str] = set()  # plug-ins, and the modules that came with them, which may be plug-ins, too


class PluginError(ValueError):
    """The plug-in cannot be used; the message says why."""


def load_plugin(module_name: str) -> list[str]:
    """Imports `module_name` and returns the names of the passes and pipelines that it registered.

    Raises PluginError when there is no such module, when it registers nothing, or when it declares a pass wrongly.
    Other errors that its code raises on import pass through.
    """
    before = {*PASSES, *PIPELINES}
    modules_before = set(sys.modules)
    try:
        importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            hint = "give a module on PYTHONPATH, as in `package.module`, not a file"
            raise PluginError(f"no Python module called `{error.name}`: {hint}") from error
        raise PluginError(f"plug-in `{module_name}` needs a module that is not installed: `{error.name}`") from error
    except (ImportError, ValueError, TypeError) as error:  # raised by `import` and `register`
        raise PluginError(f"plug-in `{module_name}`: {error}") from error
    registered = [name for name in [*PASSES, *PIPELINES] if name not in before]
    own = any(declared.run.__module__ == module_name for declared in PASSES.values())
    if not (registered or own or module_name in _LOADED):
        raise PluginError(f"plug-in `{module_name}` registers no pass: decorate one with `register`")
    _LOADED.update(set(sys.modules) - modules_before, [module_name])
    return registered
