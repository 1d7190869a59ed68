"""What random programs are made of: values with bounds, and blocks that collect lines."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

EXACT_BITS = {"f32": 24, "bf16": 8, "i32": 62}  # i32 wraps, which is exact for sums too: never a reason to stop


@dataclass(frozen=True)
class Value:
    name: str
    shape: tuple[int, ...]
    kind: str  # element type
    bound: int = 8  # of the magnitude
    bits: int = 0  # behind the binary point

    @property
    def type(self) -> str:
        return "tensor<" + "".join(f"{n}x" for n in self.shape) + f"{self.kind}>"

    @property
    def is_exact(self) -> bool:
        if self.kind == "i32":
            return True
        return self.bound << self.bits <= 1 << EXACT_BITS[self.kind]


@dataclass
class Names:
    """What the blocks of a module share."""

    used: int = 0
    functions: list[str] = field(default_factory=list)

    def fresh(self) -> int:
        self.used += 1
        return self.used


@dataclass
class Block:
    """Lines of a block, and the values that can be used in it."""

    draw: Callable
    names: Names
    values: list[Value]
    depth: int = 0  # of loops, branches and calls around
    ops: tuple[Callable[["Block"], None], ...] = ()  # what `fill` appends
    summed: Callable[["Block", Value], Value | None] | None = None  # makes a sum over devices of that type
    lines: list[str] = field(default_factory=list)

    def emit(self, text: str, like: Value) -> Value:
        """Appends `text` as the definition of a value of the type and bounds of `like`."""
        value = replace(like, name=f"%v{self.names.fresh()}")
        self.lines.append(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value of the block that `accept` likes; the latest are likeliest, so that programs get deep."""
        known = [v for v in self.values if v.kind != "i1" and accept(v)]
        if not known:
            return None
        return known[max(0, len(known) - 1 - self.draw(st.integers(0, 5)))]

    def inner(self, values: list[Value]) -> "Block":
        return Block(self.draw, self.names, list(values), self.depth + 1, self.ops, self.summed)

    def one_of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))


def fill(b: Block, count: int) -> None:
    """Appends `count` random ops, or fewer where they do not fit."""
    for _ in range(count):
        b.draw(st.sampled_from(b.ops))(b)
