"""Reproducers: a module and the pipeline that fails on it in one file, in MLIR's own format (`mlir-opt` reads it)."""

import re

# MLIR's warning for each reproducer that is read, where nobody registered a reader of them, as one can in C++ only.
IGNORED = "ignoring unknown external resources for 'mlir_reproducer'"

_QUOTE = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
_PIPELINE = re.compile(r'mlir_reproducer:\s*\{[^"}]*?pipeline:\s*"(?P<text>(?:[^"\\]|\\.)*)"', re.S)
_ESCAPED = re.compile(r'\\(?:(["\\])|(n)|(t)|([0-9A-Fa-f]{2}))')


def reproducer(module: str, pipeline: str, command: str, *, verify_each: bool) -> str:
    """`module` (text) with `pipeline` as a resource; `command`, which runs it again, is in the first line."""
    quoted = "".join(_QUOTE.get(character, character) for character in f"builtin.module({pipeline})")
    resource = f'pipeline: "{quoted}",\n      disable_threading: true,\n      verify_each: {str(verify_each).lower()}'
    return (
        f"// {command}\n{module.rstrip()}\n\n"
        f"{{-#\n  external_resources: {{\n    mlir_reproducer: {{\n      {resource}\n    }}\n  }}\n#-}}\n"
    )


def pipeline_of(text: str) -> str | None:
    """The pipeline in a reproducer, None when `text` is none."""
    found = _PIPELINE.search(text, max(text.rfind("{-#"), 0))
    return _ESCAPED.sub(_unescaped, found["text"]) if found else None


def _unescaped(escape: re.Match[str]) -> str:
    quoted, newline, tab, code = escape.groups()
    if code:
        return chr(int(code, 16))
    return quoted or (newline and "\n") or (tab and "\t")
