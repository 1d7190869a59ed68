"""Random programs whose micro-batches were unrolled: M copies of a few ops, of which one may be unlike the others.

Values are small integers in f32, so that all sums are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

ROWS = "tensor<1x2xf32>"
TYPE = "tensor<2xf32>"
UNARY = ("negate", "abs", "sign")
BINARY = ("add", "subtract", "maximum", "minimum")


@dataclass
class Copy:
    """The lines of one copy; `values` are those that its ops may read."""

    number: int
    values: list[str]
    lines: list[str] = field(default_factory=list)

    def emit(self, text: str, kind: str = TYPE) -> str:
        name = f"%v{self.number}_{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        if kind == TYPE:
            self.values.append(name)
        return name


@dataclass(frozen=True)
class Plan:
    """What each copy does; indices count back from the last value."""

    copies: int
    source: str  # where a copy gets its data
    steps: tuple[tuple[str, int, int], ...]
    sums: tuple[tuple[str, int], ...]  # combiner, term
    has_start: bool
    odd: tuple[int, int] | None  # a copy, and which of its steps is another one
    state: bool  # each copy hands a value to the next
    kept: str  # what else is read of the copies
    added: str  # when the terms are added: as they come, or after all copies, in which order


@st.composite
def plans(draw: Callable) -> Plan:
    copies = draw(st.integers(2, 5))
    steps = st.tuples(
        st.sampled_from([*UNARY, *BINARY, "shared", "constant", "counted", "reduce", "branch"]),
        st.integers(1, 3),
        st.integers(1, 3),
    )
    drawn = tuple(draw(st.lists(steps, min_size=3, max_size=7)))
    odd = draw(st.sampled_from([False, False, True]))
    return Plan(
        copies=copies,
        source=draw(st.sampled_from(["slice", "slice", "strided", "backwards", "arguments"])),
        steps=drawn,
        sums=tuple(
            draw(st.lists(st.tuples(st.sampled_from(["add", "add", "maximum"]), st.integers(1, 2)), max_size=2))
        ),
        has_start=draw(st.booleans()),
        odd=(draw(st.integers(0, copies - 1)), draw(st.integers(0, len(drawn) - 1))) if odd else None,
        state=draw(st.booleans()),
        kept=draw(st.sampled_from(["nothing", "all", "some", "last"])),
        added=draw(st.sampled_from(["at once", "at once", "forward", "backward"])),
    )


def text_of(plan: Plan) -> str:
    """A module whose `@main` does what `plan` says, one copy after the other."""
    lines = [
        "%zero = stablehlo.constant dense<0.0> : tensor<2xf32>",
        "%none = stablehlo.constant dense<0.0> : tensor<f32>",
    ]
    totals: dict[int, str] = {}
    state = "%w"
    copies = []
    for k in range(plan.copies):
        copy = Copy(k, ["%w"])
        copies.append(copy)
        _read(copy, plan)
        if plan.state:
            copy.values.append(state)
            state = copy.emit(f"stablehlo.subtract %w, {state} : {TYPE}")
        for i, step in enumerate(plan.steps):
            _step(copy, step if plan.odd != (k, i) else ("negate", 1, 1), plan)
        if plan.added == "at once":
            _add(copy, plan, totals)
        lines += copy.lines
    for copy in {"at once": [], "forward": copies, "backward": copies[::-1]}[plan.added]:
        done = len(copy.lines)
        _add(copy, plan, totals)
        lines += copy.lines[done:]
    results = [*totals.values(), *_kept(plan, copies, lines)]
    types = ", ".join([TYPE] * len(results))
    arguments = ", ".join(
        [f"%x: tensor<{plan.copies}x2xf32>", f"%s: tensor<{2 * plan.copies}xf32>", f"%w: {TYPE}", "%p: tensor<i1>"]
        + [f"%x{k}: {TYPE}" for k in range(plan.copies)]
    )
    body = "\n".join(f"  {line}" for line in lines)
    return f"func.func public @main({arguments}) -> ({types}) {{\n{body}\n  return {', '.join(results)} : {types}\n}}\n"


def _add(copy: Copy, plan: Plan, totals: dict[int, str]) -> None:
    """Adds the terms of a copy to the sums."""
    for i, (combiner, term) in enumerate((("add", 1), *plan.sums)):
        start = totals.get(i) or ("%zero" if plan.has_start else "")
        totals[i] = _combined(copy, combiner, start, copy.values[-term])


def _combined(copy: Copy, combiner: str, total: str, value: str) -> str:
    if not total:
        return value
    name = f"%t{copy.number}_{len(copy.lines)}"
    copy.lines.append(f"{name} = stablehlo.{combiner} {total}, {value} : {TYPE}")
    return name


def _read(copy: Copy, plan: Plan) -> None:
    k = copy.number
    if plan.source == "arguments":
        copy.values.append(f"%x{k}")
    elif plan.source == "strided":
        copy.emit(
            f"stablehlo.slice %s [{k}:{2 * plan.copies}:{plan.copies}] : (tensor<{2 * plan.copies}xf32>) -> {TYPE}"
        )
    else:
        at = plan.copies - 1 - k if plan.source == "backwards" else k
        row = copy.emit(f"stablehlo.slice %x [{at}:{at + 1}, 0:2] : (tensor<{plan.copies}x2xf32>) -> {ROWS}", ROWS)
        copy.emit(f"stablehlo.reshape {row} : ({ROWS}) -> {TYPE}")


def _step(copy: Copy, step: tuple[str, int, int], plan: Plan) -> None:
    name, one, other = step
    x, y = (copy.values[-min(i, len(copy.values))] for i in (one, other))
    match name:
        case "shared":
            copy.emit(f"stablehlo.maximum {x}, %w : {TYPE}")
        case "constant":
            value = copy.emit(f"stablehlo.constant dense<[{copy.number * copy.number}.0, -1.0]> : {TYPE}")
            copy.emit(f"stablehlo.add {x}, {value} : {TYPE}")
        case "counted":
            value = copy.emit(f"stablehlo.constant dense<{5 - 2 * copy.number}> : tensor<i32>", "tensor<i32>")
            number = copy.emit(f"stablehlo.convert {value} : (tensor<i32>) -> tensor<f32>", "tensor<f32>")
            wide = copy.emit(f"stablehlo.broadcast_in_dim {number}, dims = [] : (tensor<f32>) -> {TYPE}")
            copy.emit(f"stablehlo.minimum {x}, {wide} : {TYPE}")
        case "reduce":
            text = f"stablehlo.reduce({x} init: %none) applies stablehlo.add across dimensions = [0]"
            total = copy.emit(f"{text} : ({TYPE}, tensor<f32>) -> tensor<f32>", "tensor<f32>")
            copy.emit(f"stablehlo.broadcast_in_dim {total}, dims = [] : (tensor<f32>) -> {TYPE}")
        case "branch":
            taken = f"{{ %c = stablehlo.subtract {x}, {y} : {TYPE} stablehlo.return %c : {TYPE} }}"
            copy.emit(f'"stablehlo.if"(%p) ({taken}, {{ stablehlo.return {x} : {TYPE} }}) : (tensor<i1>) -> {TYPE}')
        case _ if name in UNARY:
            copy.emit(f"stablehlo.{name} {x} : {TYPE}")
        case _:
            copy.emit(f"stablehlo.{name} {x}, {y} : {TYPE}")


def _kept(plan: Plan, copies: list[Copy], lines: list[str]) -> list[str]:
    """What else the program returns of the copies."""
    values = [copy.values[-1] for copy in copies]
    if plan.kept == "nothing":
        return []
    if plan.kept == "last":
        return values[-1:]
    chosen = values if plan.kept == "all" else values[::2]
    whole = f"tensor<{2 * len(chosen)}xf32>"
    types = ", ".join([TYPE] * len(chosen))
    lines.append(f"%kept = stablehlo.concatenate {', '.join(chosen)}, dim = 0 : ({types}) -> {whole}")
    lines.append(f"%first = stablehlo.slice %kept [0:2] : ({whole}) -> {TYPE}")
    lines.append(f"%last = stablehlo.slice %kept [{2 * len(chosen) - 2}:{2 * len(chosen)}] : ({whole}) -> {TYPE}")
    return ["%first", "%last"]
