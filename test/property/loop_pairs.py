"""Random pairs of loops for 8 replicas: the first keeps rows, the second reads them in some order. All sums are exact."""

from collections.abc import Callable

from hypothesis import strategies as st

ROW, ONE, INDEX = "tensor<2xf32>", "tensor<1x2xf32>", "tensor<i32>"
# What a trip of the first loop keeps: of the micro-batch, of the weights, and of what it carries.
KEPT = (
    "stablehlo.multiply %x, %w",
    "stablehlo.add %x, %w",
    "stablehlo.negate %x",
    "stablehlo.add %sum, %x",
)
# Where trip `%j` of the second loop reads. The more usual, the more often.
PLACES = {
    "same": ["%at = stablehlo.add %j, %zero"],
    "reverse": ["%at = stablehlo.subtract %last, %j"],
    "as JAX writes it": ["%left = stablehlo.subtract %count, %j", "%at = stablehlo.subtract %left, %one"],
    "rotated": ["%up = stablehlo.add %j, %one", "%at = stablehlo.remainder %up, %count"],
    "one row": ["%at = stablehlo.multiply %j, %zero"],
}
# What the second loop carries on, of what it has read (`%y`), what all trips read (`%c`) and the carried value.
CARRIED = {
    "a sum": ["stablehlo.multiply {y}, %c", "stablehlo.add {a}, {0}"],
    "a sum of two": ["stablehlo.add {y}, {a}", "stablehlo.add {0}, %c"],
    "a recurrence": ["stablehlo.subtract {y}, {a}", "stablehlo.add {0}, %c"],
    "a power": ["stablehlo.add {a}, {a}"],
    "the last": ["stablehlo.add {y}, %c"],
}
USUAL = ("a sum", "a sum", "a sum", "a sum of two")


@st.composite
def loop_pairs(draw: Callable) -> str:
    """The text of a module whose `@main` is two loops and what reads them."""

    def one_of(*choices: object) -> str:
        return str(draw(st.sampled_from(choices)))

    count = int(one_of(1, 2, 4, 4))
    stack = f"tensor<{count}x2xf32>"
    kept = [one_of(*KEPT) for _ in range(int(one_of(1, 1, 2)))]
    place = one_of("reverse", "as JAX writes it", "as JAX writes it", *PLACES)
    carried = [one_of(*USUAL, *USUAL, *CARRIED) for _ in range(int(one_of(1, 2)))]
    writes = one_of("at", "at", "j", "zero") if one_of(True, False, False) == "True" else ""
    start = one_of(*["%w"] * 6, "%f#1", "%late")
    results = ["%late", *(f"%b#{i}" for i in range(2, 2 + len(carried)))]
    types = [ROW] * len(results)
    if writes:
        results.append(f"%b#{2 + len(carried)}")
        types.append(stack)
    if one_of(*[False] * 5, True) == "True":
        results.append("%f#2")
        types.append(stack)
    lines = [
        f"func.func public @main(%xs: {stack}, %w: {ROW}) -> ({', '.join(types)}) {{",
        *(f"%{name} = stablehlo.constant dense<{number}> : {INDEX}" for name, number in _numbers(count)),
        f"%none = stablehlo.constant dense<0.0> : {ROW}",
        *_first(kept, stack),
        f"%late = stablehlo.negate %f#1 : {ROW}",
        *_second(len(kept), stack, PLACES[place], carried, start, writes),
        f"return {', '.join(results)} : {', '.join(types)}",
        "}",
    ]
    return "\n".join([*lines, ""])


def _numbers(count: int) -> list[tuple[str, int]]:
    return [("zero", 0), ("one", 1), ("last", count - 1), ("count", count)]


def _first(kept: list[str], stack: str) -> list[str]:
    lines = [*_row("%x", "%xs", "%i", stack), f"%next = stablehlo.add %sum, %x : {ROW}"]
    for i, value in enumerate(kept):
        lines += [f"%h{i} = {value} : {ROW}", *_written(f"%k{i}", f"%h{i}", "%i", stack)]
    carries = [("%sum", "%none", "%next", ROW), *((f"%k{i}", "%xs", f"%k{i}_next", stack) for i in range(len(kept)))]
    return _loop("%f", "%i", carries, lines)


def _second(stacks: int, stack: str, place: list[str], carried: list[str], start: str, writes: str) -> list[str]:
    lines = [f"{line} : {INDEX}" for line in place]
    for i in range(stacks):
        lines += _row(f"%y{i}", f"%f#{2 + i}", "%at", stack)
    carries = [("%c", start, "%c", ROW)]
    for i, name in enumerate(carried):
        made: list[str] = []
        for text in CARRIED[name]:
            line = text.format(*made, y=f"%y{i % stacks}", a=f"%a{i}")
            made.append(f"%m{i}_{len(made)}")
            lines.append(f"{made[-1]} = {line} : {ROW}")
        carries.append((f"%a{i}", "%w", made[-1], ROW))
    if writes:
        lines += _written("%out", "%y0", f"%{writes}", stack)
        carries.append(("%out", "%xs", "%out_next", stack))
    return _loop("%b", "%j", carries, lines)


def _row(name: str, array: str, at: str, stack: str) -> list[str]:
    types = f"({stack}, {INDEX}, {INDEX}) -> {ONE}"
    return [
        f"{name}_row = stablehlo.dynamic_slice {array}, {at}, %zero, sizes = [1, 2] : {types}",
        f"{name} = stablehlo.reshape {name}_row : ({ONE}) -> {ROW}",
    ]


def _written(array: str, value: str, at: str, stack: str) -> list[str]:
    types = f"({stack}, {ONE}, {INDEX}, {INDEX}) -> {stack}"
    return [
        f"{array}_row = stablehlo.reshape {value} : ({ROW}) -> {ONE}",
        f"{array}_next = stablehlo.dynamic_update_slice {array}, {array}_row, {at}, %zero : {types}",
    ]


def _loop(name: str, counter: str, carries: list[tuple[str, str, str, str]], lines: list[str]) -> list[str]:
    """A loop to `%count`; each of `carries` is the name, the start, the next value and the type of a carried value."""
    pairs = ", ".join(f"{value} = {start}" for value, start, _, _ in carries)
    types = ", ".join([INDEX, *(kind for *_, kind in carries)])
    nexts = ", ".join([f"{counter}_next", *(following for _, _, following, _ in carries)])
    return [
        f"{name}:{len(carries) + 1} = stablehlo.while({counter} = %zero, {pairs}) : {types} cond {{",
        f"%more = stablehlo.compare LT, {counter}, %count : ({INDEX}, {INDEX}) -> tensor<i1>",
        "stablehlo.return %more : tensor<i1>",
        "} do {",
        *lines,
        f"{counter}_next = stablehlo.add {counter}, %one : {INDEX}",
        f"stablehlo.return {nexts} : {types}",
        "}",
    ]
