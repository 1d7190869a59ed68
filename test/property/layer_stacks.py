"""Random loops over micro-batches with a loop over layers in them, whose rows are added up: for 8 replicas, and exact."""

from collections.abc import Callable

from hypothesis import strategies as st

ROW, INDEX = "tensor<1x2xf32>", "tensor<i32>"
# Which row iteration `%j` writes. The more usual, the more often.
PLACES = {
    "forward": ["%at = stablehlo.add %j, %zero"],
    "backward": ["%left = stablehlo.subtract %layers, %j", "%at = stablehlo.subtract %left, %one"],
    "rotated": ["%up = stablehlo.add %j, %one", "%at = stablehlo.remainder %up, %layers"],
    "one row": ["%at = stablehlo.multiply %j, %zero"],
    "of a number": ["%at = stablehlo.multiply %j, %n"],
}
# What becomes of a stack before it is added.
STEPS = (
    "stablehlo.negate {0} : {stack}",
    "stablehlo.multiply {0}, %twos : {stack}",
    "stablehlo.multiply %scale, {0} : {stack}",
    "stablehlo.multiply {0}, %ws : {stack}",
    "stablehlo.multiply %late, {0} : {stack}",
    "stablehlo.add {0}, {0} : {stack}",
    "stablehlo.reshape {0} : ({stack}) -> {stack}",
)
ADDS = ("stablehlo.add {acc}, {0}", "stablehlo.add {0}, {acc}", "stablehlo.subtract {acc}, {0}")
RARE_ADDS = ("stablehlo.subtract {0}, {acc}", "stablehlo.add {acc}, {acc}", "stablehlo.add %ws, {0}")


@st.composite
def layer_stacks(draw: Callable) -> str:
    """The text of a module whose `@main` is such a loop."""

    def one_of(*choices: object) -> str:
        return str(draw(st.sampled_from(choices)))

    layers, count = int(one_of(1, 2, 4)), int(one_of(1, 1, 2))
    stack = f"tensor<{layers}x2xf32>"
    place = PLACES[one_of("forward", "backward", "backward", *PLACES)]
    trips = one_of("layers", "layers", "layers", "layers", "n")
    sums = [one_of("", "", "", "sum") for _ in range(count)]  # rows that are added to, or written over
    start = one_of("%zeros", "%zeros", "%zeros", "%ws")
    behind: list[str] = []
    for i in range(count):
        value = f"%l#{i + 1}"
        for step in range(int(one_of(0, 0, 0, 1, 2))):
            behind.append(f"%s{i}_{step} = {one_of(*STEPS).format(value, stack=stack)}")
            value = f"%s{i}_{step}"
        add = one_of(*ADDS, *ADDS, *ADDS, *RARE_ADDS)
        behind.append(f"%acc{i}_next = {add.format(value, acc=f'%acc{i}')} : {stack}")
    lines = [
        f"func.func public @main(%xs: {stack}, %ws: {stack}, %n: {INDEX}) -> ({', '.join([stack] * count)}) {{",
        *(f"%{name} = stablehlo.constant dense<{number}> : {INDEX}" for name, number in _numbers(layers)),
        *(f"%{name} = stablehlo.constant dense<{number}.0> : {stack}" for name, number in (("zeros", 0), ("twos", 2))),
        f"%number = stablehlo.convert %n : ({INDEX}) -> tensor<f32>",
        f"%scale = stablehlo.broadcast_in_dim %number, dims = [] : (tensor<f32>) -> {stack}",
        *_loop("%r", "%i", "three", [(f"%acc{i}", "%ws", stack) for i in range(count)], [
            *_loop("%l", "%j", trips, [(f"%s{i}", start, stack) for i in range(count)], _rows(place, sums, stack)),
            f"%ended = stablehlo.convert %l#0 : ({INDEX}) -> tensor<f32>",
            f"%late = stablehlo.broadcast_in_dim %ended, dims = [] : (tensor<f32>) -> {stack}",
            *behind,
        ]),
        f"return {', '.join(f'%r#{i + 1}' for i in range(count))} : {', '.join([stack] * count)}",
        "}",
    ]  # fmt: skip
    return "\n".join([*lines, ""])


def _numbers(layers: int) -> list[tuple[str, int]]:
    return [("zero", 0), ("one", 1), ("three", 3), ("layers", layers)]


def _rows(place: list[str], sums: list[str], stack: str) -> list[str]:
    """Iteration `%j` of micro-batch `%i`: a row of each stack."""
    read = f"%at, %zero, sizes = [1, 2] : ({stack}, {INDEX}, {INDEX}) -> {ROW}"
    written = f"%at, %zero : ({stack}, {ROW}, {INDEX}, {INDEX}) -> {stack}"
    lines = [f"{line} : {INDEX}" for line in place]
    lines += [f"%x = stablehlo.dynamic_slice %xs, {read}", f"%t = stablehlo.convert %i : ({INDEX}) -> tensor<f32>"]
    lines += [f"%ts = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> {ROW}"]
    lines += [f"%g = stablehlo.add %x, %ts : {ROW}"]
    for i, kind in enumerate(sums):
        if kind:
            lines += [f"%o{i} = stablehlo.dynamic_slice %s{i}, {read}", f"%g{i} = stablehlo.add %o{i}, %g : {ROW}"]
        row = f"%g{i}" if kind else "%g"
        lines.append(f"%s{i}_next = stablehlo.dynamic_update_slice %s{i}, {row}, {written}")
    return lines


def _loop(name: str, counter: str, count: str, carries: list[tuple[str, str, str]], lines: list[str]) -> list[str]:
    """A loop to `%count`; each of `carries` is the name, the start and the type of a carried value."""
    pairs = ", ".join(f"{value} = {start}" for value, start, _ in carries)
    types = ", ".join([INDEX, *(kind for *_, kind in carries)])
    nexts = ", ".join([f"{counter}_next", *(f"{value}_next" for value, *_ in carries)])
    return [
        f"{name}:{len(carries) + 1} = stablehlo.while({counter} = %zero, {pairs}) : {types} cond {{",
        f"%more = stablehlo.compare LT, {counter}, %{count} : ({INDEX}, {INDEX}) -> tensor<i1>",
        "stablehlo.return %more : tensor<i1>",
        "} do {",
        *lines,
        f"{counter}_next = stablehlo.add {counter}, %one : {INDEX}",
        f"stablehlo.return {nexts} : {types}",
        "}",
    ]
