"""Compiles training steps of language models at real sizes for described clusters, and writes docs/scale.md.

By XLA alone, by default, with `memory_budget="auto"` and with `policy=once`: bytes sent per device and step, memory,
time to lower and compile, and the estimated step time. Each program is measured in a process of its own, for each
target. What is measured is kept in docs/scale.json, from which the page is written, so a part can be measured again
by `--only`. Its rows for TPUs show what `LITTLE_BESIDE`, `ON_CHIP` and `ROOM` bring about.
"""

import argparse
import datetime
import fnmatch
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import scale_page

ROOT = Path(__file__).resolve().parent.parent
MEASURE = Path(__file__).resolve().with_name("scale_measure.py")
DATA, PAGE = ROOT / "docs" / "scale.json", ROOT / "docs" / "scale.md"
LOGS = ROOT / "build" / "scale"
START = "scale: "
SECONDS = 3600  # for one program on one target
GPU, TPU, LARGE_TPU = "gpu:h100:1x8x8", "tpu:v5e:8x8", "tpu:v5p:4x4x4"

# Model, layout and targets. Data parallelism of 7 G parameters takes more than a device has.
ROWS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("1 G", "data parallel", (GPU, LARGE_TPU)),
    ("1 G", "ZeRO-1", (GPU, TPU, LARGE_TPU)),
    ("1 G", "FSDP", (GPU, TPU, LARGE_TPU)),
    ("1 G, written out", "FSDP", (GPU,)),
    ("1 G", "HSDP", (GPU, TPU, LARGE_TPU)),
    ("1 G", "FSDP x TP", (GPU, TPU, LARGE_TPU)),
    ("8 x 1 G", "FSDP x EP", (GPU, LARGE_TPU)),
    ("7 G", "FSDP", (GPU, TPU, LARGE_TPU)),
    ("7 G", "HSDP", (GPU, LARGE_TPU)),
    ("7 G", "FSDP x TP", (GPU, TPU, LARGE_TPU)),
    ("70 G", "FSDP", (GPU, LARGE_TPU)),
    ("70 G", "FSDP x TP", (GPU, LARGE_TPU)),
)


def main() -> int:
    options = _options()
    found: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    chosen = [] if options.only_page else list(_chosen(options.only))
    LOGS.mkdir(parents=True, exist_ok=True)
    for number, (model, layout, target) in enumerate(chosen, 1):
        print(f"{number:2}/{len(chosen)} {_key(model, layout, target)}", flush=True)
        new = {**found, _key(model, layout, target): _measured(model, layout, target)}
        found = {key: new[key] for row in _chosen("*") if (key := _key(*row)) in new}
        DATA.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(scale_page.page(found))
    print(f"wrote {PAGE.relative_to(ROOT)} from {DATA.relative_to(ROOT)}")
    return 0


def _chosen(pattern: str) -> Iterator[tuple[str, str, str]]:
    for model, layout, targets in ROWS:
        yield from (
            (model, layout, target) for target in targets if fnmatch.fnmatch(_key(model, layout, target), pattern)
        )


def _key(model: str, layout: str, target: str) -> str:
    return f"{model} | {layout} | {target}"


def _measured(model: str, layout: str, target: str) -> dict[str, Any]:
    """The variants of one program; of one that the compiler dies of, what is known."""
    log = LOGS / f"{model}-{layout}-{target}.log".replace(" ", "").replace(":", "-")
    variants: dict[str, Any] = {}
    command = [sys.executable, str(MEASURE), model, layout, target]
    start = time.monotonic()
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as child:
        timer = threading.Timer(SECONDS, child.kill)
        timer.start()
        for line in child.stdout or ():
            if line.startswith(START):
                message = json.loads(line.removeprefix(START))
                variants[message.pop("variant")] = message
                print(f"      {scale_page.line(message)} ({time.monotonic() - start:.0f} s)", flush=True)
        timer.cancel()
    today = str(datetime.datetime.now(datetime.UTC).date())
    problem = f"status {child.returncode}" if child.returncode else ""
    return {"date": today, "jax": jax.__version__, "variants": variants, "problem": problem}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="rows whose `model | layout | target` matches, such as '7 G*gpu*'")
    parser.add_argument("--only-page", action="store_true", help="write the page from what is measured already")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
