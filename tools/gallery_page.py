"""The gallery's page, of what tools/gallery.py has measured."""

import statistics
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import gallery_environments as environments
from gallery_catalog import ENTRIES, ENVIRONMENTS, NOT_FOR_MEMORY, TARGETS, TIMED, Entry

TITLES = {
    "marin-levanter": "Levanter",
    "keras": "Keras",
    "flax": "Flax",
    "equinox": "Equinox",
    "optax": "Optax",
    "google-tunix": "Tunix",
    "easydel": "EasyDeL",
    "maxtext": "MaxText",
    "kauldron": "Kauldron and Gemma",
}
MOST_STAYS, MOST_REASONS = 6, 2  # lines per program, reasons per line
MORE = 1.01  # times the ideal: losses and metrics are reduced, too
MEMORY = 1.02  # times the temporary memory of XLA alone, which packs buffers in another way
ONCE = 1.005  # times each parameter, or gradient: 1.00
UNKNOWN = "no reason is known"

Result = dict[str, Any]

INTRODUCTION = """\
Training steps of public packages, compiled by XLA alone and with par-opt: the packages' own models, layers, trainers
and optimizers, in small configurations with random weights, on 8 devices, with 4 micro-batches per update of the
parameters. `make gallery` installs the packages and measures all; `python tools/gallery.py --only 'keras_*'` measures a
part again. The steps are in [tools/gallery_programs](../tools/gallery_programs). Packages that choose kernels by the
machine they run on choose those for CPUs, also where the target is another."""

LEGEND = """\
Per device and update of the parameters, in all tables:

- **wire**: bytes that collectives of all kinds send, an all-reduce 2(n-1)/n of its payload, others (n-1)/n, as often as
  they run. A collective in a branch is counted once: these branches are taken when the parameters are updated. One in a
  branch after the loop is not counted: it is taken where the last trip has not updated them. Where an update takes
  several calls, all are counted.
- **x ideal**: wire in multiples of what one all-reduce of all gradients sends. Fully sharded programs have no such
  ideal; the summary shows their kB, in parentheses.
- **collectives**: how often one runs; in parentheses, how many of these runs are in loops. `>=`: a trip count is not
  known.
- **temporary**: memory beside arguments and results; of several programs that of the one that takes most.
- **compile**: seconds from the function to the executable: tracing, lowering, passes, XLA, and par-opt's check of the
  executable. XLA alone comes first, in a process that has compiled before.
- **gathered**, **reduced** (of trainers): all-gathers in multiples of each parameter gathered once, reductions in
  multiples of each gradient reduced once, over the axes of the batch; of activations over the same axes they are
  counted, too. A parameter that layers share, or that is gathered in both directions, makes it more.
- **values**: the largest difference between the results of both on 8 CPU devices, relative to the largest element of
  each array. Arrays that are rounding and nothing else, as what Adam makes of a gradient of 0, are counted apart."""


def page(found: dict[str, Result]) -> str:
    parts = [
        "<!-- Written by tools/gallery.py from gallery.json: `make gallery`. -->",
        "# Gallery",
        INTRODUCTION,
        "## In short",
        _in_short(found),
        LEGEND,
        "## All programs",
        _summary(found),
        "## Worse than by XLA alone",
        _worse(found),
        "## More than once with `once`",
        _more_than_once(found),
        "## Step times over a slow link",
        _times(found),
    ]
    for package, entries in groupby(ENTRIES, lambda entry: entry.packages[0]):
        listed = list(entries)
        parts += [f"## {TITLES[package]}", *_versions(listed, found), *_recipe(package)]
        parts += [part for entry in listed for part in _program(entry, found.get(entry.name))]
    return "\n\n".join(parts) + "\n"


def _times(found: dict[str, Result]) -> str:
    """Of the fully sharded steps that are timed."""
    rows: list[tuple[str, ...]] = [("program", "XLA alone, s", "par-opt, s", "ratio", "range", "pairs", "")]
    rows += [_time_row(name, found.get(name, {}).get("times")) for name in TIMED]
    text = (
        "Two processes of this machine with 4 CPU devices each, joined by a link of 1 Gbit/s; models of width 512, 8 "
        "devices. XLA alone and par-opt run in turns in the same processes; times are medians, the ratio is the median "
        "over pairs of steps: `python tools/gallery.py --times`."
    )
    return f"{text}\n\n{_table(rows)}"


def _time_row(name: str, times: Result | None) -> tuple[str, ...]:
    if not times or "problem" in times:
        return (f"[{name}](#{name.lower()})", "", "", "", "", "", times["problem"] if times else "not measured yet")
    alone, ours = (statistics.median(times[side]) for side in ("alone", "paropt"))
    ratios = sorted(a / o for a, o in zip(times["alone"], times["paropt"], strict=True))
    cells = f"{alone:.2f}", f"{ours:.2f}", f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    return (f"[{name}](#{name.lower()})", *cells, str(len(ratios)), times["date"])


def times_line(times: Result) -> str:
    """For the terminal."""
    return ", ".join(cell for cell in _time_row("", times)[1:] if cell)


def alarms(result: Result) -> list[str]:
    """What is wrong with a result: no numbers, a fallback, or other values."""
    found = [result["problem"]] if result["problem"] else []
    for target, measured in result["targets"].items():
        found += [f"{target}: {line}" for line in (measured["problem"], *measured["warnings"]) if line]
        if measured["values"] and measured["values"]["wrong"]:
            found.append(f"{target}: {measured['values']['wrong']} results differ by more than rounding")
    return found


def line(result: Result) -> str:
    """For the terminal, of all targets."""
    return "; ".join(alarms(result)) or "done"


def target_line(measured: Result) -> str:
    """For the terminal, of one target."""
    if measured["problem"]:
        return measured["problem"]
    return f"{' -> '.join(_kb(measured[side]['wire']) for side in ('alone', 'ours'))} kB, {_ratios(measured)}"


def _in_short(found: dict[str, Result]) -> str:
    """Of each target: how many programs reach the ideal, and what sharded ones send; then what is wrong or worse."""
    head = (
        "target",
        "programs",
        "at the ideal, XLA alone",
        "par-opt",
        "sharded, sent: par-opt / XLA alone",
        "with memory asked for",
        "compile time, median of par-opt / XLA alone",
    )
    rows = [head, *(_target_in_short(target, found) for target in TARGETS)]
    wrong = sum(bool(alarms(result)) for result in found.values())
    less = sum(
        bool(worse(entry, measured))
        for entry in ENTRIES
        if entry.name in found
        for measured in found[entry.name]["targets"].values()
    )
    text = (
        f"{len(found)} programs were measured. {wrong} of them failed, fell back or gave other values than by XLA "
        f"alone. In {less} pairs of program and target, par-opt is [worse](#worse-than-by-xla-alone) in some measure "
        "without being asked for memory."
    )
    return f"{_table(rows)}\n\n{text}"


def _target_in_short(target: str, found: dict[str, Result]) -> tuple[str, ...]:
    pairs = [(entry, found[entry.name]["targets"].get(target)) for entry in ENTRIES if entry.name in found]
    measured = [(entry, each) for entry, each in pairs if each and not each["problem"]]
    ideal = [each for _, each in measured if each["ideal"] is not None]
    reached = [sum(each[side]["wire"] <= MORE * each["ideal"] for each in ideal) for side in ("alone", "ours")]
    sharded = [(entry, _ratio(each, "wire")) for entry, each in measured if each["ideal"] is None]
    by_default = [ratio for entry, ratio in sharded if entry.passes in NOT_FOR_MEMORY]
    asked = [ratio for entry, ratio in sharded if entry.passes not in NOT_FOR_MEMORY]
    seconds = [_ratio(each, "seconds") for _, each in measured]
    return (
        target,
        str(len(measured)),
        *(f"{count} of {len(ideal)}" for count in reached),
        _range(by_default),
        _range(asked),
        f"{statistics.median(seconds):.2f}" if seconds else "",
    )


def _ratio(measured: Result, what: str) -> float:
    alone, ours = (float(measured[side][what]) for side in ("alone", "ours"))
    return ours / alone if alone else 1.0


def _range(ratios: list[float]) -> str:
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else ""


def _summary(found: dict[str, Result]) -> str:
    header = ("program", "", *(f"{target}: x ideal (kB)" for target in TARGETS), "values")
    rows = [header]
    for entry in ENTRIES:
        result = found.get(entry.name)
        targets = result["targets"] if result else {}
        cells = [_summary_cell(targets.get(target)) for target in TARGETS]
        link = f"[{entry.name}](#{entry.name.lower()})"
        rows.append((link, f"{TITLES[entry.packages[0]]}: {entry.title}", *cells, _values(targets.get(TARGETS[0]))))
    return _table(rows, left=2)


def _worse(found: dict[str, Result]) -> str:
    """The rows in which par-opt sends more, runs more collectives or holds more memory that nobody asked for."""
    lines = [
        f"- {entry.name}, {target}: {', '.join(measures)}. {entry.worse or UNKNOWN}"
        for entry in ENTRIES
        if entry.name in found
        for target, measured in found[entry.name]["targets"].items()
        if (measures := worse(entry, measured))
    ]
    asked = "Where options ask for no memory; more than 2 % of temporary memory counts."
    return "\n".join([asked, "", *lines]) if lines else f"{asked} Nowhere."


def worse(entry: Entry, measured: Result) -> list[str]:
    """The measures in which par-opt is worse than XLA alone, with what both have."""
    if measured["problem"] or entry.passes not in NOT_FOR_MEMORY:
        return []
    alone, ours = measured["alone"], measured["ours"]
    pairs = (
        (f"{_kb(ours['wire'])} kB sent for {_kb(alone['wire'])}", ours["wire"] > alone["wire"]),
        (f"{ours['runs']} collectives for {alone['runs']}", ours["runs"] > alone["runs"]),
        (
            f"{_kb(ours['temporary'])} kB of temporary memory for {_kb(alone['temporary'])}",
            ours["temporary"] > MEMORY * alone["temporary"],
        ),
    )
    return [said for said, is_worse in pairs if is_worse]


def _more_than_once(found: dict[str, Result]) -> str:
    """The trainers' rows with `policy=once` in which parameters or gradients are not gathered or reduced 1.00 times."""
    lines = [
        f"- [{entry.name}](#{entry.name.lower()}), {target}: {'; '.join(reasons)}"
        for entry in ENTRIES
        if entry.name in found and "policy=once" in entry.passes
        for target, measured in found[entry.name]["targets"].items()
        if not measured["problem"]
        if (
            reasons := measured["warnings"]
            or [*_gathered_more(measured), *_reduced_more(measured), *_sent_more(measured)]
        )
    ]
    text = "Rows of trainers in which parameters are gathered, or gradients reduced, more than 1.00 times, and why:"
    return "\n".join([text, "", *lines]) if lines else f"{text} none."


def _gathered_more(measured: Result) -> Iterator[str]:
    """How often parameters are gathered, which of them in loops, and why; else the all-gathers that stay."""
    times = measured["ours"].get("gathered")
    if times is None or times <= ONCE:
        return
    told = [f"`{each['name']}` {_kb(each['bytes'])} kB: {each['reason']}" for each in measured.get("at_use", [])]
    more = [f"and {len(told) - MOST_STAYS} more, smaller"] if len(told) > MOST_STAYS else []
    yield f"gathered {times:.2f} times{_in_parentheses(told[:MOST_STAYS] + more or _staying(measured, 'all-gather'))}"


def _reduced_more(measured: Result) -> Iterator[str]:
    """How often gradients are reduced, and where that is so: what is all-reduced is sent twice."""
    times = measured["ours"].get("reduced")
    if times is None or times <= ONCE:
        return
    kinds = measured["ours"]["kinds"]
    whole = kinds.get("all-reduce", 0)
    excess = (1 - 1 / times) * sum(kinds.get(kind, 0) for kind in KINDS["reductions"])
    if whole >= excess and not measured.get("in_calls"):
        told = [f"{_kb(whole)} kB are all-reduced, where reduce-scatters would send half"]
    else:
        told = [measured.get("in_calls", "").partition(". ")[0], *_staying(measured, "reductions")]
    yield f"reduced {times:.2f} times{_in_parentheses(told)}"


def _staying(measured: Result, what: str) -> list[str]:
    """The collectives that stay, of `KINDS`."""
    kinds = KINDS[what]
    stays = [stay for stay in measured["stays"] if stay["kind"] in kinds]
    size, runs = sum(stay["wire"] for stay in stays), sum(stay["runs"] for stay in stays)
    return [f"{' and '.join(f'{kind}s' for kind in kinds)} that stay: {_kb(size)} kB in {runs} runs"] if stays else []


def _in_parentheses(told: list[str]) -> str:
    parts = "; ".join(filter(None, told))
    return f" ({parts})" if parts else ""


def _sent_more(measured: Result) -> Iterator[str]:
    alone, ours = measured["alone"]["wire"], measured["ours"]["wire"]
    if ours > alone:
        yield f"{_kb(ours)} kB sent for {_kb(alone)} by XLA alone"


def _summary_cell(measured: Result | None) -> str:
    if measured is None:
        return "not measured"
    if measured["problem"]:
        return "failed"
    fell_back = " (fell back)" if measured["warnings"] else ""
    return f"{_ratios(measured)}{fell_back}"


def _ratios(measured: Result) -> str:
    """`4.00 → 1.00`, or kB where there is no ideal."""
    pair = [measured[side] for side in ("alone", "ours")]
    if measured["ideal"] is None:
        return " → ".join(f"({_bound(side)}{_kb(side['wire'])})" for side in pair)
    return " → ".join(f"{_bound(side)}{side['wire'] / measured['ideal']:.2f}" for side in pair)


def _versions(entries: list[Entry], found: dict[str, Result]) -> Iterator[str]:
    """Which versions the programs of a package were measured with: one line for all that have the same."""
    measured = [result for entry in entries if (result := found.get(entry.name)) and result["versions"]]
    texts = dict.fromkeys(
        f"{', '.join(f'{name} {version}' for name, version in result['versions'].items())}, "
        f"Python {result['python']}; {result['date']}."
        for result in measured
    )
    yield from texts


def _recipe(package: str) -> Iterator[str]:
    """How its environment is made, where it has one of its own."""
    if package in ENVIRONMENTS:
        steps = ", then ".join(f"`{command}`" for command in environments.commands(package))
        yield f"Installed by {steps}. {ENVIRONMENTS[package].note}".strip()


def _program(entry: Entry, result: Result | None) -> Iterator[str]:
    yield f"### {entry.name}"
    yield f"{entry.title[0].upper()}{entry.title[1:]}:"
    yield f"```diff\n- {entry.before}\n+ {entry.after}\n```"
    if result is None:
        yield "Not measured yet."
        return
    if result["problem"]:
        yield f"Not measured: {result['problem']}."
        return
    header = (
        "target",
        "wire kB alone",
        "par-opt",
        "x ideal alone",
        "par-opt",
        "collectives alone",
        "par-opt",
        "temporary kB alone",
        "par-opt",
        "compile s alone",
        "par-opt",
    )
    targets = [result["targets"][target] for target in TARGETS if target in result["targets"]]
    yield _table([header, *(_cells(measured) for measured in targets)])
    yield from _kinds(targets)
    if entry.remains:
        yield entry.remains
    if entry.more and any(_is_more(measured) for measured in targets):
        yield entry.more
    yield from _notes(targets)


KINDS = {"all-gather": ("all-gather",), "reductions": ("all-reduce", "reduce-scatter")}


def _kinds(targets: list[Result]) -> Iterator[str]:
    """What trainers send by kind, and how often that is each parameter and each gradient."""
    counted = [each for each in targets if not each["problem"] and each["alone"].get("reduced") is not None]
    if not counted:
        return
    columns = ("gathered", "reduced", *(f"{kind}, kB" for kind in KINDS), "others, kB")
    rows = [
        ("target", *(name for column in columns for name in (f"{column} alone", "par-opt"))),
        *((each["target"], *(cell for pair in _pairs(each) for cell in pair)) for each in counted),
    ]
    yield _table(rows)


def _pairs(measured: Result) -> Iterator[tuple[str, ...]]:
    sides = [measured[side] for side in ("alone", "ours")]
    for what in ("gathered", "reduced"):
        yield tuple("" if side[what] is None else f"{side[what]:.2f}" for side in sides)
    listed = [kind for kinds in KINDS.values() for kind in kinds]
    for kinds in (*KINDS.values(), {kind for side in sides for kind in side["kinds"]}.difference(listed)):
        yield tuple(_kb(sum(side["kinds"].get(kind, 0) for kind in kinds)) for side in sides)


def _cells(measured: Result) -> tuple[str, ...]:
    if measured["problem"]:
        return (measured["target"], measured["problem"], *[""] * 9)
    pair = [measured[side] for side in ("alone", "ours")]
    ideal = measured["ideal"]
    columns = (
        [_bound(side) + _kb(side["wire"]) for side in pair],
        ["" if ideal is None else f"{_bound(side)}{side['wire'] / ideal:.2f}" for side in pair],
        [f"{_bound(side)}{side['runs']} ({side['in_loops']})" for side in pair],
        [_kb(side["temporary"]) for side in pair],
        [f"{side['seconds']:.1f}" for side in pair],
    )
    return (measured["target"], *(cell for column in columns for cell in column))


def _notes(targets: list[Result]) -> Iterator[str]:
    """Values, fallbacks, and what stays, told once where targets agree."""
    for measured in targets:
        if measured["values"]:
            yield f"Values: {_told_values(**measured['values'])}."
        for warning in measured["warnings"]:
            yield f"{measured['target']} falls back: {warning}"
    stays: dict[tuple[str, ...], list[str]] = {}
    for measured in targets:
        for stay in measured["stays"]:
            stays.setdefault((stay["kind"], *stay["reasons"]), []).append(
                f"{measured['target']} {_kb(stay['wire'])} kB in {stay['runs']} runs"
            )
    if not stays:
        return
    yield "What stays, and why:"
    lines = [f"- {kind}s ({', '.join(where)}): {_told(kind, reasons)}" for (kind, *reasons), where in stays.items()]
    more = [f"- and {len(lines) - MOST_STAYS} more, smaller"] if len(lines) > MOST_STAYS else []
    yield "\n".join(lines[:MOST_STAYS] + more)


def _told(kind: str, reasons: list[str]) -> str:
    if not reasons:  # of reductions some pass should say something
        return "no remark" if kind in ("all-reduce", "reduce-scatter") else "the program's own, or XLA's"
    more = f"; and {len(reasons) - MOST_REASONS} more" if len(reasons) > MOST_REASONS else ""
    return "; ".join(reasons[:MOST_REASONS]) + more


def _is_more(measured: Result) -> bool:
    """Whether par-opt sends more than the ideal, and less than XLA alone."""
    if measured["problem"] or measured["ideal"] is None:
        return False
    return bool(MORE * measured["ideal"] < measured["ours"]["wire"] < measured["alone"]["wire"] / MORE)


def _told_values(largest: float, arrays: int, noise: int, wrong: int) -> str:
    more = f"; {noise} of {arrays} arrays are rounding" if noise else ""
    found = f"{wrong} of {arrays} arrays differ by more than rounding" if wrong else "equal within rounding"
    return f"{found}, largest difference {largest:.0e}{more}"


def _values(measured: Result | None) -> str:
    values = measured["values"] if measured else None
    if not values:
        return ""
    return f"{values['largest']:.0e}" + (" (wrong)" if values["wrong"] else "")


def _bound(side: Result) -> str:
    return "" if side["is_exact"] else ">= "


def _kb(size: float) -> str:
    return f"{size / 1e3:.0f}"


def _table(rows: list[tuple[str, ...]], left: int = 1) -> str:
    header, *body = rows
    lines = [header, tuple("---" if i < left else "---:" for i in range(len(header))), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
