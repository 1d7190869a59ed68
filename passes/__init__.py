"""Every pass, in reading order, and the named pipelines. Importing this registers them: there is no other list."""

from paropt.passes import inline_calls as inline_calls
from paropt.passes.core.registry import name_pipeline

DEFAULT_PIPELINE = "grad-sync"
