"""Compiles training steps of public packages without and with par-opt, and writes docs/gallery.md.

Each program is measured in a process of its own, for each target: what it sends, how often, in how much memory, and
how long it takes to compile; on CPU devices it also runs both ways. What is measured is kept in docs/gallery.json,
from which the page is written, so a part can be measured again by `--only`.
"""

import argparse
import datetime
import fnmatch
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(Path(__file__).resolve().parent))

import gallery_page  # noqa: E402  after the path is set
from gallery_catalog import ENTRIES, TARGETS, Entry  # noqa: E402

MEASURE = Path(__file__).resolve().with_name("gallery_measure.py")
START = "gallery: "
SECONDS = 600  # for one program on one target
DEAD = {"stays": [], "warnings": [], "values": None}  # besides the target and the problem
HAS = "import importlib.metadata as m, sys; [m.version(name) for name in sys.argv[1:]]"


def main() -> int:
    options = _options()
    data = options.out.with_suffix(".json")
    found = json.loads(data.read_text()) if data.exists() else {}
    if options.only_page:
        options.out.write_text(gallery_page.page(found))
        return 0
    lock = threading.Lock()
    finished = 0

    def measure(entry: Entry) -> bool:
        nonlocal finished
        result = measured(entry, options.targets, options.python, say)
        with lock:
            finished += 1
            kept = {} if result["problem"] else found.get(entry.name, {}).get("targets", {})
            found[entry.name] = {**result, "targets": {**kept, **result["targets"]}}
            data.write_text(json.dumps({e.name: found[e.name] for e in ENTRIES if e.name in found}, indent=1) + "\n")
            say(f"{finished:2}/{len(options.only)} {entry.name}: {gallery_page.line(result)}")
        return not gallery_page.alarms(result)

    with ThreadPoolExecutor(options.jobs) as pool:
        good = list(pool.map(measure, options.only))
    options.out.write_text(gallery_page.page(found))
    say(f"wrote {options.out} and {data}")
    return 0 if all(good) else 1


def measured(
    entry: Entry, targets: Sequence[str], pythons: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """The entry's results per target. A target that ends the process is left out by the next one."""
    result: dict[str, Any] = {
        "date": str(datetime.datetime.now(datetime.UTC).date()),
        "versions": {},
        "problem": "",
        "targets": {},
    }
    python = next((python for python in pythons if _has(python, entry.packages)), None)
    if python is None:
        return {**result, "problem": f"not installed: {', '.join(entry.packages)}"}
    waiting = list(targets)
    while waiting:
        for message in _messages(python, entry.name, waiting):
            if "target" in message:
                result["targets"][message["target"]] = message
                waiting.remove(message["target"])
                say(f"   {entry.name} {message['target']}: {gallery_page.target_line(message)}")
            else:
                result.update(message)
        if result["problem"]:
            break
    return result


def _messages(python: str, name: str, targets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What a child says; last, if it dies, of the target that it died of."""
    left = list(targets)
    command = [python, str(MEASURE), name, *targets]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as child:
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(child.stderr or ()))
        reader.start()
        timer = threading.Timer(SECONDS * len(targets), child.kill)
        timer.start()
        for line in child.stdout or ():
            if line.startswith(START):
                message = json.loads(line.removeprefix(START))
                left = [target for target in left if target != message.get("target")]
                yield message
        timer.cancel()
        reader.join()
    if child.returncode and left:
        said = [line.strip() for line in errors if line.strip()]
        yield {**DEAD, "target": left[0], "problem": f"status {child.returncode}: {said[-1] if said else 'no message'}"}


def _has(python: str, packages: Sequence[str]) -> bool:
    """Whether this Python has them."""
    return not subprocess.run([python, "-c", HAS, *packages], capture_output=True).returncode


def say(line: str) -> None:
    print(line, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        type=_entries,
        default=list(ENTRIES),
        metavar="NAMES",
        help="names or patterns, separated by commas: `flax_linen,keras_*` (default: all)",
    )
    parser.add_argument(
        "--targets",
        type=lambda text: text.split(","),
        default=list(TARGETS),
        metavar="TARGETS",
        help=f"separated by commas (default: {','.join(TARGETS)})",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[sys.executable],
        metavar="PATH",
        help="another Python, for programs whose packages this one has not; may be given several times",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "gallery.md", help="page to write (default: %(default)s)"
    )
    parser.add_argument("--only-page", action="store_true", help="measure nothing: write the page from what is there")
    options = parser.parse_args()
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {options.out}: cannot make its folder: {error.strerror}")
    return options


def _entries(text: str) -> list[Entry]:
    chosen: list[Entry] = []
    for pattern in text.split(","):
        found = [entry for entry in ENTRIES if fnmatch.fnmatch(entry.name, pattern)]
        if not found:
            known = ", ".join(entry.name for entry in ENTRIES)
            raise argparse.ArgumentTypeError(f"no program is called {pattern!r}; there are: {known}")
        chosen += [entry for entry in found if entry not in chosen]
    return chosen


if __name__ == "__main__":
    sys.exit(main())
