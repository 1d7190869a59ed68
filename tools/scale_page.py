"""The page of tools/bench_scale.py: docs/scale.md."""

from collections.abc import Iterator
from typing import Any

from bench_table import table

ALONE, DEFAULT = "XLA alone", "default"
MORE, LONGER = 1.02, 1.3  # times the peak and the compile time of XLA alone: what a default may take
GB = 1e9

INTRO = """\
# Real sizes

Training steps of language models with 1, 7 and 70 G parameters, compiled for clusters that are described: nothing is
run. Blocks are Llama's, layers are scanned and computed again in the backward pass, computation is in bfloat16;
parameters, sums of gradients and AdamW's state are float32; four micro-batches of one sequence of 2048 tokens per
device of the batch's axes. Layouts are those of tools/scale_programs.py.

`make scale` measures all rows, which takes hours; `python tools/bench_scale.py --only '7 G*gpu*'` some of them.

- **sent**: GB per device and step, of all collectives: all-gathers, reductions (all-reduces and reduce-scatters) and
  others (all-to-alls, permutes).
- **between hosts**: of these, over mesh axes that span hosts. A row of H100s has eight hosts of eight devices.
- **runs**: of collectives, per step.
- **peak**: GB per device, as the compiler states it; arguments included.
- **lower**, **compile**: CPU seconds of all threads; by the clock, beside other work, in rows that say so.
- **step**: seconds, by the estimate of [costs.md](costs.md).
"""


def page(found: dict[str, Any]) -> str:
    """Of what tools/bench_scale.py has measured."""
    parts = [INTRO, _summary(found)]
    for target in dict.fromkeys(key.split(" | ")[2] for key in found):
        parts.append(f"## {target}\n")
        parts += [_program(key, each) for key, each in found.items() if key.endswith(f"| {target}")]
    return "\n".join(parts)


def line(variant: dict[str, Any]) -> str:
    """Of one variant, for a terminal."""
    if "problem" in variant:
        return str(variant["problem"])
    sent = sum(variant["kinds"].values()) / GB
    peak, seconds = variant["peak"] / GB, variant["compiling"]
    return f"sends {sent:.2f} GB, peak {peak:.2f} GB, {seconds:.0f} s to compile"


def worse(variants: dict[str, Any]) -> list[str]:
    """In which respect the default is worse than XLA alone."""
    alone, ours = variants.get(ALONE, {}), variants.get(DEFAULT, {})
    if "peak" not in alone or "peak" not in ours:
        return []
    found = {
        "bytes": _sent(ours) > 1.001 * _sent(alone),
        "peak": ours["peak"] > MORE * alone["peak"],
        "compile time": ours["lowering"] + ours["compiling"] > LONGER * (alone["lowering"] + alone["compiling"]),
    }
    return [what for what, is_worse in found.items() if is_worse]


def _summary(found: dict[str, Any]) -> str:
    compared = [key for key, each in found.items() if "peak" in each["variants"].get(DEFAULT, {})]
    bad = {key: what for key in compared if (what := worse(found[key]["variants"]))}
    good = f"{len(compared) - len(bad)} of {len(compared)} programs" if bad else f"all {len(compared)} programs"
    lines = [
        f"By default, {good} send no more than by XLA alone, hold at most {MORE} times its peak, and compile in",
        f"at most {LONGER} times its time." + ("" if not bad else " The others:"),
    ]
    listed = [f"- {key.replace(' | ', ', ')}: worse in {' and '.join(what)}" for key, what in bad.items()]
    lines += ["", *listed] if bad else []
    return "\n".join(lines) + "\n"


def _program(key: str, each: dict[str, Any]) -> str:
    model, layout, _ = key.split(" | ")
    head = ("", "sent", "gathers", "reductions", "others", "between hosts", "runs", "peak", "lower", "compile", "step")
    rows = [_row(name, variant, key) for name, variant in each["variants"].items() if "problem" not in variant]
    by_clock = any("lowering_cpu" in variant for variant in each["variants"].values())  # told apart from the others
    seconds = ", seconds by the clock" if by_clock else ""
    text = f"**{model} parameters, {layout}** ({each['date']}, jax {each['jax']}{seconds})\n\n{table([head, *rows])}\n"
    said = list(_said(each))
    return text + ("\n" + "\n".join(f"- {line}" for line in said) + "\n" if said else "")


def _said(each: dict[str, Any]) -> Iterator[str]:
    for name, variant in each["variants"].items():
        if "problem" in variant:
            yield f"{name}: {variant['problem']}"
        yield from (f"{name}: {text}" for text in variant.get("warnings", ()))
    if each["problem"]:
        yield each["problem"]


def _row(name: str, variant: dict[str, Any], key: str) -> tuple[str, ...]:
    kinds = variant["kinds"]
    gathers = kinds.get("all-gather", 0)
    reductions = kinds.get("all-reduce", 0) + kinds.get("reduce-scatter", 0)
    return (
        name,
        f"{_sent(variant) / GB:.2f}",
        f"{gathers / GB:.2f}",
        f"{reductions / GB:.2f}",
        f"{(_sent(variant) - gathers - reductions) / GB:.2f}",
        f"{_between_hosts(variant, key) / GB:.2f}" if "gpu" in key else "",
        f"{variant['collectives']}",
        f"{variant['peak'] / GB:.2f}",
        f"{variant['lowering']:.1f}",
        f"{variant['compiling']:.0f}",
        f"{variant['step']:.2f}",
    )


def _between_hosts(variant: dict[str, Any], key: str) -> float:
    """Eight devices of a host are those of the last axis of a mesh of two; of a mesh of one axis, each collective
    spans hosts."""
    last = {"HSDP": "fsdp", "FSDP x TP": "tensor", "FSDP x EP": "expert"}.get(key.split(" | ")[1])
    return sum(size for axes, size in variant["axes"].items() if axes != last)


def _sent(variant: dict[str, Any]) -> float:
    return float(sum(variant["kinds"].values()))
