"""Words for numbers, in messages and reports."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `2 runs`; `plural` is that of nouns which take more than an `s`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def size_text(size: float) -> str:
    """Bytes in the largest decimal unit that fits, three digits: `4.19 MB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def flops_text(flops: float) -> str:
    """Floating-point operations in the largest unit that fits, three digits: `4.19 GFLOP`."""
    for unit, factor in (("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6), ("kFLOP", 1e3)):
        if flops >= factor:
            return f"{flops / factor:.3g} {unit}"
    return f"{flops:.0f} FLOP"


def seconds_text(seconds: float) -> str:
    """A time in the largest unit that fits, three digits: `4.19 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
