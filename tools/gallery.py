"""Compiles training steps of public packages without and with par-opt, and writes docs/gallery.md.

Each program is measured in a process of its own, for each target: what it sends, how often, in how much memory, and
how long it takes to compile; on CPU devices it also runs both ways. What is measured is kept in docs/gallery.json,
from which the page is written, so a part can be measured again by `--only`. `--times` measures step times over a slow
link between two processes, on a machine that does nothing else.
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

import bench_times  # noqa: E402  after the path is set
import gallery_page  # noqa: E402
from gallery_catalog import ENTRIES, TARGETS, TIMED, Entry  # noqa: E402
from slow_link import LinkError  # noqa: E402

MEASURE = Path(__file__).resolve().with_name("gallery_measure.py")
STEPS = MEASURE.with_name("gallery_steps.py")
PAIRS = 5
LOGS = ROOT / "build" / "gallery"
START = "gallery: "
SECONDS = 600  # for one program on one target
DEAD: dict[str, Any] = {"stays": [], "warnings": [], "values": None}  # besides the target and the problem
HAS = "import importlib.metadata as m, sys; [m.version(name) for name in sys.argv[1:]]"


def main() -> int:
    options = _options()
    data = options.out.with_suffix(".json")
    found = _known(data)
    if options.only_page:
        options.out.write_text(gallery_page.page(found))
        say(f"wrote {options.out} from {data}")
        return 0
    if options.times:
        for name in TIMED:
            found[name]["times"] = timed(next(entry for entry in ENTRIES if entry.name == name), options.python)
            say(f"{name}: {gallery_page.times_line(found[name]['times'])}")
        _write(options.out, found)
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    lock = threading.Lock()
    finished = 0

    def measure(entry: Entry) -> bool:
        nonlocal finished
        python = next((python for python in options.python if _has(python, entry.packages)), None)
        if python is None:
            result = {**nothing(), "problem": f"not installed: {', '.join(entry.packages)}"}
        else:
            chosen = [target for target in options.targets if target in entry.targets]
            result = measured(entry, chosen, python, LOGS, say)
        with lock:
            finished += 1
            before = found.get(entry.name, nothing())
            if python is None:  # what is known of it is as right as it was
                found.setdefault(entry.name, result)
            else:
                kept = {} if result["problem"] else before["targets"]
                times = {"times": before["times"]} if "times" in before else {}
                found[entry.name] = {**result, **times, "targets": {**kept, **result["targets"]}}
            _write(options.out, found)
            say(f"{finished:2}/{len(options.only)} {entry.name}: {gallery_page.line(result)}")
        return not gallery_page.alarms(result)

    with ThreadPoolExecutor(options.jobs) as pool:
        good = list(pool.map(measure, options.only))
    say(f"wrote {options.out} and {data}; what the packages printed is in {LOGS}")
    return 0 if all(good) else 1


def _write(page: Path, found: dict[str, Any]) -> None:
    """Keeps what is measured, and writes the page of it."""
    ordered = {entry.name: found[entry.name] for entry in ENTRIES if entry.name in found}
    page.with_suffix(".json").write_text(json.dumps(ordered, indent=1) + "\n")
    page.write_text(gallery_page.page(ordered))


def timed(entry: Entry, pythons: Sequence[str]) -> dict[str, Any]:
    """Seconds of the entry's steps over a slow link, XLA alone and par-opt in turns; or why there are none."""
    python = next((python for python in pythons if _has(python, entry.packages)), None)
    if python is None:
        return {"problem": f"not installed: {', '.join(entry.packages)}"}
    try:
        found = json.loads(bench_times.joined([python, str(STEPS), entry.name, "--pairs", str(PAIRS)]))
    except (LinkError, bench_times.WorkerError) as error:
        return {"problem": str(error)}
    return {"date": nothing()["date"], **found}


def nothing() -> dict[str, Any]:
    """The results of an entry before any are there."""
    today = str(datetime.datetime.now(datetime.UTC).date())
    return {"date": today, "versions": {}, "problem": "", "targets": {}}


def measured(
    entry: Entry, targets: Sequence[str], python: str, logs: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """The entry's results per target. A target that ends the process is left out by the next one."""
    result = nothing()
    waiting = list(targets)
    while waiting and not result["problem"]:
        log = logs / f"{entry.name}-{len(targets) - len(waiting)}.log"
        for message in _messages(python, entry.name, waiting, log):
            if "target" not in message:
                result.update(message)
                continue
            result["targets"][message["target"]] = message
            waiting.remove(message["target"])
            say(f"   {entry.name} {message['target']}: {gallery_page.target_line(message)}")
    return result


def _messages(python: str, name: str, targets: Sequence[str], log: Path) -> Iterator[dict[str, Any]]:
    """What a child says; last, if it dies, of the target that it died of. `log` gets the rest that it writes."""
    left, is_made = list(targets), True
    command = [python, str(MEASURE), name, *targets]
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
        timer = threading.Timer(SECONDS * len(targets), child.kill)
        timer.start()
        for line in child.stdout or ():
            if line.startswith(START):
                message = json.loads(line.removeprefix(START))
                left = [target for target in left if target != message.get("target")]
                is_made &= "target" in message or not message.get("problem")
                yield message
        timer.cancel()
    if left and is_made:
        said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        problem = f"status {child.returncode}: {said[-1] if said else 'no message'}"
        yield {**DEAD, "target": left[0], "problem": problem}


def _known(data: Path) -> dict[str, Any]:
    """What was measured before."""
    try:
        found: dict[str, Any] = json.loads(data.read_text()) if data.exists() else {}
    except ValueError as error:
        sys.exit(f"gallery: {data}: {error}; without that file all is measured anew")
    return found


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
        type=_targets,
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
    parser.add_argument("--times", action="store_true", help="time steps over a slow link instead")
    parser.add_argument("--only-page", action="store_true", help="measure nothing: write the page from what is there")
    options = parser.parse_args()
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {options.out}: cannot make its folder: {error.strerror}")
    return options


def _targets(text: str) -> list[str]:
    chosen = text.split(",")
    unknown = [target for target in chosen if target not in TARGETS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(TARGETS)}")
    return list(dict.fromkeys(chosen))


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
