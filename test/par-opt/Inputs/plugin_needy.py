"""A plug-in that imports what is not installed."""

import no_such_module_anywhere  # noqa: F401
