"""Trains a small transformer with jax.jit and with paropt.jit, and compares losses, communication and time.

Data-parallel training on 8 simulated CPU devices, gradients accumulated over micro-batches; then some steps of blocks
that are fully sharded. Writes to the output folder summary.txt, demo.png, census.json, remarks.txt and the modules
before.mlir and after.mlir of the first.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import simulated_devices

DEVICES = 8
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = simulated_devices.flags_for(DEVICES)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test"))

import demo_sharded  # noqa: E402  after the environment is set
import jax  # noqa: E402
import matplotlib  # noqa: E402
import numpy as np  # noqa: E402
from bench_table import plain_table  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402
from programs.program import Sizes  # noqa: E402
from programs.transformer import Config, adam, batch, program  # noqa: E402

import paropt  # noqa: E402
from paropt.audit import SYNC_KINDS, Audit, AuditComparison, size_text  # noqa: E402
from paropt.passes.support.context import make_context  # noqa: E402
from paropt.passes.support.pipeline import Pipeline  # noqa: E402
from paropt.passes.support.remarks import Remark  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  after the backend is chosen

PASSES = "grad-sync"
HEADS = 4
EXAMPLES = 16  # per device, of a micro-batch of the sharded step
TOLERANCE = 1e-4  # relative difference of losses: sums are reassociated, and Adam amplifies rounding
COLORS = ("#8a8f98", "#2a7de1")
NAMES = ("jax.jit", "paropt.jit")
FILES = ("summary.txt", "demo.png", "census.json", "remarks.txt", "before.mlir", "after.mlir")


@dataclasses.dataclass
class Variant:
    """The training step as one of the two compiles it, and what was measured."""

    name: str
    module: str  # StableHLO
    audit: Audit
    compile_seconds: float
    run: Callable[..., Any]
    losses: list[float] = dataclasses.field(default_factory=list)  # mean over a step's micro-batches
    seconds: list[float] = dataclasses.field(default_factory=list)  # of each step


def main() -> int:
    options = _options()
    config = Config(vocabulary=256, width=options.width, heads=HEADS, layers=options.layers, is_tied=False)
    print(
        f"transformer: {config.layers} layers, width {config.width}, sequence {config.sequence}; {DEVICES} simulated "
        f"devices, {options.micro_batches} micro-batches of {DEVICES} examples, {options.steps} steps"
    )
    training = program(config, optimizer=adam(3e-3), micro_batches=options.micro_batches, examples=DEVICES)
    print(f"gradients: {size_text(training.gradient_bytes)} per device")

    fun: dict[str, Any] = {NAMES[0]: jax.jit(training.step, donate_argnums=0)}
    fun[NAMES[1]] = paropt.jit(training.step, passes=PASSES, donate_argnums=0)
    lowered = {}
    for name in NAMES:
        with _phase(f"lower with {name}"):
            lowered[name] = fun[name].lower(*training.args)
    rewrite_seconds = _rewrite_seconds(lowered[NAMES[0]])
    variants = [_compiled(name, lowered[name]) for name in NAMES]
    _train(variants, config, training, options)

    summary = _summary(variants, rewrite_seconds)
    print("\n" + summary + "\n")
    sharded = _sharded(options)
    summary = f"{summary}\n\nFully sharded:\n\n{demo_sharded.summary(sharded)}"
    remarks = paropt.remarks(lowered[NAMES[1]])
    _write(
        options.out,
        variants,
        summary,
        remarks,
        {"rewrite_seconds": rewrite_seconds, "sharded": demo_sharded.measured(sharded)},
    )
    _draw(variants, options.out / "demo.png")
    print(f"\nwrote {options.out}/: {', '.join(FILES)}")
    return _check(variants) or _check_sharded(sharded)


def _sharded(options: argparse.Namespace) -> list[demo_sharded.Sharded]:
    sizes = Sizes(
        width=options.width, layers=options.layers, micro_batches=options.micro_batches, examples=EXAMPLES * DEVICES
    )
    print(f"fully sharded: {sizes.layers} scanned blocks of width {sizes.width}; parameters and sums over all devices")
    with _phase(f"{demo_sharded.STEPS} steps each of {', '.join(demo_sharded.KINDS)}"):
        found = list(demo_sharded.measure(sizes))
    print("\n" + demo_sharded.summary(found))
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="folder to write to (default: %(default)s)")
    parser.add_argument("--steps", type=_positive, default=16, help="training steps (default: %(default)s)")
    parser.add_argument("--micro-batches", type=_positive, default=4, help="per step (default: %(default)s)")
    parser.add_argument("--layers", type=_positive, default=4, help="of the transformer (default: %(default)s)")
    parser.add_argument(
        "--width", type=_positive, default=256, help=f"features, a multiple of {2 * HEADS} (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.width % (2 * HEADS):
        parser.error(f"--width {options.width}: expected a multiple of {2 * HEADS}")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {options.out}: cannot make this folder: {error.strerror}")
    return options


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, not {text!r}")
    return int(text)


@contextlib.contextmanager
def _phase(what: str) -> Iterator[None]:
    print(f"{what} ...", end=" ", flush=True)
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:.2f} s", flush=True)


def _rewrite_seconds(lowered: jax.stages.Lowered) -> float:
    """How long the passes take on the module, without reading or printing it."""
    with make_context():
        module = ir.Module.parse(lowered.as_text(debug_info=True))
        start = time.perf_counter()
        Pipeline.parse(PASSES).run(module.operation)
        return time.perf_counter() - start


def _compiled(name: str, lowered: jax.stages.Lowered) -> Variant:
    start = time.perf_counter()
    with _phase(f"compile {name}"):
        compiled = lowered.compile()
    seconds = time.perf_counter() - start
    audit = paropt.audit(compiled)
    return Variant(name, lowered.as_text(), audit, seconds, compiled)


def _train(variants: list[Variant], config: Config, training: Any, options: argparse.Namespace) -> None:
    """Runs the variants in turns, on the same batches, from the same parameters; each has its own state."""
    replicated = NamedSharding(training.mesh, PartitionSpec())
    sharded = NamedSharding(training.mesh, PartitionSpec(None, "data"))
    states = {
        v.name: jax.tree.map(lambda leaf: jax.device_put(leaf.copy(), replicated), training.args[0]) for v in variants
    }
    for step in range(options.steps):
        tokens = jax.device_put(batch(config, options.micro_batches, DEVICES, step), sharded)
        for variant in variants if step % 2 else reversed(variants):
            start = time.perf_counter()
            states[variant.name], losses = jax.block_until_ready(variant.run(states[variant.name], tokens))
            variant.seconds.append(time.perf_counter() - start)
            variant.losses.append(float(losses.mean()))
        progress = "   ".join(f"{v.name}: loss {v.losses[-1]:.5f}, {v.seconds[-1] * 1e3:5.0f} ms" for v in variants)
        print(f"step {step + 1:2}/{options.steps}   {progress}", flush=True)


def _warm_seconds(variant: Variant) -> list[float]:
    """Of each step; the first one, which warms up, counts only when there is no other."""
    return variant.seconds[1:] or variant.seconds


def _step_seconds(variant: Variant) -> float:
    return statistics.median(_warm_seconds(variant))


def _loss_difference(variants: list[Variant]) -> float:
    """The largest relative difference between the losses of a step."""
    plain, rewritten = (np.array(variant.losses) for variant in variants)
    return float(np.max(np.abs(rewritten / plain - 1)))  # not a number if a loss is none


def _summary(variants: list[Variant], rewrite_seconds: float) -> str:
    sync = [variant.audit.total(*SYNC_KINDS) for variant in variants]
    seconds = [_step_seconds(variant) for variant in variants]
    ratios = [p / r for p, r in zip(*map(_warm_seconds, variants), strict=True)]
    rows = [
        ("", *NAMES),
        ("reductions per step", *(f"{t.bound}{t.executions}" for t in sync)),
        ("arrays reduced per step", *(str(_arrays_per_step(variant.audit)) for variant in variants)),
        ("MB reduced in loops", *(f"{t.bound}{t.in_loops / 1e6:.2f}" for t in sync)),
        ("MB reduced after loops", *(f"{t.bound}{t.outside / 1e6:.2f}" for t in sync)),
        ("peak memory, MB per device", *(f"{(v.audit.peak_memory or 0) / 1e6:.1f}" for v in variants)),
        ("step time, ms (median)", *(f"{s * 1e3:.0f}" for s in seconds)),
        ("step time, relative (median of pairs)", "1.00", f"{1 / statistics.median(ratios):.2f}"),
        ("compile time, s", *(f"{v.compile_seconds:.2f}" for v in variants)),
        ("rewrite time, s", "-", f"{rewrite_seconds:.3f}"),
        ("last loss", *(f"{v.losses[-1]:.5f}" for v in variants)),
    ]
    largest = f"largest relative difference of a loss: {_loss_difference(variants):.1e} (allowed: {TOLERANCE:.0e})"
    return f"{plain_table(rows)}\n\n{largest}"


def _arrays_per_step(audit: Audit) -> int:
    """Reductions of single arrays per step, scalars included."""
    sync = [c for c in audit.collectives if c.kind in SYNC_KINDS]
    return sum(len(c.arrays) * (c.executions or 0) for c in sync)


def _write(out: Path, variants: list[Variant], summary: str, remarks: Sequence[Remark], others: dict[str, Any]) -> None:
    before, after = variants
    compared = AuditComparison(before.audit, after.audit, PASSES, remarks=tuple(remarks))
    (out / "before.mlir").write_text(before.module)
    (out / "after.mlir").write_text(after.module)
    (out / "remarks.txt").write_text("".join(f"{remark}\n" for remark in remarks))
    (out / "summary.txt").write_text(f"{summary}\n\n{compared}\n")
    measured = {variant.name: _measured(variant) for variant in variants}
    (out / "census.json").write_text(json.dumps(others | measured, indent=1) + "\n")


def _measured(variant: Variant) -> dict[str, Any]:
    return {
        "compile_seconds": variant.compile_seconds,
        "step_seconds": variant.seconds,
        "losses": variant.losses,
        "sync_bytes": variant.audit.sync_bytes,
        "sync_bytes_in_loops": variant.audit.sync_in_loop,
        "peak_memory_bytes": variant.audit.peak_memory,
        "collectives": [
            dataclasses.asdict(c)
            | {"arrays": [str(array) for array in c.arrays], "executions": c.executions, "payload_bytes": c.payload}
            for c in variant.audit.collectives
        ],
    }


def _draw(variants: list[Variant], path: Path) -> None:
    """Three panels: bytes reduced per step, step time, loss."""
    figure, (bytes_axes, time_axes, loss_axes) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    _draw_bytes(bytes_axes, variants)
    _draw_times(time_axes, variants)
    _draw_losses(loss_axes, variants)
    for axes in (bytes_axes, time_axes, loss_axes):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"Data-parallel training step, {DEVICES} simulated CPU devices: gradient sync per step", fontsize=13
    )
    figure.savefig(path, dpi=140)
    plt.close(figure)


def _draw_bytes(axes: Any, variants: list[Variant]) -> None:
    totals = [variant.audit.total(*SYNC_KINDS) for variant in variants]
    in_loops = [total.in_loops / 1e6 for total in totals]
    outside = [total.outside / 1e6 for total in totals]
    axes.bar(NAMES, in_loops, width=0.55, color="#d1495b", label="in the micro-batch loop")
    axes.bar(NAMES, outside, width=0.55, bottom=in_loops, color="#3a9d7c", label="after the loop")
    tops = [a + b for a, b in zip(in_loops, outside, strict=True)]
    for place, top in enumerate(tops):
        axes.text(place, top, f"{top:.1f} MB", ha="center", va="bottom")
    axes.set_ylim(0, max(tops, default=0) * 1.3 or 1)
    axes.set_ylabel("MB per device and step")
    axes.set_title("Reduced bytes", fontsize=11)
    axes.legend(frameon=False, loc="upper right", fontsize=9)


def _draw_times(axes: Any, variants: list[Variant]) -> None:
    medians = [_step_seconds(variant) * 1e3 for variant in variants]
    axes.bar(NAMES, medians, width=0.55, color=COLORS, alpha=0.85)
    for place, variant in enumerate(variants):
        steps = [seconds * 1e3 for seconds in _warm_seconds(variant)]
        axes.plot(
            [place + 0.34] * len(steps), steps, "o", color=COLORS[place], markersize=3.5, alpha=0.6, clip_on=False
        )
        axes.text(place, medians[place] / 2, f"{medians[place]:.0f} ms", ha="center", va="center", color="white")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("ms per step")
    axes.set_title("Step time: median (bar), each step (dot)", fontsize=11)


def _draw_losses(axes: Any, variants: list[Variant]) -> None:
    steps = range(1, len(variants[0].losses) + 1)
    axes.plot(steps, variants[0].losses, color=COLORS[0], linewidth=5, alpha=0.6, label=NAMES[0])
    axes.plot(steps, variants[1].losses, color=COLORS[1], linewidth=1.5, marker="o", markersize=3.5, label=NAMES[1])
    axes.set_xlabel("step")
    axes.set_ylabel("cross-entropy (nats per token)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(f"Loss: largest relative difference {_loss_difference(variants):.0e}", fontsize=11)
    axes.legend(frameon=False, fontsize=9)


def _check(variants: list[Variant]) -> int:
    """0 when the losses agree, else 1 and one line."""
    difference = _loss_difference(variants)
    if difference <= TOLERANCE:  # not so if it is not a number
        return 0
    print(f"demo: error: losses differ by {difference:.1e} (relative), more than {TOLERANCE:.0e}", file=sys.stderr)
    return 1


def _check_sharded(found: list[demo_sharded.Sharded]) -> int:
    """The same for the results of the sharded step."""
    difference = demo_sharded.difference(found)
    if difference <= demo_sharded.TOLERANCE:
        return 0
    said = f"results of the sharded step differ by {difference:.1e} (relative), more than {demo_sharded.TOLERANCE:.0e}"
    print(f"demo: error: {said}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
