"""The cases that the lit files make: each public function with each pipeline of the file's RUN lines."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIT = Path(__file__).parents[1] / "passes"
SPLIT = re.compile(r"^// -----.*$", re.M)
RUN = re.compile(r"RUN:(?P<before>.*)%par-opt\b.*?--(?:passes|pass-pipeline)[= ](?P<text>'[^']*'|\"[^\"]*\"|\S+)")
FUNCTION = re.compile(r"^[ \t]*func\.func (?:public )?@(?P<name>\"[^\"]+\"|[\w$.-]+)", re.M)
SKIP = re.compile(r"//\s*NUMERIC:(?P<rest>.*)")
REASON = re.compile(r"\s*skip \((?P<reason>[^()]+.*)\)\s*")


@dataclass(frozen=True)
class Case:
    """One public function of a lit file, and one pipeline that the file runs."""

    path: Path
    line: int  # of the function
    function: str
    module: str  # the text of its chunk of the file
    passes: str
    skip: str  # why it is not executed; "" when it is

    def __str__(self) -> str:
        return f"{self.path.stem}-{self.function}-{self.passes}"


def cases(path: Path) -> list[Case]:
    """The cases of a lit file; chunks that expect an error have none.

    Raises ValueError for a `NUMERIC:` comment that is not `NUMERIC: skip (reason)`.
    """
    text = path.read_text()
    pipelines = list(dict.fromkeys(_pipelines(text)))
    return [
        Case(path, line, function, module, passes, skip)
        for line, function, module, skip in _functions(path, text)
        for passes in pipelines
    ]


def _pipelines(text: str) -> Iterator[str]:
    for run in RUN.finditer(text):
        if not re.search(r"\bnot\b", run["before"]):
            yield run["text"].strip("'\"")


def _functions(path: Path, text: str) -> Iterator[tuple[int, str, str, str]]:
    """Of each public function: its line, its name, the text of its module, and the reason to skip it."""
    starts = [0, *(m.end() for m in SPLIT.finditer(text))]
    ends = [*(m.start() for m in SPLIT.finditer(text)), len(text)]
    for start, end in zip(starts, ends, strict=True):
        module = text[start:end]
        if "expected-error" in module:
            continue
        for found in FUNCTION.finditer(module):
            line = text.count("\n", 0, start + found.start()) + 1
            yield line, found["name"].strip('"'), module, _skip(path, line, module[: found.start()])


def _skip(path: Path, line: int, above: str) -> str:
    """The reason in the comment that heads a function, "" when there is none."""
    for comment in reversed(above.splitlines()):
        line -= 1
        if not comment.strip().startswith("//"):
            return ""
        asked = SKIP.search(comment)
        if not asked:
            continue
        given = REASON.fullmatch(asked["rest"])
        if not given:
            raise ValueError(f"{path}:{line}: expected `// NUMERIC: skip (reason)`, got `{comment.strip()}`")
        return given["reason"]
    return ""
