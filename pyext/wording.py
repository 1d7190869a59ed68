"""Words for numbers, in messages and reports."""


def counted(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}{'s' * (number != 1)}"
